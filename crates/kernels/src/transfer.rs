//! Data between the host and a device, queued like any other work: inputs on their way to a device, results on their way back.

use crate::cuda::memory::PinnedMemory;
use crate::{Buffer, Cuda, Device, Element, Event, KernelError};
use rayon::prelude::*;
use std::marker::PhantomData;
use std::ops::Range;

/// One batch's inputs on their way to a device, through one page-locked buffer.
///
/// ```
/// use kernels::{Buffer, Device, Upload};
/// let device = Device::cpu(1)?;
/// let (mut upload, mut buffer) = (Upload::default(), Buffer::zeroed(&device, 3)?);
/// upload.begin(&device, 16)?;
/// upload.write(&mut buffer, 1, &[5.0f32, 6.0])?;
/// upload.end()?;
/// assert_eq!(buffer.to_vec()?, [0.0, 5.0, 6.0]);
/// # Ok::<(), kernels::KernelError>(())
/// ```
#[derive(Debug, Default)]
pub struct Upload {
    card: Option<CardUpload>,
}

#[derive(Debug)]
struct CardUpload {
    cuda: Cuda,
    memory: PinnedMemory,
    used: usize,
    /// Past once the page-locked buffer has been read.
    done: Event,
    under_way: bool,
}

impl Upload {
    /// Begins to collect at most `bytes` bytes for `device`, on whose queue they travel. The host waits for the upload before,
    /// if it is still under way.
    pub fn begin(&mut self, device: &Device, bytes: usize) -> Result<(), KernelError> {
        let Device::Cuda(cuda) = device else {
            self.card = None;
            return Ok(());
        };
        let card = match self.card.take() {
            Some(card) => card,
            None => CardUpload {
                memory: PinnedMemory::empty(cuda.place()),
                used: 0,
                done: device.event()?,
                under_way: false,
                cuda: cuda.clone(),
            },
        };
        let card = self.card.insert(CardUpload { cuda: cuda.clone(), ..card });
        if std::mem::take(&mut card.under_way) && !card.done.is_past()? {
            card.done.synchronise()?;
        }
        // Every piece begins at a multiple of 64 bytes.
        card.memory.resize(bytes.saturating_add(64 * PIECES))?;
        card.used = 0;
        Ok(())
    }

    /// Copies `data` to the elements of `buffer` from `at` on.
    pub fn write<T: Element>(
        &mut self,
        buffer: &mut Buffer<T>,
        at: usize,
        data: &[T],
    ) -> Result<(), KernelError> {
        self.write_pieces(buffer, at, std::iter::once(data))
    }

    /// Copies `pieces`, one behind the other, to the elements of `buffer` from `at` on.
    pub fn write_pieces<'a, T: Element>(
        &mut self,
        buffer: &mut Buffer<T>,
        mut at: usize,
        pieces: impl Iterator<Item = &'a [T]> + Clone,
    ) -> Result<(), KernelError> {
        let Some(card) = &mut self.card else {
            for piece in pieces {
                buffer.write(at, piece)?;
                at += piece.len();
            }
            return Ok(());
        };
        let elements = pieces.clone().map(<[T]>::len).sum::<usize>();
        let (to, from) = (buffer.card_range("upload", at, elements)?, card.used);
        let (bytes, room) = (elements * size_of::<T>(), card.memory.len());
        if from + bytes > room {
            return Err(KernelError::PastEnd { op: "upload", at: from, len: bytes, holds: room });
        }
        collect(&mut card.memory.as_mut_slice()[from..from + bytes], pieces);
        card.used = (from + bytes).next_multiple_of(64);
        card.cuda.stream().copy(to.0, card.memory.address().wrapping_add(from) as u64, bytes)
    }

    /// Ends the batch: its buffer is free once the queue is here.
    pub fn end(&mut self) -> Result<(), KernelError> {
        let Some(card) = &mut self.card else { return Ok(()) };
        card.under_way = true;
        Device::Cuda(card.cuda.clone()).record(&card.done)
    }
}

/// The most bytes that a thread copies at a time.
const AT_A_TIME: usize = 1 << 17;
/// Bytes from which on several threads copy: less is copied before they are awake. Batches come out of the caches of other cores, so
/// that one thread takes longer for a large batch of DLRM than an H200 takes to train on it.
const LONG: usize = 1 << 21;

/// Copies `pieces` one behind the other to `to`, by several threads where they are long.
fn collect<'a, T: Element>(mut to: &mut [u8], pieces: impl Iterator<Item = &'a [T]>) {
    let mut copies = Vec::with_capacity(64);
    for part in pieces.flat_map(|piece| bytemuck::cast_slice::<T, u8>(piece).chunks(AT_A_TIME)) {
        let (here, rest) = to.split_at_mut(part.len());
        copies.push((here, part));
        to = rest;
    }
    let copy = |(to, from): (&mut [u8], &[u8])| to.copy_from_slice(from);
    match copies.iter().map(|(to, _)| to.len()).sum::<usize>() >= LONG {
        true => copies.into_par_iter().for_each(copy),
        false => copies.into_iter().for_each(copy),
    }
}

