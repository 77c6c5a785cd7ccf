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
            Rule::Adagrad { rate, eps } => change(
                [w, state],
                g,
                #[inline(always)]
                |[w, h], g| {
                    let h = h + g * g;
                    [w - rate * g / (h.sqrt() + eps), h]
                },
            ),
            Rule::RowWiseAdagrad { rate, eps } => {
                state[0] += sum_of_squares(g) / g.len() as f32;
                descend(rate / (state[0].sqrt() + eps), w, g);
            }
            Rule::Adam(Adam { beta1, beta2, eps, rate, weight_decay, row, .. }) => {
                let decay = rate * weight_decay;
                let (m, v) = state.split_at_mut(g.len());
                change(
                    [w, m, v],
                    g,
                    #[inline(always)]
                    |[w, m, v], g| {
                        let m = beta1 * m + (1.0 - beta1) * g;
                        let v = beta2 * v + (1.0 - beta2) * g * g;
                        let w = w - decay * w;
                        [w - row * m / (v.sqrt() + eps), m, v]
                    },
                )
            }
            Rule::Lamb(lamb) => {
                let (m, v) = state.split_at_mut(g.len());
                let scaled = lamb.scaled_rate(lamb.moments(w, g, m, v));
                lamb.apply(scaled, w, m, v);
            }
        }
    }
}

/// `w -= rate·g`.
#[inline(always)]
fn descend(rate: f32, w: &mut [f32], g: &[f32]) {
    change(
        [w],
        g,
        #[inline(always)]
        |[w], g| [w - rate * g],
    );
}

/// `(x₁[i], x₂[i], …) = each((x₁[i], x₂[i], …), g[i])` for every element of `g`.
#[inline(always)]
pub(crate) fn change<const ARRAYS: usize>(
    mut x: [&mut [f32]; ARRAYS],
    g: &[f32],
    each: impl Fn([f32; ARRAYS], f32) -> [f32; ARRAYS],
) {
    let (len, mut at) = (g.len(), 0);
    while len - at >= 64 {
        block::<64, ARRAYS>(&mut x, g, at, &each);
        at += 64;
    }
    if len - at >= 32 {
        block::<32, ARRAYS>(&mut x, g, at, &each);
        at += 32;
    }
    if len - at >= 16 {
        block::<16, ARRAYS>(&mut x, g, at, &each);
        at += 16;
    }
    if len - at >= 8 {
        block::<8, ARRAYS>(&mut x, g, at, &each);
        at += 8;
    }
    if len - at >= 4 {
        block::<4, ARRAYS>(&mut x, g, at, &each);
        at += 4;
    }
    while len > at {
        block::<1, ARRAYS>(&mut x, g, at, &each);
        at += 1;
    }
}

/// Changes `N` elements from `at` on. All are loaded before one is stored: nothing could be done side by side if a store might
/// reach what is loaded next.
#[inline(always)]
fn block<const N: usize, const ARRAYS: usize>(
    x: &mut [&mut [f32]; ARRAYS],
    g: &[f32],
    at: usize,
    each: &impl Fn([f32; ARRAYS], f32) -> [f32; ARRAYS],
) {
    let g: [f32; N] = std::array::from_fn(|i| g[at..][..N][i]);
    let mut values: [[f32; N]; ARRAYS] = std::array::from_fn(|a| std::array::from_fn(|i| x[a][at..][..N][i]));
    for i in 0..N {
        let changed = each(std::array::from_fn(|a| values[a][i]), g[i]);
        for a in 0..ARRAYS {
            values[a][i] = changed[a];
        }
    }
    for (x, values) in x.iter_mut().zip(&values) {
        x[at..][..N].copy_from_slice(values);
    }
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

#[cfg(test)]
mod tests;
