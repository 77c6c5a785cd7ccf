//! Linear maps by cuBLASLt: `y = act(x·wᵀ + b)`, `dw = dyᵀ·x`, `db = Σ dy`, `dx = dy·w`.
//!
//! cuBLASLt counts columns where matrices here are row by row, so that each matrix is the transpose of itself there. In tf32
//! and bf16 an operand whose rows tensor cores cannot read is copied with zeros behind each row. A map with one output needs no
//! product.

use super::Cuda;
use super::arrays::Scratch;
use super::memory::Pointer;
use super::product::{Epilogue, Operands, Product, alignment};
use crate::op::Result;
use crate::{InputGradient, LinearBackward, LinearCrossForward, LinearForward, LinearShape};
use spec::Activation;
use spec::placement::share;
use spec::precision::Precision;

const FLOAT: usize = size_of::<f32>();

pub(super) fn linear_forward(cuda: &Cuda, args: LinearForward) -> Result {
    let parameters = args.parameters.card_address();
    let map = Map {
        shape: args.shape,
        w: parameters.plus(args.at.weight * FLOAT),
        bias: args.at.bias.map(|bias| parameters.plus(bias * FLOAT)),
    };
    map.forward(cuda, args.x.card_address(), args.activation == Activation::Relu, args.y.card_address())
}

pub(super) fn linear_cross_forward(cuda: &Cuda, args: LinearCrossForward) -> Result {
    let len = args.shape.rows * args.shape.outputs;
    linear_forward(
        cuda,
        LinearForward {
            shape: args.shape,
            x: args.h,
            parameters: args.parameters,
            at: args.at,
            packed: None,
            activation: Activation::Identity,
            y: args.z,
        },
    )?;
    cuda.kernel("cross_forward")
        .grid(cuda.blocks_for(len))
        .arg(len)
        .arg(args.x0)
        .arg(&*args.z)
        .arg(args.x)
        .arg(args.out)
        .launch()
}

pub(super) fn linear_backward(cuda: &Cuda, args: LinearBackward) -> Result {
    let LinearShape { rows, inputs, outputs } = args.shape;
    let w = args.parameters.card_address().plus(args.at.weight * FLOAT);
    let (x, dy) = (args.x.card_address(), args.dy.card_address());
    let one = outputs == 1;
    let turned = |scratch, from, width| match one {
        // No product, so that nothing is converted.
        true => Ok(Rows { at: from, stride: width, bytes: FLOAT }),
        false => Rows::new(cuda, scratch, from, rows, width),
    };
    let dy_rows = turned(Scratch::Left, dy, outputs)?;
    if let Some((dx, into)) = args.dx {
        let map = Map { shape: args.shape, w, bias: None };
        map.input_gradient(cuda, x, dy_rows, dx.card_address(), into)?;
    }
    let x_rows = turned(Scratch::Right, x, inputs)?;
    let count = args.gradients.len();
    for (i, gradient) in args.gradients.iter().enumerate() {
        let part = share(rows, count, i);
        let to = gradient.card_address();
        let shape = LinearShape { rows: part.len(), ..args.shape };
        let (x, dy_of_part) = (x_rows.skip(part.start), dy_rows.skip(part.start));
        weight_gradient(cuda, shape, x, dy_of_part, to.plus(args.at.weight * FLOAT))?;
        if let Some(bias) = args.at.bias {
            let dy = dy.plus(part.start * outputs * FLOAT);
            column_sums(cuda, [part.len(), outputs], dy, None, to.plus(bias * FLOAT))?;
        }
    }
    Ok(())
}

/// A linear map on the card.
struct Map {
    shape: LinearShape,
    w: Pointer,
    bias: Option<Pointer>,
}

impl Map {
    fn forward(&self, cuda: &Cuda, x: Pointer, relu: bool, y: Pointer) -> Result {
        let LinearShape { rows, inputs, outputs } = self.shape;
        if rows == 0 || outputs == 0 {
            return Ok(());
        }
        if outputs == 1 {
            return cuda
                .kernel("linear_one")
                .grid(rows.div_ceil(8).min(cuda.most_blocks()))
                .arg(rows)
                .arg(inputs as u32)
                .arg(x)
                .arg(self.w)
                .arg(self.bias)
                .arg(u32::from(relu))
                .arg(y)
                .launch();
        }
        if inputs == 0 {
            cuda.stream().fill(y.0, 0, rows * outputs * FLOAT)?;
            return self.finish(cuda, relu, y);
        }
        let w = Rows::new(cuda, Scratch::Right, self.w, outputs, inputs)?;
        let x = Rows::new(cuda, Scratch::Left, x, rows, inputs)?;
        // Zeros behind both rows are terms like others.
        let terms = if w.stride == x.stride { w.stride } else { inputs };
        let bias = self.bias.filter(|bias| alignment(*bias) >= 16);
        let epilogue = match (bias, relu) {
            (None, _) => Epilogue::None,
            (Some(_), false) => Epilogue::Bias,
            (Some(_), true) => Epilogue::ReluBias,
        };
        let product = Product {
            precision: cuda.precision(),
            transposed: [true, false],
            sizes: [outputs, rows, terms],
            strides: [w.stride, x.stride, outputs],
            alignments: [w.at, x.at, y].map(alignment),
            epilogue,
            add: false,
        };
        let fused =
            cuda.product(product, Operands { a: w.at, b: x.at, d: y, bias })? && epilogue != Epilogue::None;
        if fused { Ok(()) } else { self.finish(cuda, relu, y) }
    }

