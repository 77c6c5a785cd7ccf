//! NCCL: memory that GPUs exchange and add up by themselves, as work of a queue.
//!
//! Rules of NCCL that callers keep, since a rank alone cannot check them:
//! - Every member of a communicator must join it, together: [`Nccl::join`] returns when all have come.
//! - Every member must queue the same operations on a communicator in the same order, with lengths that match.
//! - A rank with several communicators must queue their operations in an order that all ranks share, and one must be done on the
//!   device before the next begins: otherwise two cards may each wait for the operation that the other has not begun.
//! - A card belongs to one rank of a communicator: NCCL refuses a second one ("Duplicate GPU detected").
//! - An operation that some member never queues never ends, and neither does the queue, until [`NcclCommunicator::abort`].

mod functions;

use super::Cuda;
use super::gpu::Gpu;
use crate::bytes::inside;
use crate::memory::Home;
use crate::{Bytes, Device, KernelError};
use functions::{BYTES, FLOATS, Functions, SUM, UniqueId};
use std::ffi::{c_int, c_void};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How long an abort waits for another thread's call to return before it interrupts the call.
const PATIENCE: Duration = Duration::from_secs(2);
const NAP: Duration = Duration::from_millis(1);

/// Number of bytes of an [`NcclId`].
pub const NCCL_ID_BYTES: usize = 128;

/// The NCCL library of this machine. Clones share it.
#[derive(Clone)]
pub struct Nccl(Arc<Functions>);

/// What joins the members of a communicator: made by one of them, and told to all others as bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NcclId(pub [u8; NCCL_ID_BYTES]);

/// One rank's end of a group of ranks with a GPU each. All calls of a rank's communicators must come from one thread at a time;
/// [`check`](Self::check) and [`abort`](Self::abort) may be called by any.
pub struct NcclCommunicator {
    nccl: Arc<Functions>,
    gpu: Gpu,
    size: usize,
    /// Handle; null once the communicator was aborted.
    raw: AtomicPtr<c_void>,
    /// Held during every call with the handle.
    calls: Mutex<()>,
}

impl Nccl {
    /// Opens the library. Fails with one sentence where it is missing or too old.
    pub fn load() -> Result<Self, KernelError> {
        Functions::load().map(|functions| Self(Arc::new(functions)))
    }

    /// Makes the id of a new communicator.
    pub fn new_id(&self) -> Result<NcclId, KernelError> {
        let mut id = UniqueId([0; NCCL_ID_BYTES]);
        // SAFETY: the call writes one id.
        let outcome = unsafe { (self.0.get_unique_id)(&mut id) };
        self.0.check("ncclGetUniqueId", outcome)?;
        Ok(NcclId(id.0))
    }

    /// Joins the communicator of `size` members that `id` names as member `rank`, with the card of `device`. Returns when all
    /// members have come.
    pub fn join(
        &self,
        device: &Device,
        id: &NcclId,
        size: usize,
        rank: usize,
    ) -> Result<NcclCommunicator, KernelError> {
        let cuda = on_card("nccl join", device)?;
        let number = |number: usize| {
            c_int::try_from(number).map_err(|_| KernelError::Device(format!("NCCL counts no {number} ranks")))
        };
        let (members, me) = (number(size)?, number(rank)?);
        cuda.gpu().bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the card is this thread's; the call writes one handle, which is destroyed or aborted once.
        let outcome = unsafe { (self.0.init_rank)(&mut raw, members, UniqueId(id.0), me) };
        self.0.check("ncclCommInitRank", outcome)?;
        Ok(NcclCommunicator {
            nccl: self.0.clone(),
            gpu: cuda.gpu().clone(),
            size,
            raw: AtomicPtr::new(raw),
            calls: Mutex::new(()),
        })
    }
}

