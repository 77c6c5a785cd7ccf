//! Small arrays of the host that kernels read, and memory that belongs to a queue.
//!
//! Arrays that repeat from step to step (columns, table descriptors) are kept on the card by content, so that a step after
//! warm-up copies none of them. Arrays that change (segments of a batch) go through a ring of page-locked memory.

use super::Cuda;
use super::memory::{CardMemory, PinnedMemory, Place, Pointer};
use super::stream::{CardEvent, Stream};
use crate::KernelError;
use std::collections::HashMap;

/// Arrays that are kept; beyond it all are forgotten, since something changes that was thought to repeat.
const KEPT: usize = 4096;

/// Bytes of each half of the ring at first.
const HALF: usize = 1 << 20;

/// Purposes of a queue's own memory. What one operation leaves there, the next operation of the queue may overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scratch {
    /// Workspace of matrix products.
    Workspace,
    /// First operand of a product, converted.
    Left,
    /// Second operand of a product, converted.
    Right,
    /// Values stored otherwise than their buffer stores them.
    Converted,
    /// Partial sums.
    Sums,
    /// Shares of a product's sums.
    Parts,
    /// Keys being sorted.
    Keys,
    /// Histograms of a sort.
    Histogram,
    /// Heads and tiles of runs of rows.
    Runs,
}

/// Arrays and scratch memory of one rank.
#[derive(Debug)]
pub(crate) struct Arrays {
    place: Place,
    kept: HashMap<Box<[u8]>, CardMemory>,
    ring: Option<Ring>,
    /// Rings that were too small.
    outgrown: Vec<Ring>,
    scratch: HashMap<(usize, Scratch), CardMemory>,
}

/// Page-locked memory and memory of the card side by side, in two halves that take turns.
#[derive(Debug)]
struct Ring {
    host: PinnedMemory,
    card: CardMemory,
    half: usize,
    /// Bytes of the current half that are in use.
    used: usize,
    current: usize,
    /// For each half and queue: past once the work that was queued while the half filled up is done.
    left: [Vec<CardEvent>; 2],
}

impl Arrays {
    pub(crate) fn new(place: &Place) -> Self {
        Self {
            place: place.clone(),
            kept: HashMap::new(),
            ring: None,
            outgrown: Vec::new(),
            scratch: HashMap::new(),
        }
    }

    fn constant(&mut self, bytes: &[u8]) -> Result<Pointer, KernelError> {
        if let Some(memory) = self.kept.get(bytes) {
            return Ok(memory.address());
        }
        if self.kept.len() >= KEPT {
            self.kept.clear();
        }
        let mut memory = CardMemory::allocate(&self.place, bytes.len())?;
        memory.write(0, bytes)?;
        let address = memory.address();
        self.kept.insert(bytes.into(), memory);
        Ok(address)
    }

    fn transient(&mut self, bytes: &[u8], queue: usize, streams: &[Stream]) -> Result<Pointer, KernelError> {
        let needed = bytes.len().next_multiple_of(16);
        if self.ring.as_ref().is_none_or(|ring| ring.half < needed) {
            // Kept for as long as the rank lives: the operation at hand may use arrays in it.
            self.outgrown.extend(self.ring.take());
            self.ring = Some(Ring::new(&self.place, needed.next_power_of_two().max(HALF), streams.len())?);
        }
        let ring = self.ring.as_mut().expect("the ring was just made");
        if ring.used + needed > ring.half {
            ring.turn(streams)?;
        }
        let at = ring.current * ring.half + ring.used;
        ring.used += needed;
        ring.host.as_mut_slice()[at..at + bytes.len()].copy_from_slice(bytes);
        let to = ring.card.address().plus(at);
        // The ring has `at + needed` bytes.
        streams[queue].copy(to.0, ring.host.address().wrapping_add(at) as u64, bytes.len())?;
        Ok(to)
    }

    fn scratch(&mut self, queue: usize, purpose: Scratch, bytes: usize) -> Result<Pointer, KernelError> {
        let place = &self.place;
        let memory = self.scratch.entry((queue, purpose)).or_insert_with(|| CardMemory::empty(place));
        if memory.len() < bytes {
            // Replaced rather than resized, which would copy contents that nobody needs.
            let grown = CardMemory::allocate(place, bytes.saturating_add(bytes / 4).next_multiple_of(256))?;
            *memory = grown;
        }
        Ok(memory.address())
    }
}

impl Ring {
    fn new(place: &Place, half: usize, queues: usize) -> Result<Self, KernelError> {
        let events = || (0..queues).map(|_| CardEvent::new(place)).collect::<Result<Vec<_>, _>>();
        Ok(Self {
            host: PinnedMemory::zeroed(place, 2 * half)?,
            card: CardMemory::allocate(place, 2 * half)?,
            half,
            used: 0,
            current: 0,
            left: [events()?, events()?],
        })
    }

    /// Goes on in the other half, once the work that uses it is done.
    fn turn(&mut self, streams: &[Stream]) -> Result<(), KernelError> {
        for (event, stream) in self.left[self.current].iter().zip(streams) {
            event.record(stream)?;
        }
        (self.current, self.used) = (1 - self.current, 0);
        for event in &self.left[self.current] {
            // The host is a whole half ahead of the device only if nothing else holds it back.
            if !event.is_past()? {
                event.synchronise()?;
            }
        }
        Ok(())
    }
}

impl Cuda {
    /// Device copy of an array that repeats from step to step.
    pub(crate) fn constant<T: bytemuck::NoUninit>(&self, array: &[T]) -> Result<Pointer, KernelError> {
        match bytemuck::cast_slice(array) {
            [] => Ok(Pointer::NULL),
            bytes => self.arrays().constant(bytes),
        }
    }

    /// Device copy of an array that changes from step to step, for kernels of this queue.
    pub(crate) fn transient<T: bytemuck::NoUninit>(&self, array: &[T]) -> Result<Pointer, KernelError> {
        match bytemuck::cast_slice(array) {
            [] => Ok(Pointer::NULL),
            bytes => self.arrays().transient(bytes, self.queue(), self.streams()),
        }
    }

    /// At least `bytes` bytes of this queue's memory for a purpose. Growing waits for the device, at warm-up.
    pub(crate) fn scratch(&self, purpose: Scratch, bytes: usize) -> Result<Pointer, KernelError> {
        self.arrays().scratch(self.queue(), purpose, bytes)
    }
}
