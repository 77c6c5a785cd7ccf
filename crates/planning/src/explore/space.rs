//! All that is to be looked at, by number.

use super::nesting::{Choices, Plan};
use super::{Scaling, WhatIf};
use crate::system::System;
use crate::trained::Trained;
use crate::workload::{Layered, TaskKind};

/// Models × systems × what if × batch sizes × strategies. Points are numbered, and made when they are asked for.
#[derive(Clone, Debug)]
pub struct Space {
    models: Vec<Subject>,
    systems: Vec<System>,
    batches: Vec<usize>,
    task: TaskKind,
    what_if: WhatIf,
    /// By model and system, in the order of their points.
    segments: Vec<Segment>,
    len: usize,
}

/// A model.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a space has few of them")]
pub enum Subject {
    /// Only simulated: its layers may be spread in many ways.
    Layered(Layered),
    /// A model that is trained: its dataflow, towers and compression are the model's own.
    Trained(Trained),
}

/// A model on a system.
#[derive(Clone, Debug)]
struct Segment {
    first: usize,
    /// Nothing for a model that is trained: there is one way.
    choices: Option<Choices>,
}

/// A point of a space: positions in the lists of the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// Index of the model.
    pub model: usize,
    /// The system.
    pub system: usize,
    /// Index of the scaling of the hardware; 0 for none. See [`Space::scaling`].
    pub scaling: usize,
    /// The batch size.
    pub batch: usize,
    /// Plan of the layers; `None` if the model determines it.
    pub plan: Option<Plan>,
}

/// Reason why a space cannot be explored.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpaceError {
    /// A list without entries.
    #[error("no {what} is given; at least one is needed")]
    Empty {
        /// List that is empty.
        what: &'static str,
    },
    /// A batch of nothing, or of far too much.
    #[error("a batch of {batch} samples per device is out of range; use 1 to 2^32")]
    Batch {
        /// Batch size that was given.
        batch: usize,
    },
    /// A factor that hardware cannot grow by.
    #[error("{of} × {factor}: the factor is out of range; use more than 0 and at most 1000000")]
    Factor {
        /// The capability.
        of: &'static str,
        /// Factor that was given.
        factor: f64,
    },
    /// A capability that is not known.
    #[error("unknown capability {name:?}; use flops, memory, memory-bandwidth, intra, inter or all")]
    Capability {
        /// Name that was given.
        name: String,
    },
    /// More points than can be numbered.
    #[error("these lists make more than {MOST} points; leave some out")]
    TooMany,
}

/// Points of the largest space: a day's work.
const MOST: usize = 10_000_000_000;

impl Space {
    /// Everything that these lists make.
    pub fn new(
        models: Vec<Subject>,
        systems: Vec<System>,
        batches: Vec<usize>,
        task: TaskKind,
        what_if: WhatIf,
    ) -> Result<Self, SpaceError> {
        for (what, empty) in
            [("model", models.is_empty()), ("system", systems.is_empty()), ("batch size", batches.is_empty())]
        {
            if empty {
                return Err(SpaceError::Empty { what });
            }
        }
        if let Some(&batch) = batches.iter().find(|&&batch| batch == 0 || batch as u64 > 1 << 32) {
            return Err(SpaceError::Batch { batch });
        }
        let of_strategy = what_if.len().and_then(|kinds| kinds.checked_mul(batches.len()));
        let of_strategy = of_strategy.ok_or(SpaceError::TooMany)?;
        let mut segments = Vec::with_capacity(models.len() * systems.len());
        let mut len = 0usize;
        for model in &models {
            for system in &systems {
                let choices = match model {
                    Subject::Layered(model) => Some(Choices::new(model, system, task != TaskKind::Inference)),
                    Subject::Trained(_) => None,
                };
                let points = choices.as_ref().map_or(1, Choices::len).checked_mul(of_strategy);
                segments.push(Segment { first: len, choices });
                let sum = points.and_then(|points| points.checked_add(len)).filter(|&sum| sum <= MOST);
                len = sum.ok_or(SpaceError::TooMany)?;
            }
        }
        Ok(Self { models, systems, batches, task, what_if, segments, len })
    }

    /// Number of points.
    #[allow(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// A point by its number. Strategies change fastest, then batch sizes, hardware, systems, models.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn point(&self, index: usize) -> Point {
        assert!(index < self.len, "point {index} of {}", self.len);
        let at = self.segments.partition_point(|segment| segment.first <= index) - 1;
        let Segment { first, choices } = &self.segments[at];
        let plans = choices.as_ref().map_or(1, Choices::len);
        let (rest, plan) = ((index - first) / plans, (index - first) % plans);
        Point {
            model: at / self.systems.len(),
            system: at % self.systems.len(),
            scaling: rest / self.batches.len(),
            batch: rest % self.batches.len(),
            plan: choices.as_ref().map(|choices| choices.plan(plan)),
        }
    }

    /// The models.
    pub fn models(&self) -> &[Subject] {
        &self.models
    }

    /// The systems, as they are.
    pub fn systems(&self) -> &[System] {
        &self.systems
    }

    /// Samples a device.
    pub fn batches(&self) -> &[usize] {
        &self.batches
    }

    /// Task of the models.
    pub fn task(&self) -> TaskKind {
        self.task
    }

    /// Scalings of the hardware.
    pub fn what_if(&self) -> &WhatIf {
        &self.what_if
    }

    /// Whether a point is one that others are compared with: layers fully sharded, or the first of the models that are
    /// trained.
    pub fn is_baseline(&self, point: &Point) -> bool {
        match (&self.models[point.model], point.plan) {
            (Subject::Layered(model), Some(plan)) => plan == Plan::baseline(model),
            _ => {
                let trained = |model: &Subject| matches!(model, Subject::Trained(_));
                self.models.iter().position(trained) == Some(point.model)
            }
        }
    }

    /// Description of the plan of a point; of a model that is trained, its all-reduce and its wire.
    pub fn described(&self, point: &Point) -> String {
        match (&self.models[point.model], point.plan) {
            (Subject::Layered(model), Some(plan)) => plan.of(model),
            (Subject::Trained(model), _) => {
                let (system, per_device) = (&self.systems[point.system], self.batches[point.batch]);
                match model.run(system, per_device, &Default::default()) {
                    Ok(run) => {
                        format!("as it is trained, {} all-reduce, {} on the wire", run.all_reduce, run.wire)
                    }
                    Err(_) => "as it is trained".into(),
                }
            }
            (_, None) => "as it is trained".into(),
        }
    }

    /// Scaling of the hardware of a point.
    pub fn scaling(&self, point: &Point) -> Scaling {
        self.what_if.scaling(point.scaling)
    }
}

impl Subject {
    /// Name of the model.
    pub fn name(&self) -> &str {
        match self {
            Subject::Layered(model) => &model.name,
            Subject::Trained(model) => model.name(),
        }
    }
}
