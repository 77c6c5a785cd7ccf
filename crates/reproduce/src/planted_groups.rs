//! Whether the partitioner finds the groups of features that a synthetic log was made of: a flat model is trained on logs of
//! several seeds, with groups of equal and of unequal sizes, and the towers that follow from its embeddings are compared with
//! the groups.

use crate::Report;
use crate::error::{During, Error, Failure, Result};
use campanile::records::Records;
use pages::text::{columns, median};
use planning::partitioner::{Request as Partitioning, Strategy, partition};
use planning::statistics::adjusted_rand;
use serde::{Deserialize, Serialize};
use serde_json::json;
use spec::affinity::Affinity;
use spec::feature::Feature;
use spec::run::Config;
use spec::synthetic::Synthetic;
use std::path::Path;

/// Logs to generate, to train on and to find groups in.
pub struct Request<'a> {
    /// Logs of each ratio, each from another seed.
    pub seeds: u64,
    /// Samples that the flat model learns from.
    pub samples: u64,
    /// Features of a log.
    pub features: usize,
    /// Groups of features in a log.
    pub groups: usize,
    /// Size of the largest group over that of the smallest, for each kind of log. Towers may differ as much.
    pub ratios: &'a [f64],
    /// How affinity is measured, as text. A folder with results of another measure is refused.
    pub affinity: String,
    /// Folder for the results.
    pub out: &'a Path,
    /// Tells people something that is no warning.
    pub note: &'a dyn Fn(&str),
}

/// A flat model that was trained on a log with planted groups.
pub struct FlatModel {
    /// AUC of the model; `None` where all labels are the same.
    pub auc: Option<f64>,
    /// AUC of the probabilities that the labels were drawn from.
    pub best_auc: Option<f64>,
    /// Duration of the training, in seconds.
    pub seconds: f64,
    /// Affinity of the features, measured on rows that the model was trained on.
    pub affinity: Affinity,
    /// Names of the features of each planted group.
    pub groups: Vec<Vec<String>>,
}

/// Trains the flat model of a config. The text is shown while it trains.
pub type TrainFlat<'a> = &'a dyn Fn(&Config, &str) -> std::result::Result<FlatModel, Failure>;

/// Names of what is compared, with strategies and dimensions of the plane.
const COMPARED: [(&str, Strategy, usize); 5] = [
    ("coherent, n = 2", Strategy::Coherent, 2),
    ("coherent, n = 4", Strategy::Coherent, 4),
    ("spectral", Strategy::Spectral, 2),
    ("random", Strategy::Random, 2),
    ("strided", Strategy::Strided, 2),
];

/// Result of one log.
#[derive(Serialize, Deserialize)]
struct PlantedResult {
    ratio: f64,
    seed: u64,
    auc: Option<f64>,
    best_auc: Option<f64>,
    seconds: f64,
    /// Adjusted Rand index of towers and planted groups, by name of what is compared.
    adjusted_rand: Vec<(String, f64)>,
}

/// Trains on the logs that the folder lacks, and compares what was found in all of them.
pub fn report(request: &Request, train: TrainFlat) -> Result<Report> {
    let Request { features, groups, .. } = request;
    let what = json!({
        "features": features,
        "groups": groups,
        "samples": request.samples,
        "affinity": request.affinity,
        "affinity_rows": "training",
    });
    for &ratio in request.ratios {
        let run = planning::check(&configure(request, ratio, 1));
        run.during(|| format!("a log with --features {features} --groups {groups} --ratios {ratio}"))?;
    }
    let records = Records::<PlantedResult>::open(request.out, &what)?;
    if let Some(taken) = records.taken()? {
        (request.note)(&taken.to_string());
    }
    for &ratio in request.ratios {
        for seed in 1..=request.seeds {
            if !records.all()?.iter().any(|record| record.ratio == ratio && record.seed == seed) {
                records.append(&measured(request, ratio, seed, train)?)?;
            }
        }
    }
    recorded(request.out)
}

/// Compares the towers and groups whose results are in a folder, and trains nothing.
pub fn recorded(folder: &Path) -> Result<Report> {
    let records = Records::<PlantedResult>::existing(folder).all()?;
    let json = serde_json::to_string(&records).map_err(Error::json("results"))?;
    Ok(Report { text: table(&records), json })
}

