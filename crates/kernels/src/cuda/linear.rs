//! Linear maps by cuBLASLt: `y = act(x·wᵀ + b)`, `dw = dyᵀ·x`, `db = Σ dy`, `dx = dy·w`.
//!
//! cuBLASLt counts columns where matrices here are row by row, so that each matrix is the transpose of itself there. A map with one
//! output needs no product.

use super::Cuda;
use super::arrays::Scratch;
use super::beside::Beside;
use super::gradient::{MaskedInputGradient, SUM_ROWS, masked_input_gradient};
use super::gradient_tf32::{self, masked_input_gradient_tf32};
use super::memory::Pointer;
use super::operand::{LaterSums, Rows, Values, mask, parts};
use super::pack::turned_stride;
use super::product::{Epilogue, Form, Operands, Product, alignment};
use super::tensor_map::{Element, Matrix};
use super::weight_gradient::weight_gradient_tf32;
use crate::op::Result;
use crate::{
    Buffer, InputGradient, LinearAt, LinearBackward, LinearCrossForward, LinearForward, LinearShape,
    PackedLinear, Stored,
};
use ground::Activation;
use ground::precision::Precision;
use ground::share;

pub(super) const FLOAT: usize = size_of::<f32>();

pub(super) fn linear_forward(cuda: &Cuda, args: LinearForward) -> Result {
    let map = Map::new(args.shape, args.parameters.card_address(), args.at, args.packed);
    let LinearShape { inputs, outputs, .. } = args.shape;
    let relu = args.activation == Activation::Relu;
    map.forward(cuda, Values::of(args.x, inputs), relu, Values::of(args.y, outputs))
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
            packed: args.packed,
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
    let LinearShape { inputs, outputs, .. } = args.shape;
    let map = Map::new(args.shape, args.parameters.card_address(), args.at, args.packed);
    let (x, dy) = (Values::of(args.x, inputs), Values::of(args.dy, outputs));
    let (mut later, beside) = (LaterSums::new(cuda, map.floats_of_sums())?, Beside::new(cuda));
    let dx = args.dx.map(|(dx, into)| Gradient { to: Values::of(dx, inputs), into, sums: None });
    map.backward((cuda, &beside), x, dy, dx, Sums::Missing, (args.gradients, &mut later))?;
    later.add()?;
    beside.join()
}

/// Whether the sums of the bias are there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sums {
    Missing,
    Done,
}

/// A linear map on the card.
pub(super) struct Map {
    pub(super) shape: LinearShape,
    at: LinearAt,
    w: Pointer,
    bias: Option<Pointer>,
    /// Matrix as bf16, and behind it the bias.
    packed: Option<Pointer>,
    /// Matrix turned, for gradients of inputs in tf32.
    turned: Option<Pointer>,
}

impl Map {
    pub(super) fn new(
        shape: LinearShape,
        parameters: Pointer,
        at: LinearAt,
        packed: Option<&PackedLinear>,
    ) -> Self {
        let packed_in = |precision: Precision| {
            let packed = packed.filter(|packed| packed.made.is_some_and(|made| made.precision == precision));
            packed.map(|packed| packed.panels.card_address())
        };
        Self {
            shape,
            at,
            w: parameters.plus(at.weight * FLOAT),
            bias: at.bias.map(|bias| parameters.plus(bias * FLOAT)),
            packed: packed_in(Precision::Bf16),
            turned: packed_in(Precision::Tf32),
        }
    }

    /// The matrix as products of the rank's precision read it.
    pub(super) fn matrix(&self, cuda: &Cuda) -> Result<Rows> {
        let LinearShape { inputs, outputs, .. } = self.shape;
        match self.packed {
            Some(at) if cuda.precision() == Precision::Bf16 => {
                Ok(Rows { at, stride: Stored::stride(inputs), form: Form::Bf16 })
            }
            _ => Rows::new(
                cuda,
                Scratch::Right,
                Values { at: self.w, width: inputs, form: Form::F32 },
                outputs,
            ),
        }
    }

    /// Whether the matrix is there as bf16.
    pub(super) fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// The bias as bf16, `Some(None)` where the map has none; `None` where a kernel cannot read it.
    pub(super) fn packed_bias(&self) -> Option<Option<Pointer>> {
        match self.bias {
            None => Some(None),
            Some(_) => self.bias_as(Form::Bf16).map(Some),
        }
    }

