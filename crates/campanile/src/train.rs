//! Training: a run with its logs, its folder and its ranks.
//!
//! [`Training`] says what is wanted, [`OpenTraining`] has logs and a checked run, [`Trained`] is the result.

mod dry_run;
mod keep;
mod open;
mod pace;
mod warm_start;

pub use dry_run::{DryRun, Reading, StepTotals};
pub use open::OpenTraining;
pub use pace::ComputeMode;
pub use warm_start::{LeftOut, MatchedRows, WarmStarted};

use crate::Error;
use crate::cluster::{self, Transport};
use crate::control::Control;
use crate::discover::describe;
use crate::event::{Event, Notice};
use crate::file::{read_config, whole};
use crate::folder::{PREPARED, RunFolder};
use crate::logs::{self, LogError, OpenLogs, Tables};
use crate::output::{Inputs, Output};
use crate::plan;
use crate::resume::Resumed;
use data::Table;
use data::discover::{Request, format_of};
use keep::Keeper;
use spec::pace::PaceError;
use spec::plan::PlanChoice;
use spec::run::{Config, DataFormat, Every, KeepBest, OptimizerConfig, Run};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use training::checkpoint::Checkpoint;
use training::{BestSoFar, Cluster, MemoryUse, Outcome};
use warm_start::WarmStart;

/// Reason why a run cannot be trained as requested.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// Ranks that are processes, and a log that only one of them would have.
    #[error(
        "ranks that are processes need a log that all of them can read: give --out on a file system that all hosts share, \
         or prepare the log first with `campanile data prepare`"
    )]
    UnsharedLog,
    /// So many steps without a time that none is left.
    #[error("--warm-up {warm_up} leaves none of the {left} steps to be timed; lower it")]
    WarmUp {
        /// Steps without a time.
        warm_up: u64,
        /// Steps of the run.
        left: u64,
    },
    /// Times that cannot be measured on ranks that are processes.
    #[error(
        "ranks that are processes cannot take turns at being measured: write the times with `campanile pace --out FILE`, and \
         give them with --compute paced:FILE"
    )]
    PacedProcesses,
    /// A file that holds no times.
    #[error(
        "{}: a pace looks like {{\"scale\": 1.0, \"phases\": {{\"lookup\": [0.001, 0.002], \"loss\": 0.0001}}}}",
        path.display()
    )]
    NoPace {
        /// Path of the file.
        path: PathBuf,
        /// Error in the contents of the file.
        source: serde_json::Error,
    },
    /// Times that are those of another step.
    #[error("{}: the times are of another step; measure this one with `campanile pace`", path.display())]
    OtherStep {
        /// Path of the file.
        path: PathBuf,
        /// Error in the times.
        source: PaceError,
    },
    /// A checkpoint of which nothing fits a new run.
    #[error(
        "--warm-start {}: no table and no layer of the checkpoint fits this run; leave --warm-start out, or use the same \
         columns and widths:{}",
        path.display(), reasons.iter().map(|reason| format!("\n  {reason}")).collect::<String>()
    )]
    NothingTaken {
        /// Path that was named.
        path: PathBuf,
        /// Reasons of the first tables and layers.
        reasons: Vec<String>,
    },
    /// A value that cannot be written as text.
    #[error("{what}")]
    Text {
        /// The value, as `the config as TOML`.
        what: &'static str,
        /// Error in the contents of the file.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl TrainError {
    fn text(what: &'static str) -> impl Fn(serde_json::Error) -> Self {
        move |source| Self::Text { what, source: Box::new(source) }
    }
}

/// A run that is to be trained. Everything but the config is optional.
///
/// ```
/// use campanile::{Config, Training};
/// let folder = tempfile::tempdir().unwrap();
/// let mut config = Config::default();
/// config.train.steps = Some(3);
/// config.train.batch = Some(64);
/// config.data.synthetic = Some(spec::synthetic::Synthetic { eval_samples: 256, ..Default::default() });
/// let trained = Training::new(config).out(folder.path().join("run")).run()?;
/// assert_eq!(trained.outcome.losses.len(), 3);
/// assert!(trained.folder.unwrap().join("summary.json").is_file());
/// # Ok::<(), campanile::Error>(())
/// ```
#[derive(Debug)]
pub struct Training {
    config: Config,
    out: Option<PathBuf>,
    resumed: Option<Resumed>,
    written: Option<OptimizerConfig>,
    cluster: Cluster,
    logs: Option<OpenLogs>,
    tables: Tables,
    /// Column of the label, where columns are found by looking at the data.
    label: Option<String>,
    compute: ComputeMode,
    trace: Option<TraceFile>,
    warm_up: u64,
    report_every: Option<u64>,
    title: Option<String>,
    described: String,
    /// Whether nothing is trained, and no folder made or changed.
    dry: bool,
    control: Control,
}

