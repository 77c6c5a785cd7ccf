//! `c (+)= a·b`, the matrix product under every linear layer.
//!
//! As Goto and van de Geijn's: rows of `a` are packed for the second-level cache, and tiles of [`super::tile`] run over them and panels of
//! `b`. These were packed before ([`super::packed`]), are packed by all threads together, or by each thread in blocks that its caches
//! hold. Bias and ReLU are applied as the last tile of a sum leaves the registers. The `gemm` crate reaches the same speed on large layers,
//! but allocates on every call, fuses nothing and is slow on narrow ones.
#![allow(unsafe_code)]

pub(crate) mod right;

use super::Cpu;
use super::level::Level;
#[cfg(target_arch = "x86_64")]
use super::matrix;
use super::pack::{Operand, round};
use super::shared::Shared;
use super::tile::{Tile, TileSize};
use super::values::{SharedValues, Values};
use ground::precision::Precision;
pub(crate) use right::RightPanels;
use right::longest;
use std::ops::Range;

/// The longest sums carried out in registers. Longer ones come back to `c` once for every further part.
const DEPTH: usize = 512;
/// Columns of `b` packed at a time, at most: with `DEPTH`, a little more than half of a second-level cache of 2 MiB.
const COLUMNS: usize = 576;
/// Rows of `a` that stay in the second-level cache while a block of `b` passes.
const ROWS: usize = 256;
/// Times as many are packed at a time, once for all blocks of `b`, where there are several.
const BLOCKS: usize = 4;
/// Rows that are worth a pass over all panels of `b` that were packed before.
const FEW_ROWS: usize = 64;
/// Multiplications of a product for which threads pack `b` together: below, meeting once more takes longer than packing twice.
const PRODUCT_TOGETHER: usize = 1 << 20;
/// The most terms of `b` that threads pack together.
const TERMS_TOGETHER: usize = 2048;

/// Operations that are fused with storing a product.
#[derive(Clone, Copy, Default)]
pub(crate) struct Finish<'a> {
    /// Whether the product is added to `c`.
    pub add: bool,
    /// Added to every row.
    pub bias: Option<&'a [f32]>,
    /// Whether negative values become zero.
    pub relu: bool,
    /// Mask of the size of `c`: results become zero where the mask is not positive.
    pub mask: Option<Values<'a>>,
    /// Receives `Σₖ a(i, k)` for every row `i`, in the order of k.
    pub sums: Option<Shared<'a, f32>>,
    /// Operands of a cross layer, of the size of `c`: besides the result `z`, `out = x0 ⊙ z + x` is stored.
    pub cross: Option<Cross<'a>>,
}

/// The element-wise half of a cross layer.
#[derive(Clone, Copy)]
pub(crate) struct Cross<'a> {
    /// The input of the first layer.
    pub x0: &'a [f32],
    /// The input of this layer.
    pub x: &'a [f32],
    /// Output of the cross layer.
    pub out: Shared<'a, f32>,
}

