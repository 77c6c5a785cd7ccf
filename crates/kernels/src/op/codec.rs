//! Operations on encoded floats: rows of floats written as bytes by a codec, and ordered sums of such rows.
//!
//! Layout of an encoded row of `w` values, in the byte order of the machine:
//!
//! | codec | bytes |
//! |---|---|
//! | f32, f16, bf16 | values |
//! | fp8-e4m3, fp8-e5m2 | scale in f32, values of one byte: `x = scale · value` |
//! | u8, u4, u2 | scale and minimum in f32, values, the first in the lowest bits of a byte: `x = scale · value + minimum` |

use super::{Check, Result};
use crate::{Buffer, Device};
use ground::codec::{Codec, Row};
use ground::random::{RandomSequence, word};

/// Rounding of values that a codec cannot represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// To the nearest representable value, ties to even.
    Nearest,
    /// Up or down at random, so that the mean is the value itself. The random number of a value is a hash of `key` and the
    /// offset of the value in the floats that are encoded; offsets count modulo 2³².
    Stochastic {
        /// Key of all random numbers of one operation.
        key: u64,
    },
}

impl Round {
    /// Random numbers of the values; `None` where values are rounded to the nearest.
    pub(crate) fn dice(self) -> Option<Dice> {
        match self {
            Round::Nearest => None,
            Round::Stochastic { key } => Some(Dice(RandomSequence::new(key, "rounding").bits(0))),
        }
    }
}

/// Random numbers of stochastic rounding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Lower and upper half of the number that all random numbers are hashed with.
    pub(crate) fn halves(self) -> [u32; 2] {
        [self.0 as u32, (self.0 >> 32) as u32]
    }

    /// Random number of the value at `offset`, in 24 bits.
    #[inline(always)]
    pub(crate) fn throw(self, offset: u32) -> u32 {
        word(self.0, offset) >> 8
    }
}

/// Rows, repeated `count` times, each time `floats` floats and `bytes` bytes further on.
///
/// Rows follow each other in memory without overlap: as a whole pattern repeated, or each row beside its own repetitions.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Rows of the first repetition. Byte offsets count from that of the first row.
    pub rows: &'a [Row],
    /// Number of repetitions.
    pub count: usize,
    /// Distance between repetitions in the floats.
    pub floats: usize,
    /// Distance between repetitions in the bytes.
    pub bytes: usize,
}

impl<'a> Rows<'a> {
    /// Rows that are not repeated.
    pub fn once(rows: &'a [Row]) -> Self {
        Self { rows, count: 1, floats: 0, bytes: 0 }
    }

    /// Number of values of all rows and repetitions.
    pub(crate) fn values(&self) -> usize {
        self.rows.iter().map(|row| row.width).sum::<usize>() * self.count
    }
}

/// State of error compensation: what earlier encodes of the same values lost.
#[derive(Debug)]
pub struct CarriedError<'a> {
    /// Buffer that holds the errors.
    pub buffer: &'a mut Buffer<f32>,
    /// Offset of the error of the first row; the others lie as their floats do.
    pub at: usize,
}

/// Arguments of [`Device::encode`].
#[derive(Debug)]
pub struct Encode<'a> {
    /// Codec of the rows.
    pub codec: Codec,
    /// Rounding of values.
    pub round: Round,
    /// Places of the rows in `from`, and in `to` behind `to_at`.
    pub rows: Rows<'a>,
    /// Floats that are encoded.
    pub from: &'a Buffer<f32>,
    /// Buffer that receives the encoded rows.
    pub to: &'a mut Buffer<u8>,
    /// Offset of the first encoded row.
    pub to_at: usize,
    /// Errors that are added to the floats, and that receive what this encode loses.
    pub error: Option<CarriedError<'a>>,
}

/// Arguments of [`Device::decode`].
#[derive(Debug)]
pub struct Decode<'a> {
    /// Codec of the rows.
    pub codec: Codec,
    /// Places of the rows in a block, and in `to`: the first row begins at `to_at`, the others lie as their floats do.
    pub rows: Rows<'a>,
    /// Number of blocks that are added up.
    pub blocks: usize,
    /// Distance between blocks, in bytes.
    pub block_bytes: usize,
    /// Encoded blocks.
    pub from: &'a Buffer<u8>,
    /// Offset of the first block.
    pub from_at: usize,
    /// Buffer that receives the sums.
    pub to: &'a mut Buffer<f32>,
    /// Offset of the first row in `to`.
    pub to_at: usize,
    /// Whether the blocks are added to what `to` holds.
    pub add: bool,
}

impl Device {
    /// Encodes rows: repetition `k` of a row, `from[row.at + k·floats ..][..row.width]`, is written to
    /// `to[to_at + row.byte − rows[0].byte + k·bytes ..]`. With an error: `z = from + error` is encoded, and `error = z −
    /// decoded(z)`.
    ///
    /// f16, bf16: NaN stays NaN, and what the format cannot hold becomes infinite. Codecs with a header: a value that is not
    /// finite fails the operation, which then leaves anything in `to` and in the errors. A row of equal values is decoded to
    /// these values by unsigned codecs, zeros are decoded to zeros by all.
    ///
    /// ```
    /// use kernels::{Buffer, Device, Encode, Round, Rows};
    /// use ground::codec::{Codec, Row};
    /// let device = Device::cpu(1)?;
    /// let from = Buffer::from_slice(&device, &[1.0, 4.0, 2.0, 2.4])?;
    /// let mut to = Buffer::zeroed(&device, 9)?;
    /// let rows = [Row { at: 0, byte: 0, width: 4 }];
    /// let (rows, round) = (Rows::once(&rows), Round::Nearest);
    /// device.encode(Encode { codec: Codec::U2, round, rows, from: &from, to: &mut to, to_at: 0, error: None })?;
    /// // Scale 1, minimum 1, and the values 0, 3, 1 and 1.
    /// assert_eq!(to.to_vec()?, [&1f32.to_ne_bytes()[..], &1f32.to_ne_bytes(), &[0b_01_01_11_00]].concat());
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn encode(&self, args: Encode) -> Result {
        let check = Check::new("encode", self);
        let [floats, bytes] = [None, Some(args.codec)].map(|encoded| Side { rows: args.rows, encoded });
        check.buffer("from", args.from, floats.end())?;
        check.buffer("to", args.to, bytes.end_behind(args.to_at))?;
        bytes.disjoint(&check)?;
        if let Some(error) = &args.error {
            check.buffer("error", error.buffer, floats.end_behind(error.at))?;
            floats.disjoint(&check)?;
        }
        self.backend().encode(args)
    }

