//! Figures of papers that a simulator can redo: ours beside what the paper prints.
//!
//! Papers draw most of these as pictures; only what their text states in numbers can stand beside ours.

mod dmt;
mod layered;
mod madmax;
mod madmax_hardware;
mod neo;
mod wires;

use crate::Report;
use crate::error::{Error, Result};
use clap::{FromArgMatches, Subcommand};
use pages::picture::{Page, Picture, Table};
use pages::text::columns;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Figures that a simulator redoes.
#[derive(clap::Subcommand)]
pub enum Command {
    /// MAD-Max, Table 1: predictions against measurements of DLRM-A, DLRM-B and LLaMA, by its rules and by our cost model
    MadmaxTable1(Args),
    /// MAD-Max, Figure 3: parameters, FLOPs and lookups of models
    MadmaxFig3(Args),
    /// MAD-Max, Figure 4: communication of models, and how much of it computation hides
    MadmaxFig4(Args),
    /// MAD-Max, Figure 7: DLRM-A on 8 and 128 devices, serialised and overlapped
    MadmaxFig7(Args),
    /// MAD-Max, Figure 8: the best strategy of each model over FSDP, within memory and if memory were free
    MadmaxFig8(Args),
    /// MAD-Max, Figure 9: DLRM-A under every strategy of its dense layers
    MadmaxFig9(Args),
    /// MAD-Max, Figure 10: variants of DLRM-A under every strategy
    MadmaxFig10(Args),
    /// MAD-Max, Figure 11: throughput against memory of DLRM-A's variants
    MadmaxFig11(Args),
    /// MAD-Max, Figure 12: what strategies bring as contexts grow
    MadmaxFig12(Args),
    /// MAD-Max, Figure 13: DLRM-A on the next generation of devices
    MadmaxFig13(Args),
    /// MAD-Max, Figure 14: ten times the hardware, one capability at a time and all together
    MadmaxFig14(Args),
    /// MAD-Max, Figure 15: where the time of Figure 14's cases goes
    MadmaxFig15(Args),
    /// DMT, Figure 6: the distribution of step times over all strategies of the DLRM's dense part on 64 A100
    DmtFig6(Args),
    /// DMT, Figure 10: speedup of DMT over the flat dataflow, by GPU and scale
    DmtFig10(Args),
    /// DMT, Figure 11: speedup of tower modules over SPTT alone, by GPU and scale
    DmtFig11(Args),
    /// DMT, Figure 12: speedup by compression ratio of the 8-tower DLRM
    DmtFig12(Args),
    /// DMT, Figure 13: where the time of a DCN goes on 64 H100, without and with DMT
    DmtFig13(Args),
    /// DMT, §5.3.1: the XLRM on 128 V100 and A100
    DmtXlrm(Args),
    /// DMT, §6: step times by the format of all that travels, FP8 among them, on 64 and 512 H100
    DmtWires(Args),
    /// DMT: step times by the algorithm that sums dense gradients, on 64 and 512 H100
    DmtAllReduces(Args),
    /// Neo, Figure 9: throughput of models A and I from 8 to 128 GPUs
    NeoFig9(Args),
    /// Neo, Figure 10: model A serialised and exposed, on 8 and 128 GPUs
    NeoFig10(Args),
    /// Neo, Figure 11: what halved precision, quantised collectives and larger batches bring to model A
    NeoFig11(Args),
    /// Neo, §8.5: memory of the tables of model F by number format and optimizer
    NeoCapacity(Args),
    /// Neo, appendix B: the roofline of models A, F and I
    NeoRoofline(Args),
}

/// Arguments of every figure.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Also write it as a page that opens in any browser, with pictures of what can be drawn
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Replace output files that exist; inputs, checkpoints and files of runs are never replaced
    #[arg(long)]
    pub force: bool,
}

/// A figure of a paper, redone.
pub struct Figure {
    /// Paper, number and subject of the figure.
    pub title: &'static str,
    /// Numbers of the figure.
    pub rows: Vec<Row>,
    /// Sentences that a reader needs to interpret the numbers.
    pub notes: Vec<String>,
    /// Drawings of the numbers.
    pub pictures: Vec<Picture>,
}

/// One number of a figure.
pub struct Row {
    /// Model, cluster or strategy that the number belongs to.
    pub case: String,
    /// Quantity that the number measures, with its unit.
    pub quantity: String,
    /// Our number; NaN where the case has none.
    pub ours: f64,
    /// The number that the text of the paper prints.
    pub paper: Option<f64>,
    /// Remark on our number: a difference from the paper, or that it was fitted and not predicted.
    pub note: Option<&'static str>,
}

impl Row {
    /// A number without one of the paper beside it.
    pub fn new(case: impl Into<String>, quantity: impl Into<String>, ours: f64) -> Self {
        Self { case: case.into(), quantity: quantity.into(), ours, paper: None, note: None }
    }

    /// Sets the row beside the number that the paper prints.
    pub fn beside(self, paper: f64) -> Self {
        Self { paper: Some(paper), ..self }
    }

    /// Adds a remark on our number.
    pub fn noted(self, note: Option<&'static str>) -> Self {
        Self { note, ..self }
    }
}

