//! Flags of `campanile simulate`, and the prediction that they ask for.

use super::prediction::{Prediction, Spread};
use super::read::{self, Hardware, Subject};
use super::strategy;
use super::task::{self, RequestedTask};
use crate::output::Inputs;
use crate::system_file::SystemFile;
use anyhow::{Context, Result, bail, ensure};
use planning::cost::CostKind;
use planning::memory::Memory;
use planning::simulator::Simulation;
use planning::step::StepGraph;
use planning::system::System;
use planning::trained::{self, Trained};
use planning::workload::{Activations, Job, LayerGroup, Layered, TaskKind};
use spec::device::DeviceChoice;
use spec::run::{AllReduce, Run};
use spec::schedule::Schedule;
use spec::wire::WireConfig;

/// Model, system and task to predict a step of.
#[derive(clap::Args, Clone, Debug)]
pub struct Request {
    /// Model: a name, a model file (JSON), or the config of a run (TOML)
    #[arg(long, value_name = "NAME|FILE", default_value = "dlrm")]
    model: String,
    /// System: a name, with :GPUS, or a system file
    #[arg(long, value_name = "NAME|FILE", default_value = "h100:64")]
    system: String,
    /// Task: pretrain, inference, finetune, or finetune: with the parts that are frozen, as finetune:bot,emb. Parts: bot (bottom MLP),
    /// top (top MLP), experts, transformer, transformer>=N (layers from the Nth on, counted from 0), towers (tower modules of trained
    /// models), emb (tables). Or a task file
    #[arg(long, value_name = "TASK|FILE", default_value = "pretrain")]
    task: String,
    /// Cost model: madmax, roofline or hierarchical [default: hierarchical; a measured system file is priced by its rates]
    #[arg(long, value_name = "MODEL")]
    cost: Option<CostKind>,
    /// Number of samples of each device per step [default: as the run's file says; 16384 for trained models by name, 512 for
    /// others, 1 for language and vision models]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    batch: Option<u64>,
    /// Format of floats on the wire, of trained models: f32, f16, bf16, fp8, u8, u4 or u2, or by what travels, as `train --wire`
    /// has it [default: bf16, or as the run's file says]
    #[arg(long, value_name = "FORMAT")]
    wire: Option<WireConfig>,
    /// How ranks sum dense gradients, of trained models: auto, direct, ring, recursive-doubling or two-level, as `train
    /// --all-reduce` has it [default: auto for models by name, but direct on a measured system; or as the run's file says]
    #[arg(long, value_name = "HOW")]
    all_reduce: Option<AllReduce>,
    /// Plan of the tables, of trained models: a file that `campanile plan --out` wrote for this system's hosts and ranks, auto (the
    /// planner makes one for the system), or none [default: as the run's file says]
    #[arg(long, value_name = "FILE|auto|none")]
    plan: Option<String>,
    #[command(flatten)]
    strategies: strategy::Flags,
}

impl Request {
    /// Files that are read: model, system and task where they are files.
    pub fn inputs(&self) -> Inputs {
        let mut inputs = Inputs::default();
        inputs.add_all([&self.model, &self.system, &self.task]).add_all(&self.plan);
        inputs
    }

    /// Simulates a step.
    pub fn predict(&self) -> Result<Prediction> {
        let task = task::task(&self.task)?;
        let prediction = match (read::hardware(&self.system)?, self.model()?) {
            (Hardware::Described(system), Subject::Layered(model)) => self.layered(&model, system, task),
            (Hardware::Described(system), Subject::Trained(model)) => self.trained(&model, system, task),
            (Hardware::Measured(file), Subject::Trained(model)) => self.measured(&model, &file, task),
            (Hardware::Measured(_), Subject::Layered(model)) => bail!(
                "{}: measured rates price only models that Campanile trains, and {} is only simulated. Give a system by name, or \
                 a file that describes its hardware",
                self.system,
                model.name
            ),
        }?;
        let numbers = [prediction.simulation.iteration_s(), prediction.memory.total()];
        ensure!(
            numbers.iter().all(|number| number.is_finite()),
            "the numbers of {} on {} cannot be priced: a step takes {:e} s and {:e} bytes; some of them are far too large or \
             too small",
            prediction.model,
            prediction.system.name,
            numbers[0],
            numbers[1]
        );
        Ok(prediction)
    }

    /// The model, with the plan that was asked for.
    fn model(&self) -> Result<Subject> {
        match (&self.plan, read::model(&self.model)?) {
            (None, model) => Ok(model),
            (Some(plan), Subject::Trained(model)) => {
                Ok(Subject::Trained(Box::new(model.with_plan(plan, read::plan(plan)?))))
            }
            (Some(plan), Subject::Layered(model)) => bail!(
                "--plan {plan}: {} is only simulated, and a plan is of models that Campanile trains; leave --plan out",
                model.name
            ),
        }
    }

    fn cost(&self) -> CostKind {
        self.cost.unwrap_or(CostKind::Hierarchical)
    }

