//! Update rules, one weight at a time. [`spec::optimizer`] has the formulas.

use crate::Update;
use spec::optimizer::UpdateRule;
use std::ops::Range;

/// One update of dense weights. The state of Adam is the first moments of all weights, then the second. `tensors` are the
/// ranges of single tensors, for rules that look at a tensor as a whole; no rule here does.
pub fn update_dense(
    update: Update,
    tensors: &[Range<usize>],
    weights: &mut [f32],
    gradient: &[f32],
    state: &mut [f32],
) {
    let (_, Update { rule, rate, step }) = (tensors, update);
    let len = weights.len();
    match rule {
        UpdateRule::Sgd | UpdateRule::Adagrad { .. } | UpdateRule::RowWiseAdagrad { .. } => {
            update_row(update, weights, gradient, state)
        }
        UpdateRule::Adam { beta1, beta2, eps, weight_decay } => {
            let (m, v) = state.split_at_mut(len);
            let (c1, c2) = bias_corrections(beta1, beta2, step);
            for (i, (w, &g)) in weights.iter_mut().zip(gradient).enumerate() {
                m[i] = beta1 * m[i] + (1.0 - beta1) * g;
                v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
                *w -= rate * weight_decay * *w;
                *w -= (rate as f64 / c1) as f32 * m[i] / (v[i].sqrt() / c2.sqrt() as f32 + eps);
            }
        }
    }
}

/// One update of one table row: a tensor of its own, and lazy.
pub fn update_row(update: Update, w: &mut [f32], g: &[f32], state: &mut [f32]) {
    let Update { rule, rate, step } = update;
    match rule {
        UpdateRule::Sgd => w.iter_mut().zip(g).for_each(|(w, g)| *w -= rate * g),
        UpdateRule::Adagrad { eps } => {
            for ((w, h), g) in w.iter_mut().zip(state).zip(g) {
                *h += g * g;
                *w -= rate * g / (h.sqrt() + eps);
            }
        }
        UpdateRule::RowWiseAdagrad { eps } => {
            // Nothing is kept of an empty row.
            let Some(h) = state.first_mut() else { return };
            *h += g.iter().map(|g| g * g).sum::<f32>() / g.len() as f32;
            let scaled = rate / (h.sqrt() + eps);
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

/// Bias corrections of Adam's moments: `(1 − β₁ᵗ, 1 − β₂ᵗ)`.
pub(crate) fn bias_corrections(beta1: f32, beta2: f32, step: u64) -> (f64, f64) {
    (1.0 - (beta1 as f64).powf(step as f64), 1.0 - (beta2 as f64).powf(step as f64))
}
