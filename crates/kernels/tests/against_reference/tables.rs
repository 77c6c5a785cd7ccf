//! Embedding tables: indices of bags, sorting, lookup and update.

use crate::support::*;
use kernels::{
    BagIndex, ColumnCopy, Device, IndexBags, KernelError, Lookup, Matrix, MatrixMut, RandomRounding, Segment,
    SortedIds, Table, Update, UpdateDense, UpdateTables,
};
use proptest::prelude::*;
use spec::Pooling;
use spec::optimizer::UpdateRule;
use spec::random::RandomSequence;
use spec::table_format::TableFormat;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn tables(case in embedding_case()) {
        case.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Rules whose updates have the bits of the reference: so have the weights of tables in other formats, however they are rounded.
    #[test]
    fn tables_of_16_bits(
        case in embedding_case(),
        format in proptest::sample::select(vec![TableFormat::F16, TableFormat::Bf16]),
        (random, adagrad) in any::<(bool, bool)>(),
    ) {
        if crate::gpu::device().is_some() {
            println!("SKIPPED: GPUs have tables of f32 only");
            return Ok(());
        }
        let rule = if adagrad { UpdateRule::Adagrad { eps: 1e-8 } } else { UpdateRule::Sgd };
        EmbeddingCase { format: (format, random), rule, weighted: false, ..case }.check();
    }
}

/// Random tables, bags and gradients.
#[derive(Clone, Debug)]
struct EmbeddingCase {
    dims: Vec<usize>,
    rows: Vec<usize>,
    samples: usize,
    /// The longest bag; 0 for bags of exactly one id.
    longest: u32,
    mean: bool,
    weighted: bool,
    rule: UpdateRule,
    /// What comes before the rule, as [`regularised`] numbers it.
    how: usize,
    seed: u64,
    /// Number format of the tables, and whether it rounds at random.
    format: (TableFormat, bool),
}

fn embedding_case() -> impl Strategy<Value = EmbeddingCase> {
    let dim = prop_oneof![4 => 1..40usize, 2 => 40..150usize, 4 => proptest::sample::select(vec![8, 16, 32, 64, 128]), 1 => proptest::sample::select(vec![200, 384, 512])];
    let rows = prop_oneof![1..4usize, 1..50usize, 1000..100_000usize];
    let samples = prop_oneof![0..30usize, 100..900usize];
    (0..5usize, samples, 0..5u32, any::<(bool, bool, u64)>(), (0..7usize, 0..4usize)).prop_flat_map(
        move |(tables, samples, longest, (mean, weighted, seed), (rule, how))| {
            (proptest::collection::vec(dim.clone(), tables), proptest::collection::vec(rows.clone(), tables))
                .prop_map(move |(dims, mut rows)| {
                    // Wide tables are short, so that they fit.
                    let wide = rows.iter_mut().zip(&dims).filter(|(_, dim)| **dim > 128);
                    wide.for_each(|(rows, _)| *rows = (*rows).min(2000));
                    let rule = rules()[rule];
                    let format = (TableFormat::F32, false);
                    EmbeddingCase { dims, rows, samples, longest, mean, weighted, rule, how, seed, format }
                })
        },
    )
}

impl EmbeddingCase {
    fn tables(&self, device: &Device) -> Vec<Table> {
        let mut numbers = Numbers(self.seed);
        let pooling = if self.mean { Pooling::Mean } else { Pooling::Sum };
        let make = |(&rows, &dim)| {
            let (format, random) = self.format;
            let mut table = Table::in_format(device, format, [rows, dim], pooling, &self.rule).unwrap();
            table.weights.write(0, &numbers.floats(rows * dim).to_vec().unwrap()).unwrap();
            if random {
                let sequence = RandomSequence::new(self.seed, "rounding");
                table.weights.round_at_random(RandomRounding { sequence, first_row: 7, first_column: 3 });
            }
            table
        };
        self.rows.iter().zip(&self.dims).map(make).collect()
    }

