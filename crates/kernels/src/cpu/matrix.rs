//! Products whose operands are bf16, by matrix units or by the vector instructions for bf16.
//!
//! Both operands are brought into [`panels`](super::panels) and multiplied in blocks of 32 × 32, whose sums are carried out in
//! the order of their terms. Panels of the right operand are packed once for all threads, or were packed before
//! ([`super::packed`]); each thread packs as many rows of the left one as its second-level cache holds. Rows pass along a panel of
//! columns, of which the first terms stay in the first-level cache. A sum is the same wherever rows and columns are cut, and also where its
//! terms are: the next part begins with the sums of the one before.
#![allow(unsafe_code)]

use super::Cpu;
use super::amx::{BLOCK, Block, Tiles};
use super::finish::{
    self, CrossFloats, Finishing, FloatMask, Floats, KeptPanels, Mask, PanelMask, Place, Sums, Target,
    Unmasked,
};
use super::gemm::{Finish, Product};
use super::pack::Operand;
use super::panels::{Form, STEP, Side, pack, pack_left};
use super::shared::Shared;
use super::units::Units;
use super::values::{SharedValues, Values};
use ground::precision::Precision;
use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::ops::Range;

/// Bytes of the left operand that are packed at a time: half of a second-level cache, through which the right one passes.
const LEFT_BYTES: usize = 1 << 20;
/// Blocks of rows that are packed at a time, at least and at most. The fewer, the more often all of the right operand passes.
const ROW_BLOCKS: [usize; 2] = [8, 16];
/// Bytes of a panel of the right operand that stay in a first-level cache while rows pass: sums, results and masks need the rest of 48 KB.
const NEAR_BYTES: usize = 32 << 10;
/// The most terms of a right operand that are packed at a time.
const MOST_TERMS: usize = 2048;
/// Numbers that are worth a thread of their own in packing.
const PACKED_GRAIN: usize = 32 << 10;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Multiplications that are worth a thread of their own.
const PRODUCT_GRAIN: usize = 2 << 20;

/// Form of the operands of a product of `terms` terms; `None` where products in `precision` are computed in f32.
///
/// Three products in bf16 are faster than one in f32 by matrix units only.
pub(crate) fn form(units: Units, precision: Precision, terms: usize) -> Option<Form> {
    match (units, precision) {
        (Units::Amx | Units::Avx512Bf16, Precision::Bf16) => Some(Form { terms, split: false }),
        (Units::Amx, Precision::F32x3) => Some(Form { terms, split: true }),
        _ => None,
    }
}

/// Packs the panels of `count` columns, on all threads.
pub(crate) fn pack_right(cpu: &Cpu, operand: Operand, count: usize, from: usize, form: Form, to: &mut [u16]) {
    let to = Shared::new(to);
    let grain = (PACKED_GRAIN / form.terms.max(1)).next_multiple_of(BLOCK).max(BLOCK);
    cpu.divide(count, grain, &|_, columns| {
        let start = form.panels(columns.start);
        // SAFETY: pieces begin at whole panels and do not overlap; a form is only made where there are the instructions.
        unsafe {
            let to = to.piece(start..start + form.panels(columns.len()));
            pack(&operand, columns, from, form, Side::Right, to);
        }
    });
}

/// `c[m × n] = act([c +] a·b [+ bias])`, as [`super::gemm::gemm`], on all threads.
pub(crate) fn gemm(cpu: &Cpu, m: usize, product: Product, form: Form) {
    let Product { n, k, .. } = product;
    let divide = |terms: Range<usize>, right: Option<&[u16]>| {
        let part = |piece, rows, columns| {
            part(cpu, piece, Part { rows, columns, terms: terms.clone(), split: form.split, right }, product);
        };
        // With one packed right operand for all, threads that share columns pack nothing twice.
        if m >= BLOCK * cpu.threads() || m >= n {
            let grain = BLOCK * PRODUCT_GRAIN.div_ceil(BLOCK * (terms.len() * n).max(1)).min(m);
            cpu.divide(m, grain, &|piece, rows| part(piece, rows, 0..n));
        } else {
            cpu.divide(n, BLOCK, &|piece, columns| part(piece, 0..m, columns));
        }
    };
    if product.packed.is_some() {
        return divide(0..k, product.packed);
    }
    // Taken already where products run at the same time: then every thread packs for itself.
    let Some(mut memory) = cpu.together() else { return divide(0..k, None) };
    // Rounded results are made of whole sums.
    let rounded = matches!(product.c, SharedValues::Kept(..));
    let parts = if rounded { 1 } else { k.div_ceil(MOST_TERMS).max(1) };
    let most = k.div_ceil(parts).next_multiple_of(STEP).max(1);
    for from in (0..k.max(1)).step_by(most) {
        let form = Form { terms: most.min(k - from), ..form };
        memory.reserve(form.panels(n) * size_of::<u16>()).expect("a few megabytes of scratch");
        let panels = &mut memory.of::<u16>()[..form.panels(n)];
        pack_right(cpu, product.b, n, from, form, panels);
        divide(from..from + form.terms, Some(panels));
    }
}

