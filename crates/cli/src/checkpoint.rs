//! `campanile checkpoint`: look into a checkpoint, verify it, and take the model out of it.

use crate::output::Force;
use crate::progress::Console;
use crate::signals::Stop;
use crate::text::{bytes, columns, si, tell};
use anyhow::{Result, bail};
use campanile::Use;
use campanile::checkpoint::open_verified;
use campanile::export::Export;
use serde_json::json;
use spec::run::CheckpointKind;
use std::path::PathBuf;
use training::checkpoint::{Checkpoint, Contents, locate};

/// What can be done with a checkpoint.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Print what a checkpoint holds: step, model, tensors, files
    Inspect(Of),
    /// Read every file and compare it with the manifest's checksums, and its tensors with the model of the run
    Verify(Of),
    /// Write the model as one plain safetensors file, which PyTorch reads with safetensors.torch.load_file, or as an ONNX model, which
    /// onnxruntime runs
    #[command(after_help = "Names in a safetensors file, all f32:
  tables.FEATURE.weight              rows × dim of an embedding table; a DeepFM's rows end in the linear weight of the id
  bottom.I.weight, bottom.I.bias     outputs × inputs of layer I of the bottom MLP: y = x·Wᵀ + b, then ReLU
  top.I.weight, top.I.bias           the same of the top MLP
  project.FEATURE.weight             model.dim × dim of a feature of another dim, in a DLRM or DeepFM: y = x·Wᵀ
  cross.I.v, cross.I.w, cross.I.bias a DCN's cross layer: x₀ ⊙ (w·(v·x) + bias) + x
  linear.0.*, deep.I.*               a DeepFM's linear map of the dense inputs, and its MLP: vectors, then dense inputs
  towers.T.all.*, towers.T.each.*    a tower's maps of all its features side by side, and of each of them
  towers.T.each.W.*                  that of its features of W columns, where a tower has features of several widths
  towers.T.cross.*, towers.T.map.*   a tower's cross layer, and the map after it
