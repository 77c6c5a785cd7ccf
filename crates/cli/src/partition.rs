//! `campanile partition`: divides features into towers.

mod division;
pub mod picture;

pub use campanile::partition::{Divided, Tables};
pub use division::Division;

use crate::Answer;
use crate::affinity::{Measured, measure};
use crate::output::{Force, Inputs, Output};
use crate::progress::Console;
use crate::scoring::{Opened, SampleArgs};
use crate::text::columns;
use anyhow::{Context, Result, ensure};
use campanile::Control;
use planning::partitioner::{Plane, Strategy};
use serde_json::json;
use spec::affinity::Affinity;
use spec::towers::TowersFile;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use training::Cluster;

/// Divide features into towers by their affinity
#[derive(clap::Args)]
#[command(mut_arg("data", |arg| arg.help("Files to measure on: paths and globs [default: the data that the run was trained on]")))]
#[command(after_help = "Examples:
  campanile affinity --checkpoint runs/flat --out affinity.json
  campanile partition --affinity affinity.json --towers 8 --out towers.json --picture towers.html
  campanile train --towers towers.json --tower-module dlrm:c=1,p=0,d=8")]
pub struct Args {
    /// Affinity of the features: JSON from `campanile affinity`, or a .npy matrix, whose features are then C1, C2, …
    #[arg(long, value_name = "FILE", required_unless_present = "checkpoint", conflicts_with = "checkpoint")]
    affinity: Option<PathBuf>,
    /// Measure the affinity on this checkpoint of a flat model instead of reading --affinity
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    samples: SampleArgs,
    #[command(flatten)]
    measured: Measured,
    /// Number of towers
    #[arg(long, value_name = "T")]
    towers: usize,
    /// Strategy: coherent (features of high affinity share a tower), diverse (features of low affinity do), or one to compare
    /// with: strided, random, greedy (by load), spectral
    #[arg(long, default_value = "coherent")]
    strategy: Strategy,
    #[command(flatten)]
    division: Division,
    /// Number of columns of every table, which --slice-to with --affinity needs
    #[arg(long, value_name = "N", conflicts_with = "checkpoint")]
    dim: Option<usize>,
    /// Seed of all random choices
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// File to write: the towers as JSON, for `train --towers`
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Picture to write, of the affinities ordered by tower and of the plane: SVG, or a page if the name ends in .html
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print one JSON object as the last line
    #[arg(long)]
    json: bool,
}

/// The towers as JSON and as a picture; they are written to `out` as well. `stop` ends the measurement of a model early.
pub fn answer(args: &Args, stop: Arc<AtomicBool>) -> Result<Answer> {
    let output = Output::check(&args.out, args.force.force, &args.inputs())?;
    let control = Control::default().stop_on(stop);
    let open = |checkpoint: &Path| {
        Ok(args.samples.samples().open_for_training(checkpoint, &Cluster::Threads, &control)?)
    };
    let (divided, seconds) = divide(args, Console::new(true), open)?;
    output.write(towers_text(&divided.towers)?.as_bytes())?;
    Ok(Answer { json: to_json(&divided, seconds), html: picture::of(&divided, true) })
}

pub fn run(args: Args, console: Console) -> Result<()> {
    let page = args.picture.as_deref().map(picture::is_page).transpose()?;
    let (inputs, force) = (args.inputs(), args.force.force);
    let output = Output::check(&args.out, force, &inputs)?;
    let drawn = Output::check_if_any(args.picture.as_deref(), force, &inputs)?;
    Output::distinct([&output].into_iter().chain(&drawn))?;
    let open = |checkpoint: &Path| args.samples.open_for_training(checkpoint, &Cluster::Threads, console);
    let (divided, seconds) = divide(&args, console, open)?;
    output.write(towers_text(&divided.towers)?.as_bytes())?;
    if let Some((drawn, page)) = drawn.zip(page) {
        drawn.write(picture::of(&divided, page).as_bytes())?;
    }
    if args.json {
        println!("{}", to_json(&divided, seconds));
        return Ok(());
    }
    print!("{}", to_text(&divided));
    println!("found in {seconds:.2} s; towers in {}", args.out.display());
    Ok(())
}

