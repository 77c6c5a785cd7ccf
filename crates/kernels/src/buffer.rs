//! Typed memory on a device.
//!
//! [`Bytes`] is raw memory (what transports move), [`Buffer`] gives it a type. Turning one into the other moves, never
//! copies. Nothing above this crate looks inside: data goes in and out through [`Buffer::write`] and [`Buffer::read`],
//! so that a buffer on an accelerator needs no change there.

use crate::bytes::inside;
use crate::cuda::memory::Pointer;
use crate::memory::Space;
use crate::{Bytes, KernelError};
use std::fs::File;
use std::marker::PhantomData;

/// Type of the elements of a [`Buffer`].
pub trait Element: bytemuck::Pod + Send + Sync + PartialEq + std::fmt::Debug {
    /// Name of the type, for messages.
    const NAME: &'static str;
}

impl Element for u8 {
    const NAME: &'static str = "u8";
}
impl Element for u16 {
    const NAME: &'static str = "u16";
}
impl Element for u32 {
    const NAME: &'static str = "u32";
}
impl Element for u64 {
    const NAME: &'static str = "u64";
}
impl Element for f32 {
    const NAME: &'static str = "f32";
}
impl Element for f64 {
    const NAME: &'static str = "f64";
}

/// How a buffer stores its elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stored {
    /// One after another, each as it is.
    #[default]
    Plain,
    /// Floats as bf16, in rows of `width`. Each row is padded with zeros to 16 bytes, so that matrix units can read it.
    Bf16Rows {
        /// Number of floats of a row.
        width: usize,
    },
    /// Floats as bf16, in panels of 32 rows of `width`, as matrix units of a CPU read them: every 32 columns of a panel lie together, row by
    /// row. Rows and columns are padded with zeros to multiples of 32.
    Bf16Panels {
        /// Number of floats of a row.
        width: usize,
        /// Whether each float is stored as two bf16, an upper and a lower part whose sum it nearly is: the upper parts of 32 × 32 floats, then
        /// their lower parts.
        split: bool,
    },
}

/// Rows of a panel, and columns of its steps.
pub(crate) const PANEL: usize = 32;

/// How panels of bf16 lie in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PanelLayout {
    /// Numbers of a row: columns, those of zeros too, times parts.
    row: usize,
    /// Whether each float has an upper and a lower part.
    pub split: bool,
}

impl PanelLayout {
    /// The layout of rows of `width` floats.
    pub(crate) fn new(width: usize, split: bool) -> Self {
        Self { row: width.next_multiple_of(PANEL).saturating_mul(1 + usize::from(split)), split }
    }

    /// Numbers of so many rows, those of zeros too.
    pub(crate) fn numbers(self, rows: usize) -> usize {
        rows.checked_next_multiple_of(PANEL).unwrap_or(usize::MAX).saturating_mul(self.row)
    }

    /// Numbers of 32 × 32 floats.
    pub(crate) fn block(self) -> usize {
        PANEL * PANEL * (1 + usize::from(self.split))
    }

    /// Where the 32 columns from `column` on, a multiple of 32, of a row are: those of upper parts where there are two. Lower ones are
    /// 32 × 32 numbers further on.
    pub(crate) fn line(self, row: usize, column: usize) -> usize {
        debug_assert!(column.is_multiple_of(PANEL));
        row / PANEL * PANEL * self.row + column / PANEL * self.block() + row % PANEL * PANEL
    }
}

impl Stored {
    /// Elements from row to row, of rows of `width`.
    pub(crate) fn stride(width: usize) -> usize {
        width.next_multiple_of(8)
    }
}

/// Elements of type `T` on a device. Keeps its capacity when it shrinks, so that a step after warm-up allocates nothing.
///
/// A buffer remembers the [`Space`] it was made in; growing allocates there.
///
/// ```
/// use kernels::{Buffer, Device};
/// let mut buffer = Buffer::<f32>::new(&Device::cpu(1)?);
/// buffer.resize(3)?;
/// buffer.write(0, &[1.0, 2.0, 3.0])?;
/// assert_eq!(buffer.to_vec()?, [1.0, 2.0, 3.0]);
/// let refused = buffer.write(2, &[4.0, 5.0]).unwrap_err().to_string();
/// assert_eq!(refused, "write: 2 elements at offset 2 exceed the buffer of 3 elements");
/// # Ok::<(), kernels::KernelError>(())
/// ```
#[derive(Debug)]
pub struct Buffer<T> {
    pub(crate) bytes: Bytes,
    len: usize,
    stored: Stored,
    element: PhantomData<T>,
}

