//! Dataflows: how vectors get from the tables to the samples. Flat goes over the world; SPTT goes by way of tower groups
//! (DMT §3.1).
//!
//! ```text
//! flat    a. ids → holders   b. lookup   c. vectors → samples, over the world
//! sptt    a. ids → holders   b. lookup   c. peer permute   d. exchange inside the group   e. transpose
//!         tower modules      f. S concurrent exchanges among peers, over P groups
//! ```
//!
//! A [`Sptt`] says, for every group, which columns come in and which leave. It follows from where the tables are: a tower
//! with a module needs all its features on one group, columns that pass through may be anywhere.

mod kinds;

pub use kinds::{AllToAll, DataflowKind, PeerPermute};

use crate::emulation::Emulation;
use crate::model::{BlockName, Member, Model, Parameter};
use crate::placement::{CopyUpdate, Placement, Shard};
use crate::program::Algorithm;
use crate::table_cache::CachedShards;
use crate::topology::{Groups, Numbering, Topology};
use crate::towers::Module;
use crate::wire::Wire;
use std::ops::Range;

/// A model on a cluster. The schedule of a step follows from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Deployment {
    /// Model that is trained.
    pub model: Model,
    /// Placement of the model's tables.
    pub placement: Placement,
    /// Dataflow of the vectors.
    pub dataflow: Dataflow,
    /// Wire formats of floats.
    pub wire: Wire,
    /// Algorithm of the all-reduce of dense gradients: over the world, and of tower modules inside tower groups.
    pub all_reduce: Algorithm,
    /// Nodes whose dense gradients the only rank emulates; `None` where every rank has its own.
    pub emulation: Option<Emulation>,
    /// Rows of each table that ranks keep in memory; `None` where they keep all.
    pub cached: Option<CachedShards>,
}

/// Dataflow: how vectors get from the tables to the samples.
#[derive(Clone, Debug, PartialEq)]
pub enum Dataflow {
    /// Flat dataflow: one all-to-all over the world.
    Flat(AllToAll),
    /// SPTT: vectors are exchanged inside tower groups, then among peers.
    Sptt(Sptt),
}

/// Plan of the semantic-preserving tower transform (SPTT) for a placement.
#[derive(Clone, Debug, PartialEq)]
pub struct Sptt {
    groups: Groups,
    permute: PeerPermute,
    plans: Vec<GroupPlan>,
    /// Destination of the columns of each feature.
    columns: Vec<Vec<Columns>>,
    /// Group of each tower with a module.
    group_of_tower: Vec<Option<usize>>,
}

/// Columns of a feature that go the same way.
#[derive(Clone, Debug, PartialEq)]
struct Columns {
    /// Columns of the feature.
    columns: Range<usize>,
    /// Tower whose module reads the columns, and their offset in its input.
    tower: Option<(usize, usize)>,
    /// Offset of the columns in the input of the interaction, if they pass through.
    offset: usize,
}

/// Inputs and outputs of one tower group in SPTT.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupPlan {
    /// Towers with modules whose features lie in the group.
    pub towers: Vec<usize>,
    /// Columns that leave the group for the samples, side by side.
    pub outputs: Vec<GroupOutput>,
    /// Number of columns of the vectors and partial sums that meet in the group.
    pub input_width: usize,
}

/// Consecutive columns that leave a tower group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupOutput {
    /// Origin of the columns.
    pub source: OutputSource,
    /// Index of the first column among all columns that leave the group.
    pub column: usize,
    /// Offset of the first column in the input of the interaction.
    pub offset: usize,
    /// Number of columns.
    pub width: usize,
    /// Number of columns of each vector that the columns are made of.
    pub vector: usize,
}

/// Origin of columns that leave a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputSource {
    /// Columns of a table, which pass through.
    Table {
        /// Index of the feature.
        feature: usize,
        /// Columns of the feature's table.
        columns: Range<usize>,
    },
    /// Output of the module of this tower.
    Tower(usize),
}

/// Route of some columns of a shard inside its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Index of the first column in the shard.
    pub from: usize,
    /// Tower that reads the columns; `None` for columns that pass through.
    pub tower: Option<usize>,
    /// Index of the first column in the input of the tower, or among the columns that leave the group.
    pub to: usize,
    /// Number of columns.
    pub width: usize,
}

