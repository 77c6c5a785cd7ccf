//! The operations of the host's cores, each in the module of its family.

use super::{
    Cpu, chain, codec, cross, dropout, elementwise, fm, gradients, index, interaction, linear, lookup,
    optimizer, packed, rows, sort, tensor_train, update, wire,
};
use crate::backend::{Backend, cross_layer_in_parts};
use crate::op::Result;
use crate::reference::elementwise::Targets;
use crate::{
    BagIndex, Bce, BlockCopy, Buffer, Bytes, ChainBackward, ChainForward, CollectRows, ColumnCopy,
    CrossBackward, CrossInputs, CrossLayerBackward, CrossLayersForward, Decode, DotShape, DrawTable, Dropout,
    Encode, FmShape, IndexBags, LinearBackward, LinearCrossForward, LinearForward, Lookup,
    LookupTensorTrains, Matrix, MatrixMut, PackLinear, RowPart, RowRuns, SortedIds, SpreadRows, SumRows,
    Table, TensorTrainGradients, UpdateDense, UpdateRows, UpdateTables, reference,
};
use std::ops::Range;

impl Backend for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn pack_linears(&self, maps: &mut [PackLinear]) -> Result {
        maps.iter_mut().try_for_each(|map| packed::pack_linear(self, map))
    }

    fn linear_forward(&self, args: LinearForward) -> Result {
        linear::forward(self, args);
        Ok(())
    }

    fn linear_cross_forward(&self, args: LinearCrossForward) -> Result {
        linear::forward_cross(self, args);
        Ok(())
    }

    fn linear_backward(&self, args: LinearBackward) -> Result {
        linear::backward(self, args);
        Ok(())
    }

    fn chain_forward(&self, args: ChainForward) -> Result {
        chain::forward(self, args);
        Ok(())
    }

    fn chain_backward(&self, args: ChainBackward) -> Result {
        chain::backward(self, args);
        Ok(())
    }

    fn cross_layers_forward(&self, args: CrossLayersForward) -> Result {
        chain::cross_forward(self, args);
        Ok(())
    }

    fn cross_layer_backward(&self, args: CrossLayerBackward) -> Result {
        match args.inputs {
            CrossInputs::Summed { .. } => chain::cross_backward(self, args),
            CrossInputs::Kept { .. } => return cross_layer_in_parts(self, args),
        }
        Ok(())
    }

    fn dot_forward(&self, shape: DotShape, vectors: &Buffer<f32>, out: &mut Buffer<f32>) -> Result {
        interaction::forward(self, shape, vectors.host(), out.host_mut());
        Ok(())
    }

    fn dot_backward(
        &self,
        shape: DotShape,
        vectors: &Buffer<f32>,
        dout: &Buffer<f32>,
        dvectors: &mut Buffer<f32>,
    ) -> Result {
        interaction::backward(self, shape, vectors.host(), dout.host(), dvectors.host_mut());
        Ok(())
    }

    fn cross_backward(&self, args: CrossBackward) -> Result {
        cross::cross_backward(self, args);
        Ok(())
    }

    fn fm_forward(&self, shape: FmShape, vectors: &Buffer<f32>, out: &mut Buffer<f32>) -> Result {
        fm::forward(self, shape, vectors.host(), out.host_mut());
        Ok(())
    }

    fn fm_backward(
        &self,
        shape: FmShape,
        vectors: &Buffer<f32>,
        dout: &Buffer<f32>,
        dvectors: &mut Buffer<f32>,
    ) -> Result {
        fm::backward(self, shape, vectors.host(), dout.host(), dvectors.host_mut());
        Ok(())
    }

    fn relu_backward(&self, len: usize, y: &Buffer<f32>, dy: &mut Buffer<f32>) -> Result {
        elementwise::relu_backward(self, &y.host()[..len], &mut dy.host_mut()[..len]);
        Ok(())
    }

    fn add(&self, len: usize, x: &Buffer<f32>, y: &mut Buffer<f32>) -> Result {
        elementwise::add(self, &x.host()[..len], &mut y.host_mut()[..len]);
        Ok(())
    }

    fn scale(&self, len: usize, factor: f32, y: &mut Buffer<f32>) -> Result {
        elementwise::scale(self, factor, &mut y.host_mut()[..len]);
        Ok(())
    }

    fn dropout(&self, args: Dropout) -> Result {
        dropout::dropout(self, args);
        Ok(())
    }

    fn bce(&self, args: Bce) -> Result {
        let Bce { rows, smoothing, scale, .. } = args;
        let (logits, dlogits) = (&args.logits.host()[..rows], &mut args.dlogits.host_mut()[..rows]);
        let labels = &args.labels.host()[..rows];
        let weights = args.weights.map_or(&[][..], |weights| &weights.host()[..rows]);
        let targets = Targets { labels, weights, smoothing, scale };
        args.loss.host_mut()[0] = elementwise::bce(self, logits, &targets, dlogits)?;
        match args.probabilities {
            Some(probabilities) => self.sigmoid(rows, args.logits, probabilities),
            None => Ok(()),
        }
    }

    fn sigmoid(&self, rows: usize, logits: &Buffer<f32>, out: &mut Buffer<f32>) -> Result {
        elementwise::sigmoid(self, &logits.host()[..rows], &mut out.host_mut()[..rows]);
        Ok(())
    }

    fn copy_columns(&self, rows: usize, copies: &[ColumnCopy], from: Matrix, to: MatrixMut) -> Result {
        let widths = [from.width, to.width];
        elementwise::copy_columns(self, copies, from.rows(rows), to.rows(rows), widths);
        Ok(())
    }

    fn add_columns(&self, rows: usize, copies: &[ColumnCopy], from: Matrix, to: MatrixMut) -> Result {
        let widths = [from.width, to.width];
        elementwise::add_columns(self, copies, from.rows(rows), to.rows(rows), widths);
        Ok(())
    }

    fn sum(&self, x: &Buffer<f32>) -> Result<Option<f64>> {
        Ok(Some(elementwise::sum(self, x.host())))
    }

    fn update_dense(&self, args: UpdateDense) -> Result {
        optimizer::update_dense(self, args);
        Ok(())
    }

    fn sum_of_squares(&self, gradient: &Buffer<f32>, limit: f32) -> Result<Option<f64>> {
        Ok(Some(gradients::sum_of_squares(self, gradient.host(), limit)))
    }

    fn draw_table(&self, args: DrawTable) -> Result {
        reference::embedding::draw_table(args)
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

    // One pass over memory, as the reference does it, as are the next two.
    fn mark_sorted(&self, tables: &mut [Table], which: Range<usize>, ids: (&BagIndex, &SortedIds)) -> Result {
        reference::rows::mark_sorted(tables, which, ids.1);
        Ok(())
    }

    fn mark_parts(&self, tables: &mut [Table], parts: &[RowPart], rows: &Buffer<u32>) -> Result {
        reference::rows::mark_parts(tables, parts, rows);
        Ok(())
    }

    fn find_runs(
        &self,
        which: &[usize],
        sorted: &SortedIds,
        runs: &mut RowRuns,
        rows: &mut Buffer<u32>,
    ) -> Result<bool> {
        reference::rows::find_runs(which, sorted, runs, rows).map(|()| true)
    }

    fn sum_rows(&self, args: SumRows) -> Result {
        rows::sum_rows(self, args)
    }

    fn spread_rows(&self, args: SpreadRows) -> Result {
        reference::rows::spread_rows(args)
    }

    fn collect_rows(&self, args: CollectRows) -> Result {
        reference::rows::collect_rows(args)
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
        codec::decode(self, args);
        Ok(())
    }

    fn copy_blocks(&self, blocks: &[BlockCopy], size: usize, from: &Bytes, to: &mut Bytes) -> Result {
        wire::copy_blocks(self, blocks, size, from.host(), to.host_mut());
        Ok(())
    }
}
