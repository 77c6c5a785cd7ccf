//! A device without arithmetic: outputs get their sizes and nothing else.

use crate::backend::Backend;
use crate::op::Result;
use crate::{
    BagIndex, Bce, BlockCopy, Buffer, Bytes, CollectRows, ColumnCopy, CrossBackward, Decode, DotShape,
    DrawTable, Dropout, Encode, FmShape, IndexBags, LinearBackward, LinearCrossForward, LinearForward,
    Lookup, LookupTensorTrains, Matrix, MatrixMut, RowPart, RowRuns, SortedIds, SpreadRows, SumRows, Table,
    TensorTrainGradients, UpdateDense, UpdateRows, UpdateTables,
};
use std::ops::Range;

/// Backend of [`Device::Idle`](crate::Device::Idle).
#[derive(Debug)]
pub(crate) struct Idle;

impl Backend for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn linear_forward(&self, _: LinearForward) -> Result {
        Ok(())
    }

    fn linear_cross_forward(&self, _: LinearCrossForward) -> Result {
        Ok(())
    }

    fn linear_backward(&self, _: LinearBackward) -> Result {
        Ok(())
    }

    fn dot_forward(&self, _: DotShape, _: &Buffer<f32>, _: &mut Buffer<f32>) -> Result {
        Ok(())
    }

    fn dot_backward(&self, _: DotShape, _: &Buffer<f32>, _: &Buffer<f32>, _: &mut Buffer<f32>) -> Result {
        Ok(())
    }

    fn cross_backward(&self, _: CrossBackward) -> Result {
        Ok(())
    }

    fn fm_forward(&self, _: FmShape, _: &Buffer<f32>, _: &mut Buffer<f32>) -> Result {
        Ok(())
    }

    fn fm_backward(&self, _: FmShape, _: &Buffer<f32>, _: &Buffer<f32>, _: &mut Buffer<f32>) -> Result {
        Ok(())
    }

    fn relu_backward(&self, _: usize, _: &Buffer<f32>, _: &mut Buffer<f32>) -> Result {
        Ok(())
    }

    fn add(&self, _: usize, _: &Buffer<f32>, _: &mut Buffer<f32>) -> Result {
        Ok(())
    }

    fn scale(&self, _: usize, _: f32, _: &mut Buffer<f32>) -> Result {
        Ok(())
    }

    fn dropout(&self, _: Dropout) -> Result {
        Ok(())
    }

    fn bce(&self, _: Bce) -> Result {
        Ok(())
    }

    fn sigmoid(&self, _: usize, _: &Buffer<f32>, _: &mut Buffer<f32>) -> Result {
        Ok(())
    }

    fn copy_columns(&self, _: usize, _: &[ColumnCopy], _: Matrix, _: MatrixMut) -> Result {
        Ok(())
    }

    fn add_columns(&self, _: usize, _: &[ColumnCopy], _: Matrix, _: MatrixMut) -> Result {
        Ok(())
    }

    fn sum(&self, _: &Buffer<f32>) -> Result<Option<f64>> {
        Ok(None)
    }

    fn update_dense(&self, _: UpdateDense) -> Result {
        Ok(())
    }

    fn sum_of_squares(&self, _: &Buffer<f32>, _: f32) -> Result<Option<f64>> {
        Ok(None)
    }

    fn draw_table(&self, _: DrawTable) -> Result {
        Ok(())
    }

    fn index_bags(&self, args: IndexBags) -> Result {
        args.index.resize(args.tables, args.samples)
    }

    fn sort_ids(
        &self,
        _: &[Table],
        index: &BagIndex,
        values: &Buffer<u32>,
        sorted: &mut SortedIds,
    ) -> Result {
        sorted.bounds.clear();
        sorted.bounds.resize(index.tables + 1, 0);
        sorted.samples.resize(values.len())
    }

    fn lookup(&self, _: Lookup) -> Result {
        Ok(())
    }

    fn update_tables(&self, _: UpdateTables) -> Result {
        Ok(())
    }

    fn mark_sorted(&self, _: &mut [Table], _: Range<usize>, _: (&BagIndex, &SortedIds)) -> Result {
        Ok(())
    }

    fn mark_parts(&self, _: &mut [Table], _: &[RowPart], _: &Buffer<u32>) -> Result {
        Ok(())
    }

    fn find_runs(&self, _: &[usize], _: &SortedIds, _: &mut RowRuns, _: &mut Buffer<u32>) -> Result<bool> {
        Ok(false)
    }

    fn sum_rows(&self, args: SumRows) -> Result {
        let SumRows { tables, which, runs, sums, .. } = args;
        let runs = runs.bounds.windows(2).map(|of| of[1] - of[0]);
        sums.resize(which.iter().zip(runs).map(|(&t, runs)| runs * tables[t].dim).sum())
    }

    fn spread_rows(&self, args: SpreadRows) -> Result {
        let SpreadRows { tables, which, vector, .. } = args;
        vector.resize(which.iter().map(|&t| tables[t].rows * (tables[t].dim + 1)).sum())
    }

    fn collect_rows(&self, args: CollectRows) -> Result {
        args.parts.clear();
        Ok(())
    }

    fn update_rows(&self, _: UpdateRows) -> Result {
        Ok(())
    }

    fn lookup_tensor_trains(&self, _: LookupTensorTrains) -> Result {
        Ok(())
    }

    fn tensor_train_gradients(&self, _: TensorTrainGradients) -> Result {
        Ok(())
    }

    /// Leaves zeros where rows have headers: what lies in memory by chance may stand for infinities, which a rank that computes
    /// would refuse.
    fn encode(&self, args: Encode) -> Result {
        let Encode { codec, rows, to, to_at, .. } = args;
        if let (true, Some(first), Some(last)) = (codec.by_rows(), rows.rows.first(), rows.rows.last()) {
            let row = codec.encoded_bytes(1, last.width as u64) as usize;
            let len = last.byte + row - first.byte + rows.count.saturating_sub(1) * rows.bytes;
            if let Some(bytes) = to.host_mut().get_mut(to_at..to_at + len) {
                bytes.fill(0);
            }
        }
        Ok(())
    }

    fn decode(&self, _: Decode) -> Result {
        Ok(())
    }

    fn copy_blocks(&self, _: &[BlockCopy], _: usize, _: &Bytes, _: &mut Bytes) -> Result {
        Ok(())
    }
}
