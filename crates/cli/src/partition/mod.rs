//! `campanile partition`: which features share a tower.

mod inputs;
mod npy;
pub mod picture;

use crate::affinity::{Measured, measure};
use crate::on_samples::Samples;
use crate::text::columns;
use anyhow::{Context, Result, ensure};
use inputs::Pieces;
use planning::partitioner::{Balance, Distance, Partition, PartitionError, Request, Strategy, partition};
use serde_json::json;
use spec::affinity::Affinity;
use spec::towers::TowersFile;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Divide features into towers by their affinity
#[derive(clap::Args)]
#[command(after_help = "Examples:
  campanile affinity --checkpoint runs/flat --out affinity.json
  campanile partition --affinity affinity.json --towers 8 --out towers.json --picture towers.html
  campanile train --towers towers.json --tower-module dlrm:c=1,p=0,d=8")]
pub struct Args {
    /// The affinity of the features: JSON from `campanile affinity`, or a .npy matrix
    #[arg(long, value_name = "FILE", required_unless_present = "checkpoint", conflicts_with = "checkpoint")]
    affinity: Option<PathBuf>,
    /// Measure it on this checkpoint of a flat model instead
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    samples: Samples,
    #[command(flatten)]
    measured: Measured,
    /// Towers
    #[arg(long, value_name = "T")]
    towers: usize,
    /// coherent (features that go together share a tower), diverse (they do not), or to compare with: strided, random, greedy
    /// (by load), spectral
    #[arg(long, default_value = "coherent")]
    strategy: Strategy,
    #[command(flatten)]
    shape: Shape,
    /// What sizes count: features or load (see --loads)
    #[arg(long, value_parser = ["features", "load"], default_value = "features")]
    balance: String,
    /// The load of every feature, as JSON {"C1": 3.0, …} [default, with --checkpoint: bytes looked up and sent a sample]
    #[arg(long, value_name = "FILE")]
    loads: Option<PathBuf>,
    /// Groups that are never mixed, as JSON {"user": ["C1", …], "item": […]}
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,
    /// Slice tables into pieces of this many columns first, so that there can be more towers than features
    #[arg(long, value_name = "D")]
    slice_to: Option<usize>,
    /// Columns of a table, for --slice-to [default, with --checkpoint: the model's]
    #[arg(long, value_name = "N")]
    dim: Option<usize>,
    /// All randomness follows from it
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Where the towers go, as JSON for --towers
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Draw the affinity by tower, and the plane: .svg, or a page if the name ends in .html
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

/// What towers shall be like, for all commands that find some.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Shape {
    /// The largest tower may be this many times as large as the smallest
    #[arg(long, value_name = "R", default_value_t = 1.0)]
    ratio: f64,
    /// How far apart features lie: stretched (over the range of affinities that tells towers apart) or plain (1 − I or I, as
    /// in the DMT paper)
    #[arg(long, default_value = "stretched")]
    distance: Distance,
    /// Dimensions of the plane
    #[arg(long, value_name = "N", default_value_t = 2)]
    dims: usize,
}

impl Shape {
    /// A request for towers of this shape.
    pub fn request(&self, towers: usize, strategy: Strategy) -> Request {
        let Self { ratio, distance, dims } = *self;
        Request { ratio, distance, dims, ..Request::new(towers, strategy) }
    }
}

/// The names of the features of each tower.
pub fn named(found: &Partition, affinity: &Affinity) -> Vec<Vec<String>> {
    let names = |tower: &Vec<usize>| tower.iter().map(|&f| affinity.features()[f].clone()).collect();
    found.towers.iter().map(names).collect()
}

pub fn run(args: Args) -> Result<()> {
    let Known { affinity, loads, dim } = known(&args)?;
    let groups = args.groups.as_deref().map(|path| inputs::groups(path, &affinity)).transpose()?;
    let pieces = match (args.slice_to, args.dim.or(dim)) {
        (None, _) => Pieces { feature_of: (0..affinity.features().len()).collect(), affinity },
        (Some(width), Some(dim)) => inputs::sliced(&affinity, dim, width)?,
        (Some(_), None) => anyhow::bail!("--slice-to needs to know how many columns a table has; say so with --dim"),
    };
    let began = Instant::now();
    let request = Request {
        balance: match (args.balance.as_str(), loads) {
            ("features", _) => Balance::Features,
            (_, Some(loads)) => Balance::Loads(pieces.feature_of.iter().map(|&f| loads[f]).collect()),
            (_, None) => anyhow::bail!("--balance load needs a load for every feature; give --loads FILE"),
        },
        groups: groups.map(|groups| pieces.feature_of.iter().map(|&f| groups[f]).collect()),
        seed: args.seed,
        ..args.shape.request(args.towers, args.strategy)
    };
    let found = partition(&pieces.affinity, &request).map_err(|error| explained(error, &args, dim))?;
    let seconds = began.elapsed().as_secs_f64();
    let towers = named(&found, &pieces.affinity);
    write_towers(&args.out, &towers)?;
    if let Some(path) = &args.picture {
        write(path, &picture::of(&pieces.affinity, &found, path.extension().is_some_and(|e| e == "html")))?;
    }
    if args.json {
        println!("{}", to_json(&towers, &found, seconds));
        return Ok(());
    }
    print!("{}", to_text(&towers, &pieces.affinity, &found));
    println!("found in {seconds:.2} s; towers in {}", args.out.display());
    Ok(())
}

