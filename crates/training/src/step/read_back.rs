//! Loss and predictions of a step on their way from the device to the host.
//!
//! On a device whose operations are queued they are fetched while the next step runs, so that the host never waits for the step
//! that it has just queued.

use kernels::{Buffer, Device, Download, KernelError, Part};

/// Loss and predictions of one step, on their way to the host.
#[derive(Debug, Default)]
pub(crate) struct ReadBack {
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
    /// Sets the `loss` and the `probabilities` of a step out, for samples with these labels. What was set out before must have
    /// arrived.
    pub fn begin(
        &mut self,
        device: &Device,
        step: u64,
        (loss, probabilities): (&Buffer<f64>, &Buffer<f32>),
        labels: &[f32],
    ) -> Result<(), KernelError> {
        self.download.begin(device)?;
        let (loss, of_samples) =
            (self.download.add(loss, 0..1)?, self.download.add(probabilities, 0..probabilities.len())?);
        self.download.end()?;
        self.labels.clear();
        self.labels.extend_from_slice(labels);
        self.probabilities.resize(probabilities.len(), 0.0);
        self.under_way = Some(UnderWay { step, loss, probabilities: of_samples });
        Ok(())
    }

    /// Waits for what is on its way; `None` where nothing is, or where the device computes nothing. Fails with the first fault
    /// that an operation met on the device before it was set out.
    pub fn finish(&mut self) -> Result<Option<Arrived<'_>>, KernelError> {
        let Some(UnderWay { step, loss, probabilities }) = self.under_way.take() else { return Ok(None) };
        self.download.wait()?;
        let mut sum = [0.0];
        let there = self.download.read(&loss, &mut sum)?
            && self.download.read(&probabilities, &mut self.probabilities)?;
        let arrived =
            Arrived { step, loss: sum[0], probabilities: &self.probabilities, labels: &self.labels };
        Ok(there.then_some(arrived))
    }

    /// Brings predictions to the host, and waits for them.
    pub fn fetch(
        &mut self,
        device: &Device,
        from: &Buffer<f32>,
        to: &mut Vec<f32>,
    ) -> Result<(), KernelError> {
        self.download.begin(device)?;
        let part = self.download.add(from, 0..from.len())?;
        self.download.end()?;
        self.download.wait()?;
        to.resize(from.len(), 0.0);
        self.download.read(&part, to).map(|_| ())
    }
}
