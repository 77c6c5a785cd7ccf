//! The trained models by name: what they cost, and how they lie on systems of any size.

use planning::memory::Memory;
use planning::step::StepGraph;
use planning::system::System;
use planning::trained::{Trained, TrainedError, schedule};
use planning::workload::{Frozen, TaskKind};
use proptest::prelude::*;
use spec::fuse::Fuse;
use spec::machine_rates::Amount;
use spec::run::Run;
use spec::schedule::{Operation, Part, PhaseId, Slot, Task};
use spec::table_format::TableFormat;
use spec::volume::BatchSizes;

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

const NOTHING: Frozen = Frozen {
    bottom: false,
    top: false,
    experts: false,
    transformer: false,
    transformer_from: None,
    towers: false,
    embedding: false,
};

/// Phases of a fine-tuning of a model.
fn phases(name: &str, frozen: Frozen) -> Vec<String> {
    let step = schedule(&on(name, "h100:16"), TaskKind::FineTuning(frozen)).unwrap();
    step.phases().iter().map(|phase| phase.name.clone()).collect()
}

#[test]
fn what_is_frozen_is_neither_reduced_nor_updated() {
    let run = on("8t-dcn", "h100:64");
    assert_eq!(schedule(&run, TaskKind::FineTuning(NOTHING)).unwrap(), run.schedule(Task::Train));
    // Tables stay: gradients end at the towers, and no ids are sorted.
    let tables = phases("8t-dcn", Frozen { embedding: true, ..NOTHING });
    for gone in ["update tables", "sort ids", "group gradient exchange", "reverse transpose"] {
        assert!(!tables.iter().any(|name| name == gone), "{gone} of {tables:?}");
    }
    for there in ["peer gradient exchange", "towers backward", "reduce tower gradients", "update towers"] {
        assert!(tables.iter().any(|name| name == there), "{there} of {tables:?}");
    }
    // Towers stay as well: no gradient of a vector travels.
    let towers = phases("8t-dcn", Frozen { embedding: true, towers: true, ..NOTHING });
    for gone in ["peer gradient exchange", "towers backward", "update towers", "encode peer gradient"] {
        assert!(!towers.iter().any(|name| name == gone), "{gone} of {towers:?}");
    }
    assert!(towers.iter().any(|name| name == "bottom backward"));
    // All that is left is the forward pass.
    let nothing =
        phases("8t-dcn", Frozen { bottom: true, top: true, towers: true, embedding: true, ..NOTHING });
    assert!(!nothing.iter().any(|name| name.contains("backward") || name.contains("update")), "{nothing:?}");
    for missing in [Frozen { transformer: true, ..NOTHING }, Frozen { experts: true, ..NOTHING }] {
        schedule(&run, TaskKind::FineTuning(missing)).unwrap_err();
    }
    let flat = schedule(&on("dlrm", "h100:16"), TaskKind::FineTuning(Frozen { towers: true, ..NOTHING }));
    assert!(flat.unwrap_err().to_string().contains("no tower modules"));
}

/// Gradients of weights and of inputs cost as much; a layer that stays has the second only where something below learns.
#[test]
fn frozen_layers_cost_half() {
    let flops = |frozen: Frozen, name: &str| -> f64 {
        let run = on("dlrm", "h100:16");
        let step = StepGraph::of_schedule(&schedule(&run, TaskKind::FineTuning(frozen)).unwrap(), run.batch);
        let of = step.operations.iter().filter(|op| op.label.to_string().starts_with(name));
        of.map(|op| match &op.work {
            planning::step::Work::Compute(compute) => compute.flops,
            _ => 0.0,
        })
        .sum()
    };
    let all = flops(NOTHING, "top backward");
    assert_eq!(flops(Frozen { top: true, ..NOTHING }, "top backward"), all / 2.0);
    // Measured rates see the same halves.
    let amount = |frozen: Frozen| {
        let run = on("dlrm", "h100:16");
        let step = schedule(&run, TaskKind::FineTuning(frozen)).unwrap();
        let sizes = BatchSizes::typical(&run.model, &run.placement, run.batch);
        let at = step.phases().iter().position(|phase| phase.name == "top backward 0").unwrap();
        Amount::of(&step, PhaseId(at), &sizes, 0)
    };
    let (whole, half) = (amount(NOTHING), amount(Frozen { top: true, ..NOTHING }));
    assert_eq!((half.flops, half.bytes), (whole.flops / 2.0, whole.bytes / 2.0));
    assert_eq!(flops(Frozen { bottom: true, embedding: true, ..NOTHING }, "interaction backward"), 0.0);
    // The first layer of the top MLP, 479 × 1024, passes nothing on.
    let samples = 1024.0;
    let lowest = flops(Frozen { bottom: true, embedding: true, ..NOTHING }, "top backward");
    assert_eq!(lowest, all - 2.0 * 479.0 * 1024.0 * samples);
    assert_eq!(flops(Frozen { top: true, bottom: true, embedding: true, ..NOTHING }, "top backward"), 0.0);
}