impl Command {
    /// Arguments that every figure takes.
    pub fn args(&self) -> &Args {
        match self {
            Command::MadmaxTable1(args)
            | Command::MadmaxFig3(args)
            | Command::MadmaxFig4(args)
            | Command::MadmaxFig7(args)
            | Command::MadmaxFig8(args)
            | Command::MadmaxFig9(args)
            | Command::MadmaxFig10(args)
            | Command::MadmaxFig11(args)
            | Command::MadmaxFig12(args)
            | Command::MadmaxFig13(args)
            | Command::MadmaxFig14(args)
            | Command::MadmaxFig15(args)
            | Command::DmtFig6(args)
            | Command::DmtFig10(args)
            | Command::DmtFig11(args)
            | Command::DmtFig12(args)
            | Command::DmtFig13(args)
            | Command::DmtXlrm(args)
            | Command::DmtWires(args)
            | Command::DmtAllReduces(args)
            | Command::NeoFig9(args)
            | Command::NeoFig10(args)
            | Command::NeoFig11(args)
            | Command::NeoCapacity(args)
            | Command::NeoRoofline(args) => args,
        }
    }

    /// Redoes the figure.
    pub fn figure(&self) -> Result<Figure> {
        match self {
            Command::MadmaxTable1(_) => madmax::table1(),
            Command::MadmaxFig3(_) => madmax::fig3(),
            Command::MadmaxFig4(_) => madmax::fig4(),
            Command::MadmaxFig7(_) => madmax::fig7(),
            Command::MadmaxFig8(_) => madmax::fig8(),
            Command::MadmaxFig9(_) => madmax::fig9(),
            Command::MadmaxFig10(_) => madmax::fig10(),
            Command::MadmaxFig11(_) => madmax::fig11(),
            Command::MadmaxFig12(_) => madmax::fig12(),
            Command::MadmaxFig13(_) => madmax_hardware::fig13(),
            Command::MadmaxFig14(_) => madmax_hardware::fig14(),
            Command::MadmaxFig15(_) => madmax_hardware::fig15(),
            Command::DmtFig6(_) => dmt::fig6(),
            Command::DmtFig10(_) => dmt::fig10(),
            Command::DmtFig11(_) => dmt::fig11(),
            Command::DmtFig12(_) => dmt::fig12(),
            Command::DmtFig13(_) => dmt::fig13(),
            Command::DmtXlrm(_) => dmt::xlrm(),
            Command::DmtWires(_) => wires::wires(),
            Command::DmtAllReduces(_) => wires::all_reduces(),
            Command::NeoFig9(_) => neo::fig9(),
            Command::NeoFig10(_) => neo::fig10(),
            Command::NeoFig11(_) => neo::fig11(),
            Command::NeoCapacity(_) => Ok(neo::capacity()),
            Command::NeoRoofline(_) => neo::roofline(),
        }
    }
}

/// Names of all figures, as `reproduce` has them.
pub fn names() -> Vec<String> {
    let command = Command::augment_subcommands(clap::Command::new("figures"));
    command.get_subcommands().map(|figure| figure.get_name().to_owned()).collect()
}

impl Figure {
    /// Redoes the figure of this name.
    pub fn by_name(name: &str) -> Result<Self> {
        let command = Command::augment_subcommands(clap::Command::new("figures").no_binary_name(true));
        let parsed =
            command.try_get_matches_from([name]).and_then(|matches| Command::from_arg_matches(&matches));
        parsed.map_err(|_| Error::NoFigure(name.into()))?.figure()
    }

    fn cells(&self) -> Vec<Vec<String>> {
        let noted = self.rows.iter().any(|row| row.note.is_some());
        let mut head = ["case", "quantity", "ours", "paper", "ours / paper"].map(String::from).to_vec();
        head.extend(noted.then(|| "what ours is".into()));
        let rows = self.rows.iter().map(|row| {
            let ratio = row.paper.map(|paper| row.ours / paper);
            let mut cells = vec![
                row.case.clone(),
                row.quantity.clone(),
                number(row.ours),
                row.paper.map_or("–".into(), number),
                ratio.map_or("–".into(), |ratio| format!("{ratio:.3}")),
            ];
            cells.extend(noted.then(|| row.note.unwrap_or("–").into()));
            cells
        });
        std::iter::once(head).chain(rows).collect()
    }

    /// The figure as text and as JSON.
    pub fn report(&self) -> Report {
        Report { text: self.to_text(), json: self.to_json().to_string() }
    }

    fn to_text(&self) -> String {
        let mut text = format!("{}\n\n{}", self.title, columns(&self.cells()));
        for note in &self.notes {
            text.push_str(&format!("\n{note}\n"));
        }
        text
    }

    fn to_json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "case": row.case,
                "quantity": row.quantity,
                "ours": row.ours,
                "paper": row.paper,
                "note": row.note,
            })
        });
        json!({ "title": self.title, "rows": rows.collect::<Vec<_>>(), "notes": self.notes })
    }

    /// The figure as a page: its pictures, and a table of all numbers.
    pub fn page(&self) -> Page {
        let mut cells = self.cells();
        let head = cells.remove(0);
        let table = Table { caption: "Ours beside what the paper prints".into(), head, rows: cells };
        let mut pictures = self.pictures.clone();
        pictures.push(Picture::Table(table));
        Page { title: self.title.into(), subtitle: self.notes.join(" "), pictures }
    }
}

/// A number with as many digits as its size needs; a dash where there is none.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        none if none.is_nan() => "–".into(),
        large if large >= 1000.0 => format!("{value:.0}"),
        medium if medium >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