impl Buffer<f32> {
    /// Makes room for `rows` rows of `width` floats, stored as a device keeps them ([`Device::keeps`](crate::Device::keeps)).
    /// Unless the buffer was stored so before, its contents are unspecified; the padding of rows is zero, that of panels once something is
    /// written there.
    ///
    /// ```
    /// use kernels::{Buffer, Device};
    /// let device = Device::cpu(1)?;
    /// let mut buffer = Buffer::<f32>::new(&device);
    /// buffer.resize_rows(device.keeps(3), 2, 3)?;
    /// assert_eq!(buffer.len(), 6);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn resize_rows(&mut self, stored: Stored, rows: usize, width: usize) -> Result<(), KernelError> {
        let elements = rows.saturating_mul(width);
        match stored {
            Stored::Plain => return self.resize(elements),
            Stored::Bf16Rows { width: kept } => {
                assert_eq!(kept, width, "rows are stored in their width");
                let bytes = rows.saturating_mul(Stored::stride(width)).saturating_mul(size_of::<u16>());
                if self.stored != stored || self.bytes.len() < bytes {
                    // Padding is written here and never again.
                    self.bytes = Bytes::zeroed(self.space().clone(), bytes)?;
                }
            }
            Stored::Bf16Panels { width: kept, split } => {
                assert_eq!(kept, width, "rows are stored in their width");
                let numbers = PanelLayout::new(width, split).numbers(rows);
                // Padding is written with every block.
                self.bytes.memory.resize(numbers.saturating_mul(size_of::<u16>()))?;
            }
        }
        (self.len, self.stored) = (elements, stored);
        Ok(())
    }

    /// Panels of bf16 on the host, of a buffer that stores its rows so.
    pub(crate) fn host_panels(&self) -> &[u16] {
        self.bytes.memory.contents().map(bytemuck::cast_slice).unwrap_or_default()
    }

    /// Panels of bf16 on the host, to be written.
    pub(crate) fn host_panels_mut(&mut self) -> &mut [u16] {
        self.bytes.memory.contents_mut().map(bytemuck::cast_slice_mut).unwrap_or_default()
    }
}

impl<T: Element> Buffer<T> {
    /// Makes an empty buffer in `space`; allocates nothing.
    pub fn new(space: impl Into<Space>) -> Self {
        Self { bytes: Bytes::new(space), len: 0, stored: Stored::Plain, element: PhantomData }
    }

    /// Makes `len` zeros in `space`.
    pub fn zeroed(space: impl Into<Space>, len: usize) -> Result<Self, KernelError> {
        let bytes = Bytes::zeroed(space, bytes_of::<T>(len)?)?;
        Ok(Self { bytes, len, stored: Stored::Plain, element: PhantomData })
    }

    /// Makes `len` zeros in a new file that is mapped into the memory of the host: the operating system keeps in memory what it sees fit.
    pub fn mapped(file: &File, len: usize) -> Result<Self, KernelError> {
        let bytes = Bytes::mapped(file, bytes_of::<T>(len)?)?;
        Ok(Self { bytes, len, stored: Stored::Plain, element: PhantomData })
    }

    /// Makes a copy of `data` in `space`; the contents are dropped where the space keeps none.
    pub fn from_slice(space: impl Into<Space>, data: &[T]) -> Result<Self, KernelError> {
        let mut buffer = Self::zeroed(space, data.len())?;
        buffer.write(0, data)?;
        Ok(buffer)
    }

    /// Gives raw memory a type.
    pub(crate) fn of_bytes(bytes: Bytes) -> Self {
        let len = bytes.len() / size_of::<T>();
        Self { bytes, len, stored: Stored::Plain, element: PhantomData }
    }

    /// Takes all elements out, and leaves an empty buffer in the same space.
    pub fn take(&mut self) -> Self {
        let (len, stored) = (std::mem::take(&mut self.len), std::mem::take(&mut self.stored));
        Self { bytes: self.bytes.take(), len, stored, element: PhantomData }
    }

    /// How the elements are stored.
    pub fn stored(&self) -> Stored {
        self.stored
    }

    /// Space in which the buffer was made.
    pub fn space(&self) -> &Space {
        self.bytes.space()
    }

