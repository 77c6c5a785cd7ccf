//! How vectors get from the tables to the samples: flat, over the world; or SPTT, by way of tower groups (DMT §3.1).
//!
//! ```text
//! flat    a. ids → holders   b. lookup   c. vectors → samples, over the world
//! sptt    a. ids → holders   b. lookup   c. peer permute   d. exchange inside the group   e. transpose
//!         tower modules      f. S concurrent exchanges among peers, over P groups
//! ```
//!
//! A [`Sptt`] says, for every group, which columns come in and which leave. It follows from where the tables are: a tower
//! with a module needs all its features on one group, columns that pass through may be anywhere.

use crate::model::{Member, Model};
use crate::placement::{Layout, Placement, Shard};
use crate::topology::{Groups, Numbering};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// A model on a cluster: all that a schedule follows from.
#[derive(Clone, Debug, PartialEq)]
pub struct Deployment {
    /// The model.
    pub model: Model,
    /// Where its tables are.
    pub placement: Placement,
    /// How their vectors travel.
    pub dataflow: Dataflow,
}

/// How vectors get from the tables to the samples.
#[derive(Clone, Debug, PartialEq)]
pub enum Dataflow {
    /// Over the world, at once.
    Flat,
    /// By way of tower groups.
    Sptt(Sptt),
}

/// A dataflow by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataflowKind {
    /// Over the world, at once.
    #[default]
    Flat,
    /// By way of tower groups.
    Sptt,
}

/// The semantic-preserving tower transform on a placement.
#[derive(Clone, Debug, PartialEq)]
pub struct Sptt {
    groups: Groups,
    permute: PeerPermute,
    plans: Vec<GroupPlan>,
}

/// What is brought into peer order: step c of SPTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerPermute {
    /// The pooled vectors, after the lookup; their gradients go back.
    Vectors,
    /// The bags of ids, before the lookup (steps b and c swapped): vectors and gradients come out in peer order.
    Ids,
    /// Nothing: ranks are numbered in peer order from the start.
    None,
}

/// What one group of ranks takes in and gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupPlan {
    /// Towers with modules whose features are here.
    pub towers: Vec<usize>,
    /// What leaves the group for the samples, side by side.
    pub outputs: Vec<Output>,
    /// Columns of the vectors that meet here, of all features.
    pub input_width: usize,
}

/// Columns that leave a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Where they come from.
    pub source: Source,
    /// Where they begin among the columns that the interaction sees.
    pub place: usize,
    /// How many.
    pub width: usize,
}

/// Where columns that leave a group come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Straight from a table.
    Table {
        /// The feature.
        feature: usize,
        /// Columns of its table.
        columns: Range<usize>,
    },
    /// Out of a tower's module.
    Tower(usize),
}

/// Where some columns of a shard go inside its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// First column in the shard.
    pub from: usize,
    /// The tower whose input they are; `None` for columns that leave as they are.
    pub tower: Option<usize>,
    /// First column in the tower's input, or among what leaves.
    pub to: usize,
    /// How many.
    pub width: usize,
}

/// Why a placement cannot serve SPTT.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpttError {
    /// A table on every rank.
    #[error("{feature} is replicated, but in SPTT every table has one group; place it on some rank")]
    Replicated {
        /// Name of the feature.
        feature: String,
    },
    /// Rows cut over ranks that are not one group.
    #[error(
        "the rows of {feature} are cut over ranks {ranks:?}; in SPTT they are cut over all ranks of one group, such as {group:?}"
    )]
    Rows {
        /// Name of the feature.
        feature: String,
        /// Its holders.
        ranks: Vec<usize>,
        /// The ranks of the group of the first.
        group: Vec<usize>,
    },
    /// A tower whose features are not together.
    #[error(
        "tower {tower} has {feature} on group {got} and other features on group {expected}; its module needs all on one"
    )]
    Spread {
        /// The tower.
        tower: usize,
        /// A feature of it.
        feature: String,
        /// Where its other features are.
        expected: usize,
        /// Where that feature is.
        got: usize,
    },
}

