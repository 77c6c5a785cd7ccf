//! Slow, obvious implementations: the specification.
//!
//! Matrices are row-major. Sums that a fast kernel may order differently are added in double precision here, so that a
//! comparison measures the fast kernel's rounding alone; sums whose order is promised (`sum_blocks`, the gradient of a
//! table row) are added in single precision in that order.

pub mod fm;
pub mod wire;

use crate::embedding::{BagIndex, Segment, SortedIds, Table};
use crate::error::need;
use crate::{ColumnCopy, InputGradient, KernelError, LinearShape};
use spec::optimizer::UpdateRule;
use spec::{Activation, Pooling};
use std::ops::Range;

/// `y[r, o] = act(Σᵢ x[r, i]·w[o, i] + b[o])`. ReLU keeps NaN.
pub fn linear_forward(
    shape: LinearShape,
    x: &[f32],
    w: &[f32],
    b: Option<&[f32]>,
    activation: Activation,
    y: &mut [f32],
) {
    let LinearShape { rows, inputs, outputs } = shape;
    for r in 0..rows {
        for o in 0..outputs {
            let dot: f64 = (0..inputs).map(|i| x[r * inputs + i] as f64 * w[o * inputs + i] as f64).sum();
            let sum = (dot + b.map_or(0.0, |b| b[o] as f64)) as f32;
            y[r * outputs + o] = if activation == Activation::Relu && sum < 0.0 { 0.0 } else { sum };
        }
    }
}

/// `z = h·wᵀ + b`, `out = x0 ⊙ z + x`.
pub fn linear_cross_forward(
    shape: LinearShape,
    h: &[f32],
    w: &[f32],
    b: Option<&[f32]>,
    [x0, x]: [&[f32]; 2],
    z: &mut [f32],
    out: &mut [f32],
) {
    linear_forward(shape, h, w, b, Activation::Identity, z);
    cross_forward(shape.rows * shape.outputs, x0, z, x, out);
}

/// `dw[o, i] = Σᵣ dy[r, o]·x[r, i]`, `db[o] = Σᵣ dy[r, o]`, `dx[r, i] (+)= Σₒ dy[r, o]·w[o, i]`, and where `x` came out of a
/// ReLU, `dx[r, i] = 0` for `x[r, i] ≤ 0`.
pub fn linear_backward(
    shape: LinearShape,
    x: &[f32],
    w: &[f32],
    dy: &[f32],
    dx: Option<(&mut [f32], InputGradient)>,
    dw: &mut [f32],
    db: Option<&mut [f32]>,
) {
    let LinearShape { rows, inputs, outputs } = shape;
    let at = |r: usize, o: usize| dy[r * outputs + o] as f64;
    for o in 0..outputs {
        for i in 0..inputs {
            dw[o * inputs + i] = (0..rows).map(|r| at(r, o) * x[r * inputs + i] as f64).sum::<f64>() as f32;
        }
    }
    if let Some(db) = db {
        for (o, db) in db[..outputs].iter_mut().enumerate() {
            *db = (0..rows).map(|r| at(r, o)).sum::<f64>() as f32;
        }
    }
    if let Some((dx, InputGradient { accumulate, relu })) = dx {
        for r in 0..rows {
            for i in 0..inputs {
                let sum: f64 = (0..outputs).map(|o| at(r, o) * w[o * inputs + i] as f64).sum();
                let off = relu && x[r * inputs + i] <= 0.0;
                let dx = &mut dx[r * inputs + i];
                let sum = (sum + if accumulate { *dx as f64 } else { 0.0 }) as f32;
                *dx = if off { 0.0 } else { sum };
            }
        }
    }
}

/// `dy[i] = 0` where a ReLU gave `y[i] ≤ 0`.
pub fn relu_backward(y: &[f32], dy: &mut [f32]) {
    for (dy, &y) in dy.iter_mut().zip(y) {
        if y <= 0.0 {
            *dy = 0.0;
        }
    }
}

