//! DMT §3.2, §4: a model with tower modules is defined by its towers alone. Where they run changes its curve by rounding
//! only, and the parameters of a tower live on the ranks of its group and nowhere else.

use crate::common::{ADAM, config, device, feature, optimizer, ranks_after, synthetic_log, tolerance, train};
use data::{Split, SyntheticLog};
use spec::dataflow::PeerPermute;
use spec::feature::Hotness;
use spec::model::{BlockName, Parameter, TowerModule};
use spec::optimizer::UpdateRule;
use spec::placement::Cut;
use spec::presets::ModelKind;
use spec::run::{Config, Run};
use spec::towers::{Assignment, Module};
use training::Source;

/// Hosts, ranks per host, hosts per group, and how tables are cut inside a group.
type Place = (usize, usize, usize, Cut);
const PLACES: [Place; 8] = [
    (2, 2, 1, Cut::Whole),
    (4, 1, 1, Cut::Whole),
    (4, 2, 1, Cut::Whole),
    (8, 1, 1, Cut::Whole),
    (4, 2, 2, Cut::Whole),
    (2, 2, 1, Cut::Rows),
    (4, 2, 1, Cut::Columns),
    (4, 2, 2, Cut::Hotness),
];

const PERMUTES: [PeerPermute; 3] = [PeerPermute::Vectors, PeerPermute::Ids, PeerPermute::None];

/// Four towers of three, one, two and one features.
const FEATURES: [&[&str]; 4] = [&["C4", "C0", "C6"], &["C1"], &["C5", "C2"], &["C3"]];
/// Four towers with halves of C0 and C1, one of them alone.
const HALVES: [&[&str]; 4] = [&["C0[4..8]", "C1[0..4]"], &["C1[4..8]"], &["C5", "C6", "C2"], &["C0[0..4]"]];
/// Halves beside whole tables.
const MIXED: [&[&str]; 4] =
    [&["C0[4..8]", "C3", "C1[0..4]"], &["C1[4..8]"], &["C5", "C6", "C2"], &["C4", "C0[0..4]"]];

fn with_towers(kind: ModelKind, module: &str, towers: &[&[&str]], place: Place) -> Config {
    let (hosts, ranks_per_host, hosts_per_group, cut) = place;
    let mut config = config(kind, true, hosts, ranks_per_host);
    config.topology.hosts_per_tower = Some(hosts_per_group);
    config.placement.cut = Some(cut);
    let features = config.model.features.as_mut().unwrap();
    features.push(feature("C6", 40));
    features[6].hotness = Hotness::Many { mean: 2 };
    let lists: Vec<Vec<String>> =
        towers.iter().map(|tower| tower.iter().map(|name| name.to_string()).collect()).collect();
    features.retain(|f| lists.iter().flatten().any(|name| name.starts_with(&f.name)));
    config.model.towers = Some(Assignment::Lists(lists));
    let module: Module = module.parse().unwrap();
    config.model.tower_module = Some(module);
    if let (ModelKind::Dlrm, Module::Dlrm { d, .. } | Module::Dcn { d, .. }) = (kind, module) {
        // The dense vector meets the towers' vectors.
        config.model.bottom = Some(vec![16, d]);
    }
    config
}

/// Mean losses of the steps of a run.
fn curve(run: &Run, log: &SyntheticLog) -> Vec<f64> {
    let source = || Source::Synthetic(log.clone());
    let ranks = ranks_after(run, device, source, run.steps, |_, _| ());
    let mean = |step: u64| {
        let batch = run.batches().at(step);
        let sum: f64 = ranks.iter().map(|(_, losses)| losses[step as usize]).sum();
        sum / (batch.end - batch.start) as f64
    };
    (0..run.steps).map(mean).collect()
}

/// The curve on one rank is the curve everywhere, by either rule. Gives the run on one rank.
fn runs_anywhere(kind: ModelKind, module: &str, towers: &[&[&str]]) -> Run {
    let alone = with_towers(kind, module, towers, (1, 1, 1, Cut::Whole));
    let log = synthetic_log(&planning::check(&alone).unwrap(), Split::Train);
    for (rule, rate, steps) in [(UpdateRule::Sgd, 0.05, 50), (ADAM, 0.002, 20)] {
        let curve = |mut config: Config| {
            config.train.steps = Some(steps);
            config.optimizer.dense = Some(optimizer(rule, rate));
            config.optimizer.tables = Some(optimizer(rule, rate));
            curve(&planning::check(&config).unwrap(), &log)
        };
        let expected = curve(alone.clone());
        assert_eq!(expected.len() as u64, steps);
        for (i, place) in PLACES.into_iter().enumerate() {
            let mut config = with_towers(kind, module, towers, place);
            config.train.peer_permute = Some(PERMUTES[i % 3]);
            for (step, (a, b)) in expected.iter().zip(curve(config)).enumerate() {
                assert!(
                    (a - b).abs() <= tolerance(1e-5) * a.abs(),
                    "{kind:?} with {module} on {place:?}, step {step}: {a} alone, {b}"
                );
            }
        }
    }
    planning::check(&alone).unwrap()
}

