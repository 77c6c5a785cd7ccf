//! What plans are worth: step times of a skewed model, and how near searches come to their lower bound.

use super::Sources;
use crate::error::{Error, Result};
use crate::plan_speedup;
use pages::markdown::table;
use planning::cost::Hierarchical;
use planning::planner::{self, MemoryLimit, Request, Search};
use planning::system::System;
use serde::Deserialize;
use spec::feature::{Feature, Hotness};
use spec::model::{Architecture, Model};
use spec::placement::{Placement, Scheme};
use spec::random::RandomSequence;
use spec::topology::Topology;

/// What `reproduce plan-speedup --json` prints.
#[derive(Deserialize)]
struct Report {
    rows: Vec<Row>,
    correlation_in_process: Option<f64>,
    correlation_on_cluster: Option<f64>,
}

#[derive(Deserialize)]
struct Row {
    world: String,
    placement: String,
    jobs: usize,
    step_ms: f64,
    speedup: Option<f64>,
    imbalance: f64,
    predicted_imbalance: f64,
    network_bytes: u64,
    ranks: Ranks,
}

#[derive(Deserialize)]
struct Ranks {
    schemes: Vec<(String, usize)>,
}

/// Step times of a plan and of tables that are dealt out in turns.
pub fn speedup(sources: &Sources) -> Result<String> {
    const FOLDER: &str = "plan-speedup";
    let report = plan_speedup::recorded(&sources.reports.join(FOLDER))?;
    let Report { rows, correlation_in_process, correlation_on_cluster } =
        serde_json::from_str(&report.json).map_err(Error::json(FOLDER))?;
    let cells = rows.iter().map(|row| {
        let schemes: Vec<String> =
            row.ranks.schemes.iter().map(|(name, count)| format!("{count} {name}")).collect();
        vec![
            row.world.replace('-', " "),
            row.placement.replace('-', " "),
            row.jobs.to_string(),
            format!("{:.1}", row.step_ms),
            row.speedup.map_or(String::new(), |speedup| format!("{speedup:.2}")),
            format!("{:.2}", row.imbalance),
            format!("{:.2}", row.predicted_imbalance),
            format!("{:.1}", row.network_bytes as f64 / 1e6),
            schemes.join(", "),
        ]
    });
    let head = [
        "ranks",
        "placement",
        "jobs",
        "ms a step",
        "speedup",
        "imbalance",
        "predicted",
        "MB between hosts",
        "schemes",
    ];
    let mut text = table(2, &head, &cells.collect::<Vec<_>>());
    let r = |value: Option<f64>| value.map_or("not measured".into(), |r| format!("{r:.3}"));
    text += &format!(
        "\nImbalance: the largest over the mean of the seconds that ranks compute for their tables, measured one rank after the other, and as the \
         planner predicts them. Correlation of both over the ranks of both placements: {} in process, {} on the cluster. Measured by \
         `campanile reproduce plan-speedup`; records: `reports/{FOLDER}/records.jsonl`, whose first line has all settings.\n",
        r(correlation_in_process),
        r(correlation_on_cluster)
    );
    Ok(text)
}

/// Plans of two published shapes by every search, beside their lower bounds.
pub fn searches() -> Result<String> {
    let system = System::named("zionex:128").map_err(|e| Error::Program(Box::new(e)))?;
    let cost = Hierarchical::default();
    let topology = Topology::new(16, 8).map_err(|e| Error::Program(Box::new(e)))?;
    let mut cells = Vec::new();
    for (name, model, bytes_per_rank) in [("DLRM-A", dlrm_a()?, 40 << 30), ("Model F", model_f()?, 400 << 30)]
    {
        for search in Search::ALL {
            let memory = Some(MemoryLimit { bytes_per_rank, reserve: MemoryLimit::RESERVE });
            let request =
                Request { memory, search, ..Request::new(&model, topology, 65_536, &system, &cost) };
            let plan = planner::plan(&request).map_err(|e| Error::Program(Box::new(e)))?;
            cells.push(vec![
                name.into(),
                search.to_string(),
                format!("{:.2}", 1e3 * plan.cost_s),
                format!("{:.4}", plan.bound_ratio()),
                format!("{:.3}", plan.imbalance()),
                schemes(&model, &plan.placement),
            ]);
        }
    }
    let head = ["shape", "search", "ms on the slowest rank", "over the bound", "imbalance", "schemes"];
    Ok(table(2, &head, &cells) + "\nComputed by the planner as this page is made.\n")
}

fn schemes(model: &Model, placement: &Placement) -> String {
    let count = |scheme: Scheme| {
        (0..model.features().len()).filter(|&feature| placement.scheme(feature) == scheme).count()
    };
    let named = Scheme::ALL.into_iter().map(|scheme| (scheme, count(scheme)));
    let there: Vec<String> =
        named.filter(|(_, count)| *count > 0).map(|(scheme, count)| format!("{count} {scheme}")).collect();
    there.join(", ")
}

/// 4,096 tables with 793 G parameters: dims of 4 to 384, rows and bags of Pareto's distribution (Neo, Table 3).
fn dlrm_a() -> Result<Model> {
    const PARAMETERS: f64 = 793e9;
    let [sizes, bags, dims] = ["sizes", "bags", "dims"].map(|name| RandomSequence::new(1, name));
    let pareto = |unit: f64, least: f64, exponent: f64, most: f64| {
        (least * (1.0 - unit).powf(-1.0 / exponent)).min(most)
    };
    let drawn = |i: u64| {
        let dim = (4.0 * 96f64.powf(dims.unit_f64(i))) as usize;
        let ids = pareto(bags.unit_f64(i), 3.0, 1.2, 200.0) as u32;
        (pareto(sizes.unit_f64(i), 1e5, 1.1, 1e9), dim.next_multiple_of(4), ids)
    };
    let tables: Vec<(f64, usize, u32)> = (0..4096).map(drawn).collect();
    let scale = PARAMETERS / tables.iter().map(|(rows, dim, _)| rows * *dim as f64).sum::<f64>();
    let table =
        |(i, (rows, dim, ids)): (usize, (f64, usize, u32))| table_of(i, (rows * scale) as usize, ids, dim);
    model(tables.into_iter().enumerate().map(table).collect(), 96)
}

/// 64 tables of 732 M rows of 256 columns, with bags of 20.
fn model_f() -> Result<Model> {
    model((0..64).map(|i| table_of(i, 732_000_000, 20, 256)).collect(), 256)
}

fn table_of(i: usize, rows: usize, mean: u32, dim: usize) -> Feature {
    let (name, hotness) = (format!("C{i}"), Hotness::Many { mean });
    Feature {
        name,
        rows,
        pooling: Default::default(),
        hotness,
        weighted: false,
        dim: Some(dim),
        format: None,
        cache: None,
        tt_rank: None,
    }
}

fn model(features: Vec<Feature>, dim: usize) -> Result<Model> {
    let architecture =
        Architecture::Dcn { bottom: Vec::new(), cross_layers: 1, cross_rank: Some(16), top: vec![16, 1] };
    Model::new(features, 0, dim, architecture).map_err(|e| Error::Program(Box::new(e)))
}
