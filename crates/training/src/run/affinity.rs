//! Measures the affinity of features on samples (DMT §3.3).
//!
//! ```text
//! R[f] = v_f / ‖v_f‖ for the pooled vector v_f of feature f        I = |mean over samples of R·Rᵀ|
//! ```
//!
//! Embeddings of several lengths have no cosine. Where the model maps them to one length (DLRM, DeepFM), v_f is what the map
//! gives.
//!
//! Every rank adds up the cosines of its own samples, batch by batch; the sums of all ranks are added at the end. A vector of
//! zeros (an empty bag) has to do with nothing.

use crate::Error;
use crate::checkpoint::Checkpoint;
use crate::run::cluster::Cluster;
use crate::run::launch::on_checkpoint;
use crate::samples::logs::Logs;
use crate::samples::source::Prefetch;
use crate::samples::source::Source;
use crate::step::communicators::Communicators;
use crate::step::gather;
use crate::step::interpreter::Execution;
use crate::step::rank_state::RankState;
use collectives::Label;
use data::Split;
use spec::affinity::Affinity;
use spec::fuse::Fuse;
use spec::model::AlignedVectors;
use spec::run::{Batches, Run, RunError};
use spec::schedule::Task;
use std::ops::ControlFlow;

/// Mean of cosines that is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cosines {
    /// Absolute value of the mean cosine, as in the DMT paper.
    #[default]
    AbsOfMean,
    /// Mean of the absolute values of the cosines.
    MeanOfAbs,
}

/// What is measured, and on which samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AffinityRequest {
    /// Samples to train or to evaluate on.
    pub split: Split,
    /// Mean of cosines.
    pub cosines: Cosines,
    /// Most samples to measure on.
    pub limit: u64,
}

/// Sums of cosines between the vectors of a sample.
#[derive(Clone, Debug)]
pub(crate) struct CosineSums {
    features: usize,
    dim: usize,
    of: Cosines,
    samples: u64,
    sums: Vec<f64>,
    unit: Vec<f32>,
}

impl CosineSums {
    /// Empty sums, for `features` vectors of length `dim`.
    pub fn new(features: usize, dim: usize, of: Cosines) -> Self {
        let (sums, unit) = (vec![0.0; features * features], vec![0.0; features * dim]);
        Self { features, dim, of, samples: 0, sums, unit }
    }

    /// Adds one sample: the vectors of its features, in their order.
    pub fn add<'a>(&mut self, vectors: impl Iterator<Item = &'a [f32]>) {
        let Self { features, dim, of, sums, unit, .. } = self;
        for (to, vector) in unit.chunks_exact_mut(*dim).zip(vectors) {
            let norm = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
            let scale = if norm == 0.0 { 0.0 } else { 1.0 / norm };
            to.iter_mut().zip(vector).for_each(|(to, &x)| *to = (f64::from(x) * scale) as f32);
        }
        for i in 0..*features {
            let a = &unit[i * *dim..(i + 1) * *dim];
            for j in 0..=i {
                let b = &unit[j * *dim..(j + 1) * *dim];
                let cosine = f64::from(dot(a, b));
                sums[i * *features + j] += if *of == Cosines::MeanOfAbs { cosine.abs() } else { cosine };
            }
        }
        self.samples += 1;
    }

    /// The affinity of features of these names.
    pub fn affinity(&self, names: Vec<String>) -> Result<Affinity, Error> {
        let samples = self.samples.max(1) as f64;
        let between = |i: usize, j: usize| {
            let sum = self.sums[i.max(j) * self.features + i.min(j)];
            // A cosine may exceed 1 by rounding. One that is no number stays so, and is refused by the feature's name.
            let mean = (sum / samples).abs().clamp(0.0, 1.0);
            if i == j && !mean.is_nan() { 1.0 } else { mean }
        };
        let rows = (0..self.features).map(|i| (0..self.features).map(|j| between(i, j)).collect()).collect();
        Ok(Affinity::new(names, rows)?)
    }
}

/// Dot product in eight partial sums, so that it compiles to vector instructions.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0f32; 8];
    for (a, b) in a.iter().zip(b) {
        (0..8).for_each(|lane| sums[lane] += a[lane] * b[lane]);
    }
    sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}

/// Measures the affinity of the features of `checkpoint` on samples of `run`, over the ranks of `cluster`. All processes get it.
/// `observe` is told by rank 0 how many samples were seen.
pub fn affinity(
    run: &Run,
    logs: &Logs,
    checkpoint: &Checkpoint,
    cluster: &Cluster,
    request: AffinityRequest,
    observe: &(dyn Fn(u64) + Sync),
) -> Result<Affinity, Error> {
    let AffinityRequest { split, cosines, limit } = request;
    // Phases that are fused with the lookup need not write vectors out, nor as floats.
    let run = &Run { fuse: Fuse::Never, ..run.clone() };
    if run.model.has_tower_modules() {
        return Err(Error::AffinityOfTowers);
    }
    let aligned = run.model.aligned_vectors();
    let aligned = aligned.map_err(|error| RunError::new(error.field, error.problem))?;
    let batches = if split == Split::Train { run.batches() } else { run.eval_batches() };
    let batches = Batches { samples: batches.samples.min(limit), ..batches };
    if batches.samples == 0 {
        return Err(Error::NoSamples);
    }
    let sums = on_checkpoint(run, logs, checkpoint, cluster, split, |communicators, rank| {
        add_up(run, communicators, rank, batches, (aligned, cosines), observe)
    })?;
    let names = run.model.features().iter().map(|feature| feature.name.clone()).collect();
    sums.first().ok_or(Error::NoRank)?.affinity(names)
}

/// Adds up the cosines of the samples of `batches`, over all ranks.
fn add_up(
    run: &Run,
    communicators: &Communicators,
    rank: &mut RankState,
    batches: Batches,
    (aligned, of): (AlignedVectors, Cosines),
    observe: &(dyn Fn(u64) + Sync),
) -> Result<CosineSums, Error> {
    let (world, steps) = (communicators.world(), batches.per_epoch());
    let source = std::mem::replace(&mut rank.source, Source::none());
    rank.source = Source::Ahead(Prefetch::of_rank(world, source, run, batches, 0..steps));
    let AlignedVectors { block, width, first, stride, dim } = aligned;
    let mut sums = CosineSums::new(run.model.features().len(), dim, of);
    let mut execution = Execution::new(run.schedule(Task::Evaluate));
    execution.run(
        rank,
        communicators,
        steps,
        |step| batches.at(step),
        |rank, step| {
            let columns = match block {
                Some(block) => rank.network.output(block)?,
                None => &rank.network.features,
            };
            for sample in columns.to_vec()?.chunks_exact(width) {
                sums.add(sample[first..].chunks_exact(stride).map(|row| &row[..dim]));
            }
            if world.rank() == 0 {
                let positions = batches.at(step);
                observe(positions.end - positions.start);
            }
            Ok(ControlFlow::Continue(()))
        },
    )?;
    let label = Label::from("affinity");
    gather::add_up(world, &label, &mut sums.sums)?;
    let mut samples = [sums.samples as f64];
    world.all_reduce_f64(&label, &mut samples)?;
    sums.samples = samples[0] as u64;
    Ok(sums)
}

#[cfg(test)]
mod tests;
