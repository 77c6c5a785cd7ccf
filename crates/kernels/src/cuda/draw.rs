//! Initial weights of tables: `kernels/draw.cu`.

use super::Cuda;
use super::tables::BLOCK;
use crate::DrawTable;
use crate::op::Result;

pub(super) fn draw_table(cuda: &Cuda, args: DrawTable) -> Result {
    let DrawTable { sequence, bound, dim, rows, columns, weights } = args;
    let count = rows.len() * columns.len();
    cuda.kernel("draw_weights")
        .grid(count.div_ceil(BLOCK).min(16 * cuda.multiprocessors() as usize))
        .arg(weights)
        .arg(count)
        .arg(sequence.key())
        .arg(bound)
        .arg(dim)
        .arg(rows.start)
        .arg(columns.start)
        .arg(columns.len())
        .launch()?;
    // Other queues look rows up later, and wait for no event of this one.
    cuda.stream().synchronise()
}
