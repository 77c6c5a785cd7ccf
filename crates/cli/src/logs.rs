//! The logs that a command reads: prepared ones as they are, others prepared first.
//!
//! Everything that trains or evaluates reads the prepared format. A log in another format is prepared into the run's
//! folder, where the next command finds it again, or into a temporary one.

mod split;
mod unlabelled;
mod warnings;

pub use split::say as say_split;
pub use unlabelled::{RowSource, Unlabelled, open_unlabelled};

use crate::progress::{Console, Progress, Unit};
use crate::text::{bytes, si, tell};
use anyhow::{Context, Result, bail, ensure};
use data::bad_lines::{BadLines, Policy};
use data::prepare::{self, PrepareProgress, RawLog};
use data::prepared::{LogSource, Manifest, PreparedLog, Values};
use data::rows::Reading;
use data::vocabulary::Vocabulary;
use spec::run::{Config, DataConfig, DataFormat, LogFacts, LogFeature, LogRows, Run};
use spec::schema::Schema;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;
use training::Logs;

/// Bytes that reading a log may take, unless told.
pub const MEMORY: u64 = 1 << 30;

/// The logs of a run.
pub struct OpenLogs {
    /// For the trainer.
    pub logs: Logs,
    facts: Option<LogFacts>,
    /// Where logs were prepared that nobody asked to keep.
    _scratch: Option<TempDir>,
}

/// Whether samples come from files in another format than the prepared one.
pub fn must_be_prepared(data: &DataConfig) -> bool {
    !matches!(data.format.unwrap_or_default(), DataFormat::Synthetic | DataFormat::Prepared)
}

/// Opens the training and the evaluation log of `data`. What must be prepared goes into `keep`, or into a temporary
/// folder.
///
/// Reading ends early, with an error, once `stop` is set.
pub fn open(data: &DataConfig, keep: Option<&Path>, stop: &AtomicBool, console: Console) -> Result<OpenLogs> {
    open_in(data, Place::new(keep, stop, console)?)
}

/// As [`open`], after another process has done so: nothing is prepared, and no bad line told of, again.
pub fn open_again(data: &DataConfig, keep: Option<&Path>, stop: &AtomicBool) -> Result<OpenLogs> {
    open_in(data, Place { prepares: false, ..Place::new(keep, stop, Console::Quiet)? })
}

fn open_in(data: &DataConfig, place: Place) -> Result<OpenLogs> {
    let format = data.format.unwrap_or_default();
    if format == DataFormat::Synthetic {
        ensure!(
            data.train.is_empty() && data.eval.is_empty(),
            "--data and --eval name files, but the format is synthetic; say how they are written with --format"
        );
        return Ok(OpenLogs { logs: Logs::Synthetic, facts: None, _scratch: None });
    }
    ensure!(!data.train.is_empty(), "the format is {}, but no files are given; use --data", format.name());
    data.check_split()?;
    let (train, eval) = if data.split.is_some() {
        let (train, eval) = place.open_split(data)?;
        (train, Some(eval))
    } else {
        let train = place.open(data, &data.train, "train", None)?;
        let like = || prepare::vocabularies(&train);
        let eval = (!data.eval.is_empty()).then(|| place.open(data, &data.eval, "eval", Some(&like()?)));
        let eval = eval.transpose()?;
        (train, eval)
    };
    let mut facts = facts(train.manifest());
    facts.eval_samples = eval.as_ref().map_or(0, |log| log.manifest().samples);
    let logs = Logs::Prepared { train: Some(train), eval };
    Ok(OpenLogs { logs, facts: Some(facts), _scratch: place.scratch })
}

/// Opens a log to evaluate on, with the vocabularies of the model, which lie in `vocabularies`.
pub fn open_for_evaluation(
    data: &DataConfig,
    vocabularies: &Path,
    stop: &AtomicBool,
    console: Console,
) -> Result<OpenLogs> {
    let place = Place::new(None, stop, console)?;
    let schema = match data.format {
        Some(DataFormat::Prepared) => open_prepared(&data.eval, "eval")?.manifest().schema.clone(),
        _ => Raw::of(data, &data.eval)?.schema,
    };
    let like = prepare::load_vocabularies(&schema, vocabularies)
        .context("the vocabularies that the model was trained with")?;
    let eval = place.open(data, &data.eval, "eval", Some(&like))?;
    let mut facts = facts(eval.manifest());
    facts.eval_samples = facts.samples;
    let logs = Logs::Prepared { train: None, eval: Some(eval) };
    Ok(OpenLogs { logs, facts: Some(facts), _scratch: place.scratch })
}