    /// Number of elements in use.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no element is in use.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets the number of elements in use. Contents up to the new length stay; the values of new elements are unspecified.
    /// Allocates only when the capacity is too small.
    pub fn resize(&mut self, len: usize) -> Result<(), KernelError> {
        self.bytes.memory.resize(bytes_of::<T>(len)?)?;
        (self.len, self.stored) = (len, Stored::Plain);
        Ok(())
    }

    /// Copies `data` from the host to the elements from `at` on. The data is dropped where the buffer keeps no contents.
    pub fn write(&mut self, at: usize, data: &[T]) -> Result<(), KernelError> {
        self.plain("write")?;
        inside("write", at, data.len(), self.len)?;
        self.bytes.memory.write(at * size_of::<T>(), bytemuck::cast_slice(data))
    }

    /// Copies elements from `at` on to the host as bytes, which need no alignment: as many elements as `bytes` has room for.
    pub fn read_bytes(&self, at: usize, bytes: &mut [u8]) -> Result<(), KernelError> {
        self.plain("read")?;
        inside("read", at, bytes.len() / size_of::<T>(), self.len)?;
        match self.bytes.memory.read(at * size_of::<T>(), bytes)? {
            true => Ok(()),
            false => Err(KernelError::NoContents { op: "read" }),
        }
    }

    /// Copies bytes of the host, which need no alignment, to the elements from `at` on.
    pub fn write_bytes(&mut self, at: usize, bytes: &[u8]) -> Result<(), KernelError> {
        self.plain("write")?;
        inside("write", at, bytes.len() / size_of::<T>(), self.len)?;
        self.bytes.memory.write(at * size_of::<T>(), bytes)
    }

