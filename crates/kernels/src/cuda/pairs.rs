//! Products of the vectors of a sample on tensor cores: `kernels/pairs.cu`. Vectors of tables are fetched where they are needed and
//! never written out, but for gradients of rows that several ids share.

use super::Cuda;
use super::memory::Pointer;
use super::operand::Values;
use super::product::Form;
use super::rule::Rule;
use super::tables::{BLOCK, TableCall, spans};
use super::update::{Gradients, OnCard, TILE};
use crate::op::Result;
use crate::reference::embedding::check_bounds;
use crate::{
    BagIndex, Buffer, DotShape, DotUpdate, LookupDot, PairVectors, Repeats, SortedIds, Stored, Table, Update,
};
use ground::optimizer::UpdateRule;
use ground::precision::Precision;

/// The most vectors of a sample, and the most floats of one.
const VECTORS: usize = 32;
const DIM: usize = 256;
/// The most warps of a block, by what its kernel was compiled for (`__launch_bounds__`): where one warp has a sample, and where two
/// share it.
const WARPS: usize = 8;
const SHARING_WARPS: usize = 12;
/// Threads of a warp.
const WARP: usize = 32;
/// Bytes of the list of places that the blocks of `pair_gradients_…` have, and floats for the sums of two warps that share a sample.
const PLACES: usize = 16 * WARP * size_of::<u32>();
const SUMS: usize = 2 * 8 * WARP;

/// `struct Pairs` of `kernels/pairs.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
struct Pairs {
    rows: u64,
    count: u32,
    dim: u32,
    out_stride: u32,
    lanes: u32,
    tables: u64,
    starts: u64,
    lengths: u64,
    samples: u64,
    values: u64,
    value_count: u64,
    weights: u64,
    first: u64,
    first_stride: u32,
    first_bf16: u32,
    vectors: u64,
    once: u64,
    faults: u64,
}

/// `struct PairGradients` of `kernels/pairs.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
struct PairGradients {
    dout: u64,
    dfirst: u64,
    dfirst_stride: u32,
    dfirst_bf16: u32,
    dvectors: u64,
}

impl Cuda {
    /// Whether products of this shape are computed on tensor cores.
    pub(crate) fn fuses_pairs(&self, shape: DotShape) -> bool {
        fuses(self, shape)
    }
}

/// Whether products of this shape are computed on tensor cores.
pub(super) fn fuses(cuda: &Cuda, shape: DotShape) -> bool {
    let DotShape { count, dim, .. } = shape;
    matches!(cuda.precision(), Precision::Bf16 | Precision::Tf32)
        && (2..=VECTORS).contains(&count)
        && dim.is_multiple_of(16)
        && (16..=DIM).contains(&dim)
        && Room::backward(shape, form(cuda)).block(1) <= cuda.gpu().shared_memory()
}

/// Whether all tables are of f32: the kernels here read and change no other rows.
pub(super) fn of_floats(tables: &[Table]) -> bool {
    tables.iter().all(|table| table.weights.floats().is_some())
}

/// How operands are stored: as the precision says.
fn form(cuda: &Cuda) -> Form {
    if cuda.precision() == Precision::Bf16 { Form::Bf16 } else { Form::F32 }
}

/// Shared memory of the warps that have a sample, one or several, in floats.
#[derive(Clone, Copy)]
struct Room {
    /// Floats from vector to vector.
    stride: usize,
    /// Floats of a sample: there is room for the one at hand and for the next one.
    floats: usize,
    /// Floats of the warps, the rooms of both samples included.
    share: usize,
    /// Warps that have a sample.
    parts: usize,
    /// Bytes that the warps of a block have together.
    common: usize,
}

impl Room {
    /// Neighbouring vectors lie in other banks, by what the elements of an operand are. A row of products is put together as it is
    /// stored; behind it there is room for what is no product.
    fn forward(shape: DotShape, number: Form, stored: Form) -> Self {
        let stride = shape.dim + if number == Form::Bf16 { 8 } else { 4 };
        let floats = shape.count * stride;
        let staged = floats_of(Stored::stride(shape.width()) + 8 + WARP, stored);
        Self { stride, floats, share: 2 * floats + staged, parts: 1, common: 0 }
    }

    /// Gradients of products lie behind the vectors, and a zero behind them.
    fn backward(shape: DotShape, number: Form) -> Self {
        let (pad, parts) = if number == Form::Bf16 { (4, 2) } else { (8, 1) };
        let stride = shape.dim + pad;
        let floats = shape.count * stride + floats_of(Stored::stride(shape.width()) + 8, number);
        let sums = if parts > 1 { SUMS } else { 0 };
        Self { stride, floats, share: 2 * floats + sums, parts, common: PLACES }
    }

    /// Bytes of a block for `groups` samples at a time.
    fn block(self, groups: usize) -> usize {
        groups * self.share * size_of::<f32>() + self.common
    }

