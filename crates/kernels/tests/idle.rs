//! A device that computes nothing still refuses what does not fit, and gives outputs their sizes.

use kernels::{BagIndex, Buffer, Device, LinearAt, LinearShape, Segment, SortedIds, Table};
use spec::optimizer::UpdateRule;
use spec::{Activation, Pooling};

#[test]
fn operands_are_checked_and_outputs_left_alone() {
    let device = Device::Idle;
    let shape = LinearShape { rows: 2, inputs: 3, outputs: 1 };
    let at = LinearAt { weight: 0, bias: Some(3) };
    let x = Buffer::from_slice(&device, &[1.0f32; 6]).unwrap();
    let parameters = Buffer::from_slice(&device, &[1.0f32; 4]).unwrap();
    let mut y = Buffer::from_slice(&device, &[7.0f32; 2]).unwrap();
    device.linear_forward(shape, &x, &parameters, at, Activation::Identity, &mut y).unwrap();
    assert_eq!(y.to_vec(), [7.0, 7.0]);
    let mut short = Buffer::from_slice(&device, &[7.0f32]).unwrap();
    let refused = device.linear_forward(shape, &x, &parameters, at, Activation::Identity, &mut short);
    assert!(refused.unwrap_err().to_string().contains("y holds 1 elements, 2 are needed"));
    let mut gradient = Buffer::zeroed(&device, 2).unwrap();
    assert_eq!(device.bce(2, &y, &x, 1.0, &mut gradient).unwrap(), 0.0);
}

/// Shapes hold from the ids to the update, without memory for tables.
#[test]
fn tables_need_no_memory() {
    let device = Device::Idle;
    let rule = UpdateRule::Adagrad { eps: 1e-8 };
    let mut tables = [Table::zeroed(&device, usize::MAX / 8, 2, Pooling::Sum, &rule).unwrap()];
    assert!(tables[0].weights.is_empty() && tables[0].state.is_empty());
    let values = Buffer::from_slice(&device, &[5u32, 6]).unwrap();
    let segment = Segment { table: 0, first_sample: 0, samples: 2, first_value: 0, lengths_at: None };
    let (mut index, mut sorted) = (BagIndex::default(), SortedIds::default());
    device.index_bags(1, 2, &[segment], &Buffer::empty(), 2, &mut index).unwrap();
    assert_eq!((index.starts.len(), index.lengths.len()), (2, 2));
    assert!(device.index_bags(1, 1, &[segment], &Buffer::empty(), 2, &mut index).is_err());
    device.index_bags(1, 2, &[segment], &Buffer::empty(), 2, &mut index).unwrap();
    device.sort_ids(&tables, &index, &values, &mut sorted).unwrap();
    assert_eq!((sorted.bounds.len(), sorted.samples.len()), (2, 2));
    let mut out = Buffer::zeroed(&device, 4).unwrap();
    device.lookup(&tables, 0..1, &[0], 2, &index, 0..2, &values, None, &mut out).unwrap();
    let update = |dout: &Buffer<f32>, tables: &mut [Table]| {
        device.update_tables(tables, 0..1, &[0], 2, &index, &sorted, None, dout, &rule, 0.1, 1)
    };
    update(&out, &mut tables).unwrap();
    assert!(update(&Buffer::zeroed(&device, 3).unwrap(), &mut tables).is_err());
}
