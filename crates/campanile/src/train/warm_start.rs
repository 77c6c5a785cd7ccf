//! Warm start: which weights of another run's checkpoint a new run takes, and why others are left.
//!
//! A row of a table means an id. So a table is taken as a whole only where ids get the same rows in both runs; where both have
//! a vocabulary, rows are matched by id.

use super::TrainError;
use crate::Error;
use crate::checkpoint::{SavedRun, folder_of, locate_to_use, open_to_use};
use crate::control::Control;
use crate::event::Notice;
use crate::folder::VOCABULARIES;
use crate::logs::OpenLogs;
use data::prepare;
use data::prepared::PreparedLog;
use data::vocabulary::Vocabulary;
use serde::Serialize;
use spec::feature::Feature;
use spec::model::BlockName;
use spec::run::{Config, DataFormat, Run};
use spec::schema::{IdRule, Schema};
use spec::synthetic::Synthetic;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use training::checkpoint::{Checkpoint, TakenRows, TakenWeights};

/// Report of a warm start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WarmStarted {
    /// Checkpoint that weights were taken from.
    pub path: PathBuf,
    /// Steps done in that checkpoint.
    pub step: u64,
    /// Number of tables and layer parameters that were taken, in part or as a whole.
    pub taken: usize,
    /// Tables of which rows were matched by id.
    pub by_id: Vec<MatchedRows>,
    /// Tables and layer parameters that start at their initial weights.
    pub left: Vec<LeftOut>,
}

/// A table of which rows were matched by id.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MatchedRows {
    /// Name of the tensor.
    pub name: String,
    /// Rows that were taken.
    pub rows: usize,
    /// Rows of the table.
    pub of: usize,
}

/// A table or layer parameter that was not taken.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// Name of the tensor.
    pub name: String,
    /// Reason why it was not taken.
    pub reason: String,
}

/// A checkpoint to start from, what is taken of it, and what is told of that.
#[derive(Debug)]
pub(super) struct WarmStart {
    pub checkpoint: Checkpoint,
    pub taken: TakenWeights,
    pub report: WarmStarted,
}

impl WarmStart {
    /// Opens the checkpoint at `path`, or the best or last one of the run at `path`, and finds what the new `run` takes of it.
    /// The rank that is `first` verifies every file and tells the user.
    pub fn open(
        path: &str,
        run: &Run,
        config: &Config,
        logs: &OpenLogs,
        (first, control): (bool, &Control),
    ) -> Result<Self, Error> {
        let path = Path::new(path);
        let checkpoint = match first {
            true => open_to_use(path, None, control)?.checkpoint,
            false => Checkpoint::open(locate_to_use(path, None)?.0)?,
        };
        let there = Ids::of_checkpoint(&checkpoint)?;
        let here = Ids::of_run(config, logs)?;
        let shapes: BTreeMap<&str, &[usize]> = checkpoint.tensors().collect();
        let mut report = WarmStarted {
            path: checkpoint.path().to_owned(),
            step: checkpoint.manifest().step,
            ..WarmStarted::default()
        };
        let taken = TakenWeights {
            tables: tables(run, &shapes, &there, &here, &mut report),
            layers: layers(run, &shapes, &there, &here, &mut report),
        };
        if report.taken == 0 {
            let reasons = report.left.iter().take(3).map(|left| format!("{}: {}", left.name, left.reason));
            let reasons = reasons.collect();
            return Err(TrainError::NothingTaken { path: path.to_owned(), reasons }.into());
        }
        if first {
            control.notice(Notice::WarmStart(report.clone()));
        }
        Ok(Self { checkpoint, taken, report })
    }
}

/// How ids became rows in a run.
struct Ids {
    /// The synthetic log, whose ids are row numbers.
    synthetic: Option<Synthetic>,
    /// Columns of the log; `None` where it is synthetic, or gone.
    schema: Option<Schema>,
    /// Vocabulary of each sparse column, where it has one that can be read.
    vocabularies: Vec<Option<Vocabulary>>,
    /// Names of features, in the order of the model.
    features: Vec<String>,
    /// Numbers of rows of their tables, and dims that are their own.
    sizes: Vec<(usize, Option<usize>)>,
}

impl Ids {
    /// Ids of the run that a checkpoint is of.
    fn of_checkpoint(checkpoint: &Checkpoint) -> Result<Self, Error> {
        let config = SavedRun::of(checkpoint)?.config;
        let schema = match config.data.format.unwrap_or_default() {
            DataFormat::Synthetic => None,
            DataFormat::CriteoTsv => Some(config.data.schema.clone().unwrap_or_else(Schema::criteo)),
            DataFormat::Csv | DataFormat::Parquet => config.data.schema.clone(),
            DataFormat::Prepared => {
                let log = config.data.train.first().and_then(|path| PreparedLog::open(Path::new(path)).ok());
                log.map(|log| log.manifest().schema.clone()).or_else(|| config.data.schema.clone())
            }
        };
        let folder = folder_of(checkpoint.path()).join(VOCABULARIES);
        let vocabularies =
            schema.as_ref().and_then(|schema| prepare::load_vocabularies(schema, &folder).ok());
        Ok(Self::new(&config, schema, vocabularies.unwrap_or_default()))
    }

