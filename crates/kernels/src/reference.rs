//! Slow, obvious implementations: the specification.
//!
//! Matrices are row-major. Sums that a fast kernel may order differently are added in double precision here, so that a
//! comparison measures the fast kernel's rounding alone; sums whose order is promised (`decode`, the gradient of a
//! table row) are added in single precision in that order.

pub mod codec;
pub mod elementwise;
pub mod embedding;
pub mod fm;
pub mod interaction;
pub mod linear;
pub mod optimizer;
pub mod rows;
pub mod tensor_train;
mod weights;
pub mod wire;

use crate::backend::Backend;
use crate::op::Result;
use crate::{
    BagIndex, Bce, BlockCopy, Buffer, Bytes, CollectRows, ColumnCopy, CrossBackward, Decode, DotShape,
    DrawTable, Dropout, Encode, FmShape, IndexBags, LinearBackward, LinearCrossForward, LinearForward,
    LinearShape, Lookup, LookupTensorTrains, Matrix, MatrixMut, RowPart, RowRuns, SortedIds, SpreadRows,
    SumRows, Table, TensorTrainGradients, UpdateDense, UpdateRows, UpdateTables,
};
use elementwise::Targets;
use ground::share;
use std::ops::Range;

/// Backend of [`Device::Reference`](crate::Device::Reference).
#[derive(Debug)]
pub(crate) struct Reference;

