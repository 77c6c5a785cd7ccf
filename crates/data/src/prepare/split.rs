//! Splits a log into two: samples to train on, and samples to evaluate on.
//!
//! The part of a sample follows from its number or its time alone, so that every pass over the log splits it in the same way.
//! Vocabularies and the values of transforms are learnt from the training part.

use super::learn::{Counted, learn};
use super::times::{Keys, Latest, Times};
use super::{PrepareProgress, RawLog, bad_lines_of, save_texts};
use crate::prepared::{About, LogSource, Manifest, Writer, WriterOptions};
use crate::rows::Reading;
use crate::{DataError, Samples};
use spec::random::RandomSequence;
use spec::run::{Split, SplitBy};
use spec::schema::Schema;
use std::fmt;
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

/// Split of a log: rows to evaluate on, and rows that are left out of both parts.
#[derive(Clone, Debug, PartialEq)]
pub struct RowDivision {
    /// Split into training and evaluation part. Where rows are left out, it divides the others.
    pub split: Split,
    /// Rows of neither part: those that this split would evaluate on. It must select by the same rule as `split`.
    pub left_out: Option<Split>,
}

impl RowDivision {
    /// All rows, divided by `split`.
    pub fn of(split: Split) -> Self {
        Self { split, left_out: None }
    }

    /// Share of all rows that belong to no training part.
    fn share_apart(&self) -> f64 {
        let left_out = self.left_out.as_ref().map_or(0.0, |split| split.share);
        left_out + (1.0 - left_out) * self.split.share
    }
}

impl fmt::Display for RowDivision {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.split)?;
        self.left_out.as_ref().map_or(Ok(()), |split| write!(f, ", without the last {}", split.share))
    }
}

/// Divides the samples of a log into the two parts as they are read, from the first to the last.
#[derive(Clone, Debug)]
pub(super) struct Divider {
    rule: Rule,
    /// Rule for samples of neither part. Samples that it selects are selected by `rule` too.
    left_out: Option<Rule>,
    /// Number of samples that were divided.
    passed: u64,
    sides: Vec<bool>,
    out_sides: Vec<bool>,
    kept: Samples,
    held: Samples,
    /// Samples that do not train, before those that are left out are taken away.
    apart: Samples,
    dropped: Samples,
}

#[derive(Clone, Debug)]
enum Rule {
    /// Samples from this number on are held out.
    From(u64),
    Latest(Keys, Latest),
    /// Samples are held out that any of these sequences draws below its share.
    Hash(Vec<(RandomSequence, f64)>),
}

impl Rule {
    /// Sets for each of `samples`, the first of which is number `first` of the log, whether it is held out.
    fn select(&self, samples: &Samples, first: u64, sides: &mut Vec<bool>) {
        sides.clear();
        let numbers = first..first + samples.len() as u64;
        match self {
            Rule::From(bound) => sides.extend(numbers.map(|number| number >= *bound)),
            Rule::Hash(draws) => {
                let held = |number| draws.iter().any(|(draw, share)| draw.unit_f64(number) < *share);
                sides.extend(numbers.map(held));
            }
            Rule::Latest(keys, latest) => {
                let times = samples.rows.iter().filter(|(is_sample, _)| *is_sample);
                let held_out = |text| keys.key(text).is_some_and(|key| latest.holds_out(&key));
                sides.extend(times.map(|(_, text)| held_out(text)));
            }
        }
    }
}

impl Divider {
    fn new(rule: Rule, left_out: Option<Rule>, schema: &Schema) -> Self {
        let [kept, held, apart, dropped] = std::array::from_fn(|_| Samples::of(schema));
        Self { rule, left_out, passed: 0, sides: vec![], out_sides: vec![], kept, held, apart, dropped }
    }

    /// Starts again at the first sample.
    pub(super) fn restart(&mut self) {
        self.passed = 0;
    }