    /// Fills `len` elements from `at` on, block after block: `fill(i, block)` gets the offset of the block, counted from
    /// `at`, and writes all of it. Blocks hold `block` elements, the last what is left of `len`. A buffer that keeps no
    /// contents does not call `fill`.
    ///
    /// ```
    /// use kernels::{Buffer, Device};
    /// let mut buffer = Buffer::<u32>::zeroed(&Device::Reference, 5)?;
    /// buffer.write_blocks(1, 4, 3, |first, block| block.fill(first as u32 + 7))?;
    /// assert_eq!(buffer.to_vec()?, [0, 7, 7, 7, 10]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn write_blocks(
        &mut self,
        at: usize,
        len: usize,
        block: usize,
        mut fill: impl FnMut(usize, &mut [T]),
    ) -> Result<(), KernelError> {
        self.plain("write_blocks")?;
        inside("write_blocks", at, len, self.len)?;
        if let Some(all) = self.contents_mut() {
            let block = block.max(1);
            for (i, part) in all[at..at + len].chunks_mut(block).enumerate() {
                fill(i * block, part);
            }
        } else if self.has_contents() {
            let block = block.clamp(1, len.max(1));
            let mut host = vec![T::zeroed(); block];
            for first in (0..len).step_by(block) {
                let part = &mut host[..block.min(len - first)];
                fill(first, part);
                self.write(at + first, part)?;
            }
        }
        Ok(())
    }

    /// Copies elements from `at` on to the host. Fails past the end, and if the buffer keeps no contents.
    pub fn read(&self, at: usize, data: &mut [T]) -> Result<(), KernelError> {
        self.plain("read")?;
        inside("read", at, data.len(), self.len)?;
        match self.bytes.memory.read(at * size_of::<T>(), bytemuck::cast_slice_mut(data))? {
            true => Ok(()),
            false => Err(KernelError::NoContents { op: "read" }),
        }
    }

    /// Copies all elements to the host. Fails if the buffer keeps no contents.
    pub fn to_vec(&self) -> Result<Vec<T>, KernelError> {
        if !self.has_contents() {
            return Err(KernelError::NoContents { op: "to_vec" });
        }
        let mut all = vec![T::zeroed(); self.len];
        match self.stored {
            Stored::Plain => self.read(0, &mut all)?,
            Stored::Bf16Rows { width } => self.read_bf16(width, bytemuck::cast_slice_mut(&mut all))?,
            Stored::Bf16Panels { width, split } => {
                self.read_panels(width, split, bytemuck::cast_slice_mut(&mut all))?;
            }
        }
        Ok(all)
    }

    /// Copies all floats, of a buffer that stores them as panels of bf16.
    fn read_panels(&self, width: usize, split: bool, all: &mut [f32]) -> Result<(), KernelError> {
        let layout = PanelLayout::new(width, split);
        let mut panels = vec![0u16; layout.numbers(all.len().checked_div(width).unwrap_or(0))];
        self.bytes.memory.read(0, bytemuck::cast_slice_mut(&mut panels))?;
        for (row, floats) in all.chunks_exact_mut(width.max(1)).enumerate() {
            for (column, to) in floats.iter_mut().enumerate() {
                let upper = layout.line(row, column / PANEL * PANEL) + column % PANEL;
                let part = |at: usize| f32::from_bits(u32::from(panels[at]) << 16);
                *to = part(upper);
                // A zero added to a number in one part would turn -0 into 0.
                if split {
                    *to += part(upper + PANEL * PANEL);
                }
            }
        }
        Ok(())
    }

    /// Copies all floats to the host, of a buffer that stores them as bf16 in rows of `width`.
    fn read_bf16(&self, width: usize, all: &mut [f32]) -> Result<(), KernelError> {
        let stride = Stored::stride(width);
        let mut stored = vec![0u16; all.len().checked_div(width).unwrap_or(0) * stride];
        self.bytes.memory.read(0, bytemuck::cast_slice_mut(&mut stored))?;
        for (floats, row) in all.chunks_exact_mut(width.max(1)).zip(stored.chunks_exact(stride.max(1))) {
            floats.iter_mut().zip(row).for_each(|(to, &bits)| *to = f32::from_bits(u32::from(bits) << 16));
        }
        Ok(())
    }

    /// Refuses elements that are not stored as they are.
    pub(crate) fn plain(&self, op: &'static str) -> Result<(), KernelError> {
        if self.stored == Stored::Plain { Ok(()) } else { Err(KernelError::StoredAsRows { op }) }
    }

    /// Turns the buffer into raw memory, without copying.
    pub fn into_bytes(self) -> Bytes {
        assert_eq!(self.stored, Stored::Plain, "rows of bf16 never travel");
        self.bytes
    }

    /// Whether the elements can be read; those for computing on [`Device::Idle`](crate::Device::Idle) cannot.
    pub fn has_contents(&self) -> bool {
        self.bytes.has_contents()
    }

    /// Copies the bytes of elements from `at` on to the host, where they have contents.
    pub(crate) fn copy_bytes(&self, at: usize, data: &mut [u8]) -> Result<(), KernelError> {
        inside("read", at, data.len() / size_of::<T>(), self.len)?;
        self.bytes.memory.read(at * size_of::<T>(), data).map(|_| ())
    }

    /// Address on the card, of a buffer that an operation of a card was given: checks let no other through.
    pub(crate) fn card_address(&self) -> Pointer {
        self.bytes.memory.on_card().unwrap_or(Pointer::NULL)
    }

    /// Address on the card of element `at`, with `len` elements behind it; an error where the buffer is elsewhere.
    pub(crate) fn card_range(&self, op: &'static str, at: usize, len: usize) -> Result<Pointer, KernelError> {
        inside(op, at, len, self.len)?;
        let lives = self.space().home.name();
        let card = self.bytes.memory.card();
        let card = card.ok_or(KernelError::OtherDevice { op, operand: "buffer", lives, runs: "cuda" })?;
        Ok(card.address().plus(at * size_of::<T>()))
    }

    /// Elements on the host, of a buffer that an operation of a host device was given: checks let no other through.
    pub(crate) fn host(&self) -> &[T] {
        self.contents().unwrap_or_default()
    }

    /// Elements on the host, to be written, of a buffer that an operation of a host device was given.
    pub(crate) fn host_mut(&mut self) -> &mut [T] {
        self.contents_mut().unwrap_or_default()
    }

    /// Address of the first element. The caller must guarantee that no reference to what it writes exists.
    pub(crate) fn address(&self) -> *mut T {
        self.bytes.memory.address().cast()
    }

    fn contents(&self) -> Option<&[T]> {
        self.bytes.memory.contents().map(|bytes| bytemuck::cast_slice(&bytes[..self.len * size_of::<T>()]))
    }

    fn contents_mut(&mut self) -> Option<&mut [T]> {
        let bytes = self.len * size_of::<T>();
        self.bytes.memory.contents_mut().map(|all| bytemuck::cast_slice_mut(&mut all[..bytes]))
    }
}

/// Bytes of `len` elements, if they can be counted.
fn bytes_of<T>(len: usize) -> Result<usize, KernelError> {
    len.checked_mul(size_of::<T>()).ok_or(KernelError::OutOfMemory { bytes: usize::MAX })
}
