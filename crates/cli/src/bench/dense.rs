//! Matrix products and MLPs of a model, alone.

mod gemm;
mod mlp;
mod stack;

use super::target::Target;
use crate::args::RunArgs;
use anyhow::Result;
use kernels::{Buffer, Device};
use spec::run::Run;
use training::Cluster;

pub use gemm::{Args as GemmArgs, run as gemm};
pub use mlp::{Args as MlpArgs, run as mlp};

/// The run whose layers are measured, and the device of its only rank.
fn setup(args: &RunArgs) -> Result<(Run, Target)> {
    let mut config = args.config()?;
    config.topology.hosts.get_or_insert(1);
    config.topology.ranks_per_host.get_or_insert(1);
    let run = planning::check(&config)?;
    let threads = training::threads(&run, &Cluster::Threads);
    let target = Target::new(run.device, &run.precision, threads)?;
    Ok((run, target))
}

/// Small values that neither vanish nor overflow through the layers.
fn filled(device: &Device, len: usize) -> Result<Buffer<f32>> {
    let values: Vec<f32> = (0..len).map(|i| ((i * 37 % 101) as f32 - 50.0) / 500.0).collect();
    Ok(Buffer::from_slice(device, &values)?)
}