Which features a tower has, and in which order, is in the file's metadata: `run` is the run as JSON, with model.towers and
model.tower_module. The outputs of towers stand behind the dense vector, tower by tower.
With --optimizer also optimizer.tables.FEATURE (per row: Adam's first moments, then its second) and
optimizer.PARAMETER.0, .1 (Adam's first and second moment of a dense parameter).
Inputs of an ONNX model, for any number of samples at once:
  dense                              f32, samples × dense features, after the transforms of the schema
  rows.FEATURE                       i64, samples: the row of the feature's table; samples × ids for a feature with many ids,
                                     where bags shorter than the longest end in -1
  weights.FEATURE                    f32, the same shape, for features with weights
Its outputs are probability or, with several labels, probability_LABEL of each. `campanile data rows` makes the inputs from a log.
Tables of f16 and bf16 keep their type.
Beside the model stand model.inputs.json (schema, transforms with the values that were learnt, and the rule by which ids
have rows) and, for each feature with a vocabulary, model.FEATURE.csv (row, id, count).")]
    Export(ExportArgs),
}

#[derive(clap::Args)]
pub struct Of {
    /// Folder of a checkpoint, or of a run, whose last checkpoint is taken
    path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct ExportArgs {
    /// Folder of a checkpoint, or of a run, whose best checkpoint is taken where it keeps one, else its last
    path: PathBuf,
    /// Which checkpoint of a run: last or best [default: the best where the run keeps it, else the last]
    #[arg(long = "use", value_name = "last|best")]
    which: Option<Use>,
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
    /// What to write: safetensors (the parameters) or onnx (the model with its operations)
    #[arg(long, value_name = "safetensors|onnx", default_value = "safetensors")]
    format: Format,
    /// Include the optimizer state; safetensors only
    #[arg(long)]
    optimizer: bool,
    /// Write the weights of an ONNX model to FILE.data beside it, as is done anyway beyond 2 GB
    #[arg(long)]
    external_data: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Format of an exported model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Parameters by name.
    Safetensors,
    /// The model with its operations.
    Onnx,
}

pub fn run(command: Command, console: Console) -> Result<()> {
    match command {
        Command::Inspect(args) => inspect(&args),
        Command::Verify(args) => verify(&args, console),
        Command::Export(args) => export_to(&args, console),
    }
}

fn inspect(args: &Of) -> Result<()> {
    let checkpoint = Checkpoint::open(locate(&args.path)?)?;
    let manifest = checkpoint.manifest();
    let size: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    let builds_on: Vec<u64> = checkpoint.builds_on().collect();
    if args.json {
        let tensors: Vec<_> = checkpoint
            .tensors()
            .map(|(name, shape)| json!({ "name": name, "shape": shape, "format": checkpoint.format(name) }))
            .collect();
        let result = json!({
            "path": checkpoint.path(),
            "step": manifest.step,
            "parameters_sha256": manifest.parameters_sha256,
            "bytes": size,
            "kind": kind(&builds_on),
            "builds_on": builds_on,
            "bytes_with_base": checkpoint.bytes(),
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
    if let Some(told) = told_base(&checkpoint, &builds_on) {
        println!("{told}");
    }
    let mut rows = vec![vec!["tensor".into(), "shape".into(), "numbers".into(), "format".into()]];
    for (name, shape) in checkpoint.tensors() {
        let text: Vec<String> = shape.iter().map(usize::to_string).collect();
        let numbers: f64 = shape.iter().map(|&n| n as f64).product();
        let format = checkpoint.format(name).to_string();
        rows.push(vec![name.into(), text.join(" × "), si(numbers), format]);
    }
    print!("{}", columns(&rows));
    Ok(())
}

fn verify(args: &Of, console: Console) -> Result<()> {
    let checkpoint = open_verified(&locate(&args.path)?, &console.control(&Stop::default()))?;
    let manifest = checkpoint.manifest();
    let size: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    let builds_on: Vec<u64> = checkpoint.builds_on().collect();
    if args.json {
        let result = json!({
            "path": checkpoint.path(),
            "step": manifest.step,
            "bytes": size,
            "kind": kind(&builds_on),
            "builds_on": builds_on,
            "whole": true,
        });
        println!("{result}");
    } else {
        let files = manifest.files.len();
        println!(
            "{}: whole; step {}, {} in {files} file(s)",
            checkpoint.path().display(),
            manifest.step,
            bytes(size)
        );
        if let Some(told) = told_base(&checkpoint, &builds_on) {
            println!("{told}, whole too");
        }
    }
    Ok(())
}

/// Kind of a checkpoint that builds on others, or on none.
fn kind(builds_on: &[u64]) -> CheckpointKind {
    if builds_on.is_empty() { CheckpointKind::Full } else { CheckpointKind::Incremental }
}

/// What an increment builds on, in words; `None` for a checkpoint that holds everything.
fn told_base(checkpoint: &Checkpoint, builds_on: &[u64]) -> Option<String> {
    let (full, increments) = builds_on.split_first()?;
    let between = match increments {
        [] => String::new(),
        steps => {
            let steps: Vec<_> = steps.iter().map(u64::to_string).collect();
            format!(" and the increments of steps {}", steps.join(", "))
        }
    };
    let all = bytes(checkpoint.bytes());
    Some(format!("an increment: with the full checkpoint of step {full}{between}, {all} in all"))
}

fn export_to(args: &ExportArgs, console: Console) -> Result<()> {
    let (path, out, force) = (&args.path, &args.out, args.force.force);
    let export = match args.format {
        Format::Safetensors if args.external_data => {
            bail!(
                "--external-data: a safetensors file holds any number of bytes; leave it out, or add --format onnx"
            )
        }
        Format::Onnx if args.optimizer => {
            bail!(
                "--optimizer: an ONNX model has no optimizer state; leave it out, or use --format safetensors"
            )
        }
        Format::Safetensors => Export::check(path, args.which, out, force)?,
        Format::Onnx => Export::check_onnx(path, args.which, out, force, args.external_data)?,
    };
    let contents = if args.optimizer { Contents::ParametersAndOptimizer } else { Contents::Parameters };
    let exported = export.write(contents, &console.control(&Stop::default()))?;
    if let Some(why) = &exported.unknown {
        tell(format!("the inputs of the model are not described: {why}"));
    }
    if !exported.without_texts.is_empty() {
        tell(format!(
            "the ids of {} are not written: their texts were not kept when the log was prepared; prepare it again",
            exported.without_texts.join(", ")
        ));
    }
    if args.json {
        let result = json!({
            "file": args.out,
            "step": exported.step,
            "used": exported.used.name(),
            "data": exported.data,
            "inputs": exported.inputs,
            "vocabularies": exported.ids,
        });
        println!("{result}");
        return Ok(());
    }
    println!(
        "step {}{} of {} is in {}",
        exported.step,
        exported.used.told(exported.step),
        exported.checkpoint.display(),
        args.out.display()
    );
    if let Some(data) = &exported.data {
        println!("its weights are in {}, which must stay beside it", data.display());
    }
    if let Some(inputs) = &exported.inputs {
        let ids = exported.ids.len();
        println!("its inputs are described in {}, with {ids} file(s) of ids by row", inputs.display());
    }
    Ok(())
}
