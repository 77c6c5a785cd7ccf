//! Table 6 of the DMT paper: towers of the partitioner (TP) against strided ones.
//!
//! A flat DLRM is trained once (its dot products are what teaches embeddings to have cosines), and its affinity on training rows
//! gives towers by both of TP's strategies. For each model one pilot run with each decides for the better ("we simply try both",
//! §3.3), by validation rows: a tenth of the training rows, which neither the flat DLRM nor a pilot trains on. Then the model is
//! trained on all training rows with TP's and with strided towers from the same other seeds; whether one of them is better on the
//! test rows is judged by the Mann-Whitney U test.

use crate::Report;
use crate::error::{Error, Failure, Result};
use campanile::records::Records;
use pages::text::{columns, median};
use planning::partitioner::Strategy;
use planning::statistics::{mann_whitney, standard_deviation};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use spec::affinity::Affinity;
use spec::presets::ModelKind;
use spec::towers::{Assignment, DcnOutput, Module, TowersFile};
use std::path::{Path, PathBuf};

/// Runs to train and compare, and the folder of results.
pub struct Request<'a> {
    /// Runs with each kind of towers.
    pub runs: u64,
    /// Strategies of the partitioner; of several, a pilot run with each decides.
    pub strategies: &'a [Strategy],
    /// Folder for the affinity, towers and results.
    pub out: &'a Path,
    /// Settings of the measurement. A folder with results of other settings is refused.
    pub settings: Value,
}

/// Trains models in towers, measures affinity and divides features, for one description of a model and its data.
pub trait TowerTrainer {
    /// Width of an embedding of the model.
    fn dim(&self) -> usize;

    /// Trains one model and evaluates it. `title` is shown while it trains.
    fn train(&self, model: &TowerModel, title: &str) -> std::result::Result<Trained, Failure>;

    /// Trains a flat DLRM without the validation rows, and measures the affinity of its features on rows it was trained on.
    fn flat_affinity(&self) -> std::result::Result<Affinity, Failure>;

    /// Divides the features of a model of this kind into towers.
    fn divide(
        &self,
        kind: ModelKind,
        affinity: &Affinity,
        towers: usize,
        strategy: Strategy,
    ) -> std::result::Result<Division, Failure>;

    /// Writes a file as a whole.
    fn write(&self, path: &Path, text: &str) -> std::result::Result<(), Failure>;

    /// Tells people something that is no warning.
    fn note(&self, text: &str);
}

/// A model in towers that is trained and evaluated.
pub struct TowerModel {
    /// DLRM or DCN.
    pub kind: ModelKind,
    /// Features of each tower.
    pub towers: Assignment,
    /// Module over each tower.
    pub module: Module,
    /// Seed of the parameters.
    pub seed: u64,
    /// Rows that the model is evaluated on. With validation rows, it is not trained on them.
    pub evaluated_on: Rows,
}

/// The outcome of a run that was trained.
pub struct Trained {
    /// AUC of the evaluation; `None` where all labels are the same.
    pub auc: Option<f64>,
    /// Duration of the training, in seconds.
    pub seconds: f64,
    /// Digest of all parameters.
    pub parameters_sha256: Option<String>,
}

/// Features divided into towers.
pub struct Division {
    /// Names of features, tower by tower.
    pub towers: Vec<Vec<String>>,
    /// A drawing of the division, as SVG.
    pub picture: String,
}

/// A row of the paper's table.
struct Row {
    name: &'static str,
    kind: ModelKind,
    towers: usize,
    module: fn(usize) -> Module,
    /// Median AUC of TP's and of strided towers, and p, as the paper prints them.
    paper: (f64, f64, f64),
}

/// Both rows of the paper's table.
const ROWS: [Row; 2] = [
    Row {
        name: "DMT 8T-DCN",
        kind: ModelKind::Dcn,
        towers: 8,
        module: |dim| Module::Dcn { d: dim, rank: None, out: DcnOutput::Tower },
        paper: (0.8006, 0.8003, 0.0023),
    },
    Row {
        name: "DMT 16T-DLRM",
        kind: ModelKind::Dlrm,
        towers: 16,
        module: |dim| Module::Dlrm { c: 0, p: 1, d: dim },
        paper: (0.7990, 0.7981, 0.0006),
    },
];

/// Result of one run.
#[derive(Serialize, Deserialize)]
struct TableResult {
    model: String,
    towers: Towers,
    strategy: String,
    /// Seed of the run; 0 for pilots.
    seed: u64,
    auc: f64,
    /// Rows that the AUC is computed on. Results without this field used the test rows for pilots too.
    #[serde(default)]
    rows: Rows,
    seconds: f64,
    parameters_sha256: String,
    version: String,
}

