//! Lookups that end in dot products, and gradients of dot products that end in updates of tables: what happens to the vectors of
//! samples whose tables are all in one place. A device may do either without writing the vectors out.

use super::{Check, Result, size};
use crate::{BagIndex, Buffer, Device, DotShape, KernelError, Repeats, SortedIds, Table, Update};

/// Tables and ids of samples whose vectors are multiplied with each other.
#[derive(Clone, Copy, Debug)]
pub struct PairVectors<'a> {
    /// Sizes: samples, vectors of a sample (vector 0, and one for each table), floats of a vector.
    pub shape: DotShape,
    /// First column of each table's vector among all vectors of a sample; `dim`, `2·dim` … in any order.
    pub columns: &'a [usize],
    /// Positions of all bags in `values`.
    pub index: &'a BagIndex,
    /// Ids.
    pub values: &'a Buffer<u32>,
    /// Weight of each id; `None` where all weights are 1.
    pub weights: Option<&'a Buffer<f32>>,
    /// Vector 0 of each sample, rows × dim.
    pub first: &'a Buffer<f32>,
}

/// Arguments of [`Device::lookup_dot`].
#[derive(Debug)]
pub struct LookupDot<'a> {
    /// Tables that the index is of.
    pub tables: &'a [Table],
    /// Ids, and how their vectors are laid out.
    pub of: PairVectors<'a>,
    /// Room for the vectors, on devices that write them out.
    pub vectors: &'a mut Buffer<f32>,
    /// Receives vector 0 and the products, as [`Device::dot_forward`] orders them.
    pub out: &'a mut Buffer<f32>,
}

/// Arguments of [`Device::dot_update`].
#[derive(Debug)]
pub struct DotUpdate<'a> {
    /// Tables that the index is of.
    pub tables: &'a mut [Table],
    /// Ids, and how their vectors are laid out, as in the lookup.
    pub of: PairVectors<'a>,
    /// Ids of all tables, grouped by row.
    pub sorted: &'a SortedIds,
    /// Rows of several ids, as [`Device::find_repeats`] found them among `sorted`.
    pub repeats: &'a Repeats,
    /// Vectors as the lookup left them.
    pub vectors: &'a Buffer<f32>,
    /// Gradient of the lookup's output.
    pub dout: &'a Buffer<f32>,
    /// Receives the gradient of vector 0, rows × dim.
    pub dfirst: &'a mut Buffer<f32>,
    /// Room for gradients of vectors, on devices that write them out.
    pub gradients: &'a mut Buffer<f32>,
    /// Rule, rate and number of the step.
    pub update: Update,
}

impl Device {
    /// Whether the device computes products of vectors, and updates by their gradients, without writing vectors out, where all tables
    /// are of f32. It writes out those of tables in other formats.
    ///
    /// ```
    /// use kernels::{Device, DotShape};
    /// assert!(!Device::cpu(1)?.fuses_pairs(DotShape { rows: 1, count: 27, dim: 128 }));
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn fuses_pairs(&self, shape: DotShape) -> bool {
        match self {
            Device::Cuda(cuda) => cuda.fuses_pairs(shape),
            _ => false,
        }
    }

    /// Finds the rows of sorted ids that are of several ids, for [`Device::dot_update`]. The ids are those of `index`. Devices
    /// that do not fuse products with updates find nothing.
    pub fn find_repeats(&self, index: &BagIndex, sorted: &SortedIds, repeats: &mut Repeats) -> Result {
        let check = Check::new("find_repeats", self);
        check.buffer("sorted keys", &sorted.keys, sorted.bounds.last().copied().unwrap_or(0))?;
        check.buffer("repeats", &repeats.once, 0)?;
        self.backend().find_repeats(index, sorted, repeats)
    }

