//! Weight decay, clipped gradients, smoothed labels and dropout: no bit depends on ranks' threads, on the dataflow, on what
//! overlaps, or on where a run was stopped. `golden.rs` holds the arithmetic against PyTorch.

use crate::common::{ADAM, config, optimizer, ranks_after, train, training_source};
use kernels::Device;
use spec::dataflow::DataflowKind;
use spec::optimizer::UpdateRule;
use spec::placement::Cut;
use spec::presets::ModelKind;
use spec::run::{Config, Every};
use spec::towers::Assignment;
use training::checkpoint::{Checkpoint, locate};
use training::{Logs, Saving, Session};

/// Name of an option, and how to switch it on.
type Switch = (&'static str, fn(&mut Config));

/// Every option, strong enough to matter in a few steps.
const OPTIONS: [Switch; 6] = [
    ("weight decay", |c| c.optimizer.weight_decay = Some(0.1)),
    ("table weight decay", |c| c.optimizer.table_weight_decay = Some(0.1)),
    ("clipped values", |c| c.train.clip_value = Some(0.003)),
    ("clipped norm", |c| c.train.clip_norm = Some(0.05)),
    ("dropout", |c| c.model.dropout = Some(0.3)),
    ("smoothed labels", |c| c.train.label_smoothing = Some(0.2)),
];

fn with_all(mut config: Config) -> Config {
    OPTIONS.iter().for_each(|(_, set)| set(&mut config));
    config
}

/// Past the short batch, which is the 17th.
fn short(kind: ModelKind, hosts: usize, ranks_per_host: usize) -> Config {
    let mut config = config(kind, true, hosts, ranks_per_host);
    config.train.steps = Some(19);
    config.placement.cut = Some(Cut::Whole);
    config
}

fn digest(config: &Config) -> (Vec<f64>, Option<String>) {
    let outcome = train(&planning::check(config).unwrap());
    (outcome.losses, outcome.parameters_sha256)
}

/// Towers under modules on H × L ranks in groups of K hosts.
fn in_towers(mut config: Config, hosts: usize, ranks: usize, per_group: usize) -> Config {
    (config.topology.hosts, config.topology.ranks_per_host) = (Some(hosts), Some(ranks));
    config.topology.hosts_per_tower = Some(per_group);
    config.model.towers = Some(Assignment::Strided(3));
    config.model.tower_module = Some("dlrm:c=1,p=1,d=4".parse().unwrap());
    config.model.bottom = Some(vec![16, 4]);
    config
}

#[test]
fn every_option_counts() {
    let plain = short(ModelKind::Dlrm, 1, 1);
    let without = digest(&plain);
    for (name, set) in OPTIONS {
        let mut config = plain.clone();
        set(&mut config);
        assert_ne!(digest(&config).1, without.1, "{name}");
        // What a checkpoint keeps of the run says it too.
        let run = planning::check(&config).unwrap();
        let again = planning::check(&config.explicit(&run)).unwrap();
        assert_eq!(
            (again.regularisation, again.regularised()),
            (run.regularisation, run.regularised()),
            "{name}"
        );
        assert_eq!(run.regularised().len(), 1, "{name}");
    }
}

/// DMT §3.1 with all options: SPTT moves vectors another way and changes nothing.
#[test]
fn dataflows_threads_and_overlap_change_no_bit() {
    for kind in ModelKind::ALL {
        let mut config = with_all(short(kind, 2, 2));
        config.model.towers = Some(Assignment::Each);
        config.train.dataflow = Some(DataflowKind::Flat);
        let flat = digest(&config);
        config.train.dataflow = Some(DataflowKind::Sptt);
        assert_eq!(digest(&config), flat, "{kind:?} by SPTT");
        config.train.threads = Some(3);
        assert_eq!(digest(&config), flat, "{kind:?} on three threads");
        config.train.overlap = Some(false);
        assert_eq!(digest(&config), flat, "{kind:?} without overlap");
    }
}

/// World sizes and groups of towers agree but for the last bits of dense gradients, and all ranks of a world have the same
/// weights: each clips by the same norm.
#[test]
fn worlds_agree() {
    let towers =
        |hosts, ranks, per_group| with_all(in_towers(short(ModelKind::Dlrm, 1, 1), hosts, ranks, per_group));
    let alone = digest(&towers(1, 1, 1)).0;
    for (hosts, ranks, per_group) in [(2, 2, 1), (4, 2, 2), (1, 3, 1)] {
        let run = planning::check(&towers(hosts, ranks, per_group)).unwrap();
        let all = ranks_after(&run, || Device::cpu(1), || training_source(&run), 19, |_, _| ());
        for (step, expected) in alone.iter().enumerate() {
            let (first, samples) = (run.batches().at(step as u64), run.batches().batch);
            let count = (first.end - first.start).min(samples) as f64;
            let loss = all.iter().map(|(_, losses)| losses[step]).sum::<f64>() / count;
            assert!((loss - expected).abs() <= 2e-5 * expected, "step {step}: {expected} alone, {loss}");
        }
        let list = run.model.network().parameters();
        for (parameter, of) in list.iter().enumerate() {
            let weights = |rank: usize| all[rank].0.parameters.weights(parameter).unwrap();
            let same = (1..all.len()).all(|rank| weights(rank) == weights(0));
            assert!(same, "{} on {hosts} × {ranks} ranks", of.name);
        }
    }
}

/// All options, with tower modules and by two rules: stopped after 20 of 40 steps.
#[test]
fn a_resumed_run_has_the_bits_of_one_in_one_go() {
    for rule in [UpdateRule::Adagrad { eps: 1e-8 }, ADAM] {
        let mut config = with_all(in_towers(config(ModelKind::Dlrm, true, 1, 1), 2, 2, 1));
        config.optimizer.dense = Some(optimizer(rule, 0.01));
        config.optimizer.tables = Some(optimizer(rule, 0.01));
        config.checkpoint.every = Some(Every::Steps(20));
        let until = |steps| {
            let mut config = config.clone();
            config.train.steps = Some(steps);
            planning::check(&config).unwrap()
        };
        let whole = train(&until(40));
        let root = tempfile::tempdir().unwrap();
        let saving = Some(Saving { root: root.path().to_owned(), run: serde_json::Value::Null });
        let first = Session { checkpoints: saving, ..Session::default() };
        training::train(&until(20), &Logs::Synthetic, &first).unwrap();
        let checkpoint = Checkpoint::open(locate(root.path()).unwrap()).unwrap();
        let second = Session { resume: Some(&checkpoint), ..Session::default() };
        let resumed = training::train(&until(40), &Logs::Synthetic, &second).unwrap();
        assert_eq!(whole.parameters_sha256, resumed.parameters_sha256);
        assert_eq!(whole.losses[20..], resumed.losses);
        assert_eq!(whole.scores.map(|s| s.evaluation), resumed.scores.map(|s| s.evaluation));
    }
}

/// The state that training with dropout left, evaluated by a run with dropout and by one without.
#[test]
fn evaluations_drop_nothing() {
    let mut with = short(ModelKind::DeepFm, 1, 2);
    with.model.dropout = Some(0.5);
    let root = tempfile::tempdir().unwrap();
    let saving = Some(Saving { root: root.path().to_owned(), run: serde_json::Value::Null });
    let session = Session { checkpoints: saving, ..Session::default() };
    let run = planning::check(&with).unwrap();
    let trained = training::train(&run, &Logs::Synthetic, &session).unwrap();
    let checkpoint = Checkpoint::open(locate(root.path()).unwrap()).unwrap();
    with.model.dropout = None;
    let again = Session { resume: Some(&checkpoint), ..Session::default() };
    let evaluated = training::train(&planning::check(&with).unwrap(), &Logs::Synthetic, &again).unwrap();
    let evaluation = trained.scores.map(|scores| scores.evaluation);
    assert!(evaluation.is_some());
    assert_eq!(evaluation, evaluated.scores.map(|scores| scores.evaluation));
}
