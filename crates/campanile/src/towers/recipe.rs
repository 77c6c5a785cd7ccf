//! The recipe: a flat model, its affinity, towers by each strategy, and the best of them trained on all rows.

use super::{FlatResult, FoundTowers, TestResult, TowersError, TriedStrategy, distinct, in_towers};
use crate::affinity::{SAMPLES, measure};
use crate::control::Control;
use crate::file::{FileError, read_text, replace};
use crate::folder::PREPARED;
use crate::logs::{self, OpenLogs};
use crate::partition::{Divided, Division, Tables};
use crate::records::{RECORDS, Records};
use crate::resume::Resumed;
use crate::scoring::Opened;
use crate::summary::sent_between_hosts;
use crate::{Error, Event, Training};
use planning::partitioner::Strategy;
use serde::{Deserialize, Serialize};
use serde_json::json;
use spec::affinity::Affinity;
use spec::presets::ModelKind;
use spec::run::{Config, Run, RunError};
use spec::towers::{Assignment, DcnOutput, Module, TowersFile};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use training::Cosines;

type Picture = dyn Fn(&Divided) -> String + Send + Sync;

/// A search for the best towers of a model. Everything but config and folder is optional.
///
/// ```
/// use campanile::{Config, towers::Towers};
/// # let folder = tempfile::tempdir().unwrap();
/// # let mut config = Config::default();
/// # (config.train.steps, config.train.batch) = (Some(3), Some(64));
/// # config.topology.ranks_per_host = Some(1);
/// # config.data.synthetic = Some(spec::synthetic::Synthetic { eval_samples: 512, ..Default::default() });
/// let found = Towers::new(config, folder.path().join("towers")).count(2).affinity_samples(256).run()?;
/// assert_eq!(found.best().divided.towers.len(), 2);
/// # Ok::<(), campanile::Error>(())
/// ```
#[derive(Clone)]
pub struct Towers {
    config: Config,
    out: PathBuf,
    count: Option<usize>,
    module: Option<Module>,
    strategies: Vec<Strategy>,
    flat_model: ModelKind,
    flat_steps: Option<u64>,
    division: Division,
    cosines: Cosines,
    affinity_samples: u64,
    picture: Option<Arc<Picture>>,
    described: String,
    control: Control,
}

impl fmt::Debug for Towers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Towers").field("config", &self.config).field("out", &self.out).finish_non_exhaustive()
    }
}

impl Towers {
    /// Towers for the flat model of `config`. All runs are kept in the folder `out`, where a search that was stopped goes on.
    pub fn new(config: Config, out: impl Into<PathBuf>) -> Self {
        Self {
            config,
            out: out.into(),
            count: None,
            module: None,
            strategies: vec![Strategy::Coherent, Strategy::Diverse, Strategy::Strided],
            flat_model: ModelKind::Dlrm,
            flat_steps: None,
            division: Division::default(),
            cosines: Cosines::default(),
            affinity_samples: SAMPLES,
            picture: None,
            described: "the run".into(),
            control: Control::default(),
        }
    }

    /// Number of towers. By default 4, or as many as there are hosts.
    pub fn count(self, towers: usize) -> Self {
        Self { count: Some(towers), ..self }
    }

    /// Module of the towers. By default half of a vector for each feature with DLRM, one vector for each tower with DCN.
    pub fn module(self, module: Option<Module>) -> Self {
        Self { module, ..self }
    }

    /// Strategies to try. By default coherent, diverse and strided.
    pub fn strategies(self, strategies: Vec<Strategy>) -> Self {
        Self { strategies, ..self }
    }

    /// Kind of the flat model that affinity is measured on. By default a DLRM, whose dot products teach embeddings to have
    /// cosines.
    pub fn flat_model(self, kind: ModelKind) -> Self {
        Self { flat_model: kind, ..self }
    }

    /// Steps of the flat model. By default half of those of the run.
    pub fn flat_steps(self, steps: Option<u64>) -> Self {
        Self { flat_steps: steps, ..self }
    }

    /// What towers shall be like.
    pub fn division(self, division: Division) -> Self {
        Self { division, ..self }
    }

    /// What affinity is: the absolute value of the mean cosine by default.
    pub fn cosines(self, cosines: Cosines) -> Self {
        Self { cosines, ..self }
    }

