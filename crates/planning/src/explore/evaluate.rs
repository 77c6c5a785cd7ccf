//! One point: its step is built, priced and laid on lanes, as `simulate` does it.

use super::space::{Point, Space, Subject};
use crate::cost::{CostKind, CostModel};
use crate::memory::Memory;
use crate::simulator::Simulation;
use crate::step::StepGraph;
use crate::system::System;
use crate::trained;
use crate::workload::Job;

/// Outcome of simulating a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Seconds of a step.
    pub iteration_s: f64,
    /// Samples a second of the whole system.
    pub samples_per_s: f64,
    /// Seconds in which a device only communicates.
    pub exposed_s: f64,
    /// Bytes on the device that needs most.
    pub memory_bytes: f64,
    /// Whether a device has that much memory.
    pub fits: bool,
    /// The part of memory that is largest, if it does not fit.
    pub too_big: Option<&'static str>,
}

/// Prices points of a space. Each thread has its own.
pub struct Evaluator<'a> {
    space: &'a Space,
    kind: CostKind,
    cost: Box<dyn CostModel + Send + Sync>,
    /// The hardware of the last point, by system and scaling: neighbours have the same.
    hardware: Option<((usize, usize), System)>,
}

impl<'a> Evaluator<'a> {
    /// Evaluator of the points of a space with a cost model.
    pub fn new(space: &'a Space, kind: CostKind) -> Self {
        Self { space, kind, cost: kind.model(), hardware: None }
    }

    /// Simulates a point; the error says why it is impossible.
    pub fn evaluate(&mut self, point: &Point) -> Result<Outcome, String> {
        let key = (point.system, point.scaling);
        if self.hardware.as_ref().is_none_or(|(at, _)| *at != key) {
            let system = self.space.scaling(point).of(&self.space.systems()[point.system]);
            self.hardware = Some((key, system));
        }
        let Some((_, system)) = &self.hardware else { unreachable!("it was just set") };
        let (step, memory) = self.step(point, system)?;
        let simulation = Simulation::new(self.cost.as_ref(), &step, system);
        let outcome = Outcome {
            iteration_s: simulation.iteration_s(),
            samples_per_s: simulation.samples_per_s,
            exposed_s: simulation.exposed_s(),
            memory_bytes: memory.total(),
            fits: true,
            too_big: None,
        };
        if ![outcome.iteration_s, outcome.samples_per_s, outcome.memory_bytes].iter().all(|n| n.is_finite()) {
            return Err("its numbers are too large or too small to be priced".into());
        }
        let too_big = memory.fits(system).err().map(|too_big| too_big.part);
        Ok(Outcome { fits: too_big.is_none(), too_big, ..outcome })
    }

    fn step(&self, point: &Point, system: &System) -> Result<(StepGraph, Memory), String> {
        let (per_device, task) = (self.space.batches()[point.batch], self.space.task());
        match (&self.space.models()[point.model], point.plan) {
            (Subject::Layered(model), Some(plan)) => {
                let job = Job::new(model, task, &plan.on(system), per_device as f64, system);
                let job = Job { activations: plan.activations, ..job };
                let step =
                    job.step(model, system, self.kind.convention()).map_err(|error| error.to_string())?;
                Ok((step, Memory::of_job(&job, model, system)))
            }
            (Subject::Trained(model), _) => {
                let run = model.run(system, per_device, &Default::default());
                let run = run.map_err(|error| format!("{} on {}: {error}", model.name(), system.name))?;
                let schedule =
                    trained::schedule(&run, task).map_err(|error| format!("{}: {error}", model.name()))?;
                let step = StepGraph::of_schedule(&schedule, run.batch);
                let step = if self.kind == CostKind::MadMax { step.on_two_lanes() } else { step };
                let (tables, dense) = (&run.table_optimizer.update, &run.dense_optimizer.update);
                Ok((step, Memory::of_schedule(&schedule, run.batch, tables, dense)))
            }
            (Subject::Layered(model), None) => Err(format!("{} needs a strategy", model.name)),
        }
    }
}
