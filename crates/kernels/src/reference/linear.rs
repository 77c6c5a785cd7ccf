//! Linear maps, one output at a time.

use super::interaction::cross_forward;
use crate::{InputGradient, LinearShape};
use ground::Activation;

/// Linear map: `y[r, o] = act(Σᵢ x[r, i]·w[o, i] + b[o])`. ReLU keeps NaN.
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

/// Linear map and cross layer: `z = h·wᵀ + b`, `out = x0 ⊙ z + x`.
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

/// Gradients of the parameters of a linear map: `dw[o, i] = Σᵣ dy[r, o]·x[r, i]`, `db[o] = Σᵣ dy[r, o]`.
pub fn linear_gradients(shape: LinearShape, x: &[f32], dy: &[f32], dw: &mut [f32], db: Option<&mut [f32]>) {
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
}

/// Gradient of the input of a linear map: `dx[r, i] (+)= Σₒ dy[r, o]·w[o, i]`, and where `x` came out of a ReLU, `dx[r, i] = 0`
/// for `x[r, i] ≤ 0`.
pub fn linear_input_gradient(
    shape: LinearShape,
    x: &[f32],
    w: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    InputGradient { accumulate, relu }: InputGradient,
) {
    let LinearShape { rows, inputs, outputs } = shape;
    let at = |r: usize, o: usize| dy[r * outputs + o] as f64;
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