    /// Samples that a block has at a time, which has a multiprocessor for itself.
    fn groups(self, cuda: &Cuda) -> usize {
        let warps = if self.parts > 1 { SHARING_WARPS } else { WARPS };
        let (bytes, all) = (self.share * size_of::<f32>(), cuda.gpu().shared_memory());
        (all.saturating_sub(self.common) / bytes).clamp(1, warps / self.parts)
    }

    /// As many blocks as run at a time, or as there are samples for.
    fn blocks(self, cuda: &Cuda, rows: usize) -> usize {
        rows.div_ceil(self.groups(cuda)).min(cuda.multiprocessors() as usize)
    }
}

/// Floats that `count` elements take, of which there is a multiple of eight.
fn floats_of(count: usize, form: Form) -> usize {
    count * form.bytes() / size_of::<f32>()
}

impl Pairs {
    /// Vectors of a buffer.
    fn of_buffer(shape: DotShape, vectors: &Buffer<f32>, out_stride: usize) -> Self {
        let DotShape { rows, count, dim } = shape;
        let first = Values { at: vectors.card_address(), width: count * dim, form: Form::F32 };
        Self { vectors: vectors.card_address().0, ..Self::new(rows, count, dim, out_stride, first) }
    }

    /// Vectors of tables.
    fn of_tables(cuda: &Cuda, of: &PairVectors, tables: Pointer, out_stride: usize) -> Self {
        let DotShape { rows, count, dim } = of.shape;
        Self {
            tables: tables.0,
            starts: of.index.starts.card_address().0,
            lengths: of.index.lengths.card_address().0,
            samples: of.index.samples as u64,
            values: of.values.card_address().0,
            value_count: of.values.len() as u64,
            weights: of.weights.map_or(0, |weights| weights.card_address().0),
            faults: cuda.faults().0,
            ..Self::new(rows, count, dim, out_stride, Values::of(of.first, dim))
        }
    }

    fn new(rows: usize, count: usize, dim: usize, out_stride: usize, first: Values) -> Self {
        Self {
            rows: rows as u64,
            count: count as u32,
            dim: dim as u32,
            out_stride: out_stride as u32,
            lanes: dim.div_ceil(4).next_power_of_two().min(32) as u32,
            first: first.at.0,
            first_stride: first.stride() as u32,
            first_bf16: u32::from(first.form == Form::Bf16),
            ..bytemuck::Zeroable::zeroed()
        }
    }

    fn words(self) -> [u64; 15] {
        bytemuck::cast(self)
    }
}

/// Tables in the order of their vectors, with columns counted without vector 0.
fn calls(of: &PairVectors, tables: &[Table], update: Option<&UpdateRule>) -> Vec<TableCall> {
    let dim = of.shape.dim;
    let mut order: Vec<usize> = (0..tables.len()).collect();
    order.sort_by_key(|&t| of.columns[t]);
    let each = |table: &Table| update.map_or(0, |rule| rule.state_per_row(table.dim));
    let call = |t: usize| TableCall::new(&tables[t], t, of.columns[t] - dim, each(&tables[t]));
    order.into_iter().map(call).collect()
}

pub(super) fn lookup_dot(cuda: &Cuda, args: LookupDot) -> Result {
    let LookupDot { tables, of, out, .. } = args;
    cuda.note_rows(tables.iter().map(|table| table.rows));
    cuda.note_values(of.values.len());
    let out = Values::of(out, of.shape.width());
    let calls = cuda.constant(&calls(&of, tables, None))?;
    products(cuda, of.shape, Pairs::of_tables(cuda, &of, calls, out.stride()), out)
}

/// Products of vectors that lie in a buffer.
pub(super) fn dot_forward(
    cuda: &Cuda,
    shape: DotShape,
    vectors: &Buffer<f32>,
    out: &mut Buffer<f32>,
) -> Result {
    let out = Values::of(out, shape.width());
    products(cuda, shape, Pairs::of_buffer(shape, vectors, out.stride()), out)
}

fn products(cuda: &Cuda, shape: DotShape, pairs: Pairs, out: Values) -> Result {
    let kernel = match out.form {
        Form::Bf16 => "pair_products_bf16",
        Form::F32 if cuda.precision() == Precision::Bf16 => "pair_products_bf16_to_f32",
        Form::F32 => "pair_products_tf32",
    };
    let room = Room::forward(shape, form(cuda), out.form);
    cuda.kernel(kernel)
        .block((WARP * room.parts * room.groups(cuda)) as u32)
        .grid(room.blocks(cuda, shape.rows))
        .shared(room.block(room.groups(cuda)))
        .words(&pairs.words())
        .arg(room.stride as u32)
        .arg(room.floats as u32)
        .arg(room.share as u32)
        .arg(out.at)
        .launch()
}

/// Gradients of products of vectors that lie in a buffer.
pub(super) fn dot_backward(
    cuda: &Cuda,
    shape: DotShape,
    vectors: &Buffer<f32>,
    dout: &Buffer<f32>,
    dvectors: &mut Buffer<f32>,
) -> Result {
    let (dout, width) = (operand(cuda, shape, dout)?, shape.count * shape.dim);
    let to = PairGradients {
        dout: dout.at.0,
        dfirst: dvectors.card_address().0,
        dfirst_stride: width as u32,
        dfirst_bf16: 0,
        dvectors: dvectors.card_address().0,
    };
    let pairs = Pairs::of_buffer(shape, vectors, dout.stride());
    gradients(cuda, shape, pairs, dout, to, Update::new(UpdateRule::Sgd, 0.0, 1))
}