    /// Looks up and pools one vector of each table for each sample, and multiplies the vectors of a sample with each other and with
    /// vector 0: [`Device::lookup`], then [`Device::dot_forward`].
    ///
    /// ```
    /// use kernels::{BagIndex, Buffer, Device, DotShape, LookupDot, PairVectors, Table};
    /// let device = Device::cpu(1)?;
    /// let rule = ground::optimizer::UpdateRule::Sgd;
    /// let mut table = Table::zeroed(&device, 2, 2, ground::Pooling::Sum, &rule)?;
    /// table.weights.write(0, &[0.0, 0.0, 3.0, 4.0])?;
    /// let first = Buffer::from_slice(&device, &[1.0, 2.0])?;
    /// let (mut vectors, mut out) = (Buffer::new(&device), Buffer::zeroed(&device, 3)?);
    /// device.lookup_dot(LookupDot {
    ///     tables: &[table],
    ///     of: PairVectors {
    ///         shape: DotShape { rows: 1, count: 2, dim: 2 },
    ///         columns: &[2],
    ///         index: &BagIndex::from_bags(&device, 1, &[0], &[1])?,
    ///         values: &Buffer::from_slice(&device, &[1])?,
    ///         weights: None,
    ///         first: &first,
    ///     },
    ///     vectors: &mut vectors,
    ///     out: &mut out,
    /// })?;
    /// assert_eq!(out.to_vec()?, [1.0, 2.0, 1.0 * 3.0 + 2.0 * 4.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn lookup_dot(&self, args: LookupDot) -> Result {
        let check = Check::new("lookup_dot", self);
        args.of.check(&check, "lookup_dot", args.tables)?;
        check.buffer("vectors", args.vectors, 0)?;
        check.rows("out", args.out, args.of.shape.rows, args.of.shape.width())?;
        self.backend().lookup_dot(args)
    }

    /// Gradients of [`Device::lookup_dot`]: [`Device::dot_backward`], then [`Device::update_tables`] by the gradients of all vectors
    /// but vector 0.
    pub fn dot_update(&self, args: DotUpdate) -> Result {
        let check = Check::new("dot_update", self);
        let DotShape { rows, dim, .. } = args.of.shape;
        args.of.check(&check, "dot_update", args.tables)?;
        check.rows("dout", args.dout, rows, args.of.shape.width())?;
        check.rows("dfirst", args.dfirst, rows, dim)?;
        check.buffer("gradients", args.gradients, 0)?;
        check.buffer("sorted keys", &args.sorted.keys, args.sorted.bounds.last().copied().unwrap_or(0))?;
        check.count("bounds of sorted keys", args.of.index.tables + 1, args.sorted.bounds.len())?;
        for table in &*args.tables {
            let each = args.update.rule.state_per_row(table.dim);
            check.reached("table state", &table.state, size([table.rows, each]))?;
        }
        self.mark_sorted(args.tables, 0..args.of.index.tables, (args.of.index, args.sorted))?;
        self.backend().dot_update(args)
    }
}

impl PairVectors<'_> {
    /// Floats of all vectors of a sample.
    pub(crate) fn width(&self) -> usize {
        self.shape.count * self.shape.dim
    }

    fn check(&self, check: &Check, op: &'static str, tables: &[Table]) -> Result {
        let DotShape { rows, count, dim } = self.shape;
        check.equal("tables, for each vector but the first", count.saturating_sub(1), tables.len())?;
        check.equal("tables of the index", tables.len(), self.index.tables)?;
        check.equal("columns", tables.len(), self.columns.len())?;
        check.count("samples of the index", rows, self.index.samples)?;
        check.rows("first", self.first, rows, dim)?;
        check.buffer("values", self.values, 0)?;
        let bags = size([self.index.tables, self.index.samples]);
        check.buffer("index", &self.index.starts, bags)?;
        check.buffer("index", &self.index.lengths, bags)?;
        if let Some(weights) = self.weights {
            check.buffer("weights", weights, self.values.len())?;
        }
        for (table, &column) in tables.iter().zip(self.columns) {
            check.equal("dim of a table", dim, table.dim)?;
            check.table(table)?;
            let taken = self.columns.iter().filter(|&&other| other == column).count();
            if column == 0 || column % dim.max(1) != 0 || column >= self.width() || taken != 1 {
                let what = "column of a table's vector";
                return Err(KernelError::Mismatch { op, what, expected: dim, got: column });
            }
        }
        Ok(())
    }
}
