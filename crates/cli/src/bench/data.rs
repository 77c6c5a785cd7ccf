//! Reading: how fast text is parsed, and how fast a prepared log fills batches.

use crate::text::{columns, median};
use ::data::bad_lines::{BadLines, Policy};
use ::data::delimited::{LineLayout, Scratch};
use ::data::lines::{CHUNK, Chunk, Chunks};
use ::data::prepare::{self, RawLog};
use ::data::prepared::PreparedLog;
use ::data::shuffle::Shuffle;
use ::data::{Batch, Samples};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use spec::feature::Feature;
use spec::presets::Preset;
use spec::random::RandomSequence;
use spec::run::DataFormat;
use spec::schema::Schema;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    /// Criteo log, not compressed [default: one is made up]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Number of lines of the generated log
    #[arg(long, default_value_t = 200_000)]
    lines: u64,
    /// Number of samples of a batch
    #[arg(long, default_value_t = 2048)]
    batch: usize,
    /// Number of repetitions; medians are reported
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> Result<()> {
    ensure!(args.rounds >= 1 && args.batch >= 1, "--rounds and --batch: at least 1");
    ensure!((1_000..=100_000_000).contains(&args.lines), "--lines {}: 1000 to 100000000", args.lines);
    let scratch = tempfile::tempdir().context("a folder for the log")?;
    let file = match &args.data {
        Some(file) => file.clone(),
        None => {
            let file = scratch.path().join("criteo.tsv");
            std::fs::write(&file, made_up(args.lines)).with_context(|| file.display().to_string())?;
            file
        }
    };
    let schema = Schema::criteo();
    let layout = LineLayout::new(&schema, &file, None)?;
    let chunks = chunks(&file)?;
    let bytes: usize = chunks.iter().map(|chunk| chunk.bytes.len()).sum();
    let folder = scratch.path().join("prepared");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let files = [file.clone()];
    let policy = Policy::default();
    let format = DataFormat::CriteoTsv;
    let (memory, reading) = (1 << 30, Default::default());
    let raw = RawLog {
        format,
        files: &files,
        table: None,
        schema: &schema,
        policy,
        threads,
        memory,
        stop: None,
        reading,
    };

    let features: Vec<Feature> = Preset::Kaggle.outline().features();
    let mut times = [const { Vec::new() }; 4];
    let mut samples = 0;
    for _ in 0..args.rounds {
        times[0].push(seconds(|| parse(&layout, &chunks, &schema))?);
        times[1].push(seconds(|| {
            samples = prepare::prepare(&raw, &folder, None, &|_| ())?.samples;
            Ok(())
        })?);
        let log = Arc::new(PreparedLog::open(&folder)?);
        times[2].push(seconds(|| fill(&log, &features, args.batch, None))?);
        let shuffle = Shuffle { seed: 1, epoch: 0, window: 1 << 16 };
        times[3].push(seconds(|| fill(&log, &features, args.batch, Some(&shuffle)))?);
    }
    let [parse, prepare, fill, shuffled] = times.map(|mut times| median(&mut times));
    let (megabytes, samples) = (bytes as f64 / 1e6, samples as f64);
    if args.json {
        let result = json!({
            "parse_mbs_per_core": megabytes / parse,
            "parse_samples_per_s": samples / parse,
            "prepare_mbs": megabytes / prepare,
            "prepare_threads": threads,
            "fill_samples_per_s": samples / fill,
            "fill_shuffled_samples_per_s": samples / shuffled,
            "megabytes": megabytes,
            "samples": samples,
            "rounds": args.rounds,
        });
        println!("{result}");
        return Ok(());
    }
    let row = |name: &str, megabytes: Option<f64>, seconds: f64| {
        let rate = megabytes.map_or("–".into(), |mb| format!("{:.0}", mb / seconds));
        vec![name.to_owned(), rate, format!("{:.2}", samples / seconds / 1e6)]
    };
    println!("{megabytes:.1} MB of Criteo text, {samples:.0} samples; median of {} rounds", args.rounds);
    print!(
        "{}",
        columns(&[
            ["", "MB/s", "M samples/s"].map(String::from).to_vec(),
            row("parse, one thread, text in memory", Some(megabytes), parse),
            row(&format!("prepare, {threads} parsing threads, file to file"), Some(megabytes), prepare),
            row("batches from the prepared log, one thread", None, fill),
            row("the same, shuffled in windows of 65536", None, shuffled),
        ])
    );
    Ok(())
}

fn seconds(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed().as_secs_f64())
}

/// The log in memory, cut into chunks of lines.
fn chunks(file: &Path) -> Result<Vec<Chunk>> {
    let mut chunks = Chunks::new(::data::files::open(file, 1 << 30, Default::default())?, file, CHUNK);
    let mut all = Vec::new();
    loop {
        let mut chunk = Chunk::default();
        if !chunks.next(&mut chunk)? {
            return Ok(all);
        }
        all.push(chunk);
    }
}

fn parse(layout: &LineLayout, chunks: &[Chunk], schema: &Schema) -> Result<()> {
    let (mut scratch, mut bad) = (Scratch::default(), BadLines::default());
    let mut samples = Samples::of(schema);
    for chunk in chunks {
        samples.clear();
        layout.parse(&mut scratch, chunk, &mut samples, &mut bad);
        std::hint::black_box(&samples);
    }
    ensure!(bad.count == 0, "{} bad lines in the log; the first: {}", bad.count, bad.first[0]);
    Ok(())
}

fn fill(log: &Arc<PreparedLog>, features: &[Feature], size: usize, shuffle: Option<&Shuffle>) -> Result<()> {
    let mut bound = log.clone().bind(features, log.manifest().dense.len())?;
    let mut batch = Batch::default();
    let mut at = 0;
    while at < bound.len() {
        let samples = at..(at + size as u64).min(bound.len());
        at = samples.end;
        match shuffle {
            None => bound.fill(samples, &mut batch)?,
            Some(shuffle) => bound.fill_shuffled(samples, shuffle, &mut batch)?,
        }
        std::hint::black_box(&batch);
    }
    Ok(())
}

/// A log with the shape of Criteo's: counts that are mostly small, ids of eight hexadecimal digits, some fields missing.
fn made_up(lines: u64) -> String {
    let stream = RandomSequence::new(1, "bench.data");
    let mut text = String::with_capacity(lines as usize * 250);
    for line in 0..lines {
        let value = |column: u64| stream.bits(40 * line + column);
        let _ = write!(text, "{}", u64::from(value(0) % 4 == 0));
        for column in 1..14 {
            text.push('\t');
            let bits = value(column);
            if bits % 5 > 0 {
                // Two in three below 32, a few up to 2²⁰.
                let digits = if bits & 48 == 0 { 20 } else { 5 };
                let _ = write!(text, "{}", (bits >> 32) & ((1 << digits) - 1));
            }
        }
        for column in 14..40 {
            text.push('\t');
            let bits = value(column);
            if bits % 10 > 0 {
                let _ = write!(text, "{:08x}", (bits >> 32) as u32);
            }
        }
        text.push('\n');
    }
    text
}
