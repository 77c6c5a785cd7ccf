//! Loss and predictions of a step on their way from the device to the host.
//!
//! On a device whose operations are queued they are fetched while the next step runs, so that the host never waits for the step
//! that it has just queued.

use kernels::{Buffer, Device, Download, KernelError, Part};

/// Loss and predictions of the last steps, on their way to the host. Those of a step travel while the host waits for those of the
/// step before.
#[derive(Debug, Default)]
pub(crate) struct ReadBack {
    /// Used in turns.
    slots: [Slot; 2],
    /// Slot of the step that was sent first and has not been looked at.
    first: usize,
    /// Number of steps under way.
    count: usize,
}

/// Loss and predictions of one step.
#[derive(Debug, Default)]
struct Slot {
    download: Download,
    under_way: Option<UnderWay>,
    /// Labels of the samples whose predictions are on their way: the batch may be gone when these arrive.
    labels: Vec<f32>,
    probabilities: Vec<f32>,
}

/// Predictions that were not looked at yet.
#[derive(Debug)]
struct UnderWay {
    step: u64,
    loss: Part<f64>,
    probabilities: Part<f32>,
}

/// Loss and predictions of a step that have arrived.
#[derive(Debug)]
pub(crate) struct Arrived<'a> {
    /// Number of the step, from 0.
    pub step: u64,
    /// Sum of the losses of this rank's samples.
    pub loss: f64,
    /// Predicted probabilities: samples × labels.
    pub probabilities: &'a [f32],
    /// Labels of the samples, as the probabilities.
    pub labels: &'a [f32],
}

impl ReadBack {
    /// Sends the `loss` and the `probabilities` of a step, for samples with these labels. Of the steps sent before, one at most may be
    /// under way.
    pub fn begin(
        &mut self,
        device: &Device,
        step: u64,
        (loss, probabilities): (&Buffer<f64>, &Buffer<f32>),
        labels: &[f32],
    ) -> Result<(), KernelError> {
        assert!(self.count < self.slots.len(), "step {step} is sent before an earlier one was looked at");
        let slot = &mut self.slots[(self.first + self.count) % 2];
        slot.download.begin(device)?;
        let (loss, of_samples) =
            (slot.download.add(loss, 0..1)?, slot.download.add(probabilities, 0..probabilities.len())?);
        slot.download.end()?;
        slot.labels.clear();
        slot.labels.extend_from_slice(labels);
        slot.probabilities.resize(probabilities.len(), 0.0);
        slot.under_way = Some(UnderWay { step, loss, probabilities: of_samples });
        self.count += 1;
        Ok(())
    }

    /// Number of steps whose results are on their way.
    pub fn under_way(&self) -> usize {
        self.count
    }

    /// Waits for the step that was sent first; `None` where none is under way, or where the device computes nothing. Fails with the
    /// first fault that an operation met on the device before it was sent.
    pub fn finish(&mut self) -> Result<Option<Arrived<'_>>, KernelError> {
        let slot = &mut self.slots[self.first];
        let Some(UnderWay { step, loss, probabilities }) = slot.under_way.take() else { return Ok(None) };
        (self.first, self.count) = (1 - self.first, self.count - 1);
        slot.download.wait()?;
        let mut sum = [0.0];
        let there = slot.download.read(&loss, &mut sum)?
            && slot.download.read(&probabilities, &mut slot.probabilities)?;
        let arrived =
            Arrived { step, loss: sum[0], probabilities: &slot.probabilities, labels: &slot.labels };
        Ok(there.then_some(arrived))
    }

    /// Brings predictions to the host, and waits for them.
    pub fn fetch(
        &mut self,
        device: &Device,
        from: &Buffer<f32>,
        to: &mut Vec<f32>,
    ) -> Result<(), KernelError> {
        // Nothing of a training step is under way while a model is evaluated.
        let download = &mut self.slots[0].download;
        download.begin(device)?;
        let part = download.add(from, 0..from.len())?;
        download.end()?;
        download.wait()?;
        to.resize(from.len(), 0.0);
        download.read(&part, to).map(|_| ())
    }
}
