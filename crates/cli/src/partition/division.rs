//! How features shall be divided, as users say it: for `partition`, `towers` and all that find towers.

use super::inputs::{self, Groups};
use super::pieces::Pieces;
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::ValueEnum;
use planning::partitioner::{Balance, Distance, Partition, PartitionError, Request, Strategy, partition};
use spec::affinity::Affinity;
use spec::model::Model;
use std::path::PathBuf;

/// Constraints on towers: balance, distance, groups and slices.
#[derive(clap::Args, Clone, Debug, PartialEq)]
pub struct Division {
    /// The largest tower may be this many times as large as the smallest (with --groups: of a group); sizes that differ by one
    /// feature always may. For coherent, diverse and spectral towers
    #[arg(long, value_name = "R", default_value_t = 1.0)]
    ratio: f64,
    /// How far apart features lie: stretched (over the range of affinities that tells towers apart) or plain (1 − I or I, as
    /// in the DMT paper)
    #[arg(long, default_value = "stretched")]
    distance: Distance,
    /// Leave towers as k-means on the plane finds them, without the moves and swaps that follow by default; with --distance plain
    /// this is the DMT paper's partitioner. Towers balanced by load have no such moves
    #[arg(long)]
    no_settle: bool,
    /// Dimensions of the plane [default: 2]
    #[arg(long, value_name = "N")]
    dims: Option<usize>,
    /// What sizes count
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Counted::Features)]
    balance: Counted,
    /// What a load is, of the model's tables [default: lookup]
    #[arg(long, value_name = "WHAT", value_enum, conflicts_with = "loads")]
    load_of: Option<LoadOf>,
    /// The load of every feature instead, as JSON {"C1": 3.0, …}
    #[arg(long, value_name = "FILE")]
    loads: Option<PathBuf>,
    /// Groups that are never mixed, as JSON {"user": ["C1", …], "item": […]}; towers are shared out in proportion
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,
    /// Slice tables evenly into pieces of at most this many columns first, so that there can be more towers than features
    /// [default: tables stay whole]
    #[arg(long, value_name = "D")]
    slice_to: Option<usize>,
}

/// What sizes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Counted {
    /// Features
    Features,
    /// The sum of their loads
    Load,
}

/// What a load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LoadOf {
    /// Bytes read and sent a sample
    Lookup,
    /// Bytes of a table
    Memory,
}

/// Sizes of the tables behind the features, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Columns of a table.
    dim: Option<usize>,
    /// Bytes read and sent a sample, and bytes of each table.
    bytes: Option<(Vec<f64>, Vec<f64>)>,
}

impl Tables {
    /// Tables of a model.
    pub fn of(model: &Model) -> Self {
        let vector = 4.0 * model.row_width() as f64;
        let lookup = model.features().iter().map(|f| (f.hotness.mean() + 1) as f64 * vector).collect();
        let memory = model.features().iter().map(|f| f.rows as f64 * vector).collect();
        Self { dim: Some(model.row_width()), bytes: Some((lookup, memory)) }
    }

    /// Tables of which only the columns are known, or nothing.
    pub fn of_columns(dim: Option<usize>) -> Self {
        Self { dim, bytes: None }
    }
}

/// Features, or slices of their tables, divided into towers.
pub struct Divided {
    /// Affinity of the features or slices.
    pub affinity: Affinity,
    /// The division, by index of feature or slice.
    pub found: Partition,
    /// Names of features or slices, tower by tower.
    pub towers: Vec<Vec<String>>,
}

