//! Update rules in vector loops: for a span of dense weights, and for a row of a table.
//!
//! A [`Rule`] is a rule with everything worked out that is the same for all weights of a step. Threads divide the
//! elements.
#![allow(unsafe_code)]

use super::Cpu;
use super::elementwise::pass;
use super::shared::Shared;
use crate::reference::optimizer::bias_corrections;
use crate::{Update, UpdateDense};
use spec::optimizer::UpdateRule;

/// A rule at a step.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    Sgd { rate: f32 },
    Adagrad { rate: f32, eps: f32 },
    RowWiseAdagrad { rate: f32, eps: f32 },
    Adam(Adam),
}

/// Constants of Adam at a step.
#[derive(Clone, Copy)]
pub(crate) struct Adam {
    beta1: f32,
    beta2: f32,
    eps: f32,
    rate: f32,
    weight_decay: f32,
    /// Factor of the first moment, and divisor of the second moment's root, in dense layers.
    dense: (f32, f32),
    /// Factor of the first moment in a row of a table.
    row: f32,
}

impl Rule {
    /// Works out what is the same for all weights of a step.
    pub(crate) fn new(update: Update) -> Self {
        let Update { rule, rate, step } = update;
        match rule {
            UpdateRule::Sgd => Rule::Sgd { rate },
            UpdateRule::Adagrad { eps } => Rule::Adagrad { rate, eps },
            UpdateRule::RowWiseAdagrad { eps } => Rule::RowWiseAdagrad { rate, eps },
            UpdateRule::Adam { beta1, beta2, eps, weight_decay } => {
                let (c1, c2) = bias_corrections(beta1, beta2, step);
                let dense = ((rate as f64 / c1) as f32, c2.sqrt() as f32);
                let row = (rate as f64 * c2.sqrt() / c1) as f32;
                Rule::Adam(Adam { beta1, beta2, eps, rate, weight_decay, dense, row })
            }
        }
    }

    /// One update of one table row by the sum `g` of its gradients; `state` is what the rule keeps of the row.
    #[inline(always)]
    pub(crate) fn update_row(self, w: &mut [f32], g: &[f32], state: &mut [f32]) {
        match self {
            Rule::Sgd { rate } => w.iter_mut().zip(g).for_each(|(w, g)| *w -= rate * g),
            Rule::Adagrad { rate, eps } => adagrad(rate, eps, w, g, state),
            Rule::RowWiseAdagrad { rate, eps } => {
                state[0] += sum_of_squares(g) / g.len() as f32;
                let scaled = rate / (state[0].sqrt() + eps);
                w.iter_mut().zip(g).for_each(|(w, g)| *w -= scaled * g);
            }
            Rule::Adam(Adam { beta1, beta2, eps, rate, weight_decay, row, .. }) => {
                let decay = rate * weight_decay;
                let (m, v) = state.split_at_mut(g.len());
                for (((w, m), v), g) in w.iter_mut().zip(m).zip(v).zip(g) {
                    *m = beta1 * *m + (1.0 - beta1) * g;
                    *v = beta2 * *v + (1.0 - beta2) * g * g;
                    *w -= decay * *w;
                    *w -= row * *m / (v.sqrt() + eps);
                }
            }
        }
    }

    /// One update of a span of dense weights by rules that look at each weight alone. `first` and `second` are the span's
    /// parts of the state, as far as the rule keeps any.
    #[inline(always)]
    fn update_span(self, w: &mut [f32], g: &[f32], first: &mut [f32], second: &mut [f32]) {
        match self {
            Rule::Sgd { rate } => w.iter_mut().zip(g).for_each(|(w, g)| *w -= rate * g),
            // Dense layers have no rows: `UpdateRule::for_dense` lets row-wise Adagrad not get here.
            Rule::Adagrad { rate, eps } | Rule::RowWiseAdagrad { rate, eps } => {
                adagrad(rate, eps, w, g, first)
            }
            Rule::Adam(Adam { beta1, beta2, eps, rate, weight_decay, dense: (scale, root), .. }) => {
                for (((w, m), v), g) in w.iter_mut().zip(first).zip(second).zip(g) {
                    *m = beta1 * *m + (1.0 - beta1) * g;
                    *v = beta2 * *v + (1.0 - beta2) * g * g;
                    *w -= rate * weight_decay * *w;
                    *w -= scale * *m / (v.sqrt() / root + eps);
                }
            }
        }
    }
}

#[inline(always)]
fn adagrad(rate: f32, eps: f32, w: &mut [f32], g: &[f32], state: &mut [f32]) {
    for ((w, h), g) in w.iter_mut().zip(state).zip(g) {
        *h += g * g;
        *w -= rate * g / (h.sqrt() + eps);
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

/// One update of all dense weights. `args.tensors` has the ranges of single tensors, for rules that look at a tensor as a
/// whole; no rule here does.
pub(crate) fn update_dense(cpu: &Cpu, args: UpdateDense) {
    let (rule, len) = (Rule::new(args.update), args.weights.len());
    let kept = args.update.rule.state_per_row(1);
    let gradient = args.gradient.host();
    let (weights, state) = (Shared::new(args.weights.host_mut()), Shared::new(args.state.host_mut()));
    pass(
        cpu,
        len,
        #[inline(always)]
        |range| {
            // Part `i` of the state, if there is one, begins behind `i` numbers for each weight.
            let part = |i: usize| if i < kept { i * len + range.start..i * len + range.end } else { 0..0 };
            // SAFETY: the pieces of one pass do not overlap, nor do the parts of the state.
            let (w, first, second) =
                unsafe { (weights.piece(range.clone()), state.piece(part(0)), state.piece(part(1))) };
            rule.update_span(w, &gradient[range.clone()], first, second);
        },
    );
}
