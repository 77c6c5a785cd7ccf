//! What operations and buffers refuse, and that they change nothing then.

use super::support::*;
use ground::Pooling;
use ground::optimizer::UpdateRule;
use kernels::{
    BagIndex, Buffer, Device, IndexBags, KernelError, Lookup, Segment, SortedIds, Table, Update, UpdateTables,
};

/// On a GPU what is bad is found after the operation returned: such an id reads and updates nothing, all others do.
#[test]
fn ids_past_the_end_are_refused_and_change_nothing() {
    for device in devices() {
        let later = matches!(device, Device::Cuda(_));
        let rule = UpdateRule::Sgd;
        let tables = [3, 5].map(|rows| Table::zeroed(&device, rows, 4, Pooling::Sum, &rule).unwrap());
        let segment = |table| Segment {
            table,
            first_sample: 0,
            samples: 100,
            first_value: table * 100,
            lengths_at: None,
        };
        let mut ids = vec![2u32; 200];
        ids[150] = 5;
        let ids = on(&device, &buffer(&ids));
        let (mut index, mut sorted) = (BagIndex::new(&device), SortedIds::new(&device));
        device
            .index_bags(IndexBags {
                tables: 2,
                samples: 100,
                segments: &[segment(0), segment(1)],
                lengths: &[],
                values: 200,
                index: &mut index,
            })
            .unwrap();
        let refused = KernelError::IdOutOfRange { table: 1, id: 5, rows: 5 };
        let sort = device.sort_ids(&tables, &index, &ids, &mut sorted);
        assert_eq!(checked(&device, sort), Err(refused.clone()));
        let mut out = on(&device, &numbers_like(800));
        let looked = device.lookup(Lookup {
            tables: &tables,
            which: 0..2,
            columns: &[0, 4],
            width: 8,
            index: &index,
            samples: 0..100,
            values: &ids,
            weights: None,
            out: &mut out,
        });
        assert_eq!(checked(&device, looked), Err(refused));
        let expected = if later { vec![0.0; 800] } else { vec![7.5; 800] };
        assert_eq!(out.to_vec().unwrap(), expected);
        device
            .lookup(Lookup {
                tables: &tables,
                which: 0..1,
                columns: &[0, 4],
                width: 8,
                index: &index,
                samples: 0..100,
                values: &ids,
                weights: None,
                out: &mut out,
            })
            .unwrap();
        device
            .lookup(Lookup {
                tables: &tables,
                which: 0..2,
                columns: &[0, 4],
                width: 8,
                index: &index,
                samples: 0..50,
                values: &ids,
                weights: None,
                out: &mut out,
            })
            .unwrap();
        assert_eq!(device.check(), Ok(()));
        // Nothing sorted is left that an update could follow; on a GPU all but the bad id.
        let mut tables = tables;
        out.write(0, &[1.0; 800]).unwrap();
        let updated = device.update_tables(UpdateTables {
            tables: &mut tables,
            which: 0..2,
            columns: &[0, 4],
            width: 8,
            index: &index,
            sorted: &sorted,
            weights: None,
            dout: &out,
            update: Update::new(rule, 0.1, 1),
        });
        if later {
            assert_eq!(checked(&device, updated), Ok(()));
            let rows = |table: usize, updates: [f32; 5]| -> Vec<f32> {
                updates[..tables[table].rows].iter().flat_map(|n| [-0.1 * n; 4]).collect()
            };
            for (table, updates) in [(0, [0.0, 0.0, 100.0, 0.0, 0.0]), (1, [0.0, 0.0, 99.0, 0.0, 0.0])] {
                let (got, expected) = (tables[table].weights.to_vec().unwrap(), rows(table, updates));
                assert!(got.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4), "{got:?}");
            }
        } else {
            assert!(matches!(updated, Err(KernelError::TooShort { .. })));
        }
    }
}

#[test]
fn ids_sorted_for_other_tables_are_refused() {
    for device in host_devices() {
        let rule = UpdateRule::Sgd;
        let table = |rows| Table::zeroed(&device, rows, 4, Pooling::Sum, &rule).unwrap();
        let segment = Segment { table: 0, first_sample: 0, samples: 9, first_value: 0, lengths_at: None };
        let (mut index, mut sorted) = (BagIndex::new(&Device::Reference), SortedIds::new(&Device::Reference));
        device
            .index_bags(IndexBags {
                tables: 1,
                samples: 9,
                segments: &[segment],
                lengths: &[],
                values: 9,
                index: &mut index,
            })
            .unwrap();
        device.sort_ids(&[table(9)], &index, &buffer(&[8, 7, 6, 5, 4, 3, 2, 1, 0]), &mut sorted).unwrap();
        let dout = zeros(36);
        let update = |tables: &mut [Table], sorted: &SortedIds| {
            device.update_tables(UpdateTables {
                tables,
                which: 0..1,
                columns: &[0],
                width: 4,
                index: &index,
                sorted,
                weights: None,
                dout: &dout,
                update: Update::new(rule, 0.1, 1),
            })
        };
        assert_eq!(update(&mut [table(9)], &sorted), Ok(()));
        assert!(matches!(update(&mut [table(8)], &sorted), Err(KernelError::Mismatch { .. })));
        sorted.samples.write(3, &[9]).unwrap();
        assert!(matches!(update(&mut [table(9)], &sorted), Err(KernelError::Mismatch { .. })));
        sorted.samples.write(3, &[3]).unwrap();
        sorted.keys.write(4, &[1]).unwrap();
        assert!(matches!(update(&mut [table(9)], &sorted), Err(KernelError::Mismatch { .. })));
        sorted.bounds = vec![0, 10];
        assert!(matches!(update(&mut [table(9)], &sorted), Err(KernelError::Mismatch { .. })));
    }
}

