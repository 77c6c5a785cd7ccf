//! Operations on the rows that a step touches: their gradients are summed where the samples are, added up over the copies of a
//! table, and applied by every copy.
//!
//! ```text
//! find_runs    sorted ids → rows touched, table after table           sum_rows     gradients of samples → a sum for each row
//! spread_rows  sums of rows → a vector with a place for every row     collect_rows and back
//! update_rows  sums of rows of all copies → one update of each row
//! ```

use super::{Check, Result, size};
use crate::embedding::{BagIndex, RowPart, RowRuns, SortedIds, Table};
use crate::{Buffer, Device, Update};
use std::ops::Range;

/// Arguments of [`Device::sum_rows`].
#[derive(Debug)]
pub struct SumRows<'a> {
    /// Tables that the index is of.
    pub tables: &'a [Table],
    /// Tables whose rows are summed, as in the runs.
    pub which: &'a [usize],
    /// First column of each table's gradients in a row of `dout`; one entry for each of `tables`.
    pub columns: &'a [usize],
    /// Floats of a row of `dout`.
    pub width: usize,
    /// Positions of all bags.
    pub index: &'a BagIndex,
    /// Ids of all tables, grouped by row.
    pub sorted: &'a SortedIds,
    /// Runs of equal rows in the sorted ids.
    pub runs: &'a RowRuns,
    /// Weight of each id; `None` where all weights are 1.
    pub weights: Option<&'a Buffer<f32>>,
    /// Gradients of the pooled vectors, a row of `width` floats for each sample that the sorted ids name.
    pub dout: &'a Buffer<f32>,
    /// Receives the sums, row after row as in the runs.
    pub sums: &'a mut Buffer<f32>,
}

/// Arguments of [`Device::spread_rows`].
#[derive(Debug)]
pub struct SpreadRows<'a> {
    /// Tables of the rank.
    pub tables: &'a [Table],
    /// Tables whose rows are spread, as in the runs.
    pub which: &'a [usize],
    /// Runs of equal rows.
    pub runs: &'a RowRuns,
    /// Row of each run.
    pub rows: &'a Buffer<u32>,
    /// Sum of each run.
    pub sums: &'a Buffer<f32>,
    /// Receives, for every table, the sums of all rows, then for each row 1 if it was touched and 0 if it was not.
    pub vector: &'a mut Buffer<f32>,
}

/// Arguments of [`Device::collect_rows`].
#[derive(Debug)]
pub struct CollectRows<'a> {
    /// Tables of the rank.
    pub tables: &'a [Table],
    /// Tables whose rows are collected.
    pub which: &'a [usize],
    /// For every table, sums of all rows, then for each row how many copies touched it.
    pub vector: &'a Buffer<f32>,
    /// Receives the part of each table that was touched.
    pub parts: &'a mut Vec<RowPart>,
    /// Receives the rows that were touched, table after table.
    pub rows: &'a mut Buffer<u32>,
    /// Receives the sums of these rows.
    pub sums: &'a mut Buffer<f32>,
}

/// Arguments of [`Device::update_rows`].
#[derive(Debug)]
pub struct UpdateRows<'a> {
    /// Tables of the rank.
    pub tables: &'a mut [Table],
    /// Parts of the rows and sums: the parts of a table lie together, in the order in which they are added.
    pub parts: &'a [RowPart],
    /// Row numbers; those of a part ascend.
    pub rows: &'a Buffer<u32>,
    /// Sum of each row.
    pub sums: &'a Buffer<f32>,
    /// Memory that the operation sorts in.
    pub keys: &'a mut Buffer<u64>,
    /// Rule, rate and number of the step.
    pub update: Update,
}

impl Device {
    /// Marks the rows that sorted ids name, in those of the tables `which` whose updates are marked.
    pub(super) fn mark_sorted(
        &self,
        tables: &mut [Table],
        which: Range<usize>,
        (index, sorted): (&BagIndex, &SortedIds),
    ) -> Result {
        if tables[which.clone()].iter().all(|table| table.updated.is_none()) {
            return Ok(());
        }
        let check = Check::new("mark_sorted", self);
        for bounds in sorted.bounds[which.start..=which.end].windows(2) {
            check.count("sorted keys of a table", bounds[0], bounds[1])?;
            check.count("sorted keys", bounds[1], sorted.keys.len())?;
        }
        self.backend().mark_sorted(tables, which, (index, sorted))
    }

