//! `campanile data prepare`.

use super::LogArgs;
use crate::logs::{self, Raw};
use crate::output::{Inputs, Output};
use crate::text::{bytes, si};
use anyhow::{Result, bail, ensure};
use data::prepare::{self, RawLog};
use data::prepared::{INDEX, MANIFEST, PreparedLog, SAMPLES};
use serde_json::json;
use spec::run::DataFormat;
use std::path::PathBuf;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    log: LogArgs,
    /// The folder to write; must be new, empty, or a prepared log
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Use the vocabularies of this prepared log, as evaluation data must those of the training data
    #[arg(long, value_name = "DIR")]
    vocabularies_of: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<()> {
    if matches!(args.log.format, DataFormat::Prepared | DataFormat::Synthetic) {
        bail!("--format {}: there is nothing to prepare", args.log.format.name());
    }
    let mut inputs = Inputs::default();
    inputs.add_log(&args.log.data).add_all(&args.log.schema).add_all(&args.vocabularies_of);
    Output::check_folder(&args.out, &inputs)?;
    // What an earlier command left, finished or not, may be replaced.
    let ours = |name: &str| {
        name.starts_with(MANIFEST) || [SAMPLES, INDEX].contains(&name) || name.starts_with("vocabulary-")
    };
    let mut entries = args.out.read_dir().into_iter().flatten().flatten();
    if let Some(other) = entries.find(|entry| !entry.file_name().to_str().is_some_and(ours)) {
        bail!("{}: holds something else, {:?}; choose a new folder", args.out.display(), other.file_name());
    }
    let raw = Raw::of(&args.log.config()?, &args.log.data)?;
    let like = match &args.vocabularies_of {
        Some(folder) => {
            let log = PreparedLog::open(folder)?;
            ensure!(
                log.manifest().schema.sparse == raw.schema.sparse,
                "{}: its columns of ids are not those of this schema",
                folder.display()
            );
            Some(prepare::vocabularies(&log)?)
        }
        None => None,
    };
    let began = Instant::now();
    let stop = crate::signals::stop_on_signals()?;
    let log = RawLog { stop: Some(&stop), ..raw.log(args.log.memory) };
    let manifest = logs::with_progress("preparing", |progress| {
        prepare::prepare(&log, &args.out, like.as_deref(), progress)
    });
    let manifest = stop.ended(manifest)?;
    let seconds = began.elapsed().as_secs_f64();
    let read: u64 = manifest.source.files.iter().map(|file| file.bytes).sum();
    if args.json {
        let result = json!({
            "folder": args.out,
            "samples": manifest.samples,
            "clicks": manifest.clicks,
            "bad_lines": manifest.bad_lines.count,
            "bytes_read": read,
            "bytes_written": manifest.files.samples.bytes,
            "seconds": seconds,
        });
        println!("{result}");
        return Ok(());
    }
    println!(
        "{}: {} samples, click rate {:.4}, {} columns of numbers and {} of ids; {} from {}, {seconds:.1} s",
        args.out.display(),
        si(manifest.samples as f64),
        manifest.clicks as f64 / manifest.samples.max(1) as f64,
        manifest.dense.len(),
        manifest.features.len(),
        bytes(manifest.files.samples.bytes),
        bytes(read)
    );
    Ok(())
}