/// Reason why SPTT cannot use a placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpttError {
    /// The groups belong to another cluster than the placement, or number its ranks differently.
    #[error(
        "the placement is for a cluster of {placement} ranks, the tower groups for one of {groups}, or they number ranks differently; \
         use one topology for both"
    )]
    Topology {
        /// Cluster of the placement.
        placement: Topology,
        /// Cluster of the groups.
        groups: Topology,
    },
    /// The peer permute does not match the numbering of the ranks.
    #[error("{}", permute_problem(*.permute))]
    Permute {
        /// Peer permute that was requested.
        permute: PeerPermute,
    },
    /// A table is replicated on every rank.
    #[error(
        "the table of {feature} is replicated, but SPTT needs every table in one tower group; give it another layout"
    )]
    Replicated {
        /// Name of the feature.
        feature: String,
    },
    /// The copies of a table are not on the ranks of one tower group.
    #[error(
        "the table of {feature} has copies on ranks {ranks:?}, but SPTT needs a copy on every rank of one tower group and on no \
         other, such as {group:?}; name these ranks"
    )]
    Copies {
        /// Name of the feature.
        feature: String,
        /// Ranks with a copy.
        ranks: Vec<usize>,
        /// Ranks of the tower group of the first of them.
        group: Vec<usize>,
    },
    /// The rows of a table are cut over ranks of several tower groups.
    #[error(
        "the rows of {feature} are cut over ranks {ranks:?}, but SPTT needs them cut over ranks of one tower group, such as \
         {group:?}"
    )]
    Rows {
        /// Name of the feature.
        feature: String,
        /// Ranks that hold rows of the feature's table.
        ranks: Vec<usize>,
        /// Ranks of the tower group of the first holder.
        group: Vec<usize>,
    },
    /// The features of a tower lie on several groups.
    #[error(
        "tower {tower} has {feature} on group {got} and other features on group {expected}; a tower module needs all its \
         features in one tower group"
    )]
    Spread {
        /// Index of the tower.
        tower: usize,
        /// Name of a feature of the tower.
        feature: String,
        /// Group of the tower's other features.
        expected: usize,
        /// Group of the named feature.
        got: usize,
    },
}

/// Message for a peer permute that does not match the numbering of ranks, with the remedy.
fn permute_problem(permute: PeerPermute) -> String {
    match permute {
        PeerPermute::None => {
            "peer_permute none needs ranks that are numbered in peer order; here they are numbered by host: use ids or vectors"
                .into()
        }
        permute => format!(
            "peer_permute {permute} needs ranks that are numbered by host; here they are already in peer order: use none"
        ),
    }
}

impl Deployment {
    /// Number of ranks among which the vectors of a table are exchanged: the world, or a tower group.
    pub fn members(&self) -> usize {
        self.dataflow.members(self.placement.topology())
    }

    /// Numbers of rows and columns of a feature's table.
    pub(crate) fn size_of_table(&self, feature: usize) -> (u64, u64) {
        (self.model.features()[feature].rows as u64, self.model.row_width(feature) as u64)
    }

    /// Tower group that alone has a dense parameter: one of its towers or of its tensor trains. `None` for parameters of the network, and
    /// where no dataflow goes by way of groups.
    pub(crate) fn group_of(&self, parameter: &Parameter) -> Option<usize> {
        self.dataflow.sptt()?.group_of(&self.placement, parameter)
    }

    /// Shards that `rank` alone holds and whose vectors or partial sums are sent one by one.
    pub fn sent_by(&self, rank: usize) -> &[Shard] {
        self.placement.sent_by(rank, self.members())
    }

    /// Shards whose partial sums are added up by a reduce-scatter, because every member has a piece of their rows.
    pub fn summed_by(&self, rank: usize) -> &[Shard] {
        self.placement.summed_by(rank, self.members())
    }

    /// Whether partial sums of any shard are added up by a reduce-scatter.
    pub fn sums(&self) -> bool {
        (0..self.placement.topology().ranks()).any(|rank| !self.summed_by(rank).is_empty())
    }
}

impl Dataflow {
    /// Number of ranks among which the vectors of a table are exchanged: the world, or a tower group.
    pub fn members(&self, topology: Topology) -> usize {
        self.sptt().map_or(topology.ranks(), |sptt| sptt.groups().size())
    }

    /// Name of the dataflow.
    pub fn kind(&self) -> DataflowKind {
        match self {
            Dataflow::Flat(_) => DataflowKind::Flat,
            Dataflow::Sptt(_) => DataflowKind::Sptt,
        }
    }

