//! The same run on another number of ranks, on another device, or again, is the same run.

use crate::common::{ADAM, config, optimizer, tolerance, train, train_with};
use kernels::Device;
use spec::optimizer::UpdateRule;
use spec::presets::ModelKind;

const WORLDS: [(usize, usize); 4] = [(1, 1), (1, 4), (2, 2), (4, 2)];

fn curves_agree(kind: ModelKind, multi_hot: bool, rule: UpdateRule, rate: f32, steps: u64) {
    let curve = |(hosts, ranks_per_host)| {
        let mut config = config(kind, multi_hot, hosts, ranks_per_host);
        config.train.steps = Some(steps);
        config.optimizer.dense = Some(optimizer(rule, rate));
        config.optimizer.tables = Some(optimizer(rule, rate));
        train(&planning::check(&config).unwrap()).losses
    };
    let alone = curve(WORLDS[0]);
    assert_eq!(alone.len() as u64, steps);
    for world in &WORLDS[1..] {
        for (step, (a, b)) in alone.iter().zip(curve(*world)).enumerate() {
            assert!(
                (a - b).abs() <= tolerance(1e-5) * a.abs(),
                "{kind:?} on {world:?}, step {step}: {a} alone, {b}"
            );
        }
    }
}

#[test]
fn dlrm_by_sgd() {
    curves_agree(ModelKind::Dlrm, false, UpdateRule::Sgd, 0.05, 50);
}

#[test]
fn dlrm_by_sgd_multi_hot() {
    curves_agree(ModelKind::Dlrm, true, UpdateRule::Sgd, 0.05, 50);
}

#[test]
fn dcn_by_sgd() {
    curves_agree(ModelKind::Dcn, false, UpdateRule::Sgd, 0.05, 50);
}

#[test]
fn dcn_by_sgd_multi_hot() {
    curves_agree(ModelKind::Dcn, true, UpdateRule::Sgd, 0.05, 50);
}

#[test]
fn deepfm_by_sgd_multi_hot() {
    curves_agree(ModelKind::DeepFm, true, UpdateRule::Sgd, 0.05, 50);
}

#[test]
fn deepfm_by_adam() {
    curves_agree(ModelKind::DeepFm, false, ADAM, 0.002, 20);
}

#[test]
fn dlrm_by_adam_multi_hot() {
    curves_agree(ModelKind::Dlrm, true, ADAM, 0.002, 20);
}

#[test]
fn dcn_by_adam() {
    curves_agree(ModelKind::Dcn, false, ADAM, 0.002, 20);
}

#[test]
fn the_same_run_twice_has_the_same_bits() {
    for kind in ModelKind::ALL {
        let run = planning::check(&config(kind, true, 2, 2)).unwrap();
        let (one, two) = (train(&run), train(&run));
        assert_eq!(one.parameters_sha256, two.parameters_sha256);
        assert_eq!(one.losses, two.losses);
        let mut other = run.clone();
        other.seed = 1;
        assert_ne!(train(&other).parameters_sha256, one.parameters_sha256);
    }
}

/// Given the same world, where tables live changes no bit (design, invariant 4).
#[test]
fn replicated_tables_have_the_same_bits() {
    let mut config = config(ModelKind::Dlrm, true, 2, 2);
    let spread = train(&planning::check(&config).unwrap());
    config.placement.replicate_rows = Some(40);
    let run = planning::check(&config).unwrap();
    assert_eq!(run.placement.replicated().len(), 3);
    let mixed = train(&run);
    assert_eq!(spread.losses, mixed.losses);
    assert_eq!(spread.parameters_sha256, mixed.parameters_sha256);
}

/// A batch smaller than the world, on a wide first layer: ranks without a sample compute over nothing.
#[test]
fn a_rank_without_samples_takes_part() {
    let mut config = config(ModelKind::Dlrm, true, 4, 2);
    config.model.bottom = Some(vec![512, 8]);
    config.train.batch = Some(3);
    config.train.steps = Some(6);
    let eight = train(&planning::check(&config).unwrap()).losses;
    (config.topology.hosts, config.topology.ranks_per_host) = (Some(1), Some(1));
    for (step, (a, b)) in train(&planning::check(&config).unwrap()).losses.iter().zip(eight).enumerate() {
        assert!((a - b).abs() <= tolerance(1e-5) * a, "step {step}: {a} alone, {b} on 8 ranks");
    }
}

#[test]
fn threads_change_no_bit() {
    for kind in [ModelKind::Dcn, ModelKind::DeepFm] {
        let mut config = config(kind, true, 1, 2);
        config.train.steps = Some(5);
        let one = train(&planning::check(&config).unwrap());
        config.train.threads = Some(3);
        assert_eq!(one.parameters_sha256, train(&planning::check(&config).unwrap()).parameters_sha256);
    }
}

/// The whole trainer on the slow reference device follows the same curve.
#[test]
fn the_reference_device_agrees() {
    for kind in ModelKind::ALL {
        let mut config = config(kind, true, 1, 2);
        config.train.steps = Some(20);
        let run = planning::check(&config).unwrap();
        let slow = train_with(&run, || Ok(Device::Reference)).losses;
        for (step, (a, b)) in slow.iter().zip(train(&run).losses).enumerate() {
            assert!((a - b).abs() <= tolerance(1e-5) * a, "{kind:?}, step {step}: {a} on the reference, {b}");
        }
    }
}
