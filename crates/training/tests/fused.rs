//! Lookups fused with dot products, and gradients of dot products fused with updates, are the same run as the phases that they replace.

mod common;

use common::{ADAM, config, gpu, optimizer, train};
use spec::fuse::Fuse;
use spec::optimizer::UpdateRule;
use spec::presets::ModelKind;
use spec::run::{Config, Run};
use spec::schedule::{Operation, Task};

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

#[test]
fn the_same_bits_as_the_phases_that_they_replace() {
    let row_wise = UpdateRule::RowWiseAdagrad { eps: 1e-8 };
    for (multi_hot, rule) in [(false, UpdateRule::Sgd), (true, row_wise), (true, ADAM)] {
        // On a GPU tf32 is fused on tensor cores, and f32 composed of its parts.
        for precision in if gpu::is_there() { vec!["f32", "tf32"] } else { vec!["f32"] } {
            let mut config = alone(multi_hot, rule, 0.02);
            config.train.precision = Some(precision.parse().unwrap());
            let [apart, fused] = [Fuse::Never, Fuse::Always].map(|fuse| train(&fused(&config, fuse)));
            assert_eq!(apart.losses, fused.losses, "{rule:?} in {precision}");
            assert_eq!(apart.parameters_sha256, fused.parameters_sha256, "{rule:?} in {precision}");
            let auc = |outcome: &training::Outcome| outcome.scores.as_ref().map(|scores| scores.evaluation);
            assert_eq!(auc(&apart), auc(&fused), "{rule:?} in {precision}");
        }
    }
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
    let config = alone(false, UpdateRule::Sgd, 0.05);
    let (apart, fused) = (fused(&config, Fuse::Never), fused(&config, Fuse::Always));
    for task in [Task::Train, Task::Evaluate] {
        let (apart, fused) = (operations(&apart, task), operations(&fused, task));
        let replaced: Vec<Operation> = fused
            .iter()
            .flat_map(|operation| operation.replaces(&planning::check(&config).unwrap().model))
            .collect();
        assert_eq!(replaced.len(), if task == Task::Train { 6 } else { 3 });
        assert!(replaced.iter().all(|operation| apart.contains(operation) && !fused.contains(operation)));
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
