//! The host's cores.
//!
//! Work is divided over *outputs* only, so that no result depends on the number of threads: a sum is always carried out
//! by one thread, in one order. Scratch belongs to the pool and is reused; after warm-up nothing is allocated.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
mod backend;
pub(crate) mod chain;
pub(crate) mod codec;
mod cross;
#[cfg(target_arch = "x86_64")]
pub(crate) mod dots;
pub(crate) mod dropout;
pub(crate) mod elementwise;
#[cfg(target_arch = "x86_64")]
pub(crate) mod finish;
pub(crate) mod fm;
pub(crate) mod gemm;
pub(crate) mod gradients;
pub(crate) mod halves;
pub(crate) mod index;
pub(crate) mod interaction;
pub(crate) mod level;
pub(crate) mod linear;
pub(crate) mod lookup;
#[cfg(target_arch = "x86_64")]
pub(crate) mod matrix;
pub(crate) mod optimizer;
pub(crate) mod pack;
pub(crate) mod packed;
#[cfg(target_arch = "x86_64")]
pub(crate) mod panels;
pub mod peak;
pub(crate) mod rows;
pub(crate) mod shared;
pub(crate) mod sort;
pub(crate) mod stream;
pub(crate) mod team;
pub(crate) mod tensor_train;
pub(crate) mod tile;
pub(crate) mod units;
pub(crate) mod update;
pub(crate) mod values;
pub(crate) mod wire;

use crate::KernelError;
use crate::memory::host::HostMemory;
use ground::precision::Precision;
use level::Level;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use team::Team;
use units::Units;

/// Pieces per thread where pieces may take unequal times.
const PIECES_PER_THREAD: usize = 4;

/// Pool of threads, shared by everything one rank computes.
#[derive(Clone, Debug)]
pub struct Cpu {
    team: Option<Arc<Team>>,
    threads: usize,
    level: Level,
    units: Units,
    precision: Precision,
    scratch: Arc<[Mutex<HostMemory>]>,
    /// Memory that pieces of a product read together.
    together: Arc<Mutex<HostMemory>>,
    /// Piece of scratch that piece 0 has: another than the first where a thread works on its own.
    first: usize,
}

impl Cpu {
    /// Makes a pool of `threads` threads whose products are in f32; with one, work stays on the caller's thread.
    pub fn new(threads: usize) -> Result<Self, KernelError> {
        let threads = threads.max(1);
        let team = if threads == 1 { None } else { Some(Arc::new(Team::new(threads)?)) };
        let scratch = (0..threads * PIECES_PER_THREAD).map(|_| Mutex::new(HostMemory::empty())).collect();
        let together = Arc::new(Mutex::new(HostMemory::empty()));
        let (level, units, precision) = (Level::detect(), Units::detect(), Precision::F32);
        Ok(Self { team, threads, level, units, precision, scratch, together, first: 0 })
    }

