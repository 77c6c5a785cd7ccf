//! Logs that are stored by columns, in Parquet files or in memory: their cells, and the samples that rows of cells make.
//!
//! | role in the schema | cells |
//! |---|---|
//! | labels, sample weights, dense, sparse with `ids = "buckets"` | booleans, integers, floats |
//! | `keep` | booleans, numbers, times, strings, binary |
//! | sparse | strings, binary, integers; lists of them with `list` |

mod roles;
mod sample;

pub(crate) use roles::Roles;
pub(crate) use sample::Numbers;

/// Value of one cell of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    Null,
    Signed(i64),
    Unsigned(u64),
    Number(f64),
    Bytes(&'a [u8]),
}

impl Cell<'_> {
    /// Calls `use_text` with the text of the cell; `None` for a null.
    pub fn with_text<T>(self, use_text: impl FnOnce(Option<&[u8]>) -> T) -> T {
        match self {
            Cell::Null => use_text(None),
            Cell::Bytes(text) => use_text(Some(text)),
            Cell::Signed(value) => use_text(Some(itoa::Buffer::new().format(value).as_bytes())),
            Cell::Unsigned(value) => use_text(Some(itoa::Buffer::new().format(value).as_bytes())),
            Cell::Number(value) => use_text(Some(value.to_string().as_bytes())),
        }
    }
}

/// Rows of one column.
pub(crate) trait CellColumn {
    /// Cells of a row: one for a plain column, any number for a list.
    fn cells(&self, row: usize) -> impl Iterator<Item = Cell<'_>>;
}

/// Kind of values in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Integer { signed: bool },
    Float,
    Bytes,
}

/// Purpose for which a column is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// A label, a dense input or a weight.
    Number,
    /// Ids, one per cell.
    Id,
    /// Text that is split into ids or weights.
    Text,
    /// Text of any value, to be noted with its row.
    Noted,
}

impl Use {
    /// Whether values of `kind` serve the purpose, and which would.
    pub fn served_by(self, kind: Option<Kind>) -> (bool, &'static str) {
        match self {
            Use::Number => (
                matches!(kind, Some(Kind::Bool | Kind::Integer { .. } | Kind::Float)),
                "booleans, integers or floats",
            ),
            Use::Id => {
                (matches!(kind, Some(Kind::Integer { .. } | Kind::Bytes)), "strings, binary or integers")
            }
            Use::Noted => (kind.is_some(), "booleans, numbers, times, strings or binary"),
            Use::Text => (kind == Some(Kind::Bytes), "strings, to be split at the schema's separators"),
        }
    }
}
