use super::*;
use spec::run::Config;
use spec::schedule::Task;
use spec::volume::BatchSizes;

fn step(batch: usize) -> ReplayedStep {
    let mut config = Config::default();
    config.train.batch = Some(batch);
    let run = planning::check(&config).unwrap();
    let sizes = BatchSizes::typical(&run.model, &run.placement, batch);
    ReplayedStep { config, schedule: run.schedule(Task::Train), run, sizes }
}

/// The buffers of one batch under the schedule of another.
#[test]
fn other_bytes_than_the_schedule_says_are_refused() {
    let (small, large) = (step(64), step(128));
    for serial in [false, true] {
        let refused = on_ranks(&Cluster::Threads, small.run.topology(), 0, |world| {
            let communicators = Communicators::new(world, &small.run.dataflow)?;
            let replay = Replay { step: &large, ..Replay::new(&small, &communicators)? };
            replay.run(Rounds { measured: 1, warm_up: 0 }, serial, Console::Quiet).map(|_| ())
        });
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("in pooled exchange, but the schedule predicts"), "{message}");
    }
}
