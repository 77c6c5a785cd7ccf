//! Values as operations are given them, operands as products read them, and passes over values: `kernels/linear.cu`.

use super::Cuda;
use super::arrays::Scratch;
use super::linear::FLOAT;
use super::memory::Pointer;
use super::product::{Form, alignment};
use crate::op::Result;
use crate::{Buffer, Stored};
use spec::precision::Precision;

/// Rows of floats on the card, as a buffer stores them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    pub(super) at: Pointer,
    /// Floats of a row.
    pub(super) width: usize,
    pub(super) form: Form,
}

impl Values {
    /// Rows of `width` floats of a buffer.
    pub(super) fn of(buffer: &Buffer<f32>, width: usize) -> Self {
        let form = match buffer.stored() {
            Stored::Plain => Form::F32,
            Stored::Bf16Rows { .. } => Form::Bf16,
        };
        Self { at: buffer.card_address(), width, form }
    }

    /// Elements from row to row.
    pub(super) fn stride(&self) -> usize {
        match self.form {
            Form::F32 => self.width,
            Form::Bf16 => Stored::stride(self.width),
        }
    }

    /// The rows behind the first `count`.
    pub(super) fn skip(self, count: usize) -> Self {
        Self { at: self.at.plus(count * self.stride() * self.form.bytes()), ..self }
    }

    /// Whether rows can be read 16 bytes at a time.
    pub(super) fn by_pieces(&self) -> bool {
        alignment(self.at) >= 16 && (self.stride() * self.form.bytes()).is_multiple_of(16)
    }
}

/// Rows of an operand of a product, as the product reads them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) at: Pointer,
    /// Elements from row to row; zeros behind each row.
    pub(super) stride: usize,
    pub(super) form: Form,
}

impl Rows {
    /// `rows` rows of values, where tensor cores of the rank's precision can read them, else in a copy.
    pub(super) fn new(cuda: &Cuda, scratch: Scratch, from: Values, rows: usize) -> Result<Self> {
        let Values { at, width, form } = from;
        let plain = Self { at, stride: from.stride(), form };
        let padded = width.next_multiple_of(8);
        let copy = |kernel: &'static str, form: Form| {
            let to = cuda.scratch(scratch, rows * padded * form.bytes())?;
            let launch = cuda.kernel(kernel).grid(cuda.blocks_for(rows * padded)).arg(rows).arg(width as u32);
            let launch = if from.form == Form::Bf16 { launch.arg(from.stride() as u32) } else { launch };
            launch.arg(padded as u32).arg(at).arg(to).launch()?;
            Ok(Self { at: to, stride: padded, form })
        };
        match (cuda.precision(), form) {
            (Precision::Bf16, Form::F32) => copy("padded_bf16", Form::Bf16),
            (Precision::Tf32, Form::F32) if !from.by_pieces() => copy("padded_f32", Form::F32),
            (Precision::Bf16, Form::Bf16) | (_, Form::F32) => Ok(plain),
            (_, Form::Bf16) => copy("widened", Form::F32),
        }
    }

    /// The rows behind the first `count`.
    pub(super) fn skip(self, count: usize) -> Self {
        Self { at: self.at.plus(count * self.stride * self.form.bytes()), ..self }
    }
}

/// `dy = 0` where `y <= 0`.
pub(super) fn mask(cuda: &Cuda, rows: usize, y: Values, dy: Values) -> Result {
    if y.form != dy.form {
        let sums = cuda.scratch(Scratch::Converted, dy.width * FLOAT)?;
        return mask_and_sum(cuda, rows, Some(y), dy, sums);
    }
    let len = rows * dy.stride();
    let (kernel, count) = match dy.form {
        Form::F32 => ("relu_backward", len),
        Form::Bf16 => ("relu_backward_bf16", len / 8),
    };
    cuda.kernel(kernel).grid(cuda.blocks_for(len)).arg(count).arg(y.at).arg(dy.at).launch()
}

