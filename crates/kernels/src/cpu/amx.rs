//! The matrix units of a core (AMX): products of tiles in bf16, added up in f32.
//!
//! This file alone touches tile registers. Invariants:
//! - Tiles are only used through [`Tiles`], whose construction configures those of the calling thread, and whose drop releases
//!   them. It cannot move to another thread. All tiles have 16 rows of 64 bytes.
//! - Tiles keep their contents from one `asm!` block to the next, but only inside [`Tiles::run`]: the compiler has no values of tiles and
//!   never touches them, the system keeps them for the thread, and what runs between the blocks makes no `Tiles` of its own.
//! - The system lends tiles to processes that ask ([`detect`]); a [`Tiles`] is only made where it did.
#![allow(unsafe_code)]

use std::arch::asm;
use std::marker::PhantomData;

/// Rows and columns of the blocks of a result that four accumulators hold.
pub(crate) const BLOCK: usize = 32;
/// Bytes of a line of a tile, and from line to line of tiles in panels.
const LINE: usize = 64;
/// Numbers of a tile.
const TILE: usize = 512;

/// Whether the processor has tiles for bf16 and the system lends them to this process.
pub(crate) fn detect() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const AMX_BF16: u32 = 1 << 22;
    const AMX_TILE: u32 = 1 << 24;
    const BOTH: u32 = AMX_BF16 | AMX_TILE;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & BOTH == BOTH && lent()
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

/// Instructions that may change any tile, and write no memory.
macro_rules! on_tiles {
    ([$($line:expr),* $(,)?], $($operands:tt)*) => {
        asm!(
            $($line,)*
            $($operands)*
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, readonly, preserves_flags),
        )
    };
}

/// A step of a block: `tmm0` to `tmm3` become the sums with 32 terms more. `$load` loads tiles of the right operand. The left one passes by
/// the first-level cache.
macro_rules! step {
    ($load:literal, $a:expr, $b:expr) => {
        on_tiles!(
            [
                concat!($load, " tmm6, [{b} + {line}]"),
                "tileloaddt1 tmm4, [{a} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                concat!($load, " tmm7, [{b} + {line} + 1024]"),
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloaddt1 tmm5, [{a} + {line} + 1024]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
            ],
            a = in(reg) $a, b = in(reg) $b, line = in(reg) LINE,
        )
    };
}

/// The same of operands of two parts. Three products of the parts of both operands, in this order: upper·lower, upper·upper, lower·upper.
/// Eight tiles are loaded for twelve products.
macro_rules! split_step {
    ($load:literal, $a:expr, $b:expr) => {
        on_tiles!(
            [
                concat!($load, " tmm6, [{b} + {line} + 2048]"),
                "tileloaddt1 tmm4, [{a} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                concat!($load, " tmm7, [{b} + {line} + 3072]"),
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloaddt1 tmm5, [{a} + {line} + 1024]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                concat!($load, " tmm6, [{b} + {line}]"),
                "tdpbf16ps tmm3, tmm5, tmm7",
                concat!($load, " tmm7, [{b} + {line} + 1024]"),
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
            ],
            a = in(reg) $a, b = in(reg) $b, line = in(reg) LINE,
        )
    };
}

/// All steps of a block. Those of the right operand that are near are loaded by way of the first-level cache, and stay there for the block that
/// comes next; the others pass by it, as they would push the near ones out.
macro_rules! steps {
    ($step:ident, $block:ident, $beside:ident, $numbers:expr) => {{
        for step in 0..$block.near.min($block.steps) {
            $step!("tileloadd", $block.a.add(step * $numbers), $block.b.add(step * $numbers));
            $beside();
        }
        for step in $block.near..$block.steps {
            $step!("tileloaddt1", $block.a.add(step * $numbers), $block.b.add(step * $numbers));
            $beside();
        }
    }};
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

    /// Adds `Σ a·b` over the steps of a block to its sums, and calls `beside` after each step: matrix units take so long for one that vector
    /// instructions run beside them at no cost.
    ///
    /// # Safety
    /// The pointers of `block` must be valid as its fields say, and `beside` must use no tiles.
    #[inline(always)]
    pub(crate) unsafe fn run(&self, block: &Block, mut beside: impl FnMut()) {
        let Block { from, from_stride, to, stride, .. } = *block;
        // SAFETY: the block reads `steps` steps of both operands, 32 rows of 128 bytes from `from` unless it is null, and writes as many to
        // `to`: the caller's promise. Everything that is changed is named, but for the tiles' contents, which stay for the next `asm!`.
        unsafe {
            if from.is_null() {
                on_tiles!(["tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3"],);
            } else {
                on_tiles!(
                    [
                        "tileloadd tmm0, [{upper} + {line}]",
                        "tileloadd tmm1, [{upper} + {line} + 64]",
                        "tileloadd tmm2, [{lower} + {line}]",
                        "tileloadd tmm3, [{lower} + {line} + 64]",
                    ],
                    upper = in(reg) from, lower = in(reg) from.add(16 * from_stride),
                    line = in(reg) from_stride * size_of::<f32>(),
                );
            }
            match block.split {
                false => steps!(step, block, beside, 2 * TILE),
                true => steps!(split_step, block, beside, 4 * TILE),
            }
            asm!(
                "tilestored [{upper} + {line}], tmm0",
                "tilestored [{upper} + {line} + 64], tmm1",
                "tilestored [{lower} + {line}], tmm2",
                "tilestored [{lower} + {line} + 64], tmm3",
                upper = in(reg) to, lower = in(reg) to.add(16 * stride), line = in(reg) stride * size_of::<f32>(),
                options(nostack, preserves_flags),
            );
        }
    }

    /// Runs `count` times four products on tiles alone, for the peak rate, and returns the FLOPs of one time. Tiles hold ones:
    /// products of zeros draw less power, and are faster than any others.
    pub(crate) fn peak(&self, count: usize) -> f64 {
        const ONE: u16 = 0x3f80;
        let ones = [ONE; TILE];
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
                line = in(reg) LINE,
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
pub(crate) struct Block {
    /// Panel of 32 rows: for every step of 32 terms two tiles of 1 KB, or four where operands are split.
    pub a: *const u16,
    /// Panel of 32 columns, of as many tiles.
    pub b: *const u16,
    /// Number of steps.
    pub steps: usize,
    /// Number of first steps whose part of `b` another block reads soon, too.
    pub near: usize,
    /// Sums so far, 32 rows of 32 floats; null to begin with zeros.
    pub from: *const f32,
    /// Floats from row to row of `from`.
    pub from_stride: usize,
    /// Receives the sums, 32 rows of 32 floats; may be `from`.
    pub to: *mut f32,
    /// Floats from row to row of `to`.
    pub stride: usize,
    /// Whether panels hold upper and lower parts, in this order.
    pub split: bool,
}
