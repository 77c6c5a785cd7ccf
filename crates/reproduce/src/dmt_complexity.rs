//! FLOPs, parameters and compression ratios of the DMT paper's models, beside its Tables 3, 4 and 5.
//!
//! ```text
//! model        table  MFlops  paper  parameters, G  paper  ratio  paper
//! DMT 8T-DLRM      4   8.953   8.95         22.778  22.78   2.00      –
//! ```
//!
//! Models are described as users describe them and built as the trainer builds them; the costs follow from their layers.

use crate::Report;
use crate::error::{During, Result};
use pages::text::columns;
use serde_json::{Value, json};
use spec::model::Model;
use spec::presets::{ModelKind, Preset};
use spec::run::ModelConfig;
use spec::towers::{Assignment, DcnOutput, Module};

/// A row of the paper: the description of its model, and the printed numbers.
struct Printed {
    table: u32,
    model: &'static str,
    kind: ModelKind,
    towers: Option<Assignment>,
    module: Module,
    mflops: f64,
    parameters_g: f64,
    compression_ratio: Option<f64>,
}

/// A row of the paper, and the numbers counted here.
struct Row {
    printed: Printed,
    mflops: f64,
    parameters_g: f64,
    compression_ratio: f64,
}

/// The rows of the paper.
fn printed() -> Vec<Printed> {
    use ModelKind::{Dcn, Dlrm};
    let each = Some(Assignment::Each);
    let strided = |towers| Some(Assignment::Strided(towers));
    let single = |d| Module::Dlrm { c: 1, p: 0, d };
    let crossed = Module::Dcn { d: 128, rank: None, out: DcnOutput::Tower };
    let row = |table, model, kind, towers, module, mflops, parameters_g| Printed {
        table,
        model,
        kind,
        towers,
        module,
        mflops,
        parameters_g,
        compression_ratio: None,
    };
    let compressed = |model, d, ratio, mflops| Printed {
        compression_ratio: Some(ratio),
        ..row(5, model, Dlrm, strided(8), single(d), mflops, 22.78)
    };
    vec![
        row(3, "DLRM", Dlrm, None, Module::None, 14.74, 22.78),
        row(3, "SPTT-DLRM", Dlrm, each.clone(), Module::None, 14.74, 22.78),
        row(3, "DCN", Dcn, None, Module::None, 96.22, 22.79),
        row(3, "SPTT-DCN", Dcn, each.clone(), Module::None, 96.22, 22.79),
        row(4, "DMT 2T-DLRM", Dlrm, strided(2), single(64), 8.95, 22.78),
        row(4, "DMT 4T-DLRM", Dlrm, strided(4), single(64), 8.95, 22.78),
        row(4, "DMT 8T-DLRM", Dlrm, strided(8), single(64), 8.95, 22.78),
        row(4, "DMT 16T-DLRM", Dlrm, strided(16), Module::Dlrm { c: 0, p: 1, d: 128 }, 8.75, 22.78),
        row(4, "DMT 26T-DLRM", Dlrm, each.clone(), single(64), 8.95, 22.78),
        row(4, "DMT 2T-DCN", Dcn, strided(2), crossed, 43.71, 22.81),
        row(4, "DMT 4T-DCN", Dcn, strided(4), crossed, 50.01, 22.79),
        row(4, "DMT 8T-DCN", Dcn, strided(8), crossed, 62.60, 22.81),
        row(4, "DMT 16T-DCN", Dcn, strided(16), crossed, 87.19, 22.79),
        row(4, "DMT 26T-DCN", Dcn, each, Module::None, 96.22, 22.79),
        compressed("DMT 8T-DLRM, D = 64", 64, 2.0, 8.95),
        compressed("DMT 8T-DLRM, D = 32", 32, 4.0, 7.93),
        compressed("DMT 8T-DLRM, D = 16", 16, 8.0, 7.41),
        compressed("DMT 8T-DLRM, D = 8", 8, 16.0, 7.16),
    ]
}

impl Printed {
    fn build(&self) -> Result<Model> {
        let config = ModelConfig {
            preset: Some(Preset::Terabyte),
            kind: Some(self.kind),
            towers: self.towers.clone(),
            tower_module: Some(self.module),
            ..ModelConfig::default()
        };
        config.check(None).during(|| self.model.to_string())
    }
}