    /// Samples to measure affinity on, at most.
    pub fn affinity_samples(self, samples: u64) -> Self {
        Self { affinity_samples: samples, ..self }
    }

    /// Draws the towers of every strategy, as a page that is kept in the folder.
    pub fn picture(self, picture: impl Fn(&Divided) -> String + Send + Sync + 'static) -> Self {
        Self { picture: Some(Arc::new(picture)), ..self }
    }

    /// Says in errors where the config came from.
    pub fn described(self, described: impl Into<String>) -> Self {
        Self { described: described.into(), ..self }
    }

    /// Tells `observer` what happens.
    pub fn observe(self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { control: self.control.observe(observer), ..self }
    }

    /// Takes observer and stop flag from `control`.
    pub fn control(self, control: Control) -> Self {
        Self { control, ..self }
    }

    /// Finds the best towers.
    pub fn run(self) -> Result<FoundTowers, Error> {
        let recipe = Recipe::checked(&self)?;
        let (affinity, tables, flat) = recipe.measure_flat()?;
        let mut tried: Vec<TriedStrategy> = Vec::new();
        for (at, &strategy) in self.strategies.iter().enumerate() {
            tried.push(recipe.attempt(at, strategy, &affinity, &tables)?);
        }
        let better = |best: usize, next: usize| if tried[next].auc > tried[best].auc { next } else { best };
        let best = (0..tried.len()).reduce(better).ok_or(TowersError::NoStrategy)?;
        write_towers(&self.out.join("towers.json"), &tried[best].divided.towers)?;
        let test = recipe.train_best(&tried[best])?;
        let (compared_on, module) = (recipe.logs.pilot_rows(), recipe.module);
        let found = FoundTowers { tried, best, flat, test, compared_on, module };
        replace(&self.out.join("summary.json"), format!("{:#}\n", found.to_json()).as_bytes())?;
        Ok(found)
    }
}

/// Result of one run of the recipe.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RecipeRecord {
    /// Name of the run, which is that of its folder.
    name: String,
    auc: Option<f64>,
    steps: u64,
    /// Training samples of an epoch.
    samples: u64,
    between_hosts: u64,
    seconds: f64,
}

/// What all runs of the recipe share.
struct Recipe<'a> {
    asked: &'a Towers,
    logs: OpenLogs,
    /// The training rows alone, some of them to compare by.
    pilot_logs: OpenLogs,
    towers: usize,
    module: Module,
    records: Records<RecipeRecord>,
}

impl<'a> Recipe<'a> {
    /// Refuses what cannot be before anything is trained.
    fn checked(asked: &'a Towers) -> Result<Self, Error> {
        let (config, out) = (&asked.config, &asked.out);
        let within = |what: String| move |source: RunError| Error::Run { what, source };
        if config.model.towers.is_some() || config.model.tower_module.is_some() {
            return Err(TowersError::NotFlat { what: asked.described.clone() }.into());
        }
        distinct(&asked.strategies)?;
        if asked.module == Some(Module::None) {
            return Err(TowersError::NoModule.into());
        }
        claim(out)?;
        let logs = logs::open(&config.data, Some(&out.join(PREPARED)), &asked.control)?;
        let whole = logs.check(config).map_err(within(asked.described.clone()))?;
        if whole.data.eval_samples() == 0 {
            return Err(TowersError::NoEvaluation.into());
        }
        let pilot_logs = logs.for_pilots()?;
        let usual = whole.topology().hosts().max(4).min(whole.model.features().len());
        let towers = asked.count.unwrap_or(usual);
        let module = asked.module.map_or_else(|| usual_module(config, &whole), Ok)?;
        asked.division.check(&whole.model, towers, &asked.strategies)?;
        let strided = Assignment::Strided(towers.min(whole.model.features().len()));
        logs.check(&in_towers(config, strided, module))
            .map_err(within(format!("{towers} towers of {module}")))?;
        let flat = pilot_logs.check(&flat_config(asked, whole.steps));
        let aligned = |flat: Run| match flat.model.aligned_vectors() {
            Ok(_) => Ok(()),
            Err(error) => Err(RunError::new(error.field, error.problem)),
        };
        flat.and_then(aligned).map_err(within(format!("the flat {}", asked.flat_model.name())))?;
        let what = json!({
            "config": config,
            "towers": towers,
            "module": module.to_string(),
            "strategies": asked.strategies.iter().map(|strategy| strategy.name()).collect::<Vec<_>>(),
            "flat_model": asked.flat_model.name(),
            "flat_steps": asked.flat_steps,
            "division": format!("{:?}", asked.division),
            "affinity": format!("{:?}, {} samples", asked.cosines, asked.affinity_samples),
            "rows": logs.fingerprints(),
        });
        let records = Records::open(out, &what).map_err(TowersError::from)?;
        records
            .taken()
            .map_err(TowersError::from)?
            .into_iter()
            .for_each(|notice| asked.control.notice(notice));
        Ok(Self { asked, logs, pilot_logs, towers, module, records })
    }