/// Which towers have no layers.
fn passing(run: &Run) -> Vec<bool> {
    run.model.towers().iter().map(|tower| tower.passes_through()).collect()
}

/// Which towers end in their cross layer.
fn unmapped(run: &Run) -> Vec<bool> {
    let unmapped = |module: &TowerModule| matches!(module, TowerModule::Cross { map: None, .. });
    run.model.towers().iter().map(|tower| unmapped(&tower.module)).collect()
}

#[test]
fn dlrm_with_a_projection_of_each_feature() {
    runs_anywhere(ModelKind::Dlrm, "dlrm:c=1,p=0,d=4", &FEATURES);
}

#[test]
fn dlrm_with_both_projections() {
    runs_anywhere(ModelKind::Dlrm, "dlrm:c=1,p=1,d=4", &FEATURES);
}

#[test]
fn dlrm_with_projections_of_the_tower() {
    let run = runs_anywhere(ModelKind::Dlrm, "dlrm:c=0,p=2,d=4", &FEATURES);
    assert_eq!(passing(&run), [false; 4]);
}

/// One feature to one vector of the same length: such towers pass through, between others that do not.
#[test]
fn dlrm_with_single_features_that_pass_through() {
    let run = runs_anywhere(ModelKind::Dlrm, "dlrm:c=0,p=1,d=8", &FEATURES);
    assert_eq!(passing(&run), [false, true, false, true]);
}

#[test]
fn dlrm_over_crossed_towers() {
    runs_anywhere(ModelKind::Dlrm, "dcn:d=4,rank=3", &FEATURES);
}

#[test]
fn dlrm_over_crossed_features() {
    runs_anywhere(ModelKind::Dlrm, "dcn:d=4,rank=3,out=features", &FEATURES);
}

#[test]
fn dlrm_over_slices() {
    runs_anywhere(ModelKind::Dlrm, "dlrm:c=1,p=1,d=4", &HALVES);
}

/// A slice that passes through, between towers of mixed widths.
#[test]
fn dlrm_over_a_slice_that_passes_through() {
    let run = runs_anywhere(ModelKind::Dlrm, "dlrm:c=0,p=1,d=4", &MIXED);
    assert_eq!(passing(&run), [false, true, false, false]);
}

#[test]
fn dcn_with_one_vector_a_tower() {
    let run = runs_anywhere(ModelKind::Dcn, "dcn:d=6", &FEATURES);
    assert_eq!(unmapped(&run), [false; 4]);
}

/// A single feature that is already as long as the output keeps its cross layer and skips the map.
#[test]
fn dcn_with_single_features_that_are_only_crossed() {
    let run = runs_anywhere(ModelKind::Dcn, "dcn:d=8,rank=3", &FEATURES);
    assert_eq!(unmapped(&run), [false, true, false, true]);
}

#[test]
fn dcn_with_a_vector_for_each_feature() {
    runs_anywhere(ModelKind::Dcn, "dcn:d=6,out=features", &FEATURES);
}

#[test]
fn dcn_over_slices() {
    let run = runs_anywhere(ModelKind::Dcn, "dcn:d=4,rank=5", &MIXED);
    assert_eq!(unmapped(&run), [false, true, false, false]);
}

#[test]
fn dcn_with_a_projection_of_each_feature() {
    runs_anywhere(ModelKind::Dcn, "dlrm:c=1,p=0,d=4", &FEATURES);
}

#[test]
fn dcn_with_both_projections() {
    runs_anywhere(ModelKind::Dcn, "dlrm:c=1,p=1,d=4", &FEATURES);
}

#[test]
fn dcn_with_projections_of_the_tower() {
    runs_anywhere(ModelKind::Dcn, "dlrm:c=0,p=2,d=4", &FEATURES);
}

