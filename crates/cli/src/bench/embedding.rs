//! Lookup and update over tables far beyond the caches, beside a stream through the same memory and beside bare loops that
//! read, or change, random rows of the same size.

mod card;
mod host;
mod inputs;

use super::target::Target;
use anyhow::{Result, ensure};
use clap::ValueEnum;
use host::Speeds;
use inputs::Bench;
use kernels::peak::{DeviceMemory, Memory};
use spec::device::DeviceChoice;
use spec::precision::Precisions;
use spec::table_format::TableFormat;

/// Arguments of `bench embedding`.
#[derive(clap::Args)]
#[command(long_about = "Lookup and update of tables far beyond the caches, against the memory bandwidth

Every round draws new ids, so that no row is in a cache, and measures the lookup, the sorting of ids and the update. Speeds count the \
bytes that must move: ids and rows in and vectors out; ids and gradients and different rows in and rows out.

On the CPU they are set against a streaming read and against bare loops over random rows. On a GPU (--device cuda) the caches are \
flushed before every measurement, times are those of events on the device, and speeds are set against a copy within the card and \
against kernels that only read, or only read and write, the same rows. There all tables are looked up and updated by one launch; one \
launch for each table is measured beside it, which is the comparison of Neo's paper.")]
#[command(after_help = "Examples:
  campanile bench embedding --dim 64 --hotness 4 --zipf 1.05
  campanile bench embedding --device cuda --tables 64 --rows 1000000 --hotness 32 --batch 2048
  campanile bench embedding --device cuda --tables 26 --rows 1000000 --batch 65536 --optimizer row-wise-adagrad --json")]
