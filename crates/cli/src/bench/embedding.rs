//! Lookup and update over tables far beyond the caches, beside a streaming read of the same memory.

use crate::text::{columns, median};
use anyhow::{Result, ensure};
use clap::ValueEnum;
use kernels::{BagIndex, Buffer, Device, Segment, SortedIds, Table};
use serde_json::json;
use spec::Pooling;
use spec::optimizer::UpdateRule;
use spec::random::Stream;
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    /// Floats in a row
    #[arg(long, default_value_t = 128)]
    dim: usize,
    /// Tables
    #[arg(long, default_value_t = 8)]
    tables: usize,
    /// Gigabytes in all tables; far beyond the last-level cache
    #[arg(long, default_value_t = 4.0)]
    gigabytes: f64,
    /// Samples looked up at once
    #[arg(long, default_value_t = 16384)]
    batch: usize,
    /// Ids in each bag
    #[arg(long, default_value_t = 1)]
    hotness: usize,
    /// Update rule
    #[arg(long, value_enum, default_value_t = Rule::Sgd)]
    optimizer: Rule,
    /// Threads [default: all cores]
    #[arg(long)]
    threads: Option<usize>,
    /// Interleaved repetitions of each measurement
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Rule {
    /// No state
    Sgd,
    /// One number a row
    RowWiseAdagrad,
}

pub fn run(args: Args) -> Result<()> {
    let Args { dim, tables, batch, hotness, .. } = args;
    ensure!(
        dim > 0 && tables > 0 && batch > 0 && hotness > 0,
        "--dim, --tables, --batch and --hotness are at least 1"
    );
    ensure!(
        args.gigabytes > 0.0 && args.gigabytes < 1e6,
        "--gigabytes {} is no amount of memory",
        args.gigabytes
    );
    let rows = (args.gigabytes * 1e9 / (4 * dim * tables) as f64) as usize;
    ensure!(
        (1..u32::MAX as usize).contains(&rows),
        "--gigabytes {} gives {rows} rows a table",
        args.gigabytes
    );
    let needed = 1e9 * args.gigabytes + 8.0 * (batch as f64 * (tables * dim) as f64);
    if let Some(available) = training::available_memory() {
        ensure!(
            needed < available as f64,
            "tables and outputs of {:.1} GB do not fit into the {:.1} GB that are free; lower --gigabytes or --batch",
            needed / 1e9,
            available as f64 / 1e9
        );
    }
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let device = Device::cpu(threads)?;
    let rule = match args.optimizer {
        Rule::Sgd => UpdateRule::Sgd,
        Rule::RowWiseAdagrad => UpdateRule::RowWiseAdagrad { eps: 1e-8 },
    };

    let mut held = Vec::with_capacity(tables);
    let ones = vec![1.0f32; 1 << 20];
    for _ in 0..tables {
        let mut table = Table::zeroed(&device, rows, dim, Pooling::Sum, &rule)?;
        // Written, so that every page is really there.
        for at in (0..rows * dim).step_by(ones.len()) {
            let len = ones.len().min(rows * dim - at);
            table.weights.write(at, &ones[..len]);
        }
        held.push(table);
    }
    let width = tables * dim;
    let columns_of: Vec<usize> = (0..tables).map(|t| t * dim).collect();
    let values = tables * batch * hotness;
    let mut ids = Buffer::zeroed(&device, values)?;
    let lengths = Buffer::from_slice(&device, &vec![hotness as u32; batch])?;
    let segments: Vec<Segment> = (0..tables)
        .map(|table| Segment {
            table,
            first_sample: 0,
            samples: batch,
            first_value: table * batch * hotness,
            lengths_at: (hotness > 1).then_some(0),
        })
        .collect();
    let mut out = Buffer::zeroed(&device, batch * width)?;
    let gradient = Buffer::from_slice(&device, &vec![1e-6f32; batch * width])?;
    let (mut index, mut sorted) = (BagIndex::default(), SortedIds::default());

    let mut times = [const { Vec::<f64>::new() }; 4];
    device.enter(|| -> Result<()> {
        for round in 0..=args.rounds.max(1) {
            // New ids every round: none of their rows is in a cache.
            let stream = Stream::new(round as u64, "bench.ids");
            let drawn: Vec<u32> = (0..values as u64).map(|i| (stream.bits(i) % rows as u64) as u32).collect();
            ids.write(0, &drawn);
            device.index_bags(tables, batch, &segments, &lengths, values, &mut index)?;
            let mut clock = Instant::now();
            let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed().as_secs_f64();
            std::hint::black_box(device.sum(&held[round % tables].weights));
            let streamed = lap();
            device.lookup(&held, 0..tables, &columns_of, width, &index, 0..batch, &ids, None, &mut out)?;
            let looked_up = lap();
            device.sort_ids(&held, &index, &ids, &mut sorted)?;
            let sorted_in = lap();
            device.update_tables(
                &mut held,
                0..tables,
                &columns_of,
                width,
                &index,
                &sorted,
                None,
                &gradient,
                &rule,
                1e-3,
                1,
            )?;
            let updated = lap();
            if round > 0 {
                for (times, time) in times.iter_mut().zip([streamed, looked_up, sorted_in, updated]) {
                    times.push(time);
                }
            }
        }
        Ok(())
    })?;
    let [streamed, looked_up, sorted_in, updated] = times.each_mut().map(|times| median(times));

    // What must move, once: ids and rows in, vectors out; ids, gradients and rows in, rows out.
    let row = 4.0 * dim as f64;
    let state = 4.0 * rule.state_per_row(dim) as f64;
    let bags = (tables * batch) as f64;
    let lookup_bytes = values as f64 * (4.0 + row) + bags * row;
    let update_bytes = values as f64 * (4.0 + row + 2.0 * (row + state));
    let memory_gbs = row * rows as f64 / streamed / 1e9;
    let lookup_gbs = lookup_bytes / looked_up / 1e9;
    let update_gbs = update_bytes / (sorted_in + updated) / 1e9;
    if args.json {
        let result = json!({
            "dim": dim, "tables": tables, "rows": rows, "batch": batch, "hotness": hotness, "threads": threads,
            "optimizer": rule.name(),
            "memory_gbs": memory_gbs,
            "lookup_gbs": lookup_gbs,
            "update_gbs": update_gbs,
            "update_without_sort_gbs": update_bytes / updated / 1e9,
            "lookup_ms": 1e3 * looked_up, "sort_ms": 1e3 * sorted_in, "update_ms": 1e3 * updated,
        });
        println!("{result}");
        return Ok(());
    }
    println!(
        "{tables} tables × {rows} rows × {dim}, batch {batch}, {hotness} uniform ids a bag, {}, {threads} threads",
        rule.name()
    );
    let line = |name: &str, gbs: f64| {
        vec![name.to_string(), format!("{gbs:.2}"), format!("{:.0} %", 100.0 * gbs / memory_gbs)]
    };
    print!(
        "{}",
        columns(&[
            ["", "GB/s", "of streaming"].map(String::from).to_vec(),
            line("streaming read", memory_gbs),
            line("lookup", lookup_gbs),
            line("sort + update", update_gbs),
            line("update alone", update_bytes / updated / 1e9),
        ])
    );
    Ok(())
}
