//! A device that computes nothing still refuses what does not fit, gives outputs their sizes, and owns memory of its own.

use ground::optimizer::UpdateRule;
use ground::{Activation, Pooling};
use kernels::{
    BagIndex, Bce, Buffer, Device, IndexBags, KernelError, LinearAt, LinearForward, LinearShape, Lookup,
    Segment, SortedIds, Table, Update, UpdateTables,
};

#[test]
fn operands_are_checked_and_outputs_left_alone() {
    let device = Device::Idle;
    let exchanged = |values: &[f32]| Buffer::from_slice(device.for_exchange(), values).unwrap();
    let x = Buffer::from_slice(&device, &[1.0f32; 6]).unwrap();
    let parameters = Buffer::from_slice(&device, &[1.0f32; 4]).unwrap();
    let forward = |x: &Buffer<f32>, y: &mut Buffer<f32>| {
        device.linear_forward(LinearForward {
            shape: LinearShape { rows: 2, inputs: 3, outputs: 1 },
            x,
            parameters: &parameters,
            at: LinearAt { weight: 0, bias: Some(3) },
            packed: None,
            activation: Activation::Identity,
            y,
        })
    };
    let mut y = exchanged(&[7.0; 2]);
    forward(&x, &mut y).unwrap();
    assert_eq!(y.to_vec().unwrap(), [7.0, 7.0]);
    let refused = forward(&x, &mut exchanged(&[7.0])).unwrap_err();
    assert!(refused.to_string().contains("y holds 1 elements, but 2 are needed"), "{refused}");
    let elsewhere = Buffer::zeroed(&Device::Reference, 6).unwrap();
    let refused = forward(&elsewhere, &mut y).unwrap_err().to_string();
    assert_eq!(
        refused,
        "linear_forward: x is in host memory, but the operation runs on idle; copy it there first"
    );
    let (mut dlogits, mut loss) = (Buffer::zeroed(&device, 2).unwrap(), Buffer::zeroed(&device, 1).unwrap());
    let (logits, labels, weights, smoothing, scale) = (&y, &x, None, 0.0, 1.0);
    let (dlogits, probabilities) = (&mut dlogits, None);
    let bce =
        Bce { rows: 2, logits, labels, weights, smoothing, scale, dlogits, loss: &mut loss, probabilities };
    assert_eq!(device.bce(bce), Ok(()));
    assert!(!loss.has_contents());
}

/// What is written for computing is dropped, what is made for exchange exists, and neither is written past its end.
#[test]
fn memory_without_contents() {
    let mut computed = Buffer::<u32>::zeroed(&Device::Idle, 4).unwrap();
    computed.write(0, &[1, 2, 3, 4]).unwrap();
    computed.write_blocks(0, 4, 2, |_, _| panic!("nobody keeps this")).unwrap();
    assert_eq!(computed.to_vec(), Err(KernelError::NoContents { op: "to_vec" }));
    assert!(matches!(computed.write(3, &[1, 2]), Err(KernelError::PastEnd { at: 3, len: 2, holds: 4, .. })));
    computed.resize(usize::MAX / 4).unwrap();
    assert!(matches!(computed.resize(usize::MAX / 2), Err(KernelError::OutOfMemory { .. })));

    let mut sent = Buffer::<u32>::new(Device::Idle.for_exchange());
    sent.resize(2).unwrap();
    sent.write(0, &[5, 6]).unwrap();
    let taken = sent.take();
    assert_eq!((sent.len(), taken.to_vec().unwrap()), (0, vec![5, 6]));
    sent.resize(1).unwrap();
    assert!(sent.into_bytes().has_contents());
    // Bytes cross from one device to another where both have them.
    let mut here = Buffer::<u32>::zeroed(&Device::Reference, 2).unwrap().into_bytes();
    here.copy_from(0, &taken.into_bytes(), 4, 4).unwrap();
    assert!(matches!(here.copy_from(5, &computed.into_bytes(), 0, 4), Err(KernelError::PastEnd { .. })));
    let absent = Buffer::<u32>::zeroed(&Device::Idle, 1).unwrap().into_bytes();
    assert!(absent.as_ptr().is_null());
    assert_eq!(here.copy_from(0, &absent, 0, 4), Err(KernelError::NoContents { op: "copy_from" }));
    assert_eq!(here.into_buffer::<u32>().to_vec().unwrap(), [6, 0]);
}

/// Shapes hold from the ids to the update, without memory for tables.
#[test]
fn tables_need_no_memory() {
    let device = Device::Idle;
    let rule = UpdateRule::Adagrad { eps: 1e-8 };
    let mut tables = [Table::zeroed(&device, usize::MAX / 8, 2, Pooling::Sum, &rule).unwrap()];
    let values = Buffer::from_slice(device.for_exchange(), &[5u32, 6]).unwrap();
    let segment = Segment { table: 0, first_sample: 0, samples: 2, first_value: 0, lengths_at: None };
    let (mut index, mut sorted) = (BagIndex::new(&device), SortedIds::new(&device));
    let find = |samples, index: &mut BagIndex| {
        let segments = &[segment];
        device.index_bags(IndexBags { tables: 1, samples, segments, lengths: &[], values: 2, index })
    };
    find(2, &mut index).unwrap();
    assert_eq!((index.starts.len(), index.lengths.len()), (2, 2));
    assert!(find(1, &mut index).is_err());
    device.sort_ids(&tables, &index, &values, &mut sorted).unwrap();
    assert_eq!((sorted.bounds.len(), sorted.samples.len()), (2, 2));
    let mut out = Buffer::zeroed(&device, 4).unwrap();
    device
        .lookup(Lookup {
            tables: &tables,
            which: 0..1,
            columns: &[0],
            width: 2,
            index: &index,
            samples: 0..2,
            values: &values,
            weights: None,
            out: &mut out,
        })
        .unwrap();
    let update = |dout: &Buffer<f32>, tables: &mut [Table]| {
        device.update_tables(UpdateTables {
            tables,
            which: 0..1,
            columns: &[0],
            width: 2,
            index: &index,
            sorted: &sorted,
            weights: None,
            dout,
            update: Update::new(rule, 0.1, 1),
        })
    };
    update(&out, &mut tables).unwrap();
    assert!(update(&Buffer::zeroed(&device, 3).unwrap(), &mut tables).is_err());
}
