//! Affinity of features: against a loop over samples written from the definition, on other clusters, and what is refused.

use crate::common::{config, mixed, synthetic_log};
use data::{Batch, Split};
use spec::Pooling;
use spec::affinity::Affinity;
use spec::presets::ModelKind;
use spec::run::Run;
use spec::towers::Assignment;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use training::checkpoint::{Checkpoint, locate};
use training::{AffinityRequest, Cluster, Cosines, Error, Logs, Saving, Session};

/// A checkpoint of a model after a few steps.
fn trained(run: &Run, root: &Path) -> Checkpoint {
    let saving = Saving { root: root.to_owned(), run: serde_json::Value::Null };
    let session = Session { checkpoints: Some(saving), ..Session::default() };
    training::train(run, &Logs::Synthetic, &session).unwrap();
    Checkpoint::open(locate(root).unwrap()).unwrap()
}

/// The definition, sample by sample, from the tables as they were saved.
fn by_definition(
    run: &Run,
    checkpoint: &Checkpoint,
    split: Split,
    of: Cosines,
    samples: u64,
) -> Vec<Vec<f64>> {
    let features = run.model.features();
    let dims: Vec<usize> = (0..features.len()).map(|f| run.model.dim_of(f)).collect();
    let tables: Vec<Vec<f32>> = features
        .iter()
        .zip(&dims)
        .map(|(feature, &dim)| {
            let mut table = vec![0.0; feature.rows * dim];
            let name = checkpoint
                .tensors()
                .map(|(name, _)| name)
                .find(|name| name.split('.').any(|part| part == feature.name) && name.starts_with("tables"));
            checkpoint.read_rows(name.unwrap(), 0..feature.rows, 0..dim, &mut table).unwrap();
            table
        })
        .collect();
    // The maps of embeddings of other lengths: outputs × inputs.
    let maps: Vec<Option<Vec<f32>>> = features
        .iter()
        .zip(&dims)
        .map(|(feature, &dim)| {
            let name = format!("project.{}.weight", feature.name);
            checkpoint.tensors().find(|(tensor, _)| *tensor == name)?;
            let mut map = vec![0.0; run.model.dim() * dim];
            checkpoint.read_rows(&name, 0..run.model.dim(), 0..dim, &mut map).unwrap();
            Some(map)
        })
        .collect();
    let mut batch = Batch::default();
    synthetic_log(run, split).fill(0..samples, &mut batch);
    let mut next = vec![0; features.len()];
    let mut sums = vec![vec![0.0; features.len()]; features.len()];
    for sample in 0..samples as usize {
        let mut units = Vec::new();
        for (f, feature) in features.iter().enumerate() {
            let (length, dim) = (batch.lengths(f)[sample] as usize, dims[f]);
            let mut pooled = vec![0.0f64; dim];
            for at in next[f]..next[f] + length {
                let row = batch.values(f)[at] as usize;
                let weight = if feature.weighted { f64::from(batch.weights(f)[at]) } else { 1.0 };
                let share = if feature.pooling == Pooling::Mean { weight / length as f64 } else { weight };
                (0..dim).for_each(|d| pooled[d] += share * f64::from(tables[f][row * dim + d]));
            }
            next[f] += length;
            if let Some(map) = &maps[f] {
                let product = |row: &[f32]| row.iter().zip(&pooled).map(|(w, x)| f64::from(*w) * x).sum();
                pooled = map.chunks_exact(dim).map(product).collect();
            }
            let norm = pooled.iter().map(|x| x * x).sum::<f64>().sqrt();
            units.push(pooled.iter().map(|x| if norm > 0.0 { x / norm } else { 0.0 }).collect::<Vec<_>>());
        }
        for (i, a) in units.iter().enumerate() {
            for (j, b) in units.iter().enumerate() {
                let cosine: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                sums[i][j] += if of == Cosines::MeanOfAbs { cosine.abs() } else { cosine };
            }
        }
    }
    let mean = |(i, row): (usize, Vec<f64>)| {
        let entry = |(j, sum): (usize, f64)| if i == j { 1.0 } else { (sum / samples as f64).abs() };
        row.into_iter().enumerate().map(entry).collect()
    };
    sums.into_iter().enumerate().map(mean).collect()
}

