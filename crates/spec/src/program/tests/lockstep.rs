//! Slow interpreter of programs: all members in lockstep, over bytes that say what they are instead of holding numbers.

use crate::codec::Row;
use crate::program::{Area, Program, Step, Units};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Byte of a value: which value, of which unit, and which byte of the unit. Encoded values and floats have other bytes.
pub(super) type Cell = Option<(u32, usize, usize)>;

/// Value of a unit, as an expression over values made before it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Value {
    /// What a member put in.
    Own { member: usize, unit: usize },
    /// Sum, in this order.
    Sum(Vec<u32>),
    /// Result of a lossy encode: step `step` of `member`. Decoding gives one value whoever decodes it.
    Encoded { of: u32, member: usize, step: usize },
}

/// Values, each once, and the members whose contributions are in them.
#[derive(Default)]
pub(super) struct Values {
    known: HashMap<Value, u32>,
    pub(super) list: Vec<(Value, u128)>,
}

impl Values {
    pub(super) fn id(&mut self, value: Value) -> u32 {
        if let Some(&id) = self.known.get(&value) {
            return id;
        }
        let members = match &value {
            Value::Own { member, .. } => 1 << member,
            Value::Encoded { of, .. } => self.list[*of as usize].1,
            Value::Sum(terms) => terms.iter().fold(0, |sum, &term| {
                let more = self.list[term as usize].1;
                assert_eq!(sum & more, 0, "a contribution is added twice");
                sum | more
            }),
        };
        let id = self.list.len() as u32;
        self.list.push((value.clone(), members));
        self.known.insert(value, id);
        id
    }
}

/// Memory of one member: vector, output, first and second scratch area.
struct Memory([Vec<Cell>; 4]);

impl Memory {
    fn area(&mut self, area: Area) -> &mut Vec<Cell> {
        &mut self.0[match area {
            Area::Vector => 0,
            Area::Output => 1,
            Area::First => 2,
            Area::Second => 3,
        }]
    }
}

/// Interpreter of the programs of all members.
pub(super) struct Lockstep<'a> {
    units: &'a Units,
    programs: &'a [Program],
    memories: Vec<Memory>,
    pub(super) values: Values,
}

/// Rows of units in a buffer whose first value lies at float `at`, one by one.
fn rows(units: &Units, range: Range<usize>, at: usize) -> Vec<(usize, Row)> {
    let mut pattern = Vec::new();
    let repeats = units.rows(range.clone(), at, &mut pattern);
    let mut rows = Vec::new();
    for k in 0..repeats.count {
        for row in &pattern {
            let (at, byte) = (row.at + k * repeats.floats, row.byte + k * repeats.bytes);
            match units.codec().by_rows() {
                true => rows.push((range.start + rows.len(), Row { at, byte, width: row.width })),
                false => rows.extend((0..row.width).map(|i| {
                    let unit = range.start + i;
                    (unit, Row { at: at + i, byte: units.byte(unit), width: 1 })
                })),
            }
        }
    }
    assert_eq!(rows.len(), range.len());
    rows
}

impl<'a> Lockstep<'a> {
    /// Makes the memories of members: `held` are the units in a member's vector, which is `floats` floats long; the output has
    /// `output` floats.
    pub(super) fn new(
        units: &'a Units,
        programs: &'a [Program],
        held: impl Fn(usize) -> (Range<usize>, usize),
        floats: impl Fn(usize) -> [usize; 2],
    ) -> Self {
        let mut values = Values::default();
        let memory = |(member, program): (usize, &Program)| {
            let ([vector, output], [first, second]) = (floats(member), program.scratch());
            let mut memory = Memory([vector * 4, output * 4, first, second].map(|len| vec![None; len]));
            let (held, at) = held(member);
            for (unit, row) in rows(units, held, at) {
                let value = values.id(Value::Own { member, unit });
                let cells = &mut memory.area(Area::Vector)[row.at * 4..][..row.width * 4];
                cells.iter_mut().enumerate().for_each(|(k, cell)| *cell = Some((value, unit, k)));
            }
            memory
        };
        let memories = programs.iter().enumerate().map(memory).collect();
        Self { units, programs, memories, values }
    }

    /// Runs all programs to their ends.
    pub(super) fn run(&mut self) {
        let mut next = vec![0; self.programs.len()];
        for exchange in 0..=self.programs[0].exchanges() {
            for (member, step) in next.iter_mut().enumerate() {
                let steps = self.programs[member].steps();
                while *step < steps.len() && !matches!(steps[*step], Step::Exchange { .. }) {
                    self.compute(member, *step);
                    *step += 1;
                }
                let ended = *step == steps.len();
                assert_eq!(ended, exchange == self.programs[0].exchanges(), "exchanges differ in number");
            }
            if exchange < self.programs[0].exchanges() {
                self.exchange(&next);
                next.iter_mut().for_each(|step| *step += 1);
            }
        }
    }