pub(super) fn dot_update(cuda: &Cuda, args: DotUpdate) -> Result {
    let DotUpdate { tables, of, sorted, repeats, dout, dfirst, gradients: room, update, .. } = args;
    let DotShape { rows, count, dim } = of.shape;
    check_bounds(0..tables.len(), of.index, sorted)?;
    cuda.note_rows(tables.iter().map(|table| table.rows));
    cuda.note_samples(of.index.samples, rows);
    cuda.note_values(of.values.len());
    let width = (count - 1) * dim;
    room.resize(rows * width)?;
    let list = calls(&of, tables, Some(&update.rule));
    let calls = cuda.constant(&list)?;
    let (dout, first) = (operand(cuda, of.shape, dout)?, Values::of(dfirst, dim));
    let to = PairGradients {
        dout: dout.at.0,
        dfirst: first.at.0,
        dfirst_stride: first.stride() as u32,
        dfirst_bf16: u32::from(first.form == Form::Bf16),
        dvectors: room.card_address().0,
    };
    let once = repeats.once.card_address().0;
    let pairs = Pairs { once, ..Pairs::of_tables(cuda, &of, calls, dout.stride()) };
    gradients(cuda, of.shape, pairs, dout, to, update)?;
    // Rows of several ids, by gradients that were written out.
    let bounds = &sorted.bounds;
    let parts = spans(list.iter().map(|call| (bounds[call.number()], bounds[call.number() + 1])), TILE);
    let (index, weights) = (of.index, of.weights);
    let gradients = Gradients { index, sorted, weights, dout: room, width };
    let spans = cuda.array(index.places.vary, &parts)?;
    OnCard { calls, spans, gradients }.update_repeats(cuda, &list, &parts, update, repeats)
}

/// The gradient of the products, stored as the operands of products are.
fn operand(cuda: &Cuda, shape: DotShape, dout: &Buffer<f32>) -> Result<Values> {
    Values::of(dout, shape.width()).as_form(cuda, shape.rows, form(cuda))
}

fn gradients(
    cuda: &Cuda,
    shape: DotShape,
    pairs: Pairs,
    dout: Values,
    to: PairGradients,
    update: Update,
) -> Result {
    let room = Room::backward(shape, dout.form);
    cuda.kernel(kernel_of(dout.form, &update.rule))
        .block((WARP * room.parts * room.groups(cuda)) as u32)
        .grid(room.blocks(cuda, shape.rows))
        .shared(room.block(room.groups(cuda)))
        .words(&pairs.words())
        .words(&bytemuck::cast::<_, [u64; 4]>(to))
        .words(&Rule::row(update).words())
        .arg(room.stride as u32)
        .arg(room.floats as u32)
        .arg(room.share as u32)
        .launch()
}

/// The kernel for gradients stored as the operands are. SGD and row-wise Adagrad have one of their own.
fn kernel_of(form: Form, rule: &UpdateRule) -> &'static str {
    match (form, rule) {
        (Form::Bf16, UpdateRule::Sgd) => "pair_gradients_bf16_sgd",
        (Form::Bf16, UpdateRule::RowWiseAdagrad { .. }) => "pair_gradients_bf16_row_wise",
        (Form::Bf16, _) => "pair_gradients_bf16",
        (Form::F32, UpdateRule::Sgd) => "pair_gradients_tf32_sgd",
        (Form::F32, UpdateRule::RowWiseAdagrad { .. }) => "pair_gradients_tf32_row_wise",
        (Form::F32, _) => "pair_gradients_tf32",
    }
}

/// Marks ids whose row is of no other id, and lists the first keys of the other rows.
pub(super) fn find_repeats(
    cuda: &Cuda,
    index: &BagIndex,
    sorted: &SortedIds,
    repeats: &mut Repeats,
) -> Result {
    let (keys, values) = (sorted.keys.len(), sorted.samples.len());
    repeats.once.resize(values)?;
    // A row of several ids has two keys at least.
    repeats.list.resize(keys / 2 + 1)?;
    repeats.count.resize(1)?;
    let tables = sorted.bounds.len().saturating_sub(1);
    let parts = spans((0..tables).map(|t| (sorted.bounds[t], sorted.bounds[t + 1])), TILE);
    let most = parts.iter().map(|part| part.count as usize).max().unwrap_or(0);
    cuda.stream().fill(repeats.count.card_address().0, 0, size_of::<u32>())?;
    cuda.kernel("mark_repeats")
        .grid3([most.div_ceil(BLOCK), tables, 1])
        .arg(cuda.array(index.places.vary, &parts)?)
        .arg(&sorted.keys)
        .arg(values)
        .arg(&mut repeats.once)
        .arg(&mut repeats.count)
        .arg(&mut repeats.list)
        .launch()
}
