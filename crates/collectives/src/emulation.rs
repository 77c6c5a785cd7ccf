//! Emulation: the programs of all members of a group, run in lockstep in one process.
//!
//! Every member does what a rank would do, step by step, with the same operations of the device. Where ranks exchange bytes, bytes
//! are copied from the memory of one member to that of another. So the result has the bits that a group of ranks would get.

use crate::steps::{DecodeStep, EncodeStep, of_encode};
use kernels::{Buffer, Bytes, Device, KernelError, Round};
use spec::codec::{Compensation, Row};
use spec::program::{Algorithm, Area, Program, Step, Units};
use std::ops::Range;

type Result<T = ()> = std::result::Result<T, KernelError>;

/// All-reduce among members that live in one process.
///
/// ```
/// use collectives::EmulatedAllReduce;
/// use kernels::{Buffer, Device, Round};
/// use spec::codec::{Codec, Compensation};
/// use spec::program::{Algorithm, Units};
/// let device = Device::cpu(1)?;
/// let units = Units::of_tensors(Codec::F32, 3, &[0..3]);
/// let mut sum = EmulatedAllReduce::new(&device, Algorithm::Ring, units, &[0, 0], Compensation::None)?;
/// let mut vectors = [[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]].map(|v| Buffer::from_slice(&device, &v).unwrap());
/// sum.run(&device, &mut vectors, |_| Round::Nearest)?;
/// assert_eq!(vectors[0].to_vec()?, [11.0, 22.0, 33.0]);
/// # Ok::<(), kernels::KernelError>(())
/// ```
#[derive(Debug)]
pub struct EmulatedAllReduce {
    units: Units,
    members: Vec<Member>,
    /// What moves in each exchange.
    exchanges: Vec<Vec<Transfer>>,
    rows: Vec<Row>,
}

/// Program of a member, and the memory that it needs besides the vector.
#[derive(Debug)]
struct Member {
    /// Steps between two exchanges, before the first and behind the last, each with its number in the program, from 1.
    stretches: Vec<Vec<(u64, Step)>>,
    scratch: [Buffer<u8>; 2],
    /// Errors that are carried from one run to the next.
    error: Buffer<f32>,
}

/// Bytes that go from the memory of one member to that of another.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    from: Place,
    to: Place,
    len: usize,
}

/// Place of bytes in an area of a member.
#[derive(Clone, Copy, Debug)]
struct Place {
    member: usize,
    area: Area,
    at: usize,
}

impl EmulatedAllReduce {
    /// All-reduce of the units of a vector among as many members as there are `hosts`; member `i` is on host `hosts[i]`.
    pub fn new(
        device: &Device,
        algorithm: Algorithm,
        units: Units,
        hosts: &[usize],
        compensation: Compensation,
    ) -> Result<Self> {
        let program = |me| Program::all_reduce(algorithm, &units, hosts, me, compensation);
        let programs: Vec<Program> = (0..hosts.len()).map(program).collect();
        let exchanges = transfers(&programs, true);
        let members = programs.iter().enumerate().map(|(i, program)| Member::new(device, program, i > 0));
        Ok(Self { members: members.collect::<Result<_>>()?, units, exchanges, rows: Vec::new() })
    }

    /// Adds up the vectors of all members, in the order of the algorithm. The first vector receives the result; what the others
    /// hold afterwards is unspecified. `round` says how a member rounds.
    pub fn run(
        &mut self,
        device: &Device,
        vectors: &mut [Buffer<f32>],
        round: impl Fn(usize) -> Round,
    ) -> Result {
        for stretch in 0..=self.exchanges.len() {
            for (i, vector) in vectors.iter_mut().enumerate() {
                self.carry_out(device, i, stretch, vector, round(i))?;
            }
            for transfer in self.exchanges.get(stretch).into_iter().flatten() {
                transfer.carry_out(device, &mut self.members, vectors)?;
            }
        }
        Ok(())
    }

    /// Carries out the steps of a member up to its next exchange.
    fn carry_out(
        &mut self,
        device: &Device,
        member: usize,
        stretch: usize,
        vector: &mut Buffer<f32>,
        round: Round,
    ) -> Result {
        let Self { units, rows, .. } = self;
        let Member { stretches, scratch, error } = &mut self.members[member];
        for (number, step) in &stretches[stretch] {
            match step {
                Step::Encode { units: range, from, area, at, error: carried } => {
                    let round = of_encode(round, *number);
                    let step =
                        EncodeStep { units: range.clone(), from: *from, at: *at, error: *carried, round };
                    step.carry_out(device, units, vector, &mut scratch[index(*area)], error, rows)?;
                }
                Step::Decode { units: range, blocks, area, at, into } => {
                    let step = DecodeStep { units: range.clone(), blocks: *blocks, at: *at, into: *into };
                    let [first, second] = scratch;
                    let (from, other) = if *area == Area::First { (first, second) } else { (second, first) };
                    if into.area == Area::Vector {
                        step.carry_out(device, units, from, vector, rows)?;
                        continue;
                    }
                    // Floats in a scratch area lie in its bytes.
                    let mut floats = other.take().into_bytes().into_buffer();
                    let decoded = step.carry_out(device, units, from, &mut floats, rows);
                    *other = floats.into_bytes().into_buffer();
                    decoded?;
                }
                Step::Exchange { .. } => {}
            }
        }
        Ok(())
    }

