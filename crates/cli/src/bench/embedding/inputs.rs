//! Tables, ids and gradients that are looked up and updated.

use super::{Args, Rule};
use anyhow::Result;
use kernels::{
    BagIndex, Buffer, Device, DrawTable, IndexBags, Lookup, RandomRounding, Segment, SortedIds, Table,
    Update, UpdateTables,
};
use spec::Pooling;
use spec::optimizer::UpdateRule;
use spec::random::RandomSequence;
use spec::table_format::TableFormat;
use std::ops::Range;

/// Tables, a batch and room for its results.
pub(super) struct Bench {
    pub(super) device: Device,
    pub(super) rule: UpdateRule,
    pub(super) dim: usize,
    pub(super) rows: usize,
    pub(super) batch: usize,
    pub(super) hotness: usize,
    pub(super) tables: Vec<Table>,
    /// Number format of the tables.
    pub(super) format: TableFormat,
    /// Tables of f32 beside those of another format; none beside tables of f32.
    pub(super) beside: Vec<Table>,
    /// First column of each table in the vectors of a sample.
    pub(super) columns: Vec<usize>,
    /// Ids of all bags, drawn anew every round.
    pub(super) ids: Buffer<u32>,
    pub(super) zipf: f64,
    /// Weight of each id, where ids have weights.
    pub(super) weights: Option<Buffer<f32>>,
    pub(super) lengths: Vec<u32>,
    pub(super) segments: Vec<Segment>,
    pub(super) out: Buffer<f32>,
    pub(super) gradient: Buffer<f32>,
}

impl Bench {
    pub(super) fn new(args: &Args, rows: usize, device: Device) -> Result<Self> {
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
            zipf: args.zipf,
            weights: args.weighted.then(weights).transpose()?,
            tables: written_tables(&device, (tables, args.format), (rows, dim), pooling, &rule)?,
            format: args.format,
            beside: match args.format.rounds() {
                true => written_tables(&device, (tables, TableFormat::F32), (rows, dim), pooling, &rule)?,
                false => Vec::new(),
            },
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
    pub(super) fn draw(&self, round: usize) -> Vec<u32> {
        let (numbers, rows) = (RandomSequence::new(round as u64, "bench.ids"), self.rows);
        let uniform = |i: u64| (numbers.bits(i) % rows as u64) as u32;
        match self.zipf == 0.0 {
            true => (0..self.ids.len() as u64).map(uniform).collect(),
            false => {
                (0..self.ids.len() as u64).map(|i| zipf_row(numbers.unit_f64(i), rows, self.zipf)).collect()
            }
        }
    }

    /// Different rows in all tables that some ids name, as `table << 32 | row`, in order.
    pub(super) fn distinct(&self, ids: &[u32]) -> Vec<u64> {
        let each = self.batch * self.hotness;
        let mut keys = Vec::with_capacity(ids.len());
        for (table, ids) in ids.chunks(each.max(1)).enumerate() {
            let mut ids = ids.to_vec();
            ids.sort_unstable();
            ids.dedup();
            keys.extend(ids.into_iter().map(|id| (table as u64) << 32 | u64::from(id)));
        }
        keys
    }

    /// Finds the bags of all tables.
    pub(super) fn index(&self, index: &mut BagIndex) -> Result<()> {
        Ok(self.device.index_bags(IndexBags {
            tables: self.tables.len(),
            samples: self.batch,
            segments: &self.segments,
            lengths: &self.lengths,
            values: self.ids.len(),
            index,
        })?)
    }

    /// Looks up the bags of tables `which`.
    pub(super) fn look_up(&mut self, which: Range<usize>, index: &BagIndex) -> Result<()> {
        Ok(self.device.lookup(Lookup {
            width: self.tables.len() * self.dim,
            tables: &self.tables,
            which,
            columns: &self.columns,
            index,
            samples: 0..self.batch,
            values: &self.ids,
            weights: self.weights.as_ref(),
            out: &mut self.out,
        })?)
    }

    /// Lets the tables of f32 change places with those of another format.
    pub(super) fn swap(&mut self) {
        std::mem::swap(&mut self.tables, &mut self.beside);
    }

    /// Groups the ids of all tables by row.
    pub(super) fn sort(&self, index: &BagIndex, sorted: &mut SortedIds) -> Result<()> {
        Ok(self.device.sort_ids(&self.tables, index, &self.ids, sorted)?)
    }

    /// Updates tables `which`.
    pub(super) fn update(&mut self, which: Range<usize>, index: &BagIndex, sorted: &SortedIds) -> Result<()> {
        Ok(self.device.update_tables(UpdateTables {
            width: self.tables.len() * self.dim,
            tables: &mut self.tables,
            which,
            columns: &self.columns,
            index,
            sorted,
            weights: self.weights.as_ref(),
            dout: &self.gradient,
            update: Update::new(self.rule, 1e-3, 1),
        })?)
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
    (tables, format): (usize, TableFormat),
    (rows, dim): (usize, usize),
    pooling: Pooling,
    rule: &UpdateRule,
) -> Result<Vec<Table>> {
    let ones = vec![1.0f32; 1 << 20];
    let mut held = Vec::with_capacity(tables);
    for t in 0..tables {
        let mut table = Table::in_format(device, format, [rows, dim], pooling, rule)?;
        let sequence = RandomSequence::new(t as u64, "bench.tables");
        if let Some(weights) = table.weights.floats_mut().filter(|_| device.is_queued()) {
            let (rows, columns) = (0..rows, 0..dim);
            device.draw_table(DrawTable { sequence, bound: 1.0, dim, rows, columns, weights })?;
            held.push(table);
            continue;
        }
        if format.rounds() {
            table.weights.round_at_random(RandomRounding { sequence, first_row: 0, first_column: 0 });
        }
        // Written, so that every page is really there.
        let block = (ones.len() / dim.max(1)).max(1);
        for first in (0..rows).step_by(block) {
            table.weights.write(first, &ones[..block.min(rows - first) * dim])?;
        }
        held.push(table);
    }
    Ok(held)
}