/// `dy = 0` where `y <= 0`, if there is a `y`; then `sums[c] = Σᵣ dy[r, c]`.
pub(super) fn mask_and_sum(cuda: &Cuda, rows: usize, y: Option<Values>, dy: Values, sums: Pointer) -> Result {
    // Values of two kinds: the mask is read as the gradient is stored.
    let y = match y {
        Some(y) if y.form != dy.form => Some(y.as_form(cuda, rows, dy.form)?),
        y => y,
    };
    if !dy.by_pieces() || y.is_some_and(|y| !y.by_pieces()) {
        if let Some(y) = y {
            mask(cuda, rows, y, dy)?;
        }
        return column_sums(cuda, rows, dy, None, sums);
    }
    let (kernel, piece) = match dy.form {
        Form::F32 => ("mask_and_sum_f32", 4),
        Form::Bf16 => ("mask_and_sum_bf16", 8),
    };
    let parts = Parts::new(cuda, rows, dy.width)?;
    cuda.kernel(kernel)
        .grid3([dy.width.div_ceil(32 * piece), parts.count, 1])
        .arg(rows)
        .arg(dy.width as u32)
        .arg(dy.stride() as u32)
        .arg(y.map(|y| y.at))
        .arg(dy.at)
        .arg(parts.rows)
        .arg(parts.at)
        .launch()?;
    parts.add(cuda, dy.width, sums)
}

impl Values {
    /// The values stored as `form`: a copy, if they are stored otherwise.
    pub(super) fn as_form(self, cuda: &Cuda, rows: usize, form: Form) -> Result<Self> {
        let to = self.room(cuda, rows, form)?;
        if self.form != form {
            self.store(cuda, rows, to)?;
        }
        Ok(to)
    }

    /// Room for values stored as `form`: where these lie, if they are stored so.
    pub(super) fn room(self, cuda: &Cuda, rows: usize, form: Form) -> Result<Self> {
        if self.form == form {
            return Ok(self);
        }
        let to = Self { form, ..self };
        let at = cuda.scratch(Scratch::Converted, rows * to.stride() * form.bytes())?;
        Ok(Self { at, ..to })
    }

    /// Copies the values to where they are stored otherwise, unless they lie there already.
    pub(super) fn store(self, cuda: &Cuda, rows: usize, to: Self) -> Result {
        if self.form == to.form {
            return Ok(());
        }
        let launch = match to.form {
            Form::F32 => cuda.kernel("widened").grid(cuda.blocks_for(rows * self.width)).arg(rows),
            Form::Bf16 => cuda.kernel("padded_bf16").grid(cuda.blocks_for(rows * to.stride())).arg(rows),
        };
        let launch = launch.arg(self.width as u32);
        let launch = if self.form == Form::Bf16 { launch.arg(self.stride() as u32) } else { launch };
        launch.arg(to.stride() as u32).arg(self.at).arg(to.at).launch()
    }
}

/// `out[c] = Σᵣ weights[r]·x[r, c]`, or `Σᵣ x[r, c]` without weights, in two stages.
pub(super) fn column_sums(
    cuda: &Cuda,
    rows: usize,
    x: Values,
    weights: Option<Pointer>,
    out: Pointer,
) -> Result {
    let parts = Parts::new(cuda, rows, x.width)?;
    let kernel = match x.form {
        Form::F32 => "column_sums",
        Form::Bf16 => "column_sums_bf16",
    };
    cuda.kernel(kernel)
        .grid3([x.width.div_ceil(32), parts.count, 1])
        .arg(rows)
        .arg(x.width as u32)
        .arg(x.stride() as u32)
        .arg(x.at)
        .arg(weights)
        .arg(parts.rows)
        .arg(parts.at)
        .launch()?;
    parts.add(cuda, x.width, out)
}

/// Sums of parts of the rows, first stage of a sum.
pub(super) struct Parts {
    /// Number of rows of a part.
    pub(super) rows: usize,
    pub(super) count: usize,
    pub(super) at: Pointer,
}

impl Parts {
    pub(super) fn new(cuda: &Cuda, rows: usize, width: usize) -> Result<Self> {
        let of_part = rows.div_ceil(256).max(64);
        let count = rows.div_ceil(of_part);
        Ok(Self { rows: of_part, count, at: cuda.scratch(Scratch::Sums, count * width * FLOAT)? })
    }

    /// Second stage: the sum of all parts.
    pub(super) fn add(&self, cuda: &Cuda, width: usize, out: Pointer) -> Result {
        cuda.kernel("column_sums_of_parts")
            .block(1024)
            .grid(width.div_ceil(32))
            .arg(self.count as u32)
            .arg(width as u32)
            .arg(self.at)
            .arg(out)
            .launch()
    }
}
