//! Operations on embedding tables: indexing and sorting ids, pooled lookups, and updates of the rows that were looked up.

use super::{Check, Result, size};
use crate::embedding::{BagIndex, Segment, SortedIds, Table};
use crate::{Buffer, Device, Update};
use ground::random::RandomSequence;
use std::ops::Range;

/// Arguments of [`Device::draw_table`].
#[derive(Debug)]
pub struct DrawTable<'a> {
    /// Sequence of the whole table's weights.
    pub sequence: RandomSequence,
    /// Largest magnitude of a weight.
    pub bound: f32,
    /// Number of columns of the whole table.
    pub dim: usize,
    /// Rows of the whole table that the shard has.
    pub rows: Range<usize>,
    /// Columns of the whole table that the shard has.
    pub columns: Range<usize>,
    /// Receives the weights of the shard.
    pub weights: &'a mut Buffer<f32>,
}

/// Arguments of [`Device::index_bags`].
#[derive(Debug)]
pub struct IndexBags<'a> {
    /// Number of tables.
    pub tables: usize,
    /// Number of samples.
    pub samples: usize,
    /// Runs of samples whose ids lie together.
    pub segments: &'a [Segment],
    /// Bag lengths on the host, read where a segment points into them.
    pub lengths: &'a [u32],
    /// Number of ids in the values buffer.
    pub values: usize,
    /// Receives the positions of all bags.
    pub index: &'a mut BagIndex,
}

/// Arguments of [`Device::lookup`].
#[derive(Debug)]
pub struct Lookup<'a> {
    /// Tables that the index is of.
    pub tables: &'a [Table],
    /// Tables that are looked up.
    pub which: Range<usize>,
    /// First column of each table's vectors in a row of `out`; one entry for each of `tables`.
    pub columns: &'a [usize],
    /// Floats of a row of `out`.
    pub width: usize,
    /// Positions of all bags in `values`.
    pub index: &'a BagIndex,
    /// Samples of the index that are looked up; `out` has a row for each.
    pub samples: Range<usize>,
    /// Ids.
    pub values: &'a Buffer<u32>,
    /// Weight of each id; `None` where all weights are 1.
    pub weights: Option<&'a Buffer<f32>>,
    /// Receives the pooled vectors; on a GPU they may be stored as rows of bf16.
    pub out: &'a mut Buffer<f32>,
}

/// Arguments of [`Device::update_tables`].
#[derive(Debug)]
pub struct UpdateTables<'a> {
    /// Tables that the index is of.
    pub tables: &'a mut [Table],
    /// Tables that are updated.
    pub which: Range<usize>,
    /// First column of each table's gradients in a row of `dout`; one entry for each of `tables`.
    pub columns: &'a [usize],
    /// Floats of a row of `dout`.
    pub width: usize,
    /// Positions of all bags.
    pub index: &'a BagIndex,
    /// Ids of all tables, grouped by row.
    pub sorted: &'a SortedIds,
    /// Weight of each id; `None` where all weights are 1.
    pub weights: Option<&'a Buffer<f32>>,
    /// Gradients of the pooled vectors, a row of `width` floats for each sample of the index.
    pub dout: &'a Buffer<f32>,
    /// Rule, rate and number of the step.
    pub update: Update,
}

