//! The module of one tower: layers composed, no communication.
//!
//! ```text
//! projection (DMT, listing 1)   [x·Aᵀ + a | xᵢ·Eᵀ + e for each member i; E and e of the member's width]
//! cross (listing 2)             (x ⊙ (W·V·x + b) + x)·Mᵀ + m
//! ```

use crate::Error;
use crate::layers::dense::{Back, CrossNet, Linear, Maps, Parameters};
use kernels::{Buffer, ColumnCopy, Device, InputGradient, KernelError, Matrix, MatrixMut};
use spec::model::{self, TowerModule};

type Result<T = ()> = std::result::Result<T, KernelError>;

/// A tower module, what goes in and what comes out.
#[derive(Debug)]
pub struct Tower {
    /// Columns of the module's input.
    pub width: usize,
    /// Input of the module: samples × columns.
    pub input: Buffer<f32>,
    /// Gradient of the input.
    pub input_gradient: Buffer<f32>,
    /// Output of the module, in parts that stand side by side.
    pub outputs: Vec<TowerOutput>,
    layers: Layers,
}

/// Part of the output of a tower.
#[derive(Debug)]
pub struct TowerOutput {
    /// Number of columns.
    pub width: usize,
    /// Values of the columns: samples × columns.
    pub values: Buffer<f32>,
    /// Gradient of the values.
    pub gradient: Buffer<f32>,
}

#[derive(Debug)]
enum Layers {
    Projection { all: Option<Linear>, each: Option<Each> },
    Cross { cross: Box<CrossNet>, map: Option<Linear>, gradient: Buffer<f32> },
}

/// The map of each member.
#[derive(Debug)]
enum Each {
    /// All members are equally wide: side by side, they are so many rows of one map.
    Shared(Box<Linear>, usize),
    /// Members of several widths, with a map for each width.
    ByWidth(Box<Maps>),
}

/// A gradient that replaces what was there, or adds to it.
const SET: InputGradient = InputGradient { accumulate: false, relu: false };
const ADD: InputGradient = InputGradient { accumulate: true, relu: false };

impl Tower {
    /// The layers of `tower` over `parameters`; `None` where its vectors pass through.
    pub fn new(tower: &model::Tower, parameters: &Parameters) -> std::result::Result<Option<Self>, Error> {
        let named = |layer: &Option<model::LinearLayer>| {
            layer.as_ref().map(|layer| Linear::named(layer, parameters)).transpose()
        };
        let width = tower.input_width();
        let (layers, widths) = match &tower.module {
            TowerModule::PassThrough => return Ok(None),
            TowerModule::Projection { all, each } => {
                let members = tower.members.len();
                let widths = [all.as_ref().map(|l| l.outputs), each.first().map(|l| l.outputs * members)];
                let (all, each) = (named(all)?, Each::new(tower, each, parameters)?);
                (Layers::Projection { all, each }, widths.into_iter().flatten().collect())
            }
            TowerModule::Cross { layer, map } => {
                let mut cross = Box::new(CrossNet::new(width, std::slice::from_ref(layer), parameters)?);
                let map = named(map)?;
                cross.keeps_output = map.is_some();
                (Layers::Cross { cross, map, gradient: parameters.buffer() }, vec![tower.output_width()])
            }
        };
        let output =
            |width| TowerOutput { width, values: parameters.buffer(), gradient: parameters.buffer() };
        let outputs = widths.into_iter().map(output).collect();
        let (input, input_gradient) = (parameters.buffer(), parameters.buffer());
        Ok(Some(Self { width, input, input_gradient, outputs, layers }))
    }

