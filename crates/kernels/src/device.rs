//! Devices, and what each computes with. Operations are in [`op`](crate::op), by family.

use crate::backend::Backend;
use crate::idle::Idle;
use crate::memory::{Home, Space};
use crate::reference::Reference;
use crate::{Bytes, Collected, Counts, Cpu, Cuda, Event, Gpu, KernelError, Stored};
use ground::precision::Precision;

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
    /// One rank's use of an NVIDIA GPU. Operations are queued and return; the host waits where it reads.
    Cuda(Cuda),
    /// No arithmetic at all, for steps whose computations are only waited for: every operation checks its operands and gives
    /// its outputs their sizes. Memory for computing has a length and no contents, so that tables of any size fit: what is
    /// written is dropped, and reading fails. Memory for exchange ([`Device::for_exchange`]) is real, since what a
    /// transport moves must exist; operations leave its contents as they are.
    Idle,
}

impl Device {
    /// Makes a device of `threads` threads on the host's cores, whose products are computed in f32.
    pub fn cpu(threads: usize) -> Result<Device, KernelError> {
        Ok(Device::Cpu(Cpu::new(threads)?))
    }

    /// Makes a device of queues on `gpu`, whose products are computed in `precision`.
    pub fn cuda(gpu: &Gpu, precision: Precision) -> Result<Device, KernelError> {
        Ok(Device::Cuda(Cuda::new(gpu, precision)?))
    }

