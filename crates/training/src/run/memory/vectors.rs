//! What vectors take on their way between tables and samples, as the dataflows lay them out.

use super::sizes::{exactly, floats, grown, samples_of};
use kernels::ColumnCopy;
use spec::dataflow::{AllToAll, Dataflow, PeerPermute, Sptt};
use spec::model::TowerModule;
use spec::placement::width;
use spec::run::Run;
use spec::topology::Groups;
use spec::wire::Format;

/// What all ranks of a dataflow have in common.
pub(super) struct Legs {
    trains: bool,
    /// Columns that all ranks own and hold, added up.
    owned: f64,
    held: f64,
    /// Copies of columns that a flat rank lists for all ranks.
    copies: f64,
    hierarchical: bool,
    /// Samples of the ranks of each index, and columns that leave all groups.
    peer_samples: Vec<usize>,
    leaving: f64,
}

/// Bytes of a leg that sends and receives so many floats, in so many `levels`: each level has what it exchanges once more, as
/// it travels.
fn leg(send: f64, recv: f64, format: Format, levels: f64) -> f64 {
    let plain = floats(send) + floats(recv);
    match format.encodes() {
        false => levels * plain,
        true => plain + levels * (grown(2.0 * send) + grown(2.0 * recv)),
    }
}

impl Legs {
    pub(super) fn new(run: &Run, trains: bool) -> Self {
        let placement = &run.placement;
        let all = |of: &dyn Fn(usize) -> usize| {
            (0..placement.topology().ranks()).map(|rank| of(rank) as f64).sum::<f64>()
        };
        let shards = |rank| placement.held_by(rank).len() + placement.owned_by(rank).len();
        let of_index =
            |groups: Groups, index: usize| groups.peers(index).map(|rank| samples_of(run, rank)).sum();
        let sptt = run.dataflow.sptt();
        Self {
            trains,
            owned: all(&|rank| width(placement.owned_by(rank))),
            held: all(&|rank| width(placement.held_by(rank))),
            copies: if sptt.is_some() { 0.0 } else { all(&shards) },
            hierarchical: run.dataflow == Dataflow::Flat(AllToAll::Hierarchical),
            peer_samples: sptt.map_or(Vec::new(), |sptt| {
                let groups = sptt.groups();
                (0..groups.size()).map(|index| of_index(groups, index)).collect()
            }),
            leaving: sptt.map_or(0.0, |sptt| {
                (0..sptt.groups().count()).map(|group| sptt.plan(group).output_width() as f64).sum()
            }),
        }
    }

    /// Groups that the world is divided into, and their size.
    pub(super) fn divided(run: &Run) -> Option<(usize, usize)> {
        let groups = match &run.dataflow {
            Dataflow::Flat(AllToAll::Flat) => return None,
            Dataflow::Flat(AllToAll::Hierarchical) => Groups::of_hosts(run.topology()),
            Dataflow::Sptt(sptt) => sptt.groups(),
        };
        Some((groups.count(), groups.size()))
    }

    /// Samples of `rank` and its peers, where there are groups.
    pub(super) fn peer_samples(&self, run: &Run, rank: usize) -> usize {
        run.dataflow.sptt().map_or(0, |sptt| self.peer_samples[sptt.groups().index_of(rank)])
    }

    /// Bytes of what a rank lists of all others: where the columns of each go.
    pub(super) fn listed(&self) -> f64 {
        self.copies * size_of::<ColumnCopy>() as f64
    }

    /// Bytes of the vectors of `rank`, and of their gradients.
    pub(super) fn of_rank(&self, run: &Run, rank: usize) -> f64 {
        match &run.dataflow {
            Dataflow::Flat(_) => self.flat(run, rank),
            Dataflow::Sptt(sptt) => self.sptt(run, sptt, rank),
        }
    }

    fn flat(&self, run: &Run, rank: usize) -> f64 {
        let placement = &run.placement;
        let (batch, samples) = (run.batch as f64, samples_of(run, rank) as f64);
        let (owned, held) = (width(placement.owned_by(rank)) as f64, width(placement.held_by(rank)) as f64);
        let replicated = floats(samples * width(placement.replicated()) as f64);
        let levels = if self.hierarchical { 2.0 } else { 1.0 };
        let pooled = leg(batch * owned, samples * self.owned, run.wire.vectors, levels);
        let gradients = leg(samples * self.held, batch * held, run.wire.gradients, levels);
        replicated + pooled + if self.trains { gradients } else { 0.0 }
    }

    fn sptt(&self, run: &Run, sptt: &Sptt, rank: usize) -> f64 {
        let (placement, groups) = (&run.placement, sptt.groups());
        let (batch, samples) = (run.batch as f64, samples_of(run, rank) as f64);
        let (plan, peers) = (sptt.plan(groups.group_of(rank)), self.peer_samples(run, rank) as f64);
        let (whole, rows) = (width(placement.whole_by(rank)) as f64, width(placement.rows_by(rank)) as f64);
        let (looked_up, summed) = (batch * whole, batch * rows);
        let (gathered, sums) = (peers * (plan.input_width as f64 - rows), peers * rows);
        let (leaving, arriving) = (peers * plan.output_width() as f64, samples * self.leaving);
        // Partial sums of all members wait side by side to be added.
        let members = if rows > 0.0 { groups.size() as f64 } else { 0.0 };
        let forward = leg(looked_up, gathered, run.wire.vectors, 1.0)
            + leg(leaving, arriving, run.wire.vectors, 1.0)
            + floats(summed)
            + floats(sums)
            + exactly(members * sums);
        let backward = leg(arriving, leaving, run.wire.gradients, 1.0)
            + leg(gathered, looked_up, run.wire.gradients, 1.0)
            + floats(sums)
            + floats(summed);
        let permuted = match sptt.permute() {
            PeerPermute::Vectors => floats(looked_up) + floats(summed),
            PeerPermute::Ids | PeerPermute::None => 0.0,
        };
        let towers: f64 = plan.towers.iter().map(|&tower| self.tower(run, tower, peers)).sum();
        towers + permuted + forward + if self.trains { permuted + backward } else { 0.0 }
    }

    /// What a tower module sees, makes of it and gives, and the gradients of all.
    fn tower(&self, run: &Run, tower: usize, samples: f64) -> f64 {
        let tower = &run.model.towers()[tower];
        let of = |width: usize| floats(samples * width as f64);
        let (input, output) = (of(tower.input_width()), of(tower.output_width()));
        let (kept, back) = match &tower.module {
            TowerModule::PassThrough | TowerModule::Projection { .. } => (0.0, 0.0),
            TowerModule::Cross { layer, .. } => {
                let inner = of(layer.v.as_ref().map_or(0, |v| v.outputs));
                (inner + 2.0 * input, inner + 3.0 * input)
            }
        };
        input + output + kept + if self.trains { input + output + back } else { 0.0 }
    }
}
