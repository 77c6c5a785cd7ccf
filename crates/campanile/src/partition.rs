//! Divides features into towers by their affinity.

mod error;
mod inputs;
mod npy;
mod pieces;

pub use error::DivisionError;
pub use inputs::affinity as read_affinity;
pub use npy::NpyError;

use inputs::Groups;
use pieces::Pieces;
use planning::partitioner::{Balance, Distance, Partition, PartitionError, Request, Strategy, partition};
use spec::affinity::Affinity;
use spec::feature::Feature;
use spec::model::Model;
use std::path::PathBuf;

/// What towers shall be like.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// The largest tower may be this many times as large as the smallest. Sizes that differ by one feature always may.
    pub ratio: f64,
    /// How far apart features lie.
    pub distance: Distance,
    /// Whether moves and swaps follow after k-means on the plane.
    pub settle: bool,
    /// Dimensions of the plane; 2 unless told.
    pub dims: Option<usize>,
    /// What sizes count.
    pub balance: Sizes,
    /// What a load is, of the model's tables; lookups unless told.
    pub load_of: Option<LoadOf>,
    /// A JSON file with the load of every feature, instead.
    pub loads: Option<PathBuf>,
    /// A JSON file with groups that are never mixed.
    pub groups: Option<PathBuf>,
    /// Most columns of a slice; tables stay whole unless told.
    pub slice_to: Option<usize>,
}

impl Default for Division {
    fn default() -> Self {
        Self {
            ratio: 1.0,
            distance: Distance::default(),
            settle: true,
            dims: None,
            balance: Sizes::Features,
            load_of: None,
            loads: None,
            groups: None,
            slice_to: None,
        }
    }
}

/// What sizes of towers count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sizes {
    /// Features.
    #[default]
    Features,
    /// The sum of their loads.
    Load,
}

/// What a load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadOf {
    /// Bytes read and sent a sample.
    Lookup,
    /// Bytes of a table.
    Memory,
}

/// What is known of the tables behind the features.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    columns: Columns,
    /// Bytes read and sent a sample, and bytes of each table.
    bytes: Option<(Vec<f64>, Vec<f64>)>,
}

/// Columns of tables.
#[derive(Clone, Debug, Default)]
enum Columns {
    /// Nobody knows them.
    #[default]
    Unknown,
    /// All tables have as many.
    Equal(usize),
    /// Number of columns of each table.
    Each(Vec<usize>),
}

impl Columns {
    /// Columns of each of so many tables.
    fn of(&self, tables: usize) -> Option<Vec<usize>> {
        match self {
            Columns::Unknown => None,
            Columns::Equal(columns) => Some(vec![*columns; tables]),
            Columns::Each(each) => Some(each.clone()),
        }
    }
}

impl Tables {
    /// Tables of a model.
    pub fn of(model: &Model) -> Self {
        let row_bytes = |f: usize| model.table_format(f).row_bytes(model.row_width(f)) as f64;
        let vector_bytes = |f: usize| 4.0 * model.row_width(f) as f64;
        let features = || model.features().iter().enumerate();
        let lookup = features().map(|(f, of)| of.hotness.mean() as f64 * row_bytes(f) + vector_bytes(f));
        let lookup = lookup.collect();
        let stored = |(f, of): (usize, &Feature)| match model.tensor_train(f) {
            Some(train) => 4.0 * train.parameters() as f64,
            None => of.rows as f64 * row_bytes(f),
        };
        let memory = features().map(stored).collect();
        let columns = Columns::Each((0..model.features().len()).map(|f| model.row_width(f)).collect());
        Self { columns, bytes: Some((lookup, memory)) }
    }

    /// Tables of which only the columns are known, or nothing.
    pub fn of_columns(dim: Option<usize>) -> Self {
        Self { columns: dim.map_or(Columns::Unknown, Columns::Equal), bytes: None }
    }
}

/// Features, or slices of their tables, divided.
#[derive(Clone, Debug)]
pub struct Divided {
    /// Affinity of what was divided.
    pub affinity: Affinity,
    /// Towers by number, and how good they are.
    pub found: Partition,
    /// Names, tower by tower.
    pub towers: Vec<Vec<String>>,
}

impl Division {
    /// Divides the features of `affinity`.
    pub fn divide(
        &self,
        affinity: &Affinity,
        tables: &Tables,
        towers: usize,
        strategy: Strategy,
        seed: u64,
    ) -> Result<Divided, DivisionError> {
        let (pieces, request) = self.request(affinity, tables, towers, strategy, seed)?;
        let found =
            partition(&pieces.affinity, &request).map_err(|error| self.explained(error, affinity, tables))?;
        let name = |&piece: &usize| pieces.affinity.features()[piece].clone();
        let towers = found.towers.iter().map(|tower| tower.iter().map(name).collect()).collect();
        Ok(Divided { affinity: pieces.affinity, found, towers })
    }

