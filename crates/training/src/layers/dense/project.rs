//! `[x₀, x₁·W₁ᵀ, x₂, …]`: linear maps of some columns of a sample; the others pass unchanged.

use super::{Back, Linear, Parameters};
use crate::Error;
use kernels::{Buffer, ColumnCopy, Device, InputGradient, KernelError, Matrix, MatrixMut};
use spec::model::{LinearLayer, Projected};
use std::ops::Range;

type Result = std::result::Result<(), KernelError>;

/// A gradient that replaces what was there.
const SET: InputGradient = InputGradient { accumulate: false, relu: false };

/// Linear maps of columns that lie anywhere in a row. The columns of one map are gathered, mapped and put where they go.
#[derive(Debug)]
pub struct Maps {
    /// Columns of the input and of the output.
    widths: [usize; 2],
    maps: Vec<Map>,
    x: Buffer<f32>,
    y: Buffer<f32>,
    dx: Buffer<f32>,
}

/// A map of one or more vectors of a sample.
#[derive(Debug)]
struct Map {
    linear: Linear,
    /// Columns of the vectors of a sample, in and out.
    gathered: [usize; 2],
    vectors: usize,
    /// From the input to the gathered vectors, and back.
    inputs: [Vec<ColumnCopy>; 2],
    /// From the mapped vectors to the output, and back.
    outputs: [Vec<ColumnCopy>; 2],
}

/// Maps of vectors to one length, beside columns that pass unchanged.
#[derive(Debug)]
pub struct Project {
    maps: Maps,
    /// Columns that pass unchanged, forward and back.
    unchanged: [Vec<ColumnCopy>; 2],
    /// Output of the forward pass.
    pub output: Buffer<f32>,
}

impl Maps {
    /// Maps from rows of `widths[0]` columns to rows of `widths[1]`. Every map has the first columns of its vectors, in the input
    /// and in the output.
    pub fn new(
        widths: [usize; 2],
        maps: &[(&LinearLayer, Vec<[usize; 2]>)],
        parameters: &Parameters,
    ) -> std::result::Result<Self, Error> {
        let map = |(layer, vectors): &(&LinearLayer, Vec<[usize; 2]>)| {
            let copies = |side: usize, width: usize| {
                let place = |(i, vector): (usize, &[usize; 2])| (vector[side], i * width, width);
                both_ways(vectors.iter().enumerate().map(place))
            };
            let [from_output, to_output] = copies(1, layer.outputs);
            Ok(Map {
                linear: Linear::named(layer, parameters)?,
                gathered: [layer.inputs, layer.outputs].map(|width| width * vectors.len()),
                vectors: vectors.len(),
                inputs: copies(0, layer.inputs),
                outputs: [to_output, from_output],
            })
        };
        Ok(Self {
            widths,
            maps: maps.iter().map(map).collect::<std::result::Result<_, Error>>()?,
            x: parameters.buffer(),
            y: parameters.buffer(),
            dx: parameters.buffer(),
        })
    }

    /// Fills the mapped columns of `output`, which has room for `rows` samples.
    pub fn forward(
        &mut self,
        device: &Device,
        parameters: &Parameters,
        rows: usize,
        input: &Buffer<f32>,
        output: &mut Buffer<f32>,
    ) -> Result {
        let Self { widths, maps, x, y, .. } = self;
        for Map { linear, gathered, vectors, inputs, outputs } in maps {
            x.resize(rows * gathered[0])?;
            device.copy_columns(rows, &inputs[0], matrix(input, widths[0]), matrix_mut(x, gathered[0]))?;
            linear.forward(device, parameters, rows * *vectors, x, y)?;
            device.copy_columns(rows, &outputs[0], matrix(y, gathered[1]), matrix_mut(output, widths[1]))?;
        }
        Ok(())
    }

    /// Takes the gradient of the output back through all maps, to those of their matrices and of their columns of the input. The
    /// latter replace what was there, or are added to it if `added`.
    pub fn backward(
        &mut self,
        device: &Device,
        parameters: &mut Parameters,
        rows: usize,
        back: Back<'_>,
        added: bool,
    ) -> Result {
        self.backward_part(device, parameters, rows, back, (0..self.maps.len(), added))
    }

