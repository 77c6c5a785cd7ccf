//! Opening the logs of a run: to train on, to evaluate on, or to measure on.

use super::preparer::{Preparer, open_prepared};
use super::{LogError, OpenLogs, Raw, Tables, facts, must_be_prepared};
use crate::Error;
use crate::cluster;
use crate::control::Control;
use data::prepare::Learnt;
use data::prepared::PreparedLog;
use spec::run::{DataConfig, DataFormat, LogFacts};
use std::path::Path;
use std::sync::Arc;
use training::{Cluster, Logs};

/// Opens the training and the evaluation log of `data`. What must be prepared goes into `keep`, or into a temporary
/// folder. Reading ends early, with an error, once it is asked to stop.
///
/// ```
/// use campanile::{Control, logs};
/// use spec::run::DataConfig;
/// let open = logs::open(&DataConfig::default(), None, &Control::default()).unwrap();
/// assert!(open.train().is_none(), "the log is generated unless files are named");
/// ```
pub fn open(data: &DataConfig, keep: Option<&Path>, control: &Control) -> Result<OpenLogs, LogError> {
    open_in(data, Preparer::new(keep, control)?)
}

/// Opens the logs of `data` as [`open`] does, where `tables` may stand for files.
pub fn open_tables(
    data: &DataConfig,
    tables: &Tables,
    keep: Option<&Path>,
    control: &Control,
) -> Result<OpenLogs, LogError> {
    open_in(data, Preparer::new(keep, control)?.with_tables(tables))
}

/// Opens logs that another process has opened before: nothing is prepared, and nothing noticed, again.
pub fn open_again(data: &DataConfig, keep: Option<&Path>, control: &Control) -> Result<OpenLogs, LogError> {
    open_in(data, Preparer { prepares: false, ..Preparer::new(keep, &control.silent())? })
}

/// Opens the logs of `data` on all ranks: the first prepares in `keep`, a folder that all share, what must be prepared, and the
/// others open that.
pub fn open_on_ranks(
    data: &DataConfig,
    keep: Option<&Path>,
    cluster: &Cluster,
    control: &Control,
) -> Result<OpenLogs, Error> {
    cluster::first_rank_first(cluster, || {
        Ok(match cluster.has_first_rank() {
            true => open(data, keep, control)?,
            false => open_again(data, keep, control)?,
        })
    })
}

fn open_in(data: &DataConfig, preparer: Preparer) -> Result<OpenLogs, LogError> {
    let format = data.format.unwrap_or_default();
    if format == DataFormat::Synthetic {
        if !data.train.is_empty() || !data.eval.is_empty() {
            return Err(LogError::FilesOfSynthetic);
        }
        return Ok(OpenLogs { logs: Logs::Synthetic, facts: None, _scratch: None });
    }
    if data.train.is_empty() {
        return Err(LogError::NoFiles { format: format.name() });
    }
    data.check_split()?;
    let (train, eval) = if data.split.is_some() {
        let (train, eval) = preparer.open_split(data)?;
        (train, Some(eval))
    } else {
        let train = preparer.open(data, &data.train, "train", None)?;
        let like = || Learnt::of(&train);
        let eval = (!data.eval.is_empty()).then(|| preparer.open(data, &data.eval, "eval", Some(&like()?)));
        let eval = eval.transpose()?;
        (train, eval)
    };
    let mut facts = facts(train.manifest());
    facts.eval_samples = eval.as_ref().map_or(0, |log| log.manifest().samples);
    let logs = Logs::Prepared { train: Some(train), eval };
    Ok(OpenLogs { logs, facts: Some(facts), _scratch: preparer.scratch })
}

/// Opens logs to choose settings by: training rows alone, of which `share` is kept from training and evaluated on, as
/// `--split` keeps rows. Rows to evaluate on, of other files or of the config's own split, are in neither part. Of the
/// synthetic log, the evaluation samples are others than those of a run.
pub fn open_for_choice(
    data: &DataConfig,
    share: f64,
    keep: Option<&Path>,
    control: &Control,
) -> Result<OpenLogs, LogError> {
    match data.format.unwrap_or_default() {
        DataFormat::Synthetic => open(data, keep, control)?.for_pilots(),
        DataFormat::Prepared => {
            open(&DataConfig { eval: Vec::new(), ..data.clone() }, keep, control)?.last_apart(share)
        }
        format if data.train.is_empty() => Err(LogError::NoFiles { format: format.name() }),
        _ => {
            let preparer = Preparer::new(keep, control)?;
            let (train, eval) = preparer.open_divided(data, Some(share))?;
            let facts = LogFacts { eval_samples: eval.manifest().samples, ..facts(train.manifest()) };
            let logs = Logs::Prepared { train: Some(train), eval: Some(eval) };
            Ok(OpenLogs { logs, facts: Some(facts), _scratch: preparer.scratch })
        }
    }
}

/// Opens a log to evaluate on, with the vocabularies and transforms of the model, which lie in `vocabularies`.
pub fn open_for_evaluation(
    data: &DataConfig,
    tables: &Tables,
    vocabularies: &Path,
    control: &Control,
) -> Result<OpenLogs, LogError> {
    let preparer = Preparer::new(None, control)?.with_tables(tables);
    let schema = match data.format {
        Some(DataFormat::Prepared) => open_prepared(&data.eval, "eval")?.manifest().schema.clone(),
        _ => Raw::of(data, &data.eval)?.schema,
    };
    let like = Learnt::load(&schema, vocabularies).map_err(LogError::Vocabularies)?;
    let eval = preparer.open(data, &data.eval, "eval", Some(&like))?;
    let mut facts = facts(eval.manifest());
    facts.eval_samples = facts.samples;
    let logs = Logs::Prepared { train: None, eval: Some(eval) };
    Ok(OpenLogs { logs, facts: Some(facts), _scratch: preparer.scratch })
}

/// Opens the log that a run was trained on: as the run left it in `prepared`, if that still is what `fingerprint` says, or
/// else from its files, with the vocabularies and transforms of the model. Ranks of `cluster` that are processes do not prepare
/// it, since each would have a log of its own.
pub fn open_trained_on(
    data: &DataConfig,
    prepared: &Path,
    fingerprint: Option<&str>,
    vocabularies: &Path,
    cluster: &Cluster,
    control: &Control,
) -> Result<OpenLogs, LogError> {
    let same = |log: &PreparedLog| Some(log.manifest().files.samples.xxh3.as_str()) == fingerprint;
    let kept = PreparedLog::open(&prepared.join("train")).ok().filter(same);
    let (log, scratch) = match kept {
        Some(log) => (Arc::new(log), None),
        None if cluster::is_distributed(cluster) && must_be_prepared(data) => {
            return Err(LogError::Unshared);
        }
        None if data.split.is_some() => {
            let preparer = Preparer::new(None, control)?;
            let (train, _) = preparer.open_split(data)?;
            (train, preparer.scratch)
        }
        None => {
            let data = DataConfig { eval: data.train.clone(), ..data.clone() };
            let open = open_for_evaluation(&data, &Tables::default(), vocabularies, control)?;
            let Logs::Prepared { eval: Some(log), .. } = open.logs else {
                return Err(LogError::NothingToRead);
            };
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
