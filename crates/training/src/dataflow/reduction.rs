//! The reduction of a dense gradient: its program, and what it carries from step to step.

use crate::Error;
use collectives::{Communicator, Completion, Label, Lossy, Pending, Prepared};
use kernels::{Buffer, Device, KernelError, Round};
use spec::dataflow::Deployment;
use spec::schedule::Collective;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reduction of a vector among the ranks of a group, over and over.
#[derive(Debug)]
pub struct Reduction {
    prepared: Arc<Prepared>,
    /// Errors of encodes that are carried to the next step; elsewhere while the reduction is under way.
    pub error: Buffer<f32>,
    pending: Option<Pending<(Buffer<f32>, Buffer<f32>)>>,
}

impl Reduction {
    /// Reduction that `rank` takes part in by a collective of a schedule; `None` stands for one that never happens.
    pub fn new(
        device: &Device,
        collective: Option<&Collective>,
        deployment: &Deployment,
        rank: usize,
    ) -> Result<Self, KernelError> {
        let prepared = collective.and_then(|collective| {
            let units = collective.traffic.reduced(deployment, rank)?.units(collective.traffic.codec());
            Some(Prepared::new(units, collective.program(deployment, rank)?).by(collective.algorithm))
        });
        let prepared = prepared.unwrap_or_default();
        let error = Buffer::zeroed(device.for_exchange(), prepared.program.error_len())?;
        Ok(Self { prepared: Arc::new(prepared), error, pending: None })
    }

    /// Lets the encodes and decodes of the reduction take `time` together, on a device that computes nothing.
    pub(crate) fn pace(&mut self, time: Duration) {
        Arc::make_mut(&mut self.prepared).pace(time);
    }

    /// Carries out the encodes and decodes of the reduction on `gradient`, and returns the time that they took, in
    /// seconds.
    pub(crate) fn rehearse(&self, device: &Device, gradient: &Buffer<f32>) -> Result<f64, KernelError> {
        if self.prepared.program.exchanges() == 0 {
            return Ok(0.0);
        }
        // The first time memory is cold.
        self.prepared.rehearse(device, gradient)?;
        let began = Instant::now();
        self.prepared.rehearse(device, gradient)?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Starts to reduce `gradient`, which is elsewhere until the reduction is finished.
    pub(super) fn start(
        &mut self,
        group: &Communicator,
        label: &Label,
        gradient: &mut Buffer<f32>,
        round: Round,
    ) -> Result<(), Error> {
        let lossy = Lossy { error: self.error.take(), round };
        self.pending = Some(group.start_all_reduce_by(label, &self.prepared, gradient.take(), lossy)?);
        Ok(())
    }

    /// Waits for the reduction under way and puts its buffers back; `None` where none is.
    pub(super) fn finish(&mut self, gradient: &mut Buffer<f32>) -> Result<Option<Completion>, Error> {
        let Some(pending) = self.pending.take() else { return Ok(None) };
        let ((error, sum), completion) = pending.wait_timed()?;
        (self.error, *gradient) = (error, sum);
        Ok(Some(completion))
    }
}
