//! Routes of the columns in the exchanges of one rank: the part of SPTT that does not depend on the batch.

use super::super::order::Order;
use super::super::tables::columns;
use super::super::{merge, reversed};
use kernels::ColumnCopy;
use spec::dataflow::{GroupOutput, GroupPlan, OutputSource, PeerPermute, Route, Sptt};
use spec::model::Model;
use spec::placement::{Placement, Shard, width};
use spec::topology::Groups;
use std::ops::Range;

/// Routes of the columns of one rank's exchanges.
#[derive(Debug)]
pub struct SpttRoutes {
    pub groups: Groups,
    /// Index of this rank in its group.
    pub index: usize,
    pub permute: PeerPermute,
    /// All ranks in peer order.
    pub peer_order: Vec<usize>,
    /// Tables of the rank whose vectors or partial sums are sent one by one, side by side.
    pub sent: HeldTables,
    /// Tables of whose rows every member has a piece, side by side.
    pub summed: HeldTables,
    pub table_columns: Vec<usize>,
    /// Columns that each member of the group sends in step d, and where they go.
    pub members: Vec<(usize, Vec<TransposeCopies>)>,
    /// Where the sums of these tables go.
    pub sums: Vec<TransposeCopies>,
    /// Where the vectors of data-parallel tables go.
    pub copied: Vec<TransposeCopies>,
    /// The group's towers with modules, and where the output of each begins among what leaves.
    pub towers: Vec<(usize, usize)>,
    pub leaving_width: usize,
    /// Columns that arrive from each group, and where they go in the order that the interaction sees.
    pub arriving: Vec<(usize, Vec<ColumnCopy>)>,
    /// Where gradients go that return to each group.
    pub returning: Vec<Vec<ColumnCopy>>,
    pub order: Order,
}

/// Tables held here that are exchanged in one way.
#[derive(Debug)]
pub struct HeldTables {
    /// Range of the rank's tables.
    pub tables: Range<usize>,
    /// Columns of all these tables, side by side.
    pub width: usize,
}

/// Columns of what a member sent that go to one place.
#[derive(Debug)]
pub struct TransposeCopies {
    /// Index of the tower of the group that reads the columns; `None` for columns that pass through.
    pub tower: Option<usize>,
    pub copies: Vec<ColumnCopy>,
    /// Columns of partial sums that are added to what an earlier member sent.
    pub adds: Vec<ColumnCopy>,
    /// Copies of the gradients of these columns, the other way.
    pub back: Vec<ColumnCopy>,
}

impl SpttRoutes {
    /// The routes of `rank`.
    pub fn new(model: &Model, placement: &Placement, plan: &Sptt, rank: usize) -> Self {
        let groups = plan.groups();
        let (group, index) = (groups.group_of(rank), groups.index_of(rank));
        let here = plan.plan(group);
        let members = groups.size();
        let (sent, summed) = (placement.sent_by(rank, members), placement.summed_by(rank, members));
        let transposed = |shards: &[Shard]| {
            let routes = shards.iter().zip(columns(shards)).flat_map(|(shard, at)| {
                let at_column = move |route: Route| Route { from: at + route.from, ..route };
                // Members hold the pieces of a table's rows in ascending order; a reduce-scatter has added them up.
                let adds = shard.piece() > 0 && shard.row_pieces() < members;
                plan.routes(group, shard).into_iter().map(move |route| (at_column(route), adds))
            });
            by_place(routes.collect(), &here.towers)
        };
        let arriving: Vec<(usize, Vec<ColumnCopy>)> =
            (0..groups.count()).map(|g| into_order(plan.plan(g))).collect();
        Self {
            groups,
            index,
            permute: plan.permute(),
            peer_order: groups.peer_order(),
            sent: HeldTables { tables: 0..sent.len(), width: width(sent) },
            summed: HeldTables { tables: sent.len()..sent.len() + summed.len(), width: width(summed) },
            // Data-parallel tables have columns of their own.
            table_columns: columns(sent)
                .into_iter()
                .chain(columns(summed))
                .chain(placement.copied_by(rank).iter().map(|_| 0))
                .collect(),
            members: groups
                .members(group)
                .map(|member| placement.sent_by(member, members))
                .map(|shards| (width(shards), transposed(shards)))
                .collect(),
            sums: transposed(summed),
            copied: transposed(placement.copied_by(rank)),
            towers: here
                .outputs
                .iter()
                .filter_map(|output| match output.source {
                    OutputSource::Tower(tower) => Some((tower, output.column)),
                    OutputSource::Table { .. } => None,
                })
                .collect(),
            leaving_width: here.output_width(),
            returning: arriving.iter().map(|(_, copies)| reversed(copies.clone())).collect(),
            arriving,
            order: Order::new(model),
        }
    }
}

/// How wide what leaves a group is, and where it goes in the order that the interaction sees.
fn into_order(plan: &GroupPlan) -> (usize, Vec<ColumnCopy>) {
    let copy = |o: &GroupOutput| ColumnCopy { from: o.column, to: o.offset, width: o.width };
    (plan.output_width(), merge(plan.outputs.iter().map(copy).collect()))
}

/// Routes by where they go, each place once; with each route, whether its columns are added to others.
fn by_place(routes: Vec<(Route, bool)>, towers: &[usize]) -> Vec<TransposeCopies> {
    let mut places: Vec<Option<usize>> = routes.iter().map(|(route, _)| route.tower).collect();
    places.sort_unstable();
    places.dedup();
    let of_place = |place: Option<usize>| {
        let copies = |which: &dyn Fn(bool) -> bool| {
            let here = routes.iter().filter(|(route, adds)| route.tower == place && which(*adds));
            merge(here.map(|(r, _)| ColumnCopy { from: r.from, to: r.to, width: r.width }).collect())
        };
        let of_group =
            |tower| towers.iter().position(|&t| t == tower).expect("a plan lists its group's towers");
        TransposeCopies {
            tower: place.map(of_group),
            copies: copies(&|adds| !adds),
            adds: copies(&|adds| adds),
            back: reversed(copies(&|_| true)),
        }
    };
    places.into_iter().map(of_place).collect()
}
