//! PyTorch on the same models, from the same bits: the programs in `golden` made the curves.

use crate::common::{ADAM, device, feature, optimizer, ranks_after};
use data::Batch;
use serde_json::Value;
use spec::Pooling;
use spec::feature::{Feature, Hotness};
use spec::model::ModelLabel;
use spec::optimizer::UpdateRule;
use spec::presets::ModelKind;
use spec::random::RandomSequence;
use spec::run::{Config, Run};
use spec::synthetic::Synthetic;
use spec::towers::Assignment;
use training::{RankState, Source};

const BATCH: usize = 64;
const STEPS: u64 = 20;
const ROWS: [usize; 4] = [50, 20, 100, 7];

fn golden_features() -> Vec<Feature> {
    let mut features: Vec<Feature> =
        ROWS.iter().enumerate().map(|(i, &rows)| feature(&format!("C{}", i + 1), rows)).collect();
    features[2].hotness = Hotness::Many { mean: 2 };
    features[2].pooling = Pooling::Mean;
    features[3].hotness = Hotness::Many { mean: 2 };
    features[3].weighted = true;
    features
}

fn run(model: &str, rule: &str, options: &Value, seed: u64, [hosts, ranks_per_host]: [usize; 2]) -> Run {
    let mut config = Config::default();
    let (trains, model) = model.strip_prefix("trains-").map_or((false, model), |model| (true, model));
    let (mixed, model) = model.strip_prefix("mixed-").map_or((false, model), |model| (true, model));
    config.model.kind = Some(match model {
        "dlrm" | "dmt-dlrm" => ModelKind::Dlrm,
        "deepfm" => ModelKind::DeepFm,
        _ => ModelKind::Dcn,
    });
    let dims = |features: &mut Vec<Feature>| {
        // C2 has the model's.
        let dims = [Some(4), None, Some(12), Some(4)];
        features.iter_mut().zip(dims).for_each(|(feature, dim)| feature.dim = dim.filter(|_| mixed));
    };
    config.model.features = Some(golden_features());
    config.model.features.as_mut().into_iter().for_each(dims);
    for feature in config.model.features.iter_mut().flatten().filter(|feature| trains && feature.name != "C2")
    {
        feature.tt_rank = Some(3);
    }
    config.model.dense_features = Some(5);
    config.model.dim = Some(8);
    if model == "deepfm" {
        config.model.deep = Some(vec![16, 1]);
    } else {
        config.model.bottom = Some(vec![16, 8]);
        config.model.top = Some(vec![16, 1]);
    }
    config.model.cross_layers = Some(2);
    config.model.cross_rank = Some(if model == "dcn-full" { 0 } else { 4 });
    if model.starts_with("dmt") {
        let towers = [vec!["C3", "C1", "C4"], vec!["C2"]];
        let names = towers.map(|tower| tower.into_iter().map(String::from).collect());
        config.model.towers = Some(Assignment::Lists(names.into()));
        let module = if model == "dmt-dlrm" { "dlrm:c=1,p=1,d=4" } else { "dcn:d=6" };
        config.model.tower_module = Some(module.parse().unwrap());
        if model == "dmt-dlrm" {
            config.model.bottom = Some(vec![16, 4]);
        }
    }
    config.topology.hosts = Some(hosts);
    config.topology.ranks_per_host = Some(ranks_per_host);
    config.train.batch = Some(BATCH);
    config.train.seed = Some(seed);
    let adagrad = UpdateRule::Adagrad { eps: 1e-8 };
    let adamw = UpdateRule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.01 };
    let lamb = |weight_decay| UpdateRule::Lamb { beta1: 0.9, beta2: 0.999, eps: 1e-6, weight_decay };
    let (dense, tables, rate) = match rule {
        "sgd" => (UpdateRule::Sgd, UpdateRule::Sgd, 0.1),
        "adagrad" => (adagrad, adagrad, 0.05),
        "row-wise-adagrad" => (adagrad, UpdateRule::RowWiseAdagrad { eps: 1e-8 }, 0.05),
        "adam" => (ADAM, ADAM, 0.01),
        "adamw" => (adamw, ADAM, 0.01),
        "lamb" => (lamb(0.01), lamb(0.0), 0.02),
        other => panic!("the golden file names an unknown optimizer {other}"),
    };
    config.optimizer.dense = Some(optimizer(dense, rate));
    config.optimizer.tables = Some(optimizer(tables, rate));
    let samples = BATCH as u64 * STEPS;
    config.data.synthetic = Some(Synthetic { samples, eval_samples: 0, groups: 2, ..Default::default() });
    for (name, value) in options.as_object().into_iter().flatten() {
        let value = Some(value.as_f64().unwrap() as f32);
        match name.as_str() {
            "weight_decay" => config.optimizer.weight_decay = value,
            "table_weight_decay" => config.optimizer.table_weight_decay = value,
            "label_smoothing" => config.train.label_smoothing = value,
            "positive_weight" => config.train.positive_weight = value,
            "labels" | "sample_weights" => {}
            "dropout" => config.model.dropout = value,
            "clip_value" => config.train.clip_value = value,
            "clip_norm" => config.train.clip_norm = value,
            other => panic!("the golden file names an unknown option {other}"),
        }
    }
    let mut run = planning::check(&config).unwrap();
    run.sample_weights = options["sample_weights"].is_number();
    if let Some(weight) = options["labels"].as_f64() {
        let label = |name: &str, weight| ModelLabel { name: name.into(), weight };
        run.model = run.model.with_labels(vec![label("first", 1.0), label("second", weight as f32)]).unwrap();
    }
    run
}

