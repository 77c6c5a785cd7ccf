//! One enum, every operation. Each method states its formula, checks its operands and dispatches.
//!
//! Matrices are row-major. Buffers may be longer than their shape: a last, smaller batch uses the front.

use crate::embedding::{BagIndex, Segment, SortedIds, Table, check_sorted};
use crate::error::need;
use crate::{Buffer, Cpu, KernelError, cpu, reference};
use spec::Activation;
use spec::optimizer::UpdateRule;
use std::ops::Range;

type Result<T = ()> = std::result::Result<T, KernelError>;

/// Where arithmetic happens.
#[derive(Clone, Debug)]
pub enum Device {
    /// Slow, obvious, single-threaded: the specification of every operation.
    Reference,
    /// The host's cores.
    Cpu(Cpu),
    /// No arithmetic at all: every operation checks its operands and gives its outputs their sizes, and their contents
    /// mean nothing. Tables have no memory here. For steps whose computations are only waited for.
    Idle,
}

/// `rows` samples through a map from `inputs` to `outputs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearShape {
    /// Samples.
    pub rows: usize,
    /// Width of the input.
    pub inputs: usize,
    /// Width of the output.
    pub outputs: usize,
}

/// Where a linear map's parameters lie in a buffer of many: the matrix first, the bias behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearAt {
    /// Where the matrix begins.
    pub weight: usize,
    /// Where the bias begins, if there is one; at or behind the end of the matrix.
    pub bias: Option<usize>,
}

impl LinearAt {
    /// The end of the last of them; past every buffer when they overlap.
    fn end(&self, shape: LinearShape) -> usize {
        let matrix = self.weight.saturating_add(size([shape.outputs, shape.inputs]));
        match self.bias {
            None => matrix,
            Some(bias) if bias >= matrix => bias.saturating_add(shape.outputs),
            Some(_) => usize::MAX,
        }
    }

    fn split<'a>(&self, shape: LinearShape, all: &'a mut [f32]) -> (&'a mut [f32], Option<&'a mut [f32]>) {
        let matrix = shape.outputs * shape.inputs;
        let (head, tail) = all.split_at_mut(self.weight + matrix);
        let bias = self.bias.map(|bias| &mut tail[bias - self.weight - matrix..][..shape.outputs]);
        (&mut head[self.weight..], bias)
    }
}

/// How the gradient of a linear map's input is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputGradient {
    /// Added to what is there.
    pub accumulate: bool,
    /// The input came out of a ReLU: the gradient is zero where it was not positive.
    pub relu: bool,
}

/// A block of columns copied from one matrix to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnCopy {
    /// First column in the source.
    pub from: usize,
    /// First column in the destination.
    pub to: usize,
    /// Columns.
    pub width: usize,
}

impl Device {
    /// The host's cores, `threads` of them.
    pub fn cpu(threads: usize) -> Result<Device> {
        Ok(Device::Cpu(Cpu::new(threads)?))
    }

    /// Whether results mean anything; not on [`Device::Idle`].
    pub fn computes(&self) -> bool {
        !matches!(self, Device::Idle)
    }

