//! Floats of 16 bits: what weights of tables are stored as.
//!
//! All of it is arithmetic on whole words without branches, so that loops over rows become vector instructions; loops are counted and have
//! no closures, which might be compiled apart, for a processor without them. No step meets a subnormal
//! f32, which some processors compute a hundred times slower: small f16, which are subnormal themselves, go by way of a number to which
//! they are added.

use crate::row_store::RowRounding;
use ground::random::word;
use ground::table_format::TableFormat;

/// A format of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// IEEE's binary16.
    F16,
    /// The upper half of an f32.
    Bf16,
}

/// A weight as tables store it.
pub(crate) trait StoredWeight: Copy {
    /// The weight, exactly.
    fn float(self) -> f32;

    /// `sum += weight·row`.
    #[inline(always)]
    fn add(weight: f32, row: &[Self], sum: &mut [f32]) {
        // Line by line: a loop over two lines would become additions of single floats.
        let (lines, rest) = sum.as_chunks_mut::<16>();
        let (row_lines, row_rest) = row.as_chunks::<16>();
        for (sum, row) in lines.iter_mut().zip(row_lines) {
            *sum = std::array::from_fn(|i| sum[i] + weight * row[i].float());
        }
        for (sum, row) in rest.iter_mut().zip(row_rest) {
            *sum += weight * row.float();
        }
    }
}

impl StoredWeight for f32 {
    #[inline(always)]
    fn float(self) -> f32 {
        self
    }
}

/// Bits of an f16.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub(crate) struct F16(u16);

impl StoredWeight for F16 {
    #[inline(always)]
    fn float(self) -> f32 {
        f16(self.0)
    }
}

/// Bits of a bf16.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub(crate) struct Bf16(u16);

impl StoredWeight for Bf16 {
    #[inline(always)]
    fn float(self) -> f32 {
        bf16(self.0)
    }
}

/// Bits of an infinite f16, and of the largest finite one.
const F16_INFINITE: u32 = 0x7c00;
const F16_LARGEST: u32 = 0x7bff;
/// Bits of an infinite f32, of the largest finite bf16 as an f32, and of 2⁻¹⁴, the smallest normal f16.
const INFINITE: u32 = 0x7f80_0000;
const BF16_LARGEST: u32 = 0x7f7f;
const SMALLEST_NORMAL: u32 = 113 << 23;
/// 2²³, the first number next to which there are no fractions.
const WHOLE: f32 = 8_388_608.0;

impl Half {
    /// The format of 16 bits that tables of `format` have, if they have one.
    pub(crate) fn of(format: TableFormat) -> Option<Self> {
        match format {
            TableFormat::F32 | TableFormat::Int8 => None,
            TableFormat::F16 => Some(Self::F16),
            TableFormat::Bf16 => Some(Self::Bf16),
        }
    }

    /// The number that 16 bits stand for, exactly.
    #[inline(always)]
    pub fn decode(self, bits: u16) -> f32 {
        match self {
            Self::F16 => f16(bits),
            Self::Bf16 => bf16(bits),
        }
    }
}

/// The numbers that `from` stands for.
#[inline(always)]
pub fn decode(half: Half, from: &[u16], to: &mut [f32]) {
    let count = to.len().min(from.len());
    let (to, from) = (&mut to[..count], &from[..count]);
    match half {
        Half::F16 => {
            for i in 0..count {
                to[i] = f16(from[i]);
            }
        }
        Half::Bf16 => {
            for i in 0..count {
                to[i] = bf16(from[i]);
            }
        }
    }
}

/// Rounds `from`, some columns of a row, to `to`.
#[inline(always)]
pub(crate) fn encode(half: Half, from: &[f32], rounding: RowRounding, to: &mut [u16]) {
    let RowRounding { bits, first_column } = rounding;
    let count = to.len().min(from.len());
    let (to, from) = (&mut to[..count], &from[..count]);
    match (half, bits) {
        (Half::F16, None) => {
            for i in 0..count {
                to[i] = f16_nearest(from[i]);
            }
        }
        (Half::Bf16, None) => {
            for i in 0..count {
                to[i] = bf16_nearest(from[i]);
            }
        }
        (Half::F16, Some(row)) => {
            for i in 0..count {
                to[i] = f16_at_random(from[i], random(row, first_column, i));
            }
        }
        (Half::Bf16, Some(row)) => {
            for i in 0..count {
                to[i] = bf16_at_random(from[i], random(row, first_column, i));
            }
        }
    }
}

