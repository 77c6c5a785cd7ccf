//! Backends: the operations that every kind of device implements.
//!
//! [`Device`](crate::Device) checks operands, then calls the [`Backend`] of its variant. Operands are buffers, not slices:
//! a backend looks into memory in its own way. Every operand lives on the backend's device and is as long as the operation
//! needs; contents (ids, bag lengths, sorted keys) are checked by the backend, before it changes anything.
//!
//! A new device is a file that implements this trait, a variant of `Device` with its [`Home`](crate::memory::Home), and a
//! variant of [`Memory`](crate::memory::Memory).

use crate::op::Result;
use crate::{
    BagIndex, Bce, BlockCopy, Buffer, Bytes, ChainBackward, ChainForward, ChainLayer, CollectRows,
    ColumnCopy, CrossBackward, CrossInputs, CrossKept, CrossLayerBackward, CrossLayersBackward,
    CrossLayersForward, CrossMaps, CrossX0Gradient, Decode, DotShape, DotUpdate, DrawTable, Dropout, Encode,
    FmShape, IndexBags, InputGradient, LinearBackward, LinearCrossForward, LinearForward, Lookup, LookupDot,
    LookupTensorTrains, Matrix, MatrixMut, PackLinear, PairVectors, Repeats, RowPart, RowRuns, SortedIds,
    SpreadRows, SumRows, Table, TensorTrainGradients, UpdateDense, UpdateRows, UpdateTables,
};
use ground::Activation;
use std::ops::Range;

/// All operations, on operands that are checked. Formulas are those of the methods of [`Device`](crate::Device).
pub(crate) trait Backend {
    /// Name of the device, for messages.
    fn name(&self) -> &'static str;

    /// Packs matrices for the products below; a device that reads matrices themselves leaves nothing packed.
    fn pack_linears(&self, maps: &mut [PackLinear]) -> Result {
        maps.iter_mut().for_each(|map| map.packed.clear());
        Ok(())
    }
    fn linear_forward(&self, args: LinearForward) -> Result;
    fn linear_cross_forward(&self, args: LinearCrossForward) -> Result;
    fn linear_backward(&self, args: LinearBackward) -> Result;

    /// Layers one by one, where nothing is gained otherwise.
    fn chain_forward(&self, args: ChainForward) -> Result {
        let ChainForward { rows, layers, x, outputs } = args;
        for (i, layer) in layers.iter().enumerate() {
            let ChainLayer { activation, parameters, at, packed, .. } = *layer;
            let (below, y) = outputs.split_at_mut(i);
            let (shape, x, y) = (layer.shape(rows), below.last().unwrap_or(x), &mut y[0]);
            self.linear_forward(LinearForward { shape, x, parameters, at, packed, activation, y })?;
        }
        Ok(())
    }

    /// Layers one by one, where nothing is gained otherwise.
    fn chain_backward(&self, args: ChainBackward) -> Result {
        let ChainBackward { rows, layers, outputs, output_gradients, gradients, .. } = args;
        let mut dx = args.dx;
        for (i, layer) in layers.iter().enumerate().rev() {
            let ChainLayer { parameters, at, packed, .. } = *layer;
            let (below, dy) = output_gradients.split_at_mut(i);
            let shape = layer.shape(rows);
            if args.activated && layer.relu() && i + 1 == layers.len() {
                self.relu_backward(rows * layer.outputs, &outputs[i], &mut dy[0])?;
            }
            let (x, dx) = match below.last_mut() {
                Some(dx) => {
                    let relu = layers[i - 1].relu();
                    (&outputs[i - 1], Some((dx, InputGradient { accumulate: false, relu })))
                }
                None => (args.x, dx.take()),
            };
            let (dy, gradients) = (&dy[0], &mut *gradients);
            self.linear_backward(LinearBackward { shape, x, parameters, at, packed, dy, dx, gradients })?;
        }
        Ok(())
    }