impl OpenLogs {
    /// Checks `config` with what is known of the logs.
    pub fn check(&self, config: &Config) -> Result<Run, spec::run::RunError> {
        match &self.facts {
            None => planning::check(config),
            Some(facts) => planning::check_log(config, facts),
        }
    }

    /// The log that is trained on; `None` when it is generated.
    pub fn train(&self) -> Option<&PreparedLog> {
        match &self.logs {
            Logs::Prepared { train, .. } => train.as_deref(),
            Logs::Parts { log, .. } => Some(log),
            Logs::Synthetic | Logs::SyntheticValidation => None,
        }
    }

    /// Logs for runs that are only compared with each other: no test row is read. The last tenth of the training
    /// samples is kept from training and evaluated on; of the synthetic log, samples that it has besides. What is given back
    /// must not outlive these logs.
    pub fn for_pilots(&self) -> Result<Self> {
        let (log, facts) = match (&self.logs, &self.facts) {
            (Logs::Prepared { train: Some(log), .. }, Some(facts)) => (log, facts),
            (Logs::Synthetic, _) => {
                return Ok(Self { logs: Logs::SyntheticValidation, facts: None, _scratch: None });
            }
            _ => bail!("there are no training samples to keep some of"),
        };
        let samples = log.manifest().samples;
        let kept = samples / 10;
        ensure!(
            kept > 0,
            "{samples} samples to train on: too few to keep a tenth of them for validation; use at least 10"
        );
        let facts = LogFacts { samples: samples - kept, eval_samples: kept, ..facts.clone() };
        let logs = Logs::Parts { log: log.clone(), train: 0..samples - kept, eval: samples - kept..samples };
        Ok(Self { logs, facts: Some(facts), _scratch: None })
    }

    /// What the evaluation samples of [`for_pilots`](Self::for_pilots) are, for people.
    pub fn pilot_rows(&self) -> &'static str {
        match self.facts {
            Some(_) => "validation: the last tenth of the training rows, which pilots do not train on",
            None => "validation: samples of the synthetic log that are neither trained on nor test rows",
        }
    }

    /// What the samples of each log are, in a few digits.
    pub fn fingerprints(&self) -> Vec<(&'static str, String)> {
        if let Logs::Parts { train, eval, .. } = &self.logs {
            let whole = self.fingerprint().unwrap_or_default();
            return vec![("train", format!("{whole} {train:?}")), ("evaluate", format!("{whole} {eval:?}"))];
        }
        let Logs::Prepared { train, eval } = &self.logs else { return Vec::new() };
        let logs = [("train", train), ("evaluate", eval)].into_iter();
        let told = logs
            .filter_map(|(split, log)| Some((split, log.as_ref()?.manifest().files.samples.xxh3.clone())));
        told.collect()
    }

    /// What the log's samples are, in a few digits: the same for the same samples.
    pub fn fingerprint(&self) -> Option<String> {
        self.train().map(|log| log.manifest().files.samples.xxh3.clone())
    }
}

/// Opens the log that a run was trained on: as the run left it in `prepared`, if that still is what `fingerprint` says, or
/// else from its files, with the vocabularies of the model.
pub fn open_trained_on(
    data: &DataConfig,
    prepared: &Path,
    fingerprint: Option<&str>,
    vocabularies: &Path,
    stop: &AtomicBool,
    console: Console,
) -> Result<OpenLogs> {
    let same = |log: &PreparedLog| Some(log.manifest().files.samples.xxh3.as_str()) == fingerprint;
    let kept = PreparedLog::open(&prepared.join("train")).ok().filter(same);
    let (log, scratch) = match kept {
        Some(log) => (Arc::new(log), None),
        None if data.split.is_some() => {
            let place = Place::new(None, stop, console)?;
            let (train, _) = place.open_split(data)?;
            (train, place.scratch)
        }
        None => {
            let data = DataConfig { eval: data.train.clone(), ..data.clone() };
            let open = open_for_evaluation(&data, vocabularies, stop, console)?;
            let Logs::Prepared { eval: Some(log), .. } = open.logs else { bail!("no samples to read") };
            (log, open._scratch)
        }
    };
    let facts = facts(log.manifest());
    Ok(OpenLogs {
        logs: Logs::Prepared { train: Some(log), eval: None },
        facts: Some(facts),
        _scratch: scratch,
    })
}

/// Where logs are prepared.
struct Place<'a> {
    folder: PathBuf,
    scratch: Option<TempDir>,
    stop: &'a AtomicBool,
    console: Console,
    /// Or else everything is there already.
    prepares: bool,
}