    /// Two source ranks, each with a segment per table; the last table misses the second source's samples.
    fn ids(&self) -> (Vec<Segment>, Vec<u32>, Vec<u32>) {
        let mut numbers = Numbers(self.seed ^ 77);
        let (mut segments, mut lengths, mut values) = (vec![], vec![], vec![]);
        let half = self.samples / 2;
        for (first_sample, samples) in [(0, half), (half, self.samples - half)] {
            for (table, &rows) in self.rows.iter().enumerate() {
                if first_sample > 0 && table + 1 == self.rows.len() {
                    continue;
                }
                let (first_value, lengths_at) = (values.len(), (self.longest > 0).then_some(lengths.len()));
                for _ in 0..samples {
                    let length =
                        if self.longest > 0 { numbers.next() as u32 % (self.longest + 1) } else { 1 };
                    lengths.push(length);
                    values.extend((0..length).map(|_| (numbers.next() % rows as u64) as u32));
                }
                segments.push(Segment { table, first_sample, samples, first_value, lengths_at });
            }
        }
        (segments, lengths, values)
    }

    fn check(&self) {
        let (segments, lengths, values) = self.ids();
        let ids = buffer(&values);
        let mut numbers = Numbers(self.seed ^ 99);
        let mut columns = vec![];
        let mut width = 1;
        for dim in &self.dims {
            columns.push(width);
            width += dim + 1;
        }
        let weights = numbers.floats(values.len());
        let dout = numbers.floats(self.samples * width);
        let sorting = |device: &Device| {
            let tables = self.tables(device);
            let (mut index, mut sorted) = (BagIndex::new(device), SortedIds::new(device));
            device
                .index_bags(IndexBags {
                    tables: tables.len(),
                    samples: self.samples,
                    segments: &segments,
                    lengths: &lengths,
                    values: values.len(),
                    index: &mut index,
                })
                .unwrap();
            device.sort_ids(&tables, &index, &on(device, &ids), &mut sorted).unwrap();
            (tables, index, sorted)
        };
        let (_, _, expected) = sorting(&Device::Reference);
        // One bit of a sum decides how it is rounded.
        let terms = if self.format.0.rounds() { 0 } else { 64 };
        compare(terms, |device| {
            let (mut tables, index, sorted) = sorting(device);
            assert_eq!(
                (sorted.keys.to_vec().unwrap(), &sorted.bounds),
                (expected.keys.to_vec().unwrap(), &expected.bounds)
            );
            let (ids, weights, dout) = (on(device, &ids), on(device, &weights), on(device, &dout));
            let weights = self.weighted.then_some(&weights);
            let mut out = on(device, &numbers_like(self.samples * width));
            let all = 0..tables.len();
            device
                .lookup(Lookup {
                    tables: &tables,
                    which: all.clone(),
                    columns: &columns,
                    width,
                    index: &index,
                    samples: 0..self.samples,
                    values: &ids,
                    weights,
                    out: &mut out,
                })
                .unwrap();
            let part = self.samples / 3..self.samples;
            let mut some = on(device, &numbers_like(part.len() * width));
            let which = all.end / 2..all.end;
            device
                .lookup(Lookup {
                    tables: &tables,
                    which,
                    columns: &columns,
                    width,
                    index: &index,
                    samples: part,
                    values: &ids,
                    weights,
                    out: &mut some,
                })
                .unwrap();
            for step in 1..3 {
                device
                    .update_tables(UpdateTables {
                        tables: &mut tables,
                        which: all.clone(),
                        columns: &columns,
                        width,
                        index: &index,
                        sorted: &sorted,
                        weights,
                        dout: &dout,
                        update: regularised(Update::new(self.rule, 0.1, step), self.how),
                    })
                    .unwrap();
            }
            device.check().unwrap();
            let mut results = vec![out.to_vec().unwrap(), some.to_vec().unwrap()];
            for table in &tables {
                results.extend([table.weights.to_vec().unwrap(), table.state.to_vec().unwrap()]);
            }
            results
        });
    }
}

