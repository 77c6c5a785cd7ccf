//! Dry run: a training that is checked and planned with its logs, and not carried out. Nothing is left behind.

use super::{OpenTraining, Training, WarmStarted};
use crate::Error;
use crate::folder::{
    self, CHECKPOINTS, CONFIG, METRICS, PREPARED, REPORT, SCHEDULE, SCHEDULE_JSON, SUMMARY, metrics,
};
use crate::logs;
use serde_json::{Value, json};
use spec::run::{Config, DataFormat, Run};
use spec::schedule::{PhaseId, Task};
use spec::volume::{BatchSizes, LinkBytes};
use spec::wire::WireConfig;
use std::path::{Path, PathBuf};
use training::{MemoryNeed, available_memory, check_size};

/// Where the samples of a dry run came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Samples are generated, by the synthetic log.
    Generated,
    /// The log is prepared already.
    Prepared,
    /// The log was prepared in a temporary folder, which is gone.
    Temporarily,
}

impl Reading {
    /// The word for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Reading::Generated => "generated",
            Reading::Prepared => "prepared",
            Reading::Temporarily => "prepared temporarily",
        }
    }
}

/// A training as it would be carried out.
#[derive(Clone, Debug)]
pub struct DryRun {
    /// The run.
    pub run: Run,
    /// The config with every default written out.
    pub config: Config,
    /// Description of the samples.
    pub data: String,
    /// Where the samples came from.
    pub reading: Reading,
    /// Memory that this process would need.
    pub memory: MemoryNeed,
    /// Memory that is free on this machine, in bytes, where that is known.
    pub available: Option<u64>,
    /// Ranks of this process.
    pub ranks_here: usize,
    /// Threads of each rank.
    pub threads: usize,
    /// Totals of one step over all ranks, for a typical batch.
    pub step: StepTotals,
    /// Shards of each rank.
    pub placement: Vec<metrics::RankTables>,
    /// Steps that were done before, where a run would go on.
    pub resumed: Option<u64>,
    /// Weights that the run would begin with.
    pub warm_start: Option<WarmStarted>,
    /// Files and folders that would be written.
    pub writes: Vec<PathBuf>,
    /// Whether rank 0 is in this process, which reports for all.
    pub has_first_rank: bool,
}

/// Totals of the schedule of one step, over all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTotals {
    /// Number of phases.
    pub phases: usize,
    /// Floating-point operations.
    pub flops: u64,
    /// Bytes of memory touched.
    pub memory: u64,
    /// Bytes sent.
    pub sent: LinkBytes,
}

impl StepTotals {
    fn of(run: &Run) -> Self {
        let schedule = run.schedule(Task::Train);
        let sizes = BatchSizes::typical(schedule.model(), schedule.placement(), run.batch);
        let mut totals = Self { phases: schedule.phases().len(), ..Self::default() };
        for id in (0..totals.phases).map(PhaseId) {
            for rank in 0..run.topology().ranks() {
                totals.flops += schedule.flops(id, &sizes, rank);
                totals.memory += schedule.memory(id, &sizes, rank);
                totals.sent += schedule.sent(id, &sizes, rank);
            }
        }
        totals
    }
}

impl Training {
    /// Checks and plans the training with its logs, and says what it would be. A log that must be prepared is prepared in a
    /// temporary folder; no folder of a run is made, and none is changed.
    pub fn dry_run(self) -> Result<DryRun, Error> {
        Self { dry: true, ..self }.open()?.described()
    }
}