    /// Divides the next samples of the log into those to train on and those to evaluate on.
    pub(super) fn divide(&mut self, samples: &Samples) -> (&Samples, &Samples) {
        let first = self.passed;
        self.passed += samples.len() as u64;
        self.rule.select(samples, first, &mut self.sides);
        self.kept.clear();
        self.held.clear();
        let Some(left_out) = &self.left_out else {
            samples.divide(&self.sides, &mut self.kept, &mut self.held);
            return (&self.kept, &self.held);
        };
        left_out.select(samples, first, &mut self.out_sides);
        self.apart.clear();
        self.dropped.clear();
        samples.divide(&self.sides, &mut self.kept, &mut self.apart);
        let mut apart = self.sides.iter();
        self.out_sides.retain(|_| apart.next() == Some(&true));
        self.apart.divide(&self.out_sides, &mut self.held, &mut self.dropped);
        (&self.kept, &self.held)
    }
}

/// Source of one part of a split log: the files of `source`, and the name of the part and how the log is divided.
pub fn part_of(source: &LogSource, part: &str, division: &RowDivision) -> LogSource {
    LogSource { split: Some(format!("{part}: {division}")), ..source.clone() }
}

/// Prepares `log` as two logs: the samples that `division` evaluates on in the folder `eval`, those that it trains on in the folder
/// `train`.
pub fn prepare_split(
    log: &RawLog,
    division: &RowDivision,
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
    if let SplitBy::Column(column) = &division.split.by {
        log.reading = Reading::with_column(column);
    }
    let rule = look(&log, division, train, progress)?;
    let left_out = division.left_out.as_ref().map(|split| RowDivision::of(split.clone()));
    let left_out = left_out.map(|division| look(&log, &division, train, progress)).transpose()?;
    let untimed = if let Rule::Latest(_, latest) = &rule { latest.missing } else { 0 };
    let mut divider = Divider::new(rule, left_out, log.schema);
    let counting = |progress_now| progress(PrepareProgress { counting: true, progress: progress_now });
    let Counted { learnt, counts } = learn(&log, train, Some(&mut divider), &counting)?;
    learnt.check(log.schema)?;
    let rows = learnt.rows_of_tables(log.schema);
    let mut train_writer = Writer::create(train, log.schema, &rows, WriterOptions::default())?;
    let mut eval_writer = Writer::create(eval, log.schema, &rows, WriterOptions::default())?;
    divider.restart();
    let texts = learnt.collectors(train)?;
    let bad = learnt.reading(&log, &texts).decode(
        &learnt.vocabularies,
        &|progress_now| progress(PrepareProgress { counting: false, progress: progress_now }),
        &mut |samples| {
            let (kept, held) = divider.divide(samples);
            train_writer.append(kept)?;
            eval_writer.append(held)
        },
    )?;
    let about = |folder: &Path, part: &str| -> Result<About, DataError> {
        let vocabularies = learnt.save_vocabularies(log.schema, folder)?;
        let (source, transforms) = (part_of(&source, part, division), learnt.transforms.clone());
        Ok(About { source, vocabularies, transforms, ..About::default() })
    };
    let eval = eval_writer.finish(about(eval, "eval")?)?;
    let about = About { bad_lines: bad_lines_of(&bad), ..about(train, "train")? };
    save_texts(texts, &counts, train)?;
    let train = train_writer.finish(about)?;
    Ok(Parts { train, eval, untimed })
}

/// Reads the log once, if that is needed to find which samples do not train.
fn look(
    log: &RawLog,
    division: &RowDivision,
    folder: &Path,
    progress: &(dyn Fn(PrepareProgress) + Sync),
) -> Result<Rule, DataError> {
    let split = &division.split;
    if split.by == SplitBy::Numbers {
        let draw = |name: &str, share: f64| (RandomSequence::new(SEED, name), share);
        return Ok(Rule::Hash(match &division.left_out {
            None => vec![draw("split", split.share)],
            Some(left_out) => vec![draw("split", left_out.share), draw("validation", split.share)],
        }));
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
    let wanted = (division.share_apart() * seen as f64).round() as u64;
    match times {
        Some(times) => Ok(Rule::Latest(keys, times.latest(wanted)?)),
        None => Ok(Rule::From(seen - wanted.clamp(1, (seen.saturating_sub(1)).max(1)).min(seen))),
    }
}

#[cfg(test)]
mod tests;