impl NcclCommunicator {
    /// Queues an exchange on the queue of `device`: bytes `to[i]` of `send` go to member `i`, and bytes `from[i]` of `recv` come
    /// from it; member `i` expects and sends as many. Both memories must stay alive and unchanged by others until the queue is
    /// done with them.
    pub fn exchange<I: ExactSizeIterator<Item = Range<usize>> + Clone>(
        &self,
        device: &Device,
        send: &Bytes,
        to: I,
        recv: &mut Bytes,
        from: I,
    ) -> Result<(), KernelError> {
        const OP: &str = "nccl exchange";
        let cuda = self.queue_of(OP, device, &[("send", send), ("recv", recv)])?;
        for (ranges, held) in [(to.clone(), send.len()), (from.clone(), recv.len())] {
            if ranges.len() != self.size {
                let (expected, got) = (self.size, ranges.len());
                return Err(KernelError::Mismatch { op: OP, what: "ranges, one a member", expected, got });
            }
            for range in ranges {
                inside(OP, range.start, range.len(), held)?;
            }
        }
        // Nothing is sent or expected by pairs that agree on no bytes.
        let parts = |ranges: I| ranges.enumerate().filter(|(_, range)| !range.is_empty());
        if parts(to.clone()).chain(parts(from.clone())).next().is_none() {
            return Ok(());
        }
        cuda.place().flush()?;
        let (source, target, stream) = (send.as_ptr(), recv.as_mut_ptr(), cuda.stream().queue().raw());
        let (nccl, comm) = (&*self.nccl, self.comm()?);
        cuda.counters().launched();
        // SAFETY: the handle is alive while `comm` holds it, ranges lie inside the memories, which are on this card, and callers
        // keep them until the queue is done. A group that was begun is ended, also after an error.
        unsafe {
            nccl.check("ncclGroupStart", (nccl.group_start)())?;
            let sends = parts(to).try_for_each(|(member, range)| {
                let from = source.add(range.start).cast();
                let queued = (nccl.send)(from, range.len(), BYTES, member as c_int, comm.raw, stream);
                nccl.check("ncclSend", queued)
            });
            let receives = parts(from).try_for_each(|(member, range)| {
                let to = target.add(range.start).cast();
                let queued = (nccl.recv)(to, range.len(), BYTES, member as c_int, comm.raw, stream);
                nccl.check("ncclRecv", queued)
            });
            let ended = nccl.check("ncclGroupEnd", (nccl.group_end)());
            sends.and(receives).and(ended)
        }
    }

    /// Queues the replacement of the first `floats` floats of `vector` by their sums over all members, in an order that NCCL
    /// chooses. The memory must stay alive and unchanged by others until the queue is done with it.
    pub fn all_reduce(&self, device: &Device, vector: &mut Bytes, floats: usize) -> Result<(), KernelError> {
        const OP: &str = "nccl all_reduce";
        let cuda = self.queue_of(OP, device, &[("vector", vector)])?;
        inside(OP, 0, floats.saturating_mul(size_of::<f32>()), vector.len())?;
        if floats == 0 {
            return Ok(());
        }
        cuda.place().flush()?;
        let (memory, stream) = (vector.as_mut_ptr().cast::<c_void>(), cuda.stream().queue().raw());
        let comm = self.comm()?;
        cuda.counters().launched();
        // SAFETY: the handle is alive while `comm` holds it, and the floats lie inside the memory, which is on this card, aligned
        // to 256 bytes, and kept by callers until the queue is done. NCCL adds in place where both addresses are the same.
        let outcome =
            unsafe { (self.nccl.all_reduce)(memory, memory, floats, FLOATS, SUM, comm.raw, stream) };
        self.nccl.check("ncclAllReduce", outcome)
    }

    /// Fails if the communicator has met an error on the way, such as a member that is gone. Such an operation never ends.
    pub fn check(&self) -> Result<(), KernelError> {
        let Some(_calls) = self.try_calls() else { return Ok(()) };
        let raw = self.raw.load(Ordering::Acquire);
        if raw.is_null() {
            return Ok(());
        }
        let mut met = 0;
        // SAFETY: the handle is alive while the lock is held; the call writes one number.
        let outcome = unsafe { (self.nccl.async_error)(raw, &mut met) };
        self.nccl.check("ncclCommGetAsyncError", outcome)?;
        self.nccl.check("NCCL, while ranks communicated", met)
    }