impl Dataflow {
    /// Its name.
    pub fn kind(&self) -> DataflowKind {
        match self {
            Dataflow::Flat => DataflowKind::Flat,
            Dataflow::Sptt(_) => DataflowKind::Sptt,
        }
    }

    /// The SPTT plan, where that is the dataflow.
    pub fn sptt(&self) -> Option<&Sptt> {
        match self {
            Dataflow::Flat => None,
            Dataflow::Sptt(sptt) => Some(sptt),
        }
    }
}

impl PeerPermute {
    /// What moves fewer bytes. Ids stay where they arrived and their bags are found by start and length, 8 bytes a bag,
    /// however many ids it has; a vector has 4 bytes for every column, and its gradient moves as well.
    pub fn cheaper(placement: &Placement) -> Self {
        let owned = (0..placement.topology().ranks()).flat_map(|rank| placement.owned_by(rank));
        let (bags, columns) = owned.fold((0, 0), |(bags, columns), s| (bags + 1, columns + s.columns.len()));
        if 2 * 4 * columns < 8 * bags { PeerPermute::Vectors } else { PeerPermute::Ids }
    }
}

impl Sptt {
    /// The plan that follows from a placement. Where ranks are numbered in peer order, nothing is permuted; else
    /// `permute` says what is.
    pub fn new(
        model: &Model,
        placement: &Placement,
        groups: Groups,
        permute: PeerPermute,
    ) -> Result<Self, SpttError> {
        check_layouts(model, placement, groups)?;
        let mut plans = vec![GroupPlan::default(); groups.count()];
        for (group, plan) in plans.iter_mut().enumerate() {
            for shard in shards_of(placement, groups, group) {
                plan.input_width += shard.columns.len();
                for (tower, member) in members_of(model, shard) {
                    let columns = overlap(&shard.columns, &member.columns);
                    match tower {
                        Some(tower) if !model.towers()[tower].passes_through() => {
                            if !plan.towers.contains(&tower) {
                                plan.towers.push(tower);
                            }
                        }
                        _ => plan.outputs.push(Output {
                            place: model.place(shard.feature, columns.start),
                            width: columns.len(),
                            source: Source::Table { feature: shard.feature, columns },
                        }),
                    }
                }
            }
            plan.towers.sort_unstable();
            plan.outputs.extend(plan.towers.iter().map(|&tower| Output {
                source: Source::Tower(tower),
                place: model.tower_place(tower),
                width: model.towers()[tower].output_width(),
            }));
            plan.outputs.sort_by_key(|output| output.place);
        }
        for tower in 0..model.towers().len() {
            let mut homes = (0..plans.len()).filter(|&group| plans[group].towers.contains(&tower));
            if let (Some(expected), Some(got)) = (homes.next(), homes.next()) {
                let member = members_in(model, placement, groups, tower, got);
                let feature = model.features()[member].name.clone();
                return Err(SpttError::Spread { tower, feature, expected, got });
            }
        }
        let permute = match groups.topology().numbering() {
            Numbering::ByHost => permute,
            Numbering::ByPeer { .. } => PeerPermute::None,
        };
        Ok(Self { groups, permute, plans })
    }

    /// The groups.
    pub fn groups(&self) -> Groups {
        self.groups
    }

    /// What is brought into peer order.
    pub fn permute(&self) -> PeerPermute {
        self.permute
    }

    /// What a group takes in and gives.
    pub fn plan(&self, group: usize) -> &GroupPlan {
        &self.plans[group]
    }

    /// The group of a tower with a module.
    pub fn group_of_tower(&self, tower: usize) -> Option<usize> {
        self.plans.iter().position(|plan| plan.towers.contains(&tower))
    }

