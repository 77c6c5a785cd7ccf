//! Rates of computations, fitted to the times of runs.

use super::runs::Trial;
use crate::text::median;
use anyhow::{Context, Result};
use planning::measured::{Priced, price};
use spec::machine_rates::{Amount, Class, MachineRates, OperationModel};
use spec::schedule::{PhaseId, Task, Work};
use spec::volume::BatchSizes;
use std::collections::BTreeMap;

/// Times of a trial in one round.
pub struct Taken {
    pub step_s: f64,
    /// Core seconds of each phase in a step, mean over ranks.
    pub phases: Vec<f64>,
    /// Core seconds of reading ahead in a step, mean over ranks.
    pub reading_s: f64,
}

/// Time of a whole step of a trial: measured, and priced by the fitted rates.
pub struct Compared {
    pub name: String,
    pub measured_s: f64,
    pub priced_s: f64,
}

/// Rates of all classes of computation that trials have, fitted to the median round of each trial.
pub fn operations(trials: &[Trial], taken: &[Vec<Taken>]) -> Vec<OperationModel> {
    let mut points: BTreeMap<Class, Vec<(Amount, f64)>> = BTreeMap::new();
    for (trial, rounds) in trials.iter().zip(taken) {
        let (schedule, sizes) = (trial.run.schedule(Task::Train), sizes(trial));
        let ranks = trial.run.topology().ranks();
        for (i, phase) in schedule.phases().iter().enumerate() {
            let Work::Compute(operation) = &phase.work else { continue };
            let amount = mean((0..ranks).map(|rank| Amount::of(&schedule, PhaseId(i), &sizes, rank)));
            let seconds = median_of(rounds, |taken| taken.phases[i]);
            points.entry(schedule.describe(operation).class).or_default().push((amount, seconds));
        }
        let amount = mean((0..ranks).map(|rank| Amount::read_ahead(&schedule, &sizes, rank)));
        points
            .entry(Class::ReadAhead)
            .or_default()
            .push((amount, median_of(rounds, |taken| taken.reading_s)));
    }
    points.iter().filter_map(|(class, points)| planning::fit::operation(*class, points)).collect()
}

/// Fits `overlap` and `stretch` to the times of whole steps, and compares prices with measurements.
pub fn fit_steps(
    calibration: &mut MachineRates,
    trials: &[Trial],
    taken: &[Vec<Taken>],
) -> Result<Vec<Compared>> {
    let mut steps: Vec<(Priced, f64)> = Vec::with_capacity(trials.len());
    for (trial, rounds) in trials.iter().zip(taken) {
        let schedule = trial.run.schedule(Task::Train);
        let priced = price(calibration, &schedule, &sizes(trial)).with_context(|| trial.name.clone())?;
        steps.push((priced, median_of(rounds, |taken| taken.step_s)));
    }
    // Few enough to try them all: in steps of 5 %.
    let tried = (0..=20).map(|i| f64::from(i) / 20.0).map(|overlap| {
        let ratios = steps.iter().map(|(priced, measured)| measured / priced.step_s(overlap, 1.0));
        let stretch = median(&mut ratios.collect::<Vec<_>>());
        let off =
            steps.iter().map(|(priced, measured)| (priced.step_s(overlap, stretch) / measured - 1.0).powi(2));
        (off.sum::<f64>(), overlap, stretch)
    });
    let best = tried.min_by(|a, b| a.0.total_cmp(&b.0)).context("no run was measured")?;
    (calibration.overlap, calibration.stretch) = (best.1, best.2);
    let compared = trials.iter().zip(steps).map(|(trial, (priced, measured_s))| Compared {
        name: trial.name.clone(),
        measured_s,
        priced_s: priced.step_s(calibration.overlap, calibration.stretch),
    });
    Ok(compared.collect())
}

fn sizes(trial: &Trial) -> BatchSizes {
    BatchSizes::typical(&trial.run.model, &trial.run.placement, trial.run.batch)
}

fn median_of(rounds: &[Taken], of: impl Fn(&Taken) -> f64) -> f64 {
    median(&mut rounds.iter().map(of).collect::<Vec<_>>())
}

fn mean(amounts: impl ExactSizeIterator<Item = Amount>) -> Amount {
    let count = amounts.len().max(1) as f64;
    let sum = amounts.fold(Amount::default(), |sum, a| Amount {
        flops: sum.flops + a.flops,
        bytes: sum.bytes + a.bytes,
        items: sum.items + a.items,
    });
    Amount { flops: sum.flops / count, bytes: sum.bytes / count, items: sum.items / count }
}
