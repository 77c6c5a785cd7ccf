//! Work that a device is given in one piece.

use crate::{Cuda, KernelError};

/// Work of a rank's queues that is collected while this value lives, and given to the device by [`Collected::submit`].
///
/// A GPU carries out work that repeats (the same kernels and copies, but for arguments of a few kernels) as one graph, without the
/// host in between. Work that is new is queued as usual. What needs the device meanwhile, such as reading a buffer, ends the collection
/// early; nothing is lost. Dropped without being submitted, as after an error, the work that was collected is not done.
///
/// On devices whose operations are done when they return there is nothing to collect.
///
/// ```
/// use kernels::{Buffer, Device};
/// let device = Device::cpu(1)?;
/// let (x, mut y) = (Buffer::from_slice(&device, &[0.0f32])?, Buffer::zeroed(&device, 1)?);
/// let step = device.collect();
/// device.sigmoid(1, &x, &mut y)?;
/// assert!(!step.submit(true)?, "a CPU replays nothing");
/// assert_eq!(y.to_vec()?, [0.5]);
/// # Ok::<(), kernels::KernelError>(())
/// ```
#[derive(Debug)]
#[must_use = "what was collected is done when it is submitted"]
pub struct Collected {
    cuda: Option<Cuda>,
}

impl Collected {
    pub(crate) fn begin(cuda: Option<Cuda>) -> Self {
        if let Some(cuda) = &cuda {
            cuda.place().of_rank.replay.collect();
        }
        Self { cuda }
    }

    /// Gives the work to the device: as a graph, if it `may` and the same work was submitted before. Returns whether it did.
    pub fn submit(mut self, may: bool) -> Result<bool, KernelError> {
        let Some(cuda) = self.cuda.take() else { return Ok(false) };
        let place = cuda.place();
        place.of_rank.replay.submit(&place.gpu, &place.of_rank.counters, may)
    }
}

impl Drop for Collected {
    fn drop(&mut self) {
        if let Some(cuda) = &self.cuda {
            cuda.place().of_rank.replay.discard();
        }
    }
}