    /// The bias, stored as `form`, where an epilogue can add it.
    fn bias_as(&self, form: Form) -> Option<Pointer> {
        let bias = match form {
            Form::F32 => self.bias,
            Form::Bf16 => {
                let behind = self.shape.outputs * Stored::stride(self.shape.inputs) * Form::Bf16.bytes();
                self.bias.and(self.packed).map(|packed| packed.plus(behind))
            }
        };
        bias.filter(|bias| alignment(*bias) >= 16)
    }

    pub(super) fn forward(&self, cuda: &Cuda, x: Values, relu: bool, y: Values) -> Result {
        let LinearShape { rows, inputs, outputs } = self.shape;
        if rows == 0 || outputs == 0 {
            return Ok(());
        }
        if outputs == 1 && y.form == Form::F32 {
            let name = match x.form {
                Form::F32 => "linear_one",
                Form::Bf16 => "linear_one_bf16",
            };
            return cuda
                .kernel(name)
                .grid(rows.div_ceil(8).min(cuda.most_blocks()))
                .arg(rows)
                .arg(inputs as u32)
                .arg(x.stride() as u32)
                .arg(x.at)
                .arg(self.w)
                .arg(self.bias)
                .arg(u32::from(relu))
                .arg(y.at)
                .launch();
        }
        if inputs == 0 {
            cuda.stream().fill(y.at.0, 0, rows * y.stride() * y.form.bytes())?;
            return self.finish(cuda, relu, y);
        }
        let w = self.matrix(cuda)?;
        let x = Rows::new(cuda, Scratch::Left, x, rows)?;
        // Zeros behind both rows are terms like others.
        let terms = if w.stride == x.stride { w.stride } else { inputs };
        let bias = self.bias_as(y.form);
        let epilogue = match (bias, relu) {
            (None, _) => Epilogue::None,
            (Some(_), false) => Epilogue::Bias,
            (Some(_), true) => Epilogue::ReluBias,
        };
        let product = Product {
            precision: cuda.precision(),
            transposed: [true, false],
            sizes: [outputs, rows, terms],
            strides: [w.stride, x.stride, y.stride()],
            alignments: [w.at, x.at, y.at].map(alignment),
            output: y.form,
            epilogue,
            add: false,
        };
        let operands = Operands { a: w.at, b: x.at, d: y.at, bias };
        let fused = cuda.product(product, operands)? && epilogue != Epilogue::None;
        if fused { Ok(()) } else { self.finish(cuda, relu, y) }
    }

    /// Adds the bias and applies the activation in a pass of its own, where there is something to be done.
    fn finish(&self, cuda: &Cuda, relu: bool, y: Values) -> Result {
        let LinearShape { rows, outputs, .. } = self.shape;
        if self.bias.is_none() && !relu {
            return Ok(());
        }
        let launch = match y.form {
            Form::F32 => cuda.kernel("bias_activation").grid(cuda.blocks_for(rows * outputs)).arg(rows),
            Form::Bf16 => cuda.kernel("bias_activation_bf16").grid(cuda.blocks_for(rows * outputs)).arg(rows),
        };
        let launch = launch.arg(outputs as u32);
        let launch = if y.form == Form::Bf16 { launch.arg(y.stride() as u32) } else { launch };
        launch.arg(self.bias).arg(u32::from(relu)).arg(y.at).launch()
    }

    /// The most floats of parts of sums that [`Map::backward`] needs.
    pub(super) fn floats_of_sums(&self) -> usize {
        let LinearShape { rows, inputs, outputs } = self.shape;
        let of_weights = if outputs == 1 { inputs } else { 0 };
        (rows.div_ceil(SUM_ROWS) + 1) * (Stored::stride(inputs) + outputs + of_weights)
    }