/// A file for the times of phases in the last steps.
#[derive(Clone, Debug)]
pub struct TraceFile {
    /// The file to write.
    pub path: PathBuf,
    /// Whether a file of this name may be replaced.
    pub force: bool,
    /// Steps in the trace.
    pub steps: u64,
    /// Files that the caller reads, which are never replaced.
    pub inputs: Inputs,
}

/// The result of a training.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The run that was trained.
    pub run: Run,
    /// Losses, scores, times and bytes.
    pub outcome: Outcome,
    /// Folder in which the run is kept.
    pub folder: Option<PathBuf>,
    /// Weights that the run began with; `None` for a run that began with initial weights, or was resumed.
    pub warm_start: Option<WarmStarted>,
    /// Whether rank 0 is in this process, which reports for all.
    pub has_first_rank: bool,
}

impl Training {
    /// A new run.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            out: None,
            resumed: None,
            written: None,
            cluster: Cluster::Threads,
            logs: None,
            tables: Tables::default(),
            label: None,
            compute: ComputeMode::Real,
            trace: None,
            warm_up: 0,
            report_every: None,
            title: None,
            described: "the run".into(),
            dry: false,
            control: Control::default(),
        }
    }

    /// The run that a TOML file describes.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        Ok(Self::new(read_config(path.as_ref())?))
    }

    /// The run in a folder, which goes on from its last whole checkpoint.
    pub fn resume(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let resumed = Resumed::find(folder.as_ref(), &Cluster::Threads, &Control::default())?;
        let training = Self::new(resumed.base(false));
        Ok(Self { written: resumed.optimizer.clone(), ..training.resumed(resumed) })
    }

    /// Says which column is the label, where [`data`](Self::data) or [`table`](Self::table) finds the meaning of columns by looking at
    /// them. Must be set before.
    pub fn label(self, column: impl Into<String>) -> Self {
        Self { label: Some(column.into()), ..self }
    }

    /// Trains on the files at `path`: a path or a glob. Unless the config says how they are written and what their columns are,
    /// both are found by looking at them, and a tenth of the rows is kept from training and evaluated on.
    pub fn data(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = whole(&path.as_ref().to_string_lossy())?;
        let data = &mut self.config.data;
        data.train.push(path);
        if logs::is_prepared(&data.train) {
            data.format = Some(DataFormat::Prepared);
        } else if data.format.is_none() && data.schema.is_none() {
            self.describe()?;
        } else if data.format.is_none() {
            data.format = Some(format_of(&data::files::resolve(&data.train)?)?);
        }
        Ok(self)
    }

    /// Trains on a table in memory, whose columns are read where they lie. Unless the config has a schema, the meaning of the columns is
    /// found by looking at them, and a tenth of the rows is kept from training and evaluated on. The run can go on later: it keeps the
    /// table as it was prepared.
    pub fn table(mut self, table: Arc<Table>) -> Result<Self, Error> {
        if table.rows() == 0 {
            let (paths, split) = (data::table::NAME.into(), "train".into());
            return Err(LogError::NoSamples { paths, split }.into());
        }
        self.tables.train = Some(table);
        let data = &mut self.config.data;
        (data.train, data.format) = (vec![logs::TABLE.into()], Some(DataFormat::Parquet));
        if data.schema.is_none() {
            self.describe()?;
        }
        Ok(self)
    }

    /// Evaluates on a table in memory.
    pub fn evaluate_on_table(mut self, table: Arc<Table>) -> Self {
        self.tables.eval = Some(table);
        let data = &mut self.config.data;
        (data.eval, data.split, data.split_by) = (vec![logs::TABLE.into()], None, None);
        self
    }

    /// Finds the meaning of the columns of the training data.
    fn describe(&mut self) -> Result<(), Error> {
        let request = Request { label: self.label.as_deref(), time: None };
        describe(&mut self.config.data, self.tables.train.as_ref(), &request, &self.control)
    }

    /// Evaluates on the files at `path`, which are written as the training data: a path or a glob.
    pub fn evaluate_on(mut self, path: impl AsRef<Path>) -> Result<Self, Error> {
        self.config.data.eval.push(whole(&path.as_ref().to_string_lossy())?);
        (self.config.data.split, self.config.data.split_by) = (None, None);
        Ok(self)
    }

    /// Keeps the run in a folder: config, schedule, metrics and checkpoints.
    pub fn out(self, folder: impl Into<PathBuf>) -> Self {
        Self { out: Some(folder.into()), ..self }
    }

    /// Keeps the run in a folder, and goes on with the run that was begun there, if one was. Ranks, observer and stop flag must be
    /// set before.
    pub fn out_going_on(self, folder: impl Into<PathBuf>) -> Result<Self, Error> {
        let folder = folder.into();
        let begun = Resumed::begun(&folder, &self.cluster, &self.control)?;
        let training = self.out(folder);
        Ok(match begun {
            Some(resumed) => training.resumed(resumed),
            None => training,
        })
    }

    /// Goes on with a run that was found, in its own folder unless [`out`](Self::out) names another.
    pub fn resumed(self, resumed: Resumed) -> Self {
        let out = self.out.or_else(|| Some(resumed.folder.clone()));
        Self { out, resumed: Some(resumed), ..self }
    }

    /// Optimizers as the user wrote them, before defaults were filled in; checkpoints keep them for runs that go on.
    pub fn written_optimizer(self, optimizer: OptimizerConfig) -> Self {
        Self { written: Some(optimizer), ..self }
    }

    /// Joins the ranks by a transport. By default they are threads of this process.
    pub fn transport(self, transport: Transport) -> Result<Self, Error> {
        Ok(Self { cluster: cluster::join(transport, false)?, ..self })
    }

    /// Runs on ranks that were [joined](cluster::join) already.
    pub fn cluster(self, cluster: Cluster) -> Self {
        Self { cluster, ..self }
    }

    /// Reads logs that are open already.
    pub fn logs(self, logs: OpenLogs) -> Self {
        Self { logs: Some(logs), ..self }
    }

    /// Computes truly, or by the clock.
    pub fn compute(self, compute: ComputeMode) -> Self {
        Self { compute, ..self }
    }

    /// Writes when each phase of the last steps ran, on every rank, as a trace for Perfetto or chrome://tracing.
    pub fn trace(self, trace: Option<TraceFile>) -> Self {
        Self { trace, ..self }
    }

    /// Leaves the first steps out of all times.
    pub fn warm_up(self, steps: u64) -> Self {
        Self { warm_up: steps, ..self }
    }

    /// Tells losses and speed every so many steps; about a hundred times where nothing is said.
    pub fn report_every(self, steps: Option<u64>) -> Self {
        Self { report_every: steps, ..self }
    }

    /// Names the run in progress and errors, where it is one of several.
    pub fn titled(self, title: impl Into<String>) -> Self {
        let title = title.into();
        Self { title: Some(title.clone()), described: title, ..self }
    }

    /// Says in errors where the config came from.
    pub fn described(self, described: impl Into<String>) -> Self {
        Self { described: described.into(), ..self }
    }

    /// Tells `observer` what happens.
    pub fn observe(self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { control: self.control.observe(observer), ..self }
    }

    /// Saves the state and ends after the current step, once `stop` is set.
    pub fn stop_on(self, stop: Arc<AtomicBool>) -> Self {
        Self { control: self.control.stop_on(stop), ..self }
    }

    /// Takes observer and stop flag from `control`.
    pub fn control(self, control: Control) -> Self {
        Self { control, ..self }
    }

    /// Opens the logs and trains.
    pub fn run(self) -> Result<Trained, Error> {
        self.open()?.train()
    }

    /// Opens the logs, checks the run with them, and claims a new folder.
    pub fn open(mut self) -> Result<OpenTraining, Error> {
        if let Some(resumed) = &self.resumed {
            resumed.check_split(&self.config)?;
        }
        if let Some(KeepBest::By(metric)) = &self.config.train.keep_best {
            BestSoFar::by(metric.clone())
                .map_err(|source| Error::Run { what: self.described.clone(), source })?;
        }
        cluster::check_all_reduce(&self.config, &self.cluster, &self.described)?;
        // A dry run may be made on another machine than the run.
        if self.compute == ComputeMode::Real && !self.dry {
            cluster::check_device(&self.config, &self.cluster, &self.described)?;
        }
        if self.compute == ComputeMode::Real {
            self.checkpoint_now_and_then();
        }
        // A new folder must be free before logs are prepared in it. One to go on in stays as it is until all is checked.
        let keeper = match (self.goes_on(), self.dry) {
            (true, _) => None,
            (false, false) => self.keeper()?,
            (false, true) => {
                self.out.as_deref().map(RunFolder::check_free).transpose()?;
                None
            }
        };
        // After the run's folder is there, since a trace may go into it.
        let trace = if self.dry { None } else { self.check_trace()? };
        let (logs, opened_here) = match self.logs.take() {
            Some(logs) => (logs, false),
            None => (self.open_logs()?, true),
        };
        let run = self.check(&logs)?;
        BestSoFar::of_run(&run).map_err(|source| Error::Run { what: self.described.clone(), source })?;
        let explicit = self.config.explicit(&run);
        if let Some(resumed) = &self.resumed {
            resumed.check(&explicit, &run, &logs)?;
        }
        if opened_here && self.cluster.has_first_rank() {
            let odd = logs.warnings(&self.config.data).into_iter().map(Notice::OddLog);
            odd.for_each(|notice| self.control.notice(notice));
        }
        let warm_start = self.warm_start(&run, &explicit, &logs)?;
        Ok(OpenTraining { asked: self, run, explicit, logs, keeper, trace, warm_start })
    }

    /// Checks the run with its logs. Of `--plan auto` the plan is settled here.
    fn check(&mut self, logs: &OpenLogs) -> Result<Run, Error> {
        let check = |config: &Config| {
            logs.check(config).map_err(|source| Error::Run { what: self.described.clone(), source })
        };
        let run = check(&self.config)?;
        if self.config.placement.plan != Some(PlanChoice::Auto) {
            return Ok(run);
        }
        // Machines may differ in their memory, but all ranks follow one plan.
        let plan = cluster::by_first_rank(&self.cluster, || {
            Ok::<_, Error>(plan::auto(&run, &self.cluster, self.memory_use()))
        })?;
        let mut config = self.config.clone();
        config.placement.plan = Some(PlanChoice::File(Box::new(plan)));
        let run = check(&config)?;
        self.config = config;
        Ok(run)
    }

    /// What memory is used for.
    fn memory_use(&self) -> MemoryUse {
        let paced = self.compute != ComputeMode::Real;
        let computing = if paced { 0 } else { MemoryUse::TRAINING.computing };
        MemoryUse { saves: self.out.is_some() && !paced, computing, ..MemoryUse::TRAINING }
    }

    /// An error of the trainer; for a run that does not fit, with what would make it fit.
    fn with_remedies(&self, run: &Run, error: training::Error) -> Error {
        let explanation = match &error {
            training::Error::Memory { available, .. } => {
                plan::explanation(run, &self.cluster, self.memory_use(), *available)
            }
            _ => None,
        };
        match explanation {
            Some(explanation) => Error::DoesNotFit { error: Box::new(error), explanation },
            None => cluster::report_once(&self.cluster, error).into(),
        }
    }

    /// The weights of another run that this one begins with. A run that goes on has them already.
    fn warm_start(&self, run: &Run, explicit: &Config, logs: &OpenLogs) -> Result<Option<WarmStart>, Error> {
        let resumes = self.resumed.as_ref().is_some_and(|resumed| resumed.checkpoint.is_some());
        let Some(path) = self.config.train.warm_start.as_ref().filter(|_| !resumes) else { return Ok(None) };
        let teller = (self.cluster.has_first_rank(), &self.control);
        WarmStart::open(path, run, explicit, logs, teller).map(Some)
    }

    /// A run that is kept in a folder saves its state now and then, so that a kill costs minutes at most.
    fn checkpoint_now_and_then(&mut self) {
        /// Seconds between checkpoints, unless told.
        const CHECKPOINT_EVERY_S: f64 = 600.0;
        if self.out.is_some() {
            self.config.checkpoint.every.get_or_insert(Every::Seconds(CHECKPOINT_EVERY_S));
        }
    }

    /// Whether the run goes on in the folder that it has.
    fn goes_on(&self) -> bool {
        self.resumed.as_ref().zip(self.out.as_deref()).is_some_and(|(resumed, out)| resumed.is_in(out))
    }

    /// The run's folder; one rank keeps the run for all.
    fn keeper(&self) -> Result<Option<Keeper>, Error> {
        let kept_at = self.out.as_deref().filter(|_| self.cluster.has_first_rank());
        Ok(kept_at.map(|out| Keeper::open(out, self.resumed.as_ref())).transpose()?)
    }

    fn check_trace(&self) -> Result<Option<Output>, Error> {
        let Some(trace) = self.trace.as_ref().filter(|_| self.cluster.has_first_rank()) else {
            return Ok(None);
        };
        let mut inputs = trace.inputs.clone();
        inputs.add_log(&self.config.data.train).add_log(&self.config.data.eval);
        inputs.add_all(self.compute.file());
        let checkpoint = self.resumed.as_ref().and_then(|resumed| resumed.checkpoint.as_ref());
        inputs.add_all(checkpoint.map(Checkpoint::path));
        Ok(Some(Output::check(&trace.path, trace.force, &inputs)?))
    }

    fn open_logs(&self) -> Result<OpenLogs, Error> {
        let kept = self.out.as_ref().filter(|_| !self.dry).map(|out| out.join(PREPARED));
        let data = &self.config.data;
        if cluster::is_distributed(&self.cluster) && kept.is_none() && logs::must_be_prepared(data) {
            return Err(TrainError::UnsharedLog.into());
        }
        if self.tables.train.is_some() || self.tables.eval.is_some() {
            return Ok(logs::open_tables(data, &self.tables, kept.as_deref(), &self.control)?);
        }
        logs::open_on_ranks(data, kept.as_deref(), &self.cluster, &self.control)
    }
}
