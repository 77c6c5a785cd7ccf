//! The layers of a model in the order of the forward pass.

use super::{Convention, Experts, Frozen, Layered, LayeredKind};

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
    /// Index of the layer in its class.
    pub index: usize,
    pub parameters: f64,
    /// FLOPs of the forward pass of a sample.
    pub flops: f64,
    /// FLOPs of a sample that do not come of parameters: the scores of attention.
    pub score_flops: f64,
    /// Floats of a sample that it gives.
    pub outputs: f64,
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
        match self.class {
            LayerClass::Bottom => frozen.bottom,
            LayerClass::Top => frozen.top,
            LayerClass::Attention | LayerClass::FeedForward => false,
        }
    }

    pub fn name(&self) -> &'static str {
        match self.class {
            LayerClass::Bottom => "bottom",
            LayerClass::Attention => "attention",
            LayerClass::FeedForward => "feed-forward",
            LayerClass::Top => "top",
        }
    }
}

impl Layered {
    /// All layers, first to last.
    pub(crate) fn layers(&self, convention: Convention) -> Vec<Layer> {
        let transformers = self.transformer.map_or(0, |transformer| transformer.layers);
        let mut layers = Vec::with_capacity(self.bottom_layers + self.top_layers + 2 * transformers);
        let width = self.mlp_dim as f64;
        let mlp = |class, index, total: f64, active: f64| Layer {
            class,
            index,
            parameters: width * width * total,
            flops: 2.0 * width * width * active,
            score_flops: 0.0,
            outputs: width,
            to_experts: None,
            from_experts: None,
        };
        layers.extend((0..self.bottom_layers).map(|i| mlp(LayerClass::Bottom, i, 1.0, 1.0)));
        self.push_transformer(&mut layers, convention);
        let experts = self.experts.filter(|_| self.kind == LayeredKind::DlrmMoe);
        let Experts { total, active } = experts.unwrap_or(Experts { total: 1.0, active: 1.0 });
        for i in 0..self.top_layers {
            // Experts are whole top MLPs: samples go to them before the first layer, and come back after the last.
            let travels = |at: bool| (experts.is_some() && at).then_some(width * active);
            let layer = mlp(LayerClass::Top, i, total, active);
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
        let (squares, matrices) = match convention {
            Convention::MadMax => (4.0, 2.0),
            Convention::Pooled => {
                let shared = transformer.kv_heads as f64 / transformer.heads.max(1) as f64;
                (2.0 + 2.0 * shared, if transformer.gated { 3.0 } else { 2.0 })
            }
        };
        let (attention, feed_forward) = (squares * dim * dim, matrices * dim * transformer.fc_dim);
        let causal = matches!(self.kind, LayeredKind::Llm | LayeredKind::LlmMoe);
        for index in 0..transformer.layers {
            layers.push(Layer {
                class: LayerClass::Attention,
                index,
                parameters: attention,
                flops: 2.0 * attention * sequence,
                // Scores and their sums of values: two products of sequence × sequence, of which a language model needs half.
                score_flops: if causal { 2.0 } else { 4.0 } * sequence * sequence * dim,
                outputs: sequence * dim,
                to_experts: None,
                from_experts: None,
            });
            let travels = experts.map(|_| sequence * dim * active);
            layers.push(Layer {
                class: LayerClass::FeedForward,
                index,
                parameters: feed_forward * total,
                flops: 2.0 * feed_forward * active * sequence,
                score_flops: 0.0,
                outputs: sequence * dim,
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
    pub(crate) fn looked_up(&self) -> f64 {
        let Some(sparse) = self.sparse else { return 0.0 };
        match self.has_large_tables() {
            true => sparse.tables * sparse.pooling * sparse.dim * self.embedding_bytes,
            // Every token's word and position.
            false => 2.0 * self.transformer.map_or(0.0, |t| t.sequence) * sparse.dim * self.embedding_bytes,
        }
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
