//! Measurements on a GPU: by events, with cold caches, beside bare kernels over the same rows of the same tables.

use super::inputs::Bench;
use crate::text::{columns, median};
use anyhow::Result;
use kernels::peak::{DeviceMemory, Touch, touch_rows};
use kernels::{BagIndex, Buffer, SortedIds, Stopwatch};
use serde_json::{Value, json};

/// Rows on their way in a group of threads of a bare kernel; the best counts.
const TOGETHER: [usize; 4] = [1, 2, 4, 8];

/// Medians of all rounds, in seconds, and bandwidths, in bytes a second.
pub(super) struct Measured {
    /// Bandwidth of reading memory from one end to the other.
    read: f64,
    /// Bandwidth of a copy within the device, each byte counted twice.
    copy: f64,
    /// Reading the rows that are looked up, and nothing else.
    gather: f64,
    /// Reading and writing the rows that are updated, and nothing else.
    change: f64,
    lookup: f64,
    /// Lookup by one launch for each table.
    lookup_each: f64,
    sort: f64,
    update: f64,
    /// Update by one launch, or a few, for each table.
    update_each: f64,
    /// Number of different rows that the ids name.
    distinct: f64,
}

/// What is timed in a round, behind the bare kernels.
const OPERATIONS: usize = 5;

/// Measures so many rounds; a first one is not counted.
pub(super) fn measure(bench: &mut Bench, mut memory: DeviceMemory, rounds: usize) -> Result<Measured> {
    let device = bench.device.clone();
    let (tables, each) = (bench.tables.len(), (bench.batch * bench.hotness).max(1));
    let (mut index, mut sorted) = (BagIndex::new(&device), SortedIds::new(&device));
    let mut watch = Stopwatch::new(&device);
    let mut laps: [Vec<f64>; OPERATIONS] = Default::default();
    let mut bare: [[Vec<f64>; TOGETHER.len()]; 2] = Default::default();
    let [mut read, mut copy, mut distinct] = [const { Vec::<f64>::new() }; 3];
    for round in 0..=rounds.max(1) {
        let drawn = bench.draw(round);
        bench.ids.write(0, &drawn)?;
        let named = drawn.iter().enumerate().map(|(i, &id)| ((i / each) as u64) << 32 | u64::from(id));
        let named = Buffer::from_slice(&device, &named.collect::<Vec<u64>>())?;
        let different = Buffer::from_slice(&device, &bench.distinct(&drawn))?;
        bench.index(&mut index)?;
        let stream = memory.stream()?;
        let mut times = Vec::new();
        for (touch, keys) in [(Touch::Read, &named), (Touch::Change, &different)] {
            for together in TOGETHER {
                memory.flush()?;
                watch.lap(|| touch_rows(&device, touch, &mut bench.tables, keys, together))?;
            }
        }
        times.extend(watch.read()?);
        memory.flush()?;
        watch.lap(|| bench.look_up(0..tables, &index))?;
        memory.flush()?;
        watch.lap(|| (0..tables).try_for_each(|t| bench.look_up(t..t + 1, &index)))?;
        memory.flush()?;
        watch.lap(|| bench.sort(&index, &mut sorted))?;
        memory.flush()?;
        watch.lap(|| bench.update(0..tables, &index, &sorted))?;
        memory.flush()?;
        watch.lap(|| (0..tables).try_for_each(|t| bench.update(t..t + 1, &index, &sorted)))?;
        times.extend(watch.read()?);
        device.check()?;
        if round > 0 {
            let into = bare.iter_mut().flatten().chain(&mut laps);
            into.zip(times).for_each(|(all, time)| all.push(time));
            read.push(stream.read);
            copy.push(stream.copy);
            distinct.push(different.len() as f64);
        }
    }
    let [gather, change] =
        bare.map(|ways| ways.map(|mut way| median(&mut way)).into_iter().fold(f64::INFINITY, f64::min));
    let [lookup, lookup_each, sort, update, update_each] = laps.map(|mut times| median(&mut times));
    let [read, copy, distinct] = [read, copy, distinct].map(|mut values| median(&mut values));
    Ok(Measured { read, copy, gather, change, lookup, lookup_each, sort, update, update_each, distinct })
}