    /// Runs `work` where the device's own threads are at hand. Everything a rank does in a step happens inside.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match self {
            Device::Reference | Device::Idle => work(),
            Device::Cpu(cpu) => cpu.enter(work),
        }
    }

    /// `y = act(x·wᵀ + b)`; `w` is outputs × inputs, as PyTorch's. `w` and `b` lie in `parameters`, `at` says where.
    pub fn linear_forward(
        &self,
        shape: LinearShape,
        x: &Buffer<f32>,
        parameters: &Buffer<f32>,
        at: LinearAt,
        activation: Activation,
        y: &mut Buffer<f32>,
    ) -> Result {
        const OP: &str = "linear_forward";
        let LinearShape { rows, inputs, outputs } = shape;
        need(OP, "x", size([rows, inputs]), x.len())?;
        need(OP, "parameters", at.end(shape), parameters.len())?;
        need(OP, "y", size([rows, outputs]), y.len())?;
        let (x, parameters, y) = (x.host(), parameters.host(), y.host_mut());
        let w = &parameters[at.weight..][..outputs * inputs];
        let b = at.bias.map(|bias| &parameters[bias..][..outputs]);
        match self {
            Device::Reference => reference::linear_forward(shape, x, w, b, activation, y),
            Device::Cpu(cpu) => cpu::linear::forward(cpu, shape, x, w, b, activation, y),
            Device::Idle => {}
        }
        Ok(())
    }

    /// The last product of a cross layer: `z = h·wᵀ + b`, and `out = x0 ⊙ z + x`.
    pub fn linear_cross_forward(
        &self,
        shape: LinearShape,
        h: &Buffer<f32>,
        parameters: &Buffer<f32>,
        at: LinearAt,
        [x0, x]: [&Buffer<f32>; 2],
        z: &mut Buffer<f32>,
        out: &mut Buffer<f32>,
    ) -> Result {
        const OP: &str = "linear_cross_forward";
        let LinearShape { rows, inputs, outputs } = shape;
        need(OP, "h", size([rows, inputs]), h.len())?;
        need(OP, "parameters", at.end(shape), parameters.len())?;
        for (operand, len) in [("x0", x0.len()), ("x", x.len()), ("z", z.len()), ("out", out.len())] {
            need(OP, operand, size([rows, outputs]), len)?;
        }
        let (h, parameters, x0_x) = (h.host(), parameters.host(), [x0.host(), x.host()]);
        let (z, out) = (z.host_mut(), out.host_mut());
        let w = &parameters[at.weight..][..outputs * inputs];
        let b = at.bias.map(|bias| &parameters[bias..][..outputs]);
        match self {
            Device::Reference => reference::linear_cross_forward(shape, h, w, b, x0_x, z, out),
            Device::Cpu(cpu) => cpu::linear::forward_cross(cpu, shape, h, w, b, x0_x, z, out),
            Device::Idle => {}
        }
        Ok(())
    }

    /// The gradients of `y = x·wᵀ + b`: `dw = dyᵀ·x` and `db = Σ dy`, which land in `gradient` where `w` and `b` lie in
    /// `parameters`, and `dx = dy·w`, in the way that [`InputGradient`] says.
    pub fn linear_backward(
        &self,
        shape: LinearShape,
        x: &Buffer<f32>,
        parameters: &Buffer<f32>,
        at: LinearAt,
        dy: &Buffer<f32>,
        dx: Option<(&mut Buffer<f32>, InputGradient)>,
        gradient: &mut Buffer<f32>,
    ) -> Result {
        const OP: &str = "linear_backward";
        let LinearShape { rows, inputs, outputs } = shape;
        need(OP, "x", size([rows, inputs]), x.len())?;
        need(OP, "parameters", at.end(shape), parameters.len())?;
        need(OP, "gradient", at.end(shape), gradient.len())?;
        need(OP, "dy", size([rows, outputs]), dy.len())?;
        if let Some((dx, _)) = &dx {
            need(OP, "dx", size([rows, inputs]), dx.len())?;
        }
        let dx = dx.map(|(dx, into)| (dx.host_mut(), into));
        let (x, dy) = (x.host(), dy.host());
        let w = &parameters.host()[at.weight..][..outputs * inputs];
        let (dw, db) = at.split(shape, gradient.host_mut());
        match self {
            Device::Reference => reference::linear_backward(shape, x, w, dy, dx, dw, db),
            Device::Cpu(cpu) => cpu::linear::backward(cpu, shape, x, w, dy, dx, dw, db),
            Device::Idle => {}
        }
        Ok(())
    }

    /// `dy = 0` where a ReLU gave `y ≤ 0`.
    pub fn relu_backward(&self, len: usize, y: &Buffer<f32>, dy: &mut Buffer<f32>) -> Result {
        need("relu_backward", "y", len, y.len())?;
        need("relu_backward", "dy", len, dy.len())?;
        let (y, dy) = (&y.host()[..len], &mut dy.host_mut()[..len]);
        match self {
            Device::Reference => reference::relu_backward(y, dy),
            Device::Cpu(cpu) => cpu::elementwise::relu_backward(cpu, y, dy),
            Device::Idle => {}
        }
        Ok(())
    }

    /// Pairwise dot products. Each row of `vectors` holds `count` vectors of `dim`; each row of `out` becomes vector 0,
    /// then `⟨vᵢ, vⱼ⟩` for i > j in the order (1,0), (2,0), (2,1), (3,0) …
    pub fn dot_forward(
        &self,
        rows: usize,
        count: usize,
        dim: usize,
        vectors: &Buffer<f32>,
        out: &mut Buffer<f32>,
    ) -> Result {
        const OP: &str = "dot_forward";
        need(OP, "vectors", size([rows, count, dim]), vectors.len())?;
        need(OP, "out", size([rows, dot_width(count, dim)]), out.len())?;
        let (vectors, out) = (vectors.host(), out.host_mut());
        match self {
            Device::Reference => reference::dot_forward(rows, count, dim, vectors, out),
            Device::Cpu(cpu) => cpu::interaction::forward(cpu, rows, count, dim, vectors, out),
            Device::Idle => {}
        }
        Ok(())
    }

    /// The gradient of [`Device::dot_forward`]; overwrites `dvectors`.
    pub fn dot_backward(
        &self,
        rows: usize,
        count: usize,
        dim: usize,
        vectors: &Buffer<f32>,
        dout: &Buffer<f32>,
        dvectors: &mut Buffer<f32>,
    ) -> Result {
        const OP: &str = "dot_backward";
        need(OP, "vectors", size([rows, count, dim]), vectors.len())?;
        need(OP, "dout", size([rows, dot_width(count, dim)]), dout.len())?;
        need(OP, "dvectors", size([rows, count, dim]), dvectors.len())?;
        let (vectors, dout, dvectors) = (vectors.host(), dout.host(), dvectors.host_mut());
        match self {
            Device::Reference => reference::dot_backward(rows, count, dim, vectors, dout, dvectors),
            Device::Cpu(cpu) => cpu::interaction::backward(cpu, rows, count, dim, vectors, dout, dvectors),
            Device::Idle => {}
        }
        Ok(())
    }

    /// The gradients of `out = x0 ⊙ z + x` but for `x`, whose gradient is `dout` itself: `dz = dout ⊙ x0`, and
    /// `dx0 = dout ⊙ z` (`dx0 += dout ⊙ z` when `accumulate`).
    pub fn cross_backward(
        &self,
        len: usize,
        x0: &Buffer<f32>,
        z: &Buffer<f32>,
        dout: &Buffer<f32>,
        dz: &mut Buffer<f32>,
        dx0: &mut Buffer<f32>,
        accumulate: bool,
    ) -> Result {
        const OP: &str = "cross_backward";
        need(OP, "x0", len, x0.len())?;
        need(OP, "z", len, z.len())?;
        need(OP, "dout", len, dout.len())?;
        need(OP, "dz", len, dz.len())?;
        need(OP, "dx0", len, dx0.len())?;
        let (x0, z, dout, dz, dx0) = (x0.host(), z.host(), dout.host(), dz.host_mut(), dx0.host_mut());
        match self {
            Device::Reference => reference::cross_backward(len, x0, z, dout, dz, dx0, accumulate),
            Device::Cpu(cpu) => cpu::elementwise::cross_backward(cpu, len, x0, z, dout, dz, dx0, accumulate),
            Device::Idle => {}
        }
        Ok(())
    }

    /// `y += x`.
    pub fn add(&self, len: usize, x: &Buffer<f32>, y: &mut Buffer<f32>) -> Result {
        need("add", "x", len, x.len())?;
        need("add", "y", len, y.len())?;
        let (x, y) = (&x.host()[..len], &mut y.host_mut()[..len]);
        match self {
            Device::Reference => reference::add(x, y),
            Device::Cpu(cpu) => cpu::elementwise::add(cpu, x, y),
            Device::Idle => {}
        }
        Ok(())
    }

    /// Binary cross-entropy on logits. `dlogits = (σ(logit) − label) · scale`; returns the *sum* of the samples' losses,
    /// added in sample order in double precision.
    pub fn bce(
        &self,
        rows: usize,
        logits: &Buffer<f32>,
        labels: &Buffer<f32>,
        scale: f32,
        dlogits: &mut Buffer<f32>,
    ) -> Result<f64> {
        const OP: &str = "bce";
        need(OP, "logits", rows, logits.len())?;
        need(OP, "labels", rows, labels.len())?;
        need(OP, "dlogits", rows, dlogits.len())?;
        if !self.computes() {
            return Ok(0.0);
        }
        // One value a sample: no device gains from a kernel of its own here yet.
        Ok(reference::bce(rows, logits.host(), labels.host(), scale, dlogits.host_mut()))
    }

    /// `out[r] = σ(logits[r])`.
    pub fn sigmoid(&self, rows: usize, logits: &Buffer<f32>, out: &mut Buffer<f32>) -> Result {
        need("sigmoid", "logits", rows, logits.len())?;
        need("sigmoid", "out", rows, out.len())?;
        if self.computes() {
            reference::sigmoid(rows, logits.host(), out.host_mut());
        }
        Ok(())
    }

    /// Copies blocks of columns: `to[r, c.to + i] = from[r, c.from + i]` for every copy `c`.
    pub fn copy_columns(
        &self,
        rows: usize,
        copies: &[ColumnCopy],
        from: &Buffer<f32>,
        from_at: usize,
        from_width: usize,
        to: &mut Buffer<f32>,
        to_at: usize,
        to_width: usize,
    ) -> Result {
        check_columns(
            "copy_columns",
            rows,
            copies,
            (from.len(), from_at, from_width),
            (to.len(), to_at, to_width),
        )?;
        let from = &from.host()[from_at..from_at + rows * from_width];
        let to = &mut to.host_mut()[to_at..to_at + rows * to_width];
        match self {
            Device::Reference => reference::copy_columns(copies, from, from_width, to, to_width),
            Device::Cpu(cpu) => cpu::elementwise::copy_columns(cpu, copies, from, from_width, to, to_width),
            Device::Idle => {}
        }
        Ok(())
    }

    /// Adds blocks of columns: `to[r, c.to + i] += from[r, c.from + i]` for every copy `c`.
    pub fn add_columns(
        &self,
        rows: usize,
        copies: &[ColumnCopy],
        from: &Buffer<f32>,
        from_at: usize,
        from_width: usize,
        to: &mut Buffer<f32>,
        to_at: usize,
        to_width: usize,
    ) -> Result {
        check_columns(
            "add_columns",
            rows,
            copies,
            (from.len(), from_at, from_width),
            (to.len(), to_at, to_width),
        )?;
        let from = &from.host()[from_at..from_at + rows * from_width];
        let to = &mut to.host_mut()[to_at..to_at + rows * to_width];
        match self {
            Device::Reference => reference::add_columns(copies, from, from_width, to, to_width),
            Device::Cpu(cpu) => cpu::elementwise::add_columns(cpu, copies, from, from_width, to, to_width),
            Device::Idle => {}
        }
        Ok(())
    }

    /// The ordered sum of a reduction: `out[i] = ((block₀[i] + block₁[i]) + block₂[i]) + …`, where block `k` is
    /// `blocks[k·len..][..len]`.
    pub fn sum_blocks(
        &self,
        count: usize,
        len: usize,
        blocks: &Buffer<f32>,
        out: &mut Buffer<f32>,
        out_at: usize,
    ) -> Result {
        need("sum_blocks", "blocks", size([count, len]), blocks.len())?;
        need("sum_blocks", "out", out_at.saturating_add(len), out.len())?;
        let (blocks, out) = (&blocks.host()[..count * len], &mut out.host_mut()[out_at..out_at + len]);
        match self {
            Device::Reference => reference::sum_blocks(len, blocks, out),
            Device::Cpu(cpu) => cpu::elementwise::sum_blocks(cpu, len, blocks, out),
            Device::Idle => {}
        }
        Ok(())
    }

    /// The sum of all elements, in no particular order: a streaming read of the buffer, for measurements.
    pub fn sum(&self, x: &Buffer<f32>) -> f64 {
        match self {
            Device::Reference => reference::sum(x.host()),
            Device::Cpu(cpu) => cpu::elementwise::sum(cpu, x.host()),
            Device::Idle => 0.0,
        }
    }

    /// One update of dense weights by `rule` (see [`spec::optimizer`]); `step` counts from 1. `state` holds
    /// `rule.state_per_row(len)` floats.
    pub fn update_dense(
        &self,
        rule: &UpdateRule,
        rate: f32,
        step: u64,
        weights: &mut Buffer<f32>,
        gradient: &Buffer<f32>,
        state: &mut Buffer<f32>,
    ) -> Result {
        const OP: &str = "update_dense";
        need(OP, "gradient", weights.len(), gradient.len())?;
        if !matches!(rule, UpdateRule::RowWiseAdagrad { .. }) {
            need(OP, "state", rule.state_per_row(weights.len()), state.len())?;
        } else {
            return Err(KernelError::Device(
                "row-wise Adagrad is a rule for tables, not for dense layers".into(),
            ));
        }
        let (weights, gradient, state) = (weights.host_mut(), gradient.host(), state.host_mut());
        match self {
            Device::Reference => reference::update_dense(rule, rate, step, weights, gradient, state),
            Device::Cpu(cpu) => {
                cpu::elementwise::update_dense(cpu, rule, rate, step, weights, gradient, state)
            }
            Device::Idle => {}
        }
        Ok(())
    }

    /// Finds every bag of `segments`. `lengths` is read where a segment points into it.
    pub fn index_bags(
        &self,
        tables: usize,
        samples: usize,
        segments: &[Segment],
        lengths: &Buffer<u32>,
        values: usize,
        index: &mut BagIndex,
    ) -> Result {
        const OP: &str = "index_bags";
        let lengths = lengths.host();
        for s in segments {
            need(OP, "tables", s.table.saturating_add(1), tables)?;
            need(OP, "samples", s.first_sample.saturating_add(s.samples), samples)?;
            let ids = match s.lengths_at {
                None => s.samples,
                Some(at) => {
                    need(OP, "lengths", at.saturating_add(s.samples), lengths.len())?;
                    lengths[at..at + s.samples].iter().map(|&n| n as usize).sum()
                }
            };
            need(OP, "values", s.first_value.saturating_add(ids), values)?;
        }
        need(OP, "32-bit value indices", values, u32::MAX as usize)?;
        index.tables = tables;
        index.samples = samples;
        index.starts.resize(tables * samples)?;
        index.lengths.resize(tables * samples)?;
        if self.computes() {
            let (starts, bag_lengths) = (index.starts.host_mut(), index.lengths.host_mut());
            reference::index_bags(samples, segments, lengths, starts, bag_lengths);
        }
        Ok(())
    }

    /// Groups the ids of `index` by row, refusing ids past the end of their table.
    pub fn sort_ids(
        &self,
        tables: &[Table],
        index: &BagIndex,
        values: &Buffer<u32>,
        sorted: &mut SortedIds,
    ) -> Result {
        need("sort_ids", "tables", index.tables, tables.len())?;
        match self {
            Device::Reference => reference::sort_ids(tables, index, values.host(), sorted),
            Device::Cpu(cpu) => cpu::sort::sort_ids(cpu, tables, index, values.host(), sorted),
            Device::Idle => {
                sorted.bounds.clear();
                sorted.bounds.resize(index.tables + 1, 0);
                sorted.samples.resize(values.len())
            }
        }
    }

    /// All tables in one pass, for the samples `first..first + rows` of the index: `out[r, columns[t]..]` is the
    /// pooled bag of sample `first + r` in table `t`. `out` has rows of `width` floats. Only the tables
    /// `which` are looked up; ids past the end of their table are refused.
    pub fn lookup(
        &self,
        tables: &[Table],
        which: Range<usize>,
        columns: &[usize],
        width: usize,
        index: &BagIndex,
        samples: Range<usize>,
        values: &Buffer<u32>,
        weights: Option<&Buffer<f32>>,
        out: &mut Buffer<f32>,
    ) -> Result {
        const OP: &str = "lookup";
        need(OP, "tables", which.end, tables.len().min(index.tables))?;
        need(OP, "columns", tables.len(), columns.len())?;
        need(OP, "samples", samples.end, index.samples)?;
        need(OP, "weights", values.len(), weights.map_or(values.len(), Buffer::len))?;
        need(OP, "out", size([samples.len(), width]), out.len())?;
        for t in which.clone() {
            need(OP, "a row of out", columns[t].saturating_add(tables[t].dim), width)?;
        }
        let (values, weights, out) = (values.host(), weights.map(Buffer::host), out.host_mut());
        match self {
            Device::Reference => {
                reference::lookup(tables, which, columns, width, index, samples, values, weights, out)
            }
            Device::Cpu(cpu) => {
                cpu::lookup::lookup(cpu, tables, which, columns, width, index, samples, values, weights, out)
            }
            Device::Idle => Ok(()),
        }
    }

    /// Backward and optimizer in one pass. The gradient of a row is the sum, in the order of its keys in `sorted`, of
    /// the rows of `dout` of the samples that looked it up (each divided by its bag's length for mean pooling, times its
    /// weight where there are weights); then the row is updated once, by `rule`. `step` counts from 1.
    ///
    /// `dout` has a row of `width` floats for each sample of the index. Only the tables `which` are updated, and only
    /// their columns are read; `columns`, `index` and `sorted` cover all tables. Calls for parts of the tables,
    /// each with a `dout` of its own, do together what one call for all of them does.
    pub fn update_tables(
        &self,
        tables: &mut [Table],
        which: Range<usize>,
        columns: &[usize],
        width: usize,
        index: &BagIndex,
        sorted: &SortedIds,
        weights: Option<&Buffer<f32>>,
        dout: &Buffer<f32>,
        rule: &UpdateRule,
        rate: f32,
        step: u64,
    ) -> Result {
        const OP: &str = "update_tables";
        need(OP, "tables", index.tables.max(which.end), tables.len())?;
        need(OP, "sorted tables", tables.len() + 1, sorted.bounds.len())?;
        need(OP, "columns", tables.len(), columns.len())?;
        need(OP, "weights", sorted.samples.len(), weights.map_or(sorted.samples.len(), Buffer::len))?;
        need(OP, "dout", size([index.samples, width]), dout.len())?;
        if which.is_empty() {
            return Ok(());
        }
        for t in which.clone() {
            let table = &tables[t];
            need(OP, "a row of dout", columns[t].saturating_add(table.dim), width)?;
            if self.computes() {
                need(OP, "table state", table.rows * rule.state_per_row(table.dim), table.state.len())?;
            }
        }
        let (weights, dout) = (weights.map(Buffer::host), dout.host());
        match self {
            Device::Reference => {
                check_sorted(tables, which.clone(), index, sorted, 0..usize::MAX)?;
                reference::update_tables(
                    tables, which, columns, width, index, sorted, weights, dout, rule, rate, step,
                );
                Ok(())
            }
            Device::Cpu(cpu) => cpu::update::update_tables(
                cpu, tables, which, columns, width, index, sorted, weights, dout, rule, rate, step,
            ),
            Device::Idle => Ok(()),
        }
    }
}

/// Refuses blocks of columns that do not fit their matrices, each given as (length of its buffer, start, width).
fn check_columns(
    op: &'static str,
    rows: usize,
    copies: &[ColumnCopy],
    (from_len, from_at, from_width): (usize, usize, usize),
    (to_len, to_at, to_width): (usize, usize, usize),
) -> Result {
    need(op, "from", from_at.saturating_add(size([rows, from_width])), from_len)?;
    need(op, "to", to_at.saturating_add(size([rows, to_width])), to_len)?;
    for copy in copies {
        need(op, "a row of from", copy.from.saturating_add(copy.width), from_width)?;
        need(op, "a row of to", copy.to.saturating_add(copy.width), to_width)?;
    }
    Ok(())
}

/// Width of a row that [`Device::dot_forward`] gives.
fn dot_width(count: usize, dim: usize) -> usize {
    dim.saturating_add(size([count, count.saturating_sub(1)]) / 2)
}

/// Elements of a shape; past every buffer when they cannot be counted.
pub(crate) fn size<const N: usize>(shape: [usize; N]) -> usize {
    // A shape with an empty side holds nothing, however long the others are.
    if shape.contains(&0) { 0 } else { shape.into_iter().fold(1, usize::saturating_mul) }
}