/// Bytes of scratch that each of `threads` threads needs for a product of m × n sums of k terms, with its share of what all of
/// them read.
pub(crate) fn scratch_bytes(threads: usize, [m, n, k]: [usize; 3], split: bool) -> usize {
    let form = Form { terms: k, split };
    let together = Form { terms: k.min(MOST_TERMS + STEP), split };
    let own = Form { terms: terms_at_a_time(form).min(k), split };
    let rows = m.div_ceil(threads).min(row_blocks(own) * BLOCK);
    let packed = own.panels(rows) + together.panels(n).div_ceil(threads);
    packed * size_of::<u16>() + carried(form, n) * size_of::<Sums>()
}

/// Terms of the left operand that are packed at a time: long sums are cut rather than few rows taken.
fn terms_at_a_time(form: Form) -> usize {
    let parts = (form.panel() * size_of::<u16>() * ROW_BLOCKS[0]).div_ceil(LEFT_BYTES).max(1);
    form.steps().div_ceil(parts).max(1) * STEP
}

/// Blocks of rows that are packed at a time where so many terms are.
fn row_blocks(form: Form) -> usize {
    let [least, most] = ROW_BLOCKS;
    (LEFT_BYTES / (form.panel() * size_of::<u16>()).max(1)).clamp(least, most)
}

/// Blocks of sums that wait for more terms, of a result of so many columns that is rounded when all terms are there.
fn carried(form: Form, columns: usize) -> usize {
    let some = Form { terms: terms_at_a_time(form), ..form };
    if some.terms < form.terms { columns.div_ceil(BLOCK) * row_blocks(some) } else { 0 }
}

/// What one thread computes of a product.
struct Part<'a> {
    rows: Range<usize>,
    columns: Range<usize>,
    /// Terms of the sums. Where they are not the first, sums begin with what the result holds.
    terms: Range<usize>,
    split: bool,
    /// Panels of all columns of the result; `None` to pack those of `columns`.
    right: Option<&'a [u16]>,
}

fn part(cpu: &Cpu, piece: usize, part: Part, product: Product) {
    let Part { rows, columns, terms, split, right } = part;
    let form = Form { terms: terms.len(), split };
    let most = terms_at_a_time(form);
    let carried = match product.c {
        SharedValues::Kept(..) => carried(form, columns.len()),
        SharedValues::Plain(_) => 0,
    };
    // Rows of bf16 are panels already.
    let kept = match product.a.data {
        Values::Kept(kept) if !product.a.by_k => Some(kept),
        _ => None,
    };
    assert!(kept.is_none() || product.finish.sums.is_none(), "sums are taken of rows that are packed");
    let packed_form = Form { terms: most.min(form.terms), split };
    let at_a_time = row_blocks(packed_form) * BLOCK;
    let for_left = if kept.is_some() { 0 } else { packed_form.panels(rows.len().min(at_a_time)) };
    let for_right = if right.is_some() { 0 } else { form.panels(columns.len()) };
    let bytes = carried * size_of::<Sums>() + (for_left + for_right) * size_of::<u16>();
    let mut scratch = cpu.scratch(piece, bytes).expect("a few megabytes of scratch");
    let (sums, panels) = scratch.of::<u16>().split_at_mut(carried * size_of::<Sums>() / size_of::<u16>());
    let (sums, _) = bytemuck::cast_slice_mut::<u16, f32>(sums).as_chunks_mut();
    let (packed, own) = panels.split_at_mut(for_left);
    let right = match right {
        Some(panels) => &panels[columns.start / BLOCK * form.panel()..],
        None => {
            // SAFETY: a form is only made where there are the instructions.
            unsafe { pack(&product.b, columns.clone(), terms.start, form, Side::Right, own) };
            own
        }
    };
    let right = &right[..form.panels(columns.len())];
    let kernel = Kernel::new(cpu.units);
    for first in rows.clone().step_by(at_a_time) {
        let rows = first..(first + at_a_time).min(rows.end);
        // A sum of no terms is a result too.
        for from in (terms.start..terms.end.max(terms.start + 1)).step_by(most) {
            let some = from..(from + most).min(terms.end);
            let of_some = Form { terms: some.len(), split };
            let (left, left_panel) = match kept {
                Some(kept) => kept.left(&rows, some.start),
                None => {
                    let added_up = product.finish.sums.filter(|_| columns.start == 0).map(|sums| {
                        // SAFETY: pieces that share rows differ in columns, and only one of them has the first.
                        unsafe { sums.piece(rows.clone()) }
                    });
                    // SAFETY: a form is only made where there are the instructions.
                    unsafe {
                        let (a, rows) = (&product.a, rows.clone());
                        pack_left(a, cpu.level, rows, some.start, of_some, packed, added_up);
                    }
                    (&*packed, of_some.panel())
                }
            };
            let right = &right[(from - terms.start) / STEP * form.step()..];
            let panels = Panels { left, left_panel, right, right_panel: form.panel(), form: of_some };
            let place = Place { rows: rows.clone(), columns: columns.clone() };
            // SAFETY: a form is only made where there are the instructions.
            unsafe { run_blocks(&kernel, &panels, place, some, sums, product) };
        }
    }
}