pub struct Args {
    /// Device to measure: cpu, cuda, cuda:1 (another GPU) or auto (a GPU where `campanile doctor` finds what it needs, else the CPU)
    #[arg(long, value_name = "cpu|cuda[:INDEX]|auto", default_value_t)]
    device: DeviceChoice,
    /// Number of floats in a row
    #[arg(long, default_value_t = 128)]
    dim: usize,
    /// Number of tables
    #[arg(long, default_value_t = 8)]
    tables: usize,
    /// Number format of the tables: f32, f16, bf16 or int8; with a format other than f32, tables of f32 with as many rows are looked up and
    /// updated in turns with them (CPU only)
    #[arg(long, value_name = "f32|f16|bf16|int8", default_value_t)]
    format: TableFormat,
    /// Size of all tables in gigabytes; far beyond the last-level cache
    #[arg(long, default_value_t = 4.0)]
    gigabytes: f64,
    /// Number of rows of each table, instead of --gigabytes [default: by --gigabytes]
    #[arg(long, value_name = "N", conflicts_with = "gigabytes")]
    rows: Option<usize>,
    /// Number of samples looked up at once
    #[arg(long, default_value_t = 16384)]
    batch: usize,
    /// Number of ids in each bag
    #[arg(long, default_value_t = 1)]
    hotness: usize,
    /// Exponent of a power law of ids: the k-th most frequent has a probability of about k^-ZIPF; 0 is uniform
    #[arg(long, default_value_t = 0.0)]
    zipf: f64,
    /// Average the rows of a bag instead of adding them up
    #[arg(long)]
    mean: bool,
    /// Give every id a weight
    #[arg(long)]
    weighted: bool,
    /// Update rule
    #[arg(long, value_enum, default_value_t = Rule::Sgd)]
    optimizer: Rule,
    /// Number of threads [default: all cores]
    #[arg(long)]
    threads: Option<usize>,
    /// Number of interleaved repetitions of each measurement
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Update rules that can be measured.
#[derive(Clone, Copy, ValueEnum)]
enum Rule {
    /// No state
    Sgd,
    /// One number a weight
    Adagrad,
    /// One number a row
    RowWiseAdagrad,
    /// Two numbers a weight
    Adam,
}

/// Most bytes of the memory that bare loops run over.
const BARE: f64 = 1e9;

pub fn run(args: Args) -> Result<()> {
    let rows = args.rows()?;
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let target = Target::new(args.device, &Precisions::default(), threads)?;
    target.check_memory(args.bytes(rows, target.is_gpu()), "--gigabytes, --rows, --tables or --batch")?;
    let mut bench = Bench::new(&args, rows, target.device.clone())?;
    let (record, text) = match target.is_gpu() {
        true => {
            let memory = DeviceMemory::new(&target.device, args.bare_bytes(rows) as usize)?;
            let measured = card::measure(&mut bench, memory, args.rounds)?;
            (measured.to_json(&bench), measured.to_text(&bench))
        }
        false => {
            let memory = Memory::new(args.bare_bytes(rows) as usize, threads)?;
            let seconds = host::measure(&mut bench, memory, args.rounds)?;
            let speeds = Speeds::new(&bench, &seconds);
            (speeds.to_json(&bench, &seconds), speeds.to_text(&bench, &seconds))
        }
    };
    if args.json {
        println!("{}", target.record(record));
        return Ok(());
    }
    let Bench { dim, batch, hotness, .. } = bench;
    println!(
        "{} tables × {rows} rows × {dim}, batch {batch}, {hotness} {} ids a bag, {}, {}",
        args.tables,
        if args.zipf == 0.0 { "uniform".to_string() } else { format!("zipf {}", args.zipf) },
        bench.rule.name(),
        target.described()
    );
    print!("{text}");
    Ok(())
}

impl Args {
    /// Rows of each table. Refuses sizes that cannot be.
    fn rows(&self) -> Result<usize> {
        let Args { dim, tables, batch, hotness, gigabytes, .. } = *self;
        ensure!(
            dim > 0 && tables > 0 && batch > 0 && hotness > 0,
            "--dim, --tables, --batch and --hotness are at least 1"
        );
        ensure!(
            gigabytes > 0.0 && gigabytes < 1e6,
            "--gigabytes {gigabytes}: expected a number above 0 and below 1000000"
        );
        let ids = [tables, batch, hotness].iter().try_fold(1usize, |all, &n| all.checked_mul(n));
        ensure!(
            ids.is_some_and(|ids| ids < u32::MAX as usize),
            "--tables × --batch × --hotness: at most 2^32 ids are looked up at once; lower one of them"
        );
        let limit = 1..u32::MAX as usize;
        let rows = match self.rows {
            Some(rows) => {
                ensure!(limit.contains(&rows), "--rows {rows}: use 1 to 2^32 rows");
                rows
            }
            None => {
                let rows = (gigabytes * 1e9 / (self.format.row_bytes(dim) * tables) as f64) as usize;
                ensure!(
                    limit.contains(&rows),
                    "--gigabytes {gigabytes} makes {rows} rows per table; use 1 to 2^32 rows"
                );
                rows
            }
        };
        ensure!(
            !self.format.rounds() || self.device == DeviceChoice::Cpu,
            "--format {}: tables of other formats than f32 are measured on the CPU only; leave out --device",
            self.format
        );
        ensure!((0.0..=16.0).contains(&self.zipf), "--zipf {}: expected a number from 0 to 16", self.zipf);
        Ok(rows)
    }

    /// Bytes of all tables, and of those of f32 beside them.
    fn table_bytes(&self, rows: usize) -> f64 {
        let beside = if self.format.rounds() { TableFormat::F32.row_bytes(self.dim) } else { 0 };
        (self.format.row_bytes(self.dim) + beside) as f64 * self.tables as f64 * rows as f64
    }

    /// Bytes of the memory that bare loops run over.
    fn bare_bytes(&self, rows: usize) -> f64 {
        BARE.min(self.table_bytes(rows))
    }

    /// Bytes that all of it needs.
    fn bytes(&self, rows: usize, on_gpu: bool) -> f64 {
        let state = match self.optimizer {
            Rule::Sgd | Rule::RowWiseAdagrad => 0.0,
            Rule::Adagrad => 1.0,
            Rule::Adam => 2.0,
        };
        let bags = self.batch as f64 * self.tables as f64;
        // Ids, keys of bare rows, sorted ids and the room in which they are sorted.
        let ids = if on_gpu { 48.0 * bags * self.hotness as f64 } else { 0.0 };
        // State is f32 in both sets of tables.
        let sets = if self.format.rounds() { 2.0 } else { 1.0 };
        let state = sets * state * 4.0 * self.dim as f64 * self.tables as f64 * rows as f64;
        self.table_bytes(rows) + state + self.bare_bytes(rows) + 8.0 * bags * self.dim as f64 + ids
    }
}

#[cfg(test)]
mod tests;
