//! The timeline of a run: whole, in order, and showing what overlaps.

use crate::common::config;
use spec::pace::{Pace, Seconds};
use spec::presets::ModelKind;
use spec::run::Run;
use spec::schedule::{Task, Work};
use std::collections::{BTreeMap, HashMap};
use training::{Compute, Logs, Outcome, Session, TraceRow, TraceSpan, train};

fn run(steps: u64) -> Run {
    let mut config = config(ModelKind::Dlrm, false, 2, 2);
    config.train.steps = Some(steps);
    planning::check(&config).unwrap()
}

fn traced(run: &Run, steps: u64, compute: Compute) -> Outcome {
    let session = Session { trace_steps: Some(steps), compute, ..Session::default() };
    train(run, &Logs::Synthetic, &session).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_trace_has_every_rank_and_stream_in_order() {
    let outcome = traced(&run(12), 4, Compute::Real);
    let text = outcome.trace.unwrap().to_json().to_string();
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert!(trace["otherData"]["clocks_within_us"].as_f64().unwrap() >= 0.0);
    for rank in 0..4 {
        let name = format!("rank {rank} (host {})", rank / 2);
        assert!(events.iter().any(|e| e["name"] == "process_name" && e["args"]["name"] == name.as_str()));
        for (row, name) in TraceRow::ALL {
            let of_stream = |e: &&serde_json::Value| e["pid"] == rank && e["tid"] == row as u64;
            let named = |e: &serde_json::Value| e["name"] == "thread_name" && e["args"]["name"] == name;
            assert!(events.iter().filter(of_stream).any(named), "rank {rank} has no row {name}");
            let mut end = 0.0;
            let spans: Vec<_> = events.iter().filter(of_stream).filter(|e| e["ph"] == "X").collect();
            // All tables of this run are in memory.
            assert_eq!(spans.is_empty(), row == TraceRow::Storage, "{name} of rank {rank}");
            for event in spans {
                let (at, long) = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
                // Microseconds with three digits.
                assert!(at >= end - 0.002 && long >= 0.0, "{event} begins before {end}");
                end = at + long;
                let step = event["args"]["step"].as_u64().unwrap();
                assert!((8..12).contains(&step), "{event}");
            }
        }
    }
}

#[test]
fn the_bytes_of_a_whole_trace_are_those_of_the_meter() {
    let outcome = traced(&run(5), 100, Compute::Real);
    let trace = outcome.trace.unwrap();
    let mut sent: HashMap<&str, u64> = HashMap::new();
    for span in trace.spans() {
        *sent.entry(trace.name(span.phase)).or_default() += span.sent;
    }
    for phase in &outcome.phases {
        assert_eq!(sent[phase.name.as_str()], phase.sent.host + phase.sent.network, "{}", phase.name);
    }
}

/// Neo §4.2: ids of batch i + 1 travel during the top MLP of batch i. Rank 3 is late by design, so the others' ids wait for
/// it, under their top MLP.
#[test]
fn ids_of_the_next_batch_travel_beside_the_top_mlp() {
    let run = run(8);
    let schedule = run.schedule(Task::Train);
    let computations = schedule.phases().iter().filter(|phase| matches!(phase.work, Work::Compute(_)));
    let mut phases: BTreeMap<String, Seconds> =
        computations.map(|phase| (phase.name.clone(), Seconds::Everywhere(0.0))).collect();
    phases.insert("interaction forward".into(), Seconds::ByRank(vec![0.0, 0.0, 0.0, 0.03]));
    phases.insert("top forward".into(), Seconds::Everywhere(0.01));
    let pace = Pace { threads: None, scale: 1.0, phases };
    let trace = traced(&run, 8, Compute::Paced(&pace)).trace.unwrap();
    let find = |name: &'static str, row: TraceRow| {
        let here = |span: &&TraceSpan| (span.rank, span.row, trace.name(span.phase)) == (0, row, name);
        trace.spans().iter().filter(here).collect::<Vec<&TraceSpan>>()
    };
    let beside = find("top forward", TraceRow::Compute).into_iter().filter(|top| {
        let ids = find("ids exchange", TraceRow::Exchange);
        let next = ids.into_iter().find(|ids| ids.batch == top.batch + 1);
        next.is_some_and(|ids| ids.step == top.step && ids.began_s < top.ended_s && top.began_s < ids.ended_s)
    });
    assert!(beside.count() > 0, "{:?}", trace.spans());
}