/// Halves of the tables, each with gradients of its own, against all tables at once.
#[test]
fn updates_of_some_tables_add_up_to_one_of_all() {
    let (dims, rows) = (vec![16, 5, 64, 128, 40], vec![300, 7, 50_000, 1, 900]);
    let (near, far) = (22, 232);
    // What lies outside the tables of a call is not read, however wrong.
    let all_columns = [1, 17, near, near + 64, near + 192];
    let (near_columns, far_columns) = ([1, 17, usize::MAX, 0, 999], [usize::MAX, 999, 0, 64, 192]);
    let copies = [ColumnCopy { from: 0, to: 0, width: near }, ColumnCopy { from: 0, to: near, width: far }];
    for (rule, weighted) in rules().into_iter().zip([true, false, true, false, true]) {
        let (samples, longest, seed) = (700, 3, 11);
        let case = EmbeddingCase {
            dims: dims.clone(),
            rows: rows.clone(),
            samples,
            longest,
            mean: true,
            weighted,
            rule,
            how: 0,
            seed,
            format: (TableFormat::F32, false),
        };
        let (segments, lengths, values) = case.ids();
        let mut numbers = Numbers(3);
        let weights = numbers.floats(values.len());
        let (near_dout, far_dout) = (numbers.floats(samples * near), numbers.floats(samples * far));
        for device in devices() {
            let weights = weighted.then(|| on(&device, &weights));
            let (near_dout, far_dout) = (on(&device, &near_dout), on(&device, &far_dout));
            let (mut index, mut sorted) = (BagIndex::new(&device), SortedIds::new(&device));
            let mut dout = on(&device, &zeros(samples * (near + far)));
            for (copy, (from, width)) in copies.iter().zip([(&near_dout, near), (&far_dout, far)]) {
                device
                    .copy_columns(
                        samples,
                        &[*copy],
                        Matrix { buffer: from, at: 0, width },
                        MatrixMut { buffer: &mut dout, at: 0, width: near + far },
                    )
                    .unwrap();
            }
            let (mut whole, mut halves) = (case.tables(&device), case.tables(&device));
            device
                .index_bags(IndexBags {
                    tables: 5,
                    samples,
                    segments: &segments,
                    lengths: &lengths,
                    values: values.len(),
                    index: &mut index,
                })
                .unwrap();
            device.sort_ids(&whole, &index, &on(&device, &buffer(&values)), &mut sorted).unwrap();
            for step in 1..4 {
                let update = |tables: &mut [Table], which, columns: &[usize], width, dout| {
                    device
                        .update_tables(UpdateTables {
                            tables,
                            which,
                            columns,
                            width,
                            index: &index,
                            sorted: &sorted,
                            weights: weights.as_ref(),
                            dout,
                            update: Update::new(rule, 0.1, step),
                        })
                        .unwrap();
                };
                update(&mut whole, 0..5, &all_columns, near + far, &dout);
                update(&mut halves, 2..5, &far_columns, far, &far_dout);
                update(&mut halves, 0..2, &near_columns, near, &near_dout);
                update(&mut halves, 3..3, &near_columns, near, &near_dout);
            }
            for (whole, half) in whole.iter().zip(&halves) {
                assert_eq!(bits(whole.weights.floats().unwrap()), bits(half.weights.floats().unwrap()));
                assert_eq!(bits(&whole.state), bits(&half.state));
            }
        }
    }
}