/// Writes towers as `--towers` reads them.
pub fn write_towers(path: &Path, towers: &[Vec<String>]) -> Result<()> {
    write(path, &(serde_json::to_string_pretty(&TowersFile { towers: towers.to_vec() })? + "\n"))
}

pub fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("{}: cannot be written", path.display()))
}

/// What is known of the features.
struct Known {
    affinity: Affinity,
    loads: Option<Vec<f64>>,
    dim: Option<usize>,
}

fn known(args: &Args) -> Result<Known> {
    let (affinity, mut loads, dim) = match (&args.affinity, &args.checkpoint) {
        (Some(path), _) => (inputs::affinity(path)?, None, None),
        (None, Some(checkpoint)) => {
            let affinity = measure(checkpoint, &args.samples, &args.measured)?;
            let model = args.samples.open(checkpoint)?.run.model;
            let bytes = |f: &spec::feature::Feature| ((f.hotness.mean() + 1) * 4) as f64 * model.dim() as f64;
            let loads = model.features().iter().map(bytes).collect();
            (affinity, Some(loads), Some(model.dim()))
        }
        (None, None) => anyhow::bail!("give --affinity FILE, or --checkpoint DIR to measure it on"),
    };
    ensure!(!affinity.features().is_empty(), "an affinity of no features");
    if let Some(path) = &args.loads {
        loads = Some(inputs::loads(path, &affinity)?);
    }
    Ok(Known { affinity, loads, dim })
}

/// Too many towers: what slicing would do.
fn explained(error: PartitionError, args: &Args, dim: Option<usize>) -> anyhow::Error {
    match (&error, args.dim.or(dim)) {
        (PartitionError::Towers { towers, features }, Some(dim)) if *towers > *features => {
            let whole = if args.slice_to.is_some() { features / dim.div_ceil(args.slice_to.unwrap_or(dim)) } else { *features };
            let slices = towers.div_ceil(whole.max(1));
            let hint = match dim / slices.max(1) {
                0 => format!("tables of {dim} columns give at most {} pieces", whole * dim),
                width => format!("--slice-to {width} gives {} pieces", whole * dim.div_ceil(width)),
            };
            anyhow::anyhow!("{error}: {hint}")
        }
        _ => error.into(),
    }
}

fn to_json(towers: &[Vec<String>], found: &Partition, seconds: f64) -> serde_json::Value {
    let plane = found.plane.as_ref();
    json!({
        "towers": towers,
        "stress": plane.map(|plane| plane.stress),
        "stress_over_classical": plane.map(|plane| plane.stress / plane.classical_stress.max(f64::MIN_POSITIVE)),
        "within": found.within,
        "across": found.across,
        "max_over_min": found.max_over_min,
        "max_over_min_bound": found.max_over_min_bound,
        "seconds": seconds,
    })
}

pub fn to_text(towers: &[Vec<String>], affinity: &Affinity, found: &Partition) -> String {
    let mut rows = vec![vec!["tower".into(), "features".into(), "affinity inside".into()]];
    for (tower, (names, members)) in towers.iter().zip(&found.towers).enumerate() {
        let pairs = members.iter().flat_map(|&a| members.iter().filter(move |&&b| b < a).map(move |&b| (a, b)));
        let values: Vec<f64> = pairs.map(|(a, b)| affinity.between(a, b)).collect();
        let inside = match values.len() {
            0 => "–".into(),
            count => format!("{:.3}", values.iter().sum::<f64>() / count as f64),
        };
        rows.push(vec![format!("{tower}: {}", names.join(" ")), names.len().to_string(), inside]);
    }
    let plane = found.plane.as_ref().map_or(String::new(), |plane| {
        let ratio = plane.stress / plane.classical_stress.max(f64::MIN_POSITIVE);
        format!("stress of the plane {:.3}, {ratio:.2} of the classical solution's\n", plane.stress)
    });
    format!(
        "{}affinity {:.3} within towers, {:.3} across; largest tower over smallest {:.3} (at least {:.3})\n{plane}",
        columns(&rows),
        found.within,
        found.across,
        found.max_over_min,
        found.max_over_min_bound
    )
}