    /// Maps one by one, where nothing is gained otherwise.
    fn cross_layers_forward(&self, args: CrossLayersForward) -> Result {
        let CrossLayersForward { rows, layers, x0, x, kept } = args;
        for (i, &CrossMaps { v, w }) in layers.iter().enumerate() {
            let (before, rest) = kept.split_at_mut(i);
            let x = before.last().map_or(x, |layer| &layer.output);
            let CrossKept { h, z, output } = &mut rest[0];
            if let Some(v) = v {
                let (shape, parameters, at, packed) = (v.shape(rows), v.parameters, v.at, v.packed);
                let (activation, y) = (Activation::Identity, &mut *h);
                self.linear_forward(LinearForward { shape, x, parameters, at, packed, activation, y })?;
            }
            let (h, shape) = (if v.is_some() { &*h } else { x }, w.shape(rows));
            let (parameters, at, packed, out) = (w.parameters, w.at, w.packed, output);
            self.linear_cross_forward(LinearCrossForward {
                shape,
                h,
                parameters,
                at,
                packed,
                x0,
                x,
                z,
                out,
            })?;
        }
        Ok(())
    }

    fn cross_layer_backward(&self, args: CrossLayerBackward) -> Result {
        cross_layer_in_parts(self, args)
    }

    /// Layers one by one, where nothing is gained otherwise.
    fn cross_layers_backward(&self, args: CrossLayersBackward) -> Result {
        cross_layers_one_by_one(self, args)
    }

    /// Layers one by one, where nothing is gained otherwise.
    fn cross_x0_gradient(&self, args: CrossX0Gradient) -> Result {
        let CrossX0Gradient { rows, width, kept, gradients, dx, room, dx0 } = args;
        let len = rows * width;
        for (i, (kept, dout)) in kept.iter().zip(gradients).enumerate().rev() {
            let (z, accumulate) = (&kept.z, i + 1 < gradients.len());
            let (dz, dx0) = (&mut *room, &mut *dx0);
            self.cross_backward(CrossBackward { len, x0: z, z, dout, dz, dx0, accumulate })?;
        }
        if gradients.is_empty() { self.copy_rows(rows, width, dx, dx0) } else { self.add(len, dx, dx0) }
    }

    /// Columns, where all devices store rows alike.
    fn copy_rows(&self, rows: usize, width: usize, from: &Buffer<f32>, to: &mut Buffer<f32>) -> Result {
        let all = [ColumnCopy { from: 0, to: 0, width }];
        let (from, to) = (Matrix { buffer: from, at: 0, width }, MatrixMut { buffer: to, at: 0, width });
        self.copy_columns(rows, &all, from, to)
    }

    fn lookup_dot(&self, args: LookupDot) -> Result {
        lookup_then_dot(self, args)
    }

    fn dot_update(&self, args: DotUpdate) -> Result {
        dot_then_update(self, args)
    }

    /// Finds nothing where updates are not fused with products.
    fn find_repeats(&self, _index: &BagIndex, _sorted: &SortedIds, _repeats: &mut Repeats) -> Result {
        Ok(())
    }

    fn dot_forward(&self, shape: DotShape, vectors: &Buffer<f32>, out: &mut Buffer<f32>) -> Result;
    fn dot_backward(
        &self,
        shape: DotShape,
        vectors: &Buffer<f32>,
        dout: &Buffer<f32>,
        dvectors: &mut Buffer<f32>,
    ) -> Result;
    fn cross_backward(&self, args: CrossBackward) -> Result;
    fn fm_forward(&self, shape: FmShape, vectors: &Buffer<f32>, out: &mut Buffer<f32>) -> Result;
    fn fm_backward(
        &self,
        shape: FmShape,
        vectors: &Buffer<f32>,
        dout: &Buffer<f32>,
        dvectors: &mut Buffer<f32>,
    ) -> Result;

    fn relu_backward(&self, len: usize, y: &Buffer<f32>, dy: &mut Buffer<f32>) -> Result;
    fn add(&self, len: usize, x: &Buffer<f32>, y: &mut Buffer<f32>) -> Result;
    fn scale(&self, len: usize, factor: f32, y: &mut Buffer<f32>) -> Result;
    fn dropout(&self, args: Dropout) -> Result;
    fn bce(&self, args: Bce) -> Result;
    fn sigmoid(&self, rows: usize, logits: &Buffer<f32>, out: &mut Buffer<f32>) -> Result;
    fn copy_columns(&self, rows: usize, copies: &[ColumnCopy], from: Matrix, to: MatrixMut) -> Result;
    fn add_columns(&self, rows: usize, copies: &[ColumnCopy], from: Matrix, to: MatrixMut) -> Result;

