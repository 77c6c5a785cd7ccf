//! Neo's scaling, its breakdown, its optimisations and its roofline.

use super::layered::Setting;
use super::madmax::breakdown;
use super::{Figure, Row};
use crate::error::Result;
use pages::picture::{Curves, Picture};
use planning::cost::CostKind;
use planning::workload::{Parallel, Strategy};
use spec::optimizer::UpdateRule;
use spec::table_format::TableFormat;

/// Model A as Neo describes it, and model I, which MAD-Max calls DLRM-B; samples a device.
const MODELS: [(&str, &str, f64); 2] = [("model A", "neo-a", 512.0), ("model I", "dlrm-b", 2048.0)];

fn ours(model: &str, devices: usize, batch: f64) -> Result<super::layered::Outcome> {
    let setting = Setting::new(model, &format!("zionex:{devices}"), batch)?.with_cost(CostKind::Hierarchical);
    setting.with(&Strategy::flat(Parallel::Ddp, &setting.system))
}

/// Figure 9: throughput relative to one node.
pub fn fig9() -> Result<Figure> {
    let (mut rows, mut curves) = (Vec::new(), Vec::new());
    for ((name, model, batch), printed) in MODELS.into_iter().zip([50.0, 75.0]) {
        let one = ours(model, 8, batch)?.throughput();
        let mut curve = Vec::new();
        for devices in [8usize, 16, 32, 64, 128] {
            let speedup = ours(model, devices, batch)?.throughput() / one;
            let efficiency = 100.0 * speedup * 8.0 / devices as f64;
            let row = Row::new(name, format!("scaling efficiency on {devices} GPUs, %"), efficiency);
            rows.push(if devices == 128 { row.beside(printed) } else { row });
            curve.push((devices as f64, speedup));
        }
        curves.push((name.to_string(), curve));
    }
    let picture = Picture::Curves(Curves {
        caption: "Throughput relative to 8 GPUs".into(),
        x_label: "GPUs".into(),
        y_label: "speedup".into(),
        curves,
        markers: Vec::new(),
    });
    let notes = vec![
        "The paper's text says \"around 50 % for model-A and around 75 % for model-I\" on larger node counts. Tables are whole \
         and balanced here; Neo's mixed dimensions are not."
            .into(),
    ];
    Ok(Figure { title: "Neo, Figure 9: scaling", rows, notes, pictures: vec![picture] })
}

/// Figure 10: serialised and exposed times of model A.
pub fn fig10() -> Result<Figure> {
    let mut rows = Vec::new();
    for devices in [8, 128] {
        rows.extend(breakdown(&format!("{devices} GPUs"), &ours("neo-a", devices, 512.0)?));
    }
    let notes = vec!["The paper draws bars without numbers. Copies from hosts are hidden, as there.".into()];
    Ok(Figure { title: "Neo, Figure 10: model A, serialised and exposed", rows, notes, pictures: Vec::new() })
}

/// Figure 11: speedup by each optimisation.
pub fn fig11() -> Result<Figure> {
    let mut rows = Vec::new();
    // In single precision everything is twice as wide, on the wire too.
    let run = |bytes: f64, batch: f64| -> Result<f64> {
        let mut setting = Setting::new("neo-a", "zionex:128", batch)?.with_cost(CostKind::Hierarchical);
        setting.model.embedding_bytes = bytes;
        Ok(setting.with(&Strategy::flat(Parallel::Ddp, &setting.system))?.throughput() / 1e6)
    };
    let (single, half, large) = (run(4.0, 512.0)?, run(2.0, 512.0)?, run(2.0, 2048.0)?);
    rows.push(Row::new("balanced, single precision, batch 64K", "MQPS", single));
    rows.push(Row::new("half precision in tables and collectives", "MQPS", half).beside(1.2));
    rows.push(
        Row::new("half precision in tables and collectives", "× single precision", half / single).beside(1.3),
    );
    rows.push(Row::new("batch 256K", "MQPS", large).beside(1.5));
    let notes = vec![
        "Better sharding (+20 %) and the room that halved tables give to it (+20 %) are about load balance, which a model of \
         equal tables does not have: it begins where these end. Its next step (+30 %) is quantised collectives."
            .into(),
    ];
    Ok(Figure { title: "Neo, Figure 11: optimisations of model A", rows, notes, pictures: Vec::new() })
}

/// §8.5: what 12 T weights of model F take with their optimizer state.
pub fn capacity() -> Figure {
    const WEIGHTS: f64 = 12e12;
    const DIM: usize = 256;
    let (per_weight, per_row) = (UpdateRule::Adagrad { eps: 1e-8 }, UpdateRule::RowWiseAdagrad { eps: 1e-8 });
    let terabytes = |format: TableFormat, rule: &UpdateRule| {
        let row = format.row_bytes(DIM) + size_of::<f32>() * rule.state_per_row(DIM);
        WEIGHTS / DIM as f64 * row as f64 / 1e12
    };
    let row = |format: TableFormat, rule: &UpdateRule| {
        Row::new(
            format!("tables in {format}, {}", rule.name()),
            "weights and optimizer state, TB",
            terabytes(format, rule),
        )
    };
    let rows = vec![
        row(TableFormat::F32, &per_weight).beside(96.0),
        row(TableFormat::F32, &per_row),
        row(TableFormat::F16, &per_row).beside(24.0),
        row(TableFormat::Int8, &per_row),
    ];
    let notes = vec![
        "12·10¹² weights (Neo, Table 3) in rows of 256 (§8.5). Its footnote: 12·10¹² × 4 bytes × 2, the second for the state of each weight, is \
         96 TB. Row-wise Adagrad keeps one float for a row of 256, 4 bytes of 1024, and FP16 halves the weights: 24 TB and .19 TB of state, \
         which the paper rounds off. The 16 nodes have 4 TB of HBM and 24 TB of DRAM. int8 has a scale and a minimum for each row, 8 bytes."
            .into(),
    ];
    Figure { title: "Neo, §8.5: memory of model F", rows, notes, pictures: Vec::new() }
}

/// Appendix B: the upper bounds of Equation 1.
pub fn roofline() -> Result<Figure> {
    let mut rows = Vec::new();
    for (name, model, batch, achieved) in [
        ("model A", "neo-a", 512.0, 1.2),
        ("model I", "dlrm-b", 2048.0, 3.4),
        ("model F", "dlrm-f", 512.0, 1.7),
    ] {
        let setting = Setting::new(model, "zionex:128", batch)?.with_cost(CostKind::Roofline);
        let outcome = setting.with(&Strategy::flat(Parallel::Ddp, &setting.system))?;
        let bound = outcome.throughput() / 1e6;
        rows.push(Row::new(name, "bound, MQPS; achieved in the paper", bound).beside(achieved));
    }
    let notes = vec![
        "Neo's figures: 1300 GB/s of memory, 70.5 % of peak FLOP/s, 7 GB/s of all-to-all, 60 GB/s of all-reduce. It says that \
         model A is within 15 % of its bound. Model F keeps tables in the hosts' memory, which this bound does not know."
            .into(),
    ];
    Ok(Figure { title: "Neo, appendix B: roofline", rows, notes, pictures: Vec::new() })
}