    /// Result of a run that ended before, by its name.
    fn known(&self, name: &str) -> Result<Option<RecipeRecord>, Error> {
        let mut records = self.records.all().map_err(TowersError::from)?.into_iter();
        Ok(records.find(|record| record.name == name))
    }

    /// The result of one run of the recipe, number `at`, in a folder of its name. What an earlier start trained is not trained
    /// again.
    fn train(&self, at: usize, name: &str, config: Config, logs: &OpenLogs) -> Result<RecipeRecord, Error> {
        let title = format!("[{}/{}] {name}", at + 1, self.asked.strategies.len() + 2);
        let training = Training::new(config)
            .logs(logs.clone())
            .titled(&title)
            .control(self.asked.control.clone())
            .out_going_on(self.asked.out.join(name))?;
        let trained = match training.run() {
            Err(Error::NotKept { source, .. }) => return Err(*source),
            trained => trained?,
        };
        let (run, outcome) = (trained.run, trained.outcome);
        match outcome.interrupted {
            true => Err(TowersError::Stopped { title, step: outcome.steps, steps: run.steps }.into()),
            false => Ok(RecipeRecord {
                name: name.into(),
                auc: outcome.auc(),
                steps: outcome.steps,
                samples: run.data.samples(),
                between_hosts: sent_between_hosts(&outcome),
                seconds: outcome.seconds,
            }),
        }
    }

    /// The result of one run, which is known from an earlier start, or is trained and kept.
    fn result(&self, at: usize, name: &str, config: Config, logs: &OpenLogs) -> Result<RecipeRecord, Error> {
        if let Some(known) = self.known(name)? {
            return Ok(known);
        }
        let folder = self.asked.out.join(name);
        let begun = Resumed::begun(&folder, &self.asked.control.silent())?;
        let steps = logs.check(&config).map_err(|source| Error::Run { what: name.into(), source })?.steps;
        if begun.is_some_and(|resumed| resumed.step() >= steps) {
            // The run was killed between its end and its record. Only steps that are trained tell what they send.
            fs::remove_dir_all(&folder).map_err(FileError::writing(&folder))?;
        }
        let record = self.train(at, name, config, logs)?;
        self.records.append(&record).map_err(TowersError::from)?;
        Ok(record)
    }

    /// Trains the flat model and measures its affinity.
    fn measure_flat(&self) -> Result<(Affinity, Tables, FlatResult), Error> {
        let (asked, logs) = (self.asked, &self.pilot_logs);
        let within = |source| Error::Run { what: asked.described.clone(), source };
        let config = flat_config(asked, logs.check(&asked.config).map_err(within)?.steps);
        let tables = Tables::of(&logs.check(&config).map_err(within)?.model);
        let file = asked.out.join("affinity.json");
        let found = |affinity, RecipeRecord { auc, steps, .. }: RecipeRecord| {
            (affinity, tables, FlatResult { auc, steps })
        };
        if let Some(known) = self.known("flat")? {
            return Ok(found(read_affinity(&file)?, known));
        }
        let record = self.train(0, "flat", config, logs)?;
        let opened = Opened::on_training(&asked.out.join("flat"), logs, &asked.control)?;
        let affinity = measure(&opened, asked.cosines, asked.affinity_samples, &asked.control)?;
        write_affinity(&file, &affinity)?;
        // Last: with its record, the affinity is there.
        self.records.append(&record).map_err(TowersError::from)?;
        Ok(found(affinity, record))
    }

