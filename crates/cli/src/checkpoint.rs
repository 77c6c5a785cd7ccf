//! `campanile checkpoint`: look into a checkpoint, verify it, and take the model out of it.

use crate::output::{Force, Inputs, Output};
use crate::progress::{Console, Unit};
use crate::text::{bytes, columns, si, tell};
use crate::train::SavedRun;
use anyhow::{Result, bail};
use serde_json::json;
use std::path::{Path, PathBuf};
use training::checkpoint::{
    Checkpoint, CheckpointError, Contents, candidates, export, is_checkpoint, locate, set_aside,
};

/// What can be done with a checkpoint.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show what it holds
    Inspect(Of),
    /// Read every file and compare it with the manifest's checksums, and the tensors with the model that it is of
    Verify(Of),
    /// Write the model as one plain safetensors file, which PyTorch reads with safetensors.torch.load_file
    #[command(after_help = "Names in the file, all f32:
  tables.FEATURE.weight              rows × dim of an embedding table; a DeepFM's rows end in the linear weight of the id
  bottom.I.weight, bottom.I.bias     outputs × inputs of layer I of the bottom MLP: y = x·Wᵀ + b, then ReLU
  top.I.weight, top.I.bias           the same of the top MLP
  cross.I.v, cross.I.w, cross.I.bias a DCN's cross layer: x₀ ⊙ (w·(v·x) + bias) + x
  linear.0.*, deep.I.*               a DeepFM's linear map of the dense inputs, and its MLP: vectors, then dense inputs
  towers.T.all.*, towers.T.each.*    a tower's maps of all its features side by side, and of each of them
  towers.T.cross.*, towers.T.map.*   a tower's cross layer, and the map after it