fn assert_near(found: &Affinity, expected: &[Vec<f64>]) {
    for (i, row) in expected.iter().enumerate() {
        for (j, value) in row.iter().enumerate() {
            assert!(
                (found.between(i, j) - value).abs() < 1e-5,
                "{i}, {j}: {} for {value}",
                found.between(i, j)
            );
        }
    }
}

/// Affinity on ten samples.
const TEN: AffinityRequest = AffinityRequest { split: Split::Eval, cosines: Cosines::AbsOfMean, limit: 10 };

fn affinity(
    run: &Run,
    checkpoint: &Checkpoint,
    request: AffinityRequest,
    observe: &(dyn Fn(u64) + Sync),
) -> Result<Affinity, Error> {
    training::affinity(run, &Logs::Synthetic, checkpoint, &Cluster::Threads, request, observe)
}

#[test]
fn affinity_is_what_its_definition_says() {
    let nobody = |_: u64| ();
    for (kind, multi_hot, several) in [
        (ModelKind::Dlrm, true, false),
        (ModelKind::Dcn, false, false),
        (ModelKind::DeepFm, true, false),
        (ModelKind::Dlrm, false, true),
        (ModelKind::DeepFm, true, true),
    ] {
        let root = tempfile::tempdir().unwrap();
        let config = |kind, multi_hot, hosts, ranks| match several {
            true => mixed(config(kind, multi_hot, hosts, ranks)),
            false => config(kind, multi_hot, hosts, ranks),
        };
        let run = planning::check(&config(kind, multi_hot, 2, 2)).unwrap();
        let checkpoint = trained(&run, root.path());
        // 301 samples in batches of 96, all of them or the first batch and a half.
        for (split, of, limit, seen) in [
            (Split::Eval, Cosines::AbsOfMean, 1000, 301),
            (Split::Eval, Cosines::MeanOfAbs, 1000, 301),
            (Split::Eval, Cosines::AbsOfMean, 150, 150),
            (Split::Train, Cosines::AbsOfMean, 150, 150),
        ] {
            let expected = by_definition(&run, &checkpoint, split, of, seen);
            for (hosts, ranks_per_host) in [(1, 1), (2, 2), (1, 3)] {
                let other = planning::check(&config(kind, multi_hot, hosts, ranks_per_host)).unwrap();
                let told = AtomicU64::new(0);
                let observe = |samples: u64| {
                    told.fetch_add(samples, Ordering::Relaxed);
                };
                let request = AffinityRequest { split, cosines: of, limit };
                let found = affinity(&other, &checkpoint, request, &observe).unwrap();
                assert_near(&found, &expected);
                assert_eq!(told.into_inner(), seen);
            }
        }
        let names: Vec<&str> = run.model.features().iter().map(|f| f.name.as_str()).collect();
        let found = affinity(&run, &checkpoint, TEN, &nobody).unwrap();
        assert_eq!(found.features(), names);
    }
}

#[test]
fn embeddings_of_several_lengths_need_a_model_that_maps_them() {
    let run = planning::check(&mixed(config(ModelKind::Dcn, false, 1, 1))).unwrap();
    let root = tempfile::tempdir().unwrap();
    let checkpoint = trained(&run, root.path());
    let refused = affinity(&run, &checkpoint, TEN, &|_| ());
    let message = refused.unwrap_err().to_string();
    assert!(message.starts_with("model.features[1].dim (C1): embeddings of C0 and C1"), "{message}");
    assert!(message.contains("use the model dlrm"), "{message}");
}

#[test]
fn towers_have_mixed_their_features_already() {
    let mut config = config(ModelKind::Dlrm, false, 2, 1);
    let root = tempfile::tempdir().unwrap();
    let checkpoint = trained(&planning::check(&config).unwrap(), root.path());
    config.model.towers = Some(Assignment::Strided(2));
    config.model.tower_module = Some("dlrm:d=8".parse().unwrap());
    let run = planning::check(&config).unwrap();
    let refused = affinity(&run, &checkpoint, TEN, &|_| ());
    assert!(refused.unwrap_err().to_string().contains("tower"), "say that towers are the reason");
}