/// Rows of f16 are half as many bytes to look up, to read and to write; vectors and gradients are f32.
#[test]
fn formats_of_tables_count() {
    let bytes = |format: TableFormat, name: &str| -> f64 {
        let mut run = on("dlrm", "h100:16");
        run.model = run.model.with_table_format(format);
        let step = StepGraph::of_schedule(&run.schedule(Task::Train), run.batch);
        let op = step.operations.iter().find(|op| op.label.to_string() == name).unwrap();
        match &op.work {
            planning::step::Work::Compute(compute) => compute.bytes,
            _ => panic!("{name} is a collective"),
        }
    };
    // Single-hot: as many floats in rows as in vectors.
    assert_eq!(bytes(TableFormat::F16, "lookup") / bytes(TableFormat::F32, "lookup"), 0.75);
    assert_eq!(
        bytes(TableFormat::F16, "update tables") / bytes(TableFormat::F32, "update tables"),
        2.0 / 3.0
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Of any model, whatever is frozen: every phase finds what it reads, nothing that stays is written, and what is frozen in
    /// addition takes neither time nor memory.
    #[test]
    fn fine_tuning_is_a_part_of_training(
        name in proptest::sample::select(vec!["dlrm", "dcn", "8t-dlrm", "8t-dcn", "sptt-dlrm", "deepfm"]),
        system in proptest::sample::select(vec!["h100:1", "h100:8", "h100:64"]),
        [bottom, top, towers, embedding] in any::<[bool; 4]>(),
        more in 0usize..4,
        (f32_wire, clips) in any::<(bool, bool)>(),
    ) {
        let mut run = on(name, system);
        if f32_wire {
            // Then the only device looks up and updates in place.
            run.wire = Default::default();
        }
        run.regularisation.clip_norm = clips.then_some(1.0);
        let towers = towers && run.model.has_tower_modules();
        let some = Frozen { bottom, top, towers, embedding, ..NOTHING };
        let mut frozen = some;
        match more {
            0 => frozen.bottom = true,
            1 => frozen.top = true,
            2 => frozen.towers = run.model.has_tower_modules(),
            _ => frozen.embedding = true,
        }
        if frozen.embedding && !embedding {
            // A step with frozen tables is not fused, and is compared with one that is not.
            run.fuse = Fuse::Never;
        }
        let step = schedule(&run, TaskKind::FineTuning(frozen)).unwrap();
        prop_assert_eq!(step.trains_tables(), !frozen.embedding);
        let whole = run.schedule(Task::Train);
        for phase in step.phases() {
            for slot in &phase.reads {
                let written = |schedule: &spec::schedule::Schedule| schedule.phases().iter().any(|p| p.writes.contains(slot));
                let given = matches!(slot, Slot::Parameters(_) | Slot::Tables);
                prop_assert!(given || !written(&whole) || written(&step), "{} reads {slot:?}", phase.name);
            }
            let work = phase.operation();
            let sorts = matches!(work, Some(Operation::SortIds | Operation::FindRows));
            prop_assert!(!(frozen.embedding && sorts), "{}", phase.name);
            prop_assert!(!(frozen.towers && work == Some(&Operation::TowerNorm)), "{}", phase.name);
            prop_assert!(!(frozen.bottom && step.part(phase) == Part::BottomBackward), "{}", phase.name);
        }
        let system = System::named(system).unwrap();
        let of = |frozen: Frozen| {
            let schedule = schedule(&run, TaskKind::FineTuning(frozen)).unwrap();
            let step = StepGraph::of_schedule(&schedule, run.batch);
            let seconds = planning::cost::seconds(&planning::cost::Roofline, &step, &system);
            let (tables, dense) = (&run.table_optimizer.update, &run.dense_optimizer.update);
            let memory = Memory::of_schedule(&schedule, run.batch, tables, dense);
            (seconds.iter().sum::<f64>(), memory.total())
        };
        let (less, more) = (of(frozen), of(some));
        prop_assert!(less.0 <= more.0 * (1.0 + 1e-9) && less.1 <= more.1, "{less:?} {more:?}");
    }
}
