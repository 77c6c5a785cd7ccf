//! Models that are only simulated, as MAD-Max describes them: layers that are all alike, and a strategy for each class of
//! layers.
//!
//! ```
//! use planning::cost::MadMax;
//! use planning::simulator::Simulation;
//! use planning::system::System;
//! use planning::workload::{Convention, Job, Layered, Strategies};
//! let system = System::named("zionex:128").unwrap();
//! let model = Layered::named("dlrm-a").unwrap();
//! let job = Job::pre_training(&model, &Strategies::default_for(&model, &system), 512, &system);
//! let step = job.step(&model, &system, Convention::MadMax).unwrap();
//! let simulation = Simulation::new(&MadMax, &step, &system);
//! assert!((1e3 * simulation.iteration_s() - 72.96).abs() < 0.1); // FSDP: 72.96 ms
//! ```

mod build;
mod builtin;
mod job;
mod layers;
mod model;
mod strategy;

pub use builtin::NAMES;
pub use job::{Activations, Frozen, Job, JobFile, LookupLoads, TaskKind};
pub use model::{Experts, Layered, LayeredKind, ModelFile, Sparse, Transformer};
pub(crate) use strategy::describe;
pub use strategy::{LayerGroup, Level, Parallel, Strategies, Strategy};

/// Whose arithmetic a step follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Convention {
    /// MAD-Max's: two streams, a barrier before the backward pass, rows travel as they are looked up rather than pooled.
    MadMax,
    /// Ours: three lanes that go on from step to step, pooled vectors, ids that travel one batch ahead, updates.
    Pooled,
}

/// Reason why a workload is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// A field that its type needs.
    #[error("field {field} is missing; a model of type {kind} needs it")]
    Missing {
        /// Name of the field.
        field: &'static str,
        /// Type of the model.
        kind: String,
    },
    /// A field that its type does not have.
    #[error("field {field} is given, but a model of type {kind} does not have it")]
    Superfluous {
        /// Name of the field.
        field: &'static str,
        /// Type of the model.
        kind: String,
    },
    /// A number is out of range.
    #[error("{field} is {value}; it must be {must}")]
    Number {
        /// Field at fault.
        field: String,
        /// Value that was given.
        value: f64,
        /// Values that the field may have.
        must: String,
    },
    /// A name that is not known.
    #[error("unknown {what} {name:?}; the known ones are {known}")]
    Unknown {
        /// A model, a type, a parallelism.
        what: &'static str,
        /// Name that was given.
        name: String,
        /// Names that exist.
        known: &'static str,
    },
    /// Degrees that do not fill the system.
    #[error(
        "{field} is {strategy}: its degrees make {product} devices, but the system {system} has {devices}; the product of \
         the degrees must be the number of devices"
    )]
    Degrees {
        /// Class of layers.
        field: &'static str,
        /// The strategy.
        strategy: String,
        /// Product of the degrees.
        product: usize,
        /// The system.
        system: String,
        /// Devices of the system.
        devices: usize,
    },
    /// Fields of a task that contradict each other.
    #[error("{0}")]
    Contradiction(String),
}
