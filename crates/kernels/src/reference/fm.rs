//! Factorization machines, term by term.

use crate::FmShape;

/// Factorization machine: `out = Σ_f w_f + Σ_{f<g} ⟨v_f, v_g⟩`, pair by pair.
pub fn forward(shape: FmShape, vectors: &[f32], out: &mut [f32]) {
    let FmShape { rows, count, dim } = shape;
    for (r, out) in out[..rows].iter_mut().enumerate() {
        let at = |f: usize, d: usize| f64::from(vectors[(r * count + f) * (dim + 1) + d]);
        let linear: f64 = (0..count).map(|f| at(f, dim)).sum();
        let product = |f: usize, g: usize| (0..dim).map(|d| at(f, d) * at(g, d)).sum::<f64>();
        let pairs: f64 = (0..count).flat_map(|f| (0..f).map(move |g| product(f, g))).sum();
        *out = (linear + pairs) as f32;
    }
}

/// Gradients of a factorization machine: `dv_f = dout·Σ_{g≠f} v_g` and `dw_f = dout`.
pub fn backward(shape: FmShape, vectors: &[f32], dout: &[f32], dvectors: &mut [f32]) {
    let FmShape { rows, count, dim } = shape;
    for (r, &dout) in dout[..rows].iter().enumerate() {
        let index = |f: usize, d: usize| (r * count + f) * (dim + 1) + d;
        for f in 0..count {
            for d in 0..dim {
                let others = (0..count).filter(|&g| g != f).map(|g| f64::from(vectors[index(g, d)]));
                dvectors[index(f, d)] = (f64::from(dout) * others.sum::<f64>()) as f32;
            }
            dvectors[index(f, dim)] = dout;
        }
    }
}