    /// Gives `None` where nothing is computed.
    fn sum(&self, x: &Buffer<f32>) -> Result<Option<f64>>;

    fn update_dense(&self, args: UpdateDense) -> Result;
    /// Gives `None` where nothing is computed.
    fn sum_of_squares(&self, gradient: &Buffer<f32>, limit: f32) -> Result<Option<f64>>;

    fn draw_table(&self, args: DrawTable) -> Result;
    /// Refuses segments whose ids reach past the values; gives the index its size.
    fn index_bags(&self, args: IndexBags) -> Result;
    /// Refuses bags past the values and ids past the end of their table; gives the sorted ids their size.
    fn sort_ids(
        &self,
        tables: &[Table],
        index: &BagIndex,
        values: &Buffer<u32>,
        sorted: &mut SortedIds,
    ) -> Result;
    /// Refuses bags past the values and ids past the end of their table.
    fn lookup(&self, args: Lookup) -> Result;
    /// Refuses keys that do not fit the tables and the index.
    fn update_tables(&self, args: UpdateTables) -> Result;

    /// Marks the rows of keys in the tables that have marks; passes over rows past the end of their table.
    fn mark_sorted(&self, tables: &mut [Table], which: Range<usize>, ids: (&BagIndex, &SortedIds)) -> Result;
    /// Marks rows in the tables of their parts that have marks; passes over rows past the end of their table.
    fn mark_parts(&self, tables: &mut [Table], parts: &[RowPart], rows: &Buffer<u32>) -> Result;

    /// Gives false where nothing is computed; gives runs and rows their size elsewhere.
    fn find_runs(
        &self,
        which: &[usize],
        sorted: &SortedIds,
        runs: &mut RowRuns,
        rows: &mut Buffer<u32>,
    ) -> Result<bool>;
    /// Refuses keys that name no sample of the index or of `dout`; gives the sums their size.
    fn sum_rows(&self, args: SumRows) -> Result;
    /// Refuses rows past the end of their table; gives the vector its size.
    fn spread_rows(&self, args: SpreadRows) -> Result;
    /// Gives parts, rows and sums their size.
    fn collect_rows(&self, args: CollectRows) -> Result;
    /// Refuses rows past the end of their table.
    fn update_rows(&self, args: UpdateRows) -> Result;

    /// Refuses bags past the values and ids past the end of their table.
    fn lookup_tensor_trains(&self, args: LookupTensorTrains) -> Result;
    /// Refuses rows past the end of their table.
    fn tensor_train_gradients(&self, args: TensorTrainGradients) -> Result;

    /// Refuses values that are not finite in codecs with a header; then anything may be in the outputs.
    fn encode(&self, args: Encode) -> Result;
    fn decode(&self, args: Decode) -> Result;

    /// Copies blocks of elements of `size` bytes.
    fn copy_blocks(&self, blocks: &[BlockCopy], size: usize, from: &Bytes, to: &mut Bytes) -> Result;
}

/// Maps one by one: [`Backend::cross_layer_backward`] where nothing is gained otherwise.
pub(crate) fn cross_layer_in_parts<B: Backend + ?Sized>(backend: &B, args: CrossLayerBackward) -> Result {
    let CrossLayerBackward { rows, maps, x0, x, kept, gradient, dz, dh, inputs, gradients } = args;
    let (width, w) = (maps.w.outputs, maps.w);
    let (len, z) = (rows * width, &kept.z);
    let (mut summed, gradient) = match inputs {
        CrossInputs::Summed { dx0, accumulate, first } => {
            let (dout, dz, dx0) = (&*gradient, &mut *dz, &mut *dx0);
            backend.cross_backward(CrossBackward { len, x0, z, dout, dz, dx0, accumulate })?;
            (first.then_some(dx0), gradient)
        }
        CrossInputs::Kept { dx } => {
            // The share of `x0` is overwritten: it is computed later.
            let (dout, dz, dx0) = (&*gradient, &mut *dz, &mut *dx);
            backend.cross_backward(CrossBackward { len, x0, z, dout, dz, dx0, accumulate: false })?;
            backend.copy_rows(rows, width, gradient, dx)?;
            (None, dx)
        }
    };
    let (set, added) = (InputGradient::default(), InputGradient { accumulate: true, relu: false });
    let mut back =
        |map: ChainLayer, x: &Buffer<f32>, dy: &Buffer<f32>, dx: (&mut Buffer<f32>, InputGradient)| {
            let (shape, parameters, at, packed) = (map.shape(rows), map.parameters, map.at, map.packed);
            let (dx, gradients) = (Some(dx), &mut *gradients);
            backend.linear_backward(LinearBackward { shape, x, parameters, at, packed, dy, dx, gradients })
        };
    match maps.v {
        Some(v) => {
            back(w, &kept.h, dz, (&mut *dh, set))?;
            back(v, x, dh, (&mut *gradient, added))?;
        }
        None => back(w, x, dz, (&mut *gradient, added))?,
    }
    summed.as_mut().map_or(Ok(()), |dx0| backend.add(len, gradient, dx0))
}