/// Four sources' samples, numbered in another order than their ids arrive in: each source's are cut into `pieces`, and
/// the numbers go round the sources piece by piece.
fn sort_permuted(samples: usize, longest: u32, pieces: usize) {
    let rows = [3, 1000, 1 << 20];
    let piece = samples / 4 / pieces;
    let mut numbers = Numbers(samples as u64);
    let unused = 5;
    let (mut segments, mut lengths, mut values) = (vec![], vec![], vec![u32::MAX; unused]);
    for place in [2, 0, 3, 1] {
        for (table, turn) in (0..rows.len()).flat_map(|table| (0..pieces).map(move |turn| (table, turn))) {
            let (first_value, lengths_at) = (values.len(), (longest > 0).then_some(lengths.len()));
            for _ in 0..piece {
                let length = if longest > 0 { numbers.next() as u32 % (longest + 1) } else { 1 };
                lengths.push(length);
                values.extend((0..length).map(|_| (numbers.next() % rows[table] as u64) as u32));
            }
            let first_sample = (4 * turn + place) * piece;
            segments.push(Segment { table, first_sample, samples: piece, first_value, lengths_at });
        }
    }
    let ids = buffer(&values);
    let mut results = devices().into_iter().map(|device| {
        let tables =
            rows.map(|rows| Table::zeroed(&device, rows, 1, Pooling::Sum, &UpdateRule::Sgd).unwrap());
        let (mut index, mut sorted) = (BagIndex::new(&device), SortedIds::new(&device));
        device
            .index_bags(IndexBags {
                tables: 3,
                samples,
                segments: &segments,
                lengths: &lengths,
                values: values.len(),
                index: &mut index,
            })
            .unwrap();
        device.sort_ids(&tables, &index, &on(&device, &ids), &mut sorted).unwrap();
        device.check().unwrap();
        let samples = sorted.samples.to_vec().unwrap().split_off(unused);
        (sorted.keys.to_vec().unwrap(), sorted.bounds, samples)
    });
    let expected = results.next().unwrap();
    assert!(
        results.all(|result| result == expected),
        "{samples} samples, bags of {longest}, {pieces} pieces"
    );
}

#[test]
fn ids_indexed_in_another_order_than_they_arrived_in() {
    for samples in [4, 40, 64, 100, 1000, 8192, 20_000] {
        for longest in [0, 1, 5] {
            for pieces in [1, 2, samples / 4] {
                sort_permuted(samples, longest, pieces);
            }
        }
    }
}

#[test]
fn bags_that_overlap_are_sorted_too() {
    for (bags, values) in [(20, 30), (50, 40), (300, 90), (3000, 20_000)] {
        let mut numbers = Numbers(bags as u64);
        let mut draw = |len: usize, below: u64| -> Vec<u32> {
            (0..len).map(|_| (numbers.next() % below) as u32).collect()
        };
        let (ids, starts, lengths) = (draw(values, 77), draw(bags, values as u64 - 8), draw(bags, 9));
        let ids = buffer(&ids);
        let covered = |value: usize| {
            starts
                .iter()
                .zip(&lengths)
                .any(|(&start, &length)| (start..start + length).contains(&(value as u32)))
        };
        let covered: Vec<usize> = (0..values).filter(|&value| covered(value)).collect();
        let mut results = devices().into_iter().map(|device| {
            let table = Table::zeroed(&device, 77, 1, Pooling::Sum, &UpdateRule::Sgd).unwrap();
            let index = BagIndex::from_bags(&device, 1, &starts, &lengths).unwrap();
            let mut sorted = SortedIds::new(&device);
            device.sort_ids(&[table], &index, &on(&device, &ids), &mut sorted).unwrap();
            let samples = sorted.samples.to_vec().unwrap();
            let samples: Vec<u32> = covered.iter().map(|&value| samples[value]).collect();
            (sorted.keys.to_vec().unwrap(), sorted.bounds, samples)
        });
        let expected = results.next().unwrap();
        assert!(results.all(|result| result == expected), "{bags} bags in {values} values");
    }
}

