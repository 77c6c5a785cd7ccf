//! Values as operations are given them, operands as products read them, and passes over values: `kernels/linear.cu`.

use super::Cuda;
use super::arrays::Scratch;
use super::linear::FLOAT;
use super::memory::Pointer;
use super::product::{Form, alignment};
use crate::op::{Result, need};
use crate::{Buffer, Stored};
use ground::precision::Precision;

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
            Stored::Bf16Rows { .. } => Form::Bf16,
            // Checks let no panels through: a CPU alone keeps them.
            Stored::Plain | Stored::Bf16Panels { .. } => Form::F32,
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
    let (y, len) = (y.as_form(cuda, rows, dy.form)?, rows * dy.stride());
    let (kernel, count) = match dy.form {
        Form::F32 => ("relu_backward", len),
        Form::Bf16 => ("relu_backward_bf16", len / 8),
    };
    cuda.kernel(kernel).grid(cuda.blocks_for(len)).arg(count).arg(y.at).arg(dy.at).launch()
}

/// Sums of columns in two stages. Kernels sum parts of the rows, each in room of its own; in the end one kernel adds the parts of all.
pub(super) struct LaterSums<'a> {
    cuda: &'a Cuda,
    at: Pointer,
    /// Floats of the room, and of what is in use.
    floats: usize,
    used: usize,
    jobs: [PartsOfSum; MOST_SUMS],
    count: usize,
}

/// The most sums of one kernel: bias sums of a chain's layers, and the gradients of a map with one output.
const MOST_SUMS: usize = crate::CHAIN_LAYERS + 2;

/// Parts of the sums of some columns, as `struct PartsOfSum` of `kernels/linear.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::NoUninit)]
struct PartsOfSum {
    parts: u64,
    out: u64,
    count: u32,
    width: u32,
}

impl<'a> LaterSums<'a> {
    /// Sums with room for `floats` floats of parts.
    pub(super) fn new(cuda: &'a Cuda, floats: usize) -> Result<Self> {
        let none = PartsOfSum { parts: 0, out: 0, count: 0, width: 0 };
        let at = cuda.scratch(Scratch::Sums, floats * FLOAT)?;
        Ok(Self { cuda, at, floats, used: 0, jobs: [none; MOST_SUMS], count: 0 })
    }

    /// Room for `count` parts of the sums of `width` columns, which go to `out` in the end. Where there is none left, sums that are under
    /// way are added up before.
    pub(super) fn room(&mut self, count: usize, width: usize, out: Pointer) -> Result<Pointer> {
        if self.count == MOST_SUMS || self.used + count * width > self.floats {
            self.add()?;
            (self.count, self.used) = (0, 0);
        }
        need("sums of columns", "room for parts", count * width, self.floats)?;
        let at = self.at.plus(self.used * FLOAT);
        self.used += count * width;
        self.jobs[self.count] =
            PartsOfSum { parts: at.0, out: out.0, count: count as u32, width: width as u32 };
        self.count += 1;
        Ok(at)
    }

    /// `dy = 0` where `y <= 0`, if there is a `y`; then `sums[c] = Σᵣ dy[r, c]`.
    pub(super) fn mask_and_sum(
        &mut self,
        rows: usize,
        y: Option<Values>,
        dy: Values,
        sums: Pointer,
    ) -> Result {
        let y = y.map(|y| y.as_form(self.cuda, rows, dy.form)).transpose()?;
        if !dy.by_pieces() || y.is_some_and(|y| !y.by_pieces()) {
            if let Some(y) = y {
                mask(self.cuda, rows, y, dy)?;
            }
            return self.column_sums(rows, dy, None, sums);
        }
        let (kernel, piece) = match dy.form {
            Form::F32 => ("mask_and_sum_f32", 4),
            Form::Bf16 => ("mask_and_sum_bf16", 8),
        };
        let (part, count) = parts(rows);
        let at = self.room(count, dy.width, sums)?;
        self.cuda
            .kernel(kernel)
            .grid3([dy.width.div_ceil(32 * piece), count, 1])
            .arg(rows)
            .arg(dy.width as u32)
            .arg(dy.stride() as u32)
            .arg(y.map(|y| y.at))
            .arg(dy.at)
            .arg(part)
            .arg(at)
            .launch()
    }

    /// `out[c] = Σᵣ weights[r]·x[r, c]`, or `Σᵣ x[r, c]` without weights.
    pub(super) fn column_sums(
        &mut self,
        rows: usize,
        x: Values,
        weights: Option<Pointer>,
        out: Pointer,
    ) -> Result {
        let kernel = match x.form {
            Form::F32 => "column_sums",
            Form::Bf16 => "column_sums_bf16",
        };
        let (part, count) = parts(rows);
        let at = self.room(count, x.width, out)?;
        self.cuda
            .kernel(kernel)
            .grid3([x.width.div_ceil(32), count, 1])
            .arg(rows)
            .arg(x.width as u32)
            .arg(x.stride() as u32)
            .arg(x.at)
            .arg(weights)
            .arg(part)
            .arg(at)
            .launch()
    }

    /// Adds the parts of all sums.
    pub(super) fn add(&self) -> Result {
        let jobs = &self.jobs[..self.count];
        let widest = jobs.iter().map(|job| job.width as usize).max().unwrap_or(0);
        self.cuda
            .kernel("add_parts_of_sums")
            .block(1024)
            .grid3([widest.div_ceil(32), jobs.len(), 1])
            .arg(self.cuda.constant(jobs)?)
            .launch()
    }
}

/// Rows of a part, and the number of parts.
pub(super) fn parts(rows: usize) -> (usize, usize) {
    let of_part = rows.div_ceil(256).max(64);
    (of_part, rows.div_ceil(of_part))
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