impl<'a> Place<'a> {
    fn new(keep: Option<&Path>, stop: &'a AtomicBool, console: Console) -> Result<Self> {
        if let Some(keep) = keep {
            return Ok(Self { folder: keep.to_owned(), scratch: None, stop, console, prepares: true });
        }
        let scratch = tempfile::Builder::new().prefix("campanile-").tempdir();
        let scratch = scratch
            .with_context(|| format!("{}: no folder for prepared logs", std::env::temp_dir().display()))?;
        Ok(Self { folder: scratch.path().to_owned(), scratch: Some(scratch), stop, console, prepares: true })
    }

    /// The log at `paths`, whose vocabularies must be those of `like` where one is given.
    fn open(
        &self,
        data: &DataConfig,
        paths: &[String],
        split: &str,
        like: Option<&[Option<Vocabulary>]>,
    ) -> Result<Arc<PreparedLog>> {
        let log = if data.format == Some(DataFormat::Prepared) {
            let log = open_prepared(paths, split)?;
            let other = like.map(|like| other_vocabulary(&log, like)).transpose()?.flatten();
            if let Some(column) = other {
                bail!(
                    "{}: its vocabulary of {column} is not that of the training data; prepare it again with \
                     --vocabularies-of",
                    log.folder().display()
                );
            }
            log
        } else {
            self.with_remedy(self.prepare(data, paths, split, like)?)
        };
        ensure!(log.manifest().samples > 0, "{}: there are no samples to {split} on", paths.join(" "));
        Ok(Arc::new(log))
    }

    /// The log, which tells users what to do about damage where it lies in the folder of a run.
    fn with_remedy(&self, log: PreparedLog) -> PreparedLog {
        if self.scratch.is_some() {
            return log;
        }
        let folder = self.folder.display();
        log.with_remedy(format!("delete {folder}, and the same command makes it anew from the data"))
    }

    /// Prepares the log at `paths`, or finds it prepared.
    fn prepare(
        &self,
        data: &DataConfig,
        paths: &[String],
        split: &str,
        like: Option<&[Option<Vocabulary>]>,
    ) -> Result<PreparedLog> {
        let folder = self.folder.join(split);
        if !self.prepares {
            return PreparedLog::open(&folder)
                .context("a log that rank 0 has prepared, in a folder that all hosts share");
        }
        let raw = Raw::of(data, paths)?;
        let source = LogSource::of(raw.format.name(), &raw.files)?;
        // What an earlier command prepared from the same files, in the same way, and would not refuse today.
        let same = |log: &PreparedLog| {
            let manifest = log.manifest();
            let alike =
                like.is_none_or(|like| other_vocabulary(log, like).is_ok_and(|other| other.is_none()));
            manifest.source == source
                && manifest.schema == raw.schema
                && bearable(manifest, &raw.policy)
                && alike
        };
        if let Some(log) = PreparedLog::open(&folder).ok().filter(same) {
            warn_of_bad_lines(log.manifest().bad_lines.count, &log.manifest().bad_lines.lines);
            return Ok(log);
        }
        let log = RawLog { stop: Some(self.stop), ..raw.log(MEMORY) };
        let what = format!("reading {split} data");
        with_progress(self.console, &what, |progress| prepare::prepare(&log, &folder, like, progress))?;
        Ok(PreparedLog::open(&folder)?)
    }
}

/// Whether the bad lines of a log that was prepared earlier would not be refused today.
fn bearable(manifest: &Manifest, policy: &Policy) -> bool {
    let count = manifest.bad_lines.count;
    let bad = BadLines { count, lines: manifest.samples + count, first: vec![] };
    policy.check(&bad, true).is_ok() && !(policy.strict && count > 0)
}

/// The prepared log that `paths` name.
fn open_prepared(paths: &[String], split: &str) -> Result<PreparedLog> {
    let [folder] = paths else {
        bail!(
            "{} prepared folders for {split}: name one, made from all files by `data prepare`",
            paths.len()
        );
    };
    Ok(PreparedLog::open(Path::new(folder))?)
}

/// A column whose ids have other rows in `log` than the vocabularies `like` give them.
fn other_vocabulary(log: &PreparedLog, like: &[Option<Vocabulary>]) -> Result<Option<String>> {
    let own = prepare::vocabularies(log)?;
    let columns = log.manifest().schema.sparse.iter().zip(own.iter().zip(like));
    let mut other = columns.filter(|(_, (own, like))| own != like);
    Ok(other.next().map(|(column, _)| column.column.clone()))
}

/// A log that is not prepared yet.
pub struct Raw {
    /// How it is written.
    pub format: DataFormat,
    /// Its files.
    pub files: Vec<PathBuf>,
    /// Its columns.
    pub schema: Schema,
    policy: Policy,
}

