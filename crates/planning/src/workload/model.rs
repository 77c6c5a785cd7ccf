//! A model as MAD-Max's files describe one.

use super::WorkloadError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A model of layers that are all alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Layered {
    /// Name of the model.
    pub name: String,
    /// Kind of the model, with the shapes of its layers.
    pub kind: LayeredKind,
    /// Bytes of a parameter outside tables.
    pub dense_bytes: f64,
    /// Bytes of a parameter in tables.
    pub embedding_bytes: f64,
    /// Layers of the bottom MLP.
    pub bottom_layers: usize,
    /// Layers of the top MLP.
    pub top_layers: usize,
    /// Width of all of them.
    pub mlp_dim: usize,
    /// Tables. For language models one, whose rows are the vocabulary; for images one, which maps the numbers of a patch to a token.
    pub sparse: Option<Sparse>,
    /// Experts of top MLPs, or of feed-forward layers.
    pub experts: Option<Experts>,
    /// Transformer layers.
    pub transformer: Option<Transformer>,
}

/// Kind of a model that is only simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayeredKind {
    /// Tables, a bottom and a top MLP.
    Dlrm,
    /// DLRM with transformer layers between tables and MLPs.
    DlrmTransformer,
    /// DLRM with a mixture of experts as the top MLP.
    DlrmMoe,
    /// A language model.
    Llm,
    /// Language model with mixtures of experts as feed-forward layers.
    LlmMoe,
    /// A vision transformer.
    Vit,
}

/// Tables that are all alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sparse {
    /// Number of tables.
    pub tables: f64,
    /// Rows of each.
    pub rows: f64,
    /// Width of a row.
    pub dim: f64,
    /// Rows that a sample looks up in each.
    pub pooling: f64,
}

/// Experts, of which every sample or token sees some.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experts {
    /// Number of experts.
    pub total: f64,
    /// Number of experts that see a sample.
    pub active: f64,
}

/// Transformer layers that are all alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transformer {
    /// Number of layers.
    pub layers: usize,
    /// Heads of attention.
    pub heads: usize,
    /// Heads of keys and values: fewer where several queries share them, as in LLaMA 2's largest. MAD-Max's files cannot say so.
    pub kv_heads: usize,
    /// Width of a token.
    pub dim: f64,
    /// Width inside the feed-forward layer.
    pub fc_dim: f64,
    /// Tokens of a sample.
    pub sequence: f64,
    /// Whether a feed-forward layer has a third matrix, as LLaMA's has. MAD-Max's files cannot say so, and it counts two.
    pub gated: bool,
}

/// A model's file: MAD-Max's fields, in JSON or TOML.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The names are MAD-Max's.
pub struct ModelFile {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub bytes_per_nonemb_param: f64,
    pub bytes_per_emb_param: Option<f64>,
    pub num_bot_mlp_layers: Option<usize>,
    pub num_top_mlp_layers: Option<usize>,
    pub mlp_dim: Option<usize>,
    pub num_tables: Option<f64>,
    pub entries_per_table: Option<f64>,
    pub emb_dim: Option<f64>,
    pub pooling_size: Option<f64>,
    pub num_experts: Option<f64>,
    pub num_active_experts: Option<f64>,
    pub num_transformer_layers: Option<usize>,
    pub num_transformer_heads: Option<usize>,
    pub attention_dim: Option<f64>,
    pub transformer_fc_dim: Option<f64>,
    pub transformer_seq_len: Option<f64>,
    pub image_size: Option<f64>,
    pub patch_dim: Option<f64>,
}

impl Layered {
    /// Whether its tables are too large for one device to have them all.
    pub fn has_large_tables(&self) -> bool {
        matches!(self.kind, LayeredKind::Dlrm | LayeredKind::DlrmTransformer | LayeredKind::DlrmMoe)
    }

