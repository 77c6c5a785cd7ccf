//! Operations on tensor trains: rows computed from cores, and gradients of rows brought to the cores.
//!
//! A row is `row[a, b, c] = Σ over r, s: first[a, r] · second[r, b, s] · third[c, s]`, with the slices of the cores that the digits of the row's
//! number name: see [`TensorTrain`]. Cores lie in a buffer of parameters, digit after digit.

use super::embedding::check_index;
use super::rows::check_runs;
use super::{Check, Result, size};
use crate::embedding::{BagIndex, RowRuns, Table};
use crate::{Buffer, Device};
use ground::tensor_train::TensorTrain;

/// A table that is a tensor train, and where its cores lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorTrainAt {
    /// Table, as an index into the tables of the call.
    pub table: usize,
    /// Shape of the train.
    pub train: TensorTrain,
    /// Position of the first weight of each core among the parameters.
    pub cores: [usize; 3],
}

/// Arguments of [`Device::lookup_tensor_trains`].
#[derive(Debug)]
pub struct LookupTensorTrains<'a> {
    /// Tables that the index is of.
    pub tables: &'a [Table],
    /// Tensor trains that are looked up.
    pub trains: &'a [TensorTrainAt],
    /// Buffer that has the cores.
    pub parameters: &'a Buffer<f32>,
    /// First column of each table's vectors in a row of `out`; one entry for each of `tables`.
    pub columns: &'a [usize],
    /// Floats of a row of `out`.
    pub width: usize,
    /// Positions of all bags in `values`.
    pub index: &'a BagIndex,
    /// Number of samples of the index that are looked up, from the first on; `out` has a row for each.
    pub samples: usize,
    /// Ids.
    pub values: &'a Buffer<u32>,
    /// Weight of each id; `None` where all weights are 1.
    pub weights: Option<&'a Buffer<f32>>,
    /// Receives the pooled vectors.
    pub out: &'a mut Buffer<f32>,
}

/// Arguments of [`Device::tensor_train_gradients`].
#[derive(Debug)]
pub struct TensorTrainGradients<'a> {
    /// Tables of the rank.
    pub tables: &'a [Table],
    /// Tensor trains, one for each table of the runs, in the same order.
    pub trains: &'a [TensorTrainAt],
    /// Buffer that has the cores.
    pub parameters: &'a Buffer<f32>,
    /// Runs of equal rows in sorted ids, of which the bounds are read.
    pub runs: &'a RowRuns,
    /// Row of each run; those of a table ascend.
    pub rows: &'a Buffer<u32>,
    /// Sum of the gradients of each row.
    pub sums: &'a Buffer<f32>,
    /// Receives the gradients of the cores, each where its core lies among the parameters.
    pub gradient: &'a mut Buffer<f32>,
}

impl TensorTrainAt {
    /// Position behind the last weight of the cores.
    fn end(&self) -> usize {
        let ends = self.cores.iter().zip(self.train.cores()).map(|(at, len)| at.saturating_add(len));
        ends.max().unwrap_or(0)
    }
}

impl Device {
    /// Pooled rows of tensor trains: `out[s, columns[t]..]` is the sum of the rows of the bag of sample `s` in table `t`, each times its weight,
    /// divided by their number for mean pooling. Ids past the end of their table are refused.
    ///
    /// ```
    /// use kernels::{BagIndex, Buffer, Device, LookupTensorTrains, Table, TensorTrainAt};
    /// use ground::tensor_train::TensorTrain;
    /// let device = Device::cpu(1)?;
    /// // Eight rows of one column, of rank 1: a row is the product of three weights.
    /// let train = TensorTrain::new(8, 1, 1).unwrap();
    /// let tables = [Table::without_rows(&device, [8, 1], ground::Pooling::Sum)];
    /// let mut out = Buffer::zeroed(&device, 1)?;
    /// device.lookup_tensor_trains(LookupTensorTrains {
    ///     tables: &tables,
    ///     trains: &[TensorTrainAt { table: 0, train, cores: [0, 2, 4] }],
    ///     parameters: &Buffer::from_slice(&device, &[1.0, 2.0, 10.0, 20.0, 100.0, 200.0])?,
    ///     columns: &[0],
    ///     width: 1,
    ///     // One sample with the ids 0 and 5, which is 101 in binary.
    ///     index: &BagIndex::from_bags(&device, 1, &[0], &[2])?,
    ///     samples: 1,
    ///     values: &Buffer::from_slice(&device, &[0, 5])?,
    ///     weights: None,
    ///     out: &mut out,
    /// })?;
    /// assert_eq!(out.to_vec()?, [1.0 * 10.0 * 100.0 + 2.0 * 10.0 * 200.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn lookup_tensor_trains(&self, args: LookupTensorTrains) -> Result {
        let check = Check::new("lookup_tensor_trains", self);
        let LookupTensorTrains { tables, index, values, width, .. } = args;
        check.count("columns", tables.len(), args.columns.len())?;
        check.count("samples", args.samples, index.samples)?;
        check_index(&check, index)?;
        check.buffer("values", values, 0)?;
        if let Some(weights) = args.weights {
            check.buffer("weights", weights, values.len())?;
        }
        check.buffer("out", args.out, size([args.samples, width]))?;
        for at in args.trains {
            check.count("tables", at.table.saturating_add(1), tables.len().min(index.tables))?;
            check_shape(&check, at, &tables[at.table])?;
            check.buffer("cores", args.parameters, at.end())?;
            check.count("a row of out", args.columns[at.table].saturating_add(at.train.width), width)?;
        }
        self.backend().lookup_tensor_trains(args)
    }

    /// Gradients of the cores, by the sums of the gradients of some rows; every weight of the cores gets one, 0 where no row needs it. For a
    /// row with the gradient `d`, the slices of its digits get
    ///
    /// ```text
    /// first[a, r]      Σ over b, c, s: d[a, b, c] · second[r, b, s] · third[c, s]
    /// second[r, b, s]  Σ over a, c:    d[a, b, c] · first[a, r] · third[c, s]
    /// third[c, s]      Σ over a, b, r: d[a, b, c] · first[a, r] · second[r, b, s]
    /// ```
    ///
    /// added up over the rows in their order. Rows past the end of their table are refused.
    pub fn tensor_train_gradients(&self, args: TensorTrainGradients) -> Result {
        let check = Check::new("tensor_train_gradients", self);
        let TensorTrainGradients { tables, trains, runs, .. } = &args;
        check_runs(&check, trains.len(), runs)?;
        check.buffer("rows", args.rows, *runs.bounds.last().unwrap_or(&0))?;
        let mut floats = 0usize;
        for (at, of) in trains.iter().zip(runs.bounds.windows(2)) {
            check.count("tables", at.table.saturating_add(1), tables.len())?;
            check_shape(&check, at, &tables[at.table])?;
            check.buffer("cores", args.parameters, at.end())?;
            check.buffer("gradient", args.gradient, at.end())?;
            floats = floats.saturating_add(size([of[1] - of[0], at.train.width]));
        }
        check.buffer("sums", args.sums, floats)?;
        self.backend().tensor_train_gradients(args)
    }
}

/// Refuses a train that is not of its table.
fn check_shape(check: &Check, at: &TensorTrainAt, table: &Table) -> Result {
    check.equal("columns of a tensor train", table.dim, at.train.width)?;
    let columns = size(at.train.columns);
    check.count("columns that digits name", at.train.width, columns)?;
    check.count("rows that digits name", table.rows, size(at.train.rows))?;
    check.count("floats of a product of cores", at.train.product_len(), ground::tensor_train::MAX_PRODUCT)
}