    /// Fills the parts of the output, for `rows` samples.
    pub fn forward(&mut self, device: &Device, parameters: &Parameters, rows: usize) -> Result {
        let Self { width, input, outputs, layers, .. } = self;
        match layers {
            Layers::Projection { all, each } => {
                if let (Some(all), Some(output)) = (all, outputs.first_mut()) {
                    all.forward(device, parameters, rows, input, &mut output.values)?;
                }
                if let (Some(each), Some(output)) = (each, outputs.last_mut()) {
                    match each {
                        Each::Shared(map, members) => {
                            map.forward(device, parameters, rows * *members, input, &mut output.values)?
                        }
                        Each::ByWidth(maps) => {
                            output.values.resize(rows * output.width)?;
                            maps.forward(device, parameters, rows, input, &mut output.values)?;
                        }
                    }
                }
            }
            Layers::Cross { cross, map, .. } => {
                cross.forward(device, parameters, rows, input)?;
                let values = &mut outputs[0].values;
                match map {
                    Some(map) => map.forward(device, parameters, rows, cross.output(), values)?,
                    None => {
                        let width = *width;
                        let whole = ColumnCopy { from: 0, to: 0, width };
                        values.resize(rows * width)?;
                        device.copy_columns(
                            rows,
                            &[whole],
                            Matrix { buffer: cross.output(), at: 0, width },
                            MatrixMut { buffer: values, at: 0, width },
                        )?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the gradients of the parts of the output back to those of the input and of the parameters.
    pub fn backward(&mut self, device: &Device, parameters: &mut Parameters, rows: usize) -> Result {
        let Self { width, input, input_gradient, outputs, layers } = self;
        input_gradient.resize(rows * *width)?;
        match layers {
            Layers::Projection { all, each } => {
                if let (Some(all), Some(output)) = (&all, outputs.first()) {
                    let dx = Some((&mut *input_gradient, SET));
                    all.backward(device, parameters, rows, input, &output.gradient, dx)?;
                }
                let added = all.is_some();
                match (each, outputs.last_mut()) {
                    (Some(Each::Shared(map, members)), Some(output)) => {
                        let dx = Some((input_gradient, if added { ADD } else { SET }));
                        map.backward(device, parameters, rows * *members, input, &output.gradient, dx)?;
                    }
                    (Some(Each::ByWidth(maps)), Some(output)) => {
                        let back = Back { input, gradient: &mut output.gradient, input_gradient };
                        maps.backward(device, parameters, rows, back, added)?;
                    }
                    (None, _) | (_, None) => {}
                }
            }
            Layers::Cross { cross, map, gradient } => {
                let output = &mut outputs[0];
                match map {
                    Some(map) => {
                        gradient.resize_rows(device.keeps(*width), rows, *width)?;
                        let dx = Some((&mut *gradient, SET));
                        map.backward(device, parameters, rows, cross.output(), &output.gradient, dx)?;
                    }
                    None => std::mem::swap(gradient, &mut output.gradient),
                }
                let back = Back { input, gradient, input_gradient };
                cross.backward(device, parameters, rows, back, 0..1)?;
            }
        }
        Ok(())
    }
}

impl Each {
    /// The maps `each` of the members of `tower`; `None` where there are none.
    fn new(
        tower: &model::Tower,
        each: &[model::LinearLayer],
        parameters: &Parameters,
    ) -> std::result::Result<Option<Self>, Error> {
        let outputs = match each {
            [] => return Ok(None),
            [map] => {
                let map = Box::new(Linear::named(map, parameters)?);
                return Ok(Some(Each::Shared(map, tower.members.len())));
            }
            [first, ..] => first.outputs,
        };
        let mut start = 0;
        let mut maps: Vec<(&model::LinearLayer, Vec<[usize; 2]>)> =
            each.iter().map(|map| (map, Vec::new())).collect();
        for (i, member) in tower.members.iter().enumerate() {
            let width = member.columns.len();
            maps.iter_mut()
                .filter(|(map, _)| map.inputs == width)
                .for_each(|(_, vectors)| vectors.push([start, i * outputs]));
            start += width;
        }
        let widths = [start, outputs * tower.members.len()];
        Ok(Some(Each::ByWidth(Box::new(Maps::new(widths, &maps, parameters)?))))
    }
}
