//! Updates mark the rows that they change, where somebody asks for them.

use super::support::*;
use ground::Pooling;
use ground::optimizer::UpdateRule;
use kernels::{
    BagIndex, Buffer, Device, RowMarks, RowPart, SortedIds, Table, Update, UpdateRows, UpdateTables,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

const DIM: usize = 3;

fn tables(device: &Device, rows: &[usize], marked: &[bool]) -> Vec<Table> {
    let make = |(&rows, &marked): (&usize, &bool)| {
        let mut table = Table::zeroed(device, rows, DIM, Pooling::Sum, &UpdateRule::Sgd).unwrap();
        table.updated = marked.then(|| RowMarks::new(device, rows).unwrap());
        table
    };
    rows.iter().zip(marked).map(make).collect()
}

fn taken(tables: &mut [Table]) -> Vec<Option<Vec<u32>>> {
    tables.iter_mut().map(|table| table.updated.as_mut().map(|marks| marks.take().unwrap())).collect()
}

proptest! {
    /// The rows of the ids, of the tables that are updated and have marks; each once, until they are taken.
    #[test]
    fn updates_mark_their_rows(
        rows in prop::collection::vec(1usize..200, 1..6),
        marked in prop::collection::vec(any::<bool>(), 6),
        batches in prop::collection::vec((0u64..1000, 0usize..40), 1..4),
        skipped in 0usize..2,
    ) {
        let first = skipped.min(rows.len() - 1);
        for device in devices() {
            let mut tables = tables(&device, &rows, &marked);
            let mut expected = vec![BTreeSet::new(); rows.len()];
            for &(seed, samples) in &batches {
                let mut numbers = Numbers(seed);
                let ids: Vec<u32> = rows
                    .iter()
                    .flat_map(|&rows| (0..samples).map(move |_| rows as u64))
                    .map(|rows| (numbers.next() % rows) as u32)
                    .collect();
                for (table, ids) in ids.chunks(samples.max(1)).enumerate().skip(first) {
                    expected[table].extend(ids);
                }
                let starts: Vec<u32> = (0..ids.len() as u32).collect();
                let index =
                    BagIndex::from_bags(&device, rows.len(), &starts, &vec![1; ids.len()]).unwrap();
                let mut sorted = SortedIds::new(&device);
                let values = Buffer::from_slice(&device, &ids).unwrap();
                device.sort_ids(&tables, &index, &values, &mut sorted).unwrap();
                let (columns, width) = (vec![0; rows.len()], DIM);
                let dout = Buffer::from_slice(&device, &vec![1.0; samples * DIM]).unwrap();
                device.update_tables(UpdateTables {
                    which: first..rows.len(),
                    tables: &mut tables,
                    columns: &columns,
                    width,
                    index: &index,
                    sorted: &sorted,
                    weights: None,
                    dout: &dout,
                    update: Update::new(UpdateRule::Sgd, 0.1, 1),
                }).unwrap();
            }
            let expected: Vec<Option<Vec<u32>>> = expected
                .into_iter()
                .zip(&marked)
                .map(|(rows, &marked)| marked.then(|| rows.into_iter().collect()))
                .collect();
            prop_assert_eq!(&taken(&mut tables), &expected, "{}", device.name());
            prop_assert!(taken(&mut tables).into_iter().flatten().all(|rows| rows.is_empty()));
        }
    }
}

/// Copies of a table are updated by rows.
#[test]
fn updates_by_rows_mark_them() {
    for device in devices() {
        let mut tables = tables(&device, &[50, 70], &[false, true]);
        let parts = [
            RowPart { table: 0, rows: 0..2, sums: 0 },
            RowPart { table: 1, rows: 2..4, sums: 2 * DIM },
            RowPart { table: 1, rows: 4..5, sums: 4 * DIM },
        ];
        device
            .update_rows(UpdateRows {
                tables: &mut tables,
                parts: &parts,
                rows: &Buffer::from_slice(&device, &[1, 2, 33, 69, 33]).unwrap(),
                sums: &Buffer::from_slice(&device, &[1.0; 5 * DIM]).unwrap(),
                keys: &mut Buffer::new(&device),
                update: Update::new(UpdateRule::Sgd, 0.1, 1),
            })
            .unwrap();
        assert_eq!(taken(&mut tables), [None, Some(vec![33, 69])], "{}", device.name());
    }
}