/// `out[r] = [v₀, ⟨vᵢ, vⱼ⟩ for i = 1, 2, … and j < i]`.
pub fn dot_forward(rows: usize, count: usize, dim: usize, vectors: &[f32], out: &mut [f32]) {
    let mut at = 0;
    for r in 0..rows {
        let v = |i: usize| {
            (0..dim).map(move |d| if count == 0 { 0.0 } else { vectors[(r * count + i) * dim + d] })
        };
        for value in v(0) {
            out[at] = value;
            at += 1;
        }
        for i in 1..count {
            for j in 0..i {
                out[at] = v(i).zip(v(j)).map(|(a, b)| a as f64 * b as f64).sum::<f64>() as f32;
                at += 1;
            }
        }
    }
}

/// `dvᵢ = Σⱼ≠ᵢ dout[⟨vᵢ, vⱼ⟩]·vⱼ`, and `dv₀` also gets the gradient of the copy of `v₀`.
pub fn dot_backward(
    rows: usize,
    count: usize,
    dim: usize,
    vectors: &[f32],
    dout: &[f32],
    dvectors: &mut [f32],
) {
    let width = dim + count * count.saturating_sub(1) / 2;
    for r in 0..rows {
        let dout = &dout[r * width..][..width];
        let pair = |i: usize, j: usize| dout[dim + i.max(j) * (i.max(j) - 1) / 2 + i.min(j)] as f64;
        for i in 0..count {
            for d in 0..dim {
                let v = |j: usize| vectors[(r * count + j) * dim + d] as f64;
                let pairs: f64 = (0..count).filter(|&j| j != i).map(|j| pair(i, j) * v(j)).sum();
                let copy = if i == 0 { dout[d] as f64 } else { 0.0 };
                dvectors[(r * count + i) * dim + d] = (copy + pairs) as f32;
            }
        }
    }
}

/// `out = x0 ⊙ z + x`.
pub fn cross_forward(len: usize, x0: &[f32], z: &[f32], x: &[f32], out: &mut [f32]) {
    for i in 0..len {
        out[i] = x0[i] * z[i] + x[i];
    }
}

/// `dz = dout ⊙ x0`, `dx0 (+)= dout ⊙ z`.
pub fn cross_backward(
    len: usize,
    x0: &[f32],
    z: &[f32],
    dout: &[f32],
    dz: &mut [f32],
    dx0: &mut [f32],
    accumulate: bool,
) {
    for i in 0..len {
        dz[i] = dout[i] * x0[i];
        dx0[i] = dout[i] * z[i] + if accumulate { dx0[i] } else { 0.0 };
    }
}

/// Each loss is `max(x, 0) − x·y + ln(1 + e^−|x|)`, which no `x` overflows; `dlogits = (σ(x) − y)·scale`. Returns the sum
/// of the losses in sample order.
pub fn bce(rows: usize, logits: &[f32], labels: &[f32], scale: f32, dlogits: &mut [f32]) -> f64 {
    let mut sum = 0.0;
    for r in 0..rows {
        let (x, y) = (logits[r] as f64, labels[r] as f64);
        sum += x.max(0.0) - x * y + (-x.abs()).exp().ln_1p();
        dlogits[r] = ((sigma(x) - y) * scale as f64) as f32;
    }
    sum
}

/// `out = σ(logits)`.
pub fn sigmoid(rows: usize, logits: &[f32], out: &mut [f32]) {
    for r in 0..rows {
        out[r] = sigma(logits[r] as f64) as f32;
    }
}

