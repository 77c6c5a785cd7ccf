//! What a rank needs of NCCL, as two small traits, so that all above them can be tested on machines without GPUs.

use crate::transport::Span;
use kernels::{Bytes, Device, KernelError, NCCL_ID_BYTES, Nccl, NcclCommunicator, NcclId};
use std::sync::Arc;

type Result<T = ()> = std::result::Result<T, KernelError>;

/// What joins the members of a group.
pub(crate) type Id = [u8; NCCL_ID_BYTES];

/// A card, as ranks tell each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Card {
    /// Identity that no other card has.
    pub(crate) identity: [u8; 16],
    /// Number of the card on its machine.
    pub(crate) index: usize,
}

/// A library that joins ranks.
pub(crate) trait Fabric: Send + Sync {
    /// Card of a device.
    fn card(&self, device: &Device) -> Result<Card>;

    /// Makes what joins the members of a new group.
    fn new_id(&self) -> Result<Id>;

    /// Joins the group of `size` members that `id` names as member `me`. Returns when all members have come.
    fn join(&self, device: &Device, id: &Id, size: usize, me: usize) -> Result<Arc<dyn Link>>;
}

/// One member's end of a group. Operations are queued on the queue of `device`, in the same order by all members.
pub(crate) trait Link: Send + Sync {
    /// Queues an exchange of the range `to[i]` of `send` to member `i`, and of `from[i]` of `recv` from it.
    fn exchange(&self, device: &Device, send: &Bytes, to: &[Span], recv: &mut Bytes, from: &[Span])
    -> Result;

    /// Queues the sum of the first floats of `vector` over all members, in an order of the library's own.
    fn sum(&self, device: &Device, vector: &mut Bytes, floats: usize) -> Result;

    /// Fails if the library has met an error since an operation was queued.
    fn check(&self) -> Result;

    /// Ends all operations under way, and the link. May be called by any thread.
    fn abort(&self);

    /// Ends the link once all members are done. An error then harms nobody.
    fn close(&self);
}

impl Fabric for Nccl {
    fn card(&self, device: &Device) -> Result<Card> {
        match device {
            Device::Cuda(cuda) => Ok(Card { identity: cuda.gpu().identity()?, index: cuda.gpu().index() }),
            other => {
                let name = other.name();
                Err(KernelError::Device(format!(
                    "NCCL moves memory of GPUs, but the rank computes on {name}; use another transport, or a GPU"
                )))
            }
        }
    }

    fn new_id(&self) -> Result<Id> {
        Ok(Nccl::new_id(self)?.0)
    }

    fn join(&self, device: &Device, id: &Id, size: usize, me: usize) -> Result<Arc<dyn Link>> {
        Ok(Arc::new(Nccl::join(self, device, &NcclId(*id), size, me)?))
    }
}

impl Link for NcclCommunicator {
    fn exchange(
        &self,
        device: &Device,
        send: &Bytes,
        to: &[Span],
        recv: &mut Bytes,
        from: &[Span],
    ) -> Result {
        let (to, from) = (to.iter().map(Span::range), from.iter().map(Span::range));
        NcclCommunicator::exchange(self, device, send, to, recv, from)
    }

    fn sum(&self, device: &Device, vector: &mut Bytes, floats: usize) -> Result {
        self.all_reduce(device, vector, floats)
    }

    fn check(&self) -> Result {
        NcclCommunicator::check(self)
    }

    fn abort(&self) {
        NcclCommunicator::abort(self);
    }

    fn close(&self) {
        let _ = NcclCommunicator::close(self);
    }
}
