//! What the computations of a step amount to.

use spec::machine_rates::Amount;
use spec::run::Config;
use spec::schedule::{PhaseId, Task, Work};
use spec::volume::BatchSizes;

/// Every computation of every dataflow has a class, and an amount of what the class goes by.
#[test]
fn amounts_of_a_step() {
    for module in ["none", "dlrm:c=1,p=0,d=8", "dcn:d=32"] {
        let mut config = Config::default();
        config.model.towers = Some("strided:2".parse().unwrap());
        config.model.tower_module = Some(module.parse().unwrap());
        config.wire = "bf16".parse().unwrap();
        let run = planning::check(&config).unwrap();
        let schedule = run.schedule(Task::Train);
        let sizes = BatchSizes::typical(&run.model, &run.placement, run.batch);
        for (i, phase) in schedule.phases().iter().enumerate() {
            let amount = Amount::of(&schedule, PhaseId(i), &sizes, 1);
            let Work::Compute(operation) = &phase.work else {
                assert_eq!(amount, Amount::default());
                continue;
            };
            let class = schedule.describe(operation).class;
            let by = [amount.flops, amount.bytes, amount.items].into_iter().zip(class.goes_by());
            assert!(
                by.clone().filter(|(_, counts)| *counts).all(|(amount, _)| amount > 0.0),
                "{}: {class}",
                phase.name
            );
        }
        let read = Amount::read_ahead(&schedule, &sizes, 0).items;
        assert_eq!(read, (run.batch / 4 * (26 + 13)) as f64);
    }
}
