//! The execution of a sweep: rung after rung, as the records say what is left.

use super::record::{kept, results};
use super::trial::{Planned, Rung, Trial, due_to_settings};
use super::{
    FinalResult, Halving, JudgedOn, Request, Results, RungRecord, SWEEP, Space, Sweep, SweepError, Swept,
    TriedSetting, deciding_metric, page,
};
use crate::cluster::{check_all_reduce, check_device};
use crate::event::Notice;
use crate::file::{FileError, PARTIAL, replace};
use crate::folder::{CHECKPOINTS, LOCK, PREPARED, lock};
use crate::logs::{self, OpenLogs};
use crate::records::Records;
use crate::{Config, Error};
use serde_json::json;
use spec::run::DataFormat;
use std::fs;
use std::path::{Path, PathBuf};
use training::metrics::Metric;
use training::{Cluster, Outcome};

/// The config to train with, in the folder of a sweep.
const BEST: &str = "best.toml";
/// The page, in the folder of a sweep.
const PAGE: &str = "sweep.html";

impl Sweep {
    /// Runs what is left of the search, and returns all of it.
    pub fn run(self) -> Result<Swept, Error> {
        let space = self.request.check()?;
        // Keys and types first: nothing is made for a request that cannot be.
        let trials = Trial::all(&self.request, &space)?;
        claim(&self.out)?;
        let _lock = lock(&self.out)?;
        self.request.check_same(&self.out)?;
        let execution = Execution::open(&self, trials)?;
        execution.run_trials()?;
        let judged = if self.judge { execution.judge()? } else { execution.judged()? };
        let swept = execution.swept(space, judged)?;
        replace(&self.out.join(PAGE), page::of(&swept).to_html().as_bytes())?;
        Ok(swept)
    }
}

/// A sweep whose rows are open, and whose trials were checked with them.
struct Execution<'a> {
    asked: &'a Sweep,
    trials: Vec<Trial>,
    /// Whole run of each trial.
    planned: Vec<Planned>,
    halving: Halving,
    metric: &'static Metric,
    logs: OpenLogs,
    records: Records<RungRecord>,
}

impl<'a> Execution<'a> {
    /// Opens training rows alone, and refuses trials that cannot be before anything is trained.
    fn open(asked: &'a Sweep, trials: Vec<Trial>) -> Result<Self, Error> {
        let Request { validation, halving, metric, config, .. } = &asked.request;
        if asked.judge && !has_eval_rows(config) {
            return Err(SweepError::NothingToJudgeOn.into());
        }
        let metric = deciding_metric(metric)?;
        check_all_reduce(config, &Cluster::Threads, "the runs of the sweep")?;
        check_device(config, &Cluster::Threads, "the runs of the sweep")?;
        let keep = asked.out.join(PREPARED).join("choice");
        let logs = logs::open_for_choice(&config.data, *validation, Some(&keep), &asked.control)?;
        let planned =
            trials.iter().map(|trial| trial.planned(&logs, metric)).collect::<Result<Vec<_>, _>>()?;
        let halving = Halving {
            trials: trials.len(),
            factor: Some(*halving).filter(|&factor| factor > 0),
            better: metric.better,
        };
        let what = json!({ "request": asked.request.to_json()?, "rows": logs.fingerprints() });
        asked.request.write(&asked.out)?;
        let records = Records::open(&asked.out, &what).map_err(SweepError::from)?;
        records
            .taken()
            .map_err(SweepError::from)?
            .into_iter()
            .for_each(|notice| asked.control.notice(notice));
        Ok(Self { asked, trials, planned, halving, metric, logs, records })
    }

    fn all_records(&self) -> Result<Vec<RungRecord>, Error> {
        Ok(self.records.all().map_err(SweepError::from)?)
    }

    /// Trains rung after rung, until no trial is left that should go on.
    fn run_trials(&self) -> Result<(), Error> {
        loop {
            let records = self.all_records()?;
            let results = results(&records, self.metric.field);
            let next = self.halving.next(&results);
            self.forget_states(next, &results)?;
            let Some((trial, rung)) = next else { return Ok(()) };
            let record = self.train(trial, rung, &results)?;
            self.records.append(&record).map_err(SweepError::from)?;
        }
    }

