//! Rows of data-parallel tables and of tensor trains that a batch touches.

use super::exchange::Exchange;
use kernels::{Buffer, Device, RowRuns};

/// Rows of data-parallel tables and of tensor trains that a batch touches.
#[derive(Debug)]
pub struct TouchedRows {
    /// Runs of rows in the dense tables, and the row of each.
    pub(super) dense: (RowRuns, Buffer<u32>),
    /// Runs of rows in the tables whose touched rows are brought together.
    pub(super) by_rows: RowRuns,
    /// Row of each of these runs here, and of those in all copies.
    pub rows: Exchange<u32>,
    /// Number of these rows by table here, and in all copies; in host memory, since they size the exchange of rows.
    pub counts: Exchange<u32>,
    /// Runs of rows in tensor trains, and the row of each.
    pub(super) trains: (RowRuns, Buffer<u32>),
    /// Numbers of rows on the host.
    pub(super) counted: Vec<u32>,
}

impl TouchedRows {
    /// No rows, of copies on `members` ranks.
    pub fn new(device: &Device, members: usize) -> Self {
        Self {
            dense: (RowRuns::new(device), Buffer::new(device)),
            by_rows: RowRuns::new(device),
            rows: Exchange::new(device, members),
            counts: Exchange::on_host(device, members),
            trains: (RowRuns::new(device), Buffer::new(device)),
            counted: Vec::new(),
        }
    }
}
