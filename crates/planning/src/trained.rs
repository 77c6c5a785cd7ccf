//! The models that Campanile trains, by the names that the DMT paper gives them, laid on a system.
//!
//! ```
//! use planning::system::System;
//! use planning::trained::Trained;
//! let model = Trained::named("8t-dlrm").unwrap();
//! let run = model.run(&System::named("h100:128").unwrap(), 16384, &Default::default()).unwrap();
//! // 8 towers on 16 hosts: 2 hosts each.
//! assert_eq!(run.dataflow.sptt().unwrap().groups().hosts_per_group(), 2);
//! ```

mod builtin;
mod layout;

use crate::cost::Hierarchical;
use crate::planner::{MemoryLimit, Plan, Unfit};
use crate::run::{PlanOptions, plan_run};
use crate::system::System;
use crate::workload::{TaskKind, WorkloadError};
use spec::device::DeviceChoice;
use spec::fuse::Fuse;
use spec::model::BlockName;
use spec::plan::{PlanChoice, PlanFile};
use spec::precision::{Precision, PrecisionConfig};
use spec::run::{AllReduce, Config, PlacementConfig, Run, RunError};
use spec::schedule::{FrozenParameters, Operation, Part, Phase, Schedule, Task};
use spec::wire::WireConfig;

/// A model that runs, before it is laid on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    name: String,
    config: Config,
    per_device: usize,
}

/// Reason why a model cannot be placed on a system.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrainedError {
    /// A name that is none of theirs.
    #[error("unknown trained model {name:?}; the known ones are {}", Trained::names().join(", "))]
    Unknown {
        /// Name that was given.
        name: String,
    },
    /// More samples than can be counted.
    #[error("a batch of {per_device} samples on each of {devices} devices is too large; lower it")]
    Batch {
        /// Samples a device.
        per_device: usize,
        /// Devices.
        devices: usize,
    },
    /// No plan of the tables fits the system.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The config is invalid for the trainer too.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Schedule of a run's step in a task. Fine-tuning leaves out what only frozen parts need.
///
/// ```
/// use planning::trained::schedule;
/// use planning::workload::{Frozen, TaskKind};
/// let run = planning::check(&Default::default()).unwrap();
/// let frozen = Frozen { top: true, embedding: true, ..Frozen::default() };
/// let step = schedule(&run, TaskKind::FineTuning(frozen)).unwrap();
/// let names: Vec<&str> = step.phases().iter().map(|phase| phase.name.as_str()).collect();
/// // The bottom MLP learns: its gradient comes through the top MLP, and no table changes.
/// assert!(names.contains(&"bottom backward") && !names.contains(&"update tables"));
/// ```
pub fn schedule(run: &Run, task: TaskKind) -> Result<Schedule, WorkloadError> {
    let frozen = match task {
        TaskKind::PreTraining => return Ok(run.schedule(Task::Train)),
        TaskKind::Inference => return Ok(run.schedule(Task::Evaluate)),
        TaskKind::FineTuning(frozen) => frozen,
    };
    let missing = [
        (frozen.experts, "experts"),
        (frozen.transformer || frozen.transformer_from.is_some(), "transformer layers"),
        (frozen.towers && !run.model.has_tower_modules(), "tower modules"),
    ];
    if let Some((_, part)) = missing.into_iter().find(|(is, _)| *is) {
        let message = format!("the model has no {part} that could be frozen; name bot, top, towers or emb");
        return Err(WorkloadError::Contradiction(message));
    }
    // An update that is fused with what comes before it cannot be left out.
    let fuse = if frozen.embedding { Fuse::Never } else { run.fuse };
    let schedule = Run { fuse, ..run.clone() }.schedule(Task::Train);
    // What works on dense inputs beside the vectors belongs to the bottom, all above to the top.
    let stays = |phase: &Phase| match (phase.operation()?, schedule.part(phase)) {
        (Operation::Backward(BlockName::TOWERS, _), _) => frozen.towers.then_some(BlockName::TOWERS),
        (Operation::Backward(block, _), Part::BottomBackward) => frozen.bottom.then_some(*block),
        (Operation::Backward(block, _), _) => frozen.top.then_some(*block),
        _ => None,
    };
    let blocks = schedule.phases().iter().filter_map(stays).collect();
    let schedule = schedule.with_frozen(&FrozenParameters { blocks, tables: frozen.embedding });
    Ok(if run.overlap { schedule } else { schedule.serialised() })
}