/// Sample `i` as `make.py` draws it.
fn batches(seed: u64, options: &Value) -> Vec<Batch> {
    let stream = |name: &str| RandomSequence::new(seed, &format!("golden.{name}"));
    let (dense, label) = (stream("dense"), stream("label"));
    let (second, sample_weight) = (stream("label.2"), stream("sample_weight"));
    (0..STEPS)
        .map(|step| {
            let samples: Vec<u64> = (step * BATCH as u64..(step + 1) * BATCH as u64).collect();
            let mut batch = Batch { samples: BATCH, ..Default::default() };
            for &i in &samples {
                batch.labels.push(if label.unit(i) < 0.3 { 1.0 } else { 0.0 });
                if options["labels"].is_number() {
                    batch.labels.push(if second.unit(i) < 0.15 { 1.0 } else { 0.0 });
                }
                if options["sample_weights"].is_number() {
                    let weight = 2.0 * sample_weight.unit(i);
                    batch.sample_weights.push(if weight < 0.2 { 0.0 } else { weight });
                }
                batch.dense.extend((0..5).map(|j| dense.unit(i * 5 + j)));
            }
            batch.feature_starts.clear();
            batch.feature_starts.push(0);
            for (f, rows) in ROWS.iter().enumerate() {
                let name = format!("C{}", f + 1);
                let (ids, lengths) = (stream(&format!("id.{name}")), stream(&format!("length.{name}")));
                let weights = stream(&format!("weight.{name}"));
                for &i in &samples {
                    let length = if f < 2 { 1 } else { lengths.bits(i) % 5 };
                    batch.lengths.push(length as u32);
                    for k in 0..length {
                        batch.values.push((ids.bits(i * 8 + k) % *rows as u64) as u32);
                        batch.weights.push(if f == 3 { weights.unit(i * 8 + k) } else { 1.0 });
                    }
                }
                batch.feature_starts.push(batch.values.len());
            }
            batch
        })
        .collect()
}

/// The table of a feature, from the ranks that have it.
fn whole_table(run: &Run, ranks: &[(RankState, Vec<f64>)], feature: usize) -> Vec<f32> {
    let width = run.model.row_width(feature);
    let mut table = vec![f32::NAN; ROWS[feature] * width];
    for shard in run.placement.shards_of(feature) {
        let rank = shard.holders.ranks()[0];
        let held = run.placement.held_by(rank).iter().position(|held| held == shard).unwrap();
        let weights = ranks[rank].0.tables[held].weights.to_vec().unwrap();
        for (row, weights) in shard.rows.clone().zip(weights.chunks_exact(shard.columns.len())) {
            table[row * width..][shard.columns.clone()].copy_from_slice(weights);
        }
    }
    table
}

fn cases(file: &str) -> (u64, Vec<Value>) {
    // Tests run in the folder of the crate, which is another on the machine with the GPU.
    let path = format!("tests/golden/{file}.json");
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    (golden["seed"].as_u64().unwrap(), golden["cases"].as_array().unwrap().clone())
}

fn check(file: &str, hosts: usize, ranks_per_host: usize) {
    let (seed, cases) = cases(file);
    let rules = if file.starts_with("dmt") { 3 } else { 6 };
    assert_eq!(cases.len(), rules, "one case per optimizer");
    cases.iter().for_each(|case| check_case(case, seed, [hosts, ranks_per_host]));
}