/// `c[m × n] = act([c +] a·b [+ bias])`, where `a` gives the elements (i, k) and `b` the elements (j, k).
/// `Product::c` has `m` rows.
pub(crate) fn gemm(cpu: &Cpu, m: usize, product: Product) {
    let Product { n, k, a, finish, .. } = product;
    if let Some(Values::Plain(mask)) = finish.mask {
        assert!(mask.len() >= m * n);
    }
    assert!(finish.cross.is_none_or(|cross| cross.x0.len() >= m * n && cross.x.len() >= m * n));
    let level = cpu.level;
    if m == 0 || n == 0 {
        if let Some(sums) = finish.sums {
            // SAFETY: there are no pieces yet.
            a.add_up(level, 0, 0, k, unsafe { sums.piece(0..m) });
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(form) = matrix::form(cpu.units, cpu.precision, k) {
        return matrix::gemm(cpu, m, product, form);
    }
    if let Some(panels) = product.packed {
        return divide(cpu, m, 0..k, Some(bytemuck::cast_slice(panels)), product);
    }
    // Memory of all threads is taken where products run at the same time: then, and for small products, every thread packs for itself.
    let memory = if worth_packing_together(cpu.threads(), [m, n, k]) { cpu.together() } else { None };
    let Some(mut memory) = memory else { return divide(cpu, m, 0..k, None, product) };
    for terms in terms_together(k) {
        let panels = RightPanels::of_terms(level, n, k, terms.clone());
        memory.reserve(panels.floats() * size_of::<f32>()).expect("a few megabytes of scratch");
        let packed = &mut memory.of::<f32>()[..panels.floats()];
        panels.pack(cpu, product.b, packed);
        divide(cpu, m, terms, Some(packed), product);
    }
}

fn worth_packing_together(threads: usize, [m, n, k]: [usize; 3]) -> bool {
    threads > 1 && m * n * k >= PRODUCT_TOGETHER
}

/// Terms of `b` that threads pack together at a time: whole parts of the sums.
fn terms_together(k: usize) -> impl Iterator<Item = Range<usize>> {
    let most = (TERMS_TOGETHER / longest(k)).max(1) * longest(k);
    (0..k).step_by(most).map(move |from| from..(from + most).min(k))
}

/// All rows and columns of a product for some of its terms, on all threads. `right` are panels of these terms.
fn divide(cpu: &Cpu, m: usize, terms: Range<usize>, right: Option<&[f32]>, product: Product) {
    let Product { n, k, .. } = product;
    let size = cpu.level.tile(n);
    let part = |cpu: &Cpu, piece, rows, columns| {
        block(cpu, piece, Part { rows, columns, terms: terms.clone(), right }, product);
    };
    if cpu.threads() == 1 {
        part(cpu, 0, 0..m, 0..n);
    } else if right.is_some() && (m >= FEW_ROWS * cpu.threads() || m >= n) {
        let least = (m / cpu.threads()).clamp(1, FEW_ROWS).next_multiple_of(rows_packed_together(size));
        cpu.take_blocks(m, [least, ROWS / least * least], &|cpu, rows| part(cpu, 0, rows, 0..n));
    } else if right.is_none() && m >= n {
        // Each thread packs all of the other operand, so the larger side is the one to divide.
        let grain = size.rows * if k * n < 4096 { 8 } else { 1 };
        cpu.divide(m, grain, &|piece, rows| part(cpu, piece, rows, 0..n));
    } else {
        cpu.divide(size.panels(n), 1, &|piece, panels| {
            part(cpu, piece, 0..m, size.start(panels.start, n)..size.start(panels.end, n));
        });
    }
}

/// A product and where it goes.
#[derive(Clone, Copy)]
pub(crate) struct Product<'a> {
    /// Width of `c`.
    pub n: usize,
    /// Length of the sums.
    pub k: usize,
    /// Elements (i, k) of the left operand.
    pub a: Operand<'a>,
    /// Elements (j, k) of the right operand.
    pub b: Operand<'a>,
    /// Panels of the right operand, of bf16 or of floats as this product reads them, if they were packed before.
    pub packed: Option<&'a [u16]>,
    /// The result, as wide as `n`.
    pub c: SharedValues<'a>,
    /// What happens to the result as it is stored.
    pub finish: Finish<'a>,
}

/// What one thread computes of a product. Results do not depend on how rows and columns are cut.
struct Part<'a> {
    rows: Range<usize>,
    columns: Range<usize>,
    /// Terms of the sums, which begin where a part of the sums does. Where they are not the first, they are added to the result.
    terms: Range<usize>,
    /// Panels of all columns of the result for these terms; `None` to pack those of `columns`.
    right: Option<&'a [f32]>,
}