/// Plan of a run's tables within the memory of the system's devices. Where none fits, one that does not: its simulation says so.
fn planned(run: &Run, system: &System) -> Result<Plan, Unfit> {
    let cost = Hierarchical::default();
    let any = PlanOptions::new(system, &cost);
    let memory =
        MemoryLimit { bytes_per_rank: system.device.memory_bytes as u64, reserve: MemoryLimit::RESERVE };
    plan_run(run, &PlanOptions { memory: Some(memory), ..any }).or_else(|_| plan_run(run, &any))
}

/// Samples a device where nobody says: the local batch of DMT's experiments (§5.3).
const PER_DEVICE: usize = 16_384;

impl Trained {
    /// A built-in model.
    pub fn named(name: &str) -> Result<Self, TrainedError> {
        let config = builtin::config(name).ok_or_else(|| TrainedError::Unknown { name: name.into() })?;
        Ok(Self { name: name.into(), config, per_device: PER_DEVICE })
    }

    /// The names of all built-in ones.
    pub fn names() -> Vec<&'static str> {
        builtin::names()
    }

    /// A run as a user wrote it. Its cluster and its batch give way to the system's.
    pub fn of_config(name: &str, config: Config) -> Self {
        // A config that cannot be says so when it is laid on a system.
        let each = |run: Run| run.batch.div_ceil(run.topology().ranks()).max(1);
        let per_device = crate::check(&config).map_or(PER_DEVICE, each);
        Self { name: name.into(), config, per_device }
    }

    /// Name of the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Samples a device where nobody says: those of a rank of the run, and 16,384 for a built-in model.
    pub fn per_device_batch(&self) -> usize {
        self.per_device
    }

    /// The model with another all-reduce of dense gradients than its config says.
    pub fn with_all_reduce(mut self, all_reduce: AllReduce) -> Self {
        self.config.train.all_reduce = Some(all_reduce);
        self
    }

    /// The model with products in `precision` on ranks of `device`, instead of what its config says.
    pub fn computed_on(mut self, device: DeviceChoice, precision: Precision) -> Self {
        self.config.train.device = Some(device);
        self.config.train.precision = Some(PrecisionConfig::all(precision));
        self
    }

    /// The model with another plan of its tables than its config says; `None` for none. The model's name says which.
    pub fn with_plan(mut self, named: &str, plan: Option<PlanChoice>) -> Self {
        self.name = format!("{} (plan {named})", self.name);
        if let (Some(PlanChoice::File(plan)), None) = (&plan, self.config.topology.hosts_per_tower) {
            self.config.topology.hosts_per_tower = plan.hosts_per_tower;
        }
        self.config.placement = PlacementConfig { plan, ..PlacementConfig::default() };
        self
    }

    /// The model with a rank on every device of `system`, and `per_device` samples for each; `wire` goes before what the
    /// model says of the wire (bf16 for all that travels, in the built-in ones). Built-in models sum dense gradients by the
    /// algorithm that follows from the system, unless [`Trained::with_all_reduce`] names one.
    ///
    /// A tower has as many hosts as divide evenly among all towers; where there are more towers than hosts, a host has
    /// several. Tables are cut by columns where there are more ranks than tables. What a config says of either stays.
    pub fn run(&self, system: &System, per_device: usize, wire: &WireConfig) -> Result<Run, TrainedError> {
        let devices = system.devices();
        let batch = per_device.checked_mul(devices).ok_or(TrainedError::Batch { per_device, devices })?;
        let mut config = self.config.clone();
        config.topology.hosts = Some(system.nodes);
        config.topology.ranks_per_host = Some(system.devices_per_node);
        config.train.batch = Some(batch);
        config.wire = config.wire.overlaid(wire);
        // A plan is made for the system, once its tower groups are known.
        let auto = config.placement.plan == Some(PlanChoice::Auto);
        if auto {
            config.placement.plan = None;
        }
        let mut run = crate::check(&config)?;
        if !auto && run.dataflow.sptt().is_none() {
            return Ok(run);
        }
        if config.topology.hosts_per_tower.is_none() && run.model.has_tower_modules() {
            config.topology.hosts_per_tower =
                Some(layout::hosts_per_tower(system.nodes, run.model.towers().len()));
            run = crate::check(&config)?;
        }
        if auto {
            run.placement = planned(&run, system)?.placement;
            config.placement.plan = Some(PlanChoice::File(Box::new(PlanFile::of_run(&run))));
            return Ok(crate::check(&config)?);
        }
        if config.placement == PlacementConfig::default() {
            config.placement.tables = layout::tables(&run);
            run = crate::check(&config)?;
        }
        Ok(run)
    }
}
