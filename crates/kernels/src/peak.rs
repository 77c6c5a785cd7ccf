//! Peak rates of a device: what phases and operations are read against.
//!
//! | | on the CPU | on a GPU |
//! |---|---|---|
//! | products | a loop of the same instructions on registers | the best of a few large square products |
//! | stream | reading, and copying past the caches | reading, and copying within the card |
//! | random rows | bare loops that read, or change, rows | kernels that do nothing else |

mod product;
mod rows;

pub use crate::cpu::peak::{Memory, Stream, gather, products, stream, update};
pub use product::{BareProduct, products_of};
pub use rows::{Touch, touch_rows};

use crate::cuda::peak::CardPeaks;
use crate::{Device, KernelError};

/// Memory of a device that bare loops run over, one round at a time: for measurements that take turns with others.
///
/// ```
/// use kernels::Device;
/// use kernels::peak::DeviceMemory;
/// let mut memory = DeviceMemory::new(&Device::cpu(1)?, 4 << 20)?;
/// assert!(memory.stream()?.copy > 1e6);
/// assert!(memory.gather(512)? > 1e6);
/// # Ok::<(), kernels::KernelError>(())
/// ```
#[derive(Debug)]
pub struct DeviceMemory(Kind);

#[derive(Debug)]
enum Kind {
    Host(Box<Memory>),
    Card(Box<CardPeaks>),
}

impl DeviceMemory {
    /// Allocates and writes about `bytes` bytes on `device`.
    pub fn new(device: &Device, bytes: usize) -> Result<Self, KernelError> {
        Ok(Self(match device {
            Device::Cuda(cuda) => Kind::Card(Box::new(CardPeaks::new(cuda, bytes)?)),
            Device::Cpu(cpu) => Kind::Host(Box::new(Memory::new(bytes, cpu.threads())?)),
            Device::Reference | Device::Idle => Kind::Host(Box::new(Memory::new(bytes, 1)?)),
        }))
    }

    /// Streaming bandwidth: all of it is read once, and half of it is copied to the other half.
    pub fn stream(&mut self) -> Result<Stream, KernelError> {
        match &mut self.0 {
            Kind::Host(memory) => Ok(memory.stream()),
            Kind::Card(card) => card.stream(),
        }
    }

    /// Bytes a second of random rows of `row_bytes` that are read, in one round.
    pub fn gather(&mut self, row_bytes: usize) -> Result<f64, KernelError> {
        match &mut self.0 {
            Kind::Host(memory) => Ok(memory.gather(row_bytes)),
            Kind::Card(card) => card.random_rows(Touch::Read, row_bytes),
        }
    }

    /// Bytes a second of random rows of `row_bytes` that are read, changed and written back, in one round.
    pub fn update(&mut self, row_bytes: usize) -> Result<f64, KernelError> {
        match &mut self.0 {
            Kind::Host(memory) => Ok(memory.update(row_bytes)),
            Kind::Card(card) => card.random_rows(Touch::Change, row_bytes),
        }
    }

    /// Fills the caches of a GPU with other contents, in the queue of the device. Nothing on the host, where a round that needs cold
    /// caches takes other rows.
    pub fn flush(&mut self) -> Result<(), KernelError> {
        match &mut self.0 {
            Kind::Host(_) => Ok(()),
            Kind::Card(card) => card.flush(),
        }
    }
}