fn block(cpu: &Cpu, piece: usize, part: Part, product: Product) {
    let Part { rows, columns, terms, right } = part;
    let Product { n, k, a, b, finish, .. } = product;
    let level = cpu.level;
    // Without instructions for bf16, operands are rounded to it and multiplied in f32.
    let rounds = cpu.precision == Precision::Bf16;
    let right = right.map(|panels| (RightPanels::of_terms(level, n, k, terms.clone()), panels));
    let size = right.map_or_else(|| level.tile(columns.len()), |(of, _)| of.size());
    let Cut { rows: near, columns: at_once, longest } = Cut::new(size, columns.len(), k);
    let at_once = if right.is_some() { columns.len().max(1) } else { at_once };
    // A second block of columns finds the rows packed.
    let single = columns.len() <= at_once;
    let [for_a, for_b] = packed(size, rows.len(), columns.len(), k, right.is_some());
    let mut scratch =
        cpu.scratch(piece, (for_a + for_b) * size_of::<f32>()).expect("a few megabytes of scratch");
    let (packed_b, packed_a) = scratch.of::<f32>().split_at_mut(for_b);
    for first in rows.clone().step_by(BLOCKS * near) {
        let rows = first..(first + BLOCKS * near).min(rows.end);
        // A sum of no terms is a result too.
        for from in (terms.start..terms.end.max(terms.start + 1)).step_by(longest) {
            let depth = (terms.end - from).min(longest);
            let last = from + depth == k;
            let finish = Finish {
                add: finish.add || from > 0,
                bias: finish.bias.filter(|_| last),
                relu: finish.relu && last,
                mask: finish.mask.filter(|_| last),
                cross: finish.cross.filter(|_| last),
                ..finish
            };
            let product = Product { finish, ..product };
            if let Some(sums) = finish.sums.filter(|_| columns.start == 0) {
                // SAFETY: pieces that share rows differ in columns, and only one of them has the first.
                let sums = unsafe { sums.piece(rows.clone()) };
                a.add_up(level, rows.start, from, depth, sums);
            }
            let panels = Panels { level, size, sums: from..from + depth, rounds };
            // What is read only once need not be packed, as long as its tiles are whole.
            let once =
                depth > 0 && a.by_k && columns.len() <= size.columns && !rounds && !size.needs_packing();
            let whole = if once { rows.start + rows.len() / size.rows * size.rows } else { rows.start };
            if !single {
                panels.pack_left(a, whole..rows.end, packed_a);
            }
            for left in columns.clone().step_by(at_once) {
                let columns = left..(left + at_once).min(columns.end);
                let b = match right {
                    Some((of, panels)) => {
                        Right { panels: &panels[of.at(&(from..from + depth), left)], far: true }
                    }
                    None => {
                        panels.pack_right(b, columns.clone(), packed_b);
                        Right { panels: packed_b, far: false }
                    }
                };
                if whole > rows.start {
                    let data = &a.data.plain()[from * a.stride + rows.start..];
                    let a = Left { data, apart: size.rows, stride: a.stride };
                    panels.multiply(rows.start..whole, columns.clone(), a, b, product);
                }
                // Few enough at a time to stay near while all of the packed columns pass.
                for top in (whole..rows.end).step_by(near) {
                    let some = top..(top + near).min(rows.end);
                    let at = if single {
                        panels.pack_left(a, some.clone(), packed_a);
                        0
                    } else {
                        (top - whole) * depth
                    };
                    let a = Left { data: &packed_a[at..], apart: depth * size.rows, stride: size.rows };
                    panels.multiply(some, columns.clone(), a, b, product);
                }
            }
        }
    }
}

/// How a product is cut.
struct Cut {
    /// Rows that stay near while a block of columns passes.
    rows: usize,
    /// Columns of a block.
    columns: usize,
    /// Length of the parts of sums.
    longest: usize,
}

impl Cut {
    /// Blocks of columns are as equal as whole tiles allow: no narrow block for which all rows pass.
    fn new(size: TileSize, columns: usize, k: usize) -> Self {
        let blocks = columns.div_ceil(COLUMNS).max(1);
        Self {
            rows: ROWS / size.rows * size.rows,
            columns: columns.div_ceil(blocks).max(1).next_multiple_of(size.columns),
            longest: longest(k),
        }
    }
}

/// Rows of the left operand that are packed together: panels of 8 come in pairs.
fn rows_packed_together(size: TileSize) -> usize {
    if size.rows == 8 { 16 } else { size.rows }
}

/// Floats of both operands that a thread packs at a time, of the right one only where its panels are not `there`.
fn packed(size: TileSize, rows: usize, columns: usize, k: usize, there: bool) -> [usize; 2] {
    let cut = Cut::new(size, columns, k);
    let blocks = if there || columns <= cut.columns { 1 } else { BLOCKS };
    let right = if there { 0 } else { columns.min(cut.columns).next_multiple_of(size.columns) };
    [
        cut.longest * rows.min(blocks * cut.rows).next_multiple_of(rows_packed_together(size)),
        cut.longest * right,
    ]
}

/// Bytes of scratch that each of `threads` threads needs for a product of these sizes, with its share of what all of them read.
pub(crate) fn scratch_bytes(threads: usize, [m, n, k]: [usize; 3]) -> usize {
    let level = Level::detect();
    let floats = |rows, columns| packed(level.tile(columns), rows, columns, k, false).iter().sum::<usize>();
    // Threads share the columns of wide products, but not in chains, where each has rows of its own.
    let by_rows = floats(m.div_ceil(threads), n);
    let most = if m >= n { by_rows } else { by_rows.max(floats(m, n.div_ceil(threads))) };
    let terms = terms_together(k).next().filter(|_| worth_packing_together(threads, [m, n, k]));
    let of_all = terms.map_or(0, |terms| RightPanels::of_terms(level, n, k, terms).floats());
    (most + of_all.div_ceil(threads)) * size_of::<f32>()
}

