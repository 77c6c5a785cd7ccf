//! Memory of the vectors between tables and samples, as the dataflows lay them out.

use super::Buffers;
use crate::codec::Codec;
use crate::dataflow::{AllToAll, Dataflow, PeerPermute, Sptt};
use crate::placement::width;

impl Buffers<'_> {
    /// Bytes of the vectors of `rank` between tables and samples, and of their gradients. Those that are looked up in place lie among
    /// the activations.
    pub fn vectors(&self, rank: usize) -> f64 {
        if self.in_place {
            return 0.0;
        }
        let copies = self.copies(rank);
        match &self.deployment.dataflow {
            Dataflow::Flat(all_to_all) => copies + self.flat(*all_to_all, rank),
            Dataflow::Sptt(sptt) => copies + self.by_groups(sptt, rank),
        }
    }

    /// Bytes of a leg that sends and receives so many floats, in so many `levels`: each level has what it exchanges once
    /// more, as it travels.
    fn leg(&self, send: f64, recv: f64, codec: Codec, levels: f64) -> f64 {
        let plain = self.floats(send) + self.floats(recv);
        match codec.encodes() {
            false => levels * plain,
            true => {
                let grown = self.rounding.grown;
                // Rows are vectors of the tables, or about as wide.
                let model = &self.deployment.model;
                let widths = || (0..model.features().len()).map(|feature| model.row_width(feature) as u64);
                let encoded: u64 = widths().map(|width| codec.encoded_bytes(1, width)).sum();
                let each = encoded as f64 / widths().sum::<u64>() as f64;
                plain + levels * (grown(each * send) + grown(each * recv))
            }
        }
    }

    fn flat(&self, all_to_all: AllToAll, rank: usize) -> f64 {
        let (placement, wire) = (&self.deployment.placement, self.deployment.wire);
        let (batch, samples) = (self.batch as f64, self.samples(rank) as f64);
        let (sent, summed) =
            (width(self.deployment.sent_by(rank)) as f64, width(self.deployment.summed_by(rank)) as f64);
        let held = sent + width(placement.replicated()) as f64;
        let replicated = self.floats(samples * width(placement.replicated()) as f64);
        let levels = if all_to_all == AllToAll::Hierarchical { 2.0 } else { 1.0 };
        let pooled = self.leg(batch * sent, samples * self.owned, wire.vectors, levels);
        let gradients = self.leg(samples * self.held, batch * held, wire.gradients, levels);
        let [sums, sum_gradients] = self.sums(summed, samples, placement.topology().ranks());
        replicated + pooled + sums + if self.trains { gradients + sum_gradients } else { 0.0 }
    }

    /// Bytes of the partial sums of so many columns, and of their gradients, where each of so many members has this many
    /// samples.
    fn sums(&self, columns: f64, samples: f64, members: usize) -> [f64; 2] {
        let (looked_up, sums) = (self.batch as f64 * columns, samples * columns);
        let both = self.floats(looked_up) + self.floats(sums);
        // Partial sums of all members wait side by side to be added.
        let members = if columns > 0.0 { members as f64 } else { 0.0 };
        [both + (self.rounding.exact)(4.0 * members * sums), both]
    }

    fn by_groups(&self, sptt: &Sptt, rank: usize) -> f64 {
        let (wire, groups) = (self.deployment.wire, sptt.groups());
        let (batch, samples) = (self.batch as f64, self.samples(rank) as f64);
        let (plan, peers) = (sptt.plan(groups.group_of(rank)), self.peer_samples(rank) as f64);
        let (whole, rows) =
            (width(self.deployment.sent_by(rank)) as f64, width(self.deployment.summed_by(rank)) as f64);
        let (looked_up, summed) = (batch * whole, batch * rows);
        let copied = width(self.deployment.placement.copied_by(rank)) as f64;
        let gathered = peers * (plan.input_width as f64 - rows - copied);
        let (leaving, arriving) = (peers * plan.output_width() as f64, samples * self.leaving);
        let [sums, sum_gradients] = self.sums(rows, peers, groups.size());
        let forward = self.leg(looked_up, gathered, wire.vectors, 1.0)
            + self.leg(leaving, arriving, wire.vectors, 1.0)
            + sums;
        let backward = self.leg(arriving, leaving, wire.gradients, 1.0)
            + self.leg(gathered, looked_up, wire.gradients, 1.0)
            + sum_gradients;
        let permuted = match sptt.permute() {
            PeerPermute::Vectors => self.floats(looked_up) + self.floats(summed),
            PeerPermute::Ids | PeerPermute::None => 0.0,
        };
        permuted + forward + if self.trains { permuted + backward } else { 0.0 }
    }
}
