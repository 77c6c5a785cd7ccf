//! Lanes in arrays, for any machine.

use super::{LANES, Lanes};
use half::f16;

/// Lanes without vector instructions of their own.
#[derive(Clone, Copy)]
pub(super) struct Portable;

#[inline(always)]
fn each<A: Copy, B: Copy, R>(a: [A; LANES], b: [B; LANES], f: impl Fn(A, B) -> R) -> [R; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Lanes for Portable {
    type F = [f32; LANES];
    type I = [u32; LANES];

    #[inline(always)]
    fn splat(x: f32) -> Self::F {
        [x; LANES]
    }
    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self::F {
        *from
    }
    #[inline(always)]
    fn store(x: Self::F, to: &mut [f32; LANES]) {
        *to = x;
    }
    #[inline(always)]
    fn load_some(from: &[f32], with: Self::F) -> Self::F {
        std::array::from_fn(|i| from.get(i).copied().unwrap_or(with[i]))
    }
    #[inline(always)]
    fn store_some(x: Self::F, to: &mut [f32]) {
        to.iter_mut().zip(x).for_each(|(to, x)| *to = x);
    }
    #[inline(always)]
    fn add(a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn mul_add(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    fn min(a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn max(a: Self::F, b: Self::F) -> Self::F {
        each(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn if_less(a: Self::F, b: Self::F, yes: Self::F, no: Self::F) -> Self::F {
        std::array::from_fn(|i| if a[i] < b[i] { yes[i] } else { no[i] })
    }
    #[inline(always)]
    fn all_numbers(x: Self::F) -> bool {
        x.iter().all(|x| !x.is_nan())
    }
    #[inline(always)]
    fn ends(a: Self::F, b: Self::F) -> [f32; 2] {
        let smallest = a.into_iter().fold(a[0], |least, x| if x < least { x } else { least });
        [smallest, b.into_iter().fold(b[0], |most, x| if x > most { x } else { most })]
    }

    #[inline(always)]
    fn bits(x: Self::F) -> Self::I {
        x.map(f32::to_bits)
    }
    #[inline(always)]
    fn of_bits(x: Self::I) -> Self::F {
        x.map(f32::from_bits)
    }
    #[inline(always)]
    fn floats(x: Self::I) -> Self::F {
        x.map(|x| x as i32 as f32)
    }
    #[inline(always)]
    fn splat_bits(x: u32) -> Self::I {
        [x; LANES]
    }
    #[inline(always)]
    fn count() -> Self::I {
        std::array::from_fn(|i| i as u32)
    }
    #[inline(always)]
    fn add_bits(a: Self::I, b: Self::I) -> Self::I {
        each(a, b, u32::wrapping_add)
    }
    #[inline(always)]
    fn sub_bits(a: Self::I, b: Self::I) -> Self::I {
        each(a, b, u32::wrapping_sub)
    }
    #[inline(always)]
    fn mul_bits(a: Self::I, b: Self::I) -> Self::I {
        each(a, b, u32::wrapping_mul)
    }
    #[inline(always)]
    fn and(a: Self::I, b: Self::I) -> Self::I {
        each(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn or(a: Self::I, b: Self::I) -> Self::I {
        each(a, b, |a, b| a | b)
    }
    #[inline(always)]
    fn xor(a: Self::I, b: Self::I) -> Self::I {
        each(a, b, |a, b| a ^ b)
    }
    #[inline(always)]
    fn left<const BY: u32>(x: Self::I) -> Self::I {
        x.map(|x| x << BY)
    }
    #[inline(always)]
    fn right<const BY: u32>(x: Self::I) -> Self::I {
        x.map(|x| x >> BY)
    }
    #[inline(always)]
    fn min_bits(a: Self::I, b: Self::I) -> Self::I {
        each(a, b, u32::min)
    }
    #[inline(always)]
    fn max_bits(a: Self::I, b: Self::I) -> Self::I {
        each(a, b, u32::max)
    }
    #[inline(always)]
    fn largest(x: Self::I) -> u32 {
        x.into_iter().fold(0, u32::max)
    }
    #[inline(always)]
    fn if_more(a: Self::I, b: Self::I, yes: Self::I, no: Self::I) -> Self::I {
        std::array::from_fn(|i| if a[i] > b[i] { yes[i] } else { no[i] })
    }

    #[inline(always)]
    fn bytes(x: Self::I) -> [u8; 16] {
        x.map(|x| x as u8)
    }
    #[inline(always)]
    fn nibbles(x: Self::I) -> [u8; 8] {
        std::array::from_fn(|i| (x[2 * i] | x[2 * i + 1] << 4) as u8)
    }
    #[inline(always)]
    fn quarters(x: Self::I) -> [u8; 4] {
        std::array::from_fn(|i| (0..4).fold(0, |byte, j| byte | (x[4 * i + j] << (2 * j)) as u8))
    }
    #[inline(always)]
    fn of_bytes(from: &[u8; 16]) -> Self::I {
        from.map(u32::from)
    }
    #[inline(always)]
    fn of_nibbles(from: &[u8; 8]) -> Self::I {
        std::array::from_fn(|i| u32::from(from[i / 2]) >> (4 * (i % 2)) & 15)
    }
    #[inline(always)]
    fn of_quarters(from: &[u8; 4]) -> Self::I {
        std::array::from_fn(|i| u32::from(from[i / 4]) >> (2 * (i % 4)) & 3)
    }
    #[inline(always)]
    fn halves(x: Self::F) -> [u8; 32] {
        bytemuck::cast(x.map(|x| f16::from_f32(x).to_bits()))
    }
    #[inline(always)]
    fn of_halves(from: &[u8; 32]) -> Self::F {
        std::array::from_fn(|i| f16::from_ne_bytes([from[2 * i], from[2 * i + 1]]).to_f32())
    }
}
