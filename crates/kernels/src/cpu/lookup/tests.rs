use crate::{BagIndex, Buffer, Device, IndexBags, Lookup, Segment, Table};
use spec::Pooling;
use spec::optimizer::UpdateRule;

/// Output large enough to be streamed, with columns that allow it and columns that do not.
#[test]
fn streamed_output_agrees_with_the_reference() {
    let cpu = Device::cpu(2).unwrap();
    let (rows, samples, width) = (50, 1030, 8192);
    assert!(samples * width * 4 >= super::STREAMED);
    let mut tables = Vec::new();
    for dim in [128, 16, 64, 24] {
        let mut table = Table::zeroed(&cpu, rows, dim, Pooling::Mean, &UpdateRule::Sgd).unwrap();
        let weights: Vec<f32> = (0..rows * dim).map(|i| (i * 7919 % 1000) as f32 / 500.0 - 1.0).collect();
        table.weights.write(0, &weights).unwrap();
        tables.push(table);
    }
    let columns = [0, 256, 517, 1024];
    let lengths = (0..samples as u32).map(|s| s % 4).collect::<Vec<_>>();
    let ids: usize = (0..samples).map(|s| s % 4).sum();
    let segments: Vec<Segment> = (0..tables.len())
        .map(|table| Segment {
            table,
            first_sample: 0,
            samples,
            first_value: table * ids,
            lengths_at: Some(0),
        })
        .collect();
    let values: Vec<u32> = (0..tables.len() * ids).map(|i| (i * 31 % rows) as u32).collect();
    let values = Buffer::from_slice(&cpu, &values).unwrap();
    let run = |device: &Device| {
        let mut index = BagIndex::new(device);
        device
            .index_bags(IndexBags {
                tables: tables.len(),
                samples,
                segments: &segments,
                lengths: &lengths,
                values: values.len(),
                index: &mut index,
            })
            .unwrap();
        let mut out = Buffer::zeroed(device, samples * width).unwrap();
        device
            .lookup(Lookup {
                tables: &tables,
                which: 0..tables.len(),
                columns: &columns,
                width,
                index: &index,
                samples: 0..samples,
                values: &values,
                weights: None,
                out: &mut out,
            })
            .unwrap();
        out.to_vec().unwrap()
    };
    for (got, expected) in run(&cpu).iter().zip(run(&Device::Reference)) {
        assert!((got - expected).abs() < 1e-5, "{got}, expected {expected}");
    }
}
