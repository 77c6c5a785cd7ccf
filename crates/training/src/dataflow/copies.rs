//! Data-parallel tables: a copy looks up the samples that it serves, sums their gradients by row, and takes part in the sum over
//! all copies, by which every copy updates each touched row once.
//!
//! Sums are added in the order of the copies, whether a vector with a place for every row is reduced or the touched rows are
//! brought together, so that all copies keep the same bits either way.

use super::carries::{Carries, Payload};
use super::exchange::Exchange;
use super::input::{ArrivedIds, Input};
use super::no_phase;
use super::reduction::Reduction;
use super::tables::columns;
use super::tensor_trains::TensorTrains;
use super::touched::TouchedRows;
use crate::Error;
use crate::layers::dense::Parameters;
use kernels::{
    Buffer, CollectRows, Device, KernelError, Lookup, RowPart, RowRuns, SpreadRows, SumRows, Table, Update,
    UpdateRows,
};
use spec::placement::width;
use spec::schedule::{CopyReduction, Schedule, Slot};

/// Data-parallel tables of one rank, and its tensor trains.
#[derive(Debug)]
pub struct Copies {
    /// Index of the first of these tables among the rank's; the others follow.
    pub first: usize,
    /// Index behind the last of those that have rows; tensor trains follow.
    with_rows: usize,
    /// Those that are tensor trains.
    trains: TensorTrains,
    /// Columns of all of them together.
    pub width: usize,
    /// Vectors of the samples that are served here.
    pub pooled: Buffer<f32>,
    /// Gradients of these vectors.
    pub gradients: Buffer<f32>,
    /// Column at which the vectors of each of the rank's tables begin; 0 for tables without copies.
    columns: Vec<usize>,
    /// Tables whose sums are reduced as a vector.
    dense: Vec<usize>,
    /// Tables whose touched rows are brought together.
    by_rows: Vec<usize>,
    /// Sums of all rows of the dense tables; elsewhere while they are being reduced.
    vector: Buffer<f32>,
    reduction: Reduction,
    /// Sums of the touched rows of the dense tables: of this copy, then of all copies.
    dense_sums: Buffer<f32>,
    dense_rows: Buffer<u32>,
    dense_parts: Vec<RowPart>,
    /// Sums of the rows that are touched here, and in all copies.
    sums: Exchange<f32>,
    parts: Vec<RowPart>,
    keys: Buffer<u64>,
}

impl Copies {
    /// Data-parallel tables of `rank` in the steps of a schedule.
    pub fn new(device: &Device, schedule: &Schedule, rank: usize) -> Result<Self, KernelError> {
        let (deployment, placement) = (schedule.deployment(), schedule.placement());
        let (held, copied) = (placement.held_by(rank), placement.copied_by(rank));
        let (first, with_rows) = (held.len() - copied.len(), placement.with_rows_by(rank).len());
        let reduced = |reduction: CopyReduction| {
            let by = |feature: usize| {
                schedule.copies().iter().any(|of| of.feature == feature && of.reduction == reduction)
            };
            (first..with_rows).filter(|&table| by(held[table].feature)).collect()
        };
        let vector = schedule.reduction_of(Slot::RowVector);
        Ok(Self {
            first,
            with_rows,
            trains: TensorTrains::new(device, deployment, rank),
            width: width(copied),
            pooled: Buffer::new(device),
            gradients: Buffer::new(device),
            columns: std::iter::repeat_n(0, first).chain(columns(copied)).collect(),
            dense: reduced(CopyReduction::Dense),
            by_rows: reduced(CopyReduction::Rows),
            vector: Buffer::new(device.for_exchange()),
            reduction: Reduction::new(device, vector, deployment, rank)?,
            dense_sums: Buffer::new(device),
            dense_rows: Buffer::new(device),
            dense_parts: Vec::new(),
            sums: Exchange::new(device, deployment.members()),
            parts: Vec::new(),
            keys: Buffer::new(device),
        })
    }

