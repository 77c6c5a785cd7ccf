//! Lookup and update over tables far beyond the caches, beside a streaming read of the same memory.

use crate::text::{columns, median};
use anyhow::{Result, ensure};
use clap::ValueEnum;
use kernels::{BagIndex, Buffer, Device, IndexBags, Lookup, Segment, SortedIds, Table, Update, UpdateTables};
use serde_json::{Value, json};
use spec::Pooling;
use spec::optimizer::UpdateRule;
use spec::random::RandomSequence;
use std::time::Instant;

/// Arguments of `bench embedding`.
#[derive(clap::Args)]
pub struct Args {
    /// Number of floats in a row
    #[arg(long, default_value_t = 128)]
    dim: usize,
    /// Number of tables
    #[arg(long, default_value_t = 8)]
    tables: usize,
    /// Size of all tables in gigabytes; far beyond the last-level cache
    #[arg(long, default_value_t = 4.0)]
    gigabytes: f64,
    /// Number of samples looked up at once
    #[arg(long, default_value_t = 16384)]
    batch: usize,
    /// Number of ids in each bag
    #[arg(long, default_value_t = 1)]
    hotness: usize,
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
    /// One number a row
    RowWiseAdagrad,
}

pub fn run(args: Args) -> Result<()> {
    let rows = args.rows()?;
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let mut bench = Bench::new(&args, rows, Device::cpu(threads)?)?;
    let device = bench.device.clone();
    let seconds = device.enter(|| bench.measure(args.rounds))?;
    let speeds = Speeds::new(&bench, &seconds);
    if args.json {
        println!("{}", speeds.to_json(&bench, &seconds, threads));
        return Ok(());
    }
    let Bench { dim, batch, hotness, .. } = bench;
    println!(
        "{} tables × {rows} rows × {dim}, batch {batch}, {hotness} uniform ids a bag, {}, {threads} threads",
        args.tables,
        bench.rule.name()
    );
    print!("{}", speeds.to_text());
    Ok(())
}

impl Args {
    /// Rows of each table. Refuses sizes that cannot be, and tables that do not fit into memory.
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
        let rows = (gigabytes * 1e9 / (4 * dim * tables) as f64) as usize;
        ensure!(
            (1..u32::MAX as usize).contains(&rows),
            "--gigabytes {gigabytes} makes {rows} rows per table; use 1 to 2^32 rows"
        );
        let needed = 1e9 * gigabytes + 8.0 * (batch as f64 * (tables * dim) as f64);
        if let Some(available) = training::available_memory() {
            ensure!(
                needed < available as f64,
                "tables and outputs of {:.1} GB do not fit into the {:.1} GB that are free; lower --gigabytes or --batch",
                needed / 1e9,
                available as f64 / 1e9
            );
        }
        Ok(rows)
    }
}

/// Tables, a batch and room for its results.
struct Bench {
    device: Device,
    rule: UpdateRule,
    dim: usize,
    rows: usize,
    batch: usize,
    hotness: usize,
    tables: Vec<Table>,
    /// First column of each table in the vectors of a sample.
    columns: Vec<usize>,
    /// Ids of all bags, drawn anew every round.
    ids: Buffer<u32>,
    lengths: Vec<u32>,
    segments: Vec<Segment>,
    out: Buffer<f32>,
    gradient: Buffer<f32>,
}

impl Bench {
    fn new(args: &Args, rows: usize, device: Device) -> Result<Self> {
        let Args { dim, tables, batch, hotness, .. } = *args;
        let rule = match args.optimizer {
            Rule::Sgd => UpdateRule::Sgd,
            Rule::RowWiseAdagrad => UpdateRule::RowWiseAdagrad { eps: 1e-8 },
        };
        let segment = |table| Segment {
            table,
            first_sample: 0,
            samples: batch,
            first_value: table * batch * hotness,
            lengths_at: (hotness > 1).then_some(0),
        };
        let width = tables * dim;
        Ok(Self {
            tables: written_tables(&device, tables, (rows, dim), &rule)?,
            columns: (0..tables).map(|table| table * dim).collect(),
            ids: Buffer::zeroed(&device, tables * batch * hotness)?,
            lengths: vec![hotness as u32; batch],
            segments: (0..tables).map(segment).collect(),
            out: Buffer::zeroed(&device, batch * width)?,
            gradient: Buffer::from_slice(&device, &vec![1e-6f32; batch * width])?,
            device,
            rule,
            dim,
            rows,
            batch,
            hotness,
        })
    }