/// Random word of a column.
#[inline(always)]
fn random(row: u64, first_column: u32, i: usize) -> u32 {
    word(row, first_column.wrapping_add(i as u32))
}

#[inline(always)]
fn bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[inline(always)]
fn f16(bits: u16) -> f32 {
    let (sign, size) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff) << 13);
    // The exponent of an f32 is 112 larger.
    let normal = size + (112 << 23);
    let small = (f32::from_bits(size + SMALLEST_NORMAL) - f32::from_bits(SMALLEST_NORMAL)).to_bits();
    let none = size | INFINITE;
    let finite = if size < 0x0080_0000 { small } else { normal };
    f32::from_bits(sign | if size < 0x0f80_0000 { finite } else { none })
}

/// Bits of a number without its sign, and the sign at the place of a number of 16 bits.
#[inline(always)]
fn parts(x: f32) -> (u32, u32) {
    (x.to_bits() & 0x7fff_ffff, x.to_bits() >> 16 & 0x8000)
}

/// Nearest bf16, ties to even. Numbers beyond the largest bf16 become that one.
#[inline(always)]
fn bf16_nearest(x: f32) -> u16 {
    let (size, sign) = parts(x);
    let rounded = (size + 0x7fff + (size >> 16 & 1)) >> 16;
    (sign | bf16_kept(size, rounded)) as u16
}

/// One of the two bf16 around a number, the upper one with the probability of its nearness.
#[inline(always)]
pub fn bf16_at_random(x: f32, random: u32) -> u16 {
    let (size, sign) = parts(x);
    let rounded = (size + (random >> 16)) >> 16;
    (sign | bf16_kept(size, rounded)) as u16
}

#[inline(always)]
fn bf16_kept(size: u32, rounded: u32) -> u32 {
    if size > INFINITE { 0x7fc0 } else { rounded.min(BF16_LARGEST) }
}

/// Nearest f16, ties to even. Numbers beyond the largest f16 become that one.
#[inline(always)]
fn f16_nearest(x: f32) -> u16 {
    let (size, sign) = parts(x);
    let normal = size.wrapping_sub(112 << 23).wrapping_add(0xfff + (size >> 13 & 1)) >> 13;
    // Added to ½, whose last bit is worth 2⁻²⁴ as that of a small f16 is, a number is rounded by the addition.
    let small = (f32::from_bits(size) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    (sign | f16_kept(size, if size < SMALLEST_NORMAL { small } else { normal })) as u16
}

/// One of the two f16 around a number, the upper one with the probability of its nearness.
#[inline(always)]
pub fn f16_at_random(x: f32, random: u32) -> u16 {
    let (size, sign) = parts(x);
    let normal = size.wrapping_sub(112 << 23).wrapping_add(random >> 19) >> 13;
    // In steps of 2⁻²⁴, the last bit of a small f16.
    let steps = f32::from_bits(size.min(SMALLEST_NORMAL)) * 16_777_216.0;
    // A number that is added and taken away again leaves a whole number of steps, and its lower bits are that number.
    let nearest = (steps + WHOLE) - WHOLE;
    let below = if nearest > steps { nearest - 1.0 } else { nearest };
    let up = steps - below >= 1.0 - (random >> 8) as f32 / 16_777_216.0;
    let small = ((below + WHOLE).to_bits() & 0x007f_ffff) + u32::from(up);
    (sign | f16_kept(size, if size < SMALLEST_NORMAL { small } else { normal })) as u16
}

#[inline(always)]
fn f16_kept(size: u32, rounded: u32) -> u32 {
    // Numbers that no f16 comes near may have wrapped around.
    let finite = if size >= 0x4780_0000 { F16_LARGEST } else { rounded.min(F16_LARGEST) };
    if size > INFINITE { F16_INFINITE | 0x200 } else { finite }
}
