//! Formats of the wire and the hierarchical all-to-all: what they may change, and what they may not.

use crate::common::{self, config, train};
use kernels::Device;
use spec::codec::Rounding;
use spec::dataflow::{AllToAll, DataflowKind};
use spec::placement::Cut;
use spec::presets::ModelKind;
use spec::program::Algorithm;
use spec::run::{AllReduce, Config};
use spec::wire::{Format, WireConfig};
use training::Outcome;

/// Past the short batch, which is the 17th.
const STEPS: u64 = 19;
const FORMATS: [Format; 2] = [Format::F16, Format::Bf16];

fn on(kind: ModelKind, hosts: usize, ranks: usize, format: Format) -> Config {
    let mut config = config(kind, true, hosts, ranks);
    config.train.steps = Some(STEPS);
    config.wire = WireConfig::all(format.into());
    config
}

fn same_bits(one: &Outcome, other: &Outcome, what: &str) {
    assert_eq!(one.losses, other.losses, "{what}");
    assert_eq!(one.parameters_sha256, other.parameters_sha256, "{what}");
}

/// Rounding twice is rounding once: SPTT with towers that pass through has the bits of flat on the same wire.
#[test]
fn sptt_has_the_bits_of_flat_on_any_wire() {
    for format in FORMATS {
        for cut in [Cut::Whole, Cut::Columns] {
            for (hosts, ranks) in [(2, 2), (4, 2)] {
                let mut config = on(ModelKind::Dcn, hosts, ranks, format);
                config.placement.cut = Some(cut);
                config.train.dataflow = Some(DataflowKind::Flat);
                let flat = planning::check(&config).unwrap();
                config.train.dataflow = Some(DataflowKind::Sptt);
                let sptt = planning::check(&config).unwrap();
                assert_eq!(flat.placement, sptt.placement);
                same_bits(&train(&flat), &train(&sptt), &format!("{format}, {cut:?} on {hosts} × {ranks}"));
            }
        }
    }
}

/// Two levels bring what one brings, on any wire, with batches that no number of ranks divides.
#[test]
fn a_hierarchical_all_to_all_changes_no_bit() {
    for (hosts, ranks) in [(2, 2), (4, 2), (2, 3), (1, 2), (3, 1)] {
        for format in [Format::F32, Format::Bf16, Format::Fp8, Format::U4] {
            let mut config = on(ModelKind::Dlrm, hosts, ranks, format);
            config.placement.replicate_rows = Some(20);
            let flat = train(&planning::check(&config).unwrap());
            config.train.all_to_all = Some(AllToAll::Hierarchical);
            let two_levels = train(&planning::check(&config).unwrap());
            same_bits(&flat, &two_levels, &format!("{format} on {hosts} × {ranks}"));
        }
    }
}

/// Every rank ends with the decoded sums, the one that made them too, whatever the algorithm.
#[test]
fn replicas_of_dense_parameters_stay_identical() {
    let wires = ["f32", "f16", "bf16", "fp8", "u8", "u4+ec", "dense=u2+ec-paper"];
    for (format, algorithm) in wires.into_iter().flat_map(|wire| Algorithm::ORDERED.map(|by| (wire, by))) {
        let mut config = on(ModelKind::Dlrm, 2, 2, Format::F32);
        (config.wire, config.train.all_reduce) = (format.parse().unwrap(), Some(AllReduce::By(algorithm)));
        let run = planning::check(&config).unwrap();
        let source = || common::training_source(&run);
        let ranks = common::ranks_after(
            &run,
            || common::device_or(|| Ok(Device::Reference)),
            source,
            STEPS,
            |_, _| {},
        );
        let weights = |rank: usize| -> Vec<Vec<f32>> {
            ranks[rank].0.parameters.buckets.iter().map(|bucket| bucket.weights.to_vec().unwrap()).collect()
        };
        (1..4).for_each(|rank| assert_eq!(weights(0), weights(rank), "{format} by {algorithm}, rank {rank}"));
    }
}

/// A run learns what it learns in single precision: the loss of every step is within 1 % of it.
#[test]
fn losses_stay_close() {
    let losses = |format| train(&planning::check(&on(ModelKind::Dlrm, 2, 2, format)).unwrap()).losses;
    let exact = losses(Format::F32);
    for format in FORMATS {
        let rounded = losses(format);
        assert_ne!(exact, rounded, "{format} rounds");
        for (step, (exact, rounded)) in exact.iter().zip(&rounded).enumerate() {
            assert!(
                (exact - rounded).abs() < 0.01 * exact,
                "step {step}: {rounded} as {format}, {exact} as f32"
            );
        }
    }
}

/// Each algorithm gives the same bits in every run; in single precision they differ by the order of sums alone, and two levels
/// or a ring on two ranks of one host not even by that.
#[test]
fn algorithms_agree() {
    let trained = |algorithm: Algorithm, (hosts, ranks), wire: &str| {
        let mut config = on(ModelKind::Dcn, hosts, ranks, Format::F32);
        (config.wire, config.train.all_reduce) = (wire.parse().unwrap(), Some(AllReduce::By(algorithm)));
        train(&planning::check(&config).unwrap())
    };
    let direct = trained(Algorithm::Direct, (3, 2), "f32");
    for algorithm in Algorithm::ORDERED {
        for wire in ["f32", "u4+ec"] {
            let one = trained(algorithm, (3, 2), wire);
            same_bits(&one, &trained(algorithm, (3, 2), wire), &format!("{algorithm}, {wire}, twice"));
            let within = if wire == "f32" { 1e-5 } else { 0.02 };
            for (step, (one, other)) in one.losses.iter().zip(&direct.losses).enumerate() {
                assert!(
                    (one - other).abs() < within * other,
                    "{algorithm}, {wire}, step {step}: {one}, {other}"
                );
            }
        }
        let pair = trained(algorithm, (1, 2), "f32");
        same_bits(&trained(Algorithm::Direct, (1, 2), "f32"), &pair, &format!("{algorithm} on two ranks"));
    }
}

/// Random rounding depends on the seed alone, and differs from rounding to nearest.
#[test]
fn stochastic_rounding_is_reproducible() {
    let trained = |rounding: Rounding| {
        let mut config = on(ModelKind::Dlrm, 2, 2, Format::U4);
        config.wire.rounding = Some(rounding);
        train(&planning::check(&config).unwrap())
    };
    let one = trained(Rounding::Stochastic);
    same_bits(&one, &trained(Rounding::Stochastic), "twice");
    assert_ne!(one.parameters_sha256, trained(Rounding::Nearest).parameters_sha256);
}