impl OpenTraining {
    /// What the training would be.
    fn described(self) -> Result<DryRun, Error> {
        self.check_warm_up()?;
        let (run, asked) = (&self.run, &self.asked);
        let purpose = asked.memory_use();
        let memory =
            check_size(run, &asked.cluster, purpose).map_err(|error| asked.with_remedies(run, error))?;
        let reading = match asked.config.data.format.unwrap_or_default() {
            DataFormat::Synthetic => Reading::Generated,
            DataFormat::Prepared => Reading::Prepared,
            DataFormat::CriteoTsv | DataFormat::Csv | DataFormat::Parquet => Reading::Temporarily,
        };
        let mut writes = asked.out.as_deref().map_or_else(Vec::new, |out| files(out, reading, purpose.saves));
        writes.extend(asked.trace.as_ref().map(|trace| trace.path.clone()));
        let planned = DryRun {
            config: self.explicit.clone(),
            data: self.logs.train().map_or("synthetic log".into(), |log| logs::described(log.manifest())),
            reading,
            memory,
            available: available_memory(),
            ranks_here: asked.cluster.ranks_here(run.topology()).len(),
            threads: training::threads(run, &asked.cluster),
            step: StepTotals::of(run),
            placement: folder::outcome::placement(run),
            resumed: asked.resumed.as_ref().map(|resumed| resumed.step()),
            warm_start: self.warm_start.as_ref().map(|warm_start| warm_start.report.clone()),
            writes,
            has_first_rank: asked.cluster.has_first_rank(),
            run: self.run,
        };
        self.asked.cluster.leave()?;
        Ok(planned)
    }
}

/// Files and folders of a run at `out`.
fn files(out: &Path, reading: Reading, saves: bool) -> Vec<PathBuf> {
    let prepared = (reading == Reading::Temporarily).then_some(PREPARED);
    let checkpoints = saves.then_some(CHECKPOINTS);
    let always = [CONFIG, SCHEDULE, SCHEDULE_JSON, METRICS, SUMMARY, REPORT];
    always.into_iter().chain(prepared).chain(checkpoints).map(|name| out.join(name)).collect()
}

impl DryRun {
    /// Number of evaluations, the one at the end included.
    pub fn evaluations(&self) -> u64 {
        let run = &self.run;
        if run.data.eval_samples() == 0 {
            return 0;
        }
        run.eval_every.map_or(0, |every| (run.steps - 1) / every) + 1
    }

    /// Options that are on, in words.
    pub fn options(&self) -> Vec<String> {
        let run = &self.run;
        let mut options: Vec<String> =
            run.regularised().into_iter().map(|(name, value)| format!("{name} {value}")).collect();
        options.extend(run.keep_best.as_ref().map(|metric| format!("keep_best {metric}")));
        options.extend(run.patience.map(|patience| format!("patience {patience}")));
        options.extend(self.warm_start.as_ref().map(|start| format!("warm_start {}", start.path.display())));
        if !run.overlap {
            options.push("no overlap".into());
        }
        options
    }

    /// The plan as one object.
    pub fn to_json(&self) -> Value {
        let (run, model) = (&self.run, &self.run.model);
        json!({
            "dry_run": true,
            "model": {
                "kind": model.kind(),
                "parameters": model.parameters(),
                "table_parameters": model.table_parameters(),
                "dense_parameters": model.dense_parameters(),
                "features": model.features().len(),
                "dense_features": model.dense_features(),
                "dim": model.dim(),
            },
            "data": {
                "description": self.data,
                "reading": self.reading.name(),
                "samples": run.data.samples(),
                "eval_samples": run.data.eval_samples(),
                "split": self.config.data.split,
            },
            "batch": run.batch,
            "steps": run.steps,
            "steps_per_epoch": run.batches().per_epoch(),
            "evaluations": self.evaluations(),
            "eval_every": run.eval_every,
            "hosts": run.topology().hosts(),
            "ranks_per_host": run.topology().ranks_per_host(),
            "ranks_of_process": self.ranks_here,
            "threads_per_rank": self.threads,
            "dataflow": run.dataflow.kind(),
            "wire": WireConfig::explicit(run.wire),
            "all_reduce": run.all_reduce,
            "towers": model.towers().len(),
            "memory_bytes": self.memory.total(),
            "memory": self.memory,
            "available_bytes": self.available,
            "placement": self.placement,
            "step": {
                "phases": self.step.phases,
                "flops": self.step.flops,
                "memory_bytes": self.step.memory,
                "sent_host_bytes": self.step.sent.host,
                "sent_network_bytes": self.step.sent.network,
            },
            "resumed_after": self.resumed,
            "warm_start": self.warm_start,
            "writes": self.writes,
            "options": self.options(),
            "config": self.config,
        })
    }
}
