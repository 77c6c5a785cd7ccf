//! `campanile checkpoint`: look into a checkpoint, verify it, and take the model out of it.

use crate::output::Force;
use crate::progress::Console;
use crate::signals::Stop;
use crate::text::{bytes, columns, si, tell};
use anyhow::Result;
use campanile::Use;
use campanile::checkpoint::open_verified;
use serde_json::json;
use std::path::PathBuf;
use training::checkpoint::{Checkpoint, Contents, locate};

/// What can be done with a checkpoint.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Print what a checkpoint holds: step, model, tensors, files
    Inspect(Of),
    /// Read every file and compare it with the manifest's checksums, and its tensors with the model of the run
    Verify(Of),
    /// Write the model as one plain safetensors file, which PyTorch reads with safetensors.torch.load_file
    #[command(after_help = "Names in the file, all f32:
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
Beside model.safetensors stand model.inputs.json (schema, transforms with the values that were learnt, and the rule by which ids
have rows) and, for each feature with a vocabulary, model.FEATURE.csv (row, id, count).")]
    Export(Export),
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
pub struct Export {
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
    /// Include the optimizer state
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

fn inspect(args: &Of) -> Result<()> {
    let checkpoint = Checkpoint::open(locate(&args.path)?)?;
    let manifest = checkpoint.manifest();
    let size: u64 = manifest.files.iter().map(|file| file.bytes).sum();
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
    let export = campanile::export::Export::check(&args.path, args.which, &args.out, args.force.force)?;
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
    if let Some(inputs) = &exported.inputs {
        let ids = exported.ids.len();
        println!("its inputs are described in {}, with {ids} file(s) of ids by row", inputs.display());
    }
    Ok(())
}
