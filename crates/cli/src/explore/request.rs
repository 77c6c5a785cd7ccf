//! Flags of `campanile explore`, and the space that they describe.

use crate::output::Inputs;
use crate::simulate::read::{self, Subject as Read};
use crate::simulate::task::{self, RequestedTask};
use anyhow::{Context, Result, bail, ensure};
use planning::cost::CostKind;
use planning::explore::{Capability, Space, Subject, WhatIf};
use planning::system::System;
use planning::workload::TaskKind;
use spec::run::AllReduce;

/// Models, systems and batch sizes to explore.
#[derive(clap::Args, Clone, Debug)]
pub struct Request {
    /// Models by name or file, with commas between
    #[arg(
        long,
        visible_alias = "models",
        value_name = "NAME|FILE,…",
        value_delimiter = ',',
        default_value = "dlrm-a"
    )]
    model: Vec<String>,
    /// Systems by name, with :GPUS, or by file
    #[arg(
        long,
        visible_alias = "system",
        value_name = "NAME|FILE,…",
        value_delimiter = ',',
        default_value = "zionex:128"
    )]
    systems: Vec<String>,
    /// Number of samples of each device per step [default: as of `simulate`, for the first model]
    #[arg(long, visible_alias = "batch", value_name = "N,…", value_delimiter = ',')]
    batches: Vec<usize>,
    /// Task: pretrain, inference, finetune, or finetune: with the parts that are frozen, as `simulate --task` has them:
    /// finetune:bot,emb
    #[arg(long, value_name = "TASK", default_value = "pretrain")]
    task: String,
    /// Cost model, which gives the time of an operation: madmax, roofline or hierarchical
    #[arg(long, value_name = "MODEL", default_value = "hierarchical")]
    cost: CostKind,
    /// Also explore hardware with a multiple of flops, memory, memory-bandwidth, intra, inter, or all of them, as inter=2,10; may be
    /// repeated
    #[arg(long, value_name = "WHAT=FACTOR,…")]
    what_if: Vec<String>,
    /// Explore every combination of the --what-if multiples, not only each alone
    #[arg(long, requires = "what_if")]
    combine: bool,
    /// How ranks sum dense gradients, of models that Campanile trains: auto, direct, ring, recursive-doubling or two-level, as
    /// `train --all-reduce` has it [default: auto for models by name, or as the run's file says]
    #[arg(long, value_name = "HOW")]
    all_reduce: Option<AllReduce>,
    /// Plans of the tables, of models that Campanile trains, with commas between: each model is explored with each plan. A plan is
    /// a file that `campanile plan --out` wrote, auto (the planner makes one for every system), or none [default: as the run's
    /// file says]
    #[arg(long, visible_alias = "plans", value_name = "FILE|auto|none,…", value_delimiter = ',')]
    plan: Vec<String>,
}

impl Request {
    /// Files that are read: models and systems that are named by a file.
    pub fn inputs(&self) -> Inputs {
        let mut inputs = Inputs::default();
        inputs.add_all(self.model.iter().chain(&self.systems).chain(&self.plan));
        inputs
    }

    /// The cost model.
    pub fn cost(&self) -> CostKind {
        self.cost
    }

    /// All points that the flags describe.
    pub fn space(&self) -> Result<Space> {
        let models = self.models()?;
        ensure!(
            self.all_reduce.is_none() || models.iter().any(|model| matches!(model, Subject::Trained(_))),
            "--all-reduce applies to models that Campanile trains, and {} is only simulated; leave --all-reduce out",
            self.model.join(", ")
        );
        let systems: Vec<System> =
            self.systems.iter().map(|name| read::system(name)).collect::<Result<_>>()?;
        let task = match task::task(&self.task)? {
            RequestedTask::Kind(kind) => {
                for model in &models {
                    if let (TaskKind::FineTuning(frozen), Subject::Layered(model)) = (kind, model) {
                        frozen.check(model).with_context(|| format!("--task {}", self.task))?;
                    }
                }
                kind
            }
            RequestedTask::File(_, path) => {
                bail!("{path}: a task file has one strategy; use --task pretrain, inference or finetune")
            }
        };
        let batches = match (self.batches.is_empty(), models.first()) {
            (true, Some(model)) => vec![usual_batch(model)],
            _ => self.batches.clone(),
        };
        Ok(Space::new(models, systems, batches, task, self.what_if()?)?)
    }

    /// Models, each with every plan that was asked for.
    fn models(&self) -> Result<Vec<Subject>> {
        let plans = self.plan.iter().map(|plan| Ok((plan, read::plan(plan)?))).collect::<Result<Vec<_>>>()?;
        let mut models = Vec::new();
        for name in &self.model {
            let model = match read::model(name)? {
                Read::Layered(model) => {
                    models.push(Subject::Layered(model));
                    continue;
                }
                Read::Trained(model) => match self.all_reduce {
                    Some(all_reduce) => model.with_all_reduce(all_reduce),
                    None => *model,
                },
            };
            if plans.is_empty() {
                models.push(Subject::Trained(model.clone()));
            }
            let planned = plans.iter().map(|(named, plan)| model.clone().with_plan(named, plan.clone()));
            models.extend(planned.map(Subject::Trained));
        }
        ensure!(
            self.plan.is_empty() || models.iter().any(|model| matches!(model, Subject::Trained(_))),
            "--plan applies to models that Campanile trains, and {} is only simulated; leave --plan out",
            self.model.join(", ")
        );
        Ok(models)
    }

    fn what_if(&self) -> Result<WhatIf> {
        let mut what_if = WhatIf::default();
        for text in &self.what_if {
            let wrong = || format!("--what-if {text}: write it as inter=2,10");
            let (name, factors) = text.split_once('=').with_context(wrong)?;
            let capability = match name {
                "all" => None,
                name => Some(name.parse::<Capability>().with_context(|| format!("--what-if {text}"))?),
            };
            let factors: Result<Vec<f64>, _> =
                factors.split(',').map(|factor| factor.trim().parse()).collect();
            let factors = factors.with_context(wrong)?;
            what_if.add(capability, &factors).with_context(|| format!("--what-if {text}"))?;
        }
        if self.combine {
            what_if.combine();
        }
        Ok(what_if)
    }
}

/// Samples a device where nobody says.
fn usual_batch(model: &Subject) -> usize {
    match model {
        Subject::Layered(model) if model.bottom_layers + model.top_layers > 0 => 512,
        Subject::Layered(_) => 1,
        Subject::Trained(model) => model.per_device_batch(),
    }
}