    /// Number of threads in the pool.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Name of the vector instructions in use: `avx512`, `avx2` or `portable`.
    pub fn instructions(&self) -> &'static str {
        self.level.name()
    }

    /// Limits the pool to the vector instructions that every machine has, and returns it.
    pub fn portable(&self) -> Self {
        Self { level: Level::Portable, units: Units::None, ..self.clone() }
    }

    /// Name of the instructions that products in bf16 are made of: `amx-bf16` or `avx512-bf16`, or as
    /// [`Cpu::instructions`] where operands are rounded to bf16 and multiplied in f32.
    pub fn matrix_instructions(&self) -> &'static str {
        self.units.name(self.level)
    }

    /// Whether products of the pool's precision read panels of bf16, and then whether those are split into two parts.
    pub(crate) fn panels(&self) -> Option<bool> {
        #[cfg(target_arch = "x86_64")]
        return matrix::form(self.units, self.precision, 0).map(|form| form.split);
        #[cfg(not(target_arch = "x86_64"))]
        return None;
    }

    /// Limits the pool to the instructions one step below those in use, and returns it; `None` below `portable`.
    pub fn below(&self) -> Option<Self> {
        let (units, level) = self.units.below(self.level)?;
        Some(Self { units, level, ..self.clone() })
    }

    /// Makes a pool of the same threads whose products are computed in `precision`; tf32 is computed in f32.
    pub fn in_precision(&self, precision: Precision) -> Self {
        Self { precision, ..self.clone() }
    }

    /// Precision of products.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Divides `0..total` into at most one piece per thread, cut at multiples of `grain`, and runs `work(piece, range)`
    /// on each, at the same time. The pieces cover the range and do not overlap.
    pub(crate) fn divide(&self, total: usize, grain: usize, work: &(impl Fn(usize, Range<usize>) + Sync)) {
        self.pieces(self.threads, total, grain, work);
    }

    /// Divides work into several pieces per thread, for pieces of uneven cost; otherwise as [`Cpu::divide`].
    pub(crate) fn divide_finely(
        &self,
        total: usize,
        grain: usize,
        work: &(impl Fn(usize, Range<usize>) + Sync),
    ) {
        self.pieces(self.scratch.len(), total, grain, work);
    }

    fn pieces(&self, most: usize, total: usize, grain: usize, work: &(impl Fn(usize, Range<usize>) + Sync)) {
        let grains = total.div_ceil(grain);
        let pieces = if self.threads == 1 { 1 } else { most.min(grains) };
        if pieces <= 1 {
            return work(0, 0..total);
        }
        let cut = |piece: usize| (grains * piece / pieces * grain).min(total);
        self.run(pieces, &|piece| work(piece, cut(piece)..cut(piece + 1)));
    }

    /// Cuts `0..total` into blocks of whole grains and runs `work(cpu, block)` on each, where `cpu` is the one thread that takes
    /// the block. A thread that is done with a block takes the next: at most `most` at a time, and less towards the end, so that
    /// a slow thread keeps nobody waiting for long.
    pub(crate) fn take_blocks(
        &self,
        total: usize,
        [grain, most]: [usize; 2],
        work: &(impl Fn(&Cpu, Range<usize>) + Sync),
    ) {
        let threads = self.threads.min(total.div_ceil(grain));
        let next = AtomicUsize::new(0);
        let end = |first: usize| {
            let share = if threads == 1 { total } else { (total - first) * 3 / (4 * threads) };
            (first + share.next_multiple_of(grain).clamp(grain, most)).min(total)
        };
        let take = |piece: usize| {
            let alone = self.alone(piece);
            let take = |first: usize| (first < total).then(|| end(first));
            while let Ok(first) = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
                work(&alone, first..end(first));
            }
        };
        match threads {
            0 => {}
            1 => take(0),
            threads => self.run(threads, &take),
        }
    }

    /// Runs `work` for every piece.
    fn run(&self, pieces: usize, work: &(impl Fn(usize) + Sync)) {
        match &self.team {
            None => (0..pieces).for_each(work),
            Some(team) => team.run(pieces, work),
        }
    }

    /// The pool as one thread of it, which has the scratch of `piece`.
    fn alone(&self, piece: usize) -> Self {
        Self { team: None, threads: 1, first: self.first + piece, ..self.clone() }
    }

    /// Memory of `piece`'s own, of at least `bytes`; it holds anything. A leaf of the work may hold it, no other.
    pub(crate) fn scratch(&self, piece: usize, bytes: usize) -> Result<Scratch<'_>, KernelError> {
        let memory = self.scratch[self.first + piece].lock().unwrap_or_else(PoisonError::into_inner);
        let mut scratch = Scratch(memory);
        scratch.reserve(bytes)?;
        Ok(scratch)
    }

    /// Memory that all pieces of one operation read; `None` while another operation has it.
    pub(crate) fn together(&self) -> Option<Scratch<'_>> {
        match self.together.try_lock() {
            Ok(memory) => Some(Scratch(memory)),
            Err(TryLockError::Poisoned(memory)) => Some(Scratch(memory.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Scratch memory, given back when dropped.
pub(crate) struct Scratch<'a>(MutexGuard<'a, HostMemory>);

impl Scratch<'_> {
    /// Makes the memory hold at least `bytes`.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), KernelError> {
        if self.0.len() < bytes { self.0.resize(bytes) } else { Ok(()) }
    }

    pub(crate) fn of<T: bytemuck::Pod>(&mut self) -> &mut [T] {
        let bytes = self.0.as_mut_slice();
        let whole = bytes.len() / size_of::<T>() * size_of::<T>();
        bytemuck::cast_slice_mut(&mut bytes[..whole])
    }
}
