//! The matrix units of a core (AMX): products of tiles in bf16, added up in f32.
//!
//! This file alone touches tile registers. Invariants:
//! - Tiles are only used through [`Tiles`], whose construction configures those of the calling thread, and whose drop releases
//!   them. It cannot move to another thread. All tiles have 16 rows of 64 bytes.
//! - No tile's contents outlive an `asm!` block: each loads or clears every tile that it reads. Only the configuration stays in
//!   between, which the compiler never touches and the system keeps for the thread.
//! - The system lends tiles to processes that ask ([`detect`]); a [`Tiles`] is only made where it did.
#![allow(unsafe_code)]

use std::arch::asm;
use std::marker::PhantomData;
use std::mem::offset_of;

/// Rows and columns of the blocks of a result that four accumulators hold.
pub(crate) const BLOCK: usize = 32;

/// Whether the processor has tiles for bf16 and the system lends them to this process.
pub(crate) fn detect() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & (BF16 | TILE) == BF16 | TILE && lent()
}

/// Asks the system for tiles; false where it lends none.
#[cfg(target_os = "linux")]
fn lent() -> bool {
    /// `arch_prctl` that asks for a part of the processor's state.
    const REQUEST_PERMISSION: libc::c_long = 0x1023;
    /// Contents of tiles, as a part of the processor's state.
    const TILE_DATA: libc::c_long = 18;
    // SAFETY: the call changes nothing but what this process may use; an old system knows no such call and fails.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0 }
}

/// Only Linux is asked for tiles.
#[cfg(not(target_os = "linux"))]
fn lent() -> bool {
    false
}

