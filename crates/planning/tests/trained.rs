//! The trained models by name: what they cost, and how they lie on systems of any size.

use planning::step::StepGraph;
use planning::system::System;
use planning::trained::{Trained, TrainedError};
use spec::run::Run;
use spec::schedule::Task;

fn on(name: &str, system: &str) -> Run {
    let system = System::named(system).unwrap();
    Trained::named(name).unwrap().run(&system, 1024, &Default::default()).unwrap()
}

/// DMT, Tables 3 to 5 and §5.1.
#[test]
fn models_cost_what_the_paper_says() {
    let printed = [
        ("dlrm", 14.74, 22.78e9),
        ("sptt-dlrm", 14.74, 22.78e9),
        ("dcn", 96.22, 22.79e9),
        ("2t-dlrm", 8.95, 22.78e9),
        ("16t-dlrm", 8.75, 22.78e9),
        ("26t-dlrm", 8.95, 22.78e9),
        ("8t-dcn", 62.60, 22.79e9),
        ("26t-dcn", 96.22, 22.79e9),
        ("8t-dlrm-cr4", 7.93, 22.78e9),
        ("8t-dlrm-cr16", 7.16, 22.78e9),
        ("xlrm", 700.0, 2e12),
        ("16t-xlrm", 700.0, 2e12),
    ];
    for (name, mflops, parameters) in printed {
        let model = on(name, "h100:16").model;
        let ours = model.training_flops() as f64 / 1e6;
        let within = if name.ends_with("xlrm") { 30.0 } else { 0.1 };
        assert!((ours - mflops).abs() < within, "{name}: {ours} MFlops");
        let ours = model.parameters() as f64;
        assert!((ours / parameters - 1.0).abs() < 0.01, "{name}: {ours} parameters");
    }
}

#[test]
fn every_model_lies_on_every_system() {
    for name in Trained::names() {
        for system in ["v100:1", "v100:16", "a100:64", "h100:256", "h100:512", "h200:24"] {
            let run = on(name, system);
            assert_eq!(run.wire.vectors, spec::codec::Codec::Bf16);
            assert_eq!(run.topology().ranks(), System::named(system).unwrap().devices());
            assert!(run.dataflow.sptt().is_some() == name.contains('-'), "{name}");
        }
    }
    let unknown = Trained::named("3t-dlrm").unwrap_err();
    assert!(matches!(unknown, TrainedError::Unknown { .. }) && unknown.to_string().contains("26t-dlrm"));
}

/// At 512 devices neither dataflow leaves the tables to a few of them, and both have as much on the busiest.
#[test]
fn tables_are_cut_over_many_ranks() {
    let columns = |name: &str| {
        let run = on(name, "h100:512");
        let of_rank =
            |rank| run.placement.held_by(rank).iter().map(|shard| shard.columns.len()).sum::<usize>();
        (0..512).map(of_rank).max().unwrap()
    };
    for name in ["dlrm", "sptt-dlrm", "8t-dlrm", "16t-dcn", "26t-dlrm"] {
        assert!(columns(name) <= 8, "{name}: {} columns", columns(name));
    }
    let run = on("8t-dlrm", "h100:512");
    assert_eq!(run.dataflow.sptt().unwrap().groups().hosts_per_group(), 8);
    let features = 0..run.model.features().len();
    assert!(features.clone().all(|feature| run.placement.row_pieces(feature) == 1));
    assert!(features.clone().all(|feature| run.placement.column_pieces(feature) > 1));
}

#[test]
fn thousands_of_devices_are_no_more_work_than_hundreds() {
    for name in ["dlrm", "16t-xlrm"] {
        let run = on(name, "h100:4096");
        let step = StepGraph::of_schedule(&run.schedule(Task::Train), run.batch);
        assert_eq!(step.samples, 4096.0 * 1024.0);
    }
}