/// Speeds in gigabytes a second.
struct Speeds {
    gather: f64,
    change: f64,
    lookup: f64,
    lookup_each: f64,
    sort_and_update: f64,
    update: f64,
    /// Update, with the gradient of a bag counted once.
    update_least: f64,
    update_each: f64,
}

impl Measured {
    fn speeds(&self, bench: &Bench) -> Speeds {
        let row = 4.0 * bench.dim as f64;
        let state = 4.0 * bench.rule.state_per_row(bench.dim) as f64;
        let (bags, values) = ((bench.tables.len() * bench.batch) as f64, bench.ids.len() as f64);
        let rows = self.distinct * 2.0 * (row + state);
        let (looked_up, updated) = (values * (4.0 + row) + bags * row, values * (4.0 + row) + rows);
        let least = values * 4.0 + bags * row + rows;
        Speeds {
            gather: values * row / self.gather / 1e9,
            change: self.distinct * 2.0 * row / self.change / 1e9,
            lookup: looked_up / self.lookup / 1e9,
            lookup_each: looked_up / self.lookup_each / 1e9,
            sort_and_update: updated / (self.sort + self.update) / 1e9,
            update: updated / self.update / 1e9,
            update_least: least / self.update / 1e9,
            update_each: updated / self.update_each / 1e9,
        }
    }

    pub(super) fn to_json(&self, bench: &Bench) -> Value {
        let (speeds, copy) = (self.speeds(bench), self.copy / 1e9);
        let Bench { dim, rows, batch, hotness, zipf, .. } = bench;
        json!({
            "dim": dim, "tables": bench.tables.len(), "rows": rows, "batch": batch, "hotness": hotness,
            "optimizer": bench.rule.name(), "zipf": zipf,
            "pooling": bench.tables[0].pooling, "weighted": bench.weights.is_some(),
            "memory_gbs": self.read / 1e9,
            "copy_gbs": copy,
            "gather_gbs": speeds.gather,
            "read_modify_write_gbs": speeds.change,
            "lookup_gbs": speeds.lookup,
            "update_gbs": speeds.sort_and_update,
            "update_without_sort_gbs": speeds.update,
            "update_least_gbs": speeds.update_least,
            "lookup_of_copy": speeds.lookup / copy,
            "lookup_of_gather": speeds.lookup / speeds.gather,
            "update_of_read_modify_write": speeds.sort_and_update / speeds.change,
            "update_without_sort_of_read_modify_write": speeds.update / speeds.change,
            "update_least_of_read_modify_write": speeds.update_least / speeds.change,
            "lookup_one_launch_per_table_gbs": speeds.lookup_each,
            "update_one_launch_per_table_gbs": speeds.update_each,
            "lookup_fused_times_as_fast": self.lookup_each / self.lookup,
            "update_fused_times_as_fast": self.update_each / self.update,
            "different_rows": self.distinct,
            "lookup_ms": 1e3 * self.lookup, "sort_ms": 1e3 * self.sort, "update_ms": 1e3 * self.update,
        })
    }

    pub(super) fn to_text(&self, bench: &Bench) -> String {
        let speeds = self.speeds(bench);
        let line = |name: &str, gbs: f64, bare: f64| {
            let percent = |of: f64| format!("{:.0} %", 100.0 * gbs / of);
            vec![name.to_string(), format!("{gbs:.0}"), percent(self.copy / 1e9), percent(bare)]
        };
        let table = columns(&[
            ["", "GB/s", "of a copy", "of bare rows"].map(String::from).to_vec(),
            line("copy", self.copy / 1e9, speeds.gather),
            line("stream read", self.read / 1e9, speeds.gather),
            line("rows read", speeds.gather, speeds.gather),
            line("lookup", speeds.lookup, speeds.gather),
            line("lookup, a launch per table", speeds.lookup_each, speeds.gather),
            line("rows read and written", speeds.change, speeds.change),
            line("sort + update", speeds.sort_and_update, speeds.change),
            line("update", speeds.update, speeds.change),
            line("update, gradients once", speeds.update_least, speeds.change),
            line("update, a launch per table", speeds.update_each, speeds.change),
        ]);
        format!(
            "{table}All tables in one launch are {:.1} times as fast as one launch per table in lookups, and {:.1} times in updates\n",
            self.lookup_each / self.lookup,
            self.update_each / self.update
        )
    }
}