    /// All gradients: of the input, and of matrix and bias for each share of the samples. Sums are added up later; what concerns the
    /// matrix may go on beside, until the operation ends.
    pub(super) fn backward(
        &self,
        (cuda, beside): (&Cuda, &Beside),
        x: Values,
        dy: Values,
        dx: Option<Gradient>,
        sums: Sums,
        (gradients, later): (&[Buffer<f32>], &mut LaterSums),
    ) -> Result {
        if let (Some(dx), [gradient]) = (dx, gradients)
            && self.gradients_of_one(cuda, x, dy, dx, (sums, gradient), later)?
        {
            return Ok(());
        }
        let dy_rows = self.gradient_rows(cuda, dy)?;
        // A copy lies in memory that the next map of this queue overwrites.
        let copied = dy_rows.at != dy.at;
        let of_matrix = if copied || dx.is_none() { cuda } else { beside.fork()? };
        if let Some(dx) = dx {
            self.input_gradient(cuda, x, dy_rows, dx, later)?;
        }
        self.parameter_gradients(of_matrix, x, (dy, dy_rows), sums, (gradients, later))
    }

    /// Gradients of matrix and bias beside the operation, which takes that of the input otherwise.
    pub(super) fn parameters_backward(
        &self,
        beside: &Beside,
        x: Values,
        dy: Values,
        sums: Sums,
        gradients: (&[Buffer<f32>], &mut LaterSums),
    ) -> Result {
        let cuda = beside.fork()?;
        let dy_rows = self.gradient_rows(cuda, dy)?;
        self.parameter_gradients(cuda, x, (dy, dy_rows), sums, gradients)
    }

    /// All gradients of a map with one output in one pass over its input, where rows can be read by pieces; false elsewhere.
    fn gradients_of_one(
        &self,
        cuda: &Cuda,
        x: Values,
        dy: Values,
        dx: Gradient,
        (sums, gradient): (Sums, &Buffer<f32>),
        later: &mut LaterSums,
    ) -> Result<bool> {
        let LinearShape { rows, inputs, outputs } = self.shape;
        let alike = x.form == dx.to.form && x.by_pieces() && dx.to.by_pieces() && dy.form == Form::F32;
        if outputs != 1 || !alike || dx.into.accumulate || rows * inputs == 0 {
            return Ok(false);
        }
        let (kernel, piece) = match x.form {
            Form::F32 => ("gradients_one_f32", 4),
            Form::Bf16 => ("gradients_one_bf16", 8),
        };
        let ((part, count), to) = (parts(rows), gradient.card_address());
        let w_parts = later.room(count, inputs, to.plus(self.at.weight * FLOAT))?;
        let dx_parts = dx.sums.map(|sums| later.room(count, inputs, sums)).transpose()?;
        let bias = self.at.bias.filter(|_| sums == Sums::Missing);
        let dy_parts = bias.map(|bias| later.room(count, 1, to.plus(bias * FLOAT))).transpose()?;
        cuda.kernel(kernel)
            .grid3([inputs.div_ceil(32 * piece), count, 1])
            .arg(rows)
            .arg(inputs as u32)
            .arg(x.stride() as u32)
            .arg(x.at)
            .arg(self.w)
            .arg(dy.at)
            .arg(u32::from(dx.into.relu))
            .arg(dx.to.at)
            .arg(part)
            .arg(w_parts)
            .arg(dx_parts)
            .arg(dy_parts)
            .launch()?;
        Ok(true)
    }

    /// The gradient of the output as products read it. A map with one output reads it as it is.
    fn gradient_rows(&self, cuda: &Cuda, dy: Values) -> Result<Rows> {
        if self.shape.outputs == 1 && dy.form == Form::F32 {
            return Ok(Rows { at: dy.at, stride: dy.stride(), form: dy.form });
        }
        Rows::new(cuda, Scratch::Left, dy, self.shape.rows)
    }

