//! The step of SPTT (DMT §3.1.1), forward and in reverse:
//!
//! ```text
//! a  ids to holders, over the world        b  lookup              c  peer permute of vectors, where they are permuted
//! d  vectors to the members of the group, each for its peers' samples; partial sums of rows by a reduce-scatter
//! e  transpose: features × peers → peers × features                  tower modules
//! f  what leaves the group, to the samples, among peers
//! ```

use super::build::Build;
use super::*;
use crate::dataflow::Sptt;

pub(super) fn build(mut build: Build, sptt: &Sptt) -> Schedule {
    let deployment = build.deployment;
    let steps = OptionalSteps {
        rows: deployment.sums(),
        copied: build.copied(),
        permute: sptt.permute() == PeerPermute::Vectors,
        towers: deployment.model.has_tower_modules(),
        groups_learn: build.groups_learn(),
    };
    steps.forward(&mut build);
    // Blocks that need no vector hide the exchange among peers, which crosses hosts.
    build.forward_before_vectors();
    build.arrive(Leg::Peer, Slot::Arrived);
    build.network(&[Slot::Arrived], &[Slot::PooledGradient]);
    if build.task == Task::Evaluate {
        build.index_ahead();
        return build.finish();
    }

    steps.backward(&mut build);
    build.update_dense(steps.groups_learn);
    if steps.groups_learn {
        build.update_towers();
    }
    build.finish()
}

/// Which of the optional steps there are.
struct OptionalSteps {
    /// Tables of whose rows every member of a group has a piece.
    rows: bool,
    /// Data-parallel tables, whose vectors need no exchange inside the group.
    copied: bool,
    /// Vectors brought into peer order.
    permute: bool,
    /// Tower modules.
    towers: bool,
    /// Parameters that each group has for itself.
    groups_learn: bool,
}

impl OptionalSteps {
    /// From the lookup to the exchange among peers.
    fn forward(&self, build: &mut Build) {
        let mut pooled = vec![Slot::Pooled];
        pooled.extend(self.rows.then_some(Slot::Partial));
        let mut looked_up = pooled.clone();
        looked_up.extend(self.copied.then_some(Slot::CopyPooled));
        build.lookup(&looked_up);
        let (mut whole, mut partial) = (Slot::Pooled, Slot::Partial);
        if self.permute {
            (whole, partial) = (Slot::PeerPooled, Slot::PeerPartial);
            let mut ordered = vec![whole];
            ordered.extend(self.rows.then_some(partial));
            build.compute(Operation::PermutePeers, &pooled, &ordered);
        }
        build.depart(Leg::Group, Group::Tower, whole, Slot::Gathered);
        if self.rows {
            build.sum_partials("group sums", Group::Tower, partial);
        }
        build.lookup_tensor_trains();
        // The next batch is read while vectors travel inside the group.
        build.read_ahead();
        build.arrive(Leg::Group, Slot::Gathered);
        let mut gathered = vec![Slot::Gathered];
        gathered.extend(self.rows.then_some(Slot::Summed));
        gathered.extend(self.copied.then_some(Slot::CopyPooled));
        let mut transposed = vec![Slot::Leaving];
        transposed.extend(self.towers.then_some(Slot::TowerInput));
        build.compute(Operation::Transpose, &gathered, &transposed);
        if self.towers {
            build.towers_forward();
        }
        build.depart(Leg::Peer, Group::Peers, Slot::Leaving, Slot::Arrived);
    }

    /// From the gradients of what the interaction saw to the tables.
    fn backward(&self, build: &mut Build) {
        build.depart(Leg::PeerGradient, Group::Peers, Slot::PooledGradient, Slot::LeavingGradient);
        build.backward_before_vectors();
        build.arrive(Leg::PeerGradient, Slot::LeavingGradient);
        if self.towers {
            build.towers_backward();
        }
        let mut reads = vec![Slot::LeavingGradient];
        reads.extend(self.towers.then_some(Slot::TowerInputGradient));
        let mut gathered = vec![Slot::GatheredGradient];
        gathered.extend(self.rows.then_some(Slot::SummedGradient));
        gathered.extend(self.copied.then_some(Slot::CopyGradient));
        build.compute(Operation::ReverseTranspose, &reads, &gathered);
        let (mut whole, mut partial) = (Slot::ArrivedGradient, Slot::ArrivedSumGradient);
        build.depart(Leg::GroupGradient, Group::Tower, Slot::GatheredGradient, whole);
        if self.rows {
            build.gather_sum_gradients("group gather", Group::Tower, partial);
        }
        build.sum_copies();
        build.tensor_train_gradients();
        // Sorting hides behind the exchange of gradients in the group, and behind the towers' reduction.
        build.index_ahead();
        build.arrive(Leg::GroupGradient, whole);
        let mut arrived = vec![whole];
        arrived.extend(self.rows.then_some(partial));
        if self.permute {
            (whole, partial) = (Slot::OrderedGradient, Slot::OrderedSumGradient);
            let mut ordered = vec![whole];
            ordered.extend(self.rows.then_some(partial));
            build.compute(Operation::ReversePermute, &arrived, &ordered);
            arrived = ordered;
        }
        if self.groups_learn {
            // The sum over groups hides behind the update of the tables.
            build.tower_norm();
        }
        build.update_tables(&arrived);
        build.update_copies();
    }
}
