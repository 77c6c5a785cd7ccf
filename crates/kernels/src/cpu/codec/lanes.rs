//! Sixteen values at once: one interface to the vectors of every level.
//!
//! Operations on the lanes give the same bits at every level. A level's lanes are used only in work that [`run`] runs, which is
//! where its instructions exist.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use crate::cpu::level::Level;
use portable::Portable;

/// Number of lanes.
pub(super) const LANES: usize = 16;

/// Sixteen lanes of floats and of whole numbers.
///
/// # Safety of implementations
/// Implementations other than the portable one use instructions that only some machines have: their methods may be called only
/// inside [`run`], which has detected them.
pub(super) trait Lanes: Copy {
    /// Sixteen floats.
    type F: Copy;
    /// Sixteen whole numbers of 32 bits.
    type I: Copy;

    fn splat(x: f32) -> Self::F;
    fn load(from: &[f32; LANES]) -> Self::F;
    fn store(x: Self::F, to: &mut [f32; LANES]);
    /// At most sixteen floats, and `with` behind them.
    fn load_some(from: &[f32], with: Self::F) -> Self::F;
    /// Stores the first lanes, at most sixteen.
    fn store_some(x: Self::F, to: &mut [f32]);
    fn add(a: Self::F, b: Self::F) -> Self::F;
    fn sub(a: Self::F, b: Self::F) -> Self::F;
    fn mul(a: Self::F, b: Self::F) -> Self::F;
    fn div(a: Self::F, b: Self::F) -> Self::F;
    /// `a · b + c`, rounded once.
    fn mul_add(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `a` where `a < b`, else `b`.
    fn min(a: Self::F, b: Self::F) -> Self::F;
    /// `a` where `a > b`, else `b`.
    fn max(a: Self::F, b: Self::F) -> Self::F;
    /// `yes` where `a < b`, else `no`.
    fn if_less(a: Self::F, b: Self::F, yes: Self::F, no: Self::F) -> Self::F;
    /// Whether all lanes are numbers.
    fn all_numbers(x: Self::F) -> bool;
    /// Smallest of all lanes of `a`, and largest of all lanes of `b`.
    fn ends(a: Self::F, b: Self::F) -> [f32; 2];

    fn bits(x: Self::F) -> Self::I;
    fn of_bits(x: Self::I) -> Self::F;
    /// Floats of whole numbers below 2³¹.
    fn floats(x: Self::I) -> Self::F;
    fn splat_bits(x: u32) -> Self::I;
    /// The numbers 0, 1, … 15.
    fn count() -> Self::I;
    fn add_bits(a: Self::I, b: Self::I) -> Self::I;
    fn sub_bits(a: Self::I, b: Self::I) -> Self::I;
    /// Lower 32 bits of the product.
    fn mul_bits(a: Self::I, b: Self::I) -> Self::I;
    fn and(a: Self::I, b: Self::I) -> Self::I;
    fn or(a: Self::I, b: Self::I) -> Self::I;
    fn xor(a: Self::I, b: Self::I) -> Self::I;
    fn left<const BY: u32>(x: Self::I) -> Self::I;
    fn right<const BY: u32>(x: Self::I) -> Self::I;
    /// Smaller of two numbers below 2³¹.
    fn min_bits(a: Self::I, b: Self::I) -> Self::I;
    /// Larger of two numbers below 2³¹.
    fn max_bits(a: Self::I, b: Self::I) -> Self::I;
    /// Largest of all lanes, which are below 2³¹.
    fn largest(x: Self::I) -> u32;
    /// `yes` where `a > b`, else `no`; `a` and `b` are below 2³¹.
    fn if_more(a: Self::I, b: Self::I, yes: Self::I, no: Self::I) -> Self::I;

    /// Lowest 8 bits of each lane.
    fn bytes(x: Self::I) -> [u8; 16];
    /// Lanes below 16, two in a byte, the first in the lower bits.
    fn nibbles(x: Self::I) -> [u8; 8];
    /// Lanes below 4, four in a byte, the first in the lowest bits.
    fn quarters(x: Self::I) -> [u8; 4];
    fn of_bytes(from: &[u8; 16]) -> Self::I;
    fn of_nibbles(from: &[u8; 8]) -> Self::I;
    fn of_quarters(from: &[u8; 4]) -> Self::I;
    /// Floats of 16 bits, to nearest even.
    fn halves(x: Self::F) -> [u8; 32];
    fn of_halves(from: &[u8; 32]) -> Self::F;
}

/// Work that is compiled for the lanes of each level, as far as it is inlined.
pub(super) trait Work {
    /// Result of the work.
    type Out;

    fn run<L: Lanes>(self) -> Self::Out;
}

/// Runs `work` with the lanes of `level`.
#[inline(always)]
pub(super) fn run<W: Work>(level: Level, work: W) -> W::Out {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => level.run(
            #[inline(always)]
            || work.run::<avx512::Avx512>(),
        ),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => level.run(
            #[inline(always)]
            || work.run::<avx2::Avx2>(),
        ),
        Level::Portable => work.run::<Portable>(),
    }
}

/// At most sixteen bytes, and zeros behind them; by way of registers, since what is stored in parts is slow to load as a whole.
#[inline(always)]
pub(super) fn load_bytes(from: &[u8]) -> [u8; 16] {
    let len = from.len();
    if let Some(all) = from.first_chunk::<16>() {
        return *all;
    }
    let [low, high] = if let (Some(first), Some(last)) = (from.first_chunk::<8>(), from.last_chunk::<8>()) {
        let behind = u128::from(u64::from_ne_bytes(*last)) << 64 >> (8 * (16 - len));
        [u64::from_ne_bytes(*first), (behind >> 64) as u64]
    } else if let (Some(first), Some(last)) = (from.first_chunk::<4>(), from.last_chunk::<4>()) {
        let last = u64::from(u32::from_ne_bytes(*last)) << (8 * (len - 4));
        [u64::from(u32::from_ne_bytes(*first)) | last, 0]
    } else {
        [from.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)), 0]
    };
    bytemuck::cast([low, high])
}

/// Stores the first bytes, at most sixteen.
#[inline(always)]
pub(super) fn store_bytes(bytes: [u8; 16], to: &mut [u8]) {
    let (len, all) = (to.len(), u128::from_ne_bytes(bytes));
    let behind = |bytes: usize| all >> (8 * (len - bytes).min(15));
    // Two stores that may overlap; arrays are assigned, since copies are checked, and slow, in builds with debug assertions.
    if let Some(to) = to.first_chunk_mut::<16>() {
        *to = bytes;
    } else if let Some(first) = to.first_chunk_mut::<8>() {
        *first = (all as u64).to_ne_bytes();
        if let Some(last) = to.last_chunk_mut::<8>() {
            *last = (behind(8) as u64).to_ne_bytes();
        }
    } else if let Some(first) = to.first_chunk_mut::<4>() {
        *first = (all as u32).to_ne_bytes();
        if let Some(last) = to.last_chunk_mut::<4>() {
            *last = (behind(4) as u32).to_ne_bytes();
        }
    } else {
        to.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    }
}