    /// Ends all operations under way with whatever they have done so far, and the communicator with them. Queues go on, so that
    /// nobody waits for them any more; what operations should have written is unspecified. Other members must abort too.
    pub fn abort(&self) {
        // Another thread may be stuck inside a call, waiting for a member that never comes.
        let begun = Instant::now();
        let calls = loop {
            match self.try_calls() {
                None if begun.elapsed() < PATIENCE => std::thread::sleep(NAP),
                other => break other,
            }
        };
        let raw = self.raw.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !raw.is_null() && self.gpu.bind().is_ok() {
            // SAFETY: the handle is alive, and nobody gets it after this. Without the lock another thread is inside its last call
            // with it, which an abort by another thread makes return: that is what NCCL has it for.
            let _ = unsafe { (self.nccl.abort)(raw) };
        }
        drop(calls);
    }

    /// Ends the communicator once its operations are done. All members must do so.
    pub fn close(&self) -> Result<(), KernelError> {
        let _calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let raw = self.raw.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if raw.is_null() {
            return Ok(());
        }
        self.gpu.bind()?;
        // SAFETY: the handle is alive, and nobody gets it after this.
        let outcome = unsafe { (self.nccl.destroy)(raw) };
        self.nccl.check("ncclCommDestroy", outcome)
    }

    /// The device whose queue an operation goes to, if it and all operands are of this communicator's card.
    fn queue_of<'a>(
        &self,
        op: &'static str,
        device: &'a Device,
        operands: &[(&'static str, &Bytes)],
    ) -> Result<&'a Cuda, KernelError> {
        let cuda = on_card(op, device)?;
        if !cuda.gpu().is(&self.gpu) {
            let (mine, other) = (self.gpu.index(), cuda.gpu().index());
            let problem = format!("{op}: the communicator is on GPU {mine}, but the queue on GPU {other}");
            return Err(KernelError::Device(problem));
        }
        for &(operand, bytes) in operands {
            let home = &bytes.space().home;
            if !matches!(home, Home::Card(place) if place.gpu.is(&self.gpu)) {
                return Err(KernelError::OtherDevice { op, operand, lives: home.name(), runs: "cuda" });
            }
        }
        cuda.gpu().bind()?;
        Ok(cuda)
    }

    /// The handle, for one call or one group of calls.
    fn comm(&self) -> Result<Held<'_>, KernelError> {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let raw = self.raw.load(Ordering::Acquire);
        if raw.is_null() {
            return Err(KernelError::Device("NCCL's communicator was aborted".into()));
        }
        Ok(Held { raw, _calls: calls })
    }

    fn try_calls(&self) -> Option<MutexGuard<'_, ()>> {
        match self.calls.try_lock() {
            Ok(calls) => Some(calls),
            Err(TryLockError::Poisoned(calls)) => Some(calls.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The handle of a communicator, which nobody else uses meanwhile.
struct Held<'a> {
    raw: functions::Comm,
    _calls: MutexGuard<'a, ()>,
}

impl Drop for NcclCommunicator {
    /// Aborts what was not closed: after a failure the other members may be gone.
    fn drop(&mut self) {
        self.abort();
    }
}

impl fmt::Debug for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nccl")
    }
}

impl fmt::Debug for NcclId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NcclId")
    }
}

impl fmt::Debug for NcclCommunicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NcclCommunicator of {} ranks on GPU {}", self.size, self.gpu.index())
    }
}

/// The GPU of a device.
fn on_card<'a>(op: &'static str, device: &'a Device) -> Result<&'a Cuda, KernelError> {
    match device {
        Device::Cuda(cuda) => Ok(cuda),
        other => Err(KernelError::Device(format!("{op}: NCCL works between GPUs, not on {}", other.name()))),
    }
}