impl Device {
    /// Draws initial weights of a shard of a table, uniform in `±bound`. Weight `(r, c)` of the whole table is number `r·dim + c` of
    /// the sequence, so that any shard draws what the whole would, with the same bits on every device.
    ///
    /// ```
    /// use kernels::{Buffer, Device, DrawTable};
    /// use ground::random::RandomSequence;
    /// let device = Device::cpu(1)?;
    /// let sequence = RandomSequence::new(1, "table.user");
    /// // The last two of three columns of rows 5 and 6.
    /// let mut weights = Buffer::zeroed(&device, 4)?;
    /// device.draw_table(DrawTable { sequence, bound: 0.5, dim: 3, rows: 5..7, columns: 1..3, weights: &mut weights })?;
    /// assert_eq!(weights.to_vec()?, [16, 17, 19, 20].map(|i| sequence.symmetric(i, 0.5)));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn draw_table(&self, args: DrawTable) -> Result {
        let check = Check::new("draw_table", self);
        check.count("columns of the table", args.columns.end, args.dim)?;
        check.reached("weights", args.weights, size([args.rows.len(), args.columns.len()]))?;
        self.backend().draw_table(args)
    }

    /// Finds every bag of `segments`: the samples of a segment lie one after another from its first value on. Segments
    /// that reach past the values are refused.
    ///
    /// ```
    /// use kernels::{BagIndex, Device, IndexBags, Segment};
    /// let device = Device::cpu(1)?;
    /// let segment = Segment { table: 0, first_sample: 0, samples: 2, first_value: 5, lengths_at: Some(0) };
    /// let mut index = BagIndex::new(&device);
    /// device.index_bags(IndexBags {
    ///     tables: 1,
    ///     samples: 2,
    ///     segments: &[segment],
    ///     lengths: &[3, 1],
    ///     values: 9,
    ///     index: &mut index,
    /// })?;
    /// assert_eq!((index.starts.to_vec()?, index.lengths.to_vec()?), (vec![5, 8], vec![3, 1]));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn index_bags(&self, args: IndexBags) -> Result {
        let check = Check::new("index_bags", self);
        check.buffer("index", &args.index.starts, 0)?;
        check.buffer("index", &args.index.lengths, 0)?;
        for s in args.segments {
            check.count("tables", s.table.saturating_add(1), args.tables)?;
            check.count("samples", s.first_sample.saturating_add(s.samples), args.samples)?;
            let lengths = s.lengths_at.map_or(0, |at| at.saturating_add(s.samples));
            check.count("lengths", lengths, args.lengths.len())?;
            // Ids that bag lengths count are added up by the backend.
            let ids = if s.lengths_at.is_none() { s.samples } else { 0 };
            check.count("values", s.first_value.saturating_add(ids), args.values)?;
        }
        check.count("32-bit value indices", args.values, u32::MAX as usize)?;
        self.backend().index_bags(args)
    }

    /// Groups the ids of `index` by row, refusing ids past the end of their table.
    ///
    /// ```
    /// use kernels::{BagIndex, Buffer, Device, SortedIds, Table};
    /// let device = Device::cpu(1)?;
    /// let rule = ground::optimizer::UpdateRule::Sgd;
    /// let table = Table::zeroed(&device, 10, 1, ground::Pooling::Sum, &rule)?;
    /// // Two samples with one id each: 7 and 3.
    /// let index = BagIndex::from_bags(&device, 1, &[0, 1], &[1, 1])?;
    /// let mut sorted = SortedIds::new(&device);
    /// device.sort_ids(&[table], &index, &Buffer::from_slice(&device, &[7, 3])?, &mut sorted)?;
    /// assert_eq!(sorted.keys.to_vec()?, [3 << 32 | 1, 7 << 32]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn sort_ids(
        &self,
        tables: &[Table],
        index: &BagIndex,
        values: &Buffer<u32>,
        sorted: &mut SortedIds,
    ) -> Result {
        let check = Check::new("sort_ids", self);
        check.count("tables", index.tables, tables.len())?;
        check_index(&check, index)?;
        check.buffer("values", values, 0)?;
        check.buffer("sorted keys", &sorted.keys, 0)?;
        check.buffer("sorted samples", &sorted.samples, 0)?;
        self.backend().sort_ids(tables, index, values, sorted)
    }

    /// Pooled vectors of all tables in one pass: `out[r, columns[t]..]` is the sum of the rows of the bag of sample
    /// `samples.start + r` in table `t`, each times its weight, divided by their number for mean pooling. Ids past the end of
    /// their table are refused.
    ///
    /// ```
    /// use kernels::{BagIndex, Buffer, Device, Lookup, Table};
    /// let device = Device::cpu(1)?;
    /// let rule = ground::optimizer::UpdateRule::Sgd;
    /// let mut table = Table::zeroed(&device, 3, 2, ground::Pooling::Sum, &rule)?;
    /// table.weights.write(0, &[1.0, 2.0, 10.0, 20.0, 100.0, 200.0])?;
    /// // One sample with the ids 0 and 2.
    /// let mut out = Buffer::zeroed(&device, 2)?;
    /// device.lookup(Lookup {
    ///     tables: &[table],
    ///     which: 0..1,
    ///     columns: &[0],
    ///     width: 2,
    ///     index: &BagIndex::from_bags(&device, 1, &[0], &[2])?,
    ///     samples: 0..1,
    ///     values: &Buffer::from_slice(&device, &[0, 2])?,
    ///     weights: None,
    ///     out: &mut out,
    /// })?;
    /// assert_eq!(out.to_vec()?, [101.0, 202.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn lookup(&self, args: Lookup) -> Result {
        let check = Check::new("lookup", self);
        let Lookup { tables, index, values, width, .. } = args;
        check.count("tables", args.which.end, tables.len().min(index.tables))?;
        check.count("columns", tables.len(), args.columns.len())?;
        check.count("samples", args.samples.end, index.samples)?;
        check_index(&check, index)?;
        check.buffer("values", values, 0)?;
        if let Some(weights) = args.weights {
            check.buffer("weights", weights, values.len())?;
        }
        check.rows("out", args.out, args.samples.len(), width)?;
        for t in args.which.clone() {
            check.count("a row of out", args.columns[t].saturating_add(tables[t].dim), width)?;
            check.table(&tables[t])?;
        }
        self.backend().lookup(args)
    }

    /// Backward of the lookup and optimizer in one pass. The gradient of a row is the sum, in the order of its keys in
    /// `sorted`, of the rows of `dout` of the samples that looked it up (each divided by its bag's length for mean pooling,
    /// times its weight where there are weights); then the row is updated once, by the rule. What `update` says of decay and
    /// clipping applies to the rows that are updated, and to the sum of a row's gradients.
    ///
    /// Only the tables `which` are updated, and only their columns are read; `columns`, `index` and `sorted` cover all
    /// tables. Calls for parts of the tables, each with a `dout` of its own, do together what one call for all does.
    ///
    /// ```
    /// use kernels::{BagIndex, Buffer, Device, SortedIds, Table, Update, UpdateTables};
    /// let device = Device::cpu(1)?;
    /// let rule = ground::optimizer::UpdateRule::Sgd;
    /// let mut tables = [Table::zeroed(&device, 3, 1, ground::Pooling::Sum, &rule)?];
    /// // Two samples with one id each: both look up row 2.
    /// let index = BagIndex::from_bags(&device, 1, &[0, 1], &[1, 1])?;
    /// let mut sorted = SortedIds::new(&device);
    /// device.sort_ids(&tables, &index, &Buffer::from_slice(&device, &[2, 2])?, &mut sorted)?;
    /// device.update_tables(UpdateTables {
    ///     tables: &mut tables,
    ///     which: 0..1,
    ///     columns: &[0],
    ///     width: 1,
    ///     index: &index,
    ///     sorted: &sorted,
    ///     weights: None,
    ///     dout: &Buffer::from_slice(&device, &[10.0, 20.0])?,
    ///     update: Update::new(rule, 0.5, 1),
    /// })?;
    /// assert_eq!(tables[0].weights.to_vec()?, [0.0, 0.0, -15.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn update_tables(&self, args: UpdateTables) -> Result {
        let check = Check::new("update_tables", self);
        let UpdateTables { tables, index, sorted, width, .. } = &args;
        check.count("tables", index.tables.max(args.which.end), tables.len())?;
        check.count("sorted tables", tables.len() + 1, sorted.bounds.len())?;
        check.count("columns", tables.len(), args.columns.len())?;
        check_index(&check, index)?;
        check.buffer("sorted keys", &sorted.keys, 0)?;
        check.buffer("sorted samples", &sorted.samples, 0)?;
        if let Some(weights) = args.weights {
            check.buffer("weights", weights, sorted.samples.len())?;
        }
        check.buffer("dout", args.dout, size([index.samples, *width]))?;
        if args.which.is_empty() {
            return Ok(());
        }
        for t in args.which.clone() {
            let table = &tables[t];
            check.count("a row of dout", args.columns[t].saturating_add(table.dim), *width)?;
            check.table(table)?;
            let each = args.update.rule.state_per_row(table.dim);
            check.reached("table state", &table.state, size([table.rows, each]))?;
        }
        self.mark_sorted(args.tables, args.which.clone(), (args.index, args.sorted))?;
        self.backend().update_tables(args)
    }
}

pub(super) fn check_index(check: &Check, index: &BagIndex) -> Result {
    let bags = size([index.tables, index.samples]);
    check.buffer("starts of the index", &index.starts, bags)?;
    check.buffer("lengths of the index", &index.lengths, bags)
}
