//! Interactions of vectors, one pair at a time.

use crate::{CrossBackward, DotShape};

/// Pairwise dot products: `out[r] = [v₀, ⟨vᵢ, vⱼ⟩ for i = 1, 2, … and j < i]`.
pub fn dot_forward(shape: DotShape, vectors: &[f32], out: &mut [f32]) {
    let DotShape { rows, count, dim } = shape;
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

/// Gradient of pairwise dot products: `dvᵢ = Σⱼ≠ᵢ dout[⟨vᵢ, vⱼ⟩]·vⱼ`, and `dv₀` also gets the gradient of the copy of `v₀`.
pub fn dot_backward(shape: DotShape, vectors: &[f32], dout: &[f32], dvectors: &mut [f32]) {
    let DotShape { rows, count, dim } = shape;
    let width = shape.width();
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

/// Cross layer: `out = x0 ⊙ z + x`.
pub fn cross_forward(len: usize, x0: &[f32], z: &[f32], x: &[f32], out: &mut [f32]) {
    for i in 0..len {
        out[i] = x0[i] * z[i] + x[i];
    }
}

/// Gradients of a cross layer: `dz = dout ⊙ x0`, `dx0 (+)= dout ⊙ z`.
pub fn cross_backward(args: CrossBackward) {
    let CrossBackward { len, accumulate, .. } = args;
    let (x0, z, dout) = (args.x0.host(), args.z.host(), args.dout.host());
    let (dz, dx0) = (args.dz.host_mut(), args.dx0.host_mut());
    for i in 0..len {
        dz[i] = dout[i] * x0[i];
        dx0[i] = dout[i] * z[i] + if accumulate { dx0[i] } else { 0.0 };
    }
}
