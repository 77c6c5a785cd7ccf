//! `campanile bench`: measures this machine.

mod codecs;
pub mod collectives;
mod data;
mod dense;
mod embedding;
mod explore;
mod partition;
mod roofline;
pub mod step;
pub mod target;

use crate::progress::Console;
use anyhow::Result;

/// Benchmarks.
#[derive(clap::Subcommand)]
pub enum Command {
    /// A whole training step: median time and where it goes
    Step(step::Args),
    /// How close every phase of a training step comes to the limit of this machine
    Roofline(roofline::Args),
    /// Lookup and update of tables far beyond the caches, against the memory bandwidth
    Embedding(embedding::Args),
    /// Parsing text, preparing a log, and filling batches from it
    Data(data::Args),
    /// Codecs of the wire: encoding and decoding on one thread, against a copy
    Codecs(codecs::Args),
    /// Collectives: a sweep of sizes, or those of a step without its arithmetic
    Collectives(collectives::Args),
    /// The matrix products of a model's layers
    Gemm(dense::GemmArgs),
    /// The MLPs of a model, forward and backward
    Mlp(dense::MlpArgs),
    /// The tower partitioner, at the sizes of Criteo and of large models
    Partition(partition::Args),
    /// Exploration: strategies per second on one thread
    Explore(explore::Args),
}

pub fn run(command: Command, console: Console) -> Result<()> {
    match command {
        Command::Step(args) => step::run(args),
        Command::Roofline(args) => roofline::run(args),
        Command::Embedding(args) => embedding::run(args),
        Command::Data(args) => data::run(args),
        Command::Codecs(args) => codecs::run(args),
        Command::Collectives(args) => collectives::run(args, console),
        Command::Gemm(args) => dense::gemm(args),
        Command::Mlp(args) => dense::mlp(args),
        Command::Partition(args) => partition::run(args),
        Command::Explore(args) => explore::run(args),
    }
}