    /// The device (pool of threads, memory, queues) with products in `precision`. [`Device::Reference`] and [`Device::Idle`]
    /// know f32 only and stay as they are.
    ///
    /// ```
    /// use kernels::Device;
    /// use ground::precision::Precision;
    /// let device = Device::cpu(1)?;
    /// assert_eq!(device.precision(), Precision::F32);
    /// assert_eq!(device.in_precision(Precision::Bf16).precision(), Precision::Bf16);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn in_precision(&self, precision: Precision) -> Device {
        match self {
            Device::Cpu(cpu) => Device::Cpu(cpu.in_precision(precision)),
            Device::Cuda(cuda) => Device::Cuda(cuda.in_precision(precision)),
            Device::Reference | Device::Idle => self.clone(),
        }
    }

    /// Precision of products.
    pub fn precision(&self) -> Precision {
        match self {
            Device::Cpu(cpu) => cpu.precision(),
            Device::Cuda(cuda) => cuda.precision(),
            Device::Reference | Device::Idle => Precision::F32,
        }
    }

    /// How the device keeps rows of `width` floats that products of its precision write and read: a GPU that computes in bf16
    /// keeps rows of bf16.
    ///
    /// ```
    /// use kernels::{Device, Stored};
    /// assert_eq!(Device::cpu(1)?.keeps(8), Stored::Plain);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn keeps(&self, width: usize) -> Stored {
        match self {
            Device::Cuda(cuda) if cuda.precision() == Precision::Bf16 && width > 1 => {
                Stored::Bf16Rows { width }
            }
            _ => Stored::Plain,
        }
    }

    /// How the device keeps rows of `width` floats between two layers of a chain, which a layer of `above` outputs reads and nothing else:
    /// as [`Device::keeps`] says, or as panels of bf16 on CPU cores whose products are made of bf16.
    ///
    /// ```
    /// use kernels::{Device, Stored};
    /// assert_eq!(Device::cpu(1)?.keeps_hidden(8, 4), Stored::Plain);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn keeps_hidden(&self, width: usize, above: usize) -> Stored {
        match self.panels() {
            // A layer of one output is a dot product, which reads floats.
            Some(split) if width > 1 && above > 1 => Stored::Bf16Panels { width, split },
            _ => self.keeps(width),
        }
    }

    /// Whether the device's products read panels of bf16, and then whether those are split into two parts.
    pub(crate) fn panels(&self) -> Option<bool> {
        match self {
            Device::Cpu(cpu) => cpu.panels(),
            _ => None,
        }
    }

    /// Name of the device, for messages: `reference`, `cpu`, `cuda` or `idle`.
    pub fn name(&self) -> &'static str {
        self.backend().name()
    }

    /// Space of the buffers that a transport moves to or from this device. Such memory always has contents.
    pub fn for_exchange(&self) -> Space {
        Space { home: self.home(), exchange: true }
    }

    /// Space of plain host memory, whatever the device: for what the host needs too.
    pub fn host(&self) -> Space {
        match self {
            // What is sent must exist.
            Device::Idle => self.for_exchange(),
            _ => Space { home: Home::Host, exchange: true },
        }
    }

    /// Space of host memory that a device copies from and to by itself: page-locked where the device is a GPU.
    pub fn pinned(&self) -> Space {
        match self {
            Device::Cuda(cuda) => Space { home: Home::Pinned(cuda.place().clone()), exchange: true },
            _ => self.host(),
        }
    }

    /// The device with its operations in queue `queue`, one of five that run beside each other: 0 for computations, 1 for
    /// exchanges, 2 for gradients, 3 for inputs, 4 for what no computation of a step waits for. Devices whose operations are done when
    /// they return have no queues.
    pub fn on(&self, queue: usize) -> Device {
        match self {
            Device::Cuda(cuda) => Device::Cuda(cuda.on(queue)),
            _ => self.clone(),
        }
    }

    /// Number of the queue that operations go to; 0 on devices without queues.
    pub fn queue(&self) -> usize {
        match self {
            Device::Cuda(cuda) => cuda.queue(),
            _ => 0,
        }
    }

    /// Whether operations are queued, and return before their work is done.
    pub fn is_queued(&self) -> bool {
        matches!(self, Device::Cuda(_))
    }

    /// Makes an event, which is past until it is recorded.
    pub fn event(&self) -> Result<Event, KernelError> {
        match self {
            Device::Cuda(cuda) => Ok(Event(Some(crate::cuda::stream::CardEvent::new(cuda.place())?))),
            _ => Ok(Event(None)),
        }
    }

    /// As [`Device::event`], but for waits between queues and for times alone. While the device replays work that was
    /// [collected](Device::collect), such an event is not recorded.
    pub fn event_between_queues(&self) -> Result<Event, KernelError> {
        match self {
            Device::Cuda(cuda) => {
                Ok(Event(Some(crate::cuda::stream::CardEvent::between_queues(cuda.place())?)))
            }
            _ => Ok(Event(None)),
        }
    }

    /// Collects the work of the rank's queues from now on, instead of queueing it, until it is submitted. See [`Collected`].
    pub fn collect(&self) -> Collected {
        let cuda = match self {
            Device::Cuda(cuda) => Some(cuda.clone()),
            _ => None,
        };
        Collected::begin(cuda)
    }

    /// Records `event` behind all work so far of the device's queue.
    pub fn record(&self, event: &Event) -> Result<(), KernelError> {
        match (self, &event.0) {
            (Device::Cuda(cuda), Some(event)) => event.record(cuda.stream()),
            _ => Ok(()),
        }
    }

    /// Lets later work of the device's queue begin after `event`, which may be another rank's. The host does not wait.
    pub fn wait(&self, event: &Event) -> Result<(), KernelError> {
        match (self, &event.0) {
            (Device::Cuda(cuda), Some(event)) => cuda.stream().wait(event),
            (_, Some(event)) => event.synchronise(),
            _ => Ok(()),
        }
    }

    /// Copies `len` bytes of `from`, starting at `from_at`, to `at` of `to`, in the device's queue; at once where both are host
    /// memory. Fails past the end of either, and where one of them has no contents. Memory of a GPU must stay alive and
    /// unchanged by others until the queue is done with it.
    pub fn copy(
        &self,
        to: &mut Bytes,
        at: usize,
        from: &Bytes,
        from_at: usize,
        len: usize,
    ) -> Result<(), KernelError> {
        match self {
            Device::Cuda(cuda) if !(to.is_plain() && from.is_plain()) => {
                let (to, from) = to.addresses("copy", at, from, from_at, len)?;
                cuda.stream().copy(to, from, len)
            }
            _ => to.copy_from(at, from, from_at, len),
        }
    }

    /// Waits for all work of the device, and fails with the first fault that an operation met after it had returned: contents
    /// of operands can be checked by a GPU only. Host devices check before they return.
    pub fn check(&self) -> Result<(), KernelError> {
        match self {
            Device::Cuda(cuda) => cuda.check(),
            _ => Ok(()),
        }
    }

    /// Waits for all work of the device.
    pub fn synchronise(&self) -> Result<(), KernelError> {
        match self {
            Device::Cuda(cuda) => cuda.synchronise(),
            _ => Ok(()),
        }
    }

    /// Counts of allocations, waits and launches so far; zeros on host devices.
    pub fn counts(&self) -> Counts {
        match self {
            Device::Cuda(cuda) => cuda.counters().read(),
            _ => Counts::default(),
        }
    }

    pub(crate) fn home(&self) -> Home {
        match self {
            Device::Reference | Device::Cpu(_) => Home::Host,
            Device::Idle => Home::Idle,
            Device::Cuda(cuda) => Home::Card(cuda.place().clone()),
        }
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        match self {
            Device::Reference => &Reference,
            Device::Cpu(cpu) => cpu,
            Device::Cuda(cuda) => cuda,
            Device::Idle => &Idle,
        }
    }
}
