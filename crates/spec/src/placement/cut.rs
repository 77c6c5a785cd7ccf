//! How the tables of a tower are cut, by name.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// How the tables of a tower are cut over the ranks of its group (DMT §3.1.3, §4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// Not at all: every table is whole on one rank.
    #[default]
    Whole,
    /// Tables are cut by columns, over all ranks of the group.
    Columns,
    /// Tables are cut by rows, over all ranks of the group.
    Rows,
    /// Single-hot tables by columns, multi-hot ones by rows: the paper's choice.
    Hotness,
}

impl FromStr for Cut {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "whole" => Ok(Cut::Whole),
            "columns" => Ok(Cut::Columns),
            "rows" => Ok(Cut::Rows),
            "hotness" => Ok(Cut::Hotness),
            _ => Err(format!("{text:?} is no cut; there are whole, columns, rows and hotness")),
        }
    }
}