    /// Plan of SPTT; `None` for the flat dataflow.
    pub fn sptt(&self) -> Option<&Sptt> {
        match self {
            Dataflow::Flat(_) => None,
            Dataflow::Sptt(sptt) => Some(sptt),
        }
    }
}

impl Sptt {
    /// Derives the plan from a placement. `permute` is `None` if and only if ranks are numbered in peer order.
    pub fn new(
        model: &Model,
        placement: &Placement,
        groups: Groups,
        permute: PeerPermute,
    ) -> Result<Self, SpttError> {
        if placement.topology() != groups.topology() {
            return Err(SpttError::Topology { placement: placement.topology(), groups: groups.topology() });
        }
        let in_peer_order = matches!(groups.topology().numbering(), Numbering::ByPeer { .. });
        if in_peer_order != (permute == PeerPermute::None) {
            return Err(SpttError::Permute { permute });
        }
        check_holders(model, placement, groups)?;
        let columns = columns_by_feature(model);
        let mut group_of_tower: Vec<Option<usize>> = vec![None; model.towers().len()];
        let mut plans = vec![GroupPlan::default(); groups.count()];
        for (group, plan) in plans.iter_mut().enumerate() {
            let owned = groups.members(group).flat_map(|rank| placement.owned_by(rank));
            // Every member has a copy of the same tables.
            for shard in owned.chain(placement.copied_by(groups.rank(group, 0))) {
                let first = shard.piece() == 0;
                // A reduce-scatter brings the sum of all pieces, once.
                plan.input_width +=
                    if first || shard.row_pieces() < groups.size() { shard.columns.len() } else { 0 };
                if !first {
                    continue;
                }
                for part in overlapping(&columns, shard) {
                    let here = overlap(&shard.columns, &part.columns);
                    let Some((tower, _)) = part.tower else {
                        let offset = part.offset + here.start - part.columns.start;
                        let (width, source) =
                            (here.len(), OutputSource::Table { feature: shard.feature, columns: here });
                        plan.outputs.push(GroupOutput { source, column: 0, offset, width, vector: width });
                        continue;
                    };
                    match group_of_tower[tower].replace(group) {
                        Some(expected) if expected != group => {
                            let feature = model.features()[shard.feature].name.clone();
                            return Err(SpttError::Spread { tower, feature, expected, got: group });
                        }
                        Some(_) => {}
                        None => plan.towers.push(tower),
                    }
                }
            }
            plan.towers.sort_unstable();
        }
        let mut offset = model.tower_offset(0);
        let vector = |width: usize| match model.tower_module() {
            Module::Dlrm { d, .. } | Module::Dcn { d, .. } if width.is_multiple_of(d) => d,
            _ => width,
        };
        for (tower, group) in group_of_tower.iter().enumerate() {
            let width = model.towers()[tower].output_width();
            if let Some(group) = *group {
                plans[group].outputs.push(GroupOutput {
                    source: OutputSource::Tower(tower),
                    column: 0,
                    offset,
                    width,
                    vector: vector(width),
                });
            }
            offset += width;
        }
        plans.iter_mut().for_each(GroupPlan::arrange);
        Ok(Self { groups, permute, plans, columns, group_of_tower })
    }

    /// Tower groups of the plan.
    pub fn groups(&self) -> Groups {
        self.groups
    }

    /// Values that are brought into peer order.
    pub fn permute(&self) -> PeerPermute {
        self.permute
    }

    /// Inputs and outputs of a tower group.
    pub fn plan(&self, group: usize) -> &GroupPlan {
        &self.plans[group]
    }

    /// Group of a tower with a module; `None` for a tower without.
    pub fn group_of_tower(&self, tower: usize) -> Option<usize> {
        self.group_of_tower[tower]
    }

    /// Group that alone has a dense parameter, where tables lie by `placement`: one of its towers or of its tensor trains. `None` for
    /// parameters of the network.
    pub fn group_of(&self, placement: &Placement, parameter: &Parameter) -> Option<usize> {
        match parameter.owner {
            (BlockName::TOWERS, tower) => self.group_of_tower(tower),
            (BlockName::TENSOR_TRAINS, feature) => {
                let holders = &placement.shards_of(feature)[0].holders;
                Some(self.groups.group_of(holders.ranks()[0]))
            }
            _ => None,
        }
    }