/// Packed operands.
struct Panels<'a> {
    left: &'a [u16],
    /// Numbers from panel to panel of the left operand.
    left_panel: usize,
    right: &'a [u16],
    /// Numbers from panel to panel of the right operand.
    right_panel: usize,
    /// Form of the terms that are multiplied, which may be some of those in the panels.
    form: Form,
}

/// Sums of two blocks: one is computed while the other is finished.
#[repr(align(64))]
struct InTurns([Sums; 2]);

/// All blocks of the rows and columns at `place`. `carried` keeps the sums of rounded results that wait for more terms.
///
/// # Safety
/// The processor must have AVX-512 with instructions for words and for bf16.
unsafe fn run_blocks(
    kernel: &Kernel,
    panels: &Panels,
    place: Place,
    terms: Range<usize>,
    carried: &mut [Sums],
    mut product: Product,
) {
    let floats = matches!(product.c, SharedValues::Plain(_));
    assert!(floats || !product.finish.add, "panels of bf16 are not added to");
    let (add, last) = (product.finish.add || terms.start > 0, terms.end == product.k);
    product.finish.add = add;
    if floats && !last {
        // Sums are stored as they are until all terms are there.
        product.finish = Finish { add, ..Finish::default() };
    }
    assert!(floats || !carried.is_empty() || (!add && last), "panels of bf16 get whole sums");
    let (cross, mask) = (product.finish.cross.is_some(), product.finish.mask);
    // SAFETY: the caller's promise.
    unsafe {
        let run = match product.c {
            SharedValues::Plain(_) if cross && mask.is_some() => panic!("cross layers have no mask"),
            SharedValues::Plain(_) if cross => blocks::<CrossFloats, Unmasked>,
            SharedValues::Plain(_) => masked::<Floats>(mask),
            SharedValues::Kept(_, layout) if layout.split => masked::<KeptPanels<true>>(mask),
            SharedValues::Kept(..) => masked::<KeptPanels<false>>(mask),
        };
        run(kernel, panels, place, last, carried, &product);
    }
}

/// The blocks of a product with results in `T`, by what masks them.
fn masked<T: Target>(
    mask: Option<Values>,
) -> unsafe fn(&Kernel, &Panels, Place, bool, &mut [Sums], &Product) {
    match mask {
        None => blocks::<T, Unmasked>,
        Some(Values::Plain(_)) => blocks::<T, FloatMask>,
        Some(Values::Kept(_)) => blocks::<T, PanelMask>,
    }
}

