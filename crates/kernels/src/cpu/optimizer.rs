//! Update rules in vector loops: for a span of dense weights, and for a row of a table.
//!
//! A [`Rule`] is a rule with everything worked out that is the same for all weights of a step. Threads divide the
//! elements.
#![allow(unsafe_code)]

pub(crate) mod row;

use super::Cpu;
use super::elementwise::pass;
use super::gradients::before_the_rule;
use super::shared::Shared;
use crate::reference::optimizer::{bias_corrections, trust_ratio};
use crate::{Update, UpdateDense};
use ground::optimizer::UpdateRule;
use ground::share;
use std::ops::Range;

/// A rule at a step.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    Sgd { rate: f32 },
    Adagrad { rate: f32, eps: f32 },
    RowWiseAdagrad { rate: f32, eps: f32 },
    Adam(Adam),
    Lamb(Lamb),
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

/// Constants of LAMB at a step.
#[derive(Clone, Copy)]
pub(crate) struct Lamb {
    beta1: f32,
    beta2: f32,
    eps: f32,
    rate: f32,
    weight_decay: f32,
    /// Factor of the first moment.
    scale: f32,
    /// Divisor of the second moment's root.
    root: f32,
}

impl Rule {
    /// Works out what is the same for all weights of a step.
    pub(crate) fn new(update: Update) -> Self {
        let Update { rule, rate, step, .. } = update;
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
            UpdateRule::Lamb { beta1, beta2, eps, weight_decay } => {
                let (c1, c2) = bias_corrections(beta1, beta2, step);
                let (scale, root) = ((1.0 / c1) as f32, c2.sqrt() as f32);
                Rule::Lamb(Lamb { beta1, beta2, eps, rate, weight_decay, scale, root })
            }
        }
    }

    /// One update of a span of dense weights by rules that look at each weight alone (LAMB, which does not, has
    /// [`Lamb::update_tensors`]). `first` and `second` are the span's
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
            // LAMB needs whole tensors: `update_dense` gives it to `Lamb::update_tensors`.
            Rule::Lamb(_) => unreachable!("LAMB updates tensors, not spans"),
        }
    }
}

/// Parts of a tensor whose norms are summed apart and then added in order, so that no bit depends on the number of threads.
const PARTS: usize = 64;
/// Elements of a tensor that are worth a thread of their own.
const GRAIN: usize = 16 << 10;

impl Lamb {
    #[inline(always)]
    fn direction(&self, w: f32, m: f32, v: f32) -> f32 {
        self.scale * m / (v.sqrt() / self.root + self.eps) + self.weight_decay * w
    }

    /// Updates the moments, and gives `Σ wᵢ²` and `Σ uᵢ²` of the direction `u`, in eight sums side by side.
    #[inline(always)]
    fn moments(&self, w: &[f32], g: &[f32], m: &mut [f32], v: &mut [f32]) -> [f64; 2] {
        let mut sums = [[0f64; 8]; 2];
        for (i, (((w, g), m), v)) in w.iter().zip(g).zip(m).zip(v).enumerate() {
            *m = self.beta1 * *m + (1.0 - self.beta1) * g;
            *v = self.beta2 * *v + (1.0 - self.beta2) * g * g;
            let direction = self.direction(*w, *m, *v) as f64;
            sums[0][i % 8] += *w as f64 * *w as f64;
            sums[1][i % 8] += direction * direction;
        }
        sums.map(|sums| sums.iter().sum())
    }

    /// The rate times the trust ratio, given the squares of both norms.
    #[inline(always)]
    fn scaled_rate(&self, [weights, direction]: [f64; 2]) -> f32 {
        (self.rate as f64 * trust_ratio(weights.sqrt(), direction.sqrt())) as f32
    }

    #[inline(always)]
    fn apply(&self, scaled: f32, w: &mut [f32], m: &[f32], v: &[f32]) {
        for ((w, &m), &v) in w.iter_mut().zip(m).zip(v) {
            *w -= scaled * self.direction(*w, m, v);
        }
    }

    /// One update of each tensor: moments and norms in a first pass, weights in a second.
    fn update_tensors(&self, cpu: &Cpu, tensors: &[Range<usize>], args: UpdateDense) {
        let (len, gradient) = (args.weights.len(), args.gradient.host());
        let (weights, state) = (args.weights.host_mut(), Shared::new(args.state.host_mut()));
        for Range { start, end } in tensors.iter().cloned() {
            let (size, w) = (end - start, &mut weights[start..end]);
            let part_of = |part| share(size, PARTS, part);
            let both = |range: &Range<usize>| {
                let (from, to) = (start + range.start, start + range.end);
                (from..to, len + from..len + to)
            };
            let mut norms = [[0f64; 2]; PARTS];
            let of_parts = Shared::new(&mut norms);
            cpu.divide(PARTS, PARTS.min((GRAIN * PARTS).div_ceil(size.max(1))), &|_, parts| {
                cpu.level.run(
                    #[inline(always)]
                    || {
                        for part in parts {
                            let range = part_of(part);
                            let (first, second) = both(&range);
                            // SAFETY: parts of a tensor do not overlap, nor do the two halves of the state.
                            let (m, v, norms) = unsafe {
                                (
                                    state.piece(first.clone()),
                                    state.piece(second),
                                    of_parts.piece(part..part + 1),
                                )
                            };
                            norms[0] = self.moments(&w[range], &gradient[first], m, v);
                        }
                    },
                )
            });
            let add = |[a, b]: [f64; 2], [c, d]: &[f64; 2]| [a + c, b + d];
            let scaled = self.scaled_rate(norms.iter().fold([0.0; 2], add));
            let w = Shared::new(w);
            pass(
                cpu,
                size,
                #[inline(always)]
                |range| {
                    let (first, second) = both(&range);
                    // SAFETY: the pieces of one pass do not overlap, nor do the two halves of the state.
                    let (w, m, v) = unsafe { (w.piece(range), state.piece(first), state.piece(second)) };
                    self.apply(scaled, w, m, v);
                },
            );
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

/// One update of all dense weights. `args.tensors` has the ranges of single tensors, for rules that look at a tensor as a
/// whole: LAMB does.
pub(crate) fn update_dense(cpu: &Cpu, args: UpdateDense) {
    let (rule, len) = (Rule::new(args.update), args.weights.len());
    let both = (args.weights.host_mut(), args.gradient.host_mut());
    before_the_rule(cpu, args.update, &mut both.0[..len], &mut both.1[..len]);
    if let Rule::Lamb(lamb) = rule {
        return lamb.update_tensors(cpu, args.tensors, args);
    }
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