fn check_case(case: &Value, seed: u64, cluster: [usize; 2]) {
    let (model, rule) = (case["model"].as_str().unwrap(), case["optimizer"].as_str().unwrap());
    let what = format!("{model} by {rule} with {}", case["options"]);
    let run = run(model, rule, &case["options"], seed, cluster);
    let source = || Source::resident(batches(seed, &case["options"]));
    let ranks = ranks_after(&run, device, source, STEPS, |_, _| ());
    let expected = case["losses"].as_array().unwrap();
    assert_eq!(expected.len() as u64, STEPS);
    for (step, expected) in expected.iter().enumerate() {
        let expected = expected.as_f64().unwrap();
        let loss = ranks.iter().map(|(_, losses)| losses[step]).sum::<f64>() / BATCH as f64;
        assert!(
            (loss - expected).abs() <= 1e-4 * expected,
            "{what}, step {step}: PyTorch {expected}, here {loss}"
        );
    }
    let finals = case["final"].as_object().unwrap();
    let list = ranks[0].0.parameters.list();
    let with_rows = ROWS.len() - run.model.tensor_trains().count();
    assert_eq!(finals.len(), list.len() + with_rows, "the golden file covers every parameter");
    for (name, expected) in finals {
        let ours = match list.iter().position(|p| p.name == *name) {
            Some(index) => {
                let mut homes = ranks.iter().filter(|(rank, _)| rank.parameters.place(index).is_some());
                homes.next().unwrap().0.parameters.weights(index).unwrap()
            }
            None => {
                let feature = name.strip_prefix("table.C").unwrap_or_else(|| panic!("no parameter {name}"));
                whole_table(&run, &ranks, feature.parse::<usize>().unwrap() - 1)
            }
        };
        let expected = expected.as_array().unwrap();
        // Of DeepFM two rows of a table, with their linear weights.
        let first = match model {
            "deepfm" => 18,
            _ if model.starts_with("mixed") || model.starts_with("trains") => 32,
            _ => 8,
        };
        assert_eq!(expected.len(), ours.len().min(first), "first values of {name}");
        for (i, (expected, ours)) in expected.iter().zip(ours).enumerate() {
            let expected = expected.as_f64().unwrap();
            assert!(
                (expected - f64::from(ours)).abs() <= 1e-4 + 1e-3 * expected.abs(),
                "{what}, {name}[{i}] at the end: PyTorch {expected}, here {ours}"
            );
        }
    }
}

#[test]
fn dlrm_as_pytorch() {
    check("dlrm", 1, 1);
}

#[test]
fn dcn_as_pytorch() {
    check("dcn", 1, 1);
}

/// Guo et al., 2017: the linear term, the factorization machine and the MLP share the tables.
#[test]
fn deepfm_as_pytorch() {
    check("deepfm", 1, 1);
    check("deepfm", 2, 2);
}

#[test]
fn full_rank_dcn_as_pytorch() {
    check("dcn-full", 1, 1);
}

/// DMT, listing 1, in towers of three features and of one.
#[test]
fn dmt_dlrm_as_pytorch() {
    check("dmt-dlrm", 1, 1);
    check("dmt-dlrm", 2, 2);
}

/// DMT, listing 2.
#[test]
fn dmt_dcn_as_pytorch() {
    check("dmt-dcn", 1, 1);
    check("dmt-dcn", 2, 2);
}

/// Weight decay, clipped gradients, smoothed labels and dropout, on one rank and on two tower groups of two.
#[test]
fn regularised_as_pytorch() {
    let (seed, cases) = cases("regularised");
    assert_eq!(cases.len(), 12);
    for case in &cases {
        check_case(case, seed, [1, 1]);
        check_case(case, seed, [2, 2]);
    }
}

/// Sample weights, a weight of clicks and two labels, on one rank and on two tower groups of two.
#[test]
fn labels_and_weights_as_pytorch() {
    let (seed, cases) = cases("labels");
    assert_eq!(cases.len(), 6);
    for case in &cases {
        check_case(case, seed, [1, 1]);
        check_case(case, seed, [2, 2]);
    }
}

/// Vectors of 4, 8, 12 and 4, on one rank and on two tower groups of two.
#[test]
fn mixed_dims_as_pytorch() {
    let (seed, cases) = cases("mixed");
    assert_eq!(cases.len(), 12);
    for case in &cases {
        check_case(case, seed, [1, 1]);
        check_case(case, seed, [2, 2]);
    }
}

/// Tables that are products of three cores, on one rank and on two tower groups of two.
#[test]
fn tensor_trains_as_pytorch() {
    let (seed, cases) = cases("tensor_trains");
    assert_eq!(cases.len(), 12);
    for case in &cases {
        check_case(case, seed, [1, 1]);
        check_case(case, seed, [2, 2]);
    }
}

#[test]
fn four_ranks_as_pytorch() {
    check("dlrm", 2, 2);
    check("dcn", 2, 2);
}