    /// Trains one rung of one trial.
    fn train(&self, trial: usize, rung: usize, results: &Results) -> Result<RungRecord, Error> {
        let (trials, rungs) = (self.trials.len(), self.halving.rungs());
        let title = format!("trial {} of {trials}, rung {} of {rungs}", trial + 1, rung + 1);
        let best = self.halving.order(results)[0];
        let best = results.range((best, 0)..=(best, usize::MAX)).next_back().and_then(|(_, value)| *value);
        let best = best.map(|value| (self.metric.field, value));
        self.asked.control.notice(Notice::Trial { title: title.clone(), best });
        let planned = &self.planned[trial];
        let work = Rung {
            config: &planned.config,
            steps: planned.rung_end(self.halving.steps(rung, planned.steps)),
            logs: &self.logs,
            folder: &self.folder(trial),
            title: &title,
            control: &self.asked.control,
        };
        let why = match self.attempt(&work)? {
            Ok(outcome) => match self.value(&outcome) {
                Some(value) if value.is_finite() => {
                    return Ok(RungRecord::of(trial + 1, rung + 1, JudgedOn::Validation, &outcome));
                }
                Some(value) => format!("{} is {value} on the validation rows", self.metric.field),
                None => {
                    let samples = self.planned_samples();
                    return Err(SweepError::Undefined { metric: self.metric.field, samples }.into());
                }
            },
            Err(why) => why,
        };
        self.asked.control.notice(Notice::TrialFailed { title, why: why.clone() });
        Ok(RungRecord::failed(trial + 1, rung + 1, JudgedOn::Validation, why))
    }

    /// Trains a rung. An inner error is due to the settings of its trial, and says why.
    fn attempt(&self, work: &Rung) -> Result<Result<Outcome, String>, Error> {
        match work.train() {
            Ok(trained) if trained.outcome.interrupted => Err(SweepError::Stopped {
                title: work.title.into(),
                step: trained.outcome.steps,
                steps: work.steps,
                path: self.asked.out.clone(),
            }
            .into()),
            Ok(trained) => Ok(Ok(trained.outcome)),
            Err(error) => match due_to_settings(&error) {
                Some(why) => Ok(Err(why)),
                None => Err(error),
            },
        }
    }

    /// The metric that decides, of the state that a run keeps.
    fn value(&self, outcome: &Outcome) -> Option<f64> {
        match kept(outcome) {
            Some(best) => best.metrics.get(self.metric.field).copied().flatten(),
            None => outcome.scores.as_ref().and_then(|scores| (self.metric.of)(&scores.evaluation)),
        }
    }

    /// Number of validation rows.
    fn planned_samples(&self) -> u64 {
        let run = self.trials.first().and_then(|trial| self.logs.check(&trial.config).ok());
        run.map_or(0, |run| run.data.eval_samples())
    }

    /// Run folder of a trial, whose number is from 0.
    fn folder(&self, trial: usize) -> PathBuf {
        self.asked.out.join("trials").join(format!("{:03}", trial + 1))
    }

    /// Removes checkpoints of trials that cannot go on any more, and in the end of all but the best.
    fn forget_states(&self, next: Option<(usize, usize)>, results: &Results) -> Result<(), Error> {
        let needed = self.halving.needed(next, results);
        for trial in (0..self.trials.len()).filter(|trial| !needed.contains(trial)) {
            let states = self.folder(trial).join(CHECKPOINTS);
            if states.is_dir() {
                fs::remove_dir_all(&states).map_err(FileError::writing(&states))?;
            }
        }
        Ok(())
    }

    /// The best trial, from 0; `None` where all failed.
    fn best(&self, records: &[RungRecord]) -> Option<usize> {
        let results = results(records, self.metric.field);
        let best = self.halving.order(&results)[0];
        let last = results.range((best, 0)..=(best, usize::MAX)).next_back();
        last.and_then(|(_, value)| *value).map(|_| best)
    }

    /// Trains the best setting on all training rows and judges it on the rows to evaluate on, unless that was done.
    fn judge(&self) -> Result<Option<FinalResult>, Error> {
        let done = self.judged()?;
        let records = self.all_records()?;
        let Some(best) = self.best(&records).filter(|_| done.is_none()) else { return Ok(done) };
        let keep = self.asked.out.join(PREPARED).join("final");
        let data = &self.asked.request.config.data;
        let logs = logs::open(data, Some(&keep), &self.asked.control)?;
        let trial = &self.trials[best];
        let planned = trial.planned(&logs, self.metric)?.without_choices();
        let steps = self.final_steps(best, planned.steps, &records);
        let title = format!("final run: trial {} on all training rows", trial.number);
        self.asked.control.notice(Notice::Trial { title: title.clone(), best: None });
        let work = Rung {
            config: &planned.config,
            steps,
            logs: &logs,
            folder: &self.asked.out.join("final"),
            title: &title,
            control: &self.asked.control,
        };
        let (number, rung) = (trial.number, self.halving.rungs());
        let record = match self.attempt(&work)? {
            Ok(outcome) => RungRecord::of(number, rung, JudgedOn::Eval, &outcome),
            Err(why) => {
                self.asked.control.notice(Notice::TrialFailed { title, why: why.clone() });
                RungRecord::failed(number, rung, JudgedOn::Eval, why)
            }
        };
        self.records.append(&record).map_err(SweepError::from)?;
        Ok(Some(FinalResult { record }))
    }

