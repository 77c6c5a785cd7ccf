//! Tables of which a device holds some rows: rows go in and out bit for bit, and are updated and rounded as in the whole table, also in
//! memory of the host that a GPU reaches by itself.

use super::support::*;
use ground::Pooling;
use ground::optimizer::UpdateRule;
use ground::random::RandomSequence;
use ground::table_format::TableFormat;
use kernels::{
    BagIndex, Buffer, Device, PutRows, RandomRounding, RowCopies, SortedIds, Table, TakeRows, Update,
    UpdateTables,
};

const ROWS: usize = 50;
/// Rows that some slots hold, and the slots.
const HELD: [u32; 4] = [41, 3, 17, 49];
const SLOTS: [u32; 4] = [5, 0, 2, 7];

/// A table of random weights that rounds at random.
fn table(device: &Device, pinned: bool, format: TableFormat, [rows, dim]: [usize; 2]) -> Table {
    let rule = UpdateRule::RowWiseAdagrad { eps: 1e-8 };
    let space = if pinned { device.pinned() } else { device.into() };
    let mut table = Table::in_format(space, format, [rows, dim], Pooling::Sum, &rule).unwrap();
    table.weights.write(0, &Numbers(3).floats(rows * dim).to_vec().unwrap()).unwrap();
    let sequence = RandomSequence::new(5, "rounding");
    table.weights.round_at_random(RandomRounding { sequence, first_row: 9, first_column: 2 });
    table
}

fn records(device: &Device, table: &Table, slots: &[u32]) -> Vec<u8> {
    let bytes = table.weights.row_bytes() + 4;
    let (mut copies, mut records) = (RowCopies::new(device), vec![0; slots.len() * bytes]);
    device.take_rows(TakeRows { table, slots, copies: &mut copies, records: &mut records }).unwrap();
    records
}

/// One step in which each of `rows` has one sample.
fn update(device: &Device, table: Table, rows: &[u32]) -> Table {
    let (dim, mut tables) = (table.dim, [table]);
    let starts: Vec<u32> = (0..rows.len() as u32).collect();
    let index = BagIndex::from_bags(device, 1, &starts, &vec![1; rows.len()]).unwrap();
    let mut sorted = SortedIds::new(device);
    let values = Buffer::from_slice(device, rows).unwrap();
    device.sort_ids(&tables, &index, &values, &mut sorted).unwrap();
    let dout = Numbers(8).floats(rows.len() * dim).to_vec().unwrap();
    device
        .update_tables(UpdateTables {
            tables: &mut tables,
            which: 0..1,
            columns: &[0],
            width: dim,
            index: &index,
            sorted: &sorted,
            weights: None,
            dout: &Buffer::from_slice(device, &dout).unwrap(),
            update: Update::new(UpdateRule::RowWiseAdagrad { eps: 1e-8 }, 0.1, 7),
        })
        .unwrap();
    let [table] = tables;
    table
}

#[test]
fn rows_in_slots_are_updated_as_in_the_whole_table() {
    for format in TableFormat::ALL {
        for dim in [16, 5, 1, 40] {
            for (device, pinned) in
                devices().into_iter().flat_map(|device| [(device.clone(), false), (device, true)])
            {
                // Devices add the squares of a row in different orders: each is compared with itself.
                let whole = table(&device, false, format, [ROWS, dim]);
                let before = records(&device, &whole, &HELD);
                let whole = update(&device, whole, &HELD);
                let expected = records(&device, &whole, &HELD);
                assert_ne!(before, expected);
                let mut some = table(&device, pinned, format, [8, dim]);
                some.weights.hold_some_rows().unwrap();
                some.grow(9).unwrap();
                let (slots, rows) = (&SLOTS, &HELD);
                let mut copies = RowCopies::new(&device);
                let put = PutRows { table: &mut some, slots, rows, copies: &mut copies, records: &before };
                device.put_rows(put).unwrap();
                assert_eq!(records(&device, &some, &SLOTS), before, "{format} {dim} {}", device.name());
                let some = update(&device, some, &SLOTS);
                assert_eq!(
                    records(&device, &some, &SLOTS),
                    expected,
                    "{format} {dim} {} {pinned}",
                    device.name()
                );
            }
        }
    }
}

#[test]
fn slots_and_records_that_do_not_fit_are_refused() {
    for device in devices() {
        let mut table = table(&device, false, TableFormat::Int8, [8, 4]);
        let (mut copies, mut records) = (RowCopies::new(&device), [0; 32]);
        let mut take = |slots: &[u32], bytes: usize| {
            device.take_rows(TakeRows {
                table: &table,
                slots,
                copies: &mut copies,
                records: &mut records[..bytes],
            })
        };
        assert!(take(&[7, 0], 32).is_ok() && take(&[], 0).is_ok());
        assert!(take(&[8], 16).unwrap_err().to_string().contains('8'));
        assert!(take(&[1], 15).is_err());
        let put =
            PutRows { table: &mut table, slots: &[1], rows: &[], copies: &mut copies, records: &[0; 16] };
        assert!(device.put_rows(put).is_err());
    }
}
