//! The models of MAD-Max's paper (its Table 2), and Neo's as Neo describes them.

use super::{Experts, Layered, LayeredKind, Sparse, Transformer, WorkloadError};

/// The names of all of them.
pub const NAMES: &str = "dlrm-a, dlrm-a-transformer, dlrm-a-moe, dlrm-b, dlrm-b-transformer, dlrm-b-moe, dlrm-f, neo-a, gpt-3, llama-65b, llama2-70b, llm-moe, vit-l, vit-10b";

impl Layered {
    /// A built-in model.
    pub fn named(name: &str) -> Result<Self, WorkloadError> {
        let (base, variant) = match name {
            "dlrm-a-transformer" | "dlrm-b-transformer" => (&name[..6], LayeredKind::DlrmTransformer),
            "dlrm-a-moe" | "dlrm-b-moe" => (&name[..6], LayeredKind::DlrmMoe),
            _ => (name, LayeredKind::Dlrm),
        };
        let mut model = match base {
            "dlrm-a" => recommender((10, 3994), [4096.0, 2.08e6, 94.0, 15.0]),
            "dlrm-b" => recommender((22, 826), [512.0, 7.05e6, 92.0, 70.0]),
            "dlrm-f" => recommender((4, 560), [64.0, 732e6, 256.0, 20.0]),
            // Neo's model A with its own width and pooling. Its Table 3 says "≈ 1000s" of tables; MAD-Max's 4096 cannot be
            // exchanged pooled at any bandwidth that Neo reports within its 54.6 ms a step. The number is inferred.
            "neo-a" => recommender((10, 3994), [1600.0, 5.33e6, 93.0, 15.0]),
            "gpt-3" => language((96, 96, 12288.0, 49152.0, 2048.0), 50257.0),
            "llama-65b" => gated(language((80, 64, 8192.0, 22016.0, 2048.0), 32000.0)),
            "llama2-70b" => {
                let mut model = gated(language((80, 64, 8192.0, 28672.0, 4096.0), 32000.0));
                model.transformer = model.transformer.map(|layers| Transformer { kv_heads: 8, ..layers });
                model
            }
            // 1.8 T parameters, 550 GFLOPs a token.
            "llm-moe" => {
                let model = language((96, 96, 12288.0, 46080.0, 8192.0), 50257.0);
                Self {
                    kind: LayeredKind::LlmMoe,
                    experts: Some(Experts { total: 16.0, active: 2.0 }),
                    ..model
                }
            }
            // Images of 224 × 224, in patches of 16 × 16 and 14 × 14.
            "vit-l" => vision((24, 16, 1024.0, 4096.0), 16.0),
            "vit-10b" => vision((32, 40, 5120.0, 20480.0), 14.0),
            _ => {
                return Err(WorkloadError::Unknown { what: "model", name: name.into(), known: NAMES });
            }
        };
        model.name = name.into();
        match variant {
            LayeredKind::DlrmTransformer => {
                // 2 GFLOPs a sample more, with 4 layers over 80 tokens.
                let (layers, heads, dim, fc_dim, sequence) = (4, 8, 512.0, 2048.0, 80.0);
                model.transformer =
                    Some(Transformer { layers, heads, dim, fc_dim, sequence, kv_heads: heads, gated: false });
                model.kind = variant;
            }
            LayeredKind::DlrmMoe => {
                model.experts = Some(Experts { total: 16.0, active: 2.0 });
                model.kind = variant;
            }
            _ => {}
        }
        Ok(model)
    }
}

/// As many bottom as top layers of a width; tables, their rows, width and pooling.
fn recommender((layers, mlp_dim): (usize, usize), [tables, rows, dim, pooling]: [f64; 4]) -> Layered {
    Layered {
        name: String::new(),
        kind: LayeredKind::Dlrm,
        dense_bytes: 4.0,
        embedding_bytes: 2.0,
        bottom_layers: layers,
        top_layers: layers,
        mlp_dim,
        sparse: Some(Sparse { tables, rows, dim, pooling }),
        experts: None,
        transformer: None,
    }
}

/// Layers, heads, widths and sequence of a transformer, and its vocabulary.
fn language(
    (layers, heads, dim, fc_dim, sequence): (usize, usize, f64, f64, f64),
    vocabulary: f64,
) -> Layered {
    Layered {
        name: String::new(),
        kind: LayeredKind::Llm,
        dense_bytes: 2.0,
        embedding_bytes: 2.0,
        bottom_layers: 0,
        top_layers: 0,
        mlp_dim: 0,
        sparse: Some(Sparse { tables: 1.0, rows: vocabulary, dim, pooling: 1.0 }),
        experts: None,
        transformer: Some(Transformer {
            layers,
            heads,
            kv_heads: heads,
            dim,
            fc_dim,
            sequence,
            gated: false,
        }),
    }
}

/// Layers, heads and widths of a transformer over patches of so many pixels a side.
fn vision((layers, heads, dim, fc_dim): (usize, usize, f64, f64), patch: f64) -> Layered {
    let patches = (224.0 / patch).powi(2);
    let model = language((layers, heads, dim, fc_dim, patches), 3.0 * patch * patch);
    Layered { kind: LayeredKind::Vit, ..model }
}

/// The same with a third matrix in its feed-forward layers.
fn gated(mut model: Layered) -> Layered {
    if let Some(transformer) = &mut model.transformer {
        transformer.gated = true;
    }
    model
}
