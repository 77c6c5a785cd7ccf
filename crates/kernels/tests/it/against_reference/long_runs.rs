//! Rows that very many values look up, ids that are no row, and initial weights.

use super::support::*;
use ground::Pooling;
use ground::optimizer::UpdateRule;
use ground::random::RandomSequence;
use kernels::{
    BagIndex, Buffer, Device, DrawTable, IndexBags, Lookup, Segment, SortedIds, Table, Update, UpdateTables,
};

/// Ids and gradients of two sources, whose samples the index numbers in one of both orders.
struct Case {
    dim: usize,
    rows: usize,
    samples: usize,
    ids: Vec<u32>,
    weights: Option<Vec<f32>>,
    rule: UpdateRule,
    pooling: Pooling,
}

impl Case {
    /// Most ids are row 3, some are row 5, and rows are met 1, 63, 64, 65 and 129 times.
    fn new(dim: usize, rule: UpdateRule, pooling: Pooling, weighted: bool) -> Self {
        let (rows, mut numbers) = (400, Numbers(dim as u64));
        let mut ids: Vec<u32> = vec![];
        for (row, times) in [(7, 1), (8, 63), (9, 64), (10, 65), (11, 129), (5, 700)] {
            ids.extend(vec![row; times]);
        }
        ids.extend((0..600).map(|_| 20 + (numbers.next() % 380) as u32));
        ids.extend(vec![3; 4000]);
        // Shuffled, so that the values of a row are anywhere.
        for i in (1..ids.len()).rev() {
            ids.swap(i, numbers.next() as usize % (i + 1));
        }
        let weights = weighted.then(|| ids.iter().map(|_| numbers.float()).collect());
        Self { dim, rows, samples: ids.len() / 2, ids, weights, rule, pooling }
    }

    /// Weights and state after two updates, where the samples of the second source may be numbered first. Every sample has two
    /// ids. Gradients go with the samples, so that the numbers make no difference.
    fn update(&self, device: &Device, second_first: bool) -> Vec<Vec<f32>> {
        let Self { dim, rows, samples, rule, .. } = *self;
        let half = samples / 3;
        let first_samples = if second_first { [samples - half, 0] } else { [0, half] };
        let counts = [half, samples - half];
        let lengths = vec![2; samples];
        let segment = |source: usize| Segment {
            table: 0,
            first_sample: first_samples[source],
            samples: counts[source],
            first_value: 2 * half * source,
            lengths_at: Some(half * source),
        };
        let (width, mut numbers) = (dim + 3, Numbers(9));
        let dout = numbers.floats(samples * width).to_vec().unwrap();
        let mut numbered = vec![0.0; dout.len()];
        for (source, &first) in first_samples.iter().enumerate() {
            let (from, len) = (half * source * width, counts[source] * width);
            numbered[first * width..][..len].copy_from_slice(&dout[from..from + len]);
        }
        let mut tables = [Table::zeroed(device, rows, dim, self.pooling, &rule).unwrap()];
        tables[0].weights.write(0, &numbers.floats(rows * dim).to_vec().unwrap()).unwrap();
        let (mut index, mut sorted) = (BagIndex::new(device), SortedIds::new(device));
        let segments = &[segment(0), segment(1)];
        let (values, lengths) = (self.ids.len(), &lengths);
        let bags = IndexBags { tables: 1, samples, segments, lengths, values, index: &mut index };
        device.index_bags(bags).unwrap();
        device.sort_ids(&tables, &index, &on(device, &buffer(&self.ids)), &mut sorted).unwrap();
        let weights = self.weights.as_ref().map(|weights| on(device, &buffer(weights)));
        for step in 1..3 {
            device
                .update_tables(UpdateTables {
                    tables: &mut tables,
                    which: 0..1,
                    columns: &[2],
                    width,
                    index: &index,
                    sorted: &sorted,
                    weights: weights.as_ref(),
                    dout: &on(device, &buffer(&numbered)),
                    update: Update::new(rule, 0.01, step),
                })
                .unwrap();
        }
        device.check().unwrap();
        vec![tables[0].weights.to_vec().unwrap(), tables[0].state.to_vec().unwrap()]
    }
}

