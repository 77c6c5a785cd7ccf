//! How values are rounded when they are encoded for the wire.

use kernels::Round;
use spec::codec;
use spec::random::RandomSequence;
use spec::run::Run;

/// Rounding of one rank. Random numbers follow from the seed, the phase, the step and the rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounding {
    rounding: codec::Rounding,
    seed: u64,
    rank: u64,
    ranks: u64,
}

impl Rounding {
    /// Rounding of `rank` in a run.
    pub fn new(run: &Run, rank: usize) -> Self {
        let ranks = run.topology().ranks() as u64;
        Self { rounding: run.wire.rounding, seed: run.seed, rank: rank as u64, ranks }
    }

    /// Rounding of one of `nodes` nodes that the only rank of a run emulates.
    pub fn of_node(run: &Run, node: usize, nodes: usize) -> Self {
        Self { rounding: run.wire.rounding, seed: run.seed, rank: node as u64, ranks: nodes as u64 }
    }

    /// Rounding of the values that a leg or a phase of this name encodes in a step.
    pub fn of(&self, name: &str, step: u64) -> Round {
        match self.rounding {
            codec::Rounding::Nearest => Round::Nearest,
            codec::Rounding::Stochastic => {
                let keys = RandomSequence::new(self.seed, name);
                Round::Stochastic { key: keys.bits(step.wrapping_mul(self.ranks).wrapping_add(self.rank)) }
            }
        }
    }
}
