//! Lookups fused with dot products, gradients of dot products fused with updates, and lookups and updates in place are the same run as
//! the phases that they replace.

use crate::common::{ADAM, config, gpu, mixed, optimizer, train, train_with};
use kernels::Device;
use spec::dataflow::DataflowKind;
use spec::fuse::Fuse;
use spec::optimizer::UpdateRule;
use spec::presets::ModelKind;
use spec::run::{Config, Run};
use spec::schedule::{Operation, Task};
use spec::towers::Assignment;
use training::Outcome;

/// A run of 40 steps on one rank, whose vectors are wide enough to be fused. All gradients lie in one bucket.
fn alone(multi_hot: bool, rule: UpdateRule, rate: f32) -> Config {
    let mut config = config(ModelKind::Dlrm, multi_hot, 1, 1);
    config.model.dim = Some(16);
    config.model.bottom = Some(vec![24, 16]);
    config.train.steps = Some(40);
    config.train.bucket_bytes = Some(1 << 30);
    config.optimizer.tables = Some(optimizer(rule, rate));
    config
}

fn fused(config: &Config, fuse: Fuse) -> Run {
    let mut config = config.clone();
    config.train.fuse = Some(fuse);
    planning::check(&config).unwrap()
}

fn operations(run: &Run, task: Task) -> Vec<Operation> {
    run.schedule(task).phases().iter().filter_map(|phase| phase.operation().cloned()).collect()
}

fn same_bits([apart, fused]: [Outcome; 2], what: &str) {
    assert_eq!(apart.losses, fused.losses, "{what}");
    assert_eq!(apart.parameters_sha256, fused.parameters_sha256, "{what}");
    let scores = [&apart, &fused].map(|outcome| outcome.scores.as_ref().map(|scores| scores.evaluation));
    assert_eq!(scores[0], scores[1], "{what}");
}

#[test]
fn the_same_bits_as_the_phases_that_they_replace() {
    let row_wise = UpdateRule::RowWiseAdagrad { eps: 1e-8 };
    for (multi_hot, rule) in [(false, UpdateRule::Sgd), (true, row_wise), (true, ADAM)] {
        // On a GPU tf32 is fused on tensor cores, and f32 composed of its parts.
        for precision in if gpu::is_there() { vec!["f32", "tf32"] } else { vec!["f32"] } {
            let mut config = alone(multi_hot, rule, 0.02);
            config.train.precision = Some(precision.parse().unwrap());
            let outcomes = [Fuse::Never, Fuse::Always].map(|fuse| train(&fused(&config, fuse)));
            same_bits(outcomes, &format!("{rule:?} in {precision}"));
        }
    }
}

/// A run of 20 steps on one rank with vectors that are too short for fused dot products.
fn short(kind: ModelKind, multi_hot: bool, rule: UpdateRule) -> Config {
    let mut config = config(kind, multi_hot, 1, 1);
    config.train.steps = Some(20);
    config.optimizer.tables = Some(optimizer(rule, 0.02));
    config
}

/// Trains with phases apart and in place, and compares.
fn in_place_is_the_same(config: &Config, what: &str) {
    let runs = [Fuse::Never, Fuse::Auto].map(|fuse| fused(config, fuse));
    for task in [Task::Train, Task::Evaluate] {
        let in_place = runs.each_ref().map(|run| run.schedule(task).looks_up_in_place());
        assert_eq!(in_place, [false, true], "{what}");
    }
    same_bits(runs.each_ref().map(train), what);
    if !gpu::is_there() {
        let reference = runs.each_ref().map(|run| train_with(run, || Ok(Device::Reference)));
        same_bits(reference, &format!("{what}, by the reference"));
    }
}

#[test]
fn the_same_bits_in_place() {
    let row_wise = UpdateRule::RowWiseAdagrad { eps: 1e-8 };
    // On a GPU, cross layers in bf16 read vectors that the lookup stored as bf16.
    let precisions = if gpu::is_there() { vec!["f32", "tf32", "bf16"] } else { vec!["f32", "bf16"] };
    for kind in [ModelKind::Dlrm, ModelKind::Dcn, ModelKind::DeepFm] {
        for (multi_hot, rule) in [(false, UpdateRule::Sgd), (true, UpdateRule::Sgd), (true, row_wise)] {
            for precision in &precisions {
                let mut config = short(kind, multi_hot, rule);
                config.train.precision = Some(precision.parse().unwrap());
                in_place_is_the_same(&config, &format!("{kind:?} by {rule:?} in {precision}"));
            }
        }
    }
}

