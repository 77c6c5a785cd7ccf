//! The recipe: a flat model, its affinity, towers by each strategy, and the best of them trained on all rows.

use super::{FlatResult, FoundTowers, TestResult, Towers, TowersError, TriedStrategy, distinct, in_towers};
use crate::affinity::measure;
use crate::cluster::{by_first_rank, check_all_reduce, check_device};
use crate::file::{FileError, read_text, replace};
use crate::folder::PREPARED;
use crate::logs::{self, OpenLogs};
use crate::partition::{Divided, Tables};
use crate::records::{RECORDS, Records};
use crate::resume::Resumed;
use crate::scoring::Opened;
use crate::summary::sent_between_hosts;
use crate::{Error, Training};
use planning::partitioner::Strategy;
use serde::{Deserialize, Serialize};
use serde_json::json;
use spec::affinity::Affinity;
use spec::presets::ModelKind;
use spec::run::{Config, Run, RunError};
use spec::towers::{Assignment, DcnOutput, Module, TowersFile};
use std::fs;
use std::path::Path;
use training::Cluster;

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

/// Towers of a strategy, and the result of the model in them.
struct Attempt {
    strategy: Strategy,
    towers: Vec<Vec<String>>,
    /// How the towers were found; `None` in a process that does not have rank 0.
    divided: Option<Divided>,
    auc: f64,
    record: RecipeRecord,
}

/// What all runs of the recipe share.
pub(super) struct Recipe<'a> {
    asked: &'a Towers,
    cluster: &'a Cluster,
    logs: OpenLogs,
    /// The training rows alone, some of them to compare by.
    pilot_logs: OpenLogs,
    towers: usize,
    module: Module,
    records: Records<RecipeRecord>,
}

impl<'a> Recipe<'a> {
    /// Refuses what cannot be before anything is trained.
    pub(super) fn checked(asked: &'a Towers, cluster: &'a Cluster) -> Result<Self, Error> {
        let (config, out) = (&asked.config, &asked.out);
        let within = |what: String| move |source: RunError| Error::Run { what, source };
        if config.model.towers.is_some() || config.model.tower_module.is_some() {
            return Err(TowersError::NotFlat { what: asked.described.clone() }.into());
        }
        distinct(&asked.strategies)?;
        if asked.module == Some(Module::None) {
            return Err(TowersError::NoModule.into());
        }
        check_all_reduce(config, cluster, &asked.described)?;
        check_device(config, cluster, &asked.described)?;
        by_first_rank(cluster, || claim(out))?;
        let kept = out.join(PREPARED);
        let logs = logs::open_on_ranks(&config.data, Some(&kept), cluster, &asked.control)?;
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
        by_first_rank(cluster, || {
            let taken = Records::<RecipeRecord>::open(out, &what).and_then(|records| records.taken());
            taken.map_err(TowersError::from)?.into_iter().for_each(|notice| asked.control.notice(notice));
            Ok::<_, Error>(())
        })?;
        let records = Records::existing(out);
        Ok(Self { asked, cluster, logs, pilot_logs, towers, module, records })
    }

    /// Finds the best towers; `None` in a process that does not have rank 0.
    pub(super) fn run(&self) -> Result<Option<FoundTowers>, Error> {
        let out = &self.asked.out;
        let (affinity, tables, flat) = self.measure_flat()?;
        let mut tried: Vec<Attempt> = Vec::new();
        for (at, &strategy) in self.asked.strategies.iter().enumerate() {
            tried.push(self.attempt(at, strategy, &affinity, &tables)?);
        }
        let best = by_first_rank(self.cluster, || {
            let better =
                |best: usize, next: usize| if tried[next].auc > tried[best].auc { next } else { best };
            let best = (0..tried.len()).reduce(better).ok_or(TowersError::NoStrategy)?;
            write_towers(&out.join("towers.json"), &tried[best].towers)?;
            Ok::<_, Error>(best)
        })?;
        let test = self.train_best(&tried[best])?;
        let Some(tried) = tried.into_iter().map(Attempt::result).collect() else { return Ok(None) };
        let (compared_on, module) = (self.logs.pilot_rows(), self.module);
        let found = FoundTowers { tried, best, flat, test, compared_on, module };
        replace(&out.join("summary.json"), format!("{:#}\n", found.to_json()).as_bytes())?;
        Ok(Some(found))
    }