/// As [`run_blocks`], with results in `T` and masks in `M`, and without the operations of `product` that wait for the `last` terms.
///
/// # Safety
/// As for [`run_blocks`].
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn blocks<T: Target, M: Mask>(
    kernel: &Kernel,
    panels: &Panels,
    place: Place,
    last: bool,
    carried: &mut [Sums],
    product: &Product,
) {
    // Sums of floats go to the result after each part of their terms, others after the last.
    let stores = last || matches!(product.c, SharedValues::Plain(_));
    let &Panels { left, left_panel, right, right_panel, form } = panels;
    let (steps, split, n) = (form.steps(), form.split, product.n);
    let near = NEAR_BYTES / size_of::<u16>() / form.step();
    let mut in_turns = InTurns([[0.0; BLOCK * BLOCK]; 2]);
    let in_turns = in_turns.0.each_mut().map(|sums| sums.as_mut_ptr());
    let row_blocks = place.rows.len().div_ceil(BLOCK);
    let carried_rows = carried.len() / place.columns.len().div_ceil(BLOCK).max(1);
    assert!(carried.is_empty() || carried_rows >= row_blocks, "sums of all blocks wait for more terms");
    // Through one pointer: another `&mut` would invalidate those of sums that are still to be read.
    let carried = (!carried.is_empty()).then_some(carried.as_mut_ptr());
    // Blocks of a column ask together for the panel of the next column, each for as many lines at every step.
    let ahead_of_block = form.panel() * size_of::<u16>() / row_blocks.max(1);
    let lines_a_step = ahead_of_block.div_ceil(LINE * steps.max(1));
    let rows_a_step = BLOCK.div_ceil(steps.max(1));
    let mut before: Option<Finishing<T, M>> = None;
    for (j, first) in place.columns.clone().step_by(BLOCK).enumerate() {
        let columns = first..(first + BLOCK).min(place.columns.end);
        let b = &right[j * right_panel..][..form.panel()];
        for (i, first) in place.rows.clone().step_by(BLOCK).enumerate() {
            let rows = first..(first + BLOCK).min(place.rows.end);
            let place = Place { rows, columns: columns.clone() };
            let sums = match carried {
                Some(all) => all.wrapping_add(j * carried_rows + i).cast(),
                None => in_turns[(j * row_blocks + i) % 2],
            };
            let (from, from_stride) = match product.c {
                _ if !product.finish.add => (std::ptr::null(), BLOCK),
                // Sums of whole blocks need not pass by `sums`.
                SharedValues::Plain(_) if place.is_whole() => (product.block(&place).cast_const(), n),
                SharedValues::Plain(_) => {
                    // SAFETY: the block belongs to this thread, and `sums` are those of a block.
                    unsafe { finish::load(&mut *sums.cast::<Sums>(), &place, product) };
                    (sums.cast_const(), BLOCK)
                }
                SharedValues::Kept(..) => (sums.cast_const(), BLOCK),
            };
            let now = stores.then(|| Finishing::<T, M>::new(sums, &place, product, last));
            let a = &left[i * left_panel..][..form.panel()];
            let ahead = b.as_ptr().wrapping_add(right_panel).cast::<i8>();
            let mut ahead = ahead.wrapping_add(i * ahead_of_block);
            let mut row = 0;
            let beside = || {
                for _ in 0..lines_a_step {
                    _mm_prefetch::<_MM_HINT_T1>(ahead);
                    ahead = ahead.wrapping_add(LINE);
                }
                for row in row..(row + rows_a_step).min(BLOCK) {
                    if let Some(now) = &now {
                        now.ask_for(row);
                    }
                    if let Some(before) = &before {
                        // SAFETY: the block before belongs to this thread, and its sums wait to be finished.
                        unsafe { before.row(row) };
                    }
                }
                row += rows_a_step;
            };
            let (a, b, to) = (a.as_ptr(), b.as_ptr(), sums);
            let block = Block { a, b, steps, near, from, from_stride, to, stride: BLOCK, split };
            // SAFETY: both panels have these steps, `sums` is a block, and so is what `product.block` gives.
            unsafe { kernel.run(&block, beside) };
            // The rest of the rows, where there were no steps at all.
            for row in row..BLOCK {
                if let Some(before) = &before {
                    // SAFETY: as above.
                    unsafe { before.row(row) };
                }
            }
            before = now;
        }
    }
    for row in 0..BLOCK {
        if let Some(before) = &before {
            // SAFETY: as above.
            unsafe { before.row(row) };
        }
    }
    if stores {
        super::stream::fence();
    }
}

impl Product<'_> {
    /// Address of a whole block of a result of floats.
    fn block(&self, place: &Place) -> *mut f32 {
        assert!(place.is_whole() && place.columns.end <= self.n);
        let c = self.c.plain();
        // The last element lies in the result, and so do all before it.
        let _ = c.address((place.rows.end - 1) * self.n + place.columns.end);
        c.address(place.rows.start * self.n + place.columns.start)
    }
}

/// Instructions that multiply blocks, ready for use by this thread.
pub(crate) enum Kernel {
    Tiles(Tiles),
    Vectors,
}

impl Kernel {
    pub(crate) fn new(units: Units) -> Self {
        match units {
            // SAFETY: units are only named where they were found; a thread's part of a product makes one, and drops it.
            Units::Amx => Self::Tiles(unsafe { Tiles::new() }),
            _ => Self::Vectors,
        }
    }

    /// Multiplies a block, and calls `beside` as often as it has steps.
    ///
    /// # Safety
    /// The pointers of `block` must be valid as its fields say, and `beside` must use no tiles.
    #[inline(always)]
    pub(crate) unsafe fn run(&self, block: &Block, mut beside: impl FnMut()) {
        // SAFETY: the caller's promise; panels are only made where there are the instructions.
        unsafe {
            match self {
                Self::Tiles(tiles) => tiles.run(block, beside),
                Self::Vectors => {
                    super::dots::run(block);
                    (0..block.steps).for_each(|_| beside());
                }
            }
        }
    }
}
