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
