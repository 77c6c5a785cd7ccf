//! Layers with parameters: linear maps and cross layers.

use super::block::BlockName;
use crate::Activation;
use serde::Serialize;

/// Linear layer: `y = act(x·Wᵀ + b)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinearLayer {
    /// Prefix of the names of the layer's parameters.
    pub name: String,
    /// Input width.
    pub inputs: usize,
    /// Output width.
    pub outputs: usize,
    /// Function applied to the result of the linear map.
    pub activation: Activation,
    /// Whether the layer has a bias.
    pub bias: bool,
    /// Whether anything below needs the gradient of the layer's input.
    pub input_gradient: bool,
}

/// Cross layer of DCN-v2: `x ← x₀ ⊙ (W·(V·x) + b) + x`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CrossLayer {
    /// Matrix V, which maps down to the matrix rank, without bias; `None` for full rank.
    pub v: Option<LinearLayer>,
    /// Matrix W, which maps back to the width, with bias.
    pub w: LinearLayer,
    /// Name of the bias of W.
    pub bias: String,
}

/// Dense parameter: a tensor that training changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Name of the parameter, unique in the model.
    pub name: String,
    /// Block that owns the parameter, and index of the layer in the block.
    pub owner: (BlockName, usize),
    /// Shape of the tensor, row-major: outputs × inputs of a matrix, outputs of a bias.
    pub shape: Vec<usize>,
    /// Number of weights.
    pub len: usize,
    /// Bound of the initial weights, which are uniform between −`bound` and `bound`.
    pub bound: f32,
}

impl LinearLayer {
    /// A bare linear map with a bias.
    pub(super) fn map(name: String, inputs: usize, outputs: usize) -> Self {
        Self { name, inputs, outputs, activation: Activation::Identity, bias: true, input_gradient: true }
    }

    /// Matrix, then bias.
    pub(super) fn parameters(&self, owner: (BlockName, usize)) -> Vec<Parameter> {
        let mut all = vec![self.matrix(owner, format!("{}.weight", self.name))];
        if self.bias {
            let bound = 1.0 / (self.inputs as f32).sqrt();
            let (name, shape, len) = (format!("{}.bias", self.name), vec![self.outputs], self.outputs);
            all.push(Parameter { name, owner, shape, len, bound });
        }
        all
    }

    fn matrix(&self, owner: (BlockName, usize), name: String) -> Parameter {
        let (inputs, outputs) = (self.inputs, self.outputs);
        let bound = (6.0 / (inputs + outputs) as f32).sqrt();
        Parameter { name, owner, shape: vec![outputs, inputs], len: inputs * outputs, bound }
    }

    /// Number of weights of the matrix and the bias.
    pub fn weights(&self) -> u64 {
        (self.inputs * self.outputs + if self.bias { self.outputs } else { 0 }) as u64
    }

    /// FLOPs of the forward pass, per row.
    pub fn forward_flops(&self) -> u64 {
        2 * (self.inputs * self.outputs) as u64
    }

    /// FLOPs of one row backward: the gradient of the weights, and that of the input where it is needed.
    pub(super) fn backward_flops(&self) -> u64 {
        self.forward_flops() * (1 + u64::from(self.input_gradient))
    }
}

impl CrossLayer {
    /// A layer over `width` columns, of low or of full rank.
    pub(super) fn new(name: &str, width: usize, cross_rank: Option<usize>) -> Self {
        let linear = |part: &str, inputs, outputs, bias| LinearLayer {
            bias,
            ..LinearLayer::map(format!("{name}.{part}"), inputs, outputs)
        };
        let bias = format!("{name}.bias");
        match cross_rank {
            Some(rank) => {
                Self { v: Some(linear("v", width, rank, false)), w: linear("w", rank, width, true), bias }
            }
            None => Self { v: None, w: linear("w", width, width, true), bias },
        }
    }

    /// Matrices, then the bias, which begins at zero.
    pub(super) fn parameters(&self, owner: (BlockName, usize)) -> Vec<Parameter> {
        let mut all = Vec::new();
        all.extend(self.v.as_ref().map(|v| v.matrix(owner, v.name.clone())));
        all.push(self.w.matrix(owner, self.w.name.clone()));
        let width = self.w.outputs;
        all.push(Parameter { name: self.bias.clone(), owner, shape: vec![width], len: width, bound: 0.0 });
        all
    }

    /// Linear maps of the cross layer, in forward order.
    pub fn maps(&self) -> impl Iterator<Item = &LinearLayer> {
        self.v.iter().chain([&self.w])
    }

    /// Number of weights of the matrices and the bias.
    pub fn weights(&self) -> u64 {
        self.maps().map(LinearLayer::weights).sum()
    }

    /// FLOPs of the forward pass, per sample.
    pub fn forward_flops(&self) -> u64 {
        self.maps().map(LinearLayer::forward_flops).sum()
    }
}