    /// Where the columns of a shard go inside its group.
    pub fn routes(&self, model: &Model, group: usize, shard: &Shard) -> Vec<Route> {
        let plan = &self.plans[group];
        let route = |(tower, member): (Option<usize>, Member)| {
            let columns = overlap(&shard.columns, &member.columns);
            let (from, width) = (columns.start - shard.columns.start, columns.len());
            match tower.filter(|&tower| !model.towers()[tower].passes_through()) {
                Some(tower) => {
                    let members = &model.towers()[tower].members;
                    let before = members.iter().take_while(|m| **m != member).map(|m| m.columns.len());
                    let to = before.sum::<usize>() + columns.start - member.columns.start;
                    Route { from, tower: Some(tower), to, width }
                }
                None => {
                    let source = Source::Table { feature: shard.feature, columns };
                    let before = plan.outputs.iter().take_while(|output| output.source != source);
                    Route { from, tower: None, to: before.map(|output| output.width).sum(), width }
                }
            }
        };
        members_of(model, shard).into_iter().map(route).collect()
    }
}

impl GroupPlan {
    /// Columns that leave the group for a sample.
    pub fn output_width(&self) -> usize {
        self.outputs.iter().map(|output| output.width).sum()
    }
}

fn check_layouts(model: &Model, placement: &Placement, groups: Groups) -> Result<(), SpttError> {
    for (feature, layout) in model.features().iter().zip(placement.layouts()) {
        let ranks = match layout {
            Layout::Replicated => return Err(SpttError::Replicated { feature: feature.name.clone() }),
            Layout::RowWise { ranks } => ranks.clone(),
            Layout::Hierarchical { host } => groups.topology().ranks_of(*host).collect(),
            Layout::TableWise { .. } | Layout::ColumnWise { .. } => continue,
        };
        let group: Vec<usize> = groups.members(groups.group_of(ranks[0])).collect();
        if group != ranks {
            return Err(SpttError::Rows { feature: feature.name.clone(), ranks, group });
        }
    }
    Ok(())
}

/// The vectors that meet in a group: the whole shards of its ranks, and each table cut by rows once.
fn shards_of(placement: &Placement, groups: Groups, group: usize) -> impl Iterator<Item = &Shard> {
    let whole = (0..groups.size()).flat_map(move |index| placement.whole_by(groups.rank(group, index)));
    whole.chain(placement.rows_by(groups.rank(group, 0)))
}

/// The members of towers that a shard has columns of, with their towers. Without towers, the feature itself.
fn members_of(model: &Model, shard: &Shard) -> Vec<(Option<usize>, Member)> {
    if model.towers().is_empty() {
        return vec![(None, Member { feature: shard.feature, columns: 0..model.dim() })];
    }
    let towers = model.towers().iter().enumerate();
    let members =
        towers.flat_map(|(t, tower)| tower.members.iter().map(move |member| (Some(t), member.clone())));
    members
        .filter(|(_, m)| m.feature == shard.feature && !overlap(&m.columns, &shard.columns).is_empty())
        .collect()
}

/// A feature of a tower that a group has columns of.
fn members_in(model: &Model, placement: &Placement, groups: Groups, tower: usize, group: usize) -> usize {
    let shards = shards_of(placement, groups, group);
    let of_tower = |shard: &&Shard| members_of(model, shard).iter().any(|(t, _)| *t == Some(tower));
    shards.filter(of_tower).map(|shard| shard.feature).next().unwrap_or(0)
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    a.start.max(b.start)..a.end.min(b.end)
}

impl FromStr for DataflowKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "flat" => Ok(DataflowKind::Flat),
            "sptt" => Ok(DataflowKind::Sptt),
            _ => Err(format!("{text:?} is no dataflow; there are flat and sptt")),
        }
    }
}

impl FromStr for PeerPermute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "vectors" => Ok(PeerPermute::Vectors),
            "ids" => Ok(PeerPermute::Ids),
            "none" => Ok(PeerPermute::None),
            _ => Err(format!("{text:?} is no peer permute; there are vectors, ids and none")),
        }
    }
}

impl fmt::Display for PeerPermute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PeerPermute::Vectors => "vectors",
            PeerPermute::Ids => "ids",
            PeerPermute::None => "none",
        })
    }
}