    /// Trains the model in the towers of a strategy.
    fn attempt(
        &self,
        at: usize,
        strategy: Strategy,
        affinity: &Affinity,
        tables: &Tables,
    ) -> Result<TriedStrategy, Error> {
        let asked = self.asked;
        let divided = asked.division.divide(affinity, tables, self.towers, strategy, 0)?;
        let file = |extension: &str| asked.out.join(format!("{}.{extension}", strategy.name()));
        write_towers(&file("json"), &divided.towers)?;
        if let Some(picture) = &asked.picture {
            replace(&file("html"), picture(&divided).as_bytes())?;
        }
        let config = in_towers(&asked.config, Assignment::Lists(divided.towers.clone()), self.module);
        let record = self.result(at + 1, strategy.name(), config, &self.pilot_logs)?;
        let auc = record.auc.ok_or(TowersError::NoAuc)?;
        let RecipeRecord { between_hosts, seconds, .. } = record;
        Ok(TriedStrategy { strategy, divided, auc, between_hosts, seconds })
    }

    /// Trains the model in the towers that were chosen, on all training rows.
    fn train_best(&self, best: &TriedStrategy) -> Result<TestResult, Error> {
        let towers = Assignment::Lists(best.divided.towers.clone());
        let config = in_towers(&self.asked.config, towers, self.module);
        let record = self.result(self.asked.strategies.len() + 1, "best", config, &self.logs)?;
        let RecipeRecord { auc, samples, seconds, .. } = record;
        Ok(TestResult { auc, samples, seconds })
    }
}

/// The config of the flat model, where the whole run has so many steps.
fn flat_config(asked: &Towers, steps: u64) -> Config {
    let mut flat = asked.config.clone();
    flat.model.kind = Some(asked.flat_model);
    flat.train.steps = Some(asked.flat_steps.unwrap_or(steps.div_ceil(2)));
    flat
}

/// Makes the folder, in which nothing may be but logs that an earlier command prepared, or a search that was stopped.
fn claim(out: &Path) -> Result<(), Error> {
    let is_prepared = |entry: &std::io::Result<fs::DirEntry>| {
        entry.as_ref().is_ok_and(|entry| entry.file_name() == PREPARED)
    };
    let begun = out.join(RECORDS).is_file();
    if out.exists()
        && !begun
        && !out.read_dir().is_ok_and(|mut inside| inside.all(|entry| is_prepared(&entry)))
    {
        return Err(TowersError::NotEmpty { path: out.to_owned() }.into());
    }
    Ok(fs::create_dir_all(out).map_err(FileError::creating(out))?)
}

/// Half of a vector for each feature, or one vector for each tower: what suits the model.
fn usual_module(config: &Config, run: &Run) -> Result<Module, TowersError> {
    let dim = run.model.dim();
    match config.model.kind.unwrap_or_default() {
        ModelKind::Dlrm => Ok(Module::Dlrm { c: 1, p: 0, d: (dim / 2).max(1) }),
        ModelKind::Dcn => Ok(Module::Dcn { d: dim, rank: None, out: DcnOutput::Tower }),
        ModelKind::DeepFm => Err(TowersError::NoModules),
    }
}

/// Writes towers as `--towers` reads them.
fn write_towers(path: &Path, towers: &[Vec<String>]) -> Result<(), FileError> {
    let text = serde_json::to_string_pretty(&TowersFile { towers: towers.to_vec() });
    let text = text.map_err(|source| FileError::Json { path: path.to_owned(), source })?;
    replace(path, (text + "\n").as_bytes())
}

/// Reads an affinity that was written here.
fn read_affinity(path: &Path) -> Result<Affinity, FileError> {
    serde_json::from_str(&read_text(path)?)
        .map_err(|source| FileError::JsonText { path: path.to_owned(), source })
}

/// Writes an affinity as `partition` reads it.
fn write_affinity(path: &Path, affinity: &Affinity) -> Result<(), FileError> {
    let text = serde_json::to_string(affinity);
    let text = text.map_err(|source| FileError::Json { path: path.to_owned(), source })?;
    replace(path, (text + "\n").as_bytes())
}