#[test]
fn only_the_tables_of_a_call_are_checked() {
    for device in host_devices() {
        let rule = UpdateRule::Sgd;
        let mut tables = [4, 4].map(|rows| Table::zeroed(&device, rows, 1, Pooling::Sum, &rule).unwrap());
        let segments = [0, 1].map(|table| Segment {
            table,
            first_sample: 0,
            samples: 2,
            first_value: 2 * table,
            lengths_at: None,
        });
        let (mut index, mut sorted) = (BagIndex::new(&Device::Reference), SortedIds::new(&Device::Reference));
        device
            .index_bags(IndexBags {
                tables: 2,
                samples: 2,
                segments: &segments,
                lengths: &[],
                values: 4,
                index: &mut index,
            })
            .unwrap();
        device.sort_ids(&tables, &index, &buffer(&[0, 1, 2, 3]), &mut sorted).unwrap();
        let dout = buffer(&[1.0, 1.0]);
        let mut update = |which, columns: &[usize], sorted: &SortedIds| {
            device.update_tables(UpdateTables {
                tables: &mut tables,
                which,
                columns,
                width: 1,
                index: &index,
                sorted,
                weights: None,
                dout: &dout,
                update: Update::new(rule, 1.0, 1),
            })
        };
        assert!(matches!(update(0..3, &[0, 0], &sorted), Err(KernelError::TooShort { .. })));
        assert!(matches!(update(1..2, &[0, 1], &sorted), Err(KernelError::TooShort { .. })));
        assert!(matches!(update(1..2, &[0], &sorted), Err(KernelError::TooShort { .. })));
        assert_eq!(update(std::ops::Range { start: 9, end: 0 }, &[5, 5], &sorted), Ok(()));
        sorted.keys.write(0, &[9 << 32]).unwrap();
        assert!(matches!(update(0..1, &[0, 0], &sorted), Err(KernelError::Mismatch { .. })));
        assert!(matches!(update(0..2, &[0, 0], &sorted), Err(KernelError::Mismatch { .. })));
        assert_eq!(update(1..2, &[1, 0], &sorted), Ok(()));
        // Keys of the first table that reach into those of the second.
        sorted.bounds = vec![0, 3, 2];
        assert!(matches!(update(1..2, &[0, 0], &sorted), Err(KernelError::Mismatch { .. })));
        assert_eq!(tables[0].weights.to_vec().unwrap(), [0.0; 4]);
        assert_eq!(tables[1].weights.to_vec().unwrap(), [0.0, 0.0, -1.0, -1.0]);
    }
}

#[test]
fn memory_round_trips_and_refuses_the_impossible() {
    let device = Device::cpu(1).unwrap();
    let mut buffer = Buffer::<f32>::from_slice(&device, &[1.0, 2.0, 3.0]).unwrap();
    buffer.resize(600_000).unwrap();
    buffer.resize(3).unwrap();
    let bytes = buffer.into_bytes();
    assert_eq!(bytes.len(), 12);
    assert_eq!(bytes.into_buffer::<u32>().to_vec().unwrap(), [1f32, 2.0, 3.0].map(f32::to_bits));
    assert!(Buffer::<u64>::new(&device).into_bytes().into_buffer::<f64>().is_empty());
    assert!(Buffer::<f32>::zeroed(&device, 0).unwrap().to_vec().unwrap().is_empty());
    for len in [usize::MAX / 8, usize::MAX / 4, usize::MAX] {
        let refused = Buffer::<f32>::zeroed(&device, len);
        assert!(matches!(refused, Err(KernelError::OutOfMemory { .. })), "{len}");
        let mut buffer = Buffer::<f32>::new(&device);
        assert!(matches!(buffer.resize(len), Err(KernelError::OutOfMemory { .. })), "{len}");
    }
}

#[test]
fn reads_and_writes_past_the_end_are_refused() {
    for device in devices() {
        let mut buffer = Buffer::<u16>::from_slice(&device, &[1, 2, 3]).unwrap();
        let refused = |op, at, len| Err(KernelError::PastEnd { op, at, len, holds: 3 });
        assert_eq!(buffer.read(2, &mut [0; 2]), refused("read", 2, 2));
        assert_eq!(buffer.write(4, &[]), refused("write", 4, 0));
        assert_eq!(buffer.write(usize::MAX, &[7]), refused("write", usize::MAX, 1));
        assert_eq!(buffer.write_blocks(1, 3, 1, |_, block| block.fill(9)), refused("write_blocks", 1, 3));
        assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
    }
}