#[test]
fn rows_of_thousands_of_values_are_updated_once() {
    for (i, (dim, rule)) in [1, 3, 8, 16, 128, 130, 4].into_iter().zip(rules()).enumerate() {
        let pooling = if i % 2 == 0 { Pooling::Sum } else { Pooling::Mean };
        let case = Case::new(dim, rule, pooling, i % 3 == 0);
        compare(1000, |device| case.update(device, false));
    }
}

/// The order of the values decides, not the numbers of the samples: what makes flat and SPTT equal.
#[test]
fn numbers_of_samples_change_no_bit_of_an_update() {
    for (dim, rule) in [(16, UpdateRule::Sgd), (130, UpdateRule::RowWiseAdagrad { eps: 1e-4 })] {
        let case = Case::new(dim, rule, Pooling::Mean, true);
        for device in devices() {
            let [one, other] = [false, true].map(|second_first| case.update(&device, second_first));
            let bits = |of: &[Vec<f32>]| -> Vec<u32> { of.iter().flatten().map(|x| x.to_bits()).collect() };
            assert_eq!(bits(&one), bits(&other), "{}, dimension {dim}", device.name());
        }
    }
}

/// On a GPU an id past the end adds nothing to its bag and updates nothing, and all others count: as on the host with a weight of
/// 0. The message is that of the host.
#[test]
fn ids_that_are_no_row_are_left_out() {
    let Some(gpu) = crate::gpu::device() else { return };
    let (rows, dim, samples) = (50, 12, 2000);
    let mut numbers = Numbers(4);
    let mut ids: Vec<u32> = (0..3 * samples).map(|_| (numbers.next() % 7) as u32).collect();
    let (mut weights, dout) = (numbers.floats(ids.len()).to_vec().unwrap(), numbers.floats(samples * dim));
    let run = |device: &Device, ids: &[u32], weights: &[f32]| {
        let mut table = Table::zeroed(device, rows, dim, Pooling::Sum, &UpdateRule::Sgd).unwrap();
        table.weights.write(0, &Numbers(6).floats(rows * dim).to_vec().unwrap()).unwrap();
        let (ids, weights) = (on(device, &buffer(ids)), on(device, &buffer(weights)));
        let (mut index, mut sorted) = (BagIndex::new(device), SortedIds::new(device));
        let at = Segment { table: 0, first_sample: 0, samples, first_value: 0, lengths_at: Some(0) };
        let (segments, lengths, values) = (&[at], &vec![3; samples], ids.len());
        let bags = IndexBags { tables: 1, samples, segments, lengths, values, index: &mut index };
        device.index_bags(bags).unwrap();
        let mut tables = [table];
        device.sort_ids(&tables, &index, &ids, &mut sorted)?;
        let mut out = Buffer::zeroed(device, samples * dim).unwrap();
        device.lookup(Lookup {
            tables: &tables,
            which: 0..1,
            columns: &[0],
            width: dim,
            index: &index,
            samples: 0..samples,
            values: &ids,
            weights: Some(&weights),
            out: &mut out,
        })?;
        device.update_tables(UpdateTables {
            tables: &mut tables,
            which: 0..1,
            columns: &[0],
            width: dim,
            index: &index,
            sorted: &sorted,
            weights: Some(&weights),
            dout: &on(device, &dout),
            update: Update::new(UpdateRule::Sgd, 0.1, 1),
        })?;
        Ok::<_, kernels::KernelError>([out.to_vec().unwrap(), tables[0].weights.to_vec().unwrap()])
    };
    let bad = [5, 1000, 1001, 5999];
    for at in bad {
        ids[at] = if at == 5 { u32::MAX } else { 50 + at as u32 };
    }
    let got = run(&gpu, &ids, &weights).unwrap();
    let message = gpu.check().unwrap_err().to_string();
    let refused = run(&Device::Reference, &ids, &weights).unwrap_err().to_string();
    // Both name an id of these; the GPU the smallest, the host the first.
    assert_eq!(message, "table 0: id 1050 is not below the number of rows, 50");
    assert_eq!(refused, format!("table 0: id {} is not below the number of rows, 50", u32::MAX));
    for at in bad {
        (ids[at], weights[at]) = (0, 0.0);
    }
    let expected = run(&Device::Reference, &ids, &weights).unwrap();
    for (got, expected) in got.iter().flatten().zip(expected.iter().flatten()) {
        assert!((got - expected).abs() <= 1e-3, "{got}, expected {expected}");
    }
}