/// A DLRM over tables of 100 rows, and the log of a seed.
fn configure(request: &Request, ratio: f64, seed: u64) -> Config {
    let feature = |at: usize| Feature {
        name: format!("C{at}"),
        rows: 100,
        pooling: Default::default(),
        hotness: Default::default(),
        weighted: false,
        dim: None,
        format: None,
        cache: None,
        tt_rank: None,
    };
    let mut config = Config::default();
    config.model.features = Some((1..=request.features).map(feature).collect());
    config.model.dim = Some(32);
    config.model.dense_features = Some(4);
    config.model.bottom = Some(vec![32, 32]);
    config.model.top = Some(vec![64, 1]);
    config.topology.hosts = Some(1);
    config.train.seed = Some(seed);
    config.data.synthetic = Some(Synthetic {
        seed,
        samples: request.samples,
        eval_samples: 1 << 16,
        groups: request.groups,
        group_ratio: ratio,
        ..Synthetic::default()
    });
    config
}

fn measured(request: &Request, ratio: f64, seed: u64, train: TrainFlat) -> Result<PlantedResult> {
    let config = configure(request, ratio, seed);
    let title = format!("ratio {ratio}, seed {seed}/{}", request.seeds);
    let FlatModel { auc, best_auc, seconds, affinity, groups } =
        train(&config, &title).map_err(Error::Program)?;
    let truth = labels(affinity.features(), &groups)?;
    // Of the groups as they are: whole numbers differ by a little more than asked for.
    let sizes = groups.iter().map(Vec::len).max().zip(groups.iter().map(Vec::len).min());
    let as_planted = sizes.map_or(1.0, |(most, least)| most as f64 / least.max(1) as f64);
    let score = |(name, strategy, dims): (&str, Strategy, usize)| {
        let partitioning = Partitioning {
            ratio: as_planted,
            dims: dims.min(request.features),
            ..Partitioning::new(request.groups, strategy)
        };
        let found = partition(&affinity, &partitioning)?.towers;
        let found: Vec<usize> =
            (0..truth.len()).map(|f| found.iter().position(|t| t.contains(&f)).unwrap_or(0)).collect();
        Ok((name.to_owned(), adjusted_rand(&truth, &found)))
    };
    let adjusted_rand = COMPARED.into_iter().map(score).collect::<Result<_>>()?;
    Ok(PlantedResult { ratio, seed, auc, best_auc, seconds, adjusted_rand })
}

/// The group of every feature.
fn labels(features: &[String], groups: &[Vec<String>]) -> Result<Vec<usize>> {
    let group_of = |feature: &String| {
        let group = groups.iter().position(|group| group.contains(feature));
        group.ok_or_else(|| Error::NoGroup(feature.clone()))
    };
    features.iter().map(group_of).collect()
}

fn table(records: &[PlantedResult]) -> String {
    let head = ["sizes", "logs", "AUC (best possible)"].map(String::from).into_iter();
    let mut rows = vec![head.chain(COMPARED.map(|(name, ..)| name.to_owned())).collect::<Vec<_>>()];
    let mut ratios: Vec<f64> = records.iter().map(|record| record.ratio).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.dedup();
    for ratio in ratios {
        let of_ratio: Vec<&PlantedResult> = records.iter().filter(|record| record.ratio == ratio).collect();
        let middle = |value: &dyn Fn(&PlantedResult) -> Option<f64>| {
            median(&mut of_ratio.iter().filter_map(|record| value(record)).collect::<Vec<_>>())
        };
        let (auc, best) = (middle(&|record| record.auc), middle(&|record| record.best_auc));
        let mut row = vec![
            if ratio == 1.0 { "equal".into() } else { format!("up to {ratio} : 1") },
            of_ratio.len().to_string(),
            format!("{auc:.4} ({best:.4})"),
        ];
        for (compared, ..) in COMPARED {
            let index = |record: &PlantedResult| {
                let found = record.adjusted_rand.iter().find(|(name, _)| name == compared);
                found.map(|(_, index)| *index)
            };
            let least = of_ratio.iter().filter_map(|record| index(record)).fold(f64::INFINITY, f64::min);
            row.push(format!("{:.2} (≥ {least:.2})", middle(&index)));
        }
        rows.push(row);
    }
    format!("Adjusted Rand index of towers and planted groups: median (least) over logs\n{}", columns(&rows))
}

#[cfg(test)]
mod tests;
