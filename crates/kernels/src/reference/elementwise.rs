//! Passes over memory, one element at a time.

use crate::{ColumnCopy, Dropout};
use ground::random::word;

/// Gradient of a ReLU: `dy[i] = 0` where a ReLU gave `y[i] ≤ 0`.
pub fn relu_backward(y: &[f32], dy: &mut [f32]) {
    for (dy, &y) in dy.iter_mut().zip(y) {
        if y <= 0.0 {
            *dy = 0.0;
        }
    }
}

/// Sum in place: `y += x`.
pub fn add(x: &[f32], y: &mut [f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += x;
    }
}

/// Scales in place: `y *= factor`.
pub fn scale(factor: f32, y: &mut [f32]) {
    y.iter_mut().for_each(|y| *y *= factor);
}

/// Inverted dropout: a unit is 0 where its random word lies below p·2³², else its output is divided by 1 − p.
pub fn dropout(args: Dropout) {
    let (below, scale) = (args.below(), args.scale());
    let Dropout { rows, width, first, sequence, y, .. } = args;
    let y = y.host_mut();
    for (r, u) in (0..rows).flat_map(|r| (0..width).map(move |u| (r, u))) {
        let y = &mut y[r * width + u];
        let dropped = word(sequence.bits(first + r as u64), u as u32) < below;
        *y = if dropped { 0.0 } else { *y * scale };
    }
}

/// What a loss is about: labels, weights and how both are used.
#[derive(Clone, Copy)]
pub struct Targets<'a> {
    /// Labels, 0 or 1.
    pub labels: &'a [f32],
    /// Weight of each loss; empty for losses that all count 1.
    pub weights: &'a [f32],
    /// Label smoothing ε.
    pub smoothing: f32,
    /// Factor of every gradient.
    pub scale: f32,
}

impl Targets<'_> {
    /// Label of loss `i`, smoothed.
    #[inline]
    pub fn label(&self, i: usize) -> f32 {
        smoothed(self.labels[i], self.smoothing)
    }

    /// Weight of loss `i`.
    #[inline]
    pub fn weight(&self, i: usize) -> f32 {
        self.weights.get(i).copied().unwrap_or(1.0)
    }
}

/// Binary cross-entropy: each loss is `max(x, 0) − x·y + ln(1 + e^−|x|)`, which no `x` overflows; `dlogits = (σ(x) −
/// y)·scale`, where `y` is the label smoothed; both times the weight. Returns the sum of the losses in order.
pub fn bce(logits: &[f32], targets: &Targets, dlogits: &mut [f32]) -> f64 {
    let samples = logits.iter().zip(dlogits).enumerate();
    samples.fold(0.0, |sum, (i, (&x, dlogit))| sum + bce_of_sample(x, targets, i, dlogit))
}

/// Label `y·(1 − ε) + ε/2`: between 0 and 1 by ε/2 from either.
pub(crate) fn smoothed(label: f32, smoothing: f32) -> f32 {
    label * (1.0 - smoothing) + 0.5 * smoothing
}

/// Binary cross-entropy number `i`; stores the gradient of its logit.
#[inline]
pub(crate) fn bce_of_sample(logit: f32, targets: &Targets, i: usize, dlogit: &mut f32) -> f64 {
    let (x, y, w) = (logit as f64, targets.label(i) as f64, targets.weight(i) as f64);
    *dlogit = ((sigma(x) - y) * targets.scale as f64 * w) as f32;
    w * (x.max(0.0) - x * y + (-x.abs()).exp().ln_1p())
}

/// Logistic function: `out = σ(logits)`.
pub fn sigmoid(logits: &[f32], out: &mut [f32]) {
    for (out, &logit) in out.iter_mut().zip(logits) {
        *out = sigma(logit as f64) as f32;
    }
}

/// Logistic function: `1 / (1 + e^−x)`.
pub(crate) fn sigma(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Copies columns: `to[r, c.to + i] = from[r, c.from + i]` for every copy `c`.
pub fn copy_columns(copies: &[ColumnCopy], from: &[f32], to: &mut [f32], [from_width, to_width]: [usize; 2]) {
    if from_width == 0 || to_width == 0 {
        return;
    }
    for (from, to) in from.chunks_exact(from_width).zip(to.chunks_exact_mut(to_width)) {
        for c in copies {
            to[c.to..c.to + c.width].copy_from_slice(&from[c.from..c.from + c.width]);
        }
    }
}

/// Adds columns: `to[r, c.to + i] += from[r, c.from + i]` for every copy `c`.
pub fn add_columns(copies: &[ColumnCopy], from: &[f32], to: &mut [f32], [from_width, to_width]: [usize; 2]) {
    if from_width == 0 || to_width == 0 {
        return;
    }
    for (from, to) in from.chunks_exact(from_width).zip(to.chunks_exact_mut(to_width)) {
        for c in copies {
            add(&from[c.from..c.from + c.width], &mut to[c.to..c.to + c.width]);
        }
    }
}

/// Sum of all elements.
pub fn sum(x: &[f32]) -> f64 {
    x.iter().map(|&x| f64::from(x)).sum()
}
