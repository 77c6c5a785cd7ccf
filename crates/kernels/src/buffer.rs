//! Memory that lives on a device.
//!
//! [`Bytes`] is raw memory (what transports move), [`Buffer`] a typed view that owns it. Turning one into the other
//! moves, never copies. Nothing above this crate looks inside: data goes in and out through [`Buffer::write`] and
//! [`Buffer::read`], so that a buffer on an accelerator needs no change there.

use crate::cpu::memory::Memory;
use crate::{Device, KernelError};
use std::marker::PhantomData;

/// What a buffer may hold.
pub trait Element: bytemuck::Pod + Send + Sync + PartialEq + std::fmt::Debug {
    /// The type's name, for messages.
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

/// Raw memory on a device, aligned to 64 bytes.
#[derive(Debug)]
pub struct Bytes {
    memory: Memory,
}

impl Bytes {
    /// No memory at all.
    pub const fn empty() -> Self {
        Self { memory: Memory::empty() }
    }

    /// Bytes in use.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether no byte is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the bytes begin, for a library that moves them. Moving this value does not move them.
    pub fn as_ptr(&self) -> *const u8 {
        self.memory.address()
    }

    /// As [`Bytes::as_ptr`], to write through. Who does so answers for nobody else looking meanwhile.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.address()
    }

    /// Copies `len` bytes of `from`, starting at `from_at`, to `at`. Panics past either end.
    pub fn copy_from(&mut self, at: usize, from: &Bytes, from_at: usize, len: usize) {
        self.memory.as_mut_slice()[at..at + len]
            .copy_from_slice(&from.memory.as_slice()[from_at..from_at + len]);
    }

    /// The memory as elements of type `T`; a length that is no multiple of `T` loses the rest.
    pub fn into_buffer<T: Element>(self) -> Buffer<T> {
        let len = self.len() / size_of::<T>();
        Buffer { bytes: self, len, element: PhantomData }
    }
}

/// Elements of type `T` on a device. Keeps its capacity when it shrinks, so that a step after warm-up allocates nothing.
#[derive(Debug)]
pub struct Buffer<T> {
    bytes: Bytes,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    /// No elements, no memory.
    pub const fn empty() -> Self {
        Self { bytes: Bytes::empty(), len: 0, element: PhantomData }
    }

    /// `len` zeros on `device`.
    pub fn zeroed(device: &Device, len: usize) -> Result<Self, KernelError> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(KernelError::OutOfMemory { bytes: usize::MAX })?;
        let memory = match device {
            Device::Reference | Device::Cpu(_) | Device::Idle => Memory::zeroed(bytes)?,
        };
        Ok(Self { bytes: Bytes { memory }, len, element: PhantomData })
    }

    /// A copy of `data` on `device`.
    pub fn from_slice(device: &Device, data: &[T]) -> Result<Self, KernelError> {
        let mut buffer = Self::zeroed(device, data.len())?;
        buffer.write(0, data);
        Ok(buffer)
    }

    /// Elements in use.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no element is in use.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets the number of elements in use. Old contents up to the new length stay; new elements hold anything.
    /// Allocates only when the capacity is too small.
    pub fn resize(&mut self, len: usize) -> Result<(), KernelError> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or(KernelError::OutOfMemory { bytes: usize::MAX })?;
        self.bytes.memory.resize(bytes)?;
        self.len = len;
        Ok(())
    }

    /// Copies `data` from the host to `at`. Panics past the end.
    pub fn write(&mut self, at: usize, data: &[T]) {
        self.host_mut()[at..at + data.len()].copy_from_slice(data);
    }

    /// Copies elements from `at` on to the host. Panics past the end.
    pub fn read(&self, at: usize, data: &mut [T]) {
        data.copy_from_slice(&self.host()[at..at + data.len()]);
    }

    /// All elements, on the host.
    pub fn to_vec(&self) -> Vec<T> {
        self.host().to_vec()
    }

    /// Gives up the type.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    pub(crate) fn host(&self) -> &[T] {
        bytemuck::cast_slice(&self.bytes.memory.as_slice()[..self.len * size_of::<T>()])
    }

    /// Where the elements begin. Who writes through it answers for nobody else looking.
    pub(crate) fn address(&self) -> *mut T {
        self.bytes.memory.address().cast()
    }

    pub(crate) fn host_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.bytes.memory.as_mut_slice()[..self.len * size_of::<T>()])
    }
}

impl<T: Element> Default for Buffer<T> {
    fn default() -> Self {
        Self::empty()
    }
}
