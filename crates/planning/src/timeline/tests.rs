use super::*;
use spec::run::Config;
use spec::schedule::{Operation, Phase, Task};

fn schedule() -> Schedule {
    crate::check(&Config::default()).expect("the default run").schedule(Task::Train)
}

/// Seconds by the name of a phase.
fn times(schedule: &Schedule, of: impl Fn(&Phase) -> f64) -> Vec<f64> {
    schedule.phases().iter().map(of).collect()
}

#[test]
fn computation_alone_takes_its_sum() {
    let schedule = schedule();
    let seconds = times(&schedule, |phase| if phase.lane == Lane::Compute { 0.5 } else { 0.0 });
    let timeline = Timeline::new(&schedule, &seconds, Links::Apart);
    assert!((timeline.step_s - seconds.iter().sum::<f64>()).abs() < 1e-9);
    assert_eq!(timeline.hideable_s(), 0.0);
}

#[test]
fn pooled_exchange_hides_behind_the_bottom_and_no_further() {
    let schedule = schedule();
    let bottom = |phase: &Phase| {
        let operation = Work::Compute(Operation::Forward(spec::model::BlockName::new("bottom")));
        if phase.work == operation { 3.0 } else { 0.0 }
    };
    let step = |exchange: f64| {
        let of = |phase: &Phase| if phase.name == "pooled exchange" { exchange } else { bottom(phase) };
        Timeline::new(&schedule, &times(&schedule, of), Links::Shared).step_s
    };
    assert!((step(2.0) - 3.0).abs() < 1e-9);
    assert!((step(5.0) - 5.0).abs() < 1e-9);
}

/// The last reduction and the gradients of vectors are under way together: neither is hidden by the other.
#[test]
fn lanes_share_the_wire() {
    let time = |phase: &Phase| match phase.name.as_str() {
        "gradient exchange" => 2.0,
        name if name.starts_with("reduce bucket") => 1.0,
        _ => 0.0,
    };
    let sum = |schedule: &Schedule| times(schedule, time).iter().sum::<f64>();
    let two_hosts = schedule();
    let step = Timeline::new(&two_hosts, &times(&two_hosts, time), Links::Shared).step_s;
    assert!((step - sum(&two_hosts)).abs() < 1e-9, "{step}");
    let apart = Timeline::new(&two_hosts, &times(&two_hosts, time), Links::Apart).step_s;
    assert!(apart < step, "{apart}");
    let mut config = Config::default();
    config.topology.hosts = Some(1);
    let one_host = crate::check(&config).expect("a run").schedule(Task::Train);
    assert!(Timeline::new(&one_host, &times(&one_host, time), Links::Shared).step_s < sum(&one_host));
}

#[test]
fn step_lies_between_its_busiest_lane_and_the_sum_of_all() {
    let schedule = schedule();
    let seconds: Vec<f64> = (0..schedule.phases().len()).map(|i| 1.0 + ((i * 7) % 5) as f64).collect();
    let timeline = Timeline::new(&schedule, &seconds, Links::Apart);
    for lane in Lane::ALL {
        let phases = schedule.phases().iter().zip(&seconds);
        let busy: f64 = phases.filter(|(phase, _)| phase.lane == lane).map(|(_, s)| s).sum();
        assert!(timeline.step_s >= busy - 1e-9, "{lane}");
    }
    assert!(timeline.step_s < timeline.serial_s() && timeline.hideable_s() > 0.0);
}

/// A step that stops at its first repetition takes what it takes in the middle of a long run, written out.
#[test]
fn stopping_early_changes_nothing() {
    const STEPS: usize = 28;
    let schedule = schedule();
    let phases = schedule.phases();
    let unrolled: Vec<Vec<(PhaseId, Distance)>> = (0..STEPS * phases.len())
        .map(|i| {
            let after = phases[i % phases.len()].after.iter();
            let here = after.filter_map(|&(PhaseId(other), distance)| {
                Some((PhaseId((i / phases.len()).checked_sub(distance as usize)? * phases.len() + other), 0))
            });
            here.collect()
        })
        .collect();
    for round in 0..100usize {
        let time = |i: usize| ((i * 31 + round * 17) % (3 + round % 11)) as f64 * 1e-3;
        for shares in [false, true] {
            let item = |i: usize| {
                let (phase, seconds) = (&phases[i], time(i));
                let computes = matches!(phase.work, Work::Compute(_));
                Item { lane: phase.lane, after: &phase.after, computes, shares: shares && !computes, seconds }
            };
            let items: Vec<Item> = (0..phases.len()).map(item).collect();
            let long = unrolled.iter().enumerate();
            let long = long.map(|(i, after)| Item { after, ..items[i % items.len()] });
            let spans = sharing::spans(&long.collect::<Vec<_>>(), 1);
            let end = |step: usize| last_end(&spans[step * items.len()..][..items.len()]);
            let (expected, got) = ((end(24) - end(16)) / 8.0, Timeline::steady(&items).step_s);
            assert!(
                (got - expected).abs() <= 1e-9 * expected.max(1e-3),
                "{round} {shares}: {got} {expected}"
            );
        }
    }
}