    /// Builds the model that a file describes.
    pub fn from_file(file: &ModelFile) -> Result<Self, WorkloadError> {
        let kind: LayeredKind = LayeredKind::parse(&file.kind)?;
        let fields = Fields { kind };
        let recommends =
            matches!(kind, LayeredKind::Dlrm | LayeredKind::DlrmTransformer | LayeredKind::DlrmMoe);
        let has_transformer = !matches!(kind, LayeredKind::Dlrm | LayeredKind::DlrmMoe);
        let has_vocabulary = kind != LayeredKind::Vit;
        let has_experts = matches!(kind, LayeredKind::DlrmMoe | LayeredKind::LlmMoe);
        let number = |field, value: Option<f64>, has: bool| fields.positive(field, value, has);
        let count = |field, value: Option<usize>, has: bool| {
            fields.positive(field, value.map(|value| value as f64), has).map(|value| value as usize)
        };
        let layers = |field, value: Option<usize>, has: bool| {
            let layers = count(field, value, has)?;
            let must = || format!("at most {MOST_LAYERS}");
            let refusal =
                || WorkloadError::Number { field: field.into(), value: layers as f64, must: must() };
            if layers <= MOST_LAYERS { Ok(layers) } else { Err(refusal()) }
        };
        let bottom_layers = layers("num_bot_mlp_layers", file.num_bot_mlp_layers, recommends)?;
        let top_layers = layers("num_top_mlp_layers", file.num_top_mlp_layers, recommends)?;
        let mlp_dim = count("mlp_dim", file.mlp_dim, recommends)?;
        let transformer = Transformer {
            layers: layers("num_transformer_layers", file.num_transformer_layers, has_transformer)?,
            heads: count("num_transformer_heads", file.num_transformer_heads, has_transformer)?,
            kv_heads: file.num_transformer_heads.unwrap_or(0),
            dim: number("attention_dim", file.attention_dim, has_transformer)?,
            fc_dim: number("transformer_fc_dim", file.transformer_fc_dim, has_transformer)?,
            sequence: sequence(file, &fields, has_transformer)?,
            gated: false,
        };
        let sparse = Sparse {
            // One table of tokens.
            tables: match recommends {
                true => number("num_tables", file.num_tables, true)?,
                false => fields.optional("num_tables", file.num_tables, 1.0)?,
            },
            rows: match has_vocabulary {
                true => number("entries_per_table", file.entries_per_table, true)?,
                // Numbers of a patch, in three colours.
                false => {
                    number("entries_per_table", file.entries_per_table, false)?;
                    3.0 * file.patch_dim.unwrap_or(0.0).powi(2)
                }
            },
            dim: match recommends {
                true => number("emb_dim", file.emb_dim, true)?,
                false => fields.optional("emb_dim", file.emb_dim, transformer.dim)?,
            },
            pooling: match recommends {
                true => number("pooling_size", file.pooling_size, true)?,
                false => 1.0,
            },
        };
        let experts = Experts {
            total: number("num_experts", file.num_experts, has_experts)?,
            active: number("num_active_experts", file.num_active_experts, has_experts)?,
        };
        if has_experts && experts.active > experts.total {
            let (active, total) = (experts.active, experts.total);
            let message = format!("num_active_experts is {active}, but num_experts only {total}");
            return Err(WorkloadError::Contradiction(message));
        }
        Ok(Self {
            name: file.name.clone(),
            kind,
            dense_bytes: number("bytes_per_nonemb_param", Some(file.bytes_per_nonemb_param), true)?,
            embedding_bytes: match has_vocabulary {
                true => number("bytes_per_emb_param", file.bytes_per_emb_param, true)?,
                false => fields.optional(
                    "bytes_per_emb_param",
                    file.bytes_per_emb_param,
                    file.bytes_per_nonemb_param,
                )?,
            },
            bottom_layers,
            top_layers,
            mlp_dim,
            sparse: Some(sparse),
            experts: has_experts.then_some(experts),
            transformer: has_transformer.then_some(transformer),
        })
    }
}

/// Number of tokens of a sample: of a text as the file says, of an image one for each patch. MAD-Max leaves the token of the class out.
fn sequence(file: &ModelFile, fields: &Fields, has_transformer: bool) -> Result<f64, WorkloadError> {
    let patches = fields.kind == LayeredKind::Vit;
    let image = fields.positive("image_size", file.image_size, patches)?;
    let patch = fields.positive("patch_dim", file.patch_dim, patches)?;
    if !patches {
        return fields.positive("transformer_seq_len", file.transformer_seq_len, has_transformer);
    }
    let side = image / patch;
    if !(1.0..=1e6).contains(&side) {
        let message = format!(
            "image_size is {image} and patch_dim {patch}: {side} patches a side; there must be 1 to 1e6"
        );
        return Err(WorkloadError::Contradiction(message));
    }
    Ok(side.floor().powi(2))
}

/// Layers of a kind that a model may have: more would be a mistake, and a long one.
const MOST_LAYERS: usize = 10_000;

/// Reads fields that a type of model has, and refuses those that it has not.
struct Fields {
    kind: LayeredKind,
}

impl Fields {
    /// A field that may be left out, or given as 0.
    fn optional(&self, field: &'static str, value: Option<f64>, default: f64) -> Result<f64, WorkloadError> {
        match value {
            None | Some(0.0) => Ok(default),
            value => self.positive(field, value, true),
        }
    }

    fn positive(&self, field: &'static str, value: Option<f64>, has: bool) -> Result<f64, WorkloadError> {
        let kind = self.kind.to_string();
        match (value, has) {
            (None, true) => Err(WorkloadError::Missing { field, kind }),
            // MAD-Max's files give a 0 for what a model has not.
            (None | Some(0.0), false) => Ok(0.0),
            (Some(_), false) => Err(WorkloadError::Superfluous { field, kind }),
            (Some(value), true) if value.is_finite() && value > 0.0 && value <= 1e15 => Ok(value),
            (Some(value), true) => Err(WorkloadError::Number {
                field: field.into(),
                value,
                must: "more than 0 and at most 1e15".into(),
            }),
        }
    }
}

impl LayeredKind {
    const KNOWN: &str = "dlrm, dlrm_transformer, dlrm_moe, llm, llm_moe and vit";

    /// The type that a file names; case, `-` and `_` do not matter.
    pub fn parse(name: &str) -> Result<Self, WorkloadError> {
        match name.to_ascii_lowercase().replace('-', "_").as_str() {
            "dlrm" => Ok(Self::Dlrm),
            "dlrm_transformer" => Ok(Self::DlrmTransformer),
            "dlrm_moe" => Ok(Self::DlrmMoe),
            "llm" => Ok(Self::Llm),
            "llm_moe" => Ok(Self::LlmMoe),
            "vit" => Ok(Self::Vit),
            _ => Err(WorkloadError::Unknown { what: "model type", name: name.into(), known: Self::KNOWN }),
        }
    }
}

impl fmt::Display for LayeredKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Dlrm => "dlrm",
            Self::DlrmTransformer => "dlrm_transformer",
            Self::DlrmMoe => "dlrm_moe",
            Self::Llm => "llm",
            Self::LlmMoe => "llm_moe",
            Self::Vit => "vit",
        })
    }
}