/// Rows that an AUC is computed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rows {
    /// Validation rows, by which strategies are chosen.
    Validation,
    /// Test rows, by which the chosen towers are judged.
    #[default]
    Test,
}

/// Origin of the towers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Towers {
    Partitioner,
    Strided,
}

/// Names of the table's models and their numbers of towers.
pub fn models() -> impl Iterator<Item = (&'static str, usize)> {
    ROWS.iter().map(|row| (row.name, row.towers))
}

/// Compares the results that a folder holds.
pub fn report(folder: &Path) -> Result<Report> {
    let rows = compare(&Records::existing(folder).all()?);
    let json = Value::Array(rows.iter().map(Compared::to_json).collect());
    Ok(Report { text: table(&rows), json: json.to_string() })
}

/// Trains the runs that the folder lacks.
pub fn measure(request: &Request, trainer: &dyn TowerTrainer) -> Result<()> {
    let records = Records::open(request.out, &request.settings)?;
    if let Some(taken) = records.taken()? {
        trainer.note(&taken.to_string());
    }
    let lab = Lab { request, trainer, records };
    ROWS.iter().try_for_each(|row| lab.measure_row(row))
}

/// What all runs of a measurement share.
struct Lab<'a> {
    request: &'a Request<'a>,
    trainer: &'a dyn TowerTrainer,
    records: Records<TableResult>,
}

/// A run of a row: whose towers, by which strategy, from which seed.
struct Attempt<'a> {
    row: &'a Row,
    towers: Towers,
    strategy: Strategy,
    /// Seed of the run; 0 for pilots.
    seed: u64,
    assignment: Assignment,
}

impl Lab<'_> {
    fn measure_row(&self, row: &Row) -> Result<()> {
        let by_partitioner = |strategy, seed, assignment| {
            self.auc(Attempt { row, towers: Towers::Partitioner, strategy, seed, assignment })
        };
        let mut best: Option<(f64, Strategy, Assignment)> = None;
        let strategies = self.request.strategies;
        for &strategy in strategies {
            let towers = Assignment::Lists(self.towers(row, strategy)?);
            let auc = if strategies.len() > 1 { by_partitioner(strategy, 0, towers.clone())? } else { 0.0 };
            if best.as_ref().is_none_or(|best| auc > best.0) {
                best = Some((auc, strategy, towers));
            }
        }
        let (_, strategy, towers) = best.ok_or(Error::NoStrategy)?;
        for seed in 1..=self.request.runs {
            by_partitioner(strategy, seed, towers.clone())?;
            let (strategy, assignment) = (Strategy::Strided, Assignment::Strided(row.towers));
            self.auc(Attempt { row, towers: Towers::Strided, strategy, seed, assignment })?;
        }
        Ok(())
    }

    /// The AUC of one run, which is trained unless it is known.
    fn auc(&self, attempt: Attempt) -> Result<f64> {
        let Attempt { row, towers, strategy, seed, assignment } = attempt;
        let same = |r: &TableResult| {
            (r.model.as_str(), r.towers, r.strategy.as_str(), r.seed)
                == (row.name, towers, strategy.name(), seed)
        };
        if let Some(known) = self.records.all()?.into_iter().find(same) {
            return Ok(known.auc);
        }
        let which = if seed == 0 { "pilot".into() } else { format!("{seed}/{}", self.request.runs) };
        let title = format!("{} {} {which}", row.name, strategy.name());
        let model = TowerModel {
            kind: row.kind,
            towers: assignment,
            module: (row.module)(self.trainer.dim()),
            seed,
            evaluated_on: if seed == 0 { Rows::Validation } else { Rows::Test },
        };
        let trained = self.trainer.train(&model, &title).map_err(Error::Program)?;
        let auc = trained.auc.ok_or(Error::NoAuc)?;
        self.records.append(&TableResult {
            model: row.name.into(),
            towers,
            strategy: strategy.name().into(),
            seed,
            auc,
            rows: model.evaluated_on,
            seconds: trained.seconds,
            parameters_sha256: trained.parameters_sha256.unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION").into(),
        })?;
        Ok(auc)
    }

    /// TP's towers for the model of a row; those of an earlier measurement where they are in the folder.
    fn towers(&self, row: &Row, strategy: Strategy) -> Result<Vec<Vec<String>>> {
        let file = self.request.out.join(format!("{}-{}.json", row.towers, strategy.name()));
        if let Ok(text) = std::fs::read_to_string(&file) {
            let file: TowersFile =
                serde_json::from_str(&text).map_err(Error::json(file.display().to_string()))?;
            return Ok(file.towers);
        }
        let affinity = self.flat_affinity()?;
        let divided = self.trainer.divide(row.kind, &affinity, row.towers, strategy);
        let Division { towers, picture } = divided.map_err(Error::Program)?;
        self.trainer.write(&file.with_extension("svg"), &picture).map_err(Error::Program)?;
        let text = serde_json::to_string_pretty(&TowersFile { towers: towers.clone() });
        self.write(file, text)?;
        Ok(towers)
    }

    /// The affinity of a flat DLRM; that of an earlier measurement where it is in the folder.
    fn flat_affinity(&self) -> Result<Affinity> {
        let file = self.request.out.join("affinity.json");
        if let Ok(text) = std::fs::read(&file) {
            return serde_json::from_slice(&text).map_err(Error::json(file.display().to_string()));
        }
        let affinity = self.trainer.flat_affinity().map_err(Error::Program)?;
        self.write(file, serde_json::to_string(&affinity))?;
        Ok(affinity)
    }

    /// Writes JSON and the end of its last line.
    fn write(&self, file: PathBuf, json: serde_json::Result<String>) -> Result<()> {
        let text = json.map_err(Error::json(file.display().to_string()))? + "\n";
        self.trainer.write(&file, &text).map_err(Error::Program)
    }
}

