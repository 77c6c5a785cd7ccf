//! The dense network of a model: layers composed, nothing else. No communication, no arithmetic of its own.

use crate::layers::dense::{CrossNet, Dot, Mlp, Parameters};
use kernels::{Buffer, Device, KernelError};
use spec::model::{self, Block};
use std::ops::Range;

type Result<T = ()> = std::result::Result<T, KernelError>;

/// Bottom MLP → interaction → top MLP.
#[derive(Debug)]
pub struct Network {
    /// Maps dense inputs to a vector.
    pub bottom: Mlp,
    interaction: Interaction,
    /// Maps the interaction to a logit.
    pub top: Mlp,
    /// All vectors of each sample, in feature order: the interaction's input.
    pub features: Buffer<f32>,
    /// Their gradient.
    pub dfeatures: Buffer<f32>,
}

#[derive(Debug)]
enum Interaction {
    Dot(Dot),
    Cross(CrossNet),
}

impl Interaction {
    fn output(&self) -> &Buffer<f32> {
        match self {
            Interaction::Dot(dot) => &dot.output,
            Interaction::Cross(cross) => cross.output(),
        }
    }
}

impl Network {
    /// Instantiates the layers of `network` over `parameters`.
    pub fn new(network: &model::Network, parameters: &Parameters) -> Self {
        let interaction = match &network.interaction {
            model::Interaction::Dot { vectors, dim } => {
                Interaction::Dot(Dot::new(parameters.space(), *vectors, *dim))
            }
            model::Interaction::Cross { width, layers } => {
                Interaction::Cross(CrossNet::new(*width, layers, parameters))
            }
        };
        Self {
            bottom: Mlp::new(&network.bottom, parameters),
            interaction,
            top: Mlp::new(&network.top, parameters),
            features: parameters.buffer(),
            dfeatures: parameters.buffer(),
        }
    }

    /// One block forward, for `rows` samples whose dense inputs are `dense`.
    pub fn forward(
        &mut self,
        device: &Device,
        parameters: &Parameters,
        block: Block,
        rows: usize,
        dense: &Buffer<f32>,
    ) -> Result {
        match (block, &mut self.interaction) {
            (Block::Bottom, _) => self.bottom.forward(device, parameters, rows, dense),
            (Block::Interaction, Interaction::Dot(dot)) => dot.forward(device, rows, &self.features),
            (Block::Interaction, Interaction::Cross(cross)) => {
                cross.forward(device, parameters, rows, &self.features)
            }
            (Block::Top, interaction) => self.top.forward(device, parameters, rows, interaction.output()),
            (Block::Towers, _) => unreachable!("towers stand in the dataflow, below the network"),
        }
    }

    /// Some layers of a block backward.
    pub fn backward(
        &mut self,
        device: &Device,
        parameters: &mut Parameters,
        block: Block,
        layers: Range<usize>,
        rows: usize,
        dense: &Buffer<f32>,
    ) -> Result {
        let Self { bottom, interaction, top, features, dfeatures } = self;
        match (block, interaction) {
            (Block::Bottom, _) => bottom.backward(device, parameters, rows, dense, layers),
            (Block::Interaction, Interaction::Dot(dot)) => {
                dot.backward(device, rows, features, &top.gradient, dfeatures)
            }
            (Block::Interaction, Interaction::Cross(cross)) => {
                cross.backward(device, parameters, rows, features, &mut top.gradient, dfeatures, layers)
            }
            (Block::Top, interaction) => top.backward(device, parameters, rows, interaction.output(), layers),
            (Block::Towers, _) => unreachable!("towers stand in the dataflow, below the network"),
        }
    }
}
