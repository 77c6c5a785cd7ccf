//! Candidates: what a table may be, with prices, and what it cannot be.

use super::Refused;
use super::prices::{Piece, Price, Prices};
use super::units::Unit;
use super::words;
use spec::placement::Scheme;

/// Fewest columns of a piece: narrower ones cost more in ids than they save in vectors.
pub(super) const MIN_COLUMNS: usize = 4;

/// Form that a table may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A grid of pieces, each on one rank.
    Cut { rows: usize, columns: usize },
    /// A copy on every rank of the world or of the tower group.
    Copies,
}

impl Shape {
    pub(super) fn scheme(self) -> Scheme {
        match self {
            Shape::Cut { rows: 1, columns: 1 } => Scheme::TableWise,
            Shape::Cut { columns: 1, .. } => Scheme::RowWise,
            Shape::Cut { rows: 1, .. } => Scheme::ColumnWise,
            Shape::Cut { .. } => Scheme::Grid,
            Shape::Copies => Scheme::DataParallel,
        }
    }

    /// The shape in words, such as `row-wise over 8 ranks`.
    pub(super) fn words(self) -> String {
        match self {
            Shape::Cut { rows: 1, columns: 1 } => "table-wise".into(),
            Shape::Cut { rows, columns: 1 } => format!("row-wise over {rows} ranks"),
            Shape::Cut { rows: 1, columns } => format!("column-wise over {columns} ranks"),
            Shape::Cut { rows, columns } => format!("a grid of {rows} × {columns}"),
            Shape::Copies => "data-parallel".into(),
        }
    }
}

/// A form of a table, priced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub shape: Shape,
    /// The widest pieces.
    pub wide: Price,
    /// Pieces that have one column less.
    pub narrow: Price,
    /// Columns of pieces, of those into which the table is cut, that are wide.
    pub wide_columns: usize,
    /// Number of ranks that hold something of the table.
    pub holders: usize,
    /// Price on all holders together.
    pub total: f64,
    /// Bytes on all holders together.
    pub memory: f64,
    /// Bytes on every rank of the cluster, for the samples there.
    pub arriving: f64,
}

impl Candidate {
    /// Price of the piece in a column of pieces.
    pub(super) fn piece(&self, column: usize) -> Price {
        if column < self.wide_columns { self.wide } else { self.narrow }
    }

    /// Whether every member holds the same: copies, or rows that are cut over all of them.
    pub(super) fn on_all(&self, members: usize) -> bool {
        match self.shape {
            Shape::Copies => true,
            Shape::Cut { rows, columns } => columns == 1 && rows == members && members > 1,
        }
    }

    /// Whether another candidate is no worse in anything. One that has more holders may be worse: it cannot use a single idle rank.
    fn dominated_by(&self, other: &Self) -> bool {
        other.holders <= self.holders
            && other.total <= self.total
            && other.wide.cost <= self.wide.cost
            && other.wide.memory <= self.wide.memory
            && other.memory <= self.memory
    }
}

/// What a table, or a slice of it, may be.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    /// Everything that fits a rank, cheapest in total first.
    pub all: Vec<Candidate>,
    /// Indices of those that no other surpasses in everything, cheapest in total first.
    pub worthy: Vec<usize>,
    /// Form with the smallest pieces that was priced, whether it fits or not.
    pub smallest: Candidate,
    pub refused: Vec<Refused>,
}

/// Numbers of pieces to try: 2, 4, 8 … and `most` itself.
fn pieces(most: usize) -> Vec<usize> {
    let mut counts: Vec<usize> =
        (1..).map(|power| 1usize << power).take_while(|&count| count < most).collect();
    counts.extend((most > 1).then_some(most));
    counts
}

/// Forms of a unit that make sense on so many members, whether they fit or not.
fn shapes(unit: &Unit, rows: usize, members: usize) -> Vec<Shape> {
    if unit.is_train {
        return vec![Shape::Copies];
    }
    let width = unit.columns.len();
    let by_rows = if unit.whole { pieces(members.min(rows)) } else { Vec::new() };
    let by_columns: Vec<usize> =
        pieces(members).into_iter().filter(|&count| width / count >= MIN_COLUMNS).collect();
    let mut shapes = vec![Shape::Cut { rows: 1, columns: 1 }];
    shapes.extend(by_rows.iter().map(|&rows| Shape::Cut { rows, columns: 1 }));
    shapes.extend(by_columns.iter().map(|&columns| Shape::Cut { rows: 1, columns }));
    for &rows in &by_rows {
        let fitting = by_columns.iter().filter(|&&columns| rows * columns <= members);
        shapes.extend(fitting.map(|&columns| Shape::Cut { rows, columns }));
    }
    shapes.extend((unit.whole && members > 1).then_some(Shape::Copies));
    shapes
}