    /// Errors that each member carries to the next run.
    pub fn errors(&self) -> impl Iterator<Item = &Buffer<f32>> {
        self.members.iter().map(|member| &member.error)
    }

    /// Errors that each member carries to the next run, to be replaced.
    pub fn errors_mut(&mut self) -> impl Iterator<Item = &mut Buffer<f32>> {
        self.members.iter_mut().map(|member| &mut member.error)
    }
}

impl Member {
    /// Memory for a program. If nobody asks for the result of the member, steps that only make its result are left out.
    fn new(device: &Device, program: &Program, only_helps: bool) -> Result<Self> {
        let steps = program.steps();
        let needed = |i: usize, step: &Step| match step {
            Step::Decode { units, into, .. } if only_helps && into.area == Area::Vector => {
                steps[i + 1..].iter().any(|later| reads(later, units))
            }
            _ => true,
        };
        let mut stretches = vec![Vec::new()];
        for (i, step) in steps.iter().enumerate() {
            match step {
                Step::Exchange { .. } => stretches.push(Vec::new()),
                step if needed(i, step) => {
                    stretches.last_mut().unwrap_or(&mut Vec::new()).push((i as u64 + 1, step.clone()));
                }
                _ => {}
            }
        }
        let [first, second] = program.scratch();
        // Whole floats, where the area holds floats.
        let area = |bytes: usize| Buffer::zeroed(device.for_exchange(), bytes.next_multiple_of(4));
        let error = Buffer::zeroed(device, program.error_len())?;
        Ok(Self { stretches, scratch: [area(first)?, area(second)?], error })
    }
}

/// Whether a step reads some of these units of the vector.
fn reads(step: &Step, units: &Range<usize>) -> bool {
    let overlaps = |other: &Range<usize>| other.start < units.end && units.start < other.end;
    match step {
        Step::Encode { units, .. } => overlaps(units),
        Step::Decode { units, into, .. } => into.area == Area::Vector && into.add && overlaps(units),
        Step::Exchange { from, .. } => *from == Area::Vector,
    }
}

/// What moves in each exchange of all members: what one sends to another, to where the other receives it. If `only_first`, nobody
/// asks for the results of the others.
fn transfers(programs: &[Program], only_first: bool) -> Vec<Vec<Transfer>> {
    let exchanges = |program: &Program| -> Vec<(Area, Area, Range<usize>, Range<usize>)> {
        let exchange = |step: &Step| match step {
            Step::Exchange { from, to, sends, receives } => {
                Some((*from, *to, sends.clone(), receives.clone()))
            }
            _ => None,
        };
        program.steps().iter().filter_map(exchange).collect()
    };
    let all: Vec<_> = programs.iter().map(exchanges).collect();
    let of_exchange = |e: usize| {
        let mut transfers = Vec::new();
        for (to, program) in programs.iter().enumerate() {
            let (_, area, _, receives) = &all[to][e];
            let last = all[to][e..].iter().all(|(from, ..)| *from != Area::Vector);
            if *area == Area::Vector && last && only_first && to > 0 {
                continue;
            }
            for received in &program.moves()[receives.clone()] {
                let sender = received.member;
                let (from, _, sends, _) = &all[sender][e];
                let sent = programs[sender].moves()[sends.clone()].iter().find(|sent| sent.member == to);
                let Some(sent) = sent else { continue };
                let from = Place { member: sender, area: *from, at: sent.at };
                let to = Place { member: to, area: *area, at: received.at };
                transfers.push(Transfer { from, to, len: received.len });
            }
        }
        transfers
    };
    (0..all.first().map_or(0, Vec::len)).map(of_exchange).collect()
}

impl Transfer {
    fn carry_out(self, device: &Device, members: &mut [Member], vectors: &mut [Buffer<f32>]) -> Result {
        let Self { from, to, len } = self;
        // In an exchange a member sends from another area than it receives into, so that these are two pieces of memory.
        let (mut target, source) = (to.take(members, vectors), from.take(members, vectors));
        let copied = device.copy(&mut target, to.at, &source, from.at, len);
        to.put_back(members, vectors, target);
        from.put_back(members, vectors, source);
        copied
    }
}

impl Place {
    /// Takes the memory of the area out.
    fn take(self, members: &mut [Member], vectors: &mut [Buffer<f32>]) -> Bytes {
        match self.area {
            Area::Vector => vectors[self.member].take().into_bytes(),
            area => members[self.member].scratch[index(area)].take().into_bytes(),
        }
    }

    /// Puts the memory back that was taken out.
    fn put_back(self, members: &mut [Member], vectors: &mut [Buffer<f32>], memory: Bytes) {
        match self.area {
            Area::Vector => vectors[self.member] = memory.into_buffer(),
            area => members[self.member].scratch[index(area)] = memory.into_buffer(),
        }
    }
}

/// Index of a scratch area.
fn index(area: Area) -> usize {
    usize::from(area == Area::Second)
}

#[cfg(test)]
mod tests;