/// Divides the features, and says how many seconds that took. `open` opens a checkpoint to measure their affinity on.
fn divide(
    args: &Args,
    console: Console,
    open: impl FnOnce(&Path) -> Result<Opened>,
) -> Result<(Divided, f64)> {
    let (affinity, tables) = match (&args.affinity, &args.checkpoint) {
        (Some(path), _) => {
            ensure!(
                args.samples == SampleArgs::default() && args.measured == Measured::default(),
                "--data, --affinity-of and other flags of samples need --checkpoint; --affinity gives an affinity that was \
                 measured already"
            );
            (campanile::partition::read_affinity(path)?, Tables::of_columns(args.dim))
        }
        (None, checkpoint) => {
            let checkpoint =
                checkpoint.as_ref().context("give --affinity FILE, or --checkpoint DIR to measure it on")?;
            let opened = open(checkpoint)?;
            // What cannot be is refused before it is measured.
            args.division.check(&opened.run.model, args.towers, &[args.strategy])?;
            (measure(&opened, &args.measured, Cluster::Threads, console)?, Tables::of(&opened.run.model))
        }
    };
    let what = format!("dividing {} features into {} towers", affinity.features().len(), args.towers);
    let waiting = console.waiting(what);
    let began = Instant::now();
    let divided = args.division.divide(&affinity, &tables, args.towers, args.strategy, args.seed)?;
    let seconds = began.elapsed().as_secs_f64();
    drop(waiting);
    Ok((divided, seconds))
}

impl Args {
    /// Files that are read.
    fn inputs(&self) -> Inputs {
        let checkpoint = self.checkpoint.as_deref();
        let mut inputs = checkpoint.map_or_else(Inputs::default, |path| self.samples.samples().inputs(path));
        inputs.add_all(&self.affinity).add_all(self.division.files());
        inputs
    }
}

/// Towers as `--towers` reads them.
pub fn towers_text(towers: &[Vec<String>]) -> Result<String> {
    Ok(serde_json::to_string_pretty(&TowersFile { towers: towers.to_vec() })? + "\n")
}

/// An affinity as [`run`] reads it.
pub fn affinity_text(affinity: &Affinity) -> Result<String> {
    Ok(serde_json::to_string(affinity)? + "\n")
}

/// Writes a file into a command's own folder, whole or not at all.
pub fn write(path: &Path, text: &str) -> Result<()> {
    Ok(campanile::file::replace(path, text.as_bytes())?)
}

fn to_json(Divided { towers, found, .. }: &Divided, seconds: f64) -> serde_json::Value {
    let plane = found.plane.as_ref();
    json!({
        "towers": towers,
        "stress": plane.map(|plane| plane.stress),
        "stress_over_classical": plane.map(Plane::over_classical),
        "within": found.within,
        "across": found.across,
        "max_over_min": found.max_over_min,
        "max_over_min_bound": found.max_over_min_bound,
        "seconds": seconds,
    })
}

/// Towers as people read them.
pub fn to_text(Divided { towers, found, affinity }: &Divided) -> String {
    let mut rows = vec![vec!["tower".into(), "features".into(), "affinity inside".into()]];
    for (tower, (names, members)) in towers.iter().zip(&found.towers).enumerate() {
        let pairs =
            members.iter().flat_map(|&a| members.iter().filter(move |&&b| b < a).map(move |&b| (a, b)));
        let values: Vec<f64> = pairs.map(|(a, b)| affinity.between(a, b)).collect();
        let inside = match values.len() {
            0 => "–".into(),
            count => format!("{:.3}", values.iter().sum::<f64>() / count as f64),
        };
        rows.push(vec![format!("{tower}: {}", shortened(names)), names.len().to_string(), inside]);
    }
    let plane = found.plane.as_ref().map_or(String::new(), |plane| {
        let (stress, over) = (plane.stress, plane.over_classical());
        format!("stress of the plane {stress:.3}, {over:.2} of the classical solution's\n")
    });
    let show = |value: Option<f64>| value.map_or("–".into(), |value| format!("{value:.3}"));
    format!(
        "{}affinity {} within towers, {} across; largest tower over smallest {:.3} (at least {:.3})\n{plane}",
        columns(&rows),
        show(found.within),
        show(found.across),
        found.max_over_min,
        found.max_over_min_bound
    )
}

/// Names, as many as fit on a line.
fn shortened(names: &[String]) -> String {
    const SHOWN: usize = 10;
    match names.len() {
        0..=SHOWN => names.join(" "),
        count => format!("{} … and {} more", names[..SHOWN - 1].join(" "), count - SHOWN + 1),
    }
}