    /// `dx (+)= dy·w`; 0 where a ReLU gave `x` and `x <= 0`.
    fn input_gradient(
        &self,
        cuda: &Cuda,
        x: Values,
        dy: Rows,
        dx: Gradient,
        later: &mut LaterSums,
    ) -> Result {
        let LinearShape { rows, inputs, outputs } = self.shape;
        let Gradient { to, into, sums } = dx;
        if rows * inputs == 0 {
            return sums.map_or(Ok(()), |sums| later.column_sums(rows, to, None, sums));
        }
        if outputs == 1 && dy.form == Form::F32 {
            self.input_gradient_of_one(cuda, x, dy, to, into)?;
            return match sums {
                Some(sums) => later.column_sums(rows, to, None, sums),
                None => Ok(()),
            };
        }
        if self.masked_by_product(cuda, x, dy, dx, later)? || self.masked_in_tf32(cuda, x, dy, dx, later)? {
            return Ok(());
        }
        if outputs > 0 {
            let w = self.matrix(cuda)?;
            let product = Product {
                precision: cuda.precision(),
                transposed: [false, false],
                sizes: [inputs, rows, outputs],
                strides: [w.stride, dy.stride, to.stride()],
                alignments: [w.at, dy.at, to.at].map(alignment),
                output: to.form,
                epilogue: Epilogue::None,
                add: into.accumulate,
            };
            cuda.product(product, Operands { a: w.at, b: dy.at, d: to.at, bias: None })?;
        } else if !into.accumulate {
            cuda.stream().fill(to.at.0, 0, rows * to.stride() * to.form.bytes())?;
        }
        match (into.relu, sums) {
            (relu, Some(sums)) => later.mask_and_sum(rows, relu.then_some(x), to, sums),
            (true, None) => mask(cuda, rows, x, to),
            (false, None) => Ok(()),
        }
    }

    /// Multiplies, masks and adds up by one kernel, where all is bf16 and the card has it; false elsewhere.
    fn masked_by_product(
        &self,
        cuda: &Cuda,
        x: Values,
        dy: Rows,
        dx: Gradient,
        later: &mut LaterSums,
    ) -> Result<bool> {
        let LinearShape { rows, inputs, outputs } = self.shape;
        let Gradient { to, into, sums } = dx;
        let bf16 = dy.form == Form::Bf16 && to.form == Form::Bf16 && (!into.relu || x.form == Form::Bf16);
        // Sums of padded rows would be too long.
        let padded = Stored::stride(inputs);
        if cuda.gpu().capability() != (9, 0)
            || !bf16
            || self.packed.is_none()
            || into.accumulate
            || (sums.is_some() && padded != inputs)
        {
            return Ok(false);
        }
        let w = self.matrix(cuda)?;
        let of = |values: Values| Matrix::bf16(values.at, values.stride());
        let parts = rows.div_ceil(SUM_ROWS);
        let args = MaskedInputGradient {
            rows,
            // Zeros behind the rows of the matrix give zeros behind the rows of the gradient.
            inputs: padded,
            outputs,
            dy: Matrix::bf16(dy.at, dy.stride),
            w: Matrix::bf16(w.at, w.stride),
            y: into.relu.then(|| of(x)),
            dx: of(to),
            parts: sums.map(|sums| later.room(parts, inputs, sums)).transpose()?,
        };
        masked_input_gradient(cuda, args)
    }

    /// As [`Map::masked_by_product`], where all is floats, the matrix is there turned and a ReLU masks the gradient.
    fn masked_in_tf32(
        &self,
        cuda: &Cuda,
        x: Values,
        dy: Rows,
        dx: Gradient,
        later: &mut LaterSums,
    ) -> Result<bool> {
        let LinearShape { rows, inputs, outputs } = self.shape;
        let Gradient { to, into, sums } = dx;
        let floats = [dy.form, to.form, x.form] == [Form::F32; 3];
        let wanted = cuda.precision() == Precision::Tf32 && floats && into.relu && !into.accumulate;
        let Some(turned) = self.turned.filter(|_| wanted) else { return Ok(false) };
        let of = |at, stride| Matrix { at, stride, element: Element::F32 };
        let args = gradient_tf32::MaskedInputGradient {
            rows,
            inputs,
            outputs,
            dy: of(dy.at, dy.stride),
            turned: of(turned, turned_stride(outputs)),
            y: of(x.at, x.stride()),
            dx: of(to.at, to.stride()),
            parts: None,
        };
        if !args.is_possible(cuda) {
            return Ok(false);
        }
        let parts = sums.map(|sums| later.room(rows.div_ceil(SUM_ROWS), inputs, sums)).transpose()?;
        masked_input_gradient_tf32(cuda, gradient_tf32::MaskedInputGradient { parts, ..args })?;
        Ok(true)
    }