Which features a tower has, and in which order, is in the file's metadata: `run` is the run as JSON, with model.towers and
model.tower_module. The outputs of towers stand behind the dense vector, tower by tower.
With --optimizer also optimizer.tables.FEATURE (per row: Adam's first moments, then its second) and
optimizer.PARAMETER.0, .1 (Adam's first and second moment of a dense parameter).")]
    Export(Export),
}

#[derive(clap::Args)]
pub struct Of {
    /// A checkpoint, or the folder of a run: its last one
    path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Export {
    /// A checkpoint, or the folder of a run: its last one
    path: PathBuf,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
    /// Include the optimizer's state
    #[arg(long)]
    optimizer: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(command: Command, console: Console) -> Result<()> {
    match command {
        Command::Inspect(args) => inspect(&args),
        Command::Verify(args) => verify(&args, console),
        Command::Export(args) => export_to(&args, console),
    }
}

/// The checkpoint at `path`, every file of which is what it was, and which holds the model that it says it does.
pub fn open_verified(path: &Path, console: Console) -> Result<Checkpoint, CheckpointError> {
    let checkpoint = Checkpoint::open(path)?;
    check_model(&checkpoint)?;
    let progress = console.progress("verifying the checkpoint", 0, Unit::Bytes);
    checkpoint.verify(&|done, total| {
        progress.set_total(total);
        progress.at(done, "");
    })?;
    drop(progress);
    Ok(checkpoint)
}

/// Refuses a checkpoint whose tensors are not those of the run that its manifest describes.
fn check_model(checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
    let refuse = |problem: String| CheckpointError::Malformed {
        path: checkpoint.path().to_owned(),
        problem: format!("the run in its manifest: {problem}"),
    };
    let config = SavedRun::of(checkpoint).map_err(|e| refuse(e.root_cause().to_string()))?.config;
    let model = config.model.check(None).map_err(|e| refuse(e.to_string()))?;
    let (Some(dense), Some(tables)) = (config.optimizer.dense, config.optimizer.tables) else {
        return Err(refuse("no optimizer.dense or optimizer.tables".into()));
    };
    training::check_contents(checkpoint, &model, &dense.update, &tables.update)
}

/// The last whole checkpoint of a run, and those after it.
pub struct LastWhole {
    /// Every file of it was verified.
    pub checkpoint: Checkpoint,
    /// Later checkpoints, which are damaged.
    pub damaged: Vec<PathBuf>,
}

/// The checkpoint at `path`, or the last whole one of the run at `path`: damaged ones after it are told of on standard
/// error. A checkpoint that is named itself must be whole.
pub fn open_last_whole(path: &Path, console: Console) -> Result<LastWhole> {
    if is_checkpoint(path) {
        return Ok(LastWhole { checkpoint: open_verified(path, console)?, damaged: Vec::new() });
    }
    let mut damaged = Vec::new();
    for candidate in candidates(path)? {
        match open_verified(&candidate, console) {
            Ok(checkpoint) => {
                for (_, why) in &damaged {
                    tell(format!("damaged: {why}"));
                }
                if !damaged.is_empty() {
                    let (step, path) = (checkpoint.manifest().step, checkpoint.path().display());
                    tell(format!("using the last whole checkpoint, of step {step}, instead: {path}"));
                }
                let damaged = damaged.into_iter().map(|(path, _)| path).collect();
                return Ok(LastWhole { checkpoint, damaged });
            }
            Err(error) if error.is_damage() => {
                damaged.push((candidate, format!("{:#}", anyhow::Error::from(error))));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if damaged.is_empty() {
        bail!(CheckpointError::NotFound { path: path.to_owned() });
    }
    let all: String = damaged.iter().map(|(_, why)| format!("\n  {why}")).collect();
    bail!(
        "{}: no checkpoint is whole:{all}\nRestore one from a copy, or start the run again with --out and a new folder",
        path.display()
    )
}

/// Gives damaged checkpoints other names, so that their steps can be saved again, and says so.
pub fn set_all_aside(damaged: &[PathBuf]) -> Result<()> {
    for path in damaged {
        let to = set_aside(path)?;
        tell(format!("{}: set aside as {}", path.display(), to.file_name().unwrap_or_default().display()));
    }
    Ok(())
}

fn inspect(args: &Of) -> Result<()> {
    let checkpoint = Checkpoint::open(locate(&args.path)?)?;
    let manifest = checkpoint.manifest();
    let size: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    if args.json {
        let tensors: Vec<_> =
            checkpoint.tensors().map(|(name, shape)| json!({ "name": name, "shape": shape })).collect();
        let result = json!({
            "path": checkpoint.path(),
            "step": manifest.step,
            "parameters_sha256": manifest.parameters_sha256,
            "bytes": size,
            "files": manifest.files,
            "topology": manifest.topology,
            "tensors": tensors,
            "run": manifest.run,
        });
        println!("{result}");
        return Ok(());
    }
    println!(
        "{}: step {}, {} in {} file(s), of {} × {} ranks",
        checkpoint.path().display(),
        manifest.step,
        bytes(size),
        manifest.files.len(),
        manifest.topology.hosts,
        manifest.topology.ranks_per_host
    );
    let mut rows = vec![vec!["tensor".into(), "shape".into(), "floats".into()]];
    for (name, shape) in checkpoint.tensors() {
        let text: Vec<String> = shape.iter().map(usize::to_string).collect();
        let floats: f64 = shape.iter().map(|&n| n as f64).product();
        rows.push(vec![name.into(), text.join(" × "), si(floats)]);
    }
    print!("{}", columns(&rows));
    Ok(())
}

fn verify(args: &Of, console: Console) -> Result<()> {
    let checkpoint = open_verified(&locate(&args.path)?, console)?;
    let manifest = checkpoint.manifest();
    let size: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    if args.json {
        println!(
            "{}",
            json!({ "path": checkpoint.path(), "step": manifest.step, "bytes": size, "whole": true })
        );
    } else {
        let files = manifest.files.len();
        println!(
            "{}: whole; step {}, {} in {files} file(s)",
            checkpoint.path().display(),
            manifest.step,
            bytes(size)
        );
    }
    Ok(())
}

fn export_to(args: &Export, console: Console) -> Result<()> {
    let last = locate(&args.path)?;
    let output = Output::check(&args.out, args.force.force, Inputs::default().add(&last))?;
    let checkpoint = open_last_whole(&args.path, console)?.checkpoint;
    let contents = if args.optimizer { Contents::ParametersAndOptimizer } else { Contents::Parameters };
    let mut out = output.create()?;
    export(&checkpoint, output.path(), &mut out, contents)?;
    out.finish()?;
    if args.json {
        println!("{}", json!({ "file": args.out, "step": checkpoint.manifest().step }));
    } else {
        println!(
            "step {} of {} is in {}",
            checkpoint.manifest().step,
            checkpoint.path().display(),
            args.out.display()
        );
    }
    Ok(())
}
