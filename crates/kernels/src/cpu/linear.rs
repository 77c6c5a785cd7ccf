//! Linear layers: `y = act(x·wᵀ + b)`, `dw = dyᵀ·x`, `db = Σ dy`, `dx = dy·w`.
//!
//! Whatever touches a whole matrix besides the products rides along with them: bias and ReLU forward, the mask of the
//! ReLU below and the sums of `db` backward, and the element-wise half of a cross layer.
#![allow(unsafe_code)]

use super::Cpu;
use super::gemm::{Cross, Finish, Product, gemm, scratch_bytes};
use super::pack::Operand;
use super::packed;
use super::shared::Shared;
use super::values::{SharedValues, Values, ValuesMut};
use crate::{
    Buffer, InputGradient, LinearAt, LinearBackward, LinearCrossForward, LinearForward, LinearShape,
    PackedLinear,
};
use ground::Activation;
use ground::precision::Precision;
use ground::share;

/// Parameters of a linear map.
#[derive(Clone, Copy)]
pub(crate) struct Weights<'a> {
    /// Matrix, outputs × inputs.
    pub matrix: &'a [f32],
    /// Bias of each output.
    pub bias: Option<&'a [f32]>,
    /// The matrix as products read it fastest, if it was packed.
    pub packed: Option<&'a PackedLinear>,
}

impl<'a> Weights<'a> {
    /// Parameters of a map of `shape` among those of a buffer.
    pub(crate) fn find(
        shape: LinearShape,
        parameters: &'a Buffer<f32>,
        at: LinearAt,
        packed: Option<&'a PackedLinear>,
    ) -> Self {
        let (matrix, bias) = at.find(shape, parameters.host());
        Self { matrix, bias, packed }
    }
}

/// Floats that are worth a thread of their own in a pass over memory.
const GRAIN: usize = 16 << 10;

pub(crate) fn forward(cpu: &Cpu, args: LinearForward) {
    let LinearForward { shape, at, activation, .. } = args;
    let (x, y) = (Values::Plain(args.x.host()), ValuesMut::Plain(args.y.host_mut()));
    let relu = activation == Activation::Relu;
    map(cpu, shape, x, Weights::find(shape, args.parameters, at, args.packed), relu, y);
}

/// `y = act(x·wᵀ + b)`.
pub(crate) fn map(cpu: &Cpu, shape: LinearShape, x: Values, weights: Weights, relu: bool, y: ValuesMut) {
    let LinearShape { rows, inputs, outputs } = shape;
    let Weights { matrix, bias, .. } = weights;
    let c = SharedValues::new(y);
    if outputs == 1 {
        return forward_one(cpu, shape, x.plain(), matrix, bias.map_or(0.0, |b| b[0]), relu, c.plain());
    }
    let a = Operand { data: x, stride: inputs, by_k: false };
    let b = Operand { data: Values::Plain(matrix), stride: inputs, by_k: false };
    let finish = Finish { bias, relu, ..Finish::default() };
    let packed = packed::forward(cpu, weights.packed);
    gemm(cpu, rows, Product { n: outputs, k: inputs, a, b, packed, c, finish });
}

/// A linear map without activation, and the cross layer it is part of: `z = h·wᵀ + b`, `out = x0 ⊙ z + x`.
pub(crate) fn forward_cross(cpu: &Cpu, args: LinearCrossForward) {
    let weights = Weights::find(args.shape, args.parameters, args.at, args.packed);
    let (h, x0_x) = (Values::Plain(args.h.host()), [args.x0.host(), args.x.host()]);
    map_cross(cpu, args.shape, h, weights, x0_x, [args.z.host_mut(), args.out.host_mut()]);
}