    /// Ids of a new run.
    fn of_run(config: &Config, logs: &OpenLogs) -> Result<Self, Error> {
        let Some(log) = logs.train() else { return Ok(Self::new(config, None, Vec::new())) };
        let schema = log.manifest().schema.clone();
        Ok(Self::new(config, Some(schema), prepare::vocabularies(log)?))
    }

    fn new(config: &Config, schema: Option<Schema>, vocabularies: Vec<Option<Vocabulary>>) -> Self {
        let synthetic = (config.data.format.unwrap_or_default() == DataFormat::Synthetic)
            .then(|| config.data.synthetic.unwrap_or_default());
        let features = || config.model.features.iter().flatten();
        let dim = |feature: &Feature| feature.dim.or(config.model.dim);
        let sizes = features().map(|feature| (feature.rows, dim(feature))).collect();
        let features = features().map(|feature| feature.name.clone()).collect();
        Self { synthetic, schema, vocabularies, features, sizes }
    }

    /// How ids of a column became rows; `None` where that is not known.
    fn rule(&self, feature: &str) -> Option<Rule<'_>> {
        let sparse = &self.schema.as_ref()?.sparse;
        let index = sparse.iter().position(|column| column.column == feature)?;
        Some(match sparse[index].ids {
            IdRule::Hash => Rule::Hash,
            IdRule::Index => Rule::Index,
            IdRule::Vocabulary => Rule::Vocabulary(self.vocabularies.get(index)?.as_ref()?),
            IdRule::Buckets => Rule::Buckets(self.vocabularies.get(index)?.as_ref()?),
        })
    }

    /// Names of the dense columns; `None` where they are not known.
    fn numbers(&self) -> Option<Vec<&str>> {
        Some(self.schema.as_ref()?.dense.iter().map(|column| column.column.as_str()).collect())
    }
}

/// How ids of a column become rows.
enum Rule<'a> {
    Hash,
    Index,
    Vocabulary(&'a Vocabulary),
    Buckets(&'a Vocabulary),
}

impl Rule<'_> {
    fn name(&self) -> &'static str {
        match self {
            Rule::Hash => "hashed",
            Rule::Index => "row numbers",
            Rule::Vocabulary(_) => "numbered by a vocabulary",
            Rule::Buckets(_) => "buckets of numbers",
        }
    }
}

/// Rows of each table that are taken.
fn tables(
    run: &Run,
    shapes: &BTreeMap<&str, &[usize]>,
    there: &Ids,
    here: &Ids,
    report: &mut WarmStarted,
) -> Vec<TakenRows> {
    let features = run.model.features().iter().enumerate();
    let table = |(index, feature): (usize, &Feature)| {
        if run.model.tensor_train(index).is_some() {
            // The cores of a tensor train are among the layers.
            return TakenRows::None;
        }
        let name = format!("tables.{}.weight", feature.name);
        let shape = [feature.rows, run.model.row_width(index)];
        let rows = match shapes.get(name.as_str()) {
            None => Err("the checkpoint has no such table".to_owned()),
            Some(other) if other[1] != shape[1] => Err(other_shape(other, &shape)),
            Some(other) => rows(&feature.name, other, &shape, there, here),
        };
        if let Ok(TakenRows::Some(rows)) = &rows {
            report.by_id.push(MatchedRows { name: name.clone(), rows: rows.len(), of: feature.rows });
        }
        report.note(name, rows)
    };
    features.map(table).collect()
}

impl WarmStarted {
    /// Counts what is taken, or lists why it is left.
    fn note<T: Default>(&mut self, name: String, taken: Result<T, String>) -> T {
        match taken {
            Ok(taken) => {
                self.taken += 1;
                taken
            }
            Err(reason) => {
                self.left.push(LeftOut { name, reason });
                T::default()
            }
        }
    }
}

fn other_shape(there: &[usize], here: &[usize]) -> String {
    format!("its shape is {there:?} in the checkpoint, but {here:?} here")
}

