//! Collective communication between ranks.
//!
//! A [`Communicator`] is one rank's end of a group of ranks. The collectives are typed, metered under a [`Label`], and
//! come in two forms: one that blocks, and one named `start_…` whose [`Pending`] owns the buffers until `wait` returns
//! them. Reductions are sums in rank order, so that a result has the same bits on every rank and in every run.
//!
//! ```
//! use collectives::{CollectiveError, Label, Options, launch};
//! use kernels::{Buffer, Device};
//! use spec::topology::Topology;
//!
//! // Two hosts of two ranks; each rank is a thread.
//! let sums = launch(Topology::new(2, 2).unwrap(), &Options::default(), |_| Ok(Device::Reference), |world| {
//!     let gradients = Label::from("gradients");
//!     world.enter(&gradients);
//!     let mine = Buffer::from_slice(world.device(), &[1.0, world.rank() as f32])?;
//!     let pending = world.start_all_reduce(&gradients, mine)?; // the rank may do other work here
//!     Ok::<_, CollectiveError>(pending.wait()?.to_vec()?)
//! })
//! .unwrap();
//! assert_eq!(sums, vec![vec![4.0, 6.0]; 4]);
//! ```
//!
//! Below the communicator lie two private traits. `Control` is what the ranks agree on: groups, and the end of the run. `Mover`
//! moves bytes by a single primitive: an exchange, in which every member of a group sends a range of bytes to every other. All
//! collectives are built on that primitive, for every transport.
//!
//! A failure of one rank ends all ranks: an error, a panic, calls that do not match, a wait beyond its limit.
//! [`Failure`] names the cause and what every rank was doing.
//!
//! With the cargo feature `mpi`, `MpiJob::launch` runs the same body on ranks that are processes under `mpirun`. Between ranks with
//! a GPU each, NCCL moves device memory: [`launch_over_nccl`], or `DeviceMemory::Nccl` under MPI.
#![cfg_attr(not(feature = "mpi"), forbid(unsafe_code))]
#![cfg_attr(feature = "mpi", deny(unsafe_code))]

// The conformance suite runs here too, over movers that no caller can choose.
#[cfg(test)]
extern crate self as collectives;
#[cfg(test)]
#[path = "../tests/it/suite.rs"]
#[allow(dead_code)]
mod suite;

mod communicator;
mod emulation;
mod error;
mod failure;
mod label;
mod launch;
mod meter;
#[cfg(feature = "mpi")]
mod mpi_job;
mod nccl_trial;
mod operation;
mod pending;
mod prepared;
mod progress;
mod reductions;
mod running;
mod steps;
mod sync;
mod transport;

pub use communicator::Communicator;
pub use emulation::EmulatedAllReduce;
pub use error::{Call, CollectiveError, ExternalError, Remote};
pub use failure::{Activity, CollectiveStatus, Failure, RankStatus};
pub use label::Label;
pub use launch::{Options, launch, launch_over_nccl};
pub use meter::SentBytes;
#[cfg(feature = "mpi")]
pub use mpi_job::{DeviceMemory, MpiJob, MpiOptions, mpi_library_version};
pub use nccl_trial::try_nccl;
pub use pending::{Completion, Output, Pending};
pub use prepared::{Lossy, Prepared};
pub use reductions::Vectors;
#[cfg(feature = "mpi")]
pub use transport::mpi::{Watch, watch_if_asked};

/// Status files: what the ranks of an MPI job were last doing, in files that other processes on the machine can read.
#[cfg(feature = "mpi")]
pub mod status {
    pub use crate::transport::mpi::{ProcessStatus, read_all};
}