    /// Steps of the final run, whose whole run has `all`: the share after which the best trial had its best state.
    fn final_steps(&self, best: usize, all: u64, records: &[RungRecord]) -> u64 {
        let own = records.iter().filter(|record| record.trial == best + 1);
        match own.filter_map(|record| record.best_step).next_back() {
            None => all,
            Some(step) => {
                let share = step as f64 / self.planned[best].steps.max(1) as f64;
                ((share * all as f64).round() as u64).clamp(1, all)
            }
        }
    }

    /// The best setting on rows to evaluate on, where it was judged before.
    fn judged(&self) -> Result<Option<FinalResult>, Error> {
        let mut records = self.all_records()?.into_iter();
        Ok(records.find(|record| record.judged_on == JudgedOn::Eval).map(|record| FinalResult { record }))
    }

    /// All results, and the best setting as a config.
    fn swept(&self, space: Space, judged: Option<FinalResult>) -> Result<Swept, Error> {
        let records = self.all_records()?;
        let order = self.halving.order(&results(&records, self.metric.field));
        let tried = order.iter().filter_map(|&trial| {
            let Trial { number, settings, .. } = &self.trials[trial];
            let chosen =
                |record: &&RungRecord| record.trial == *number && record.judged_on == JudgedOn::Validation;
            let rungs: Vec<RungRecord> = records.iter().filter(chosen).cloned().collect();
            let steps = self.planned[trial].steps;
            TriedSetting::new(*number, settings.clone(), rungs, steps)
        });
        let swept = Swept {
            tried: tried.collect(),
            metric: self.metric,
            rungs: self.halving.rungs(),
            space,
            compared_on: self.compared_on(),
            judged,
            folder: self.asked.out.clone(),
        };
        if let Some(best) = self.best(&records) {
            self.write_best(&self.trials[best], &swept)?;
        }
        Ok(swept)
    }

    /// Rows that trials were compared on, in words.
    fn compared_on(&self) -> String {
        match self.logs.train() {
            None => {
                "validation rows: samples of the synthetic log that are neither trained on nor evaluated on"
                    .into()
            }
            Some(_) => format!(
                "validation rows: {} of the training rows, which no trial trains on",
                self.asked.request.validation
            ),
        }
    }

    fn write_best(&self, trial: &Trial, swept: &Swept) -> Result<(), Error> {
        let config = toml::to_string_pretty(&trial.config).map_err(SweepError::Toml)?;
        let value = swept.best().and_then(|best| best.value(self.metric));
        let head = format!(
            "# Trial {} of {} in a sweep, the best: {}\n# {} {} on {}\n",
            trial.number,
            self.trials.len(),
            trial.shown().replace('\n', " "),
            self.metric.field,
            Metric::show(value),
            swept.compared_on,
        );
        Ok(replace(&self.asked.out.join(BEST), (head + &config).as_bytes())?)
    }
}

/// Makes the folder, which must be empty, or hold a sweep, or what a sweep left that never began.
fn claim(out: &Path) -> Result<(), Error> {
    let left = |entry: &std::io::Result<fs::DirEntry>| {
        let name = entry.as_ref().map(fs::DirEntry::file_name).unwrap_or_default();
        name == PREPARED || name == LOCK || name.to_string_lossy().ends_with(PARTIAL)
    };
    let empty = || out.read_dir().is_ok_and(|mut inside| inside.all(|entry| left(&entry)));
    if out.exists() && !out.join(SWEEP).is_file() && !empty() {
        return Err(SweepError::NotEmpty { path: out.to_owned() }.into());
    }
    Ok(fs::create_dir_all(out).map_err(FileError::creating(out))?)
}

/// Whether a run of `config` has rows to evaluate on.
fn has_eval_rows(config: &Config) -> bool {
    let data = &config.data;
    match data.format.unwrap_or_default() {
        DataFormat::Synthetic => data.synthetic.unwrap_or_default().eval_samples > 0,
        _ => !data.eval.is_empty() || data.split.is_some(),
    }
}