/// Rows that a table of the same width takes, or why it takes none.
fn rows(
    feature: &str,
    other: &[usize],
    shape: &[usize],
    there: &Ids,
    here: &Ids,
) -> Result<TakenRows, String> {
    let all = || if other == shape { Ok(TakenRows::All) } else { Err(other_shape(other, shape)) };
    if let (Some(one), Some(other)) = (&there.synthetic, &here.synthetic) {
        let log = |log: &Synthetic| Synthetic { samples: 0, eval_samples: 0, ..*log };
        return if log(one) == log(other) {
            all()
        } else {
            Err("its ids are those of another synthetic log".into())
        };
    }
    if there.synthetic.is_some() != here.synthetic.is_some() {
        return Err("its ids are those of another log: one of the two is synthetic".into());
    }
    let unknown =
        |of: &str| format!("how {of} numbers its ids is not known: its log or its vocabulary is gone");
    let there = there.rule(feature).ok_or_else(|| unknown("the other run"))?;
    let here = here.rule(feature).ok_or_else(|| unknown("this run"))?;
    match (&there, &here) {
        (Rule::Hash, Rule::Hash) | (Rule::Index, Rule::Index) => all(),
        (Rule::Vocabulary(there), Rule::Vocabulary(here)) if there == here => all(),
        (Rule::Buckets(there), Rule::Buckets(here)) if there == here => all(),
        (Rule::Buckets(_), Rule::Buckets(_)) => Err("its buckets have other boundaries".into()),
        (Rule::Vocabulary(there), Rule::Vocabulary(here)) => {
            let matched = matched(there, here, other[0], shape[0]);
            // Row 0 alone is no id.
            if matched.len() > 1 {
                Ok(TakenRows::Some(matched))
            } else {
                Err("no id is in both vocabularies".into())
            }
        }
        _ => Err(format!("its ids are {} in the checkpoint, but {} here", there.name(), here.name())),
    }
}

/// Rows of the ids that both vocabularies have, and row 0 of all others; sorted by the row that is read.
fn matched(there: &Vocabulary, here: &Vocabulary, most_there: usize, most_here: usize) -> Vec<(u32, u32)> {
    let ids = here.keys().iter().zip(1u32..).map(|(&key, row)| (there.row(key) as u32, row));
    let known =
        ids.filter(|&(from, to)| from > 0 && (from as usize) < most_there && (to as usize) < most_here);
    let mut rows: Vec<(u32, u32)> = std::iter::once((0, 0)).chain(known).collect();
    rows.sort_unstable();
    rows
}

/// Dense parameters that are taken: of the same name, shape and inputs.
fn layers(
    run: &Run,
    shapes: &BTreeMap<&str, &[usize]>,
    there: &Ids,
    here: &Ids,
    report: &mut WarmStarted,
) -> std::collections::BTreeSet<String> {
    let other_numbers = there.numbers() != here.numbers();
    let other_features = there.features != here.features;
    let mut taken = std::collections::BTreeSet::new();
    for parameter in run.model.dense_parameter_list() {
        let name = parameter.name.as_str();
        let of = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let fits = match shapes.get(name) {
            None => Err("the checkpoint has no such layer".to_owned()),
            Some(other) if **other != parameter.shape[..] => Err(other_shape(other, &parameter.shape)),
            Some(_) if other_numbers && of(&["bottom.0.weight", "linear.0.weight", "deep.0.weight"]) => {
                Err("its inputs are other columns of numbers".into())
            }
            Some(_) if other_features && of(&["top.0.weight", "deep.0.weight", "cross.", "towers."]) => {
                Err("its inputs are other features, or in another order".into())
            }
            Some(_) if parameter.owner.0 == BlockName::TENSOR_TRAINS => {
                // Rows that are computed of cores are taken all or none.
                let Feature { name, rows: count, .. } = &run.model.features()[parameter.owner.1];
                // Cores of the same shapes may be of tables of other sizes.
                let size = |ids: &Ids| {
                    let at = ids.features.iter().position(|feature| feature == name);
                    at.and_then(|at| ids.sizes.get(at).copied())
                };
                let shape = [*count, run.model.row_width(parameter.owner.1)];
                match rows(name, &shape, &shape, there, here) {
                    _ if size(there) != size(here) => {
                        Err("its table has another number of rows or columns there".into())
                    }
                    Ok(TakenRows::All) => Ok(true),
                    Ok(_) => Err("its rows are numbered otherwise, and a tensor train is taken whole".into()),
                    Err(reason) => Err(reason),
                }
            }
            Some(_) => Ok(true),
        };
        if report.note(name.to_owned(), fits) {
            taken.insert(name.to_owned());
        }
    }
    taken
}

/// What is said of a warm start, in lines.
impl std::fmt::Display for WarmStarted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, step, taken, by_id, left } = self;
        let all = taken + left.len();
        write!(
            f,
            "warm start from {}, step {step}: weights of {taken} of {all} tables and layers",
            path.display()
        )?;
        write!(f, " are taken, optimizer state is not")?;
        for MatchedRows { name, rows, of } in by_id {
            write!(f, "\n  {name}: {rows} of {of} rows, by id")?;
        }
        for LeftOut { name, reason } in left {
            write!(f, "\n  {name} starts at its initial weights: {reason}")?;
        }
        Ok(())
    }
}
