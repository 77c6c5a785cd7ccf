//! Cut of the tables of a tower, by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Cut: how the tables of a tower are cut over the ranks of its group (DMT §3.1.3, §4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// Tables are not cut: every table is whole on one rank.
    #[default]
    Whole,
    /// Tables are cut by columns, over all ranks of the group.
    Columns,
    /// Tables are cut by rows, over all ranks of the group.
    Rows,
    /// Single-hot tables are cut by columns, multi-hot tables by rows, as in the DMT paper.
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
            _ => Err(format!("unknown cut {text:?}; use whole, columns, rows or hotness")),
        }
    }
}
