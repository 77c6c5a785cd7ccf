//! What a step takes at least: phases wait for those they depend on and for those before them in their lane.

use spec::schedule::{Lane, Phase};
use std::collections::HashMap;

/// The time of a step whose phases take `seconds` each. Whatever it needs of the step before is there when it begins.
pub fn critical_path(phases: &[Phase], seconds: &[f64]) -> f64 {
    let mut ends = vec![0.0f64; phases.len()];
    let mut lanes: HashMap<Lane, f64> = HashMap::new();
    for (i, phase) in phases.iter().enumerate() {
        let lane = lanes.entry(phase.lane).or_default();
        let before = phase.after.iter().filter(|(_, steps_back)| *steps_back == 0);
        let begin = before.map(|(id, _)| ends[id.0]).fold(*lane, f64::max);
        ends[i] = begin + seconds[i];
        *lane = ends[i];
    }
    ends.into_iter().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spec::run::Config;
    use spec::schedule::{Task, Work};

    /// The flat step: vectors, then ids beside the reductions, then gradients.
    #[test]
    fn lanes_run_side_by_side() {
        let schedule = Config::default().check().unwrap().schedule(Task::Train);
        let path = |exchange: f64, reduction: f64, compute: f64| {
            let time = |phase: &Phase| match (&phase.work, phase.lane) {
                (Work::Compute(_), _) => compute,
                (_, Lane::Gradients) => reduction,
                _ => exchange,
            };
            critical_path(schedule.phases(), &schedule.phases().iter().map(time).collect::<Vec<_>>())
        };
        let reductions = schedule.phases().iter().filter(|p| p.lane == Lane::Gradients).count() as f64;
        let computed = schedule.phases().iter().filter(|p| p.lane == Lane::Compute).count() as f64;
        assert_eq!(path(0.0, 0.0, 0.0), 0.0);
        // Vectors, ids and gradients follow each other; reductions hide behind them, or they behind reductions.
        assert_eq!(path(5.0, 0.0, 0.0), 15.0);
        assert_eq!(path(5.0, 1e-3, 0.0), 15.0);
        assert_eq!(path(1.0, 100.0, 0.0), 1.0 + 100.0 * reductions);
        assert_eq!(path(0.0, 0.0, 1.0), computed);
    }
}