    /// Median seconds of each operation. Operations take turns; a first round is not counted.
    fn measure(&mut self, rounds: usize) -> Result<Seconds> {
        let Self { device, rule, dim, rows, batch, tables: held, columns: columns_of, .. } = self;
        let (tables, batch) = (held.len(), *batch);
        let (width, values) = (tables * *dim, self.ids.len());
        let (mut index, mut sorted) = (BagIndex::new(&*device), SortedIds::new(&*device));
        let mut times = [const { Vec::<f64>::new() }; 4];
        for round in 0..=rounds.max(1) {
            // New ids every round: none of their rows is in a cache.
            let stream = RandomSequence::new(round as u64, "bench.ids");
            let drawn: Vec<u32> =
                (0..values as u64).map(|i| (stream.bits(i) % *rows as u64) as u32).collect();
            self.ids.write(0, &drawn)?;
            device.index_bags(IndexBags {
                tables,
                samples: batch,
                segments: &self.segments,
                lengths: &self.lengths,
                values,
                index: &mut index,
            })?;
            let mut clock = Instant::now();
            let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed().as_secs_f64();
            std::hint::black_box(device.sum(&held[round % tables].weights)?);
            let streaming = lap();
            device.lookup(Lookup {
                tables: held,
                which: 0..tables,
                columns: columns_of,
                width,
                index: &index,
                samples: 0..batch,
                values: &self.ids,
                weights: None,
                out: &mut self.out,
            })?;
            let lookup = lap();
            device.sort_ids(held, &index, &self.ids, &mut sorted)?;
            let sort = lap();
            device.update_tables(UpdateTables {
                tables: held,
                which: 0..tables,
                columns: columns_of,
                width,
                index: &index,
                sorted: &sorted,
                weights: None,
                dout: &self.gradient,
                update: Update::new(*rule, 1e-3, 1),
            })?;
            let update = lap();
            if round > 0 {
                for (times, time) in times.iter_mut().zip([streaming, lookup, sort, update]) {
                    times.push(time);
                }
            }
        }
        let [streaming, lookup, sort, update] = times.each_mut().map(|times| median(times));
        Ok(Seconds { streaming, lookup, sort, update })
    }
}

/// Tables of `(rows, columns)` whose pages are all in memory.
fn written_tables(
    device: &Device,
    tables: usize,
    (rows, dim): (usize, usize),
    rule: &UpdateRule,
) -> Result<Vec<Table>> {
    let ones = vec![1.0f32; 1 << 20];
    let mut held = Vec::with_capacity(tables);
    for _ in 0..tables {
        let mut table = Table::zeroed(device, rows, dim, Pooling::Sum, rule)?;
        // Written, so that every page is really there.
        for at in (0..rows * dim).step_by(ones.len()) {
            let len = ones.len().min(rows * dim - at);
            table.weights.write(at, &ones[..len])?;
        }
        held.push(table);
    }
    Ok(held)
}

/// Median duration of each operation, in seconds.
struct Seconds {
    /// Reading one table from end to end.
    streaming: f64,
    lookup: f64,
    sort: f64,
    /// Updating tables by gradients whose ids are sorted.
    update: f64,
}

/// Memory throughput of each operation, in gigabytes a second.
struct Speeds {
    streaming: f64,
    lookup: f64,
    sort_and_update: f64,
    update: f64,
}

impl Speeds {
    /// Counts the bytes that must move, once: ids and rows in, vectors out; ids, gradients and rows in, rows out.
    fn new(bench: &Bench, seconds: &Seconds) -> Self {
        let row = 4.0 * bench.dim as f64;
        let state = 4.0 * bench.rule.state_per_row(bench.dim) as f64;
        let bags = (bench.tables.len() * bench.batch) as f64;
        let values = bench.ids.len() as f64;
        let lookup_bytes = values * (4.0 + row) + bags * row;
        let update_bytes = values * (4.0 + row + 2.0 * (row + state));
        Self {
            streaming: row * bench.rows as f64 / seconds.streaming / 1e9,
            lookup: lookup_bytes / seconds.lookup / 1e9,
            sort_and_update: update_bytes / (seconds.sort + seconds.update) / 1e9,
            update: update_bytes / seconds.update / 1e9,
        }
    }

    fn to_json(&self, bench: &Bench, seconds: &Seconds, threads: usize) -> Value {
        let Bench { dim, rows, batch, hotness, .. } = bench;
        json!({
            "dim": dim, "tables": bench.tables.len(), "rows": rows, "batch": batch, "hotness": hotness, "threads": threads,
            "optimizer": bench.rule.name(),
            "memory_gbs": self.streaming,
            "lookup_gbs": self.lookup,
            "update_gbs": self.sort_and_update,
            "update_without_sort_gbs": self.update,
            "lookup_ms": 1e3 * seconds.lookup, "sort_ms": 1e3 * seconds.sort, "update_ms": 1e3 * seconds.update,
        })
    }

    fn to_text(&self) -> String {
        let line = |name: &str, gbs: f64| {
            vec![name.to_string(), format!("{gbs:.2}"), format!("{:.0} %", 100.0 * gbs / self.streaming)]
        };
        columns(&[
            ["", "GB/s", "of streaming"].map(String::from).to_vec(),
            line("streaming read", self.streaming),
            line("lookup", self.lookup),
            line("sort + update", self.sort_and_update),
            line("update alone", self.update),
        ])
    }
}
