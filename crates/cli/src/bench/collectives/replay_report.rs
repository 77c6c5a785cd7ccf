//! A replay as text and as JSON.

use super::Rounds;
use super::file::ReplayedStep;
use super::replay::{One, Replayed};
use super::sweep_report::seconds;
use crate::dataflow;
use crate::text::{bytes, columns};
use anyhow::Result;
use serde_json::{Value, json};
use spec::schedule::{Collective, Phase, Work};

pub fn print(step: &ReplayedStep, replayed: &Replayed, rounds: Rounds, as_json: bool) -> Result<()> {
    if as_json {
        println!("{}", to_json(step, replayed, rounds));
        return Ok(());
    }
    let run = &step.run;
    println!(
        "The collectives of a step of {} on {} ranks, global batch {}, {}",
        run.model.kind(),
        run.topology(),
        run.batch,
        dataflow::described(&run.dataflow)
    );
    println!(
        "Sizes of a typical batch, no data read; median of {} rounds by the slowest rank; host / network bytes",
        rounds.measured
    );
    let head = ["phase", "collective", "most of a rank", "all ranks", "in flight", "alone"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for one in &replayed.collectives {
        let (phase, Collective { kind, group, .. }) = of(step, one);
        rows.push(vec![
            phase.name.clone(),
            format!("{kind} over {group}"),
            format!("{} / {}", bytes(one.most.host), bytes(one.most.network)),
            format!("{} / {}", bytes(one.total.host), bytes(one.total.network)),
            one.in_flight_s.map_or("–".into(), seconds),
            seconds(one.alone_s),
        ]);
    }
    print!("{}", columns(&rows));
    let together = replayed.step_s.map_or(String::new(), |s| format!("{} as scheduled; ", seconds(s)));
    println!(
        "\nA step's collectives: {together}{} one by one; {} on the critical path, if each takes its time alone",
        seconds(replayed.serial_s),
        seconds(replayed.critical_path_s)
    );
    Ok(())
}

fn to_json(step: &ReplayedStep, replayed: &Replayed, rounds: Rounds) -> Value {
    let (run, topology) = (&step.run, step.run.topology());
    let collectives = replayed.collectives.iter().map(|one| {
        let (phase, collective) = of(step, one);
        json!({
            "name": phase.name,
            "collective": collective.kind,
            "group": collective.group,
            "lane": phase.lane,
            "most_host_bytes": one.most.host,
            "most_network_bytes": one.most.network,
            "total_host_bytes": one.total.host,
            "total_network_bytes": one.total.network,
            "in_flight_s": one.in_flight_s,
            "alone_s": one.alone_s,
        })
    });
    json!({
        "model": run.model.kind(),
        "hosts": topology.hosts(),
        "ranks_per_host": topology.ranks_per_host(),
        "batch": run.batch,
        "sizes": "typical",
        "dataflow": run.dataflow.kind(),
        "rounds": rounds.measured,
        "warm_up": rounds.warm_up,
        "step_s": replayed.step_s,
        "serial_s": replayed.serial_s,
        "critical_path_s": replayed.critical_path_s,
        "collectives": collectives.collect::<Vec<_>>(),
    })
}

/// A collective in its schedule.
fn of<'a>(step: &'a ReplayedStep, one: &One) -> (&'a Phase, &'a Collective) {
    let phase = &step.schedule.phases()[one.phase.0];
    match &phase.work {
        Work::Collective(collective) => (phase, collective),
        Work::Compute(_) => unreachable!("a replay gives its collectives alone"),
    }
}