/// Prices all forms of a unit.
pub(super) fn of_unit(prices: &Prices, unit: &Unit) -> Candidates {
    let (members, room) = (prices.members(), prices.room());
    let rows = prices.request.model.features()[unit.feature].rows;
    let in_request =
        |shape: &Shape| prices.request.schemes.is_none_or(|schemes| schemes.contains(&shape.scheme()));
    // A tensor train has no other form.
    let allowed = |shape: &Shape| unit.is_train || in_request(shape);
    let mut all: Vec<Candidate> =
        shapes(unit, rows, members).into_iter().map(|shape| price(prices, unit, shape)).collect();
    let by_memory = |a: &&Candidate, b: &&Candidate| a.wide.memory.cmp(&b.wide.memory);
    let smallest = **all
        .iter()
        .filter(|candidate| allowed(&candidate.shape))
        .collect::<Vec<_>>()
        .iter()
        .min_by(|a, b| by_memory(a, b))
        .unwrap_or(&&all[0]);
    let refused = refusals(prices, unit, &all);
    all.retain(|candidate| candidate.wide.memory <= room && allowed(&candidate.shape));
    all.sort_by(|a, b| a.total.total_cmp(&b.total));
    let surpassed = |i: usize| {
        (0..all.len())
            .any(|j| j != i && all[i].dominated_by(&all[j]) && (j < i || !all[j].dominated_by(&all[i])))
    };
    let worthy = (0..all.len()).filter(|&i| !surpassed(i)).collect();
    Candidates { all, worthy, smallest, refused }
}

fn price(prices: &Prices, unit: &Unit, shape: Shape) -> Candidate {
    let (feature, width) = (unit.feature, unit.columns.len());
    match shape {
        Shape::Copies => {
            let (each, holders) = (prices.copy(feature), prices.members());
            Candidate {
                shape,
                wide: each,
                narrow: each,
                wide_columns: 1,
                holders,
                total: each.cost * holders as f64,
                memory: each.memory as f64 * holders as f64,
                arriving: 0.0,
            }
        }
        Shape::Cut { rows, columns } => {
            let height = prices.request.model.features()[feature].rows.div_ceil(rows);
            let piece = |columns| prices.piece(Piece { feature, rows: height, row_pieces: rows, columns });
            let (wide, narrow) = (piece(width.div_ceil(columns)), piece(width / columns));
            let wide_columns = if width.is_multiple_of(columns) { columns } else { width % columns };
            let sum = |of: &dyn Fn(Price) -> f64| {
                rows as f64 * (wide_columns as f64 * of(wide) + (columns - wide_columns) as f64 * of(narrow))
            };
            Candidate {
                shape,
                wide,
                narrow,
                wide_columns,
                holders: rows * columns,
                total: sum(&|price| price.cost),
                memory: sum(&|price| price.memory as f64),
                arriving: prices.arriving(width) * rows as f64,
            }
        }
    }
}

/// Why schemes are impossible of which no form is possible.
fn refusals(prices: &Prices, unit: &Unit, all: &[Candidate]) -> Vec<Refused> {
    let (members, room) = (prices.members(), prices.room());
    let rows = prices.request.model.features()[unit.feature].rows;
    let mut refused = Vec::new();
    let schemes =
        [Scheme::TableWise, Scheme::RowWise, Scheme::ColumnWise, Scheme::Grid, Scheme::DataParallel];
    for scheme in schemes {
        let of_scheme = all.iter().filter(|candidate| candidate.shape.scheme() == scheme);
        let smallest = of_scheme.min_by_key(|candidate| candidate.wide.memory);
        let why = match smallest {
            _ if prices.request.schemes.is_some_and(|schemes| !schemes.contains(&scheme)) => {
                "the request does not allow it".to_owned()
            }
            None => impossible(scheme, unit, rows, members),
            Some(candidate) if candidate.wide.memory > room => format!(
                "{} needs {} on a rank, which has room for {}",
                candidate.shape.words(),
                words::bytes(candidate.wide.memory),
                words::bytes(room)
            ),
            Some(_) => continue,
        };
        refused.push(Refused { scheme, why });
    }
    refused
}

/// Why a scheme has no form at all.
fn impossible(scheme: Scheme, unit: &Unit, rows: usize, members: usize) -> String {
    let width = unit.columns.len();
    let narrow = format!("half of {width} columns is less than the {MIN_COLUMNS} that a piece should have");
    let few = match rows {
        1 => "the table has a single row".to_owned(),
        _ => format!("{rows} rows leave nothing to cut over {members} ranks"),
    };
    match scheme {
        _ if unit.is_train => {
            "a tensor train is small: every rank that serves the feature has its cores".into()
        }
        _ if members == 1 => "there is a single rank to hold the table".into(),
        _ if !unit.whole && scheme != Scheme::ColumnWise => {
            "several towers read slices of its columns".into()
        }
        Scheme::ColumnWise => narrow,
        Scheme::Grid if rows > 1 && width / 2 >= MIN_COLUMNS => {
            format!("a grid needs at least 4 ranks; there are {members}")
        }
        Scheme::Grid if rows > 1 => narrow,
        _ => few,
    }
}