/// `z = h·wᵀ + b`, `out = x0 ⊙ z + x`.
pub(crate) fn map_cross(
    cpu: &Cpu,
    LinearShape { rows, inputs, outputs }: LinearShape,
    h: Values,
    weights: Weights,
    [x0, x]: [&[f32]; 2],
    [z, out]: [&mut [f32]; 2],
) {
    let a = Operand { data: h, stride: inputs, by_k: false };
    let b = Operand { data: Values::Plain(weights.matrix), stride: inputs, by_k: false };
    let out = Shared::new(&mut out[..rows * outputs]);
    let finish = Finish { bias: weights.bias, cross: Some(Cross { x0, x, out }), ..Finish::default() };
    let c = SharedValues::Plain(Shared::new(&mut z[..rows * outputs]));
    let packed = packed::forward(cpu, weights.packed);
    gemm(cpu, rows, Product { n: outputs, k: inputs, a, b, packed, c, finish });
}

pub(crate) fn backward(cpu: &Cpu, args: LinearBackward) {
    let LinearBackward { shape, at, .. } = args;
    let LinearShape { rows, inputs, outputs } = shape;
    let (x, dy) = (args.x.host(), &args.dy.host()[..rows * outputs]);
    let count = args.gradients.len();
    for (i, gradient) in args.gradients.iter_mut().enumerate() {
        let rows = share(rows, count, i);
        let (x, dy) = (&x[rows.start * inputs..], &dy[rows.start * outputs..rows.end * outputs]);
        let shape = LinearShape { rows: rows.len(), ..shape };
        let parameters = at.find_mut(shape, gradient.host_mut());
        gradients_of(cpu, shape, Values::Plain(x), Values::Plain(dy), parameters);
    }
    let Some((dx, into)) = args.dx else { return };
    let weights = Weights::find(shape, args.parameters, at, args.packed);
    let dx = ValuesMut::Plain(&mut dx.host_mut()[..rows * inputs]);
    input_gradient(cpu, shape, Values::Plain(x), weights, Values::Plain(dy), (dx, into));
}

/// `dx (+)= dy·w`, and zero where `x` came out of a ReLU as zero.
pub(crate) fn input_gradient(
    cpu: &Cpu,
    shape: LinearShape,
    x: Values,
    weights: Weights,
    dy: Values,
    (dx, into): (ValuesMut, InputGradient),
) {
    let LinearShape { rows, inputs, outputs } = shape;
    let c = SharedValues::new(dx);
    if outputs == 1 {
        return input_gradient_one(cpu, shape, x.plain(), weights.matrix, dy.plain(), (c.plain(), into));
    }
    let a = Operand { data: dy, stride: outputs, by_k: false };
    let b = Operand { data: Values::Plain(weights.matrix), stride: inputs, by_k: true };
    let InputGradient { accumulate, relu } = into;
    let finish = Finish { add: accumulate, mask: relu.then_some(x), ..Finish::default() };
    let packed = packed::backward(cpu, weights.packed);
    gemm(cpu, rows, Product { n: inputs, k: outputs, a, b, packed, c, finish });
}

/// `dw = dyᵀ·x` and `db = Σ dy` of a layer, over the samples of `shape`.
pub(crate) fn gradients_of(
    cpu: &Cpu,
    shape: LinearShape,
    x: Values,
    dy: Values,
    (dw, db): (&mut [f32], Option<&mut [f32]>),
) {
    let LinearShape { rows, inputs, outputs } = shape;
    if outputs == 1 {
        let (x, dy) = (x.plain(), dy.plain());
        if let Some(db) = db {
            db[0] = dy.iter().sum();
        }
        return gradient_one(cpu, shape, x, dy, dw);
    }
    let a = Operand { data: dy, stride: outputs, by_k: true };
    let b = Operand { data: x, stride: inputs, by_k: true };
    let sums = db.map(|db| Shared::new(&mut db[..outputs]));
    let finish = Finish { sums, ..Finish::default() };
    let c = SharedValues::Plain(Shared::new(&mut dw[..outputs * inputs]));
    gemm(cpu, outputs, Product { n: inputs, k: rows, a, b, packed: None, c, finish });
}

