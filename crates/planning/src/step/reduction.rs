//! Reductions of a schedule: the stages of their programs, as the busiest member of a group has them.
//!
//! A [`Program`] says what one member encodes, sends, decodes and adds. A stage is one of its exchanges, with the encodes before
//! the first exchange and the decodes and encodes after each one. Cost models read stages and know no algorithm.
//!
//! ```
//! use planning::step::{Reduction, Transfer};
//! use spec::codec::{Codec, Compensation};
//! use spec::program::{Algorithm, Program, Units};
//! use spec::schedule::CollectiveKind;
//! // 4000 bytes on two hosts of two members each: inside hosts, twice between hosts, and inside hosts again.
//! let (units, hosts) = (Units::of_tensors(Codec::F32, 1000, &[0..1000]), [0, 0, 1, 1]);
//! let program = |me| Program::all_reduce(Algorithm::TwoLevel, &units, &hosts, me, Compensation::None);
//! let vector = Transfer::of_vector(CollectiveKind::AllReduce, 4, 2, 4000.0);
//! let reduction = Reduction::new(vector, &units, &hosts, program);
//! let network: Vec<u64> = reduction.stages.iter().map(|stage| stage.sent.network).collect();
//! assert_eq!(network, [0, 1000, 1000, 0]);
//! ```

use super::Transfer;
use spec::program::{Program, Sent, Step, Units};

/// A reduction, or a gather, by its program.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduction {
    /// Vector that is reduced, for cost models that know no stages.
    pub vector: Transfer,
    /// Exchanges of the program, in order.
    pub stages: Vec<Stage>,
}

/// An exchange of a program, and what is computed for it. Every amount is that of the member that has most of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// Bytes and messages that a member sends to others.
    pub sent: Sent,
    /// Number of encodes and decodes.
    pub computations: u64,
    /// Bytes of memory that encodes and decodes touch. Floats that are added as they arrive, without a codec, count as part of
    /// the exchange: the bandwidths of links were measured with them.
    pub computed_bytes: u64,
}

/// Number of members up to which the program of each is looked at.
const FEW: usize = 64;

impl Reduction {
    /// Reduction of `units` among members of which member `i` is on host `hosts[i]` and has the program `program(i)`.
    ///
    /// Of more than 64 members, those are looked at that may differ: the first and the last member of a host, on the first host,
    /// the last one, and those before and behind a power of two, where members of recursive doubling change their roles. The
    /// largest share of any other member is at most one unit larger.
    pub fn new(vector: Transfer, units: &Units, hosts: &[usize], program: impl Fn(usize) -> Program) -> Self {
        let mut stages: Vec<Stage> = Vec::new();
        for member in looked_at(hosts) {
            let of_member = Stage::of_program(&program(member), units, hosts);
            stages.resize(stages.len().max(of_member.len()), Stage::default());
            stages.iter_mut().zip(&of_member).for_each(|(most, stage)| most.raise(stage));
        }
        Self { vector, stages }
    }
}

impl Stage {
    /// Stages of the program of one member.
    pub fn of_program(program: &Program, units: &Units, hosts: &[usize]) -> Vec<Self> {
        let mut stages: Vec<Stage> =
            program.stages(hosts).map(|sent| Stage { sent, ..Stage::default() }).collect();
        if !units.codec().encodes() {
            return stages;
        }
        let mut exchanges = 0usize;
        for step in program.steps() {
            let bytes = match step {
                Step::Exchange { .. } => {
                    exchanges += 1;
                    continue;
                }
                Step::Encode { units: encoded, error, .. } => {
                    // Of a compensated value, the error is read and written too.
                    let floats = if error.is_some() { 3 } else { 1 };
                    floats * size_of::<f32>() * units.extent(encoded.clone()) + units.bytes(encoded.clone())
                }
                Step::Decode { units: decoded, blocks, into, .. } => {
                    let floats = if into.add { 2 } else { 1 };
                    floats * size_of::<f32>() * units.extent(decoded.clone())
                        + blocks * units.bytes(decoded.clone())
                }
            };
            if let Some(stage) = stages.get_mut(exchanges.saturating_sub(1)) {
                stage.computations += 1;
                stage.computed_bytes += bytes as u64;
            }
        }
        stages
    }

    /// Raises every amount to that of another member.
    fn raise(&mut self, other: &Stage) {
        let (sent, more) = (&mut self.sent, &other.sent);
        sent.host = sent.host.max(more.host);
        sent.network = sent.network.max(more.network);
        sent.messages = sent.messages.max(more.messages);
        sent.network_messages = sent.network_messages.max(more.network_messages);
        self.computations = self.computations.max(other.computations);
        self.computed_bytes = self.computed_bytes.max(other.computed_bytes);
    }
}

/// Members whose programs speak for all, of members that lie host by host.
fn looked_at(hosts: &[usize]) -> Vec<usize> {
    if hosts.len() <= FEW {
        return (0..hosts.len()).collect();
    }
    let mut ends: Vec<[usize; 2]> = Vec::new();
    for of_host in hosts.chunk_by(|a, b| a == b) {
        let first = ends.last().map_or(0, |[_, last]| last + 1);
        ends.push([first, first + of_host.len() - 1]);
    }
    let differs = |host: usize| {
        host == 0 || host.is_power_of_two() || (host + 1).is_power_of_two() || host + 1 == ends.len()
    };
    let hosts = ends.iter().enumerate().filter(|(host, _)| differs(*host));
    let mut members: Vec<usize> = hosts.flat_map(|(_, &ends)| ends).collect();
    members.dedup();
    members
}

#[cfg(test)]
mod tests;