    /// Takes the gradient of the output back through some maps, last first; the gradients of the input are added to what was
    /// there, or replace it.
    fn backward_part(
        &mut self,
        device: &Device,
        parameters: &mut Parameters,
        rows: usize,
        back: Back<'_>,
        (range, added): (Range<usize>, bool),
    ) -> Result {
        let Self { widths, maps, x, y, dx } = self;
        let Back { input, gradient, input_gradient } = back;
        for Map { linear, gathered, vectors, inputs, outputs } in maps[range].iter().rev() {
            x.resize(rows * gathered[0])?;
            y.resize(rows * gathered[1])?;
            dx.resize(rows * gathered[0])?;
            device.copy_columns(rows, &inputs[0], matrix(input, widths[0]), matrix_mut(x, gathered[0]))?;
            device.copy_columns(
                rows,
                &outputs[1],
                matrix(gradient, widths[1]),
                matrix_mut(y, gathered[1]),
            )?;
            linear.backward(device, parameters, rows * *vectors, x, y, Some((&mut *dx, SET)))?;
            let (from, to) = (matrix(dx, gathered[0]), matrix_mut(input_gradient, widths[0]));
            match added {
                true => device.add_columns(rows, &inputs[1], from, to)?,
                false => device.copy_columns(rows, &inputs[1], from, to)?,
            }
        }
        Ok(())
    }
}

impl Project {
    /// The layers of `parts`, which stand side by side.
    pub fn new(parts: &[Projected], parameters: &Parameters) -> std::result::Result<Self, Error> {
        let (mut widths, mut unchanged, mut maps) = ([0, 0], Vec::new(), Vec::new());
        for part in parts {
            match part {
                Projected::Unchanged(width) => unchanged.push((widths[0], widths[1], *width)),
                Projected::Mapped(map) => maps.push((map, vec![widths])),
            }
            widths = [widths[0] + part.input_width(), widths[1] + part.output_width()];
        }
        Ok(Self {
            maps: Maps::new(widths, &maps, parameters)?,
            unchanged: both_ways(unchanged.into_iter()),
            output: parameters.buffer(),
        })
    }

    /// Fills [`Project::output`].
    pub fn forward(
        &mut self,
        device: &Device,
        parameters: &Parameters,
        rows: usize,
        input: &Buffer<f32>,
    ) -> Result {
        let Self { maps, unchanged, output } = self;
        let [from, to] = maps.widths;
        output.resize(rows * to)?;
        device.copy_columns(rows, &unchanged[0], matrix(input, from), matrix_mut(output, to))?;
        maps.forward(device, parameters, rows, input, output)
    }

    /// Takes the gradient of the output back through the maps of `range`. [`Back::input_gradient`] is complete after the call
    /// with map 0.
    pub fn backward(
        &mut self,
        device: &Device,
        parameters: &mut Parameters,
        rows: usize,
        back: Back<'_>,
        range: Range<usize>,
    ) -> Result {
        let Self { maps, unchanged, .. } = self;
        let Back { input, gradient, input_gradient } = back;
        let [to, from] = maps.widths;
        input_gradient.resize(rows * to)?;
        if range.start == 0 {
            let of_output = matrix(gradient, from);
            device.copy_columns(rows, &unchanged[1], of_output, matrix_mut(input_gradient, to))?;
        }
        let back = Back { input, gradient, input_gradient };
        maps.backward_part(device, parameters, rows, back, (range, false))
    }
}

/// Copies of columns, each given as (from, to, width), and the copies back.
fn both_ways(columns: impl Iterator<Item = (usize, usize, usize)>) -> [Vec<ColumnCopy>; 2] {
    let copies: Vec<ColumnCopy> = columns.map(|(from, to, width)| ColumnCopy { from, to, width }).collect();
    let turned = copies.iter().map(|c| ColumnCopy { from: c.to, to: c.from, width: c.width }).collect();
    [copies, turned]
}

fn matrix(buffer: &Buffer<f32>, width: usize) -> Matrix<'_> {
    Matrix { buffer, at: 0, width }
}

fn matrix_mut(buffer: &mut Buffer<f32>, width: usize) -> MatrixMut<'_> {
    MatrixMut { buffer, at: 0, width }
}