    /// Finds the rows that the sorted ids of the tables `which` name, table after table, each row once. Returns false, and
    /// changes nothing, on a device that computes nothing.
    ///
    /// ```
    /// use kernels::{Buffer, Device, RowRuns, SortedIds};
    /// let device = Device::cpu(1)?;
    /// // Values 0 and 2 look up row 3, value 1 looks up row 7.
    /// let keys = Buffer::from_slice(&device, &[3 << 32, 3 << 32 | 2, 7 << 32 | 1])?;
    /// let sorted = SortedIds { keys, bounds: vec![0, 3], samples: Buffer::from_slice(&device, &[0, 1, 2])? };
    /// let (mut runs, mut rows) = (RowRuns::new(&device), Buffer::new(&device));
    /// assert!(device.find_runs(&[0], &sorted, &mut runs, &mut rows)?);
    /// assert_eq!((rows.to_vec()?, runs.bounds), (vec![3, 7], vec![0, 2]));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn find_runs(
        &self,
        which: &[usize],
        sorted: &SortedIds,
        runs: &mut RowRuns,
        rows: &mut Buffer<u32>,
    ) -> Result<bool> {
        let check = Check::new("find_runs", self);
        check.buffer("sorted keys", &sorted.keys, 0)?;
        check.buffer("runs", &runs.firsts, 0)?;
        check.buffer("rows", rows, 0)?;
        let bounds = &sorted.bounds;
        check.count("sorted tables", which.iter().max().map_or(0, |last| last + 2), bounds.len())?;
        for &t in which {
            check.count("sorted keys", bounds[t].max(bounds[t + 1]), sorted.keys.len())?;
            check.count("keys of a table", bounds[t], bounds[t + 1])?;
        }
        self.backend().find_runs(which, sorted, runs, rows)
    }

    /// Sums the gradients of the samples that looked up a row, for every row of the runs: `0 + Σ scale·dout[sample]` in the order
    /// of the row's keys, where `scale` is the weight of the id, divided by the length of its bag for mean pooling.
    ///
    /// ```
    /// use kernels::{BagIndex, Buffer, Device, RowRuns, SortedIds, SumRows, Table};
    /// let device = Device::cpu(1)?;
    /// let rule = ground::optimizer::UpdateRule::Sgd;
    /// let tables = [Table::zeroed(&device, 9, 1, ground::Pooling::Sum, &rule)?];
    /// // Three samples with one id each: 3, 7 and 3.
    /// let index = BagIndex::from_bags(&device, 1, &[0, 1, 2], &[1, 1, 1])?;
    /// let (mut sorted, mut runs) = (SortedIds::new(&device), RowRuns::new(&device));
    /// let (mut rows, mut sums) = (Buffer::new(&device), Buffer::new(&device));
    /// device.sort_ids(&tables, &index, &Buffer::from_slice(&device, &[3, 7, 3])?, &mut sorted)?;
    /// device.find_runs(&[0], &sorted, &mut runs, &mut rows)?;
    /// device.sum_rows(SumRows {
    ///     tables: &tables,
    ///     which: &[0],
    ///     columns: &[0],
    ///     width: 1,
    ///     index: &index,
    ///     sorted: &sorted,
    ///     runs: &runs,
    ///     weights: None,
    ///     dout: &Buffer::from_slice(&device, &[1.0, 10.0, 100.0])?,
    ///     sums: &mut sums,
    /// })?;
    /// assert_eq!((rows.to_vec()?, sums.to_vec()?), (vec![3, 7], vec![101.0, 10.0]));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn sum_rows(&self, args: SumRows) -> Result {
        let check = Check::new("sum_rows", self);
        let SumRows { tables, which, sorted, runs, index, .. } = &args;
        check_tables(&check, tables, which)?;
        check.count("tables of the index", which.iter().max().map_or(0, |last| last + 1), index.tables)?;
        check.count("columns", tables.len(), args.columns.len())?;
        let bags = size([index.tables, index.samples]);
        check.buffer("lengths of the index", &index.lengths, bags)?;
        check.buffer("sorted keys", &sorted.keys, 0)?;
        check.buffer("sorted samples", &sorted.samples, 0)?;
        check.count("sorted tables", tables.len() + 1, sorted.bounds.len())?;
        check_runs(&check, which.len(), runs)?;
        check.buffer("runs", &runs.firsts, *runs.bounds.last().unwrap_or(&0))?;
        if let Some(weights) = args.weights {
            check.buffer("weights", weights, sorted.samples.len())?;
        }
        check.buffer("dout", args.dout, 0)?;
        check.buffer("sums", args.sums, 0)?;
        for &t in *which {
            check.count("a row of dout", args.columns[t].saturating_add(tables[t].dim), args.width)?;
        }
        self.backend().sum_rows(args)
    }

    /// Spreads sums of some rows over a vector with a place for every row, so that vectors of copies can be added element by
    /// element. For each table of `which` the vector has `rows × dim` sums, 0 for rows without, then a number for each row: 1 if
    /// the row has a sum.
    ///
    /// ```
    /// use kernels::{Buffer, Device, RowRuns, SpreadRows, Table};
    /// let device = Device::cpu(1)?;
    /// let rule = ground::optimizer::UpdateRule::Sgd;
    /// let tables = [Table::zeroed(&device, 3, 2, ground::Pooling::Sum, &rule)?];
    /// let runs = RowRuns { bounds: vec![0, 1], firsts: Buffer::from_slice(&device, &[0])? };
    /// let mut vector = Buffer::new(&device);
    /// device.spread_rows(SpreadRows {
    ///     tables: &tables,
    ///     which: &[0],
    ///     runs: &runs,
    ///     rows: &Buffer::from_slice(&device, &[1])?,
    ///     sums: &Buffer::from_slice(&device, &[5.0, 6.0])?,
    ///     vector: &mut vector,
    /// })?;
    /// assert_eq!(vector.to_vec()?, [0.0, 0.0, 5.0, 6.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn spread_rows(&self, args: SpreadRows) -> Result {
        let check = Check::new("spread_rows", self);
        let SpreadRows { tables, which, runs, .. } = &args;
        check_tables(&check, tables, which)?;
        check_runs(&check, which.len(), runs)?;
        check.buffer("rows", args.rows, *runs.bounds.last().unwrap_or(&0))?;
        let floats =
            which.iter().zip(runs.bounds.windows(2)).map(|(&t, of)| size([of[1] - of[0], tables[t].dim]));
        check.buffer("sums", args.sums, floats.sum())?;
        check.buffer("vector", args.vector, 0)?;
        self.backend().spread_rows(args)
    }

    /// Collects the rows that any copy touched from a sum of vectors that [`Device::spread_rows`] made: the inverse of it.
    pub fn collect_rows(&self, args: CollectRows) -> Result {
        let check = Check::new("collect_rows", self);
        let CollectRows { tables, which, .. } = &args;
        check_tables(&check, tables, which)?;
        let floats = which.iter().map(|&t| size([tables[t].rows, tables[t].dim + 1]));
        check.buffer("vector", args.vector, floats.sum())?;
        check.buffer("rows", args.rows, 0)?;
        check.buffer("sums", args.sums, 0)?;
        self.backend().collect_rows(args)
    }

    /// Updates every row that a part names once, by the rule, with `0 + Σ` of the row's sums in the order of the parts. What
    /// `update` says of decay and clipping applies as in [`Device::update_tables`].
    ///
    /// ```
    /// use kernels::{Buffer, Device, RowPart, Table, Update, UpdateRows};
    /// let device = Device::cpu(1)?;
    /// let rule = ground::optimizer::UpdateRule::Sgd;
    /// let mut tables = [Table::zeroed(&device, 3, 1, ground::Pooling::Sum, &rule)?];
    /// // One copy touched the rows 0 and 2, another row 2.
    /// let parts = [RowPart { table: 0, rows: 0..2, sums: 0 }, RowPart { table: 0, rows: 2..3, sums: 2 }];
    /// device.update_rows(UpdateRows {
    ///     tables: &mut tables,
    ///     parts: &parts,
    ///     rows: &Buffer::from_slice(&device, &[0, 2, 2])?,
    ///     sums: &Buffer::from_slice(&device, &[1.0, 2.0, 4.0])?,
    ///     keys: &mut Buffer::new(&device),
    ///     update: Update::new(rule, 0.5, 1),
    /// })?;
    /// assert_eq!(tables[0].weights.to_vec()?, [-0.5, 0.0, -3.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn update_rows(&self, args: UpdateRows) -> Result {
        let check = Check::new("update_rows", self);
        let UpdateRows { tables, parts, .. } = &args;
        check.buffer("rows", args.rows, 0)?;
        check.buffer("sums", args.sums, 0)?;
        check.buffer("keys", args.keys, 0)?;
        check.count("32-bit places of sums", args.sums.len(), u32::MAX as usize)?;
        for part in *parts {
            check.count("tables", part.table.saturating_add(1), tables.len())?;
            check.count("rows", part.rows.end.max(part.rows.start), args.rows.len())?;
            let floats = size([part.rows.len(), tables[part.table].dim]);
            check.count("sums", part.sums.saturating_add(floats), args.sums.len())?;
        }
        for table in parts.chunk_by(|a, b| a.table == b.table).map(|parts| &tables[parts[0].table]) {
            check.table(table)?;
            let each = args.update.rule.state_per_row(table.dim);
            check.reached("table state", &table.state, size([table.rows, each]))?;
        }
        let ordered = |pair: &[RowPart]| {
            let [a, b] = [&pair[0], &pair[1]];
            a.table < b.table || a.table == b.table && a.sums <= b.sums
        };
        let last = parts.windows(2).position(|pair| !ordered(pair));
        check.count(
            "parts in the order of tables and sums",
            parts.len(),
            last.map_or(parts.len(), |i| i + 1),
        )?;
        if tables.iter().any(|table| table.updated.is_some()) {
            self.backend().mark_parts(args.tables, args.parts, args.rows)?;
        }
        self.backend().update_rows(args)
    }
}

fn check_tables(check: &Check, tables: &[Table], which: &[usize]) -> Result {
    check.count("tables", which.iter().max().map_or(0, |last| last + 1), tables.len())
}

/// Refuses runs that are not of so many tables, or not in order.
pub(super) fn check_runs(check: &Check, tables: usize, runs: &RowRuns) -> Result {
    check.count("tables of the runs", tables + 1, runs.bounds.len())?;
    runs.bounds.windows(2).try_for_each(|pair| check.count("bounds of the runs", pair[0], pair[1]))
}
