//! Update rules for a row of a table.
//!
//! Rows are short and of any length. They are walked in blocks of constant lengths, each of which is loaded, changed and stored as a
//! whole: loops over all of a row would spend their time on what is left behind the last whole vector.

use super::{Adam, Rule};

impl Rule {
    /// One update of one table row by the sum `g` of its gradients; `state` is what the rule keeps of the row.
    #[inline(always)]
    pub(crate) fn update_row(self, w: &mut [f32], g: &[f32], state: &mut [f32]) {
        match self {
            Rule::Sgd { rate } => descend(rate, w, g),
            Rule::Adagrad { rate, eps } => {
                change(
                    state,
                    [g],
                    #[inline(always)]
                    |h, [g]| h + g * g,
                );
                change(
                    w,
                    [g, state],
                    #[inline(always)]
                    |w, [g, h]| w - rate * g / (h.sqrt() + eps),
                );
            }
            Rule::RowWiseAdagrad { rate, eps } => {
                state[0] += sum_of_squares(g) / g.len() as f32;
                descend(rate / (state[0].sqrt() + eps), w, g);
            }
            Rule::Adam(adam) => adam.update_row(w, g, state),
            Rule::Lamb(lamb) => {
                let (m, v) = state.split_at_mut(g.len());
                let scaled = lamb.scaled_rate(lamb.moments(w, g, m, v));
                lamb.apply(scaled, w, m, v);
            }
        }
    }
}

impl Adam {
    #[inline(always)]
    fn update_row(self, w: &mut [f32], g: &[f32], state: &mut [f32]) {
        let Adam { beta1, beta2, eps, rate, weight_decay, row, .. } = self;
        let decay = rate * weight_decay;
        let (m, v) = state.split_at_mut(g.len());
        change(
            m,
            [g],
            #[inline(always)]
            |m, [g]| beta1 * m + (1.0 - beta1) * g,
        );
        change(
            v,
            [g],
            #[inline(always)]
            |v, [g]| beta2 * v + (1.0 - beta2) * g * g,
        );
        change(
            w,
            [m, v],
            #[inline(always)]
            |w, [m, v]| {
                let w = w - decay * w;
                w - row * m / (v.sqrt() + eps)
            },
        );
    }
}

/// `w -= rate·g`.
#[inline(always)]
fn descend(rate: f32, w: &mut [f32], g: &[f32]) {
    change(
        w,
        [g],
        #[inline(always)]
        |w, [g]| w - rate * g,
    );
}

/// `x[i] = each(x[i], (y₁[i], y₂[i], …))` for every element of `x`. The `y` are as long as `x`.
#[inline(always)]
pub fn change<const INPUTS: usize>(
    x: &mut [f32],
    y: [&[f32]; INPUTS],
    each: impl Fn(f32, [f32; INPUTS]) -> f32,
) {
    let (len, mut at) = (x.len(), 0);
    while len - at >= 32 {
        block::<32, INPUTS>(x, &y, at, &each);
        at += 32;
    }
    if len - at >= 16 {
        block::<16, INPUTS>(x, &y, at, &each);
        at += 16;
    }
    if len - at >= 8 {
        block::<8, INPUTS>(x, &y, at, &each);
        at += 8;
    }
    while len > at {
        block::<1, INPUTS>(x, &y, at, &each);
        at += 1;
    }
}

/// Changes `N` elements from `at` on. All are loaded before one is stored: nothing could be done side by side if a store might
/// reach what is loaded next.
#[inline(always)]
fn block<const N: usize, const INPUTS: usize>(
    x: &mut [f32],
    y: &[&[f32]; INPUTS],
    at: usize,
    each: &impl Fn(f32, [f32; INPUTS]) -> f32,
) {
    let load = |x: &[f32]| -> [f32; N] { *x[at..].first_chunk().expect("a block inside the row") };
    let (mut values, y) = (load(x), std::array::from_fn::<_, INPUTS, _>(|k| load(y[k])));
    for (i, value) in values.iter_mut().enumerate() {
        *value = each(*value, std::array::from_fn(|k| y[k][i]));
    }
    x[at..][..N].copy_from_slice(&values);
}

/// `Σ gᵢ²` in sixteen sums side by side.
#[inline(always)]
fn sum_of_squares(g: &[f32]) -> f32 {
    let mut sums = [0f32; 16];
    let (lines, rest) = g.as_chunks::<16>();
    for line in lines {
        for i in 0..16 {
            sums[i] += line[i] * line[i];
        }
    }
    sums.iter().sum::<f32>() + rest.iter().map(|g| g * g).sum::<f32>()
}