/// Pieces of an upload for whose alignment there is room.
const PIECES: usize = 16;

/// Results on their way to the host, with the faults that operations met on the device until then.
///
/// ```
/// use kernels::{Buffer, Device, Download};
/// let device = Device::cpu(1)?;
/// let buffer = Buffer::from_slice(&device, &[1.0f32, 2.0, 3.0])?;
/// let mut download = Download::default();
/// download.begin(&device)?;
/// let part = download.add(&buffer, 1..3)?;
/// download.end()?;
/// // Other work may be queued here.
/// download.wait()?;
/// let mut two = [0.0; 2];
/// assert!(download.read(&part, &mut two)?);
/// assert_eq!(two, [2.0, 3.0]);
/// # Ok::<(), kernels::KernelError>(())
/// ```
#[derive(Debug, Default)]
pub struct Download {
    /// Contents on host devices.
    host: Vec<u8>,
    card: Option<CardDownload>,
    /// Offset of each part; `None` for parts without contents.
    parts: Vec<Option<usize>>,
    used: usize,
    under_way: bool,
}

#[derive(Debug)]
struct CardDownload {
    cuda: Cuda,
    memory: PinnedMemory,
    done: Event,
}

/// Elements of type `T` in a [`Download`].
#[derive(Debug)]
pub struct Part<T> {
    index: usize,
    len: usize,
    element: PhantomData<T>,
}

impl Download {
    /// Begins to collect results on `device`'s queue. The download before must have been waited for.
    pub fn begin(&mut self, device: &Device) -> Result<(), KernelError> {
        self.parts.clear();
        self.used = 0;
        match device {
            Device::Cuda(cuda) => {
                let card = match self.card.take() {
                    Some(card) => CardDownload { cuda: cuda.clone(), ..card },
                    None => CardDownload {
                        memory: PinnedMemory::empty(cuda.place()),
                        done: device.event()?,
                        cuda: cuda.clone(),
                    },
                };
                self.used = size_of::<[u64; crate::cuda::FAULT_WORDS]>().next_multiple_of(64);
                self.card.insert(card).memory.resize(self.used)?;
            }
            _ => {
                self.card = None;
                self.host.clear();
            }
        }
        Ok(())
    }

    /// Adds elements of a buffer, and gives the part to read them by.
    pub fn add<T: Element>(
        &mut self,
        buffer: &Buffer<T>,
        range: Range<usize>,
    ) -> Result<Part<T>, KernelError> {
        let bytes = range.len() * size_of::<T>();
        let at = self.used;
        self.parts.push(Some(at));
        let part = Part { index: self.parts.len() - 1, len: range.len(), element: PhantomData };
        match &mut self.card {
            Some(card) => {
                let from = buffer.card_range("download", range.start, range.len())?;
                // Growing waits for the copies that were queued before it.
                card.memory.resize(at + bytes)?;
                let to = card.memory.address().wrapping_add(at) as u64;
                card.cuda.stream().copy(to, from.0, bytes)?;
            }
            None if buffer.has_contents() => {
                self.host.resize(at + bytes, 0);
                buffer.copy_bytes(range.start, &mut self.host[at..])?;
            }
            None => self.parts[part.index] = None,
        }
        self.used = (at + bytes).next_multiple_of(64);
        if self.card.is_none() {
            self.host.resize(self.used, 0);
        }
        Ok(part)
    }

    /// Ends the collection; the faults so far travel with it.
    pub fn end(&mut self) -> Result<(), KernelError> {
        self.under_way = true;
        let Some(card) = &self.card else { return Ok(()) };
        let bytes = size_of::<[u64; crate::cuda::FAULT_WORDS]>();
        card.cuda.stream().copy(card.memory.address() as u64, card.cuda.faults().0, bytes)?;
        Device::Cuda(card.cuda.clone()).record(&card.done)
    }

    /// Waits until everything has arrived. Fails with the first fault that an operation met before.
    pub fn wait(&mut self) -> Result<(), KernelError> {
        if !std::mem::take(&mut self.under_way) {
            return Ok(());
        }
        let Some(card) = &self.card else { return Ok(()) };
        card.done.synchronise()?;
        let mut words = [0u64; crate::cuda::FAULT_WORDS];
        let bytes = size_of_val(&words);
        bytemuck::bytes_of_mut(&mut words).copy_from_slice(&card.memory.as_slice()[..bytes]);
        match card.cuda.fault(&words) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Copies a part that has arrived into as many elements of `data`. False where the part has no contents, since its device
    /// computes nothing.
    pub fn read<T: Element>(&self, part: &Part<T>, data: &mut [T]) -> Result<bool, KernelError> {
        let Some(&Some(at)) = self.parts.get(part.index) else { return Ok(false) };
        crate::bytes::inside("download", 0, data.len(), part.len)?;
        let all = self.card.as_ref().map_or(&self.host[..], |card| card.memory.as_slice());
        let bytes = size_of_val(data);
        bytemuck::cast_slice_mut(data).copy_from_slice(&all[at..at + bytes]);
        Ok(true)
    }
}