    /// Routes of the columns of a shard inside its group.
    pub fn routes(&self, group: usize, shard: &Shard) -> Vec<Route> {
        let outputs = &self.plans[group].outputs;
        let route = |part: &Columns| {
            let here = overlap(&shard.columns, &part.columns);
            let (from, width) = (here.start - shard.columns.start, here.len());
            let into = here.start - part.columns.start;
            match part.tower {
                Some((tower, input)) => Route { from, tower: Some(tower), to: input + into, width },
                None => {
                    // Outputs are in the order of their places.
                    let at = outputs.partition_point(|output| output.offset < part.offset + into);
                    Route { from, tower: None, to: outputs[at].column, width }
                }
            }
        };
        overlapping(&self.columns, shard).map(route).collect()
    }
}

impl GroupPlan {
    /// Number of columns per sample that leave the group.
    pub fn output_width(&self) -> usize {
        self.outputs.last().map_or(0, |output| output.column + output.width)
    }

    /// Widths of the vectors of a sample that leave the group, in the order of their columns.
    pub fn vector_widths(&self) -> impl Iterator<Item = usize> {
        let vectors = |output: &GroupOutput| output.width.checked_div(output.vector).unwrap_or(0);
        self.outputs.iter().flat_map(move |output| std::iter::repeat_n(output.vector, vectors(output)))
    }

    /// Puts what leaves in the order in which the interaction sees it.
    fn arrange(&mut self) {
        self.outputs.sort_by_key(|output| output.offset);
        let mut column = 0;
        for output in &mut self.outputs {
            output.column = column;
            column += output.width;
        }
    }
}

/// Refuses copies that get every sample, copies on other ranks than those of a group, and rows that are cut over several
/// groups.
fn check_holders(model: &Model, placement: &Placement, groups: Groups) -> Result<(), SpttError> {
    for (f, feature) in model.features().iter().enumerate() {
        let shards = placement.shards_of(f);
        match shards[0].holders.copy_update() {
            None => {}
            Some(CopyUpdate::Samples) => {
                return Err(SpttError::Replicated { feature: feature.name.clone() });
            }
            Some(CopyUpdate::Rows | CopyUpdate::Cores) => {
                let ranks = shards[0].holders.ranks().to_vec();
                let group: Vec<usize> = groups.members(groups.group_of(ranks[0])).collect();
                if ranks != group {
                    return Err(SpttError::Copies { feature: feature.name.clone(), ranks, group });
                }
                continue;
            }
        }
        let columns = placement.column_pieces(f);
        for column in 0..columns {
            let strip = shards[column..].iter().step_by(columns);
            let ranks: Vec<usize> = strip.flat_map(|shard| shard.holders.ranks()).copied().collect();
            let group = groups.group_of(ranks[0]);
            if ranks.iter().any(|&rank| groups.group_of(rank) != group) {
                let (feature, group) = (feature.name.clone(), groups.members(group).collect());
                return Err(SpttError::Rows { feature, ranks, group });
            }
        }
    }
    Ok(())
}

/// Where the columns of every feature go. Without towers, they pass through.
fn columns_by_feature(model: &Model) -> Vec<Vec<Columns>> {
    if model.towers().is_empty() {
        let whole = |feature| Columns {
            columns: 0..model.row_width(feature),
            tower: None,
            offset: model.feature_offset(feature, 0),
        };
        return (0..model.features().len()).map(|feature| vec![whole(feature)]).collect();
    }
    let has_modules = model.has_tower_modules();
    let mut by_feature = vec![Vec::new(); model.features().len()];
    let mut output = model.tower_offset(0);
    for (t, tower) in model.towers().iter().enumerate() {
        let mut input = 0;
        for Member { feature, columns } in &tower.members {
            let offset =
                if has_modules { output + input } else { model.feature_offset(*feature, columns.start) };
            let seen = (!tower.passes_through()).then_some((t, input));
            by_feature[*feature].push(Columns { columns: columns.clone(), tower: seen, offset });
            input += columns.len();
        }
        output += tower.output_width();
    }
    by_feature
}

/// The parts of a feature that a shard has columns of.
fn overlapping<'a>(columns: &'a [Vec<Columns>], shard: &'a Shard) -> impl Iterator<Item = &'a Columns> {
    columns[shard.feature].iter().filter(|part| !overlap(&part.columns, &shard.columns).is_empty())
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    a.start.max(b.start)..a.end.min(b.end)
}