/// Layers one by one: [`Backend::cross_layers_backward`] where nothing is gained otherwise.
pub(crate) fn cross_layers_one_by_one<B: Backend + ?Sized>(backend: &B, args: CrossLayersBackward) -> Result {
    let CrossLayersBackward { rows, layers, x0, kept, of_outputs, dz, dh, dx0, gradients } = args;
    for (i, &maps) in layers.iter().enumerate().rev() {
        let (below, above) = of_outputs.split_at_mut(i + 1);
        backend.cross_layer_backward(CrossLayerBackward {
            rows,
            maps,
            x0,
            x: if i == 0 { x0 } else { &kept[i - 1].output },
            kept: &kept[i],
            gradient: &mut above[0],
            dz: &mut *dz,
            dh: &mut *dh,
            inputs: CrossInputs::Kept { dx: &mut below[i] },
            gradients: &mut *gradients,
        })?;
    }
    let Some((dx, gradients)) = of_outputs.split_first() else { return Ok(()) };
    let width = layers.first().map_or(0, |maps| maps.w.outputs);
    backend.cross_x0_gradient(CrossX0Gradient { rows, width, kept, gradients, dx, room: dz, dx0 })
}

/// Lookup and products one after the other: [`Backend::lookup_dot`] where nothing is gained otherwise.
pub(crate) fn lookup_then_dot<B: Backend + ?Sized>(backend: &B, args: LookupDot) -> Result {
    let LookupDot { tables, of, vectors, out } = args;
    let (DotShape { rows, dim, .. }, width) = (of.shape, of.width());
    of.first.plain("lookup_dot")?;
    vectors.resize(rows * width)?;
    let first = [ColumnCopy { from: 0, to: 0, width: dim }];
    let from = Matrix { buffer: of.first, at: 0, width: dim };
    backend.copy_columns(rows, &first, from, MatrixMut { buffer: vectors, at: 0, width })?;
    let PairVectors { columns, index, values, weights, .. } = of;
    backend.lookup(Lookup {
        tables,
        which: 0..tables.len(),
        columns,
        width,
        index,
        samples: 0..rows,
        values,
        weights,
        out: vectors,
    })?;
    backend.dot_forward(of.shape, vectors, out)
}

/// Gradients and updates one after the other: [`Backend::dot_update`] where nothing is gained otherwise.
pub(crate) fn dot_then_update<B: Backend + ?Sized>(backend: &B, args: DotUpdate) -> Result {
    let DotUpdate { tables, of, sorted, vectors, dout, dfirst, gradients, update, .. } = args;
    let (DotShape { rows, dim, .. }, width) = (of.shape, of.width());
    dfirst.plain("dot_update")?;
    gradients.resize(rows * width)?;
    backend.dot_backward(of.shape, vectors, dout, gradients)?;
    let first = [ColumnCopy { from: 0, to: 0, width: dim }];
    let from = Matrix { buffer: gradients, at: 0, width };
    backend.copy_columns(rows, &first, from, MatrixMut { buffer: dfirst, at: 0, width: dim })?;
    let PairVectors { columns, index, weights, .. } = of;
    backend.update_tables(UpdateTables {
        which: 0..tables.len(),
        tables,
        columns,
        width,
        index,
        sorted,
        weights,
        dout: gradients,
        update,
    })
}