    /// Decodes blocks of rows and adds them up in order, in f32: `to[to_at + row.at − rows[0].at + k·floats + i]` becomes
    /// `decoded(block₀) + decoded(block₁) + …`, or what it held plus these. Without blocks it becomes, or stays, what an
    /// empty sum is. Block `b` begins at `from_at + b·block_bytes`.
    ///
    /// ```
    /// use kernels::{Buffer, Decode, Device, Rows};
    /// use ground::codec::{Codec, Row};
    /// let device = Device::cpu(1)?;
    /// let from = Buffer::from_slice(&device, &[0x80, 0x3f, 0x00, 0xc0])?; // 1 and −2 in bf16.
    /// let mut to = Buffer::from_slice(&device, &[10.0])?;
    /// let rows = [Row { at: 0, byte: 0, width: 1 }];
    /// let (codec, rows, blocks) = (Codec::Bf16, Rows::once(&rows), 2);
    /// let (from, from_at, block_bytes) = (&from, 0, 2);
    /// device.decode(Decode { codec, rows, blocks, block_bytes, from, from_at, to: &mut to, to_at: 0, add: true })?;
    /// assert_eq!(to.to_vec()?, [10.0 + 1.0 - 2.0]);
    /// # Ok::<(), kernels::KernelError>(())
    /// ```
    pub fn decode(&self, args: Decode) -> Result {
        let check = Check::new("decode", self);
        let [floats, bytes] = [None, Some(args.codec)].map(|encoded| Side { rows: args.rows, encoded });
        let last_block = args.block_bytes.saturating_mul(args.blocks.saturating_sub(1));
        let needed =
            if args.blocks == 0 { 0 } else { bytes.end_behind(args.from_at.saturating_add(last_block)) };
        check.buffer("from", args.from, needed)?;
        check.buffer("to", args.to, floats.end_behind(args.to_at))?;
        bytes.ascending(&check)?;
        floats.disjoint(&check)?;
        self.backend().decode(args)
    }
}

/// Rows where they lie on one side: in floats, or encoded in bytes.
struct Side<'a> {
    rows: Rows<'a>,
    encoded: Option<Codec>,
}

impl Side<'_> {
    fn start(&self, row: &Row) -> usize {
        if self.encoded.is_some() { row.byte } else { row.at }
    }

    /// Distance between repetitions.
    fn stride(&self) -> usize {
        if self.encoded.is_some() { self.rows.bytes } else { self.rows.floats }
    }

    /// Distance from the first repetition to the last.
    fn repeated(&self) -> usize {
        self.stride().saturating_mul(self.rows.count.saturating_sub(1))
    }

    /// Offset of the first row.
    fn first(&self) -> usize {
        self.rows.rows.first().map_or(0, |row| self.start(row))
    }

    /// Start and length of all rows that hold something.
    fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        let len = |row: &Row| match self.encoded {
            None => row.width,
            Some(codec) => codec.encoded_bytes(1, row.width as u64) as usize,
        };
        self.rows.rows.iter().map(move |row| (self.start(row), len(row))).filter(|(_, len)| *len > 0)
    }

    /// End of the last repetition of any row; 0 if nothing is there.
    fn end(&self) -> usize {
        let end = self.places().map(|(start, len)| start.saturating_add(len)).max();
        end.filter(|_| self.rows.count > 0).map_or(0, |end| end.saturating_add(self.repeated()))
    }

    /// End of all rows if the first of them begins at `at`; 0 if nothing is there.
    fn end_behind(&self, at: usize) -> usize {
        match self.end() {
            0 => 0,
            end => end.saturating_sub(self.first()).saturating_add(at),
        }
    }

    /// Refuses a row that lies before the first.
    fn ascending(&self, check: &Check) -> Result {
        let first = self.first();
        self.places().try_for_each(|(start, _)| check.count("the start of a row", first, start))
    }

    /// Refuses rows that overlap, or that are not in order. Either the pattern is repeated behind itself, or the repetitions
    /// of a row lie between this row and the next.
    fn disjoint(&self, check: &Check) -> Result {
        self.ascending(check)?;
        let (mut end, mut longest, mut by_column) = (0, 0, true);
        for (start, len) in self.places() {
            check.count("the gap before a row", end, start)?;
            by_column &= end == 0 || start >= end.saturating_add(self.repeated());
            (end, longest) = (start.saturating_add(len), longest.max(len));
        }
        let needed = if by_column { longest } else { end - self.first() };
        match self.rows.count {
            0 | 1 => Ok(()),
            _ => check.count("the distance between repetitions", needed, self.stride()),
        }
    }
}
