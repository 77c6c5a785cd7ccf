//! The step on a GPU against the step on the CPU. These tests run where CAMPANILE_TEST_DEVICE names a GPU (`cuda` or `cuda:1`),
//! and say that they did not run elsewhere.

use crate::common::{ADAM, config, device_choice, gpu, optimizer, ranks_after, training_source};
use kernels::Device;
use spec::dataflow::{DataflowKind, PeerPermute};
use spec::optimizer::UpdateRule;
use spec::placement::Cut;
use spec::presets::ModelKind;
use spec::run::{Config, Run};
use spec::schedule::Task;
use spec::towers::Assignment;
use std::ops::ControlFlow;
use std::path::Path;
use training::checkpoint::{Checkpoint, locate};
use training::{Cluster, Error, Execution, Logs, Outcome, RankState, Saving, Session, train};

/// Whether a test runs; says so where it does not.
fn runs(test: &str) -> bool {
    if !gpu::is_there() {
        println!("SKIPPED: {test}: CAMPANILE_TEST_DEVICE names no GPU");
    }
    gpu::is_there()
}

fn on_gpu() -> Result<Device, kernels::KernelError> {
    gpu::of_a_rank().expect("there is a GPU")
}

/// The config in towers, one for each host.
fn in_towers(mut config: Config, module: Option<&str>) -> Config {
    config.model.towers = Some(Assignment::Strided(config.topology.hosts.unwrap_or(1)));
    config.model.tower_module = module.map(|module| module.parse().unwrap());
    config
}

fn with_rule(mut config: Config, update: UpdateRule) -> Config {
    config.optimizer.tables = Some(optimizer(update, 0.02));
    config
}

/// Mean losses of 50 steps on a device.
fn losses(run: &Run, device: impl Fn() -> Result<Device, kernels::KernelError> + Sync) -> Vec<f64> {
    let ranks = ranks_after(run, device, || training_source(run), 50, |_, _| ());
    let of_step = |step: usize| {
        let batch = run.batches().at(step as u64);
        ranks.iter().map(|(_, losses)| losses[step]).sum::<f64>() / (batch.end - batch.start) as f64
    };
    (0..50).map(of_step).collect()
}

#[test]
fn losses_are_those_of_the_cpu() {
    if !runs("losses_are_those_of_the_cpu") {
        return;
    }
    let adagrad = UpdateRule::Adagrad { eps: 1e-8 };
    for (what, config) in [
        ("DLRM", config(ModelKind::Dlrm, false, 1, 1)),
        ("DLRM, multi-hot, Adam", with_rule(config(ModelKind::Dlrm, true, 2, 2), ADAM)),
        ("DCN, multi-hot, Adagrad", with_rule(config(ModelKind::Dcn, true, 1, 2), adagrad)),
        ("DeepFM, multi-hot", config(ModelKind::DeepFm, true, 1, 1)),
        ("DLRM in towers", in_towers(config(ModelKind::Dlrm, true, 2, 2), Some("dlrm:d=8"))),
    ] {
        let run = planning::check(&config).unwrap();
        let (host, card) = (losses(&run, || Device::cpu(1)), losses(&run, on_gpu));
        for (step, (host, card)) in host.iter().zip(&card).enumerate() {
            assert!((host - card).abs() <= 1e-4 * host, "{what}, step {step}: {host} and {card}");
        }
        assert!(card[49] < card[0], "{what}: it learns");
    }
}

/// A run of a config on the GPU, by the device of the run.
fn trained(mut config: Config, session: &Session) -> Result<Outcome, Error> {
    config.train.device = device_choice();
    train(&planning::check(&config).unwrap(), &Logs::Synthetic, session)
}

#[test]
fn the_same_run_has_the_same_bits_and_sptt_changes_none() {
    if !runs("the_same_run_has_the_same_bits_and_sptt_changes_none") {
        return;
    }
    for (hosts, ranks_per_host) in [(2, 2), (4, 2)] {
        let mut flat = with_rule(config(ModelKind::Dlrm, true, hosts, ranks_per_host), ADAM);
        (flat.placement.cut, flat.train.dataflow) = (Some(Cut::Whole), Some(DataflowKind::Flat));
        let digest = |config: Config| {
            let outcome = trained(config, &Session::default()).unwrap_or_else(|error| panic!("{error}"));
            (outcome.parameters_sha256.unwrap(), outcome.losses)
        };
        let first = digest(flat.clone());
        assert_eq!(first, digest(flat.clone()), "the same run twice");
        let mut by_sptt = in_towers(flat, None);
        let expected = digest(by_sptt.clone());
        by_sptt.train.dataflow = Some(DataflowKind::Sptt);
        for permute in [PeerPermute::Vectors, PeerPermute::Ids, PeerPermute::None] {
            by_sptt.train.peer_permute = Some(permute);
            assert_eq!(expected, digest(by_sptt.clone()), "{permute} on {hosts} × {ranks_per_host}");
        }
    }
}

