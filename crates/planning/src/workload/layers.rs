//! The layers of a model in the order of the forward pass.

use super::{Convention, Experts, Frozen, Job, LayerGroup, Layered, LayeredKind};
use crate::step::OperationName;
use std::borrow::Cow;

/// What a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayerClass {
    Bottom,
    Attention,
    FeedForward,
    Top,
}

/// A layer of a model that is only simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer {
    pub class: LayerClass,
    /// Class of layers whose strategy it has.
    pub group: LayerGroup,
    /// Index of the layer in its class.
    pub index: usize,
    pub parameters: f64,
    /// FLOPs of the forward pass of a sample.
    pub flops: f64,
    /// FLOPs of a sample that do not come of parameters: the scores of attention.
    pub score_flops: f64,
    /// Floats of a sample that it gives.
    pub outputs: f64,
    /// Floats of a sample that lie inside it, and that its backward pass needs beside its input.
    pub inside: f64,
    /// Floats of a sample that go to experts before it, and come back after it.
    pub to_experts: Option<f64>,
    pub from_experts: Option<f64>,
}

impl Layer {
    pub fn is_transformer(&self) -> bool {
        matches!(self.class, LayerClass::Attention | LayerClass::FeedForward)
    }

    /// Whether tensor parallelism sums activations after it: in MLPs after every second layer, since a layer cut by columns
    /// feeds one cut by rows.
    pub fn sums_activations(&self, backward: bool) -> bool {
        self.is_transformer() || (self.index % 2 == 1) != backward
    }

    /// Whether it stays as it is.
    pub fn is_frozen(&self, frozen: Frozen) -> bool {
        let class = match self.class {
            LayerClass::Bottom => frozen.bottom,
            LayerClass::Top => frozen.top,
            LayerClass::Attention | LayerClass::FeedForward => {
                frozen.transformer || frozen.transformer_from.is_some_and(|first| self.index >= first)
            }
        };
        class || (frozen.experts && self.group == LayerGroup::Experts)
    }

    /// Name of an operation on the layer.
    pub fn label(&self, action: &'static str) -> OperationName {
        OperationName { layer: Some((self.name(), self.index)), action: Cow::Borrowed(action) }
    }

    fn name(&self) -> &'static str {
        match self.class {
            LayerClass::Bottom => "bottom",
            LayerClass::Attention => "attention",
            LayerClass::FeedForward => "feed-forward",
            LayerClass::Top => "top",
        }
    }
}

impl Layered {
    /// Whether the model has layers of a class. Experts are its top MLP or its feed-forward layers, if it has any.
    pub fn has(&self, group: LayerGroup) -> bool {
        match group {
            LayerGroup::Bottom => self.bottom_layers > 0,
            LayerGroup::Top => self.top_layers > 0 && self.kind != LayeredKind::DlrmMoe,
            LayerGroup::Experts => self.experts.is_some(),
            LayerGroup::Transformer => self.transformer.is_some(),
            LayerGroup::Tables => self.sparse.is_some(),
        }
    }

    /// All layers, first to last.
    pub(crate) fn layers(&self, convention: Convention) -> Vec<Layer> {
        let transformers = self.transformer.map_or(0, |transformer| transformer.layers);
        let mut layers = Vec::with_capacity(self.bottom_layers + self.top_layers + 2 * transformers);
        let width = self.mlp_dim as f64;
        let mlp = |class, group, index, total: f64, active: f64| Layer {
            class,
            group,
            index,
            parameters: width * width * total,
            flops: 2.0 * width * width * active,
            score_flops: 0.0,
            outputs: width,
            inside: 0.0,
            to_experts: None,
            from_experts: None,
        };
        let bottom = |i| mlp(LayerClass::Bottom, LayerGroup::Bottom, i, 1.0, 1.0);
        layers.extend((0..self.bottom_layers).map(bottom));
        self.push_transformer(&mut layers, convention);
        let experts = self.experts.filter(|_| self.kind == LayeredKind::DlrmMoe);
        let Experts { total, active } = experts.unwrap_or(Experts { total: 1.0, active: 1.0 });
        for i in 0..self.top_layers {
            // Experts are whole top MLPs: samples go to them before the first layer, and come back after the last.
            let travels = |at: bool| (experts.is_some() && at).then_some(width * active);
            let group = if experts.is_some() { LayerGroup::Experts } else { LayerGroup::Top };
            let layer = mlp(LayerClass::Top, group, i, total, active);
            layers.push(Layer {
                to_experts: travels(i == 0),
                from_experts: travels(i + 1 == self.top_layers),
                ..layer
            });
        }
        layers
    }