/// `1 / (1 + e^−x)`.
fn sigma(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `to[r, c.to + i] = from[r, c.from + i]` for every copy `c`.
pub fn copy_columns(copies: &[ColumnCopy], from: &[f32], from_width: usize, to: &mut [f32], to_width: usize) {
    if from_width == 0 || to_width == 0 {
        return;
    }
    for (from, to) in from.chunks_exact(from_width).zip(to.chunks_exact_mut(to_width)) {
        for c in copies {
            to[c.to..c.to + c.width].copy_from_slice(&from[c.from..c.from + c.width]);
        }
    }
}

/// `to[r, c.to + i] += from[r, c.from + i]` for every copy `c`.
pub fn add_columns(copies: &[ColumnCopy], from: &[f32], from_width: usize, to: &mut [f32], to_width: usize) {
    if from_width == 0 || to_width == 0 {
        return;
    }
    for (from, to) in from.chunks_exact(from_width).zip(to.chunks_exact_mut(to_width)) {
        for c in copies {
            add(&from[c.from..c.from + c.width], &mut to[c.to..c.to + c.width]);
        }
    }
}

/// `out[i] = (block₀[i] + block₁[i]) + …`, in this order; zeros when there is no block.
pub fn sum_blocks(len: usize, blocks: &[f32], out: &mut [f32]) {
    out.fill(0.0);
    for (k, block) in blocks.chunks_exact(len.max(1)).enumerate() {
        for (out, &value) in out.iter_mut().zip(block) {
            *out = if k == 0 { value } else { *out + value };
        }
    }
}

/// One update by `rule`; the state of Adam is the first moments of all weights, then the second.
pub fn update_dense(
    rule: &UpdateRule,
    rate: f32,
    step: u64,
    weights: &mut [f32],
    gradient: &[f32],
    state: &mut [f32],
) {
    let len = weights.len();
    for i in 0..len {
        let (w, g) = (&mut weights[i], gradient[i]);
        match *rule {
            UpdateRule::Sgd => *w -= rate * g,
            UpdateRule::Adagrad { eps } => {
                state[i] += g * g;
                *w -= rate * g / (state[i].sqrt() + eps);
            }
            UpdateRule::RowWiseAdagrad { .. } => unreachable!("refused by Device::update_dense"),
            UpdateRule::Adam { beta1, beta2, eps, weight_decay } => {
                let (m, v) = state.split_at_mut(len);
                m[i] = beta1 * m[i] + (1.0 - beta1) * g;
                v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
                let (c1, c2) = bias_corrections(beta1, beta2, step);
                *w -= rate * weight_decay * *w;
                *w -= (rate as f64 / c1) as f32 * m[i] / (v[i].sqrt() / c2.sqrt() as f32 + eps);
            }
        }
    }
}

/// `(1 − β₁ᵗ, 1 − β₂ᵗ)`.
pub(crate) fn bias_corrections(beta1: f32, beta2: f32, step: u64) -> (f64, f64) {
    (1.0 - (beta1 as f64).powf(step as f64), 1.0 - (beta2 as f64).powf(step as f64))
}

/// Bags of `segments`: the samples of a segment lie one after another from its first value on. Bags that no segment
/// covers are empty.
pub fn index_bags(
    samples: usize,
    segments: &[Segment],
    lengths: &[u32],
    starts: &mut [u32],
    bag_lengths: &mut [u32],
) {
    starts.fill(0);
    bag_lengths.fill(0);
    for segment in segments {
        let mut start = segment.first_value as u32;
        for s in 0..segment.samples {
            let bag = segment.table * samples + segment.first_sample + s;
            starts[bag] = start;
            bag_lengths[bag] = segment.lengths_at.map_or(1, |at| lengths[at + s]);
            start += bag_lengths[bag];
        }
    }
}

/// `keys` of table `t` = `row << 32 | value index` of all its ids, ascending; `samples[value index]` = sample.
pub fn sort_ids(
    tables: &[Table],
    index: &BagIndex,
    values: &[u32],
    sorted: &mut SortedIds,
) -> Result<(), KernelError> {
    sorted.bounds.clear();
    sorted.samples.resize(values.len())?;
    let mut keys = Vec::new();
    let mut bounds = vec![0];
    for t in 0..index.tables {
        for s in 0..index.samples {
            for value in bag(index, t, s) {
                need("sort_ids", "values", value + 1, values.len())?;
                let id = check(t, &tables[t], values[value])?;
                keys.push((id as u64) << 32 | value as u64);
                sorted.samples.host_mut()[value] = s as u32;
            }
        }
        keys[bounds[t]..].sort();
        bounds.push(keys.len());
    }
    sorted.keys.resize(keys.len())?;
    sorted.keys.write(0, &keys);
    sorted.bounds.extend(bounds);
    Ok(())
}

/// Positions in the values buffer of the ids of one bag.
fn bag(index: &BagIndex, table: usize, sample: usize) -> Range<usize> {
    let at = table * index.samples + sample;
    let start = index.starts.host()[at] as usize;
    start..start + index.lengths.host()[at] as usize
}

/// The id, if its table has such a row.
fn check(t: usize, table: &Table, id: u32) -> Result<usize, KernelError> {
    let refused = KernelError::IdOutOfRange { table: t, id, rows: table.rows };
    if (id as usize) < table.rows { Ok(id as usize) } else { Err(refused) }
}

/// `out[s, columns[t]..] = Σᵢ weightᵢ·row(idᵢ)` over the ids of bag (t, s), divided by their number for mean pooling.
pub fn lookup(
    tables: &[Table],
    which: Range<usize>,
    columns: &[usize],
    width: usize,
    index: &BagIndex,
    samples: Range<usize>,
    values: &[u32],
    weights: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    for t in which.clone() {
        for value in samples.clone().flat_map(|s| bag(index, t, s)) {
            need("lookup", "values", value + 1, values.len())?;
            check(t, &tables[t], values[value])?;
        }
    }
    for t in which {
        let Table { dim, pooling, weights: rows, .. } = &tables[t];
        for (r, s) in samples.clone().enumerate() {
            let bag = bag(index, t, s);
            for d in 0..*dim {
                let row = |value: usize| rows.host()[values[value] as usize * dim + d];
                let sum: f32 = bag.clone().map(|v| weights.map_or(row(v), |w| w[v] * row(v))).sum();
                let mean = *pooling == Pooling::Mean && !bag.is_empty();
                out[r * width + columns[t] + d] = if mean { sum / bag.len() as f32 } else { sum };
            }
        }
    }
    Ok(())
}

/// For every row of the tables `which` that `sorted` names: `g = Σ dout[sample, columns[t]..]·scale` in the order of its
/// keys, where `scale` is the value's weight, divided by the bag's length for mean pooling; then one update of the row
/// by `rule`.
pub fn update_tables(
    tables: &mut [Table],
    which: Range<usize>,
    columns: &[usize],
    width: usize,
    index: &BagIndex,
    sorted: &SortedIds,
    weights: Option<&[f32]>,
    dout: &[f32],
    rule: &UpdateRule,
    rate: f32,
    step: u64,
) {
    for t in which {
        let table = &mut tables[t];
        let keys = &sorted.keys.host()[sorted.bounds[t]..sorted.bounds[t + 1]];
        for run in keys.chunk_by(|a, b| a >> 32 == b >> 32) {
            let mut g = vec![0.0; table.dim];
            for &key in run {
                let value = key as u32 as usize;
                let sample = sorted.samples.host()[value] as usize;
                let length = index.lengths.host()[t * index.samples + sample] as f32;
                let weight = weights.map_or(1.0, |w| w[value]);
                let scale = if table.pooling == Pooling::Mean { weight / length } else { weight };
                for (d, g) in g.iter_mut().enumerate() {
                    *g += scale * dout[sample * width + columns[t] + d];
                }
            }
            let (row, each) = ((run[0] >> 32) as usize, rule.state_per_row(table.dim));
            let w = &mut table.weights.host_mut()[row * table.dim..][..table.dim];
            update_row(rule, rate, step, w, &g, &mut table.state.host_mut()[row * each..][..each]);
        }
    }
}

/// One update of one table row (see [`spec::optimizer`]).
fn update_row(rule: &UpdateRule, rate: f32, step: u64, w: &mut [f32], g: &[f32], state: &mut [f32]) {
    match *rule {
        UpdateRule::Sgd | UpdateRule::Adagrad { .. } => update_dense(rule, rate, step, w, g, state),
        UpdateRule::RowWiseAdagrad { eps } => {
            state[0] += g.iter().map(|g| g * g).sum::<f32>() / g.len() as f32;
            let scaled = rate / (state[0].sqrt() + eps);
            w.iter_mut().zip(g).for_each(|(w, g)| *w -= scaled * g);
        }
        UpdateRule::Adam { beta1, beta2, eps, weight_decay } => {
            let (c1, c2) = bias_corrections(beta1, beta2, step);
            let (m, v) = state.split_at_mut(g.len());
            for (i, (w, g)) in w.iter_mut().zip(g).enumerate() {
                m[i] = beta1 * m[i] + (1.0 - beta1) * g;
                v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
                *w -= rate * weight_decay * *w;
                *w -= (rate as f64 * c2.sqrt() / c1) as f32 * m[i] / (v[i].sqrt() + eps);
            }
        }
    }
}

/// `y += x`.
pub fn add(x: &[f32], y: &mut [f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += x;
    }
}

/// The sum of all elements.
pub fn sum(x: &[f32]) -> f64 {
    x.iter().map(|&x| f64::from(x)).sum()
}