impl Raw {
    /// The log at `paths`, as `data` describes it.
    pub fn of(data: &DataConfig, paths: &[String]) -> Result<Self> {
        let format = data.format.unwrap_or(DataFormat::CriteoTsv);
        let schema = match (&data.schema, format) {
            (Some(schema), _) => schema.clone(),
            (None, DataFormat::CriteoTsv) => Schema::criteo(),
            (None, _) => bail!(
                "the columns of {} data are not known: describe them in a file, and name it with --schema",
                format.name()
            ),
        };
        schema.check().context("the schema")?;
        let usual = Policy::default();
        let max_share = data.max_bad_share.unwrap_or(usual.max_share);
        ensure!(
            (0.0..=1.0).contains(&max_share),
            "data.max_bad_share: {max_share} is no share; one lies in 0..=1 (0.01 is usual)"
        );
        let policy = Policy { strict: data.strict.unwrap_or(usual.strict), max_share };
        Ok(Self { format, files: data::files::resolve(paths)?, schema, policy })
    }

    /// The log, to be read within `memory` bytes.
    pub fn log(&self, memory: u64) -> RawLog<'_> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let Self { format, files, schema, policy } = self;
        RawLog {
            format: *format,
            files,
            schema,
            policy: *policy,
            threads,
            memory,
            stop: None,
            reading: Reading::default(),
        }
    }
}

/// Runs `work` under a progress bar, and says afterwards what was left out.
pub fn with_progress(
    console: Console,
    what: &str,
    work: impl FnOnce(&(dyn Fn(PrepareProgress) + Sync)) -> Result<Manifest, data::DataError>,
) -> Result<Manifest> {
    let manifest = showing_progress(console, what, work)?;
    warn_of_bad_lines(manifest.bad_lines.count, &manifest.bad_lines.lines);
    Ok(manifest)
}

/// Runs `work` under a progress bar.
pub fn showing_progress<T>(
    console: Console,
    what: &str,
    work: impl FnOnce(&(dyn Fn(PrepareProgress) + Sync)) -> Result<T, data::DataError>,
) -> Result<T> {
    let progress = console.progress(what, 0, Unit::Bytes);
    Ok(work(&|step| show(&progress, what, step))?)
}

/// Shows how far reading is.
pub fn show(bar: &Progress, what: &str, PrepareProgress { counting, progress }: PrepareProgress) {
    bar.set_total(progress.total_bytes);
    let pass = if counting { ", counting" } else { "" };
    let bad = match progress.bad_lines {
        0 => String::new(),
        bad => format!(", {bad} bad lines"),
    };
    bar.at(progress.bytes, &format!("{what}{pass}: {} samples{bad}", si(progress.samples as f64)));
}

/// Tells of lines that were left out: on standard error, where it does not disturb programs.
pub fn warn_of_bad_lines(count: u64, first: &[String]) {
    if count > 0 {
        tell(format!("{count} bad line(s) left out; the first:"));
        first.iter().for_each(|line| tell(format!("  {line}")));
    }
}

/// Whether the samples of a log lie in the order of time. Those that were made from Criteo's logs do, whatever they say.
fn in_time_order(manifest: &Manifest) -> bool {
    manifest.schema.in_time_order || manifest.source.format == DataFormat::CriteoTsv.name()
}

/// What a log says of itself.
pub fn facts(manifest: &Manifest) -> LogFacts {
    let features = manifest.features.iter().map(|feature| LogFeature {
        name: feature.name.clone(),
        rows: match feature.values {
            Values::Hashed => LogRows::Hashed(feature.rows),
            Values::Rows(rows) => LogRows::Fixed(rows as usize),
        },
        mean_ids: feature.many.then(|| (feature.mean_ids.round() as u32).max(1)),
        pooling: feature.pooling,
        weighted: feature.weighted,
    });
    LogFacts {
        samples: manifest.samples,
        eval_samples: 0,
        in_time_order: in_time_order(manifest),
        dense_features: manifest.dense.len(),
        features: features.collect(),
    }
}

/// A size as people write it: `512MiB`, `1GiB`, `2 GB`, or bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim());
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is no size; write 512MiB or 1GiB"))?;
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("{unit:?} is no unit of size; use kB, MB, GB, KiB, MiB or GiB")),
    };
    let size = number * scale;
    if !(1.0..1e18).contains(&size) {
        return Err(format!("{text:?} is no size that can be used"));
    }
    Ok(size as u64)
}

/// A log in a line.
pub fn described(manifest: &Manifest) -> String {
    let files = &manifest.source.files;
    let size: u64 = files.iter().map(|file| file.bytes).sum();
    let what = match files.as_slice() {
        [file] => file.path.clone(),
        files => format!("{} files", files.len()),
    };
    format!("{what} ({}, {}), {} samples", manifest.source.format, bytes(size), si(manifest.samples as f64))
}
