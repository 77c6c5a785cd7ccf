//! Bytes between ranks.
//!
//! A [`Communicator`] is one rank's end of a group of ranks. Its operations are typed, metered under a [`Label`], and
//! come in two forms: a blocking one, and a `start_…` one whose [`Pending`] owns the buffers until `wait` gives them
//! back. Reductions are sums in rank order, so that a result has the same bits on every rank and in every run.
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
//!     let pending = world.start_all_reduce(&gradients, mine)?; // other work may go on meanwhile
//!     Ok::<_, CollectiveError>(pending.wait()?.to_vec()?)
//! })
//! .unwrap();
//! assert_eq!(sums, vec![vec![4.0, 6.0]; 4]);
//! ```
//!
//! Below the communicator lies a private trait, `Transport`, that moves bytes and knows nothing else: one exchange,
//! in which every member of a group has a range of bytes for every other. All collectives are made of it, once.
//!
//! What ends one rank ends all: an error, a panic, calls that do not match, a wait past its limit. [`Failure`] names
//! the cause and says where every rank was.
//!
//! With the cargo feature `mpi`, `MpiJob::launch` runs the same body on ranks that are processes under `mpirun`.
#![cfg_attr(not(feature = "mpi"), forbid(unsafe_code))]
#![cfg_attr(feature = "mpi", deny(unsafe_code))]

mod communicator;
mod encoded;
mod error;
mod failure;
mod label;
mod launch;
mod meter;
#[cfg(feature = "mpi")]
mod mpi_job;
mod operation;
mod pending;
mod progress;
mod reductions;
mod sync;
mod transport;

pub use communicator::Communicator;
pub use error::{Call, CollectiveError, Peer, Reason};
pub use failure::{Activity, CollectiveStatus, Failure, RankStatus};
pub use label::Label;
pub use launch::{Options, launch};
pub use meter::Traffic;
#[cfg(feature = "mpi")]
pub use mpi_job::{MpiJob, MpiOptions};
pub use pending::{Completion, Output, Pending};
#[cfg(feature = "mpi")]
pub use transport::mpi::{Watch, watch_if_asked};

/// What ranks that are processes leave in files for others on their machine to read.
#[cfg(feature = "mpi")]
pub mod status {
    pub use crate::transport::mpi::{ProcessStatus, read_all};
}