    /// Whether the features of a model can be divided so, before anything is trained for it.
    pub fn check(&self, model: &Model, towers: usize, strategies: &[Strategy]) -> Result<(), DivisionError> {
        let names: Vec<String> = model.features().iter().map(|feature| feature.name.clone()).collect();
        let alike = vec![vec![1.0; names.len()]; names.len()];
        let (affinity, tables) = (Affinity::new(names, alike)?, Tables::of(model));
        for &strategy in strategies {
            let (pieces, request) = self.request(&affinity, &tables, towers, strategy, 0)?;
            let checked = request.check(pieces.affinity.features().len());
            checked.map_err(|error| self.explained(error, &affinity, &tables))?;
        }
        Ok(())
    }

    fn request(
        &self,
        affinity: &Affinity,
        tables: &Tables,
        towers: usize,
        strategy: Strategy,
        seed: u64,
    ) -> Result<(Pieces, Request), DivisionError> {
        let groups = self.grouped(affinity)?.map(|groups| groups.of);
        let loads = self.loads(affinity, tables, strategy)?;
        let pieces = match (self.slice_to, tables.columns.of(affinity.features().len())) {
            (None, _) => Pieces::whole(affinity),
            (Some(width), Some(columns)) => Pieces::sliced(affinity, &columns, width)?,
            (Some(_), None) => return Err(DivisionError::UnknownColumns),
        };
        let request = Request {
            ratio: self.ratio,
            distance: self.distance,
            settle: self.settle,
            dims: self.dims.unwrap_or(2.min(pieces.affinity.features().len())),
            balance: loads.map_or(Balance::Features, |loads| Balance::Loads(pieces.shared(&loads))),
            groups: groups.map(|groups| pieces.of_features(&groups)),
            seed,
            ..Request::new(towers, strategy)
        };
        Ok((pieces, request))
    }

    /// Loads, where they count.
    fn loads(
        &self,
        affinity: &Affinity,
        tables: &Tables,
        strategy: Strategy,
    ) -> Result<Option<Vec<f64>>, DivisionError> {
        let by_load = self.balance == Sizes::Load || strategy == Strategy::Greedy;
        if !by_load {
            return match self.loads.is_some() || self.load_of.is_some() {
                true => Err(DivisionError::LoadsUnused),
                false => Ok(None),
            };
        }
        if let Some(path) = &self.loads {
            return inputs::loads(path, affinity).map(Some);
        }
        let flag = if strategy == Strategy::Greedy { "--strategy greedy" } else { "--balance load" };
        let (lookup, memory) = tables.bytes.as_ref().ok_or(DivisionError::UnknownLoads { flag })?;
        Ok(Some(if self.load_of == Some(LoadOf::Memory) { memory.clone() } else { lookup.clone() }))
    }

    fn grouped(&self, affinity: &Affinity) -> Result<Option<Groups>, DivisionError> {
        self.groups.as_deref().map(|path| inputs::groups(path, affinity)).transpose()
    }

    /// What would work where something does not.
    fn explained(&self, error: PartitionError, affinity: &Affinity, tables: &Tables) -> DivisionError {
        let features = affinity.features().len();
        let towers = match &error {
            PartitionError::Towers { towers, .. } if *towers > features => *towers,
            PartitionError::GroupWithoutLoad(group) => {
                let (group, groups) = (*group, self.grouped(affinity).ok().flatten());
                let name = groups.and_then(|groups| groups.names.get(group).cloned()).unwrap_or_default();
                return DivisionError::Group { error, group, name };
            }
            PartitionError::Ratio(_) => return DivisionError::Ratio(error),
            PartitionError::Dims { .. } => return DivisionError::Dims(error),
            _ => return DivisionError::Partition(error),
        };
        let Some(columns) = tables.columns.of(features) else { return DivisionError::MorePieces(error) };
        let most = Pieces::most(&columns);
        let hint = match Pieces::widest(&columns, towers) {
            Some(width) => format!("--slice-to {width} gives {} pieces", Pieces::count(&columns, width)),
            None => {
                let widest = columns.iter().copied().max().unwrap_or(0);
                let up_to = if columns.iter().any(|&columns| columns < widest) { "up to " } else { "" };
                format!(
                    "tables of {up_to}{widest} columns give at most {most} pieces, so {most} towers are the most"
                )
            }
        };
        let given = self.slice_to.map_or(String::new(), |width| format!(" at --slice-to {width}"));
        DivisionError::TooManyTowers { towers, features, given, hint }
    }
}