    /// Runs an encode or a decode.
    fn compute(&mut self, member: usize, step: usize) {
        let (units, identity) = (self.units, !self.units.codec().encodes());
        match self.programs[member].steps()[step].clone() {
            Step::Encode { units: range, from, area, at, error } => {
                assert!(matches!(area, Area::First | Area::Second) && !(identity && error.is_some()));
                let first = units.byte(range.start);
                for (unit, row) in rows(units, range, from) {
                    let floats = &self.memories[member].area(Area::Vector)[row.at * 4..][..row.width * 4];
                    let of = one_value(floats, unit, row.width * 4);
                    let value = match identity {
                        true => of,
                        false => self.values.id(Value::Encoded { of, member, step }),
                    };
                    let len = units.bytes(unit..unit + 1);
                    let bytes = &mut self.memories[member].area(area)[at + row.byte - first..][..len];
                    bytes.iter_mut().enumerate().for_each(|(k, byte)| *byte = Some((value, unit, k)));
                }
            }
            Step::Decode { units: range, blocks, area, at, into } => {
                let scratch = matches!(into.area, Area::First | Area::Second);
                assert!(matches!(area, Area::First | Area::Second) && into.area != area && blocks > 0);
                assert!(!scratch || identity);
                let (first, size) = (units.byte(range.start), units.bytes(range.clone()));
                for (unit, row) in rows(units, range, into.at) {
                    let (len, mut terms) = (units.bytes(unit..unit + 1), Vec::new());
                    let place = row.at * 4..(row.at + row.width) * 4;
                    if into.add {
                        let held = &self.memories[member].area(into.area)[place.clone()];
                        terms.push(one_value(held, unit, row.width * 4));
                    }
                    for block in 0..blocks {
                        let at = at + block * size + row.byte - first;
                        terms.push(one_value(&self.memories[member].area(area)[at..at + len], unit, len));
                    }
                    let value = if terms.len() == 1 { terms[0] } else { self.values.id(Value::Sum(terms)) };
                    let floats = &mut self.memories[member].area(into.area)[place];
                    floats.iter_mut().enumerate().for_each(|(k, cell)| *cell = Some((value, unit, k)));
                }
            }
            Step::Exchange { .. } => unreachable!("an exchange runs on all members at once"),
        }
    }

    /// Runs step `next[i]` of every member `i`: an exchange.
    fn exchange(&mut self, next: &[usize]) {
        let mut messages = BTreeMap::new();
        for (member, program) in self.programs.iter().enumerate() {
            let Step::Exchange { from, to, sends, .. } = &program.steps()[next[member]] else {
                unreachable!()
            };
            assert_ne!(from, to);
            for sent in &program.moves()[sends.clone()] {
                let cells = &self.memories[member].area(*from)[sent.at..sent.at + sent.len];
                assert!(cells.iter().all(Option::is_some), "bytes are sent that nothing was written to");
                let twice = messages.insert((member, sent.member), cells.to_vec());
                assert!(twice.is_none() && sent.len > 0);
            }
        }
        for (member, program) in self.programs.iter().enumerate() {
            let Step::Exchange { to, receives, .. } = &program.steps()[next[member]] else { unreachable!() };
            let received = &program.moves()[receives.clone()];
            assert!(disjoint(received.iter().map(|each| each.at..each.at + each.len)));
            for each in received {
                let cells =
                    messages.remove(&(each.member, member)).expect("a member sends what one receives");
                assert_eq!(cells.len(), each.len, "a member sends as much as one receives");
                self.memories[member].area(*to)[each.at..each.at + each.len].copy_from_slice(&cells);
            }
        }
        assert!(messages.is_empty(), "a member receives what one sends");
    }

    /// Value of each of the units that `area` of a member holds from float `at` on.
    pub(super) fn result(&mut self, member: usize, area: Area, range: Range<usize>, at: usize) -> Vec<u32> {
        let cells = self.memories[member].area(area);
        let unit = |(unit, row): (usize, Row)| {
            one_value(&cells[row.at * 4..(row.at + row.width) * 4], unit, row.width * 4)
        };
        rows(self.units, range, at).into_iter().map(unit).collect()
    }

    /// Number of bytes of an area of a member that hold something.
    pub(super) fn written(&mut self, member: usize, area: Area) -> usize {
        self.memories[member].area(area).iter().flatten().count()
    }
}

/// Value that cells hold: all `len` bytes of `unit`, in order.
fn one_value(cells: &[Cell], unit: usize, len: usize) -> u32 {
    assert_eq!(cells.len(), len);
    let (value, ..) = cells[0].expect("what is read was written");
    for (k, cell) in cells.iter().enumerate() {
        assert_eq!(*cell, Some((value, unit, k)));
    }
    value
}

/// Whether no two ranges overlap.
pub(super) fn disjoint(ranges: impl Iterator<Item = Range<usize>>) -> bool {
    let mut ranges: Vec<_> = ranges.filter(|range| !range.is_empty()).collect();
    ranges.sort_by_key(|range| range.start);
    ranges.windows(2).all(|pair| pair[0].end <= pair[1].start)
}