    fn push_transformer(&self, layers: &mut Vec<Layer>, convention: Convention) {
        let Some(transformer) = self.transformer else { return };
        let experts = self.experts.filter(|_| self.kind == LayeredKind::LlmMoe);
        let Experts { total, active } = experts.unwrap_or(Experts { total: 1.0, active: 1.0 });
        let (dim, sequence) = (transformer.dim, transformer.sequence);
        // Queries and outputs are as wide as a token, keys and values as their heads; MAD-Max takes all to be alike.
        let shared = transformer.kv_heads as f64 / transformer.heads.max(1) as f64;
        let (squares, matrices) = match convention {
            Convention::MadMax => (4.0, 2.0),
            Convention::Pooled => (2.0 + 2.0 * shared, if transformer.gated { 3.0 } else { 2.0 }),
        };
        let (attention, feed_forward) = (squares * dim * dim, matrices * dim * transformer.fc_dim);
        let causal = matches!(self.kind, LayeredKind::Llm | LayeredKind::LlmMoe);
        for index in 0..transformer.layers {
            layers.push(Layer {
                class: LayerClass::Attention,
                group: LayerGroup::Transformer,
                index,
                parameters: attention,
                flops: 2.0 * attention * sequence,
                // Scores and their sums of values: two products of sequence × sequence, of which a language model needs half.
                score_flops: if causal { 2.0 } else { 4.0 } * sequence * sequence * dim,
                outputs: sequence * dim,
                // The normalised input, queries, keys, values, and the values that attention adds up. Scores are not kept.
                inside: sequence * dim * (3.0 + 2.0 * shared),
                to_experts: None,
                from_experts: None,
            });
            let travels = experts.map(|_| sequence * dim * active);
            layers.push(Layer {
                class: LayerClass::FeedForward,
                group: if experts.is_some() { LayerGroup::Experts } else { LayerGroup::Transformer },
                index,
                parameters: feed_forward * total,
                flops: 2.0 * feed_forward * active * sequence,
                score_flops: 0.0,
                outputs: sequence * dim,
                // The normalised input, at every expert; before and after the activation function, and the gate.
                inside: sequence * active * (dim + matrices * transformer.fc_dim),
                to_experts: travels,
                from_experts: travels,
            });
        }
    }

    /// Parameters of tables; of words and their positions in a language model.
    pub fn table_parameters(&self) -> f64 {
        let positions =
            if self.has_large_tables() { 0.0 } else { self.transformer.map_or(0.0, |t| t.sequence) };
        self.sparse.map_or(0.0, |sparse| sparse.tables * (sparse.rows + positions) * sparse.dim)
    }

    /// All other parameters.
    pub fn dense_parameters(&self) -> f64 {
        self.layers(Convention::Pooled).iter().map(|layer| layer.parameters).sum()
    }

    /// FLOPs of a sample in the forward pass, as MAD-Max counts them.
    pub fn forward_flops(&self) -> f64 {
        self.layers(Convention::MadMax).iter().map(|layer| layer.flops).sum()
    }

    /// Bytes that a sample looks up.
    pub fn looked_up(&self) -> f64 {
        let Some(sparse) = self.sparse else { return 0.0 };
        match self.has_large_tables() {
            true => sparse.tables * sparse.pooling * sparse.dim * self.embedding_bytes,
            // Every token's word and position; of images every patch and its position.
            false => 2.0 * self.transformer.map_or(0.0, |t| t.sequence) * sparse.dim * self.embedding_bytes,
        }
    }

    /// Bytes of the gradient of a device's whole tables, where these are replicated.
    pub(crate) fn replicated_gradient(&self, job: &Job) -> f64 {
        self.table_parameters() * self.embedding_bytes / job.strategies.embedding.shards() as f64
    }

    /// Bytes of a sample's pooled vectors.
    pub(crate) fn pooled(&self) -> f64 {
        let Some(sparse) = self.sparse else { return 0.0 };
        match self.has_large_tables() {
            true => sparse.tables * sparse.dim * self.embedding_bytes,
            false => self.transformer.map_or(0.0, |t| t.sequence) * sparse.dim * self.embedding_bytes,
        }
    }
}
