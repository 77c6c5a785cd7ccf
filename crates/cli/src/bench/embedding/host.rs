//! Measurements on the CPU: by the clock of the host, beside bare loops over memory of their own.

use super::inputs::Bench;
use crate::text::{columns, median};
use anyhow::Result;
use kernels::peak::Memory;
use kernels::{BagIndex, SortedIds};
use serde_json::{Value, json};
use std::time::Instant;

/// Medians of all measurements, which take turns; a first round is not counted.
pub(super) fn measure(bench: &mut Bench, mut bare: Memory, rounds: usize) -> Result<Seconds> {
    let tables = bench.tables.len();
    let (mut index, mut sorted) = (BagIndex::new(&bench.device), SortedIds::new(&bench.device));
    let mut times = [const { Vec::<f64>::new() }; 9];
    for round in 0..=rounds.max(1) {
        // New ids every round: none of their rows is in a cache.
        let drawn = bench.draw(round);
        bench.ids.write(0, &drawn)?;
        let distinct = bench.distinct(&drawn).len() as f64;
        let row_bytes = bench.format.row_bytes(bench.dim);
        let (gather, change) = (bare.gather(row_bytes), bare.update(row_bytes));
        bench.index(&mut index)?;
        let mut clock = Instant::now();
        let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed().as_secs_f64();
        let streamed = if bench.format.rounds() { &bench.beside } else { &bench.tables };
        if let Some(floats) = streamed[round % tables].weights.floats() {
            std::hint::black_box(bench.device.sum(floats)?);
        }
        let streaming = lap();
        bench.look_up(0..tables, &index)?;
        let lookup = lap();
        bench.sort(&index, &mut sorted)?;
        let sort = lap();
        bench.update(0..tables, &index, &sorted)?;
        let update = lap();
        let (mut lookup_f32, mut update_f32) = (lookup, update);
        if bench.format.rounds() {
            bench.swap();
            lap();
            bench.look_up(0..tables, &index)?;
            lookup_f32 = lap();
            bench.update(0..tables, &index, &sorted)?;
            update_f32 = lap();
            bench.swap();
        }
        if round > 0 {
            let now = [streaming, lookup, sort, update, gather, change, distinct, lookup_f32, update_f32];
            times.iter_mut().zip(now).for_each(|(times, time)| times.push(time));
        }
    }
    let [streaming, lookup, sort, update, gather, change, distinct, lookup_f32, update_f32] =
        times.each_mut().map(|times| median(times));
    Ok(Seconds { streaming, lookup, sort, update, gather, change, distinct, lookup_f32, update_f32 })
}

/// Medians of all rounds: seconds of operations, bytes a second of bare loops.
pub(super) struct Seconds {
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
    /// Seconds of the same with tables of f32.
    lookup_f32: f64,
    update_f32: f64,
}

/// Memory throughput of each operation, in gigabytes a second.
pub(super) struct Speeds {
    streaming: f64,
    lookup: f64,
    sort_and_update: f64,
    update: f64,
    gather: f64,
    change: f64,
}

impl Speeds {
    /// Counts the bytes that must move, once: ids and rows in, vectors out; ids, gradients and different rows in, rows out.
    pub(super) fn new(bench: &Bench, seconds: &Seconds) -> Self {
        // Vectors and gradients are f32, whatever the format of the rows.
        let (row, vector) = (bench.format.row_bytes(bench.dim) as f64, 4.0 * bench.dim as f64);
        let state = 4.0 * bench.rule.state_per_row(bench.dim) as f64;
        let bags = (bench.tables.len() * bench.batch) as f64;
        let values = bench.ids.len() as f64;
        let lookup_bytes = values * (4.0 + row) + bags * vector;
        let update_bytes = values * (4.0 + vector) + seconds.distinct * 2.0 * (row + state);
        Self {
            streaming: vector * bench.rows as f64 / seconds.streaming / 1e9,
            lookup: lookup_bytes / seconds.lookup / 1e9,
            sort_and_update: update_bytes / (seconds.sort + seconds.update) / 1e9,
            update: update_bytes / seconds.update / 1e9,
            gather: seconds.gather / 1e9,
            change: seconds.change / 1e9,
        }
    }

    pub(super) fn to_json(&self, bench: &Bench, seconds: &Seconds) -> Value {
        let Bench { dim, rows, batch, hotness, zipf, .. } = bench;
        let mut record = json!({
            "dim": dim, "tables": bench.tables.len(), "rows": rows, "batch": batch, "hotness": hotness,
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
            "format": bench.format,
        });
        if bench.format.rounds() {
            record["lookup_times_f32"] = json!(seconds.lookup_f32 / seconds.lookup);
            record["update_times_f32"] = json!(seconds.update_f32 / seconds.update);
        }
        record
    }

    pub(super) fn to_text(&self, bench: &Bench, seconds: &Seconds) -> String {
        let line = |name: &str, gbs: f64, bare: f64| {
            let percent = |of: f64| format!("{:.0} %", 100.0 * gbs / of);
            vec![name.to_string(), format!("{gbs:.2}"), percent(self.streaming), percent(bare)]
        };
        let beside = match bench.format.rounds() {
            true => format!(
                "{} beside f32: rows are looked up {:.2} times as fast, and updated {:.2} times\n",
                bench.format,
                seconds.lookup_f32 / seconds.lookup,
                seconds.update_f32 / seconds.update
            ),
            false => String::new(),
        };
        let table = columns(&[
            ["", "GB/s", "of streaming", "of bare rows"].map(String::from).to_vec(),
            line("streaming read", self.streaming, self.gather),
            line("random rows read", self.gather, self.gather),
            line("lookup", self.lookup, self.gather),
            line("random rows changed", self.change, self.change),
            line("sort + update", self.sort_and_update, self.change),
            line("update alone", self.update, self.change),
        ]);
        table + &beside
    }
}