#[test]
fn the_same_bits_in_place_with_vectors_of_several_lengths() {
    for kind in [ModelKind::Dlrm, ModelKind::Dcn, ModelKind::DeepFm] {
        for precision in ["f32", "bf16"] {
            let mut config = mixed(short(kind, true, UpdateRule::Sgd));
            config.train.precision = Some(precision.parse().unwrap());
            in_place_is_the_same(&config, &format!("{kind:?} in {precision}"));
        }
    }
}

/// Towers that pass their vectors through change the order of vectors only.
#[test]
fn the_same_bits_in_place_with_towers() {
    let mut config = short(ModelKind::Dcn, true, UpdateRule::Sgd);
    config.model.towers = Some(Assignment::Strided(2));
    config.train.dataflow = Some(DataflowKind::Flat);
    in_place_is_the_same(&config, "two towers");
}

#[test]
fn vectors_that_change_on_their_way_are_not_looked_up_in_place() {
    let in_place = |change: &dyn Fn(&mut Config)| {
        let mut config = short(ModelKind::Dcn, false, UpdateRule::Sgd);
        change(&mut config);
        fused(&config, Fuse::Always).schedule(Task::Train).looks_up_in_place()
    };
    assert!(in_place(&|_| ()));
    assert!(!in_place(&|config| config.topology.ranks_per_host = Some(2)));
    assert!(!in_place(&|config| config.wire.vectors = Some("bf16".parse().unwrap())));
    assert!(!in_place(&|config| config.wire.gradients = Some("bf16".parse().unwrap())));
    let modules = |config: &mut Config| {
        config.model.towers = Some(Assignment::Strided(2));
        config.model.tower_module = Some("dcn:d=8,rank=4".parse().unwrap());
    };
    assert!(!in_place(&modules));
}

#[test]
fn bf16_stays_near_the_phases_that_it_replaces() {
    let mut config = alone(true, UpdateRule::Sgd, 0.05);
    config.train.precision = Some("bf16".parse().unwrap());
    let [apart, together] = [Fuse::Never, Fuse::Always].map(|fuse| train(&fused(&config, fuse)));
    for (step, (a, b)) in apart.losses.iter().zip(&together.losses).enumerate() {
        assert!((a - b).abs() <= 1e-2 * a.abs(), "step {step}: {a} and {b}");
    }
    let again = train(&fused(&config, Fuse::Always));
    assert_eq!(together.parameters_sha256, again.parameters_sha256, "a second time");
}

#[test]
fn what_is_fused_replaces_its_phases() {
    let (dot, cross) = (alone(false, UpdateRule::Sgd, 0.05), short(ModelKind::Dcn, false, UpdateRule::Sgd));
    for (config, of_each) in [(dot, 3), (cross, 2)] {
        let (apart, fused) = (fused(&config, Fuse::Never), fused(&config, Fuse::Always));
        for (task, phases) in [(Task::Train, 2), (Task::Evaluate, 1)] {
            let (apart, fused) = (operations(&apart, task), operations(&fused, task));
            let replaced: Vec<Operation> = fused
                .iter()
                .flat_map(|operation| operation.replaces(&planning::check(&config).unwrap().model))
                .collect();
            assert_eq!(replaced.len(), phases * of_each);
            assert!(replaced.iter().all(|operation| apart.contains(operation) && !fused.contains(operation)));
        }
    }
}

#[test]
fn vectors_that_travel_are_not_fused() {
    for (hosts, ranks, kind) in [(1, 2, ModelKind::Dlrm), (1, 1, ModelKind::Dcn), (1, 1, ModelKind::DeepFm)] {
        let mut config = config(kind, false, hosts, ranks);
        config.model.dim = Some(16);
        if kind != ModelKind::DeepFm {
            config.model.bottom = Some(vec![24, 16]);
        }
        let run = fused(&config, Fuse::Always);
        let fused = operations(&run, Task::Train);
        assert!(!fused.iter().any(|operation| matches!(operation, Operation::LookupDot(_))), "{kind:?}");
    }
}
