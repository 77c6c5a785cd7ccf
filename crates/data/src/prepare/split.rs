//! Splits a log into two: samples to train on, and samples to evaluate on.
//!
//! The part of a sample follows from its number or its time alone, so that every pass over the log splits it in the same way.
//! Vocabularies are made from the training part.

use super::times::{Keys, Latest, Times};
use super::{
    PrepareProgress, RawLog, bad_lines_of, check_vocabularies, count, rows_of_tables, save_vocabularies,
};
use crate::prepared::{About, LogSource, Manifest, Writer, WriterOptions};
use crate::rows::Reading;
use crate::{DataError, Samples};
use spec::random::RandomSequence;
use spec::run::{Split, SplitBy};
use spec::schema::Schema;
use std::path::Path;

/// Seed of the hash of row numbers. It is the same for all runs, so that runs with different seeds can be compared.
const SEED: u64 = 0x5eed_5011;

/// Manifests of a log that was prepared in two parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    /// Part to train on. Bad lines of the log are counted here.
    pub train: Manifest,
    /// Part to evaluate on.
    pub eval: Manifest,
    /// Number of rows without a time, if the split is by time. All of them belong to the training part.
    pub untimed: u64,
}

/// Divides the samples of a log into the two parts as they are read, from the first to the last.
#[derive(Clone, Debug)]
pub(super) struct Divider {
    rule: Rule,
    /// Number of samples that were divided.
    passed: u64,
    sides: Vec<bool>,
    kept: Samples,
    held: Samples,
}

#[derive(Clone, Debug)]
enum Rule {
    /// Samples from this number on are held out.
    From(u64),
    Latest(Keys, Latest),
    Hash(RandomSequence, f64),
}

impl Divider {
    fn new(rule: Rule, schema: &Schema) -> Self {
        let (kept, held) = (Samples::of(schema), Samples::of(schema));
        Self { rule, passed: 0, sides: vec![], kept, held }
    }

    /// Starts again at the first sample.
    pub(super) fn restart(&mut self) {
        self.passed = 0;
    }

    /// Divides the next samples of the log into those to train on and those to evaluate on.
    pub(super) fn divide(&mut self, samples: &Samples) -> (&Samples, &Samples) {
        self.sides.clear();
        let numbers = self.passed..self.passed + samples.len() as u64;
        self.passed = numbers.end;
        match &self.rule {
            Rule::From(first) => self.sides.extend(numbers.map(|number| number >= *first)),
            Rule::Hash(stream, share) => {
                self.sides.extend(numbers.map(|number| stream.unit_f64(number) < *share));
            }
            Rule::Latest(keys, latest) => {
                let times = samples.rows.iter().filter(|(is_sample, _)| *is_sample);
                let held_out = |text| keys.key(text).is_some_and(|key| latest.holds_out(&key));
                self.sides.extend(times.map(|(_, text)| held_out(text)));
            }
        }
        self.kept.clear();
        self.held.clear();
        samples.divide(&self.sides, &mut self.kept, &mut self.held);
        (&self.kept, &self.held)
    }
}

/// Source of one part of a split log: the files of `source`, and the name of the part and its split.
pub fn part_of(source: &LogSource, part: &str, split: &Split) -> LogSource {
    LogSource { split: Some(format!("{part}: {split}")), ..source.clone() }
}

/// Prepares `log` as two logs: the samples that `split` holds out in the folder `eval`, the others in the folder `train`.
pub fn prepare_split(
    log: &RawLog,
    split: &Split,
    train: &Path,
    eval: &Path,
    progress: &(dyn Fn(PrepareProgress) + Sync),
) -> Result<Parts, DataError> {
    for folder in [train, eval] {
        log.schema.check().map_err(|e| DataError::file(folder, format!("the schema cannot be used: {e}")))?;
        std::fs::create_dir_all(folder)
            .map_err(|e| DataError::file(folder, format!("cannot be created: {e}")))?;
    }
    let source = LogSource::of(log.format.name(), log.files)?;
    let mut log = log.clone();
    if let SplitBy::Column(column) = &split.by {
        log.reading = Reading::with_column(column);
    }
    let rule = look(&log, split, train, progress)?;
    let untimed = if let Rule::Latest(_, latest) = &rule { latest.missing } else { 0 };
    let mut divider = Divider::new(rule, log.schema);
    let counting = |progress_now| progress(PrepareProgress { counting: true, progress: progress_now });
    let vocabularies = count(&log, train, Some(&mut divider), &counting)?;
    check_vocabularies(log.schema, &vocabularies)?;
    let rows = rows_of_tables(log.schema, &vocabularies);
    let mut train_writer = Writer::create(train, log.schema, &rows, WriterOptions::default())?;
    let mut eval_writer = Writer::create(eval, log.schema, &rows, WriterOptions::default())?;
    divider.restart();
    if vocabularies.iter().any(Option::is_some) {
        log.memory /= 2;
    }
    let bad = log.decode(
        &vocabularies,
        &|progress_now| progress(PrepareProgress { counting: false, progress: progress_now }),
        &mut |samples| {
            let (kept, held) = divider.divide(samples);
            train_writer.append(kept)?;
            eval_writer.append(held)
        },
    )?;
    let about = |folder: &Path, part: &str| -> Result<About, DataError> {
        let vocabularies = save_vocabularies(log.schema, &vocabularies, folder)?;
        Ok(About { source: part_of(&source, part, split), vocabularies, ..About::default() })
    };
    let eval = eval_writer.finish(about(eval, "eval")?)?;
    let train = train_writer.finish(About { bad_lines: bad_lines_of(&bad), ..about(train, "train")? })?;
    Ok(Parts { train, eval, untimed })
}

/// Reads the log once, if that is needed to find which samples are held out.
fn look(
    log: &RawLog,
    split: &Split,
    folder: &Path,
    progress: &(dyn Fn(PrepareProgress) + Sync),
) -> Result<Rule, DataError> {
    if split.by == SplitBy::Numbers {
        return Ok(Rule::Hash(RandomSequence::new(SEED, "split"), split.share));
    }
    let keys = Keys::new(log.schema);
    let mut times = match &split.by {
        SplitBy::Column(column) => Some(Times::new(column, keys.clone(), folder)?),
        SplitBy::Order | SplitBy::Numbers => None,
    };
    let mut seen = 0;
    log.decode(
        &[],
        &|progress_now| progress(PrepareProgress { counting: true, progress: progress_now }),
        &mut |samples| {
            seen += samples.len() as u64;
            let Some(times) = &mut times else { return Ok(()) };
            samples.rows.iter().filter(|(is_sample, _)| *is_sample).try_for_each(|(_, text)| times.add(text))
        },
    )?;
    let wanted = (split.share * seen as f64).round() as u64;
    match times {
        Some(times) => Ok(Rule::Latest(keys, times.latest(wanted)?)),
        None => Ok(Rule::From(seen - wanted.clamp(1, (seen.saturating_sub(1)).max(1)).min(seen))),
    }
}
