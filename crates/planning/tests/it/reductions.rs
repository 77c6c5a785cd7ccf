//! Prices of reductions: those of the algorithm and the codec that a schedule names.

use planning::cost::{CostModel, Hierarchical, MadMax, Roofline};
use planning::step::{Reduction, StepGraph, Transfer};
use planning::system::System;
use planning::trained::Trained;
use proptest::prelude::*;
use proptest::sample::select;
use spec::codec::{Codec, Compensation};
use spec::program::{Algorithm, Program};
use spec::run::AllReduce;
use spec::schedule::{CollectiveKind, Task};
use spec::volume::ReducedVector;
use std::cell::Cell;

/// All-reduce of one tensor among all devices of a system.
fn reduction(algorithm: Algorithm, codec: Codec, elements: usize, system: &System) -> Reduction {
    let units = ReducedVector::whole(elements).units(codec);
    let devices = system.devices();
    let hosts: Vec<usize> = (0..devices).map(|device| device / system.devices_per_node).collect();
    let bytes = units.bytes(0..units.count()) as f64;
    let vector = Transfer::of_vector(CollectiveKind::AllReduce, devices, system.nodes, bytes);
    let program = |me| Program::all_reduce(algorithm, &units, &hosts, me, Compensation::None);
    Reduction::new(vector, &units, &hosts, program)
}

fn seconds(algorithm: Algorithm, codec: Codec, elements: usize, system: &System) -> f64 {
    Hierarchical::default().reduction(&reduction(algorithm, codec, elements, system), system)
}

fn system(nodes: usize, devices_per_node: usize) -> System {
    System { nodes, devices_per_node, ..System::named("a100:8").unwrap() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every algorithm and codec has a price that is finite and grows with the vector.
    #[test]
    fn longer_vectors_take_longer(
        algorithm in select(Algorithm::ORDERED.to_vec()),
        codec in select(Codec::ALL.to_vec()),
        nodes in 1usize..7,
        per_node in 1usize..5,
        elements in 1usize..5000,
    ) {
        let system = system(nodes, per_node);
        let price = |elements| seconds(algorithm, codec, elements, &system);
        let prices = [price(elements), price(2 * elements), price(1000 * elements)];
        prop_assert!(prices.iter().all(|price| price.is_finite() && *price >= 0.0), "{prices:?}");
        match system.devices() {
            1 => prop_assert_eq!(prices, [0.0; 3]),
            _ => prop_assert!(0.0 < prices[0] && prices[0] <= prices[1] && prices[1] < prices[2], "{prices:?}"),
        }
    }
}

/// Between hosts, two levels send fewer bytes than the direct algorithm, and take less time where bytes count.
#[test]
fn two_levels_are_cheaper_than_direct_for_large_vectors() {
    for codec in Codec::ALL {
        for (nodes, per_node) in [(2, 2), (3, 4), (8, 8), (16, 8)] {
            let system = system(nodes, per_node);
            let price = |algorithm| seconds(algorithm, codec, 1 << 24, &system);
            let (two, direct) = (price(Algorithm::TwoLevel), price(Algorithm::Direct));
            assert!(two < direct, "{codec}, {nodes} × {per_node}: {two} {direct}");
            let alone = self::system(1, per_node);
            let price = |algorithm| seconds(algorithm, codec, 1 << 24, &alone);
            assert_eq!(price(Algorithm::TwoLevel), price(Algorithm::Direct), "one host has one level");
        }
    }
}

/// Neo's appendix B: an all-reduce of 256 MB among 128 V100 takes 8.5 ms, 60 GB/s of bus bandwidth. The program `two-level`
/// comes within 5 % of it; algorithms that send whole vectors between hosts are far from it.
#[test]
fn two_level_is_near_what_neo_measured() {
    let (system, elements) = (System::named("v100:128").unwrap(), 64_000_000);
    let ms = |algorithm| 1e3 * seconds(algorithm, Codec::F32, elements, &system);
    let two_level = ms(Algorithm::TwoLevel);
    assert!((8.5..=8.93).contains(&two_level), "{two_level} ms");
    let vector = Transfer::of_vector(CollectiveKind::AllReduce, 128, 16, 4.0 * elements as f64);
    let ring = 1e3 * Hierarchical::default().transfer(&vector, &system);
    assert!((8.4..=8.7).contains(&ring), "{ring} ms");
    for algorithm in [Algorithm::Direct, Algorithm::Ring] {
        assert!(ms(algorithm) > 5.0 * two_level, "{algorithm}: {} ms", ms(algorithm));
    }
}

/// The published rules of MAD-Max and Neo have no algorithm: they price the vector.
#[test]
fn published_rules_know_no_algorithm() {
    let system = System::named("a100:32").unwrap();
    for codec in [Codec::F32, Codec::U4] {
        let of = |algorithm| reduction(algorithm, codec, 100_000, &system);
        let direct = of(Algorithm::Direct);
        for algorithm in Algorithm::ORDERED {
            for model in [&MadMax as &dyn CostModel, &Roofline] {
                let vector = model.transfer(&direct.vector, &system);
                assert_eq!(model.reduction(&of(algorithm), &system), vector);
            }
        }
    }
}

/// A step takes the algorithm of its schedule: ours is no two-level ring, whatever the schedule says.
#[test]
fn steps_have_the_algorithm_of_their_schedule() {
    let system = System::named("h100:64").unwrap();
    let all_reduce_s = |all_reduce: AllReduce| {
        let model = Trained::named("8t-dlrm").unwrap().with_all_reduce(all_reduce);
        let run = model.run(&system, 1024, &Default::default()).unwrap();
        let step = StepGraph::of_schedule(&run.schedule(Task::Train), run.batch);
        planning::simulator::Simulation::new(&Hierarchical::default(), &step, &system).breakdown.all_reduce
    };
    let mut times = Algorithm::ORDERED.map(|algorithm| all_reduce_s(AllReduce::By(algorithm)));
    assert!(times[3] < times[0] && times[0] < times[1], "two-level, direct, ring: {times:?}");
    times.sort_by(f64::total_cmp);
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
}

/// Of a thousand ranks, whose rings have two thousand exchanges, the programs of a few are looked at.
#[test]
fn many_ranks_are_no_more_work_than_few() {
    let (units, hosts) = (ReducedVector::whole(1 << 20).units(Codec::U4), (0..1024).map(|rank| rank / 8));
    let hosts: Vec<usize> = hosts.collect();
    let vector = Transfer::of_vector(CollectiveKind::AllReduce, 1024, 128, 1.0);
    for algorithm in Algorithm::ORDERED {
        let looked_at = Cell::new(0);
        let program = |me| {
            looked_at.set(looked_at.get() + 1);
            Program::all_reduce(algorithm, &units, &hosts, me, Compensation::None)
        };
        let reduction = Reduction::new(vector, &units, &hosts, program);
        assert!((2..=64).contains(&looked_at.get()), "{algorithm}: {}", looked_at.get());
        assert!(reduction.stages.iter().all(|stage| stage.sent.messages > 0), "{algorithm}");
    }
}