impl Division {
    /// Files that are read.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.loads.iter().chain(&self.groups)
    }

    /// Divides the features of `affinity`.
    pub fn divide(
        &self,
        affinity: &Affinity,
        tables: &Tables,
        towers: usize,
        strategy: Strategy,
        seed: u64,
    ) -> Result<Divided> {
        let (pieces, request) = self.request(affinity, tables, towers, strategy, seed)?;
        let found =
            partition(&pieces.affinity, &request).map_err(|error| self.explained(error, affinity, tables))?;
        let name = |&piece: &usize| pieces.affinity.features()[piece].clone();
        let towers = found.towers.iter().map(|tower| tower.iter().map(name).collect()).collect();
        Ok(Divided { affinity: pieces.affinity, found, towers })
    }

    /// Refuses a division that cannot be, before anything is trained for it.
    pub fn check(&self, model: &Model, towers: usize, strategies: &[Strategy]) -> Result<()> {
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
    ) -> Result<(Pieces, Request)> {
        let groups = self.grouped(affinity)?.map(|groups| groups.of);
        let loads = self.loads(affinity, tables, strategy)?;
        let pieces = match (self.slice_to, tables.dim) {
            (None, _) => Pieces::whole(affinity),
            (Some(width), Some(dim)) => Pieces::sliced(affinity, dim, width)?,
            (Some(_), None) => {
                bail!("--slice-to: how many columns a table has is not known; say so with --dim")
            }
        };
        let request = Request {
            ratio: self.ratio,
            distance: self.distance,
            settle: !self.no_settle,
            dims: self.dims.unwrap_or(2.min(pieces.affinity.features().len())),
            balance: loads.map_or(Balance::Features, |loads| Balance::Loads(pieces.shared(&loads))),
            groups: groups.map(|groups| pieces.of_features(&groups)),
            seed,
            ..Request::new(towers, strategy)
        };
        Ok((pieces, request))
    }

    /// Loads of the features, where towers are balanced by load.
    fn loads(&self, affinity: &Affinity, tables: &Tables, strategy: Strategy) -> Result<Option<Vec<f64>>> {
        let by_load = self.balance == Counted::Load || strategy == Strategy::Greedy;
        let given = self.loads.is_some() || self.load_of.is_some();
        ensure!(by_load || !given, "--loads and --load-of are for --balance load; give that too");
        if !by_load {
            return Ok(None);
        }
        if let Some(path) = &self.loads {
            return inputs::loads(path, affinity).map(Some);
        }
        let (lookup, memory) = tables.bytes.as_ref().with_context(|| {
            format!(
                "loads of the tables are not known for {}; give --loads FILE",
                match strategy {
                    Strategy::Greedy => "--strategy greedy",
                    _ => "--balance load",
                }
            )
        })?;
        Ok(Some(if self.load_of == Some(LoadOf::Memory) { memory.clone() } else { lookup.clone() }))
    }

    fn grouped(&self, affinity: &Affinity) -> Result<Option<Groups>> {
        self.groups.as_deref().map(|path| inputs::groups(path, affinity)).transpose()
    }

    /// An error with a hint at what would work.
    fn explained(&self, error: PartitionError, affinity: &Affinity, tables: &Tables) -> anyhow::Error {
        let features = affinity.features().len();
        let towers = match &error {
            PartitionError::Towers { towers, .. } if *towers > features => *towers,
            PartitionError::GroupWithoutLoad(group) => {
                let groups = self.grouped(affinity).ok().flatten();
                let name = groups.and_then(|groups| groups.names.get(*group).cloned()).unwrap_or_default();
                return anyhow!("--groups: {error} (group {group} is {name})");
            }
            PartitionError::Ratio(_) => return anyhow!("--ratio: {error}"),
            PartitionError::Dims { .. } => return anyhow!("--dims: {error}"),
            _ => return error.into(),
        };
        let Some(dim) = tables.dim else {
            return anyhow!(
                "{error}, or slice the tables into more pieces with --slice-to D and --dim N, their columns"
            );
        };
        let most = Pieces::most(features, dim);
        let hint = match Pieces::widest(features, dim, towers) {
            Some(width) => format!("--slice-to {width} gives {} pieces", features * dim.div_ceil(width)),
            None => {
                format!("tables of {dim} columns give at most {most} pieces, so {most} towers are the most")
            }
        };
        let given = self.slice_to.map_or(String::new(), |width| format!(" at --slice-to {width}"));
        anyhow!("{towers} towers for {features} features{given}: {hint}")
    }
}
