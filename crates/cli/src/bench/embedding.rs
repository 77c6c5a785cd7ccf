//! Lookup and update over tables far beyond the caches, beside a streaming read of the same memory and beside bare loops that
//! read, or change, random rows of the same size.

use crate::text::{columns, median};
use anyhow::{Result, ensure};
use clap::ValueEnum;
use kernels::peak::Memory;
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

/// Most bytes of the table that bare loops run over.
const BARE: f64 = 1e9;

pub fn run(args: Args) -> Result<()> {
    let rows = args.rows()?;
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let mut bench = Bench::new(&args, rows, Device::cpu(threads)?, threads)?;
    let device = bench.device.clone();
    let seconds = device.enter(|| bench.measure(args.rounds))?;
    let speeds = Speeds::new(&bench, &seconds);
    if args.json {
        println!("{}", speeds.to_json(&bench, &seconds, threads));
        return Ok(());
    }
    let Bench { dim, batch, hotness, .. } = bench;
    println!(
        "{} tables × {rows} rows × {dim}, batch {batch}, {hotness} {} ids a bag, {}, {threads} threads",
        args.tables,
        if args.zipf == 0.0 { "uniform".to_string() } else { format!("zipf {}", args.zipf) },
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
        ensure!((0.0..=16.0).contains(&self.zipf), "--zipf {}: expected a number from 0 to 16", self.zipf);
        let state = match self.optimizer {
            Rule::Sgd | Rule::RowWiseAdagrad => 0.0,
            Rule::Adagrad => 1.0,
            Rule::Adam => 2.0,
        };
        let bytes = 1e9 * gigabytes;
        let needed = bytes * (1.0 + state) + BARE.min(bytes) + 8.0 * (batch as f64 * (tables * dim) as f64);
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
    zipf: f64,
    /// Weight of each id, where ids have weights.
    weights: Option<Buffer<f32>>,
    /// Rows that are read and changed by bare loops.
    bare: Memory,
    lengths: Vec<u32>,
    segments: Vec<Segment>,
    out: Buffer<f32>,
    gradient: Buffer<f32>,
}

impl Bench {
    fn new(args: &Args, rows: usize, device: Device, threads: usize) -> Result<Self> {
        let Args { dim, tables, batch, hotness, .. } = *args;
        let rule = match args.optimizer {
            Rule::Sgd => UpdateRule::Sgd,
            Rule::Adagrad => UpdateRule::Adagrad { eps: 1e-8 },
            Rule::Adam => UpdateRule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 },
            Rule::RowWiseAdagrad => UpdateRule::RowWiseAdagrad { eps: 1e-8 },
        };
        let segment = |table| Segment {
            table,
            first_sample: 0,
            samples: batch,
            first_value: table * batch * hotness,
            lengths_at: (hotness > 1).then_some(0),
        };
        let (width, ids) = (tables * dim, tables * batch * hotness);
        let pooling = if args.mean { Pooling::Mean } else { Pooling::Sum };
        let weights = || Buffer::from_slice(&device, &vec![0.5f32; ids]);
        Ok(Self {
            bare: Memory::new(BARE.min(1e9 * args.gigabytes) as usize, threads)?,
            zipf: args.zipf,
            weights: args.weighted.then(weights).transpose()?,
            tables: written_tables(&device, tables, (rows, dim), pooling, &rule)?,
            columns: (0..tables).map(|table| table * dim).collect(),
            ids: Buffer::zeroed(&device, ids)?,
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

    /// Ids of a round.
    fn draw(&self, round: usize) -> Vec<u32> {
        let (numbers, rows) = (RandomSequence::new(round as u64, "bench.ids"), self.rows);
        let uniform = |i: u64| (numbers.bits(i) % rows as u64) as u32;
        match self.zipf == 0.0 {
            true => (0..self.ids.len() as u64).map(uniform).collect(),
            false => {
                (0..self.ids.len() as u64).map(|i| zipf_row(numbers.unit_f64(i), rows, self.zipf)).collect()
            }
        }
    }

    /// Number of different rows in all tables that some ids name.
    fn distinct(&self, ids: &[u32]) -> usize {
        let each = self.batch * self.hotness;
        let of_table = |ids: &[u32]| {
            let mut ids = ids.to_vec();
            ids.sort_unstable();
            ids.dedup();
            ids.len()
        };
        ids.chunks(each.max(1)).map(of_table).sum()
    }

    /// Medians of all measurements, which take turns; a first round is not counted.
    fn measure(&mut self, rounds: usize) -> Result<Seconds> {
        let (tables, batch, values) = (self.tables.len(), self.batch, self.ids.len());
        let width = tables * self.dim;
        let (mut index, mut sorted) = (BagIndex::new(&self.device), SortedIds::new(&self.device));
        let mut times = [const { Vec::<f64>::new() }; 7];
        for round in 0..=rounds.max(1) {
            // New ids every round: none of their rows is in a cache.
            let drawn = self.draw(round);
            self.ids.write(0, &drawn)?;
            let distinct = self.distinct(&drawn) as f64;
            let (gather, change) = (self.bare.gather(4 * self.dim), self.bare.update(4 * self.dim));
            let device = &self.device;
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
            std::hint::black_box(device.sum(&self.tables[round % tables].weights)?);
            let streaming = lap();
            device.lookup(Lookup {
                tables: &self.tables,
                which: 0..tables,
                columns: &self.columns,
                width,
                index: &index,
                samples: 0..batch,
                values: &self.ids,
                weights: self.weights.as_ref(),
                out: &mut self.out,
            })?;
            let lookup = lap();
            device.sort_ids(&self.tables, &index, &self.ids, &mut sorted)?;
            let sort = lap();
            device.update_tables(UpdateTables {
                tables: &mut self.tables,
                which: 0..tables,
                columns: &self.columns,
                width,
                index: &index,
                sorted: &sorted,
                weights: self.weights.as_ref(),
                dout: &self.gradient,
                update: Update::new(self.rule, 1e-3, 1),
            })?;
            let update = lap();
            if round > 0 {
                let now = [streaming, lookup, sort, update, gather, change, distinct];
                times.iter_mut().zip(now).for_each(|(times, time)| times.push(time));
            }
        }
        let [streaming, lookup, sort, update, gather, change, distinct] =
            times.each_mut().map(|times| median(times));
        Ok(Seconds { streaming, lookup, sort, update, gather, change, distinct })
    }
}

/// Row of a table of `rows` rows, of which the k-th most frequent has a probability of about `k^-exponent`, for a random number
/// of `[0, 1)`. Frequent rows do not lie together.
fn zipf_row(number: f64, rows: usize, exponent: f64) -> u32 {
    // The law's integral, inverted.
    let power = 1.0 - exponent;
    let rank = match power.abs() < 1e-9 {
        true => ((rows as f64 + 1.0).ln() * number).exp(),
        false => (1.0 + number * ((rows as f64 + 1.0).powf(power) - 1.0)).powf(1.0 / power),
    };
    let rank = (rank as u64).clamp(1, rows as u64) - 1;
    (rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % rows as u64) as u32
}

/// Tables of `(rows, columns)` whose pages are all in memory.
fn written_tables(
    device: &Device,
    tables: usize,
    (rows, dim): (usize, usize),
    pooling: Pooling,
    rule: &UpdateRule,
) -> Result<Vec<Table>> {
    let ones = vec![1.0f32; 1 << 20];
    let mut held = Vec::with_capacity(tables);
    for _ in 0..tables {
        let mut table = Table::zeroed(device, rows, dim, pooling, rule)?;
        // Written, so that every page is really there.
        for at in (0..rows * dim).step_by(ones.len()) {
            let len = ones.len().min(rows * dim - at);
            table.weights.write(at, &ones[..len])?;
        }
        held.push(table);
    }
    Ok(held)
}

/// Medians of all rounds: seconds of operations, bytes a second of bare loops.
struct Seconds {
    /// Seconds of reading one table from end to end.
    streaming: f64,
    lookup: f64,
    sort: f64,
    /// Seconds of updating tables by gradients whose ids are sorted.
    update: f64,
    /// Bytes a second of random rows that are read.
    gather: f64,
    /// Bytes a second of random rows that are changed.
    change: f64,
    /// Number of different rows that the ids name.
    distinct: f64,
}

/// Memory throughput of each operation, in gigabytes a second.
struct Speeds {
    streaming: f64,
    lookup: f64,
    sort_and_update: f64,
    update: f64,
    gather: f64,
    change: f64,
}

impl Speeds {
    /// Counts the bytes that must move, once: ids and rows in, vectors out; ids, gradients and different rows in, rows out.
    fn new(bench: &Bench, seconds: &Seconds) -> Self {
        let row = 4.0 * bench.dim as f64;
        let state = 4.0 * bench.rule.state_per_row(bench.dim) as f64;
        let bags = (bench.tables.len() * bench.batch) as f64;
        let values = bench.ids.len() as f64;
        let lookup_bytes = values * (4.0 + row) + bags * row;
        let update_bytes = values * (4.0 + row) + seconds.distinct * 2.0 * (row + state);
        Self {
            streaming: row * bench.rows as f64 / seconds.streaming / 1e9,
            lookup: lookup_bytes / seconds.lookup / 1e9,
            sort_and_update: update_bytes / (seconds.sort + seconds.update) / 1e9,
            update: update_bytes / seconds.update / 1e9,
            gather: seconds.gather / 1e9,
            change: seconds.change / 1e9,
        }
    }

    fn to_json(&self, bench: &Bench, seconds: &Seconds, threads: usize) -> Value {
        let Bench { dim, rows, batch, hotness, zipf, .. } = bench;
        json!({
            "dim": dim, "tables": bench.tables.len(), "rows": rows, "batch": batch, "hotness": hotness, "threads": threads,
            "optimizer": bench.rule.name(), "zipf": zipf,
            "pooling": bench.tables[0].pooling, "weighted": bench.weights.is_some(),
            "memory_gbs": self.streaming,
            "gather_gbs": self.gather,
            "read_modify_write_gbs": self.change,
            "lookup_gbs": self.lookup,
            "update_gbs": self.sort_and_update,
            "update_without_sort_gbs": self.update,
            "lookup_of_gather": self.lookup / self.gather,
            "update_of_read_modify_write": self.sort_and_update / self.change,
            "update_without_sort_of_read_modify_write": self.update / self.change,
            "lookup_ms": 1e3 * seconds.lookup, "sort_ms": 1e3 * seconds.sort, "update_ms": 1e3 * seconds.update,
        })
    }

    fn to_text(&self) -> String {
        let line = |name: &str, gbs: f64, bare: f64| {
            let percent = |of: f64| format!("{:.0} %", 100.0 * gbs / of);
            vec![name.to_string(), format!("{gbs:.2}"), percent(self.streaming), percent(bare)]
        };
        columns(&[
            ["", "GB/s", "of streaming", "of bare rows"].map(String::from).to_vec(),
            line("streaming read", self.streaming, self.gather),
            line("random rows read", self.gather, self.gather),
            line("lookup", self.lookup, self.gather),
            line("random rows changed", self.change, self.change),
            line("sort + update", self.sort_and_update, self.change),
            line("update alone", self.update, self.change),
        ])
    }
}