fn rows() -> Result<Vec<Row>> {
    let row = |printed: Printed| {
        let model = printed.build()?;
        Ok(Row {
            mflops: model.training_flops() as f64 / 1e6,
            parameters_g: model.parameters() as f64 / 1e9,
            compression_ratio: model.compression_ratio(),
            printed,
        })
    };
    printed().into_iter().map(row).collect()
}

/// Counts what the models of Tables 3, 4 and 5 cost.
pub fn report() -> Result<Report> {
    let rows = rows()?;
    let json = Value::Array(rows.iter().map(Row::to_json).collect());
    Ok(Report { text: to_text(&rows), json: json.to_string() })
}

impl Printed {
    /// Property of the model that is inferred from its FLOPs and not printed in the paper, beside the widths of all layers.
    fn inferred(&self) -> Option<&'static str> {
        match self.module {
            Module::None => None,
            Module::Dlrm { .. } => Some("shorter top MLP"),
            Module::Dcn { .. } => Some("one vector a tower"),
        }
    }
}

impl Row {
    fn to_json(&self) -> Value {
        json!({
            "inferred": self.printed.inferred(),
            "table": self.printed.table,
            "model": self.printed.model,
            "mflops": self.mflops,
            "paper_mflops": self.printed.mflops,
            "parameters_g": self.parameters_g,
            "paper_parameters_g": self.printed.parameters_g,
            "compression_ratio": self.compression_ratio,
            "paper_compression_ratio": self.printed.compression_ratio,
        })
    }

    fn mflops_apart(&self) -> f64 {
        (self.mflops - self.printed.mflops).abs()
    }

    fn parameters_apart(&self) -> f64 {
        (self.parameters_g - self.printed.parameters_g).abs()
    }
}

fn to_text(rows: &[Row]) -> String {
    let head = [
        "model",
        "table",
        "MFlops",
        "paper",
        "parameters, G",
        "paper",
        "ratio",
        "paper",
        "inferred from FLOPs",
    ];
    let mut cells = vec![head.map(String::from).to_vec()];
    cells.extend(rows.iter().map(|row| {
        vec![
            row.printed.model.into(),
            row.printed.table.to_string(),
            format!("{:.3}", row.mflops),
            format!("{:.2}", row.printed.mflops),
            format!("{:.3}", row.parameters_g),
            format!("{:.2}", row.printed.parameters_g),
            format!("{:.2}", row.compression_ratio),
            row.printed.compression_ratio.map_or("–".into(), |ratio| format!("{ratio:.0}")),
            row.printed.inferred().unwrap_or("–").into(),
        ]
    }));
    format!(
        "DMT: what its models cost to train, a sample; N = 128, Criteo Terabyte\n\n{}\n\
         Largest differences: {} MFlops, {} G parameters.\n\
         {FOOTNOTE}",
        columns(&cells),
        largest(rows, Row::mflops_apart),
        largest(rows, Row::parameters_apart),
    )
}

/// The largest difference, and the name of its model.
fn largest(rows: &[Row], apart: fn(&Row) -> f64) -> String {
    let row = rows.iter().max_by(|a, b| apart(a).total_cmp(&apart(b)));
    row.map_or("none".into(), |row| format!("{:.3} ({})", apart(row), row.printed.model))
}

const FOOTNOTE: &str = "\
The paper has its FLOPs from a profiler, and prints neither widths of layers nor rows of tables: those used here, and what is
counted, were inferred from its figures. Counted are the matrix products of the forward pass and of both gradients, less the
gradient of the first layer's input; all dot products of a sample are one full product. Element-wise work is not counted,
which leaves the DCNs .03 to .06 below the paper. Tables have 177.94 M rows. A tower of one feature has no map where its output
is as long as its input. Ratio: columns into towers over columns out of them, as in Table 5; §4 has the inverse.
Shorter top MLP: over DLRM towers it has one layer of 1024 less than over the flat DLRM. The paper does not say so; only then do
the FLOPs agree. Without it 8T-DLRM would take 15.24 MFlops, more than the flat DLRM: part of DMT-DLRM's speedup is this layer.
One vector a tower: a DCN tower gives one vector of 128. The paper's listing 2 prints one for every feature, which its FLOPs do
not have.
";

#[cfg(test)]
mod tests;
