//! Update rules, one weight at a time. [`ground::optimizer`] has the formulas.

use crate::Update;
use crate::op::optimizer::clipped;
use ground::optimizer::UpdateRule;
use std::ops::Range;

/// One update of dense weights. The state of Adam and LAMB is the first moments of all weights, then the second. `tensors` are
/// the ranges of single tensors, for rules that look at a tensor as a whole: LAMB does.
pub fn update_dense(
    update: Update,
    tensors: &[Range<usize>],
    weights: &mut [f32],
    gradient: &mut [f32],
    state: &mut [f32],
) {
    let Update { rule, rate, step, .. } = update;
    let len = weights.len();
    before_the_rule(update, weights, gradient);
    let gradient = &*gradient;
    match rule {
        UpdateRule::Sgd | UpdateRule::Adagrad { .. } | UpdateRule::RowWiseAdagrad { .. } => {
            by_rule(update, weights, gradient, state)
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
        UpdateRule::Lamb { .. } => {
            let (m, v) = state.split_at_mut(len);
            for tensor in tensors.iter().cloned() {
                let (w, g) = (&mut weights[tensor.clone()], &gradient[tensor.clone()]);
                lamb(update, w, g, &mut m[tensor.clone()], &mut v[tensor]);
            }
        }
    }
}

/// What comes before every rule: gradients are clipped and scaled, weights decay by `w −= rate·λ·w`.
fn before_the_rule(update: Update, w: &mut [f32], g: &mut [f32]) {
    if update.changes_gradients() {
        g.iter_mut().for_each(|g| *g = update.changed(*g));
    }
    if update.weight_decay != 0.0 {
        w.iter_mut().for_each(|w| *w -= update.decay() * *w);
    }
}

/// Sum of the squares of a gradient whose elements are cut to `±limit`.
pub fn sum_of_squares(gradient: &[f32], limit: f32) -> f64 {
    gradient.iter().map(|&g| f64::from(clipped(g, limit)).powi(2)).sum()
}

/// One update of one table row: a tensor of its own, and lazy. `g` is the sum of the row's gradients.
pub fn update_row(update: Update, w: &mut [f32], g: &mut [f32], state: &mut [f32]) {
    before_the_rule(update, w, g);
    by_rule(update, w, g, state);
}

fn by_rule(update: Update, w: &mut [f32], g: &[f32], state: &mut [f32]) {
    let Update { rule, rate, step, .. } = update;
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
        UpdateRule::Lamb { .. } => {
            let (m, v) = state.split_at_mut(g.len());
            lamb(update, w, g, m, v);
        }
    }
}

/// One update of one tensor, or one table row, by LAMB: Adam's direction, as long as the weights are.
fn lamb(update: Update, w: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
    let UpdateRule::Lamb { beta1, beta2, eps, weight_decay } = update.rule else { return };
    let (c1, c2) = bias_corrections(beta1, beta2, update.step);
    let mut direction = vec![0.0; w.len()];
    for i in 0..w.len() {
        m[i] = beta1 * m[i] + (1.0 - beta1) * g[i];
        v[i] = beta2 * v[i] + (1.0 - beta2) * g[i] * g[i];
        let root = v[i].sqrt() / c2.sqrt() as f32;
        direction[i] = (1.0 / c1) as f32 * m[i] / (root + eps) + weight_decay * w[i];
    }
    let norm = |x: &[f32]| x.iter().map(|&x| x as f64 * x as f64).sum::<f64>().sqrt();
    let scaled = (update.rate as f64 * trust_ratio(norm(w), norm(&direction))) as f32;
    w.iter_mut().zip(&direction).for_each(|(w, direction)| *w -= scaled * direction);
}

/// LAMB's trust ratio, `‖w‖/‖u‖`; 1 where a norm is 0, so that weights can leave 0.
pub(crate) fn trust_ratio(weights: f64, direction: f64) -> f64 {
    if weights > 0.0 && direction > 0.0 { weights / direction } else { 1.0 }
}

/// Bias corrections of Adam's moments: `(1 − β₁ᵗ, 1 − β₂ᵗ)`.
pub(crate) fn bias_corrections(beta1: f32, beta2: f32, step: u64) -> (f64, f64) {
    (1.0 - (beta1 as f64).powf(step as f64), 1.0 - (beta2 as f64).powf(step as f64))
}
