//! Memory, the device it belongs to, and whether it has contents.
//!
//! | device | memory for computing | memory for exchange |
//! |---|---|---|
//! | `Reference`, `Cpu` | host memory, which both share | the same host memory |
//! | `Cuda` | memory of the card | the same memory of the card |
//! | `Idle` | a length without contents | host memory: what a transport moves must exist |

pub(crate) mod host;

use crate::cuda::memory::{CardMemory, PinnedMemory, Place, Pointer};
use crate::{Device, KernelError};
use host::HostMemory;

/// Device that memory belongs to. Devices that share memory have one home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// Host memory of [`Device::Reference`] and [`Device::Cpu`].
    Host,
    /// Memory of a card, for [`Device::Cuda`].
    Card(Place),
    /// Page-locked host memory, which a card copies from and to by itself.
    Pinned(Place),
    /// Memory of [`Device::Idle`].
    Idle,
}

impl Home {
    /// Name of the device, for messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Home::Card(_) => "cuda",
            Home::Pinned(_) => "page-locked host",
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
    /// Page-locked bytes that the host can address.
    Pinned(PinnedMemory),
    /// Bytes on a card.
    Card(CardMemory),
    /// A number of bytes, and no contents.
    Absent(usize),
}

impl Memory {
    pub(crate) fn empty(space: &Space) -> Self {
        match (&space.home, space.exchange) {
            (Home::Card(place), _) => Memory::Card(CardMemory::empty(place)),
            (Home::Pinned(place), _) => Memory::Pinned(PinnedMemory::empty(place)),
            (Home::Host, _) | (Home::Idle, true) => Memory::Host(HostMemory::empty()),
            (Home::Idle, false) => Memory::Absent(0),
        }
    }

    pub(crate) fn zeroed(space: &Space, len: usize) -> Result<Self, KernelError> {
        Ok(match (&space.home, space.exchange) {
            (Home::Card(place), _) => Memory::Card(CardMemory::zeroed(place, len)?),
            (Home::Pinned(place), _) => Memory::Pinned(PinnedMemory::zeroed(place, len)?),
            (Home::Host, _) | (Home::Idle, true) => Memory::Host(HostMemory::zeroed(len)?),
            (Home::Idle, false) => Memory::Absent(len),
        })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Memory::Host(memory) => memory.len(),
            Memory::Pinned(memory) => memory.len(),
            Memory::Card(memory) => memory.len(),
            Memory::Absent(len) => *len,
        }
    }

    pub(crate) fn resize(&mut self, new: usize) -> Result<(), KernelError> {
        match self {
            Memory::Host(memory) => memory.resize(new),
            Memory::Pinned(memory) => memory.resize(new),
            Memory::Card(memory) => memory.resize(new),
            Memory::Absent(len) => {
                *len = new;
                Ok(())
            }
        }
    }

    /// Bytes on the host; `None` where the host has none.
    pub(crate) fn contents(&self) -> Option<&[u8]> {
        match self {
            Memory::Host(memory) => Some(memory.as_slice()),
            Memory::Pinned(memory) => Some(memory.as_slice()),
            Memory::Card(_) | Memory::Absent(_) => None,
        }
    }

    /// Bytes on the host, to be written; `None` where the host has none.
    pub(crate) fn contents_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Memory::Host(memory) => Some(memory.as_mut_slice()),
            Memory::Pinned(memory) => Some(memory.as_mut_slice()),
            Memory::Card(_) | Memory::Absent(_) => None,
        }
    }

    /// Whether the bytes can be read and moved.
    pub(crate) fn has_contents(&self) -> bool {
        !matches!(self, Memory::Absent(_))
    }

    /// Memory of a card; `None` elsewhere.
    pub(crate) fn card(&self) -> Option<&CardMemory> {
        match self {
            Memory::Card(memory) => Some(memory),
            _ => None,
        }
    }

    /// Address by which a card reaches the memory: its own, or page-locked memory of the host; `None` elsewhere.
    pub(crate) fn on_card(&self) -> Option<Pointer> {
        match self {
            Memory::Card(memory) => Some(memory.address()),
            // Addresses are the same on the host and on the card.
            Memory::Pinned(memory) => Some(Pointer(memory.address() as u64)),
            Memory::Host(_) | Memory::Absent(_) => None,
        }
    }

    /// Copies bytes from `at` on to the host, from wherever they are. False where there are no contents.
    pub(crate) fn read(&self, at: usize, data: &mut [u8]) -> Result<bool, KernelError> {
        match (self.contents(), self.card()) {
            (Some(all), _) => data.copy_from_slice(&all[at..at + data.len()]),
            (_, Some(card)) => card.read(at, data)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Copies bytes of the host to `at`; they are dropped where there are no contents.
    pub(crate) fn write(&mut self, at: usize, data: &[u8]) -> Result<(), KernelError> {
        if let Some(all) = self.contents_mut() {
            all[at..at + data.len()].copy_from_slice(data);
        } else if let Memory::Card(card) = self {
            card.write(at, data)?;
        }
        Ok(())
    }

    /// Address of the first byte, on the host or on a card; null where there are no contents.
    pub(crate) fn address(&self) -> *mut u8 {
        match self {
            Memory::Host(memory) => memory.address(),
            Memory::Pinned(memory) => memory.address(),
            // An address that the host cannot follow, for libraries that know the card.
            Memory::Card(memory) => std::ptr::without_provenance_mut(memory.address().0 as usize),
            Memory::Absent(_) => std::ptr::null_mut(),
        }
    }
}