/// A whole session: the ranks of a group agree on their towers in the end, and evaluations find the same.
/// With fewer samples than ranks, some towers see none of their peers' samples, and their gradients are still the sum.
#[test]
fn towers_without_samples_take_part() {
    for (kind, module) in [(ModelKind::Dlrm, "dlrm:c=1,p=1,d=4"), (ModelKind::Dcn, "dcn:d=8")] {
        for batch in [1, 3] {
            let with_batch = |place: Place| {
                let mut config = with_towers(kind, module, &FEATURES, place);
                (config.train.batch, config.train.steps) = (Some(batch), Some(12));
                planning::check(&config).unwrap()
            };
            let alone = with_batch((1, 1, 1, Cut::Whole));
            let log = synthetic_log(&alone, Split::Train);
            let expected = curve(&alone, &log);
            for place in [(4, 2, 1, Cut::Whole), (4, 2, 2, Cut::Rows)] {
                for (step, (a, b)) in expected.iter().zip(curve(&with_batch(place), &log)).enumerate() {
                    assert!(
                        (a - b).abs() <= tolerance(1e-5) * a.abs(),
                        "{kind:?} on {place:?}, step {step}: {a} alone, {b}"
                    );
                }
            }
        }
    }
}

#[test]
fn evaluations_agree() {
    for (kind, module) in [(ModelKind::Dlrm, "dlrm:c=1,p=1,d=4"), (ModelKind::Dcn, "dcn:d=8")] {
        let evaluation = |place| {
            let mut config = with_towers(kind, module, &FEATURES, place);
            config.train.steps = Some(5);
            train(&planning::check(&config).unwrap()).scores.unwrap().evaluation
        };
        let alone = evaluation((1, 1, 1, Cut::Whole));
        for place in PLACES {
            let other = evaluation(place);
            assert_eq!(alone.samples, other.samples);
            assert!(
                (alone.logloss - other.logloss).abs() <= tolerance(1e-5) * alone.logloss,
                "{kind:?} on {place:?}: {alone:?} alone, {other:?}"
            );
        }
    }
}

/// §3.2: the gradients of a tower are reduced inside its group, so its parameters are there, all alike, and nowhere else.
#[test]
fn parameters_of_a_tower_are_on_its_group() {
    for (kind, module) in [(ModelKind::Dlrm, "dlrm:c=1,p=1,d=4"), (ModelKind::Dcn, "dcn:d=8")] {
        for place in PLACES {
            let run = planning::check(&with_towers(kind, module, &FEATURES, place)).unwrap();
            let log = synthetic_log(&run, Split::Train);
            let source = || Source::Synthetic(log.clone());
            let sptt = run.dataflow.sptt().unwrap();
            let groups = sptt.groups();
            let before = ranks_after(&run, device, source, 0, |_, _| ());
            let after = ranks_after(&run, device, source, 5, |_, _| ());
            for (index, parameter) in after[0].0.parameters.list().iter().enumerate() {
                let Parameter { name, owner: (block, layer), .. } = parameter;
                let is_home = |rank: usize| {
                    *block != BlockName::TOWERS || sptt.group_of_tower(*layer) == Some(groups.group_of(rank))
                };
                let homes: Vec<usize> = (0..after.len()).filter(|&rank| is_home(rank)).collect();
                let expected = if *block == BlockName::TOWERS { groups.size() } else { after.len() };
                assert_eq!(homes.len(), expected, "{name} on {place:?}");
                for (rank, (state, _)) in after.iter().enumerate() {
                    let here = state.parameters.place(index).is_some();
                    assert_eq!(here, is_home(rank), "{name} on rank {rank} of {place:?}");
                }
                let weights = |rank: usize| after[rank].0.parameters.weights(index).unwrap();
                assert_ne!(
                    weights(homes[0]),
                    before[homes[0]].0.parameters.weights(index).unwrap(),
                    "{name} has learnt"
                );
                for &rank in &homes[1..] {
                    assert_eq!(weights(rank), weights(homes[0]), "{name} on rank {rank} of {place:?}");
                }
            }
        }
    }
}

/// With more groups than towers, some have none and still pass on what belongs to others.
#[test]
fn groups_without_towers() {
    let run =
        planning::check(&with_towers(ModelKind::Dcn, "dcn:d=8", &FEATURES, (8, 1, 1, Cut::Whole))).unwrap();
    let sptt = run.dataflow.sptt().unwrap();
    let idle = (0..8).filter(|&group| sptt.plan(group).outputs.is_empty()).count();
    assert_eq!(idle, 4);
}
