//! The kernel by itself, for tests and measurements.

use super::{MaskedInputGradient, SUM_ROWS, masked_input_gradient};
use crate::Buffer;
use crate::cuda::Cuda;
use crate::cuda::operand::LaterSums;
use crate::cuda::product::{Epilogue, Form, Operands, Product, alignment};
use crate::cuda::stream::CardEvent;
use crate::cuda::tensor_map::Matrix;
use crate::op::Result;
use ground::precision::Precision;
use std::time::Duration;

/// An input gradient with its operands in buffers of bf16 bits. Strides are elements from row to row.
pub struct GradientProbe<'a> {
    /// Rows, inputs and outputs of the linear map.
    pub sizes: [usize; 3],
    /// Strides of dy, w, y and dx.
    pub strides: [usize; 4],
    /// Gradient of the output.
    pub dy: &'a Buffer<u16>,
    /// Weights.
    pub w: &'a Buffer<u16>,
    /// Output of the ReLU below.
    pub y: Option<&'a Buffer<u16>>,
    /// Gradient of the input.
    pub dx: &'a mut Buffer<u16>,
    /// Sums of the columns of dx.
    pub sums: Option<&'a mut Buffer<f32>>,
}

impl GradientProbe<'_> {
    fn operands(&self) -> MaskedInputGradient {
        let [rows, inputs, outputs] = self.sizes;
        let matrix = |buffer: &Buffer<u16>, which: usize, rows: usize, columns: usize| {
            let stride = self.strides[which];
            assert!(
                columns <= stride && rows * stride <= buffer.len(),
                "matrix {which} fits into its buffer"
            );
            Matrix::bf16(buffer.card_address(), stride)
        };
        MaskedInputGradient {
            rows,
            inputs,
            outputs,
            dy: matrix(self.dy, 0, rows, outputs),
            w: matrix(self.w, 1, outputs, inputs),
            y: self.y.map(|y| matrix(y, 2, rows, inputs)),
            dx: matrix(self.dx, 3, rows, inputs),
            parts: None,
        }
    }

    /// Puts the gradient into the queue; false where the card has no kernel for it.
    pub fn queue(&mut self, cuda: &Cuda) -> Result<bool> {
        let ([rows, inputs, _], operands) = (self.sizes, self.operands());
        let Some(sums) = &self.sums else { return masked_input_gradient(cuda, operands) };
        assert!(sums.len() >= inputs, "sums fit into their buffer");
        let parts = rows.div_ceil(SUM_ROWS);
        let mut later = LaterSums::new(cuda, parts * inputs)?;
        let parts = Some(later.room(parts, inputs, sums.card_address())?);
        let queued = masked_input_gradient(cuda, MaskedInputGradient { parts, ..operands })?;
        if queued {
            later.add()?;
        }
        Ok(queued)
    }

    /// Time of one of `repeats` gradients behind each other.
    pub fn time(&mut self, cuda: &Cuda, repeats: u32) -> Result<Duration> {
        time(cuda, repeats, || self.queue(cuda).map(|_| ()))
    }

    /// Time of one of `repeats` products alone by cuBLASLt, whose output is `d`: rows of floats, `inputs` each.
    pub fn time_of_product(&self, cuda: &Cuda, d: &mut Buffer<f32>, repeats: u32) -> Result<Duration> {
        let MaskedInputGradient { rows, inputs, outputs, dy, w, .. } = self.operands();
        assert!(d.len() >= rows * inputs, "the product fits into its buffer");
        let d = d.card_address();
        let product = Product {
            precision: Precision::Bf16,
            transposed: [false, false],
            sizes: [inputs, rows, outputs],
            strides: [w.stride, dy.stride, inputs],
            alignments: [w.at, dy.at, d].map(alignment),
            output: Form::F32,
            epilogue: Epilogue::None,
            add: false,
        };
        time(cuda, repeats, || {
            cuda.product(product, Operands { a: w.at, b: dy.at, d, bias: None }).map(|_| ())
        })
    }
}

fn time(cuda: &Cuda, repeats: u32, mut queue: impl FnMut() -> Result) -> Result<Duration> {
    let (begin, end) = (CardEvent::new(cuda.place())?, CardEvent::new(cuda.place())?);
    begin.record(cuda.stream())?;
    for _ in 0..repeats {
        queue()?;
    }
    end.record(cuda.stream())?;
    end.synchronise()?;
    Ok(end.since(&begin)? / repeats)
}
