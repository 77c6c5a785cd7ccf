//! How features shall be divided, as users say it: for `partition`, `towers` and all that find towers.

use campanile::partition::{self, Divided, DivisionError, Sizes, Tables};
use clap::ValueEnum;
use planning::partitioner::{Distance, Strategy};
use spec::affinity::Affinity;
use spec::model::Model;
use std::path::PathBuf;

/// Constraints on towers: balance, distance, groups and slices.
#[derive(clap::Args, Clone, Debug, PartialEq)]
pub struct Division {
    /// Largest allowed ratio of the size of the largest tower to that of the smallest (with --groups: within a group); a
    /// difference of one feature is always allowed. For coherent, diverse and spectral towers
    #[arg(long, value_name = "R", default_value_t = 1.0)]
    ratio: f64,
    /// Distance of two features, from their affinity I: stretched (over the range of affinities that separates towers) or
    /// plain (1 − I for coherent and I for diverse towers, as in the DMT paper)
    #[arg(long, default_value = "stretched")]
    distance: Distance,
    /// Skip the last stage, which moves and swaps features between the towers that k-means found; with --distance plain this
    /// is the DMT paper's partitioner. Towers balanced by load never have that stage
    #[arg(long)]
    no_settle: bool,
    /// Number of dimensions of the plane in which features are laid out before k-means [default: 2]
    #[arg(long, value_name = "N")]
    dims: Option<usize>,
    /// Size of a tower: its number of features, or the sum of their loads
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Counted::Features)]
    balance: Counted,
    /// Load of a feature: bytes that its lookups read (lookup), or bytes of its table (memory) [default: lookup]
    #[arg(long, value_name = "WHAT", value_enum, conflicts_with = "loads")]
    load_of: Option<LoadOf>,
    /// JSON file with the load of every feature, {"C1": 3.0, …}, instead of --load-of
    #[arg(long, value_name = "FILE")]
    loads: Option<PathBuf>,
    /// JSON file with groups of features that never share a tower, {"user": ["C1", …], "item": […]}; every group gets towers
    /// in proportion to its size
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
    /// Number of features
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

impl Division {
    /// Files that are read.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.loads.iter().chain(&self.groups)
    }

    /// The constraints as the library takes them.
    pub fn division(&self) -> partition::Division {
        partition::Division {
            ratio: self.ratio,
            distance: self.distance,
            settle: !self.no_settle,
            dims: self.dims,
            balance: match self.balance {
                Counted::Features => Sizes::Features,
                Counted::Load => Sizes::Load,
            },
            load_of: self.load_of.map(|load| match load {
                LoadOf::Lookup => partition::LoadOf::Lookup,
                LoadOf::Memory => partition::LoadOf::Memory,
            }),
            loads: self.loads.clone(),
            groups: self.groups.clone(),
            slice_to: self.slice_to,
        }
    }

    /// Divides the features of `affinity`.
    pub fn divide(
        &self,
        affinity: &Affinity,
        tables: &Tables,
        towers: usize,
        strategy: Strategy,
        seed: u64,
    ) -> Result<Divided, DivisionError> {
        self.division().divide(affinity, tables, towers, strategy, seed)
    }

    /// Whether the features of a model can be divided so, before anything is trained for it.
    pub fn check(&self, model: &Model, towers: usize, strategies: &[Strategy]) -> Result<(), DivisionError> {
        self.division().check(model, towers, strategies)
    }
}
