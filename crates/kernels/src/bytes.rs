//! Raw memory on a device: what transports move.

use crate::memory::host::HostMemory;
use crate::memory::{Home, Memory, Space};
use crate::{Buffer, Element, KernelError};
use std::fs::File;

/// Raw memory in a [`Space`], aligned to 64 bytes.
#[derive(Debug)]
pub struct Bytes {
    space: Space,
    pub(crate) memory: Memory,
}

impl Bytes {
    /// Makes empty memory in `space`; allocates nothing.
    pub fn new(space: impl Into<Space>) -> Self {
        let space = space.into();
        Self { memory: Memory::empty(&space), space }
    }

    /// Makes `len` zero bytes in `space`.
    pub fn zeroed(space: impl Into<Space>, len: usize) -> Result<Self, KernelError> {
        let space = space.into();
        Ok(Self { memory: Memory::zeroed(&space, len)?, space })
    }

    /// Maps `len` zero bytes of a new file into the memory of the host.
    pub(crate) fn mapped(file: &File, len: usize) -> Result<Self, KernelError> {
        let space = Space { home: Home::Host, exchange: false };
        Ok(Self { memory: Memory::Host(HostMemory::mapped(file, len)?), space })
    }

    /// Takes all bytes out, and leaves empty memory in the same space.
    pub fn take(&mut self) -> Self {
        let empty = Self::new(&self.space);
        std::mem::replace(self, empty)
    }

    /// Space in which the bytes were made.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Number of bytes in use.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether no byte is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the bytes can be read and moved. Bytes for computing on [`Device::Idle`](crate::Device::Idle) cannot.
    pub fn has_contents(&self) -> bool {
        self.memory.has_contents()
    }

    /// Whether the bytes are in memory that the host can address.
    pub fn is_on_host(&self) -> bool {
        self.memory.contents().is_some()
    }

    /// Whether the bytes are in host memory that is not page-locked, or have no contents.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.memory, Memory::Host(_) | Memory::Absent(_))
    }

    /// Addresses of a copy of `len` bytes from `from`, starting at `from_at`, to `at`, wherever the memory is.
    pub(crate) fn addresses(
        &mut self,
        op: &'static str,
        at: usize,
        from: &Bytes,
        from_at: usize,
        len: usize,
    ) -> Result<(u64, u64), KernelError> {
        inside(op, from_at, len, from.len())?;
        inside(op, at, len, self.len())?;
        if !(self.has_contents() && from.has_contents()) {
            return Err(KernelError::NoContents { op });
        }
        let address = |memory: &Memory, at: usize| memory.address().addr() as u64 + at as u64;
        Ok((address(&self.memory, at), address(&from.memory, from_at)))
    }

    /// Address of the first byte, for a library that reads the bytes; null without contents. Moving this value does not
    /// move the bytes.
    ///
    /// The caller must guarantee that nobody writes the bytes while the library reads them, and that this value outlives
    /// the library's use of the address.
    pub fn as_ptr(&self) -> *const u8 {
        self.memory.address()
    }

    /// Address of the first byte, for a library that writes the bytes; null without contents. Moving this value does not
    /// move the bytes.
    ///
    /// The caller must guarantee exclusive access to the bytes while the library writes them, and that this value
    /// outlives the library's use of the address.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.address()
    }

    /// Copies `len` bytes of `from`, starting at `from_at`, to `at`. Fails past the end of either, and where one of them
    /// has no contents; the devices may differ.
    pub fn copy_from(
        &mut self,
        at: usize,
        from: &Bytes,
        from_at: usize,
        len: usize,
    ) -> Result<(), KernelError> {
        const OP: &str = "copy_from";
        inside(OP, from_at, len, from.len())?;
        inside(OP, at, len, self.len())?;
        if !(self.has_contents() && from.has_contents()) {
            return Err(KernelError::NoContents { op: OP });
        }
        match (self.memory.contents_mut(), from.memory.contents()) {
            (Some(to), Some(from)) => to[at..at + len].copy_from_slice(&from[from_at..from_at + len]),
            (Some(to), None) => {
                from.memory.read(from_at, &mut to[at..at + len])?;
            }
            (None, Some(from)) => self.memory.write(at, &from[from_at..from_at + len])?,
            (None, None) => {
                let mut host = vec![0; len];
                from.memory.read(from_at, &mut host)?;
                self.memory.write(at, &host)?;
            }
        }
        Ok(())
    }

    /// Bytes on the host, of an operand of a host device: checks let no other through.
    pub(crate) fn host(&self) -> &[u8] {
        self.memory.contents().unwrap_or_default()
    }

    /// Bytes on the host, to be written, of an operand of a host device.
    pub(crate) fn host_mut(&mut self) -> &mut [u8] {
        self.memory.contents_mut().unwrap_or_default()
    }

    /// Turns the memory into a buffer of `T`, without copying; bytes behind the last whole element are lost.
    pub fn into_buffer<T: Element>(self) -> Buffer<T> {
        Buffer::of_bytes(self)
    }
}

/// Refuses `len` elements from `at` on that are not all among `holds`.
pub(crate) fn inside(op: &'static str, at: usize, len: usize, holds: usize) -> Result<(), KernelError> {
    match at.checked_add(len) {
        Some(end) if end <= holds => Ok(()),
        _ => Err(KernelError::PastEnd { op, at, len, holds }),
    }
}