/// An id past the end of its table is found on the GPU: it is the CPU's error, and the state of its step is not saved.
/// One rank sends nothing, so that NCCL changes no bit, whoever adds. Two ranks on one card are refused before anything is made.
#[test]
fn nccl_joins_a_rank_and_refuses_two_on_one_card() {
    if !runs("nccl_joins_a_rank_and_refuses_two_on_one_card") {
        return;
    }
    if let Err(missing) = kernels::Nccl::load() {
        println!("SKIPPED: nccl_joins_a_rank_and_refuses_two_on_one_card: {missing}");
        return;
    }
    let over_nccl = Session { cluster: &Cluster::NcclThreads, ..Session::default() };
    let alone = config(ModelKind::Dlrm, true, 1, 1);
    let mut by_nccl = alone.clone();
    by_nccl.train.all_reduce = Some("nccl".parse().unwrap());
    let digest =
        |config: &Config, session: &Session| trained(config.clone(), session).unwrap().parameters_sha256;
    let expected = digest(&alone, &Session::default());
    assert_eq!(digest(&alone, &over_nccl), expected);
    assert_eq!(digest(&by_nccl, &over_nccl), expected);
    let refused = trained(by_nccl, &Session::default()).unwrap_err().to_string();
    assert!(refused.contains("use --transport nccl"), "{refused}");
    if kernels::Gpu::count().unwrap() == 1 {
        let refused = trained(config(ModelKind::Dlrm, true, 1, 2), &over_nccl).unwrap_err().to_string();
        assert!(refused.contains("ranks 0 and 1 both use GPU"), "{refused}");
    }
}

#[test]
fn an_id_out_of_range_is_told_late_and_before_anything_is_saved() {
    if !runs("an_id_out_of_range_is_told_late_and_before_anything_is_saved") {
        return;
    }
    let run = planning::check(&config(ModelKind::Dlrm, false, 1, 1)).unwrap();
    // From the third step on the first table has a row only. What comes of it, and the step in which it is told.
    let broken = |device: Device| {
        let world = collectives::launch(
            run.topology(),
            &Default::default(),
            |_| Ok(device.clone()),
            |world| {
                let schedule = run.schedule(Task::Train);
                let mut rank = RankState::new(device.clone(), &run, &schedule, 0, training_source(&run))?;
                let communicators = training::Communicators::new(&world, &run.dataflow)?;
                let mut saved = Vec::new();
                let ended = Execution::new(schedule).run(
                    &mut rank,
                    &communicators,
                    9,
                    |step| run.batches().at(step),
                    |rank, step| {
                        // What a checkpoint does first.
                        rank.check()?;
                        saved.push(step);
                        if step == 2 {
                            rank.tables[0].rows = 1;
                        }
                        Ok(ControlFlow::Continue(()))
                    },
                );
                Ok::<_, Error>((ended.expect_err("ids are out of range").to_string(), saved))
            },
        );
        world.unwrap_or_else(|error| panic!("{error}")).swap_remove(0)
    };
    let ((host, host_saved), (card, card_saved)) =
        (broken(Device::cpu(1).unwrap()), broken(on_gpu().unwrap()));
    assert!(
        host.starts_with("table 0: id ") && host.ends_with(" is not below the number of rows, 1"),
        "{host}"
    );
    assert!(
        card.starts_with("table 0: id ") && card.ends_with(" is not below the number of rows, 1"),
        "{card}"
    );
    assert_eq!((host_saved, card_saved), (vec![0, 1, 2], vec![0, 1, 2]));
}

/// Trains to step `until` with checkpoints in `root`, from the last one there.
fn sitting(mut config: Config, until: u64, root: &Path) -> Outcome {
    config.train.epochs = None;
    config.train.steps = Some(until);
    let checkpoint = locate(root).ok().map(|path| Checkpoint::open(path).unwrap());
    let session = Session {
        checkpoints: Some(Saving { root: root.to_owned(), run: serde_json::Value::Null }),
        resume: checkpoint.as_ref(),
        ..Session::default()
    };
    let run = planning::check(&config).unwrap();
    train(&run, &Logs::Synthetic, &session).unwrap_or_else(|error| panic!("{error}"))
}

/// A run goes on where it was on the other device, either way.
#[test]
fn a_run_is_resumed_on_the_other_device() {
    if !runs("a_run_is_resumed_on_the_other_device") {
        return;
    }
    let whole = with_rule(config(ModelKind::Dlrm, true, 1, 2), ADAM);
    let on_card = |on_card: bool| {
        let mut config = whole.clone();
        config.train.device = if on_card { device_choice() } else { None };
        config
    };
    let folder = tempfile::tempdir().unwrap();
    let expected = sitting(on_card(false), 30, &folder.path().join("whole")).losses;
    for (name, first) in [("cpu-first", false), ("gpu-first", true)] {
        let root = folder.path().join(name);
        let mut losses = sitting(on_card(first), 14, &root).losses;
        losses.extend(sitting(on_card(!first), 30, &root).losses);
        assert_eq!(losses.len(), expected.len());
        for (step, (got, expected)) in losses.iter().zip(&expected).enumerate() {
            assert!((got - expected).abs() <= 1e-4 * expected, "{name}, step {step}: {got} and {expected}");
        }
    }
}

/// A pace is measured by events on the GPU, and is that of a run of the same device and precision.
#[test]
fn a_pace_is_measured_on_the_gpu() {
    if !runs("a_pace_is_measured_on_the_gpu") {
        return;
    }
    for (hosts, ranks_per_host) in [(1, 1), (2, 2)] {
        let mut config = config(ModelKind::Dlrm, false, hosts, ranks_per_host);
        config.train.device = device_choice();
        config.train.precision = Some("bf16".parse().unwrap());
        let run = planning::check(&config).unwrap();
        let ranks = run.topology().ranks();
        let pace = training::pace::measure(&run, &Logs::Synthetic, 3, ranks).unwrap();
        pace.check(&run.schedule(Task::Train)).unwrap();
        for rank in 0..ranks {
            let seconds = pace.seconds("top forward", rank).unwrap();
            assert!(seconds > 0.0 && seconds < 1.0, "{hosts} × {ranks_per_host}: {seconds} s");
        }
        if ranks > 1 {
            let refused = training::pace::measure(&run, &Logs::Synthetic, 3, 1).unwrap_err().to_string();
            assert!(refused.contains("leave out --measured-ranks"), "{refused}");
        }
    }
}