/// "Exact" (Neo §5.1): a row met several times gets one update with the sum of its gradients, as a dense gradient would
/// give. With an empty state, a dense update of all rows is the lazy one where the gradient is not zero.
#[test]
fn duplicates_are_summed_before_the_update() {
    let (rows, dim, samples) = (50, 24, 3000);
    let mut numbers = Numbers(5);
    let ids: Vec<u32> =
        (0..samples).map(|s| if s % 2 == 0 { 7 } else { (numbers.next() % rows as u64) as u32 }).collect();
    let dout = numbers.floats(samples * dim);
    let start = numbers.floats(rows * dim);
    let mut dense = vec![0f64; rows * dim];
    for (s, &id) in ids.iter().enumerate() {
        for d in 0..dim {
            dense[id as usize * dim + d] += dout.to_vec().unwrap()[s * dim + d] as f64;
        }
    }
    let gradient = buffer(&dense.iter().map(|&g| g as f32).collect::<Vec<_>>());
    for rule in [UpdateRule::Sgd, UpdateRule::Adagrad { eps: 1e-3 }] {
        let (mut expected, mut state) = (copy(&start), zeros(rule.state_per_row(rows * dim)));
        Device::Reference
            .update_dense(UpdateDense {
                update: Update::new(rule, 0.5, 1),
                tensors: &[0..dim, dim..rows * dim],
                weights: &mut expected,
                gradient: &mut copy(&gradient),
                state: &mut state,
            })
            .unwrap();
        for device in devices() {
            let mut table = Table::zeroed(&device, rows, dim, Pooling::Sum, &rule).unwrap();
            table.weights.write(0, &start.to_vec().unwrap()).unwrap();
            let mut tables = [table];
            let segment = Segment { table: 0, first_sample: 0, samples, first_value: 0, lengths_at: None };
            let (mut index, mut sorted) = (BagIndex::new(&device), SortedIds::new(&device));
            device
                .index_bags(IndexBags {
                    tables: 1,
                    samples,
                    segments: &[segment],
                    lengths: &[],
                    values: samples,
                    index: &mut index,
                })
                .unwrap();
            device.sort_ids(&tables, &index, &on(&device, &buffer(&ids)), &mut sorted).unwrap();
            device
                .update_tables(UpdateTables {
                    tables: &mut tables,
                    which: 0..1,
                    columns: &[0],
                    width: dim,
                    index: &index,
                    sorted: &sorted,
                    weights: None,
                    dout: &on(&device, &dout),
                    update: Update::new(rule, 0.5, 1),
                })
                .unwrap();
            for (got, expected) in tables[0].weights.to_vec().unwrap().iter().zip(expected.to_vec().unwrap())
            {
                assert!((got - expected).abs() < 2e-4 * (1.0 + expected.abs()), "{got}, expected {expected}");
            }
        }
    }
}

/// Segments of many tables, some of which cover the same samples, and one whose lengths reach past the values.
#[test]
fn bags_are_where_the_reference_finds_them() {
    let (tables, samples) = (7, 3000);
    let mut numbers = Numbers(21);
    let lengths: Vec<u32> = (0..2 * samples).map(|_| (numbers.next() % 4) as u32).collect();
    let mut segments = vec![];
    for _ in 0..60 {
        let first_sample = numbers.next() as usize % samples;
        let most = (samples - first_sample).min(900);
        let count = numbers.next() as usize % (most + 1);
        let lengths_at = numbers.next().is_multiple_of(2).then(|| numbers.next() as usize % samples);
        let (table, first_value) = (numbers.next() as usize % tables, numbers.next() as usize % 500);
        segments.push(Segment { table, first_sample, samples: count, first_value, lengths_at });
    }
    let find = |device: &Device, segments: &[Segment], values| {
        let mut index = BagIndex::new(device);
        let args = IndexBags { tables, samples, segments, lengths: &lengths, values, index: &mut index };
        device.index_bags(args).map(|()| (index.starts.to_vec().unwrap(), index.lengths.to_vec().unwrap()))
    };
    let expected = find(&Device::Reference, &segments, 4000).unwrap();
    let long = Segment { table: 6, first_sample: 0, samples, first_value: 0, lengths_at: Some(0) };
    segments.push(long);
    for device in devices() {
        assert_eq!(find(&device, &segments[..60], 4000).as_ref(), Ok(&expected));
        assert!(matches!(
            find(&device, &segments, 4000),
            Err(KernelError::TooShort { operand: "values", got: 4000, .. })
        ));
    }
}