    /// Result of a run that ended before, by its name.
    fn known(&self, name: &str) -> Result<Option<RecipeRecord>, Error> {
        by_first_rank(self.cluster, || {
            let mut records = self.records.all().map_err(TowersError::from)?.into_iter();
            Ok(records.find(|record| record.name == name))
        })
    }

    /// Keeps the result of a run, and gives all ranks what the first knows of it.
    fn keep(&self, record: RecipeRecord) -> Result<RecipeRecord, Error> {
        by_first_rank(self.cluster, || {
            self.records.append(&record).map_err(TowersError::from)?;
            Ok(record)
        })
    }

    /// The result of one run of the recipe, number `at`, in a folder of its name. What an earlier start trained is not trained
    /// again.
    fn train(&self, at: usize, name: &str, config: Config, logs: &OpenLogs) -> Result<RecipeRecord, Error> {
        let title = format!("[{}/{}] {name}", at + 1, self.asked.strategies.len() + 2);
        let training = Training::new(config)
            .logs(logs.clone())
            .cluster(self.cluster.clone())
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
        let begun = Resumed::begun(&folder, self.cluster, &self.asked.control.silent())?;
        let steps = logs.check(&config).map_err(|source| Error::Run { what: name.into(), source })?.steps;
        if begun.is_some_and(|resumed| resumed.step() >= steps) {
            // The run was killed between its end and its record. Only steps that are trained tell what they send.
            by_first_rank(self.cluster, || {
                Ok::<_, Error>(fs::remove_dir_all(&folder).map_err(FileError::writing(&folder))?)
            })?;
        }
        self.keep(self.train(at, name, config, logs)?)
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
            let affinity = by_first_rank(self.cluster, || Ok::<_, Error>(read_affinity(&file)?))?;
            return Ok(found(affinity, known));
        }
        let record = self.train(0, "flat", config, logs)?;
        let opened = Opened::on_training(&asked.out.join("flat"), logs, self.cluster, &asked.control)?;
        let cluster = self.cluster.clone();
        let affinity = measure(&opened, asked.cosines, asked.affinity_samples, cluster, &asked.control)?;
        if self.cluster.has_first_rank() {
            write_affinity(&file, &affinity)?;
        }
        // Last: with its record, the affinity is there.
        Ok(found(affinity, self.keep(record)?))
    }

    /// Trains the model in the towers of a strategy.
    fn attempt(
        &self,
        at: usize,
        strategy: Strategy,
        affinity: &Affinity,
        tables: &Tables,
    ) -> Result<Attempt, Error> {
        let asked = self.asked;
        let file = |extension: &str| asked.out.join(format!("{}.{extension}", strategy.name()));
        let mut divided = None;
        let towers = by_first_rank(self.cluster, || {
            let divided =
                divided.insert(asked.division.divide(affinity, tables, self.towers, strategy, 0)?);
            write_towers(&file("json"), &divided.towers)?;
            if let Some(picture) = &asked.picture {
                replace(&file("html"), picture(divided).as_bytes())?;
            }
            Ok::<_, Error>(divided.towers.clone())
        })?;
        let config = in_towers(&asked.config, Assignment::Lists(towers.clone()), self.module);
        let record = self.result(at + 1, strategy.name(), config, &self.pilot_logs)?;
        let auc = record.auc.ok_or(TowersError::NoAuc)?;
        Ok(Attempt { strategy, towers, divided, auc, record })
    }

    /// Trains the model in the towers that were chosen, on all training rows.
    fn train_best(&self, best: &Attempt) -> Result<TestResult, Error> {
        let towers = Assignment::Lists(best.towers.clone());
        let config = in_towers(&self.asked.config, towers, self.module);
        let record = self.result(self.asked.strategies.len() + 1, "best", config, &self.logs)?;
        let RecipeRecord { auc, samples, seconds, .. } = record;
        Ok(TestResult { auc, samples, seconds })
    }
}

impl Attempt {
    /// The result of the strategy; `None` in a process that does not know how its towers were found.
    fn result(self) -> Option<TriedStrategy> {
        let Self { strategy, divided, auc, record, .. } = self;
        let RecipeRecord { between_hosts, seconds, .. } = record;
        Some(TriedStrategy { strategy, divided: divided?, auc, between_hosts, seconds })
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
