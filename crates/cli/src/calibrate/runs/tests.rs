use super::*;
use spec::schedule::{Task, Work};
use std::collections::BTreeSet;

/// Whatever the cluster: all are runs, and together they have every class, those of network blocks several times.
#[test]
fn every_class_is_measured() {
    for (hosts, ranks) in [(2, 2), (4, 1), (1, 2)] {
        let topology = Topology::new(hosts, ranks).unwrap();
        let setup = Setup { topology, threads: 1, precision: Precision::Bf16, divisor: 1 };
        let trials = trials(setup, TimedSteps { timed: 2, warm_up: 1 }).unwrap();
        assert!(trials.iter().all(|trial| trial.run.precision == Precision::Bf16.into()));
        let mut classes = BTreeSet::new();
        for Trial { run, .. } in &trials {
            let schedule = run.schedule(Task::Train);
            for phase in schedule.phases() {
                if let Work::Compute(operation) = &phase.work {
                    classes.insert(schedule.describe(operation).class);
                }
            }
        }
        // All but reading ahead, which is no phase.
        assert_eq!(classes.len(), 29, "{topology}: {classes:?}");
    }
}
