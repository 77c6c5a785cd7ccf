//! Events that the library reports while it works.

use crate::train::WarmStarted;
use data::prepare::PrepareProgress;
use pages::text::grouped;
use spec::run::{Split, SplitBy};
use std::fmt;
use std::path::PathBuf;
use training::{Progress, Scores};

/// One thing that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Long work begins. The events until [`Event::Finished`] are about it.
    Started(Work),
    /// A log was read so far.
    Reading(PrepareProgress),
    /// Units of the work that are done.
    Advanced {
        /// Units done.
        done: u64,
        /// Units in all; 0 where that is not known.
        total: u64,
    },
    /// The work that was started last is over, whether it succeeded or not.
    Finished,
    /// Training goes on: now and then.
    Training {
        /// Steps, loss and speed.
        progress: Progress,
        /// Whether computations are only waited for, so that there is no loss.
        paced: bool,
    },
    /// An evaluation begins.
    Evaluating {
        /// Samples to score.
        samples: u64,
    },
    /// An evaluation is done.
    Evaluated {
        /// Steps done.
        step: u64,
        /// Result of the evaluation.
        scores: Box<Scores>,
    },
    /// A checkpoint is complete.
    Saved {
        /// Steps done when its state was copied.
        step: u64,
        /// Folder of the checkpoint.
        path: PathBuf,
        /// Size of the checkpoint.
        bytes: u64,
    },
    /// A user should know something.
    Noticed(Notice),
}

/// Long work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Name of the work, such as `training` or `reading data`.
    pub name: String,
    /// Units in all; 0 where that is not known yet.
    pub total: u64,
    /// Unit of the counts.
    pub unit: Unit,
}

/// Unit in which progress is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things of this name.
    Count(&'static str),
    /// Bytes.
    Bytes,
}

/// Something that a user should know. The text for people is its `Display`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// Lines of a log hold no sample, and were left out.
    BadLines {
        /// Number of lines.
        count: u64,
        /// Descriptions of the first.
        first: Vec<String>,
    },
    /// A log is odd in a way that can be trained on.
    OddLog(String),
    /// Rows of a log were kept from training, to evaluate on.
    Split {
        /// Split of the log.
        split: Split,
        /// Rows to train on.
        train: u64,
        /// Rows to evaluate on.
        eval: u64,
        /// Rows without a time, which are trained on.
        untimed: u64,
    },
    /// A checkpoint is damaged.
    Damaged {
        /// Description of the problem.
        why: String,
    },
    /// An earlier checkpoint stands for damaged ones.
    Earlier {
        /// Steps done in it.
        step: u64,
        /// Folder of the checkpoint.
        path: PathBuf,
    },
    /// A damaged checkpoint got another name, so that its step can be saved again.
    SetAside {
        /// Folder of the checkpoint.
        path: PathBuf,
        /// Name it has now.
        name: String,
    },
    /// A run that was stopped before its first checkpoint begins again.
    FromTheBeginning {
        /// Folder of the run.
        folder: PathBuf,
    },
    /// A new run begins with weights of another one.
    WarmStart(WarmStarted),
    /// The times of computations are measured before training.
    Pacing {
        /// Steps that are measured.
        steps: u64,
    },
    /// Results of an earlier start are taken as they are.
    Taken {
        /// Number of results.
        results: usize,
        /// File of the results.
        path: PathBuf,
    },
    /// A trial of a sweep begins.
    Trial {
        /// Trial and rung, in words.
        title: String,
        /// Field and best value so far of the metric that decides.
        best: Option<(&'static str, f64)>,
    },
    /// A trial of a sweep failed; the sweep goes on.
    TrialFailed {
        /// Trial and rung, in words.
        title: String,
        /// Cause of the failure.
        why: String,
    },
}

impl Notice {
    /// Whether something is wrong, so that even those who want no notes are told.
    pub fn is_warning(&self) -> bool {
        match self {
            Self::BadLines { .. }
            | Self::OddLog(_)
            | Self::Damaged { .. }
            | Self::Earlier { .. }
            | Self::SetAside { .. }
            | Self::TrialFailed { .. } => true,
            Self::Split { .. }
            | Self::FromTheBeginning { .. }
            | Self::WarmStart(_)
            | Self::Pacing { .. }
            | Self::Taken { .. }
            | Self::Trial { .. } => false,
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadLines { count, first } => {
                write!(f, "{count} bad line(s) left out; the first:")?;
                first.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            Self::OddLog(what) => write!(f, "warning: {what}"),
            Self::Split { split, train, eval, untimed } => show_split(f, split, *train, *eval, *untimed),
            Self::Damaged { why } => write!(f, "damaged: {why}"),
            Self::Earlier { step, path } => {
                write!(f, "using the last whole checkpoint, of step {step}, instead: {}", path.display())
            }
            Self::SetAside { path, name } => write!(f, "{}: set aside as {name}", path.display()),
            Self::FromTheBeginning { folder } => {
                write!(f, "{}: no complete checkpoint; starting from the beginning", folder.display())
            }
            Self::WarmStart(report) => report.fmt(f),
            Self::Pacing { steps } => {
                write!(f, "measuring what each phase takes, {steps} steps with ranks taking turns")
            }
            Self::Taken { results, path } => {
                write!(f, "going on: {results} result(s) are taken from {}", path.display())
            }
            Self::Trial { title, best } => {
                write!(f, "{title}")?;
                best.map_or(Ok(()), |(field, value)| write!(f, ", best so far {field} {value:.4}"))
            }
            Self::TrialFailed { title, why } => write!(f, "{title} failed, and the sweep goes on: {why}"),
        }
    }
}

/// Says in a line which rows are evaluated on.
fn show_split(f: &mut fmt::Formatter<'_>, split: &Split, train: u64, eval: u64, untimed: u64) -> fmt::Result {
    let percent = format!("{} %", (split.share * 1e4).round() / 1e2);
    let (eval, all) = (grouped(eval), grouped(train + eval));
    match &split.by {
        SplitBy::Order => {
            write!(
                f,
                "evaluating on the last {percent} of the rows: {eval} of {all}, by the order of the log"
            )
        }
        SplitBy::Column(column) => {
            write!(
                f,
                "evaluating on the latest {percent} of the rows: {eval} of {all}, by the times in column {column:?}"
            )?;
            match untimed {
                0 => Ok(()),
                untimed => write!(f, "; {} rows without a time are trained on", grouped(untimed)),
            }
        }
        SplitBy::Numbers => write!(
            f,
            "evaluating on {percent} of the rows: {eval} of {all}, drawn by a hash of row numbers; with a column of time, \
             --split-by COLUMN evaluates on the latest"
        ),
    }
}