/// Bytes of scratch that each of `threads` threads needs for a layer's products in `precision`, forward and backward.
pub fn linear_scratch(precision: Precision, threads: usize, shape: LinearShape, backward: bool) -> usize {
    let LinearShape { rows, inputs, outputs } = shape;
    if outputs == 1 || rows == 0 {
        return 0;
    }
    let forward = [[rows, outputs, inputs]];
    let both = [[rows, outputs, inputs], [outputs, inputs, rows], [rows, inputs, outputs]];
    let products = if backward { &both[..] } else { &forward };
    let threads = threads.max(1);
    #[cfg(target_arch = "x86_64")]
    if let Some(form) = super::matrix::form(super::units::Units::detect(), precision, inputs) {
        let bytes = products.iter().map(|&sizes| super::matrix::scratch_bytes(threads, sizes, form.split));
        return bytes.max().unwrap_or(0);
    }
    let _ = precision;
    products.iter().map(|&sizes| scratch_bytes(threads, sizes)).max().unwrap_or(0)
}

/// Bytes of a matrix that [`Device::pack_linear`](crate::Device::pack_linear) packs on this machine's cores.
pub fn packed_bytes(shape: LinearShape, precision: Precision, backward: bool) -> usize {
    packed::bytes(shape, precision, backward)
}

/// One output: a dot product per row.
fn forward_one(
    cpu: &Cpu,
    LinearShape { rows, inputs, .. }: LinearShape,
    x: &[f32],
    w: &[f32],
    b: f32,
    relu: bool,
    y: Shared<f32>,
) {
    cpu.divide(rows, GRAIN.div_ceil(inputs.max(1)), &|_, range| {
        // SAFETY: pieces do not overlap.
        let y = unsafe { y.piece(range.clone()) };
        cpu.level.run(
            #[inline(always)]
            || {
                for (r, y) in range.zip(y) {
                    let sum = dot(&x[r * inputs..][..inputs], &w[..inputs]) + b;
                    *y = if relu && sum < 0.0 { 0.0 } else { sum };
                }
            },
        );
    });
}

/// `Σ aᵢ·bᵢ` in sixteen sums side by side.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0f32; LANES];
    let (a_lines, a_rest) = a.as_chunks::<LANES>();
    let (b_lines, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lines.iter().zip(b_lines) {
        for i in 0..LANES {
            sums[i] += a[i] * b[i];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// One output: `dw = Σᵣ dy[r]·x[r]`.
fn gradient_one(cpu: &Cpu, shape: LinearShape, x: &[f32], dy: &[f32], dw: &mut [f32]) {
    let LinearShape { rows, inputs, .. } = shape;
    let dw = Shared::new(&mut dw[..inputs]);
    cpu.divide(inputs, GRAIN.div_ceil(rows.max(1)).next_multiple_of(16), &|_, columns| {
        // SAFETY: pieces do not overlap.
        let dw = unsafe { dw.piece(columns.clone()) };
        dw.fill(0.0);
        cpu.level.run(
            #[inline(always)]
            || {
                for (r, &dy) in dy[..rows].iter().enumerate() {
                    for (dw, &x) in dw.iter_mut().zip(&x[r * inputs..][columns.clone()]) {
                        *dw += dy * x;
                    }
                }
            },
        );
    });
}

/// One output: `dx[r] (+)= dy[r]·w`.
fn input_gradient_one(
    cpu: &Cpu,
    LinearShape { rows, inputs, .. }: LinearShape,
    x: &[f32],
    w: &[f32],
    dy: &[f32],
    (dx, InputGradient { accumulate, relu }): (Shared<f32>, InputGradient),
) {
    cpu.divide(rows, GRAIN.div_ceil(inputs.max(1)), &|_, range| {
        cpu.level.run(
            #[inline(always)]
            || {
                for r in range {
                    // SAFETY: no two pieces share a row.
                    let dx = unsafe { dx.piece(r * inputs..(r + 1) * inputs) };
                    for ((dx, &w), &x) in dx.iter_mut().zip(w).zip(&x[r * inputs..]) {
                        let sum = if accumulate { *dx + dy[r] * w } else { dy[r] * w };
                        *dx = if relu && x <= 0.0 { 0.0 } else { sum };
                    }
                }
            },
        );
    });
}
