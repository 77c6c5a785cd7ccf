use ground::Pooling;
use ground::optimizer::UpdateRule;
use kernels::internals::cpu::stream;
use kernels::{BagIndex, Buffer, Cpu, Device, IndexBags, Lookup, Segment, Table};

/// Output large enough to be streamed, with columns that allow it and columns that do not.
#[test]
fn streamed_output_agrees_with_the_reference() {
    let cpu = Device::cpu(2).unwrap();
    let (rows, samples, width) = (50, 1030, 8192);
    assert!(stream::pays(samples * width));
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

/// Rows of every length around the blocks of columns, in bags of different lengths: the sums are those of the reference.
#[test]
fn rows_of_any_dimension_agree_with_the_reference() {
    let dims: Vec<usize> = (0..165).chain([192, 200, 255, 256, 300, 384, 511, 512, 530]).collect();
    let (rows, samples) = (20, 37);
    for (longest, pooling, weighted) in
        [(1, Pooling::Sum, false), (4, Pooling::Mean, true), (12, Pooling::Sum, false)]
    {
        let make = |&dim: &usize| {
            let mut table = Table::zeroed(&Device::Reference, rows, dim, pooling, &UpdateRule::Sgd).unwrap();
            let weights: Vec<f32> = (0..rows * dim).map(|i| (i * 7919 % 1000) as f32 / 500.0 - 1.0).collect();
            table.weights.write(0, &weights).unwrap();
            table
        };
        let tables: Vec<Table> = dims.iter().map(make).collect();
        let lengths: Vec<u32> =
            (0..samples * dims.len()).map(|bag| (bag * 5 % (longest + 1)) as u32).collect();
        let starts: Vec<u32> =
            lengths.iter().scan(0, |next, length| Some(std::mem::replace(next, *next + length))).collect();
        let ids = lengths.iter().sum::<u32>();
        let values: Vec<u32> = (0..ids).map(|i| i * 31 % rows as u32).collect();
        let scales: Vec<f32> = (0..ids).map(|i| (i % 13) as f32 - 4.5).collect();
        let columns: Vec<usize> =
            dims.iter().scan(3, |next, dim| Some(std::mem::replace(next, *next + dim + 1))).collect();
        let width = columns[dims.len() - 1] + dims[dims.len() - 1] + 1;
        let run = |device: &Device| {
            let mut out = Buffer::from_slice(device, &vec![7.5; samples * width]).unwrap();
            let scales = Buffer::from_slice(device, &scales).unwrap();
            device
                .lookup(Lookup {
                    tables: &tables,
                    which: 0..tables.len(),
                    columns: &columns,
                    width,
                    index: &BagIndex::from_bags(device, tables.len(), &starts, &lengths).unwrap(),
                    samples: 0..samples,
                    values: &Buffer::from_slice(device, &values).unwrap(),
                    weights: weighted.then_some(&scales),
                    out: &mut out,
                })
                .unwrap();
            out.to_vec().unwrap()
        };
        let expected = run(&Device::Reference);
        for threads in [1, 2] {
            let cpu = Cpu::new(threads).unwrap();
            // Equal, not close: both add in the order of the ids.
            assert!(run(&Device::Cpu(cpu.portable())) == expected);
            assert!(run(&Device::Cpu(cpu)) == expected);
        }
    }
}