impl Backend for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn linear_forward(&self, args: LinearForward) -> Result {
        let LinearForward { shape, at, activation, .. } = args;
        let (w, b) = at.find(shape, args.parameters.host());
        linear::linear_forward(shape, args.x.host(), w, b, activation, args.y.host_mut());
        Ok(())
    }

    fn linear_cross_forward(&self, args: LinearCrossForward) -> Result {
        let LinearCrossForward { shape, at, .. } = args;
        let (w, b) = at.find(shape, args.parameters.host());
        let (x0_x, z, out) = ([args.x0.host(), args.x.host()], args.z.host_mut(), args.out.host_mut());
        linear::linear_cross_forward(shape, args.h.host(), w, b, x0_x, z, out);
        Ok(())
    }

    fn linear_backward(&self, args: LinearBackward) -> Result {
        let LinearBackward { shape, at, .. } = args;
        let (w, _) = at.find(shape, args.parameters.host());
        let (x, dy, count) = (args.x.host(), args.dy.host(), args.gradients.len());
        for (i, gradient) in args.gradients.iter_mut().enumerate() {
            let rows = share(shape.rows, count, i);
            let (x, dy) = (&x[rows.start * shape.inputs..], &dy[rows.start * shape.outputs..]);
            let (dw, db) = at.find_mut(shape, gradient.host_mut());
            linear::linear_gradients(LinearShape { rows: rows.len(), ..shape }, x, dy, dw, db);
        }
        if let Some((dx, into)) = args.dx {
            linear::linear_input_gradient(shape, x, w, dy, dx.host_mut(), into);
        }
        Ok(())
    }

    fn dot_forward(&self, shape: DotShape, vectors: &Buffer<f32>, out: &mut Buffer<f32>) -> Result {
        interaction::dot_forward(shape, vectors.host(), out.host_mut());
        Ok(())
    }

    fn dot_backward(
        &self,
        shape: DotShape,
        vectors: &Buffer<f32>,
        dout: &Buffer<f32>,
        dvectors: &mut Buffer<f32>,
    ) -> Result {
        interaction::dot_backward(shape, vectors.host(), dout.host(), dvectors.host_mut());
        Ok(())
    }

    fn cross_backward(&self, args: CrossBackward) -> Result {
        interaction::cross_backward(args);
        Ok(())
    }

    fn fm_forward(&self, shape: FmShape, vectors: &Buffer<f32>, out: &mut Buffer<f32>) -> Result {
        fm::forward(shape, vectors.host(), out.host_mut());
        Ok(())
    }

    fn fm_backward(
        &self,
        shape: FmShape,
        vectors: &Buffer<f32>,
        dout: &Buffer<f32>,
        dvectors: &mut Buffer<f32>,
    ) -> Result {
        fm::backward(shape, vectors.host(), dout.host(), dvectors.host_mut());
        Ok(())
    }

    fn relu_backward(&self, len: usize, y: &Buffer<f32>, dy: &mut Buffer<f32>) -> Result {
        elementwise::relu_backward(&y.host()[..len], &mut dy.host_mut()[..len]);
        Ok(())
    }

    fn add(&self, len: usize, x: &Buffer<f32>, y: &mut Buffer<f32>) -> Result {
        elementwise::add(&x.host()[..len], &mut y.host_mut()[..len]);
        Ok(())
    }

    fn scale(&self, len: usize, factor: f32, y: &mut Buffer<f32>) -> Result {
        elementwise::scale(factor, &mut y.host_mut()[..len]);
        Ok(())
    }

    fn dropout(&self, args: Dropout) -> Result {
        elementwise::dropout(args);
        Ok(())
    }

    fn bce(&self, args: Bce) -> Result {
        let Bce { rows, smoothing, scale, .. } = args;
        let (logits, dlogits) = (&args.logits.host()[..rows], &mut args.dlogits.host_mut()[..rows]);
        let labels = &args.labels.host()[..rows];
        let weights = args.weights.map_or(&[][..], |weights| &weights.host()[..rows]);
        let targets = Targets { labels, weights, smoothing, scale };
        args.loss.host_mut()[0] = elementwise::bce(logits, &targets, dlogits);
        match args.probabilities {
            Some(probabilities) => self.sigmoid(rows, args.logits, probabilities),
            None => Ok(()),
        }
    }

    fn sigmoid(&self, rows: usize, logits: &Buffer<f32>, out: &mut Buffer<f32>) -> Result {
        elementwise::sigmoid(&logits.host()[..rows], &mut out.host_mut()[..rows]);
        Ok(())
    }

    fn copy_columns(&self, rows: usize, copies: &[ColumnCopy], from: Matrix, to: MatrixMut) -> Result {
        let widths = [from.width, to.width];
        elementwise::copy_columns(copies, from.rows(rows), to.rows(rows), widths);
        Ok(())
    }

    fn add_columns(&self, rows: usize, copies: &[ColumnCopy], from: Matrix, to: MatrixMut) -> Result {
        let widths = [from.width, to.width];
        elementwise::add_columns(copies, from.rows(rows), to.rows(rows), widths);
        Ok(())
    }

    fn sum(&self, x: &Buffer<f32>) -> Result<Option<f64>> {
        Ok(Some(elementwise::sum(x.host())))
    }

    fn update_dense(&self, args: UpdateDense) -> Result {
        let (weights, state) = (args.weights.host_mut(), args.state.host_mut());
        optimizer::update_dense(args.update, args.tensors, weights, args.gradient.host_mut(), state);
        Ok(())
    }

    fn sum_of_squares(&self, gradient: &Buffer<f32>, limit: f32) -> Result<Option<f64>> {
        Ok(Some(optimizer::sum_of_squares(gradient.host(), limit)))
    }

    fn draw_table(&self, args: DrawTable) -> Result {
        embedding::draw_table(args)
    }

    fn index_bags(&self, args: IndexBags) -> Result {
        embedding::index_bags(args)
    }

    fn sort_ids(
        &self,
        tables: &[Table],
        index: &BagIndex,
        values: &Buffer<u32>,
        sorted: &mut SortedIds,
    ) -> Result {
        embedding::sort_ids(tables, index, values, sorted)
    }

    fn lookup(&self, args: Lookup) -> Result {
        embedding::lookup(args)
    }

    fn update_tables(&self, args: UpdateTables) -> Result {
        embedding::update_tables(args)
    }

    fn mark_sorted(&self, tables: &mut [Table], which: Range<usize>, ids: (&BagIndex, &SortedIds)) -> Result {
        rows::mark_sorted(tables, which, ids.1);
        Ok(())
    }

    fn mark_parts(&self, tables: &mut [Table], parts: &[RowPart], rows: &Buffer<u32>) -> Result {
        rows::mark_parts(tables, parts, rows);
        Ok(())
    }

    fn find_runs(
        &self,
        which: &[usize],
        sorted: &SortedIds,
        runs: &mut RowRuns,
        rows: &mut Buffer<u32>,
    ) -> Result<bool> {
        rows::find_runs(which, sorted, runs, rows).map(|()| true)
    }

    fn sum_rows(&self, args: SumRows) -> Result {
        rows::sum_rows(args)
    }

    fn spread_rows(&self, args: SpreadRows) -> Result {
        rows::spread_rows(args)
    }

    fn collect_rows(&self, args: CollectRows) -> Result {
        rows::collect_rows(args)
    }

    fn update_rows(&self, args: UpdateRows) -> Result {
        rows::update_rows(args)
    }

    fn lookup_tensor_trains(&self, args: LookupTensorTrains) -> Result {
        tensor_train::lookup_tensor_trains(args)
    }

    fn tensor_train_gradients(&self, args: TensorTrainGradients) -> Result {
        tensor_train::tensor_train_gradients(args)
    }

    fn encode(&self, args: Encode) -> Result {
        codec::encode(args)
    }

    fn decode(&self, args: Decode) -> Result {
        codec::decode(args)
    }

    fn copy_blocks(&self, blocks: &[BlockCopy], size: usize, from: &Bytes, to: &mut Bytes) -> Result {
        wire::copy_blocks(blocks, size, from.host(), to.host_mut());
        Ok(())
    }
}
