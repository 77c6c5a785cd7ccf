//! Collectives that were prepared: the units of a vector, and the program of this rank.

use crate::communicator::Communicator;
use kernels::{Buffer, Device, Round};
use spec::codec::{Codec, Compensation};
use spec::program::{Algorithm, Program, Units};

/// A collective that encodes or adds, prepared for a rank: the units of its vector, and the program that the rank carries out.
/// Prepared once, it can be started any number of times without an allocation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prepared {
    /// Units of the vector.
    pub units: Units,
    /// Program of the rank.
    pub program: Program,
    /// Time that the encode or the decode of a float takes, in seconds, for a rank whose device computes nothing; 0 otherwise.
    pub(crate) float_s: f64,
    /// Whether the transport adds, in an order of its own, if it can. One that cannot carries out the program.
    pub(crate) by_transport: bool,
}

impl Prepared {
    /// Collective with these units and this program.
    pub fn new(units: Units, program: Program) -> Self {
        Self { units, program, float_s: 0.0, by_transport: false }
    }

    /// The collective as an all-reduce by `algorithm`: one of [`Algorithm::Nccl`] leaves the sum of floats to the transport, if
    /// that adds. Codecs other than f32 are encoded, sent and added by the program in any case.
    pub fn by(self, algorithm: Algorithm) -> Self {
        let by_transport = algorithm == Algorithm::Nccl && self.units.codec() == Codec::F32;
        Self { by_transport, ..self }
    }
}

/// What an all-reduce with a lossy codec needs besides its vector.
#[derive(Debug)]
pub struct Lossy {
    /// Errors that are carried from one step to the next: [`Program::error_len`] floats, at first zeros.
    pub error: Buffer<f32>,
    /// Rounding of values.
    pub round: Round,
}

impl Lossy {
    /// Carries no errors, and rounds to nearest.
    pub fn none(device: &Device) -> Self {
        Self { error: Buffer::new(device.for_exchange()), round: Round::Nearest }
    }
}

impl Communicator {
    /// Prepares an all-reduce of a vector among the members of this group.
    pub fn prepare_all_reduce(
        &self,
        units: Units,
        algorithm: Algorithm,
        compensation: Compensation,
    ) -> Prepared {
        let hosts = self.members().iter().map(|&member| self.topology().host_of(member));
        let hosts: Vec<usize> = hosts.collect();
        let program = Program::all_reduce(algorithm, &units, &hosts, self.rank(), compensation);
        Prepared::new(units, program).by(algorithm)
    }

    /// Prepares a direct all-reduce of `elements` floats.
    pub(crate) fn direct(&self, elements: usize) -> Prepared {
        let units = Units::of_tensors(Codec::F32, elements, &[]);
        self.prepare_all_reduce(units, Algorithm::Direct, Compensation::None)
    }
}
