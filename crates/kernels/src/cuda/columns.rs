//! Blocks of columns: copied, or added.

use super::Cuda;
use super::launch::At;
use crate::op::Result;
use crate::{ColumnCopy, Matrix, MatrixMut, Stored};

/// Most blocks in the second dimension of a grid.
const MOST: usize = 65_535;

pub(super) fn copy_columns(
    cuda: &Cuda,
    rows: usize,
    copies: &[ColumnCopy],
    from: Matrix,
    to: MatrixMut,
) -> Result {
    match to.buffer.stored() {
        Stored::Bf16Rows { width } => {
            // Rows have zeros behind them.
            let to = MatrixMut { width: Stored::stride(width), ..to };
            run(cuda, ["copy_columns_to_bf16", "copy_columns_to_bf16_by_four"], rows, copies, from, to)
        }
        // Checks let no panels through: a CPU alone keeps them.
        Stored::Plain | Stored::Bf16Panels { .. } => {
            run(cuda, ["copy_columns", "copy_columns_by_four"], rows, copies, from, to)
        }
    }
}

pub(super) fn add_columns(
    cuda: &Cuda,
    rows: usize,
    copies: &[ColumnCopy],
    from: Matrix,
    to: MatrixMut,
) -> Result {
    run(cuda, ["add_columns", "add_columns_by_four"], rows, copies, from, to)
}

/// Runs the first kernel, or the second where everything comes in fours.
fn run(
    cuda: &Cuda,
    kernels: [&'static str; 2],
    rows: usize,
    copies: &[ColumnCopy],
    from: Matrix,
    to: MatrixMut,
) -> Result {
    let offsets = copies.iter().flat_map(|copy| [copy.from, copy.to, copy.width]);
    let fours = offsets.chain([from.at, from.width, to.at, to.width]).all(|offset| offset % 4 == 0);
    let unit = if fours { 4 } else { 1 };
    for group in groups(copies) {
        let mut before = 0;
        let list: Vec<[u32; 3]> = group
            .iter()
            .map(|copy| {
                let entry = [copy.from, copy.to, before].map(|offset| (offset / unit) as u32);
                before += copy.width;
                entry
            })
            .collect();
        let total = before / unit;
        let lanes = total.next_power_of_two().clamp(1, 256);
        let lines = rows.div_ceil(4 * 256 / lanes).min(MOST);
        cuda.kernel(kernels[usize::from(fours)])
            .grid3([total.div_ceil(lanes), lines, 1])
            .arg(rows)
            .arg(cuda.constant(&list)?)
            .arg(list.len() as u32)
            .arg(total as u32)
            .arg(lanes as u32)
            .arg(At(from.buffer, from.at))
            .arg((from.width / unit) as u32)
            .arg(At(&*to.buffer, to.at))
            .arg((to.width / unit) as u32)
            .launch()?;
    }
    Ok(())
}

/// Copies in groups that run one after the other, in the order given: within a group no two write the same column.
pub fn groups(copies: &[ColumnCopy]) -> Vec<Vec<ColumnCopy>> {
    let copies: Vec<ColumnCopy> = copies.iter().filter(|copy| copy.width > 0).copied().collect();
    let mut sorted: Vec<[usize; 2]> = copies.iter().map(|copy| [copy.to, copy.to + copy.width]).collect();
    sorted.sort_unstable();
    if sorted.windows(2).all(|pair| pair[0][1] <= pair[1][0]) {
        return vec![copies];
    }
    let mut groups: Vec<Vec<ColumnCopy>> = Vec::new();
    for copy in copies {
        let overlaps =
            |other: &ColumnCopy| copy.to < other.to + other.width && other.to < copy.to + copy.width;
        let behind = groups.iter().rposition(|group| group.iter().any(overlaps)).map_or(0, |last| last + 1);
        if behind == groups.len() {
            groups.push(Vec::new());
        }
        groups[behind].push(copy);
    }
    groups
}