    /// The gradient of the input of a map with one output.
    fn input_gradient_of_one(
        &self,
        cuda: &Cuda,
        x: Values,
        dy: Rows,
        dx: Values,
        into: InputGradient,
    ) -> Result {
        let LinearShape { rows, inputs, .. } = self.shape;
        let name = match (x.form, dx.form) {
            (Form::F32, Form::F32) => "input_gradient_one",
            (Form::Bf16, Form::F32) => "input_gradient_one_from_bf16",
            (Form::Bf16, Form::Bf16) => "input_gradient_one_bf16",
            (Form::F32, Form::Bf16) => "input_gradient_one_to_bf16",
        };
        cuda.kernel(name)
            .grid3([inputs.div_ceil(64), rows.div_ceil(8).min(cuda.most_blocks()), 1])
            .arg(rows)
            .arg(inputs as u32)
            .arg(x.stride() as u32)
            .arg(dx.stride() as u32)
            .arg(x.at)
            .arg(self.w)
            .arg(dy.at)
            .arg(u32::from(into.accumulate))
            .arg(u32::from(into.relu))
            .arg(dx.at)
            .launch()
    }

    /// Gradients of matrix and bias, for each share of the samples: the matrix in the queue of `cuda`. `dy` comes as it is stored and as
    /// products read it.
    fn parameter_gradients(
        &self,
        cuda: &Cuda,
        x: Values,
        (dy, dy_rows): (Values, Rows),
        sums: Sums,
        (gradients, later): (&[Buffer<f32>], &mut LaterSums),
    ) -> Result {
        let LinearShape { rows, outputs, .. } = self.shape;
        let one = outputs == 1 && dy.form == Form::F32;
        let x_rows = if one { None } else { Some(Rows::new(cuda, Scratch::Right, x, rows)?) };
        for (i, gradient) in gradients.iter().enumerate() {
            let (part, to) = (share(rows, gradients.len(), i), gradient.card_address());
            let dw = to.plus(self.at.weight * FLOAT);
            match x_rows {
                None => {
                    let dy = dy.skip(part.start).at;
                    later.column_sums(part.len(), x.skip(part.start), Some(dy), dw)?;
                }
                Some(x_rows) => {
                    let shape = LinearShape { rows: part.len(), ..self.shape };
                    weight_gradient(cuda, shape, x_rows.skip(part.start), dy_rows.skip(part.start), dw)?;
                }
            }
            if let (Some(bias), Sums::Missing) = (self.at.bias, sums) {
                later.column_sums(part.len(), dy.skip(part.start), None, to.plus(bias * FLOAT))?;
            }
        }
        Ok(())
    }
}

/// Gradient of the input of a map.
#[derive(Clone, Copy)]
pub(super) struct Gradient {
    pub(super) to: Values,
    pub(super) into: InputGradient,
    /// Receives the sums of the columns of the gradient, one behind the other.
    pub(super) sums: Option<Pointer>,
}

/// `dw = dyᵀ·x`.
fn weight_gradient(cuda: &Cuda, shape: LinearShape, x: Rows, dy: Rows, dw: Pointer) -> Result {
    let LinearShape { rows, inputs, outputs } = shape;
    if rows == 0 {
        return cuda.stream().fill(dw.0, 0, outputs * inputs * FLOAT);
    }
    if inputs == 0 || outputs == 0 || weight_gradient_tf32(cuda, shape, x, dy, dw)? {
        return Ok(());
    }
    // Tensor cores write rows of 16 bytes fastest: others go by way of padded ones.
    let pads = cuda.precision() != Precision::F32 && !inputs.is_multiple_of(4) && x.stride > inputs;
    let (to, width) = match pads {
        true => (cuda.scratch(Scratch::Converted, outputs * x.stride * FLOAT)?, x.stride),
        false => (dw, inputs),
    };
    let product = Product {
        precision: cuda.precision(),
        transposed: [false, true],
        sizes: [width, outputs, rows],
        strides: [x.stride, dy.stride, width],
        alignments: [x.at, dy.at, to].map(alignment),
        output: Form::F32,
        epilogue: Epilogue::None,
        add: false,
    };
    cuda.product(product, Operands { a: x.at, b: dy.at, d: to, bias: None })?;
    if !pads {
        return Ok(());
    }
    cuda.kernel("unpadded")
        .grid(cuda.blocks_for(outputs * inputs))
        .arg(outputs)
        .arg(inputs as u32)
        .arg(width as u32)
        .arg(to)
        .arg(dw)
        .launch()
}
