//! Units: what the algorithms of collectives divide among members.

use crate::codec::{Codec, Row};
use crate::placement::share;
use std::ops::Range;

/// Vector of floats, cut into units that are never divided: single floats, or for a codec by rows its rows.
///
/// ```
/// use spec::codec::Codec;
/// use spec::program::Units;
/// // A tensor of 200 floats, padding, and a tensor of 10.
/// let units = Units::of_tensors(Codec::U8, 220, &[0..200, 208..218]);
/// assert_eq!(units.count(), 3); // rows of 128, 72 and 10 values
/// assert_eq!((units.at(2), units.byte(2)), (208, 2 * 8 + 200));
/// assert_eq!(Units::of_tensors(Codec::Bf16, 220, &[0..200, 208..218]).count(), 220);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Units {
    codec: Codec,
    /// Rows of the first repetition; empty where units are single floats.
    rows: Vec<Row>,
    repeats: usize,
    /// Distance between repetitions, in floats.
    floats: usize,
    /// Distance between repetitions, in bytes.
    bytes: usize,
}

/// Repetition of rows: all rows occur `count` times, each time `floats` floats and `bytes` bytes further on.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeats {
    /// Number of repetitions.
    pub count: usize,
    /// Distance between repetitions, in floats.
    pub floats: usize,
    /// Distance between repetitions, in bytes.
    pub bytes: usize,
}

impl Units {
    /// Cuts a vector of `elements` floats in which tensors lie one after the other, with or without padding between them.
    ///
    /// If `codec` is not by rows, every float is a unit, padding included. Otherwise each tensor is cut into rows of
    /// [`Codec::LONGEST_ROW`] values, the last one shorter, and padding is in no unit.
    pub fn of_tensors(codec: Codec, elements: usize, tensors: &[Range<usize>]) -> Self {
        let mut units = Self { codec, repeats: 1, floats: elements, ..Self::default() };
        if codec.by_rows() {
            for tensor in tensors {
                let rows = tensor.clone().step_by(Codec::LONGEST_ROW);
                rows.for_each(|at| units.push(at, (tensor.end - at).min(Codec::LONGEST_ROW)));
            }
        } else {
            units.bytes = units.encoded(elements);
        }
        units
    }

    /// Cuts a vector that holds `repeats` times one vector of each of `widths`. If `codec` is not by rows, every float is a
    /// unit; otherwise every one of the vectors is a row.
    pub fn of_vectors(codec: Codec, widths: &[usize], repeats: usize) -> Self {
        let mut units = Self::default();
        units.set_vectors(codec, widths, repeats);
        units
    }

    /// Replaces the units by those of [`Units::of_vectors`], in the same memory.
    pub fn set_vectors(&mut self, codec: Codec, widths: &[usize], repeats: usize) {
        self.rows.clear();
        (self.codec, self.repeats, self.floats, self.bytes) = (codec, repeats, 0, 0);
        for &width in widths {
            match codec.by_rows() {
                true => self.push(self.floats, width),
                false => self.bytes += self.encoded(width),
            }
            self.floats += width;
        }
    }

    /// Appends a row of `width` values that begins at float `at`.
    fn push(&mut self, at: usize, width: usize) {
        self.rows.push(Row { at, byte: self.bytes, width });
        self.bytes += self.encoded(width);
    }

    /// Size of one encoded row of `width` values, in bytes.
    fn encoded(&self, width: usize) -> usize {
        self.codec.encoded_bytes(1, width as u64) as usize
    }

    /// Number of units of one repetition.
    fn period(&self) -> usize {
        if self.codec.by_rows() { self.rows.len() } else { self.floats }
    }

    /// Codec that encodes the units.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Number of units.
    pub fn count(&self) -> usize {
        self.period() * self.repeats
    }

    /// Units of part `index` out of `parts` parts of nearly equal numbers of units, as [`share`].
    pub fn share(&self, parts: usize, index: usize) -> Range<usize> {
        share(self.count(), parts, index)
    }

    /// Row of a unit of a codec by rows.
    fn row(&self, unit: usize) -> Row {
        let (repeat, row) = (unit / self.rows.len(), self.rows[unit % self.rows.len()]);
        Row { at: row.at + repeat * self.floats, byte: row.byte + repeat * self.bytes, width: row.width }
    }

    /// Offset of the first value of a unit in the vector, in floats.
    pub fn at(&self, unit: usize) -> usize {
        if self.codec.by_rows() { self.row(unit).at } else { unit }
    }

    /// Offset of a unit in the encoded vector, in bytes. The offset of unit [`Units::count`] is the size of the encoded vector.
    pub fn byte(&self, unit: usize) -> usize {
        match unit == self.count() {
            true => self.bytes * self.repeats,
            false if self.codec.by_rows() => self.row(unit).byte,
            false => self.encoded(unit),
        }
    }

    /// Size of consecutive encoded units, in bytes.
    pub fn bytes(&self, units: Range<usize>) -> usize {
        self.byte(units.end) - self.byte(units.start)
    }

    /// Number of floats in consecutive units, padding between them left out.
    pub fn floats(&self, units: Range<usize>) -> usize {
        match self.codec.by_rows() {
            true => units.map(|unit| self.rows[unit % self.rows.len()].width).sum(),
            false => units.len(),
        }
    }

    /// Distance from the first float of consecutive units to behind the last one, padding between them included.
    pub fn extent(&self, units: Range<usize>) -> usize {
        if units.is_empty() {
            return 0;
        }
        match self.codec.by_rows() {
            true => {
                let last = self.row(units.end - 1);
                last.at + last.width - self.row(units.start).at
            }
            false => units.len(),
        }
    }

    /// Appends the rows of consecutive units to `into`, for a buffer in which the first value of the first unit lies at float
    /// `at`. If the codec is not by rows, one row holds all floats. Byte offsets are those of [`Units::byte`].
    ///
    /// Units that are whole repetitions give the rows of the first of them alone; what is returned says how often they occur.
    pub fn rows(&self, units: Range<usize>, at: usize, into: &mut Vec<Row>) -> Repeats {
        let once = Repeats { count: 1, floats: 0, bytes: 0 };
        if units.is_empty() {
            return once;
        }
        if !self.codec.by_rows() {
            into.push(Row { at, byte: self.byte(units.start), width: units.len() });
            return once;
        }
        let (period, first) = (self.period(), self.at(units.start));
        let whole = units.start.is_multiple_of(period) && units.len().is_multiple_of(period);
        let (listed, repeats) = match whole {
            true => {
                let count = units.len() / period;
                (units.start..units.start + period, Repeats { count, floats: self.floats, bytes: self.bytes })
            }
            false => (units, once),
        };
        into.extend(listed.map(|unit| self.row(unit)).map(|row| Row { at: row.at - first + at, ..row }));
        repeats
    }
}

#[cfg(test)]
mod tests;