    /// Buffers that a collective of the copies works on.
    pub fn payload(&mut self, carries: Carries, name: &'static str) -> Result<Payload<'_>, Error> {
        match carries {
            Carries::RowSums => Ok(Payload::Floats(&mut self.sums)),
            Carries::RowVector => {
                Ok(Payload::Gradient { gradient: &mut self.vector, reduction: &mut self.reduction })
            }
            carries => no_phase(name, format_args!("an exchange of {carries}")),
        }
    }

    /// Looks up and pools the `samples` samples that are served here.
    pub fn lookup(
        &mut self,
        device: &Device,
        tables: &[Table],
        input: &Input,
        samples: usize,
    ) -> Result<(), Error> {
        self.pooled.resize(samples * self.width)?;
        Ok(device.lookup(Lookup {
            tables,
            which: self.first..self.with_rows,
            columns: &self.columns,
            width: self.width,
            index: &input.index,
            // Bags of these tables are numbered by the samples that are served.
            samples: 0..samples,
            values: &input.ids.recv,
            weights: input.weights(),
            out: &mut self.pooled,
        })?)
    }

    /// Computes and pools rows of tensor trains for the `samples` samples that are served here, beside what was looked up.
    pub fn lookup_tensor_trains(
        &mut self,
        device: &Device,
        tables: &[Table],
        parameters: &Parameters,
        input: &Input,
    ) -> Result<(), Error> {
        let samples = self.pooled.len().checked_div(self.width).unwrap_or(0);
        let (columns, width) = (&self.columns, self.width);
        self.trains.lookup(device, tables, parameters, input, (columns, width, samples), &mut self.pooled)
    }

    /// Sums the gradients of the samples that are served here by row, and brings the sums to the cores of tensor trains.
    pub fn tensor_train_gradients(
        &mut self,
        device: &Device,
        tables: &[Table],
        parameters: &mut Parameters,
        input: &Input,
    ) -> Result<(), Error> {
        let (columns, width) = (&self.columns, self.width);
        self.trains.gradients(device, tables, parameters, input, (columns, width), &self.gradients)
    }

    /// Finds the rows that the ids of a batch touch here.
    pub fn find_rows(&self, device: &Device, input: &mut Input) -> Result<(), Error> {
        let (sorted, touched, arrived) = input.rows_to_touch();
        let TouchedRows { dense, by_rows, rows, counts, trains, counted } = touched;
        for (which, runs, rows) in [
            (&self.dense, &mut dense.0, &mut dense.1),
            (&self.by_rows, &mut *by_rows, &mut rows.send),
            (&self.trains.tables, &mut trains.0, &mut trains.1),
        ] {
            if !device.find_runs(which, sorted, runs, rows)? {
                count_rows(which, &arrived, runs, rows)?;
            }
        }
        counted.clear();
        counted.extend(by_rows.bounds.windows(2).map(|of| (of[1] - of[0]) as u32));
        counts.send.resize(counted.len())?;
        counts.send.write(0, counted)?;
        counts.from.fill(self.by_rows.len());
        Ok(())
    }

    /// Sums the gradients of the samples that are served here by row, and lays the sums out for the sum over all copies.
    pub fn sum_rows(&mut self, device: &Device, tables: &[Table], input: &mut Input) -> Result<(), Error> {
        let weights = input.weights();
        let TouchedRows { dense: (dense, dense_rows), by_rows, .. } = &input.touched;
        for (which, runs, sums) in
            [(&self.dense, dense, &mut self.dense_sums), (&self.by_rows, by_rows, &mut self.sums.send)]
        {
            device.sum_rows(SumRows {
                tables,
                which,
                columns: &self.columns,
                width: self.width,
                index: &input.index,
                sorted: &input.sorted,
                runs,
                weights,
                dout: &self.gradients,
                sums,
            })?;
        }
        device.spread_rows(SpreadRows {
            tables,
            which: &self.dense,
            runs: dense,
            rows: dense_rows,
            sums: &self.dense_sums,
            vector: &mut self.vector,
        })?;
        self.expect_rows(tables, &mut input.touched)
    }

    /// Says how many rows and sums come from each copy, and where those of each table will lie.
    fn expect_rows(&mut self, tables: &[Table], touched: &mut TouchedRows) -> Result<(), Error> {
        let TouchedRows { rows, counts, counted, .. } = touched;
        counted.resize(counts.recv.len(), 0);
        counts.recv.read(0, counted)?;
        self.parts.clear();
        let (mut row, mut sum) = (0, 0);
        let each = self.by_rows.len();
        for member in 0..rows.from.len() {
            let first = (row, sum);
            for (k, &table) in self.by_rows.iter().enumerate() {
                let count = counted.get(member * each + k).map_or(0, |&count| count as usize);
                self.parts.push(RowPart { table, rows: row..row + count, sums: sum });
                (row, sum) = (row + count, sum + count * tables[table].dim);
            }
            (rows.from[member], self.sums.from[member]) = (row - first.0, sum - first.1);
        }
        // Table by table; copies stay in their order, since sums of later ones lie behind. A sort in place allocates nothing.
        self.parts.sort_unstable_by_key(|part| (part.table, part.sums, part.rows.start));
        Ok(())
    }

    /// Updates the rows that any copy touched, by the sums of all copies.
    pub fn update(
        &mut self,
        device: &Device,
        tables: &mut [Table],
        input: &Input,
        update: Update,
    ) -> Result<(), Error> {
        let Self { dense, vector, dense_sums, dense_rows, dense_parts, sums, parts, keys, .. } = self;
        device.collect_rows(CollectRows {
            tables,
            which: dense,
            vector,
            parts: dense_parts,
            rows: dense_rows,
            sums: dense_sums,
        })?;
        for (parts, rows, sums) in
            [(&*dense_parts, &*dense_rows, &*dense_sums), (&*parts, &input.touched.rows.recv, &sums.recv)]
        {
            device.update_rows(UpdateRows { tables, parts, rows, sums, keys, update })?;
        }
        Ok(())
    }
}

/// Rows that ids touch on a device that computes nothing: counted on the host, so that as many bytes travel as if it did.
fn count_rows(
    which: &[usize],
    arrived: &ArrivedIds,
    runs: &mut RowRuns,
    rows: &mut Buffer<u32>,
) -> Result<(), Error> {
    let (mut all, mut ids) = (Vec::new(), Vec::new());
    runs.bounds.clear();
    runs.bounds.push(0);
    for &table in which {
        arrived.read(table, &mut ids)?;
        ids.sort_unstable();
        ids.dedup();
        all.extend_from_slice(&ids);
        runs.bounds.push(all.len());
    }
    runs.firsts.resize(all.len())?;
    rows.resize(all.len())?;
    Ok(rows.write(0, &all)?)
}
