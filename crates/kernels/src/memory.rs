//! Memory, the device it belongs to, and whether it has contents.
//!
//! | device | memory for computing | memory for exchange |
//! |---|---|---|
//! | `Reference`, `Cpu` | host memory, which both share | the same host memory |
//! | `Idle` | a length without contents | host memory: what a transport moves must exist |

pub(crate) mod host;

use crate::{Device, KernelError};
use host::HostMemory;

/// Device that memory belongs to. Devices that share memory have one home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// Host memory of [`Device::Reference`] and [`Device::Cpu`].
    Host,
    /// Memory of [`Device::Idle`].
    Idle,
}

impl Home {
    /// Name of the device, for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Home::Host => "host",
            Home::Idle => "idle",
        }
    }
}

/// Space in which a buffer is made: a device, and the use of the buffer.
///
/// A `&Device` converts into the space for computing on that device; [`Device::for_exchange`] returns the space of buffers
/// that a transport moves.
///
/// ```
/// use kernels::{Buffer, Device};
/// let computed = Buffer::<f32>::zeroed(&Device::Idle, 1 << 40)?; // 4 TiB that take no memory.
/// assert!(computed.to_vec().is_err());
/// let sent = Buffer::from_slice(Device::Idle.for_exchange(), &[1u32, 2])?;
/// assert_eq!(sent.to_vec()?, [1, 2]);
/// # Ok::<(), kernels::KernelError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    pub(crate) home: Home,
    pub(crate) exchange: bool,
}

impl From<&Device> for Space {
    fn from(device: &Device) -> Self {
        Self { home: device.home(), exchange: false }
    }
}

impl From<&Space> for Space {
    fn from(space: &Space) -> Self {
        space.clone()
    }
}

/// Owned bytes in a [`Space`].
#[derive(Debug)]
pub(crate) enum Memory {
    /// Bytes that the host can address.
    Host(HostMemory),
    /// A number of bytes, and no contents.
    Absent(usize),
}

impl Memory {
    pub(crate) fn empty(space: &Space) -> Self {
        match (space.home, space.exchange) {
            (Home::Host, _) | (Home::Idle, true) => Memory::Host(HostMemory::empty()),
            (Home::Idle, false) => Memory::Absent(0),
        }
    }

    pub(crate) fn zeroed(space: &Space, len: usize) -> Result<Self, KernelError> {
        Ok(match Self::empty(space) {
            Memory::Host(_) => Memory::Host(HostMemory::zeroed(len)?),
            Memory::Absent(_) => Memory::Absent(len),
        })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Memory::Host(memory) => memory.len(),
            Memory::Absent(len) => *len,
        }
    }

    pub(crate) fn resize(&mut self, new: usize) -> Result<(), KernelError> {
        match self {
            Memory::Host(memory) => memory.resize(new),
            Memory::Absent(len) => {
                *len = new;
                Ok(())
            }
        }
    }

    /// Bytes on the host; `None` where there are no contents.
    pub(crate) fn contents(&self) -> Option<&[u8]> {
        match self {
            Memory::Host(memory) => Some(memory.as_slice()),
            Memory::Absent(_) => None,
        }
    }

    /// Bytes on the host, to be written; `None` where there are no contents.
    pub(crate) fn contents_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Memory::Host(memory) => Some(memory.as_mut_slice()),
            Memory::Absent(_) => None,
        }
    }

    /// Address of the first byte; null where there are no contents.
    pub(crate) fn address(&self) -> *mut u8 {
        match self {
            Memory::Host(memory) => memory.address(),
            Memory::Absent(_) => std::ptr::null_mut(),
        }
    }
}
