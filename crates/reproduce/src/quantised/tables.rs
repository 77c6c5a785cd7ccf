//! Rows of Tables 2 to 4 of Yang et al., 2020, with the paper's figures.

use serde::{Deserialize, Serialize};
use spec::program::Algorithm;

/// Table of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Table {
    /// Table 2: the all-to-all is quantised, dense gradients are reduced in f32.
    Alltoall,
    /// Table 3: the all-reduce is quantised, vectors travel in f32.
    Allreduce,
    /// Table 4: both are quantised.
    Combined,
}

/// Row of a table: what is quantised, and how.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Name of the row, as in the paper.
    pub name: &'static str,
    /// Formats of vectors and of their gradients.
    pub alltoall: Option<[&'static str; 2]>,
    /// Format of dense gradients, and the algorithm that reduces them.
    pub allreduce: Option<(&'static str, Algorithm)>,
    /// Change of test accuracy that the paper prints, in percent: for 32, 64 and 128 nodes, or once for all of them.
    pub paper: &'static [f64],
}

/// Numbers of nodes in the paper.
pub const NODES: [usize; 3] = [32, 64, 128];

/// Change of accuracy, in percent, that the paper accepts.
pub const ACCEPTED: f64 = -0.02;

use Algorithm::{RecursiveDoubling, Ring};

const fn alltoall(name: &'static str, formats: [&'static str; 2], paper: &'static [f64]) -> Row {
    Row { name, alltoall: Some(formats), allreduce: None, paper }
}

const fn allreduce(
    name: &'static str,
    format: &'static str,
    algorithm: Algorithm,
    paper: &'static [f64],
) -> Row {
    Row { name, alltoall: None, allreduce: Some((format, algorithm)), paper }
}

const fn with(formats: [&'static str; 2], row: Row) -> Row {
    Row { alltoall: Some(formats), ..row }
}

/// Table 2.
const ALLTOALL: [Row; 7] = [
    alltoall("forward u8, backward u8", ["u8", "u8"], &[0.00096]),
    alltoall("forward u8, backward u4", ["u8", "u4"], &[-0.00380]),
    alltoall("forward u4, backward u8", ["u4", "u8"], &[0.00571]),
    alltoall("forward u4, backward u4", ["u4", "u4"], &[-0.00222]),
    alltoall("forward u4, backward u2", ["u4", "u2"], &[0.01651]),
    alltoall("forward u2, backward u4", ["u2", "u4"], &[-0.05674]),
    alltoall("forward u2, backward u2", ["u2", "u2"], &[-0.06339]),
];

/// Table 3.
const ALLREDUCE: [Row; 8] = [
    allreduce("u8 ring", "u8", Ring, &[0.00222, -0.01332, -0.01997]),
    allreduce("u4 ring", "u4", Ring, &[-0.30503, -0.87948, -1.78011]),
    allreduce("u4 ring EC", "u4+ec-paper", Ring, &[-0.00603, -0.00571, -0.00380]),
    allreduce("u4 RD", "u4", RecursiveDoubling, &[-0.00031, 0.00191, -0.01585]),
    allreduce("u2 ring", "u2", Ring, &[-0.93560, -1.37794, -4.91551]),
    allreduce("u2 ring EC", "u2+ec-paper", Ring, &[-2.92281, -6.32555, -6.32555]),
    allreduce("u2 RD", "u2", RecursiveDoubling, &[-0.23143, -0.44602, -0.48192]),
    allreduce("u2 RD EC", "u2+ec-paper", RecursiveDoubling, &[-0.20638, -0.27524, -0.29675]),
];

/// Table 4.
const COMBINED: [Row; 6] = [
    with(["u4", "u4"], allreduce("u8 ring; (f4, b4)", "u8", Ring, &[0.00031, -0.01395, -0.02631])),
    with(
        ["u4", "u4"],
        allreduce("u4 ring EC; (f4, b4)", "u4+ec-paper", Ring, &[-0.01109, -0.00444, -0.00190]),
    ),
    with(
        ["u4", "u2"],
        allreduce("u4 ring EC; (f4, b2)", "u4+ec-paper", Ring, &[0.01902, -1.58532, -0.01553]),
    ),
    with(
        ["u4", "u4"],
        allreduce("u4 RD; (f4, b4)", "u4", RecursiveDoubling, &[-0.01458, -0.01226, -0.03678]),
    ),
    with(
        ["u4", "u4"],
        allreduce("u4 RD EC; (f4, b4)", "u4+ec-paper", RecursiveDoubling, &[-0.00950, -0.00666, -0.02473]),
    ),
    with(
        ["u4", "u2"],
        allreduce("u4 RD EC; (f4, b2)", "u4+ec-paper", RecursiveDoubling, &[-0.02409, -0.03170, -0.02874]),
    ),
];

impl Table {
    /// Rows of the table.
    pub fn rows(self) -> &'static [Row] {
        match self {
            Table::Alltoall => &ALLTOALL,
            Table::Allreduce => &ALLREDUCE,
            Table::Combined => &COMBINED,
        }
    }

    /// Title of the table.
    pub fn title(self) -> &'static str {
        match self {
            Table::Alltoall => "Quantised all-to-all, all-reduce in f32 (Table 2 of Yang et al., 2020)",
            Table::Allreduce => "Quantised all-reduce, all-to-all in f32 (Table 3 of Yang et al., 2020)",
            Table::Combined => "Quantised all-to-all and all-reduce (Table 4 of Yang et al., 2020)",
        }
    }
}

impl Row {
    /// Change of accuracy that the paper prints for a number of nodes, in percent.
    pub fn paper(&self, nodes: Option<usize>) -> Option<f64> {
        match nodes {
            None => self.paper.first().copied(),
            Some(nodes) => {
                let column = NODES.iter().position(|&known| known == nodes)?;
                self.paper.get(column).copied()
            }
        }
    }

    /// Formats of the wire, as `--wire` reads them.
    pub fn wire(&self) -> String {
        let [vectors, gradients] = self.alltoall.unwrap_or(["f32", "f32"]);
        let dense = self.allreduce.map_or("f32", |(format, _)| format);
        format!("vectors={vectors},gradients={gradients},dense={dense}")
    }
}