#[test]
fn every_device_draws_the_same_weights() {
    let sequence = RandomSequence::new(7, "table.user");
    for (rows, dim, columns) in [(0..1000, 16, 0..16), (1 << 33..(1 << 33) + 77, 5, 2..5), (3..3, 4, 0..4)] {
        let draw = |device: &Device| {
            let len = rows.len() * columns.len();
            let mut weights = on(device, &numbers_like(len + 2));
            let (rows, columns) = (rows.clone(), columns.clone());
            let args = DrawTable { sequence, bound: 0.037, dim, rows, columns, weights: &mut weights };
            device.draw_table(args).unwrap();
            bits(&weights)
        };
        let expected = draw(&Device::Reference);
        assert_eq!(expected[expected.len() - 2..], [7.5f32.to_bits(); 2], "what lies behind is left alone");
        for device in devices() {
            assert_eq!(draw(&device), expected, "{}", device.name());
        }
    }
}

/// Batches of bags of one id, and of bags whose lengths change: once the largest was there, nothing is allocated or waited for.
#[test]
fn steps_on_tables_wait_for_nothing() {
    let Some(gpu) = crate::gpu::device() else { return };
    let (samples, dim, rule) = (700, 8, UpdateRule::Adagrad { eps: 1e-4 });
    let mut tables = [30, 9000].map(|rows| Table::zeroed(&gpu, rows, dim, Pooling::Sum, &rule).unwrap());
    let (mut index, mut sorted) = (BagIndex::new(&gpu), SortedIds::new(&gpu));
    let mut out = Buffer::zeroed(&gpu, samples * 2 * dim).unwrap();
    let mut step = |lengths: Option<&[u32]>, values: &Buffer<u32>| {
        let of_table = values.len() / 2;
        let segments = [0, 1].map(|table| Segment {
            table,
            first_sample: 0,
            samples,
            first_value: table * of_table,
            lengths_at: lengths.map(|_| 0),
        });
        let (lengths, count) = (lengths.unwrap_or_default(), values.len());
        let segments = &segments;
        let bags = IndexBags { tables: 2, samples, segments, lengths, values: count, index: &mut index };
        gpu.index_bags(bags).unwrap();
        gpu.sort_ids(&tables, &index, values, &mut sorted).unwrap();
        gpu.lookup(Lookup {
            tables: &tables,
            which: 0..2,
            columns: &[0, dim],
            width: 2 * dim,
            index: &index,
            samples: 0..samples,
            values,
            weights: None,
            out: &mut out,
        })
        .unwrap();
        gpu.update_tables(UpdateTables {
            tables: &mut tables,
            which: 0..2,
            columns: &[0, dim],
            width: 2 * dim,
            index: &index,
            sorted: &sorted,
            weights: None,
            dout: &out,
            update: Update::new(rule, 0.1, 1),
        })
        .unwrap();
    };
    let mut numbers = Numbers(8);
    let mut batch = |longest: u32| {
        let lengths: Vec<u32> = (0..samples).map(|_| numbers.next() as u32 % (longest + 1)).collect();
        let count = if longest == 0 { samples } else { lengths.iter().sum::<u32>() as usize };
        let ids: Vec<u32> = (0..2 * count).map(|_| (numbers.next() % 30) as u32).collect();
        ((longest > 0).then_some(lengths), on(&gpu, &buffer(&ids)))
    };
    let batches = [batch(6), batch(0), batch(3), batch(5), batch(0), batch(4)];
    let mut round = || {
        batches.iter().for_each(|(lengths, values)| step(lengths.as_deref(), values));
        gpu.counts()
    };
    let (first, second) = (round(), round());
    assert_eq!(second.allocations, first.allocations);
    assert_eq!(second.synchronisations, first.synchronisations);
    assert!(second.launches > first.launches);
    gpu.check().unwrap();
}
