//! Peak rates of this machine: loops of the instructions of products, on registers alone; memory is in `memory`.
//!
//! What a product reaches is read against these rates. A loop touches no memory and waits for nothing but the instructions
//! themselves, so that no product of the same instructions is faster.
#![allow(unsafe_code)]

pub(crate) mod memory;

pub use memory::{Memory, Stream, gather, stream, update};

use super::Cpu;
use super::level::Level;
#[cfg(target_arch = "x86_64")]
use super::{amx::Tiles, dots, matrix, units::Units};
use crate::KernelError;
use ground::precision::Precision;
use std::time::{Duration, Instant};

/// Rounds of a measurement, the best of which counts.
const ROUNDS: usize = 20;
/// Iterations of a loop in a round: between a fifth of a millisecond and one.
const ITERATIONS: usize = 50_000;
/// Time before a measurement of several threads: a new thread shares the core of the one that made it until the system moves it.
const SETTLING: Duration = Duration::from_millis(30);

/// FLOP/s of `threads` threads in the register-only loop of the instructions that products in `precision` are made of. A product
/// of three products, as in f32x3, counts once.
///
/// ```
/// assert!(kernels::peak::products(ground::precision::Precision::F32, 1)? > 0.0);
/// # Ok::<(), kernels::KernelError>(())
/// ```
pub fn products(precision: Precision, threads: usize) -> Result<f64, KernelError> {
    let cpu = Cpu::new(threads)?.in_precision(precision);
    let flops = iterate(&cpu, ITERATIONS / 10);
    let round = || {
        let began = Instant::now();
        cpu.divide(cpu.threads(), 1, &|_, threads| {
            for _ in threads {
                std::hint::black_box(iterate(&cpu, ITERATIONS));
            }
        });
        began.elapsed()
    };
    let began = Instant::now();
    while cpu.threads() > 1 && began.elapsed() < SETTLING {
        round();
    }
    let best = (0..ROUNDS).map(|_| round()).min().unwrap_or_default().as_secs_f64();
    Ok(flops * (ITERATIONS * cpu.threads()) as f64 / best)
}

/// Runs the loop `count` times, and returns the FLOPs of one iteration.
fn iterate(cpu: &Cpu, count: usize) -> f64 {
    #[cfg(target_arch = "x86_64")]
    if let Some(form) = matrix::form(cpu.units, cpu.precision, 0) {
        return match cpu.units {
            // SAFETY: units are only named where they were found; no other tiles live on this thread.
            Units::Amx => unsafe { Tiles::new() }.peak(count) / if form.split { 3.0 } else { 1.0 },
            // SAFETY: a form is only made where there are the instructions.
            _ => unsafe { dots::peak(count) },
        };
    }
    match cpu.level {
        // SAFETY: a level is only made where its instructions were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512(count) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2(count) },
        Level::Portable => portable(count),
    }
}

/// A loop of independent multiply-adds, as many as hide their latency.
#[cfg(target_arch = "x86_64")]
macro_rules! multiply_adds {
    ($name:ident, $feature:literal, $lanes:literal, $chains:literal, $splat:ident, $fma:ident) => {
        #[target_feature(enable = $feature)]
        fn $name(count: usize) -> f64 {
            use std::arch::x86_64::*;
            let (a, b) = (std::hint::black_box($splat(0.5)), std::hint::black_box($splat(0.25)));
            let mut sums = [b; $chains];
            for _ in 0..count {
                for sum in &mut sums {
                    *sum = $fma(a, b, *sum);
                }
            }
            std::hint::black_box(sums);
            (2 * $lanes * $chains) as f64
        }
    };
}

#[cfg(target_arch = "x86_64")]
multiply_adds!(avx512, "avx512f", 16, 24, _mm512_set1_ps, _mm512_fmadd_ps);
#[cfg(target_arch = "x86_64")]
multiply_adds!(avx2, "avx2,fma", 8, 12, _mm256_set1_ps, _mm256_fmadd_ps);

fn portable(count: usize) -> f64 {
    let (a, b) = (std::hint::black_box([0.5f32; 4]), std::hint::black_box([0.25f32; 4]));
    let mut sums = [b; 8];
    for _ in 0..count {
        for sum in &mut sums {
            for lane in 0..4 {
                sum[lane] += a[lane] * b[lane];
            }
        }
    }
    std::hint::black_box(sums);
    (2 * 4 * 8) as f64
}
