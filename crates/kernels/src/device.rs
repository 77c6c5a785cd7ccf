//! Devices, and what each computes with. Operations are in [`op`](crate::op), by family.

use crate::backend::Backend;
use crate::idle::Idle;
use crate::memory::{Home, Space};
use crate::reference::Reference;
use crate::{Cpu, KernelError};

/// Device that computes and owns memory; the only entry to this crate's arithmetic.
///
/// [`Device::Reference`] and [`Device::Cpu`] share host memory: a buffer made on one may be an operand on the other.
/// [`Device::Idle`] owns memory of its own kind. An operation refuses operands of another device's memory.
///
/// ```
/// use kernels::{Buffer, Device};
/// let x = Buffer::from_slice(&Device::Reference, &[1.0])?;
/// assert_eq!(Device::cpu(1)?.sum(&x)?, Some(1.0));
/// let refused = Device::Idle.sum(&x).unwrap_err().to_string();
/// assert_eq!(refused, "sum: x is in host memory, but the operation runs on idle; copy it there first");
/// # Ok::<(), kernels::KernelError>(())
/// ```
#[derive(Clone, Debug)]
pub enum Device {
    /// Slow, obvious, single-threaded: the specification of every operation.
    Reference,
    /// Threads on the host's cores.
    Cpu(Cpu),
    /// No arithmetic at all, for steps whose computations are only waited for: every operation checks its operands and gives
    /// its outputs their sizes. Memory for computing has a length and no contents, so that tables of any size fit: what is
    /// written is dropped, and reading fails. Memory for exchange ([`Device::for_exchange`]) is real, since what a
    /// transport moves must exist; operations leave its contents as they are.
    Idle,
}

impl Device {
    /// Makes a device of `threads` threads on the host's cores.
    pub fn cpu(threads: usize) -> Result<Device, KernelError> {
        Ok(Device::Cpu(Cpu::new(threads)?))
    }

    /// Name of the device, for messages: `reference`, `cpu` or `idle`.
    pub fn name(&self) -> &'static str {
        self.backend().name()
    }

    /// Space of the buffers that a transport moves to or from this device. Such memory always has contents.
    pub fn for_exchange(&self) -> Space {
        Space { home: self.home(), exchange: true }
    }

    /// Runs `work` inside the device's pool of threads. Everything a rank does in a step happens inside.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match self {
            Device::Reference | Device::Idle => work(),
            Device::Cpu(cpu) => cpu.enter(work),
        }
    }

    pub(crate) fn home(&self) -> Home {
        match self {
            Device::Reference | Device::Cpu(_) => Home::Host,
            Device::Idle => Home::Idle,
        }
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        match self {
            Device::Reference => &Reference,
            Device::Cpu(cpu) => cpu,
            Device::Idle => &Idle,
        }
    }
}