/// Results of a row's runs.
struct Compared {
    row: &'static Row,
    /// Strategy of TP that the pilots decided for.
    strategy: String,
    /// AUC of every pilot, by strategy.
    pilots: Vec<(String, f64)>,
    /// Rows by which the strategy was chosen.
    chosen_by: Rows,
    /// AUC of every run with TP's towers.
    partitioner: Vec<f64>,
    /// AUC of every run with strided towers.
    strided: Vec<f64>,
}

fn compare(records: &[TableResult]) -> Vec<Compared> {
    let of_row = |row: &'static Row| {
        let own = || records.iter().filter(move |record| record.model == row.name);
        let aucs =
            |towers: Towers| own().filter(|r| r.towers == towers && r.seed > 0).map(|r| r.auc).collect();
        let strategy = own().find(|record| record.towers == Towers::Partitioner && record.seed > 0)?;
        Some(Compared {
            row,
            strategy: strategy.strategy.clone(),
            chosen_by: own().find(|record| record.seed == 0).map_or(Rows::Validation, |r| r.rows),
            pilots: own().filter(|record| record.seed == 0).map(|r| (r.strategy.clone(), r.auc)).collect(),
            partitioner: aucs(Towers::Partitioner),
            strided: aucs(Towers::Strided),
        })
    };
    ROWS.iter().filter_map(of_row).filter(|compared| !compared.strided.is_empty()).collect()
}

impl Compared {
    fn to_json(&self) -> Value {
        let (test, paper) = (mann_whitney(&self.partitioner, &self.strided), self.row.paper);
        let side = |aucs: &[f64]| json!({ "median": median(&mut aucs.to_vec()), "std": standard_deviation(aucs), "aucs": aucs });
        json!({
            "model": self.row.name,
            "strategy": self.strategy,
            "pilots": self.pilots,
            "pilots_of": self.chosen_by,
            "partitioner": side(&self.partitioner),
            "strided": side(&self.strided),
            "u": test.u,
            "p": test.p,
            "paper": { "partitioner": paper.0, "strided": paper.1, "p": paper.2 },
        })
    }
}

fn table(rows: &[Compared]) -> String {
    let head =
        ["model", "TP's strategy", "runs", "TP (std)", "strided (std)", "p", "paper: TP", "strided", "p"];
    let mut cells = vec![head.map(String::from).to_vec()];
    for Compared { row, strategy, partitioner, strided, .. } in rows {
        let side =
            |aucs: &[f64]| format!("{:.4} ({:.4})", median(&mut aucs.to_vec()), standard_deviation(aucs));
        let (tp, naive, p) = row.paper;
        cells.push(vec![
            row.name.to_string(),
            strategy.clone(),
            format!("{}+{}", partitioner.len(), strided.len()),
            side(partitioner),
            side(strided),
            format!("{:.5}", mann_whitney(partitioner, strided).p),
            format!("{tp:.4}"),
            format!("{naive:.4}"),
            format!("{p:.4}"),
        ]);
    }
    let chosen = match rows.iter().any(|row| row.chosen_by == Rows::Test) {
        true => "TP's strategy was chosen, and affinity measured, on the test rows: an older result",
        false => {
            "TP's strategy was chosen by validation rows, a tenth of the training rows, and affinity measured on training rows"
        }
    };
    format!(
        "Median AUC of models with the partitioner's towers and with strided ones; p of the Mann-Whitney U test\n{}{chosen}\n",
        columns(&cells)
    )
}

#[cfg(test)]
mod tests;
