//! Tensor trains: `kernels/tensor_train.cu`.

use super::Cuda;
use super::tables::spans;
use crate::op::Result;
use crate::{LookupTensorTrains, Table, TensorTrainAt, TensorTrainGradients};
use ground::Pooling;

/// Threads of a warp.
const WARP: usize = 32;
/// Shared memory of a block, in floats, that every card has.
const SHARED: usize = 10 << 10;
/// Threads of a block of gradients, its warps, and weights that each adds up.
const THREADS: usize = 256;
const WARPS: usize = 8;
const EACH: usize = 16;
/// Floats of products, and of gradients of rows, that a block of gradients has at a time, and the most rows that they are of.
const PRODUCTS: usize = 4096;
const TOGETHER: usize = 16;

/// A train of a call, as `struct TrainCall` of `kernels/tensor_train.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::NoUninit)]
struct TrainCall {
    rows: u64,
    cores: [u64; 3],
    values: [u32; 3],
    columns: [u32; 3],
    rank: u32,
    width: u32,
    table: u32,
    column: u32,
    mean: u32,
    other: u32,
}

impl TrainCall {
    fn new(at: &TensorTrainAt, tables: &[Table], column: usize) -> Self {
        let (train, table) = (at.train, &tables[at.table]);
        Self {
            rows: table.rows as u64,
            cores: at.cores.map(|at| at as u64),
            values: train.rows.map(|values| values as u32),
            columns: train.columns.map(|columns| columns as u32),
            rank: train.rank as u32,
            width: train.width as u32,
            table: at.table as u32,
            column: column as u32,
            mean: (table.pooling == Pooling::Mean).into(),
            other: 0,
        }
    }
}

pub(super) fn lookup(cuda: &Cuda, args: LookupTensorTrains) -> Result {
    let LookupTensorTrains { tables, trains, parameters, columns, width, index, samples, .. } = args;
    if trains.is_empty() || samples == 0 {
        return Ok(());
    }
    cuda.note_rows(tables.iter().map(|table| table.rows));
    cuda.note_values(args.values.len());
    let calls: Vec<_> = trains.iter().map(|at| TrainCall::new(at, tables, columns[at.table])).collect();
    let room = trains.iter().map(|at| at.train.product_len() + at.train.width).max().unwrap_or(0);
    let warps = (SHARED / room).clamp(1, 4);
    cuda.kernel("lookup_tensor_trains")
        .grid3([samples.div_ceil(warps), trains.len(), 1])
        .block((warps * WARP) as u32)
        .shared(warps * room * size_of::<f32>())
        .arg(cuda.constant(&calls)?)
        .arg(parameters)
        .arg(&index.starts)
        .arg(&index.lengths)
        .arg(index.samples)
        .arg(samples)
        .arg(args.values)
        .arg(args.values.len())
        .arg(args.weights)
        .arg(args.out)
        .arg(width)
        .arg(room)
        .arg(cuda.faults())
        .launch()
}

pub(super) fn gradients(cuda: &Cuda, args: TensorTrainGradients) -> Result {
    let TensorTrainGradients { tables, trains, parameters, runs, rows, sums, gradient } = args;
    if trains.is_empty() {
        return Ok(());
    }
    cuda.note_rows(tables.iter().map(|table| table.rows));
    let calls: Vec<_> = trains.iter().map(|at| TrainCall::new(at, tables, 0)).collect();
    let of_trains = spans(runs.bounds.windows(2).map(|of| (of[0], of[1])), THREADS);
    let mut next = 0u64;
    let firsts: Vec<u64> = trains
        .iter()
        .zip(&of_trains)
        .map(|(at, span)| {
            let first = next;
            next += u64::from(span.count) * at.train.width as u64;
            first
        })
        .collect();
    let most = |of: &dyn Fn(&TensorTrainAt) -> usize| trains.iter().map(of).max().unwrap_or(0);
    let parts = |at: &TensorTrainAt| {
        let [first, second, third] = at.train.slices();
        first.div_ceil(WARPS * EACH).max(second.max(third).div_ceil(THREADS * EACH))
    };
    let room = |at: &TensorTrainAt| {
        let (products, columns) = (at.train.product_len(), at.train.columns.iter().product::<usize>());
        (PRODUCTS / products.max(columns)).clamp(1, TOGETHER) * (products + columns)
    };
    cuda.kernel("tensor_train_gradients")
        .grid3([most(&|at| at.train.rows.iter().sum()), trains.len(), most(&parts)])
        .block(THREADS as u32)
        .shared(most(&room) * size_of::<f32>())
        .arg(cuda.constant(&calls)?)
        .arg(cuda.transient(&of_trains)?)
        .arg(cuda.transient(&firsts)?)
        .arg(parameters)
        .arg(rows)
        .arg(sums)
        .arg(gradient)
        .arg(cuda.faults())
        .launch()
}