/// Adds the steps of a block to its sums. Lines are the instructions of one step, on accumulators in tiles 0 to 3; they move
/// `a` and `b` on. Every step also asks for four lines of what is read next, and for four of what is written in the end: a few at a time
/// get by beside the loads of tiles, all of them at once would hold those up.
macro_rules! add_steps {
    ($block:ident: $($line:literal,)*) => {
        asm!(
            "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
            "mov {t}, [{block} + {FROM}]",
            "mov {line}, 128",
            "test {t}, {t}",
            "jz 2f",
            "tileloadd tmm0, [{t} + {line}]",
            "tileloadd tmm1, [{t} + {line} + 64]",
            "tileloadd tmm2, [{t} + {line} + 2048]",
            "tileloadd tmm3, [{t} + {line} + 2112]",
            "2:",
            "mov {line}, 64",
            "mov {a}, [{block} + {A}]",
            "mov {b}, [{block} + {B}]",
            "mov {ahead}, [{block} + {AHEAD}]",
            "mov {written}, [{block} + {WRITTEN}]",
            "mov {apart}, [{block} + {APART}]",
            "mov {steps}, [{block} + {STEPS}]",
            "test {steps}, {steps}",
            "jz 4f",
            "3:",
            $($line,)*
            "prefetcht1 [{ahead}]",
            "prefetcht1 [{ahead} + 64]",
            "prefetcht1 [{ahead} + 128]",
            "prefetcht1 [{ahead} + 192]",
            "add {ahead}, 256",
            "prefetchw [{written}]",
            "prefetchw [{written} + 64]",
            "add {written}, {apart}",
            "prefetchw [{written}]",
            "prefetchw [{written} + 64]",
            "add {written}, {apart}",
            "dec {steps}",
            "jnz 3b",
            "4:",
            "mov {a}, [{block} + {TO}]",
            "mov {line}, [{block} + {STRIDE}]",
            "shl {line}, 2",
            "mov {b}, {line}",
            "shl {b}, 4",
            "add {b}, {a}",
            "tilestored [{a} + {line}], tmm0",
            "tilestored [{a} + {line} + 64], tmm1",
            "tilestored [{b} + {line}], tmm2",
            "tilestored [{b} + {line} + 64], tmm3",
            block = in(reg) $block,
            a = out(reg) _,
            b = out(reg) _,
            t = out(reg) _,
            line = out(reg) _,
            steps = out(reg) _,
            ahead = out(reg) _,
            written = out(reg) _,
            apart = out(reg) _,
            A = const offset_of!(Block, a),
            B = const offset_of!(Block, b),
            STEPS = const offset_of!(Block, steps),
            FROM = const offset_of!(Block, from),
            TO = const offset_of!(Block, to),
            STRIDE = const offset_of!(Block, stride),
            AHEAD = const offset_of!(Block, ahead),
            WRITTEN = const offset_of!(Block, written),
            APART = const offset_of!(Block, apart),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}

/// Shape of all tiles, as the processor reads it.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    first_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// The tiles of the calling thread, configured until dropped.
pub(crate) struct Tiles {
    /// Configurations belong to threads.
    of_thread: PhantomData<*const ()>,
}

impl Tiles {
    /// Configures the tiles of the calling thread.
    ///
    /// # Safety
    /// [`detect`] must have said yes, and no other `Tiles` may live on this thread.
    pub(crate) unsafe fn new() -> Self {
        let mut row_bytes = [0; 16];
        let mut rows = [0; 16];
        row_bytes[..8].fill(64);
        rows[..8].fill(16);
        let shape = Configuration { palette: 1, first_row: 0, reserved: [0; 14], row_bytes, rows };
        // SAFETY: the configuration is one that every processor with tiles has; the caller says that there are tiles.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const shape, options(nostack, preserves_flags)) };
        Self { of_thread: PhantomData }
    }

    /// Adds `Σ a·b` over the steps of a block to its sums. The panel of rows passes by the first-level cache, where the panel of
    /// columns, which the next block reads again, should stay.
    ///
    /// # Safety
    /// The pointers of `block` must be valid as its fields say.
    #[inline]
    pub(crate) unsafe fn run(&self, block: &Block) {
        // SAFETY: the caller's promise; tiles are configured.
        unsafe {
            match block.split {
                false => self.plain(block),
                true => self.split(block),
            }
        }
    }

    /// # Safety
    /// As for [`Tiles::run`].
    #[inline]
    unsafe fn plain(&self, block: &Block) {
        // SAFETY: the block reads `steps` times 2 KB from `a` and `b`, 4 KB from `from` unless it is null, and writes 32 rows of
        // 128 bytes to `to`: the caller's promise. Everything that it changes is named.
        unsafe {
            add_steps!(block:
                "tileloadd tmm6, [{b} + {line}]",
                "tileloaddt1 tmm4, [{a} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b} + {line} + 1024]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloaddt1 tmm5, [{a} + {line} + 1024]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, 2048",
                "add {b}, 2048",
            );
        }
    }

    /// Three products of the parts of both operands, in this order: upper·lower, upper·upper, lower·upper. Eight tiles are loaded
    /// for twelve products.
    ///
    /// # Safety
    /// As for [`Tiles::run`].
    #[inline]
    unsafe fn split(&self, block: &Block) {
        // SAFETY: as in `plain`, but with 4 KB of each operand per step.
        unsafe {
            add_steps!(block:
                "tileloadd tmm6, [{b} + {line} + 2048]",
                "tileloaddt1 tmm4, [{a} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b} + {line} + 3072]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloaddt1 tmm5, [{a} + {line} + 1024]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tileloadd tmm6, [{b} + {line}]",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloadd tmm7, [{b} + {line} + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloaddt1 tmm4, [{a} + {line} + 2048]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "tileloaddt1 tmm5, [{a} + {line} + 3072]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, 4096",
                "add {b}, 4096",
            );
        }
    }

    /// Runs `count` times four products on tiles alone, for the peak rate, and returns the FLOPs of one time. Tiles hold ones:
    /// products of zeros draw less power, and are faster than any others.
    pub(crate) fn peak(&self, count: usize) -> f64 {
        const ONE: u16 = 0x3f80;
        let ones = [ONE; 512];
        // SAFETY: tiles are configured; each of those loaded is as large as `ones`.
        unsafe {
            asm!(
                "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                "tileloadd tmm4, [{ones} + {line}]",
                "tileloadd tmm5, [{ones} + {line}]",
                "tileloadd tmm6, [{ones} + {line}]",
                "tileloadd tmm7, [{ones} + {line}]",
                "2:",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "dec {count}",
                "jnz 2b",
                count = inout(reg) count.max(1) => _,
                ones = in(reg) ones.as_ptr(),
                line = in(reg) 64usize,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, readonly),
            );
        }
        (4 * 2 * 16 * 16 * 32) as f64
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: tiles are configured, and nothing reads them any more.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}

/// A block of 32 × 32 of a result, and the panels that it is the product of.
#[repr(C)]
pub(crate) struct Block {
    /// Panel of 32 rows: for every step of 32 terms two tiles of 1 KB, or four where operands are split.
    pub a: *const u16,
    /// Panel of 32 columns, of as many tiles.
    pub b: *const u16,
    /// Number of steps.
    pub steps: usize,
    /// Sums so far, 32 rows of 32 floats; null to begin with zeros.
    pub from: *const f32,
    /// Receives the sums, 32 rows of 32 floats; may be `from`.
    pub to: *mut f32,
    /// Floats from row to row of `to`.
    pub stride: usize,
    /// Whether panels hold upper and lower parts, in this order.
    pub split: bool,
    /// What another block reads soon: every step asks for 256 bytes of it. Any address will do.
    pub ahead: *const u16,
    /// What is written once the block is done: every step asks for the first two lines of two pieces of it. Any address will do.
    pub written: *const u8,
    /// Bytes from piece to piece of what is written.
    pub apart: usize,
}
