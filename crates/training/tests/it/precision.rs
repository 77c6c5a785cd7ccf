//! Precision of a run, part by part: the same bits on every run and for any number of threads, and losses close to those of f32.

use crate::common::{config, gpu, mixed, train, train_session};
use spec::dataflow::DataflowKind;
use spec::model::BlockName;
use spec::placement::Cut;
use spec::presets::ModelKind;
use spec::run::{Config, Every, Run};
use spec::towers::Assignment;
use training::checkpoint::{Checkpoint, locate};
use training::{Logs, Outcome, Saving, Session};

/// Precisions that the device of tests has besides f32, with the largest relative difference of a loss from that of f32.
fn others() -> [(&'static str, f64); 2] {
    match gpu::is_there() {
        true => [("tf32", 5e-3), ("bf16", 2e-2)],
        false => [("f32x3", 1e-4), ("bf16", 2e-2)],
    }
}

/// Whether the processor has matrix units.
fn has_matrix_units() -> bool {
    kernels::Cpu::new(1).is_ok_and(|cpu| cpu.matrix_instructions() == "amx-bf16")
}

fn run_in(config: &Config, precision: &str) -> Run {
    let mut config = config.clone();
    config.train.precision = Some(precision.parse().unwrap());
    planning::check(&config).unwrap()
}

/// A small run of 20 steps.
fn short(kind: ModelKind, hosts: usize, ranks: usize) -> Config {
    let mut config = config(kind, true, hosts, ranks);
    config.train.steps = Some(20);
    config
}

/// A small run with modules over its towers.
fn with_modules(kind: ModelKind, module: &str, d: usize) -> Config {
    let mut config = short(kind, 2, 1);
    config.model.towers = Some(Assignment::Strided(2));
    config.model.tower_module = Some(module.parse().unwrap());
    config.model.bottom = Some(vec![16, d]);
    config
}

fn close(one: &Outcome, other: &Outcome, within: f64, what: &str) {
    assert_eq!(one.losses.len(), other.losses.len());
    for (step, (a, b)) in one.losses.iter().zip(&other.losses).enumerate() {
        assert!((a - b).abs() <= within * a.abs(), "{what}, step {step}: {a} and {b}");
    }
}

fn same(one: &Outcome, other: &Outcome, what: &str) {
    assert_eq!(one.losses, other.losses, "{what}");
    assert_eq!(one.parameters_sha256, other.parameters_sha256, "{what}");
    let evaluation = |outcome: &Outcome| outcome.scores.as_ref().map(|scores| scores.evaluation);
    assert_eq!(evaluation(one), evaluation(other), "{what}");
}

/// A run in another precision has the same bits twice and for any number of threads, differs from f32, and has losses close to
/// those of f32.
#[test]
fn every_precision_has_bits_of_its_own() {
    for kind in ModelKind::ALL {
        let config = mixed(short(kind, 1, 1));
        let plain = train(&planning::check(&config).unwrap());
        same(&plain, &train(&run_in(&config, "f32")), "f32 is what runs have that say nothing");
        let mut digests = vec![plain.parameters_sha256.clone()];
        for (precision, within) in others() {
            let what = format!("{kind:?} in {precision}");
            let run = run_in(&config, precision);
            let outcome = train(&run);
            same(&outcome, &train(&run), &what);
            same(&outcome, &train(&Run { threads: Some(2), ..run }), &format!("{what}, two threads"));
            close(&plain, &outcome, within, &what);
            // Without matrix units f32x3 is computed as f32.
            if precision != "f32x3" || has_matrix_units() {
                digests.push(outcome.parameters_sha256);
            }
        }
        let distinct = digests.iter().collect::<std::collections::HashSet<_>>().len();
        assert_eq!(distinct, digests.len(), "{kind:?}: two precisions have the same bits");
    }
}

/// A precision for each part of a model is one for all of them; each part by itself makes a difference.
#[test]
fn parts_make_up_the_whole() {
    let models = [
        ("bottom project interaction top", mixed(short(ModelKind::Dlrm, 1, 1))),
        ("bottom interaction top", short(ModelKind::Dcn, 1, 1)),
        ("linear deep project", mixed(short(ModelKind::DeepFm, 1, 1))),
        ("bottom interaction top towers", with_modules(ModelKind::Dlrm, "dlrm:c=1,p=1,d=4", 4)),
        ("bottom interaction top towers", with_modules(ModelKind::Dcn, "dcn:d=8", 8)),
    ];
    for (names, config) in models {
        let plain = planning::check(&config).unwrap();
        let parts: Vec<&str> = plain.model.parts_with_products().into_iter().map(BlockName::as_str).collect();
        assert_eq!(parts.join(" "), names);
        let plain = train(&plain);
        let (precision, within) = others()[1];
        let all: Vec<String> = parts.iter().map(|part| format!("{part}={precision}")).collect();
        let one_by_one = train(&run_in(&config, &all.join(",")));
        same(&one_by_one, &train(&run_in(&config, precision)), names);
        for part in all {
            let outcome = train(&run_in(&config, &part));
            close(&plain, &outcome, within, &part);
            // A product with one column reads its operands as they are, and so do dot products on a GPU.
            let dots = config.model.kind == Some(ModelKind::Dlrm) && part.starts_with("interaction");
            if part.starts_with("linear") || (dots && gpu::is_there()) {
                continue;
            }
            assert_ne!(outcome.parameters_sha256, plain.parameters_sha256, "{part}");
            assert_ne!(outcome.parameters_sha256, one_by_one.parameters_sha256, "{part}");
        }
    }
}

/// SPTT changes no bit in any precision.
#[test]
fn both_dataflows_have_the_same_bits() {
    for (precision, _) in others() {
        let mut config = short(ModelKind::Dlrm, 2, 2);
        config.model.towers = Some(Assignment::Each);
        config.placement.cut = Some(Cut::Whole);
        let [flat, sptt] = [DataflowKind::Flat, DataflowKind::Sptt].map(|dataflow| {
            config.train.dataflow = Some(dataflow);
            train(&run_in(&config, &format!("{precision},top=f32")))
        });
        same(&flat, &sptt, precision);
    }
}

/// On other numbers of ranks a run is the same but for the last bits of its sums, and what rounding makes of them.
#[test]
fn worlds_agree() {
    for (precision, within) in others() {
        let curve = |hosts, ranks| train(&run_in(&short(ModelKind::Dcn, hosts, ranks), precision));
        let alone = curve(1, 1);
        for (hosts, ranks) in [(1, 4), (2, 2)] {
            close(&alone, &curve(hosts, ranks), within, &format!("{precision} on {hosts} × {ranks} ranks"));
        }
    }
}

/// Trains `run` in `root`, from the last checkpoint there.
fn sitting(run: &Run, root: &std::path::Path) -> Outcome {
    let checkpoint = locate(root).ok().map(|path| Checkpoint::open(path).unwrap());
    let session = Session {
        checkpoints: Some(Saving { root: root.to_owned(), run: serde_json::Value::Null }),
        resume: checkpoint.as_ref(),
        ..Session::default()
    };
    train_session(run, &Logs::Synthetic, &session).unwrap_or_else(|e| panic!("{e}"))
}

/// A run goes on in another precision from the bits that it had, and has the bits of that precision from there on.
#[test]
fn a_run_goes_on_in_another_precision() {
    let mut config = short(ModelKind::Dlrm, 1, 2);
    config.checkpoint.every = Some(Every::Steps(10));
    let (precision, within) = others()[1];
    let switched = |second: &str| {
        let root = tempfile::tempdir().unwrap();
        let first = sitting(&Run { steps: 10, ..run_in(&config, precision) }, root.path());
        assert_eq!((first.steps, first.losses.len()), (10, 10));
        sitting(&run_in(&config, second), root.path())
    };
    let whole = train(&run_in(&config, precision));
    let back = switched("f32");
    assert_eq!((back.steps, back.losses.len()), (20, 10));
    let kept = switched(precision);
    assert_eq!(kept.parameters_sha256, whole.parameters_sha256);
    close(&kept, &back, within, "f32 after 10 steps");
    assert_ne!(back.parameters_sha256, kept.parameters_sha256);
    same(&back, &switched("f32"), "f32 after 10 steps, again");
}