/// Both operands for a part of the sums, in panels as high or as wide as a tile.
struct Panels {
    level: Level,
    size: TileSize,
    /// The part of the sums.
    sums: Range<usize>,
    /// Whether elements are rounded to bf16.
    rounds: bool,
}

/// Panels of `a`, each as high as a tile: the element (i, k) of panel p is `data[p·apart + k·stride + i]`.
#[derive(Clone, Copy)]
struct Left<'a> {
    data: &'a [f32],
    apart: usize,
    stride: usize,
}

/// Panels of `b`, each as wide as a tile.
#[derive(Clone, Copy)]
struct Right<'a> {
    panels: &'a [f32],
    /// Whether they lie beyond the second-level cache: then each panel is asked for while the one before it is read.
    far: bool,
}

impl Panels {
    /// Packs some rows of the left operand.
    fn pack_left(&self, a: Operand, rows: Range<usize>, packed: &mut [f32]) {
        let (tall, depth) = (self.size.rows, self.sums.len());
        let together = rows_packed_together(self.size);
        let chunks = packed.chunks_exact_mut(depth.max(1) * together);
        for (first, to) in rows.clone().step_by(together).zip(chunks) {
            let some = first..(first + together).min(rows.end);
            a.pack(self.level, some, self.sums.clone(), tall, to);
        }
        self.round(&mut packed[..rows.len().next_multiple_of(tall) * depth]);
    }

    /// Packs some columns of the right operand.
    fn pack_right(&self, b: Operand, columns: Range<usize>, packed: &mut [f32]) {
        let (wide, depth) = (self.size.columns, self.sums.len());
        for (some, to) in self.size.cut(columns.clone()).zip(packed.chunks_exact_mut(depth.max(1) * wide)) {
            b.pack(self.level, some, self.sums.clone(), wide, to);
        }
        self.round(&mut packed[..columns.len().next_multiple_of(wide) * depth]);
    }

    fn round(&self, packed: &mut [f32]) {
        if self.rounds {
            round(self.level, packed);
        }
    }

    /// All tiles of some rows of `a` and one packed block of `b`.
    fn multiply(&self, rows: Range<usize>, columns: Range<usize>, a: Left, b: Right, product: Product) {
        let Product { n, finish, .. } = product;
        let (c, mask) = (product.c.plain(), finish.mask.map(Values::plain));
        let (TileSize { rows: tall, columns: wide }, depth) = (self.size, self.sums.len());
        // Each tile asks for a part of the next panel.
        let (panel_floats, asked) = (depth * wide, Tile::floats_ahead(depth));
        for (columns, at) in self.size.cut(columns).zip((0..).map(|panel| panel * panel_floats)) {
            let left = columns.start;
            let next = b.panels.as_ptr().wrapping_add(at + panel_floats);
            let bias = finish.bias.map_or(std::ptr::null(), |bias| bias[left..].as_ptr());
            for (panel_index, top) in rows.clone().step_by(tall).enumerate() {
                // A product over no samples has no panels at all.
                let panel = if depth == 0 { &[] } else { &a.data[panel_index * a.apart..] };
                assert!(depth == 0 || panel.len() >= (depth - 1) * a.stride + tall);
                let tile = Tile {
                    rows: tall.min(rows.end - top),
                    columns: columns.len(),
                    depth,
                    a: panel.as_ptr(),
                    a_stride: a.stride,
                    b: b.panels[at..at + panel_floats].as_ptr(),
                    b_stride: wide,
                    ahead: (b.far && panel_index * asked < panel_floats)
                        .then(|| next.wrapping_add(panel_index * asked)),
                    c: c.address(top * n + left),
                    c_stride: n,
                    add: finish.add,
                    bias,
                    relu: finish.relu,
                    mask: mask.map_or(std::ptr::null(), |mask| mask[top * n + left..].as_ptr()),
                    cross: finish.cross.map(|cross| {
                        let at = top * n + left;
                        (cross.x0[at..].as_ptr(), cross.x[at..].as_ptr(), cross.out.address(at))
                    }),
                };
                // SAFETY: the panels have `depth` lines of a full tile's rows and columns; the tile of `c` lies in the
                // part that belongs to this thread, `bias` is as long as a row of `c`, mask and cross as large as `c`.
                unsafe { tile.run(self.level) };
            }
        }
    }
}
