//! Rows of tables between the card and the host: `kernels/row_copies.cu`.

use super::Cuda;
use super::tables::BLOCK;
use crate::op::Result;
use crate::op::row_copies::{PutRows, TakeRows, record_bytes};
use crate::{Device, RowCopies, Table};

/// Threads that copy a record.
const LANES: usize = 32;

impl Cuda {
    /// Collects rows on the card, and copies them to the host in one piece.
    pub(crate) fn take_rows(&self, args: TakeRows) -> Result {
        let TakeRows { table, slots, copies, records } = args;
        let RowCopies { slots: on_card, records: collected, upload } = copies;
        upload.begin(&Device::Cuda(self.clone()), size_of_val(slots))?;
        on_card.resize(slots.len())?;
        upload.write(on_card, 0, slots)?;
        upload.end()?;
        collected.resize(records.len())?;
        self.copy_rows("take_rows", table, (slots.len(), copies))?;
        copies.records.read(0, records)
    }

    /// Copies records to the card in one piece, and spreads them there.
    pub(crate) fn put_rows(&self, args: PutRows) -> Result {
        let PutRows { table, slots, rows, copies, records } = args;
        let RowCopies { slots: on_card, records: collected, upload } = copies;
        upload.begin(&Device::Cuda(self.clone()), 2 * size_of_val(slots) + records.len())?;
        on_card.resize(2 * slots.len())?;
        upload.write_pieces(on_card, 0, [slots, rows].into_iter())?;
        collected.resize(records.len())?;
        upload.write(collected, 0, records)?;
        upload.end()?;
        self.copy_rows("put_rows", table, (slots.len(), copies))
    }

    /// Launches a kernel for `count` records, whose slots are on the card.
    fn copy_rows(&self, kernel: &'static str, table: &Table, (count, copies): (usize, &RowCopies)) -> Result {
        let [row, state] = record_bytes(table);
        self.kernel(kernel)
            .grid(count.div_ceil(BLOCK / LANES))
            .arg(table.weights.card_address())
            .arg(table.state.card_address())
            .arg(&copies.slots)
            .arg(count)
            .arg(row)
            .arg(state)
            .arg(&copies.records)
            .arg(table.weights.names())
            .launch()
    }
}