    /// Adds the bias and applies the activation in a pass of its own, where there is something to be done.
    fn finish(&self, cuda: &Cuda, relu: bool, y: Pointer) -> Result {
        let LinearShape { rows, outputs, .. } = self.shape;
        if self.bias.is_none() && !relu {
            return Ok(());
        }
        cuda.kernel("bias_activation")
            .grid(cuda.blocks_for(rows * outputs))
            .arg(rows)
            .arg(outputs as u32)
            .arg(self.bias)
            .arg(u32::from(relu))
            .arg(y)
            .launch()
    }

    fn input_gradient(&self, cuda: &Cuda, x: Pointer, dy: Rows, dx: Pointer, into: InputGradient) -> Result {
        let LinearShape { rows, inputs, outputs } = self.shape;
        let InputGradient { accumulate, relu } = into;
        let len = rows * inputs;
        if len == 0 {
            return Ok(());
        }
        if outputs == 1 {
            return cuda
                .kernel("input_gradient_one")
                .block(inputs.next_multiple_of(32).clamp(32, 256) as u32)
                .grid(rows.min(cuda.most_blocks()))
                .arg(rows)
                .arg(inputs as u32)
                .arg(x)
                .arg(self.w)
                .arg(dy.at)
                .arg(u32::from(accumulate))
                .arg(u32::from(relu))
                .arg(dx)
                .launch();
        }
        if outputs > 0 {
            let w = Rows::new(cuda, Scratch::Right, self.w, outputs, inputs)?;
            let product = Product {
                precision: cuda.precision(),
                transposed: [false, false],
                sizes: [inputs, rows, outputs],
                strides: [w.stride, dy.stride, inputs],
                alignments: [w.at, dy.at, dx].map(alignment),
                epilogue: Epilogue::None,
                add: accumulate,
            };
            cuda.product(product, Operands { a: w.at, b: dy.at, d: dx, bias: None })?;
        } else if !accumulate {
            cuda.stream().fill(dx.0, 0, len * FLOAT)?;
        }
        if !relu {
            return Ok(());
        }
        cuda.kernel("relu_backward").grid(cuda.blocks_for(len)).arg(len).arg(x).arg(dx).launch()
    }
}

/// `dw = dyᵀ·x`.
fn weight_gradient(cuda: &Cuda, shape: LinearShape, x: Rows, dy: Rows, dw: Pointer) -> Result {
    let LinearShape { rows, inputs, outputs } = shape;
    if rows == 0 {
        return cuda.stream().fill(dw.0, 0, outputs * inputs * FLOAT);
    }
    if inputs == 0 || outputs == 0 {
        return Ok(());
    }
    if outputs == 1 {
        return column_sums(cuda, [rows, inputs], x.at, Some(dy.at), dw);
    }
    let product = Product {
        precision: cuda.precision(),
        transposed: [false, true],
        sizes: [inputs, outputs, rows],
        strides: [x.stride, dy.stride, inputs],
        alignments: [x.at, dy.at, dw].map(alignment),
        epilogue: Epilogue::None,
        add: false,
    };
    cuda.product(product, Operands { a: x.at, b: dy.at, d: dw, bias: None })?;
    Ok(())
}

/// `out[c] = Σᵣ weights[r]·x[r, c]`, or `Σᵣ x[r, c]` without weights, in two stages.
fn column_sums(
    cuda: &Cuda,
    [rows, width]: [usize; 2],
    x: Pointer,
    weights: Option<Pointer>,
    out: Pointer,
) -> Result {
    let part = rows.div_ceil(256).max(512);
    let parts = rows.div_ceil(part);
    let sums = cuda.scratch(Scratch::Sums, parts * width * FLOAT)?;
    cuda.kernel("column_sums")
        .grid3([width.div_ceil(32), parts, 1])
        .arg(rows)
        .arg(width as u32)
        .arg(x)
        .arg(weights)
        .arg(part)
        .arg(sums)
        .launch()?;
    cuda.kernel("column_sums_of_parts")
        .threads(width)
        .arg(parts as u32)
        .arg(width as u32)
        .arg(sums)
        .arg(out)
        .launch()
}

/// Rows of an operand of a product, as the product reads them.
#[derive(Clone, Copy)]
struct Rows {
    at: Pointer,
    /// Elements from row to row; zeros behind each row.
    stride: usize,
    /// Bytes of an element.
    bytes: usize,
}

impl Rows {
    /// Rows of `width` floats at `from`, where tensor cores of the rank's precision can read them, else in a copy.
    fn new(cuda: &Cuda, scratch: Scratch, from: Pointer, rows: usize, width: usize) -> Result<Self> {
        let plain = Self { at: from, stride: width, bytes: FLOAT };
        let (kernel, bytes) = match cuda.precision() {
            Precision::F32 | Precision::F32x3 => return Ok(plain),
            Precision::Tf32 if width.is_multiple_of(4) && alignment(from) >= 16 => return Ok(plain),
            Precision::Tf32 => ("padded_f32", FLOAT),
            Precision::Bf16 => ("padded_bf16", size_of::<u16>()),
        };
        let stride = width.next_multiple_of(8);
        let at = cuda.scratch(scratch, rows * stride * bytes)?;
        cuda.kernel(kernel)
            .grid(cuda.blocks_for(rows * stride))
            .arg(rows)
            .arg(width as u32)
            .arg(stride as u32)
            .arg(from)
            .arg(at)
            .launch()?;
        Ok(Self { at, stride, bytes })
    }

    /// The rows behind the first `count`.
    fn skip(self, count: usize) -> Self {
        Self { at: self.at.plus(count * self.stride * self.bytes), ..self }
    }
}
