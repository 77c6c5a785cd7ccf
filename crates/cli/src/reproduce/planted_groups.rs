//! Whether the partitioner finds the groups of features that a synthetic log was made of: a flat model is trained on logs of
//! several seeds, with groups of equal and of unequal sizes, and the towers that follow from its embeddings are compared with
//! the groups.

use super::records::Records;
use crate::affinity::{Measured, measure};
use crate::data_command::planted;
use crate::logs;
use crate::on_samples::Opened;
use crate::progress::Console;
use crate::signals::stop_on_signals;
use crate::text::{columns, median};
use crate::train::one_of_several;
use anyhow::{Context, Result};
use planning::partitioner::{Request, Strategy, partition};
use planning::statistics::adjusted_rand;
use serde::{Deserialize, Serialize};
use serde_json::json;
use spec::feature::Feature;
use spec::run::{Config, Run};
use spec::synthetic::Synthetic;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(mut_arg("affinity_of", |arg| arg.default_value("mean-abs")))]
pub struct Args {
    /// Logs of each kind, each of another seed
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Samples that the flat model learns from
    #[arg(long, value_name = "N", default_value_t = 1 << 21)]
    samples: u64,
    /// Features
    #[arg(long, value_name = "N", default_value_t = 32)]
    features: usize,
    /// Groups
    #[arg(long, value_name = "N", default_value_t = 8)]
    groups: usize,
    /// Largest group over smallest, of each kind of log; towers may differ as much
    #[arg(long, value_name = "R", value_delimiter = ',', default_value = "1,3")]
    ratios: Vec<f64>,
    #[command(flatten)]
    measured: Measured,
    /// Folder for the results; a measurement that was stopped goes on there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// What is compared, by name: strategies, with the dimensions of their plane.
const COMPARED: [(&str, Strategy, usize); 5] = [
    ("coherent, n = 2", Strategy::Coherent, 2),
    ("coherent, n = 4", Strategy::Coherent, 4),
    ("spectral", Strategy::Spectral, 2),
    ("random", Strategy::Random, 2),
    ("strided", Strategy::Strided, 2),
];

/// One log.
#[derive(Serialize, Deserialize)]
struct Record {
    ratio: f64,
    seed: u64,
    auc: Option<f64>,
    best_auc: Option<f64>,
    seconds: f64,
    /// The adjusted Rand index of what is compared.
    adjusted_rand: Vec<(String, f64)>,
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let what = json!({
        "features": args.features,
        "groups": args.groups,
        "samples": args.samples,
        "affinity": format!("{:?}", args.measured),
        "affinity_rows": "training",
    });
    for &ratio in &args.ratios {
        let run = planning::check(&configure(&args, ratio, 1));
        run.with_context(|| {
            format!("a log with --features {} --groups {} --ratios {ratio}", args.features, args.groups)
        })?;
    }
    let records = Records::<Record>::open(&args.out, &what)?;
    for &ratio in &args.ratios {
        for seed in 1..=args.seeds {
            if !records.all()?.iter().any(|record| record.ratio == ratio && record.seed == seed) {
                records.append(&measured(&args, ratio, seed, console)?)?;
            }
        }
    }
    let records = records.all()?;
    if args.json {
        println!("{}", serde_json::to_string(&records)?);
    } else {
        print!("{}", table(&records));
    }
    Ok(())
}

/// A DLRM over tables of 100 rows, and the log of a seed.
fn configure(args: &Args, ratio: f64, seed: u64) -> Config {
    let feature = |at: usize| Feature {
        name: format!("C{at}"),
        rows: 100,
        pooling: Default::default(),
        hotness: Default::default(),
        weighted: false,
    };
    let mut config = Config::default();
    config.model.features = Some((1..=args.features).map(feature).collect());
    config.model.dim = Some(32);
    config.model.dense_features = Some(4);
    config.model.bottom = Some(vec![32, 32]);
    config.model.top = Some(vec![64, 1]);
    config.topology.hosts = Some(1);
    config.train.seed = Some(seed);
    config.data.synthetic = Some(Synthetic {
        seed,
        samples: args.samples,
        eval_samples: 1 << 16,
        groups: args.groups,
        group_ratio: ratio,
        ..Synthetic::default()
    });
    config
}

fn measured(args: &Args, ratio: f64, seed: u64, console: Console) -> Result<Record> {
    let config = configure(args, ratio, seed);
    let stop = stop_on_signals()?;
    let logs = stop.ended(logs::open(&config.data, None, &stop, console))?;
    let scratch = tempfile::tempdir().context("no temporary folder")?;
    let folder = scratch.path().join("flat");
    let title = format!("ratio {ratio}, seed {seed}/{}", args.seeds);
    let (run, outcome) = one_of_several(&config, &logs, Some(&folder), &title, &stop, console)?;
    let affinity = measure(&Opened::on_training(&folder, &logs, console)?, &args.measured, console)?;
    let groups = planted(&run)?.towers;
    let truth = labels(&run, &groups)?;
    // Of the groups as they are: whole numbers differ by a little more than asked for.
    let sizes = groups.iter().map(Vec::len).max().zip(groups.iter().map(Vec::len).min());
    let as_planted = sizes.map_or(1.0, |(most, least)| most as f64 / least.max(1) as f64);
    let score = |(name, strategy, dims): (&str, Strategy, usize)| {
        let request = Request {
            ratio: as_planted,
            dims: dims.min(args.features),
            ..Request::new(args.groups, strategy)
        };
        let found = partition(&affinity, &request)?.towers;
        let found: Vec<usize> =
            (0..truth.len()).map(|f| found.iter().position(|t| t.contains(&f)).unwrap_or(0)).collect();
        Ok((name.to_owned(), adjusted_rand(&truth, &found)))
    };
    Ok(Record {
        ratio,
        seed,
        auc: outcome.auc(),
        best_auc: outcome.scores.as_ref().and_then(|scores| scores.best_auc),
        seconds: outcome.seconds,
        adjusted_rand: COMPARED.into_iter().map(score).collect::<Result<_>>()?,
    })
}

/// The group of every feature.
fn labels(run: &Run, towers: &[Vec<String>]) -> Result<Vec<usize>> {
    let tower_of = |feature: &Feature| {
        let tower = towers.iter().position(|tower| tower.contains(&feature.name));
        tower.with_context(|| format!("{} is in no group", feature.name))
    };
    run.model.features().iter().map(tower_of).collect()
}

fn table(records: &[Record]) -> String {
    let head = ["sizes", "logs", "AUC (best possible)"].map(String::from).into_iter();
    let mut rows = vec![head.chain(COMPARED.map(|(name, ..)| name.to_owned())).collect::<Vec<_>>()];
    let mut ratios: Vec<f64> = records.iter().map(|record| record.ratio).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.dedup();
    for ratio in ratios {
        let of_ratio: Vec<&Record> = records.iter().filter(|record| record.ratio == ratio).collect();
        let middle = |value: &dyn Fn(&Record) -> Option<f64>| {
            median(&mut of_ratio.iter().filter_map(|record| value(record)).collect::<Vec<_>>())
        };
        let (auc, best) = (middle(&|record| record.auc), middle(&|record| record.best_auc));
        let mut row = vec![
            if ratio == 1.0 { "equal".into() } else { format!("up to {ratio} : 1") },
            of_ratio.len().to_string(),
            format!("{auc:.4} ({best:.4})"),
        ];
        for (compared, ..) in COMPARED {
            let index = |record: &Record| {
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
