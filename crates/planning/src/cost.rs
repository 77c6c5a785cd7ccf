//! Cost models: the time of an operation on a system. Three models share one interface.
//!
//! - `madmax`: the rules of MAD-Max, for comparison with what it prints.
//! - `roofline`: Neo's appendix B: achievable rates, and the step as its Equation 1 composes it.
//! - `hierarchical`: ours.
//!
//! Reductions of a schedule come with the stages of their program, which say what algorithm and codec send and compute. Only
//! `hierarchical` prices these; the published rules of the other two have no algorithm: a vector's encoded bytes over one mixed
//! bandwidth.

mod hierarchical;
mod madmax;
mod roofline;

pub use hierarchical::{Constants, Hierarchical};
pub use madmax::MadMax;
pub use roofline::Roofline;

use crate::step::{Compute, Op, Period, Reduction, StepGraph, Transfer, Work};
use crate::system::System;
use crate::timeline::{Item, Timeline};
use crate::workload::Convention;
use spec::schedule::Lane;
use std::fmt;
use std::str::FromStr;

/// Cost model: gives the time of each operation on a system.
pub trait CostModel {
    /// Seconds of a computation on a device.
    fn compute(&self, work: &Compute, system: &System) -> f64;
    /// Seconds of a collective whose algorithm is not given.
    fn transfer(&self, work: &Transfer, system: &System) -> f64;
    /// Seconds of a reduction by its program. A model that has no rule for stages prices the vector.
    fn reduction(&self, work: &Reduction, system: &System) -> f64 {
        self.transfer(&work.vector, system)
    }
    /// Whether collectives that cross nodes at the same time slow each other down.
    fn shares_links(&self) -> bool {
        false
    }
    /// Timeline of a step, given the time of each operation.
    fn timeline(&self, step: &StepGraph, seconds: &[f64]) -> Timeline {
        lay(step, seconds, self.shares_links())
    }
}

/// A step's operations on their lanes; `shares` says whether collectives across nodes slow each other down.
pub(crate) fn lay(step: &StepGraph, seconds: &[f64], shares: bool) -> Timeline {
    let crosses = |work: &Work| work.transfer().is_some_and(|transfer| transfer.nodes > 1);
    let items = step.operations.iter().zip(seconds).map(|(op, &seconds)| Item {
        lane: op.lane,
        after: &op.after,
        computes: op.computes(),
        shares: shares && crosses(&op.work),
        seconds,
    });
    let items: Vec<Item> = items.collect();
    match step.period {
        Period::Once => Timeline::once(&items),
        Period::Steady => Timeline::steady(&items),
    }
}

/// Kind of cost model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CostKind {
    /// MAD-Max's rules.
    MadMax,
    /// Neo's roofline.
    Roofline,
    /// Ours.
    Hierarchical,
}

impl CostKind {
    /// All cost models.
    pub const ALL: [CostKind; 3] = [CostKind::MadMax, CostKind::Roofline, CostKind::Hierarchical];

    /// The model, with its own constants.
    pub fn model(self) -> Box<dyn CostModel + Send + Sync> {
        match self {
            CostKind::MadMax => Box::new(MadMax),
            CostKind::Roofline => Box::new(Roofline),
            CostKind::Hierarchical => Box::new(Hierarchical::default()),
        }
    }

    /// Whose arithmetic the steps follow that it prices.
    pub fn convention(self) -> Convention {
        match self {
            CostKind::MadMax => Convention::MadMax,
            CostKind::Roofline | CostKind::Hierarchical => Convention::Pooled,
        }
    }

    /// Name of the cost model as users write it.
    pub fn name(self) -> &'static str {
        match self {
            CostKind::MadMax => "madmax",
            CostKind::Roofline => "roofline",
            CostKind::Hierarchical => "hierarchical",
        }
    }
}

impl fmt::Display for CostKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for CostKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("unknown cost model {name:?}; use madmax, roofline or hierarchical"))
    }
}

/// Seconds of every operation of a step.
pub fn seconds(model: &dyn CostModel, step: &StepGraph, system: &System) -> Vec<f64> {
    let price = |op: &Op| match &op.work {
        // Whatever the model: rows come from disks, and go there.
        Work::Compute(compute) if op.lane == Lane::Storage => {
            compute.bytes * system.devices_per_node as f64 / system.storage_bytes_per_s
        }
        Work::Compute(compute) => model.compute(compute, system),
        Work::Transfer(transfer) => model.transfer(transfer, system),
        Work::Reduction(reduction) => model.reduction(reduction, system),
    };
    step.operations.iter().map(price).collect()
}
