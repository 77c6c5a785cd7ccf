//! The operations of a card, each in the module of its family.

use super::operand::Values;
use super::{
    Cuda, chain, codec, columns, cross, draw, elementwise, index, interaction, linear, lookup, marks,
    optimizer, pack, pairs, rows, sort, tensor_train, update, wire,
};
use crate::backend::{Backend, dot_then_update, lookup_then_dot};
use crate::op::Result;
use crate::{
    BagIndex, Bce, BlockCopy, Buffer, Bytes, ChainBackward, ChainForward, CollectRows, ColumnCopy,
    CrossBackward, CrossLayerBackward, CrossLayersBackward, CrossLayersForward, CrossX0Gradient, Decode,
    DotShape, DotUpdate, DrawTable, Dropout, Encode, FmShape, IndexBags, LinearBackward, LinearCrossForward,
    LinearForward, Lookup, LookupDot, LookupTensorTrains, Matrix, MatrixMut, PackLinear, Repeats, RowPart,
    RowRuns, SortedIds, SpreadRows, SumRows, Table, TensorTrainGradients, UpdateDense, UpdateRows,
    UpdateTables,
};
use std::ops::Range;

impl Backend for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn linear_forward(&self, args: LinearForward) -> Result {
        linear::linear_forward(self, args)
    }

    fn pack_linears(&self, maps: &mut [PackLinear]) -> Result {
        pack::pack_linears(self, maps)
    }

    fn chain_forward(&self, args: ChainForward) -> Result {
        chain::chain_forward(self, args)
    }

    fn chain_backward(&self, args: ChainBackward) -> Result {
        chain::chain_backward(self, args)
    }

    fn linear_cross_forward(&self, args: LinearCrossForward) -> Result {
        linear::linear_cross_forward(self, args)
    }

    fn linear_backward(&self, args: LinearBackward) -> Result {
        linear::linear_backward(self, args)
    }

    fn lookup_dot(&self, args: LookupDot) -> Result {
        match pairs::fuses(self, args.of.shape) && pairs::of_floats(args.tables) {
            true => pairs::lookup_dot(self, args),
            false => lookup_then_dot(self, args),
        }
    }

    fn dot_update(&self, args: DotUpdate) -> Result {
        match pairs::fuses(self, args.of.shape) && pairs::of_floats(args.tables) {
            true => pairs::dot_update(self, args),
            false => dot_then_update(self, args),
        }
    }

    fn find_repeats(&self, index: &BagIndex, sorted: &SortedIds, repeats: &mut Repeats) -> Result {
        pairs::find_repeats(self, index, sorted, repeats)
    }

    fn dot_forward(&self, shape: DotShape, vectors: &Buffer<f32>, out: &mut Buffer<f32>) -> Result {
        interaction::dot_forward(self, shape, vectors, out)
    }

    fn dot_backward(
        &self,
        shape: DotShape,
        vectors: &Buffer<f32>,
        dout: &Buffer<f32>,
        dvectors: &mut Buffer<f32>,
    ) -> Result {
        interaction::dot_backward(self, shape, vectors, dout, dvectors)
    }

    fn cross_layers_forward(&self, args: CrossLayersForward) -> Result {
        cross::forward(self, args)
    }

    fn cross_layer_backward(&self, args: CrossLayerBackward) -> Result {
        cross::backward(self, args)
    }

    fn cross_layers_backward(&self, args: CrossLayersBackward) -> Result {
        cross::layers_backward(self, args)
    }

    fn cross_x0_gradient(&self, args: CrossX0Gradient) -> Result {
        cross::x0_gradient(self, args)
    }

    fn copy_rows(&self, rows: usize, width: usize, from: &Buffer<f32>, to: &mut Buffer<f32>) -> Result {
        cross::copy(self, rows, Values::of(from, width), Values::of(to, width))
    }

    fn cross_backward(&self, args: CrossBackward) -> Result {
        interaction::cross_backward(self, args)
    }

    fn fm_forward(&self, shape: FmShape, vectors: &Buffer<f32>, out: &mut Buffer<f32>) -> Result {
        interaction::fm_forward(self, shape, vectors, out)
    }

    fn fm_backward(
        &self,
        shape: FmShape,
        vectors: &Buffer<f32>,
        dout: &Buffer<f32>,
        dvectors: &mut Buffer<f32>,
    ) -> Result {
        interaction::fm_backward(self, shape, vectors, dout, dvectors)
    }

    fn relu_backward(&self, len: usize, y: &Buffer<f32>, dy: &mut Buffer<f32>) -> Result {
        elementwise::relu_backward(self, len, y, dy)
    }

    fn add(&self, len: usize, x: &Buffer<f32>, y: &mut Buffer<f32>) -> Result {
        elementwise::add(self, len, x, y)
    }

    fn scale(&self, len: usize, factor: f32, y: &mut Buffer<f32>) -> Result {
        elementwise::scale(self, len, factor, y)
    }

    fn dropout(&self, args: Dropout) -> Result {
        elementwise::dropout(self, args)
    }

    fn bce(&self, args: Bce) -> Result {
        elementwise::bce(self, args)
    }

    fn sigmoid(&self, rows: usize, logits: &Buffer<f32>, out: &mut Buffer<f32>) -> Result {
        elementwise::sigmoid(self, rows, logits, out)
    }

    fn copy_columns(&self, rows: usize, copies: &[ColumnCopy], from: Matrix, to: MatrixMut) -> Result {
        columns::copy_columns(self, rows, copies, from, to)
    }

    fn add_columns(&self, rows: usize, copies: &[ColumnCopy], from: Matrix, to: MatrixMut) -> Result {
        columns::add_columns(self, rows, copies, from, to)
    }

    fn sum(&self, x: &Buffer<f32>) -> Result<Option<f64>> {
        elementwise::sum(self, x)
    }

    fn update_dense(&self, args: UpdateDense) -> Result {
        optimizer::update_dense(self, args)
    }

    fn sum_of_squares(&self, gradient: &Buffer<f32>, limit: f32) -> Result<Option<f64>> {
        elementwise::sum_of_squares(self, gradient, limit)
    }

    fn draw_table(&self, args: DrawTable) -> Result {
        draw::draw_table(self, args)
    }

    fn index_bags(&self, args: IndexBags) -> Result {
        index::index_bags(self, args)
    }

    fn sort_ids(
        &self,
        tables: &[Table],
        index: &BagIndex,
        values: &Buffer<u32>,
        sorted: &mut SortedIds,
    ) -> Result {
        sort::sort_ids(self, tables, index, values, sorted)
    }

    fn lookup(&self, args: Lookup) -> Result {
        lookup::lookup(self, args)
    }

    fn update_tables(&self, args: UpdateTables) -> Result {
        update::update_tables(self, args)
    }

    fn mark_sorted(&self, tables: &mut [Table], which: Range<usize>, ids: (&BagIndex, &SortedIds)) -> Result {
        marks::mark_sorted(self, tables, which, ids)
    }

    fn mark_parts(&self, tables: &mut [Table], parts: &[RowPart], rows: &Buffer<u32>) -> Result {
        marks::mark_parts(self, tables, parts, rows)
    }

    fn find_runs(
        &self,
        which: &[usize],
        sorted: &SortedIds,
        runs: &mut RowRuns,
        rows: &mut Buffer<u32>,
    ) -> Result<bool> {
        rows::find_runs(self, which, sorted, runs, rows)
    }

    fn sum_rows(&self, args: SumRows) -> Result {
        rows::sum_rows(self, args)
    }

    fn spread_rows(&self, args: SpreadRows) -> Result {
        rows::spread_rows(self, args)
    }

    fn collect_rows(&self, args: CollectRows) -> Result {
        rows::collect_rows(self, args)
    }

    fn update_rows(&self, args: UpdateRows) -> Result {
        rows::update_rows(self, args)
    }

    fn lookup_tensor_trains(&self, args: LookupTensorTrains) -> Result {
        tensor_train::lookup(self, args)
    }

    fn tensor_train_gradients(&self, args: TensorTrainGradients) -> Result {
        tensor_train::gradients(self, args)
    }

    fn encode(&self, args: Encode) -> Result {
        codec::encode(self, args)
    }

    fn decode(&self, args: Decode) -> Result {
        codec::decode(self, args)
    }

    fn copy_blocks(&self, blocks: &[BlockCopy], size: usize, from: &Bytes, to: &mut Bytes) -> Result {
        wire::copy_blocks(self, blocks, size, from, to)
    }
}