    fn layered(&self, model: &Layered, system: System, task: RequestedTask) -> Result<Prediction> {
        ensure!(
            self.wire.is_none(),
            "--wire applies to models that Campanile trains; the file of {} has bytes_per_nonemb_param and bytes_per_emb_param",
            model.name
        );
        ensure!(
            self.all_reduce.is_none(),
            "--all-reduce applies to models that Campanile trains, and {} is only simulated; leave --all-reduce out",
            model.name
        );
        let job = match task {
            RequestedTask::Kind(kind) => {
                if let TaskKind::FineTuning(frozen) = kind {
                    frozen.check(model).with_context(|| format!("--task {}", self.task))?;
                }
                let usual = if model.bottom_layers + model.top_layers > 0 { 512 } else { 1 };
                self.strategies.job(model, kind, self.batch.unwrap_or(usual) as f64, &system)?
            }
            RequestedTask::File(file, path) => {
                let flag = self.strategies.given().or(self.batch.map(|_| "--batch"));
                if let Some(flag) = flag {
                    bail!(
                        "{flag} is set in the task file {path} too; leave the flag out, or give a task by name (--task pretrain)"
                    );
                }
                Job::from_file(&file, model, &system).with_context(|| path)?
            }
        };
        let step = job.step(model, &system, self.cost().convention()).with_context(|| model.name.clone())?;
        let memory = Memory::of_job(&job, model, &system);
        let loads = job.loads.over_mean().to_vec();
        let spread = Spread {
            described: job.described(model),
            trained: None,
            lookup_loads: (loads.len() > 1).then_some(loads),
            can_recompute: model.has(LayerGroup::Transformer) && job.activations == Activations::Keep,
        };
        Ok(self.prediction(&model.name, job.task, spread, system, step, memory))
    }

    fn trained(&self, model: &Trained, system: System, task: RequestedTask) -> Result<Prediction> {
        let (run, kind) = self.run(model, &system, task)?;
        let schedule = trained::schedule(&run, kind).with_context(|| format!("--task {}", self.task))?;
        let step = StepGraph::of_schedule(&schedule, run.batch);
        let step = if self.cost() == CostKind::MadMax { step.on_two_lanes() } else { step };
        let (memory, spread) = (memory(&run, &schedule), Spread::of_run(&run));
        Ok(self.prediction(model.name(), kind, spread, system, step, memory))
    }

    /// Prices a step by the measured rates of a cluster. Peak rates of its devices are not known.
    fn measured(&self, model: &Trained, file: &SystemFile, task: RequestedTask) -> Result<Prediction> {
        if let Some(cost) = self.cost {
            bail!(
                "--cost {cost}: the step times of {} come from its measured rates; leave --cost out",
                self.system
            );
        }
        let memory_bytes = file.memory_bytes.unwrap_or(f64::INFINITY);
        let system = planning::measured::system(&file.name, &file.measured, memory_bytes);
        // What was measured is what the trainer does, unless another algorithm is asked for.
        let by_name = Trained::named(&self.model).is_ok();
        let mut model = model.clone();
        if by_name && self.all_reduce.is_none() {
            model = model.with_all_reduce(AllReduce::default());
        }
        if by_name && file.measured.gpu.is_some() {
            model = model.computed_on(DeviceChoice::Cuda(None), file.measured.precision);
        }
        let (run, kind) = self.run(&model, &system, task)?;
        file.measured.check_device(run.device).with_context(|| self.system.clone())?;
        file.measured.check_precision(&run.precision).with_context(|| self.system.clone())?;
        let schedule = trained::schedule(&run, kind).with_context(|| format!("--task {}", self.task))?;
        let (step, simulation) = planning::measured::simulate(&file.measured, &schedule, run.batch)
            .with_context(|| self.system.clone())?;
        Ok(Prediction {
            model: model.name().into(),
            task: kind,
            spread: Spread::of_run(&run),
            cost: "what was measured",
            memory: memory(&run, &schedule),
            system,
            step,
            simulation,
        })
    }

    /// The run of a model that Campanile trains, laid on a system.
    fn run(&self, model: &Trained, system: &System, task: RequestedTask) -> Result<(Run, TaskKind)> {
        let name = model.name();
        if let Some(flag) = self.strategies.given() {
            bail!(
                "{flag}: {name} is a model that is trained: its tables are sharded and its layers replicated, so no \
                 strategy applies; leave {flag} out"
            );
        }
        let kind = match task {
            RequestedTask::Kind(kind) => kind,
            RequestedTask::File(_, path) => {
                bail!(
                    "{path}: {name} is a model that is trained, and no strategy applies; use --task pretrain, inference or finetune"
                )
            }
        };
        let per_device = match self.batch {
            Some(batch) => usize::try_from(batch)?,
            None => model.per_device_batch(),
        };
        let wire = self.wire.unwrap_or_default();
        let run = match self.all_reduce {
            Some(all_reduce) => model.clone().with_all_reduce(all_reduce).run(system, per_device, &wire),
            None => model.run(system, per_device, &wire),
        };
        Ok((run.with_context(|| format!("{} on {}", self.model, system.name))?, kind))
    }

    fn prediction(
        &self,
        model: &str,
        task: TaskKind,
        spread: Spread,
        system: System,
        step: StepGraph,
        memory: Memory,
    ) -> Prediction {
        let simulation = Simulation::new(self.cost().model().as_ref(), &step, &system);
        Prediction {
            model: model.into(),
            task,
            spread,
            cost: self.cost().name(),
            system,
            step,
            simulation,
            memory,
        }
    }
}

fn memory(run: &Run, schedule: &Schedule) -> Memory {
    let (tables, dense) = (&run.table_optimizer.update, &run.dense_optimizer.update);
    Memory::of_schedule(schedule, run.batch, tables, dense)
}
