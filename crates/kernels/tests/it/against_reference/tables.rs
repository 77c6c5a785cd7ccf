//! Embedding tables: lookup and update, in all formats and by all rules.

use super::support::*;
use ground::Pooling;
use ground::optimizer::UpdateRule;
use ground::random::RandomSequence;
use ground::table_format::TableFormat;
use kernels::{
    BagIndex, Buffer, ColumnCopy, Device, IndexBags, Lookup, Matrix, MatrixMut, RandomRounding, RowStore,
    Segment, SortedIds, Table, Update, UpdateDense, UpdateTables,
};
use proptest::prelude::*;

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
    fn tables_of_other_formats(
        case in embedding_case(),
        formats in proptest::sample::select(vec![&ALL[1..2], &ALL[2..3], &ALL[3..], &ALL]),
        (random, adagrad) in any::<(bool, bool)>(),
    ) {
        let rule = if adagrad { UpdateRule::Adagrad { eps: 1e-8 } } else { UpdateRule::Sgd };
        // Halves of gradients, but no thirds: their sums are exact.
        let longest = if case.mean { case.longest.min(2) } else { case.longest };
        EmbeddingCase { formats, random, rule, longest, weighted: false, ..case }.check();
    }
}

const ALL: [TableFormat; 4] = TableFormat::ALL;

/// Rules that look at rows as a whole have other bits on every device, and weights that are rounded differ by a step of their format.
#[test]
fn all_rules_in_other_formats() {
    for (rule, seed) in rules().into_iter().zip(1..) {
        for random in [false, true] {
            let case = EmbeddingCase {
                dims: vec![128, 6, 16, 40, 200, 384, 512, 9],
                rows: vec![900; 8],
                samples: 150,
                longest: 2,
                mean: false,
                weighted: true,
                rule,
                how: 0,
                seed,
                formats: &ALL,
                random,
            };
            compare(4096, |device| case.run(device));
        }
    }
}

/// Gradients after which weights are not finite, too large for their format, too small for it, or all the same.
#[test]
fn weights_that_no_format_has() {
    let (dim, infinite) = (6, f32::INFINITY);
    let gradients = [
        [infinite, 1.0, 0.0, 0.0, 0.0, 0.0],
        [f32::NAN, 1.0, 0.0, 0.0, 0.0, 0.0],
        [3e38, -3e38, 1e5, -1e5, 65519.0, -65520.0],
        [6e-8, -3e-8, 2e-8, 1e-5, -6.1e-5, 1e-40],
        [0.25; 6],
        [1e-38, 2e-38, 1e-39, 0.0, -1e-45, 1e-45],
        [0.0; 6],
        [1.0, 1.0 + f32::EPSILON, 1.0 + 1.0 / 256.0, 1.0 + 1.0 / 512.0, 2049.0, 4097.0],
    ];
    let ids: Vec<u32> = (0..gradients.len() as u32).collect();
    for (format, random) in ALL.into_iter().flat_map(|format| [(format, false), (format, true)]) {
        let mut results = devices().into_iter().map(|device| {
            let rule = UpdateRule::Sgd;
            let mut table = Table::in_format(&device, format, [8, dim], Pooling::Sum, &rule).unwrap();
            if random {
                let sequence = RandomSequence::new(9, "rounding");
                table.weights.round_at_random(RandomRounding {
                    sequence,
                    first_row: 1 << 33,
                    first_column: 5,
                });
            }
            let index = BagIndex::from_bags(&device, 1, &ids, &[1; 8]).unwrap();
            let (mut sorted, mut tables) = (SortedIds::new(&device), [table]);
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
                    dout: &on(&device, &buffer(gradients.as_flattened())),
                    update: Update::new(rule, 1.0, 1 << 20),
                })
                .unwrap();
            device.check().unwrap();
            let floats = tables[0].weights.to_vec().unwrap();
            let finite: Vec<u32> = floats.iter().filter(|x| !x.is_nan()).map(|x| x.to_bits()).collect();
            (finite, floats.iter().map(|x| x.is_nan()).collect::<Vec<_>>())
        });
        let expected = results.next().unwrap();
        assert!(results.all(|result| result == expected), "{format}, at random: {random}");
    }
}

/// Rows that are written and read at any place, as floats and as they are stored, in whatever memory.
#[test]
fn rows_in_the_memory_of_any_device() {
    for (format, dim) in ALL.into_iter().flat_map(|format| [1, 5, 8].map(|dim| (format, dim))) {
        let mut results = devices().into_iter().map(|device| {
            let mut rows = RowStore::zeroed(&device, format, [7, dim]).unwrap();
            rows.write(3, &Numbers(4).floats(2 * dim).to_vec().unwrap()).unwrap();
            let mut stored = vec![0; rows.row_bytes()];
            rows.read_stored(4, &mut stored).unwrap();
            rows.write_stored(1, &stored).unwrap();
            let mut floats = vec![0.0; 3 * dim];
            rows.read(1, &mut floats).unwrap();
            (stored, floats, rows.to_vec().unwrap())
        });
        let expected = results.next().unwrap();
        assert!(results.all(|result| result == expected), "{format}, {dim} columns");
    }
}

/// A step that is replayed as a graph rounds by its own number.
#[test]
fn replayed_updates_round_by_their_step() {
    let Some(device) = crate::gpu::device() else { return };
    let case = EmbeddingCase {
        dims: vec![16; 4],
        rows: vec![50; 4],
        samples: 40,
        longest: 0,
        mean: false,
        weighted: false,
        rule: UpdateRule::Sgd,
        how: 0,
        seed: 3,
        formats: &ALL,
        random: true,
    };
    let ids = case.on(&device);
    let [mut queued, mut replayed] = [(); 2].map(|()| case.tables(&device));
    let mut replays = 0;
    for step in 1..9 {
        let update = Update::new(case.rule, 0.1, step);
        case.update(&device, &ids, &mut queued, update);
        let collected = device.collect();
        case.update(&device, &ids, &mut replayed, update);
        replays += usize::from(collected.submit(true).unwrap());
        device.check().unwrap();
    }
    assert!(replays > 0, "no step was replayed");
    for (queued, replayed) in queued.iter().zip(&replayed) {
        assert_eq!(queued.weights.to_vec().unwrap(), replayed.weights.to_vec().unwrap());
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
    /// Number formats of the tables, in turns.
    formats: &'static [TableFormat],
    /// Whether weights are rounded at random.
    random: bool,
}

/// What a device has of a case, beside its tables.
struct OnDevice {
    index: BagIndex,
    sorted: SortedIds,
    ids: Buffer<u32>,
    weights: Option<Buffer<f32>>,
    dout: Buffer<f32>,
    columns: Vec<usize>,
    width: usize,
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
                    let (formats, random) = (&ALL[..1], false);
                    EmbeddingCase {
                        dims,
                        rows,
                        samples,
                        longest,
                        mean,
                        weighted,
                        rule,
                        how,
                        seed,
                        formats,
                        random,
                    }
                })
        },
    )
}

impl EmbeddingCase {
    fn tables(&self, device: &Device) -> Vec<Table> {
        let mut numbers = Numbers(self.seed);
        let pooling = if self.mean { Pooling::Mean } else { Pooling::Sum };
        let make = |((&rows, &dim), &format)| {
            let mut table = Table::in_format(device, format, [rows, dim], pooling, &self.rule).unwrap();
            table.weights.write(0, &numbers.floats(rows * dim).to_vec().unwrap()).unwrap();
            if self.random {
                let sequence = RandomSequence::new(self.seed, "rounding");
                table.weights.round_at_random(RandomRounding { sequence, first_row: 7, first_column: 3 });
            }
            table
        };
        self.rows.iter().zip(&self.dims).zip(self.formats.iter().cycle()).map(make).collect()
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

    /// Whether some tables are rounded: one bit of a sum decides how.
    fn rounds(&self) -> bool {
        self.formats.iter().any(|format| format.rounds())
    }

    fn on(&self, device: &Device) -> OnDevice {
        let (segments, lengths, values) = self.ids();
        let mut numbers = Numbers(self.seed ^ 99);
        let mut columns = vec![];
        let mut width = 1;
        for dim in &self.dims {
            columns.push(width);
            width += dim + 1;
        }
        let weights = numbers.floats(values.len());
        let mut dout = numbers.floats(self.samples * width).to_vec().unwrap();
        if self.rounds() {
            // Sums of such numbers are exact, in whatever order a device adds them; and there is one zero.
            dout.iter_mut().for_each(|x| *x = (*x * 256.0).round() / 256.0 + 0.0);
        }
        let (mut index, mut sorted) = (BagIndex::new(device), SortedIds::new(device));
        device
            .index_bags(IndexBags {
                tables: self.rows.len(),
                samples: self.samples,
                segments: &segments,
                lengths: &lengths,
                values: values.len(),
                index: &mut index,
            })
            .unwrap();
        let ids = on(device, &buffer(&values));
        device.sort_ids(&self.tables(device), &index, &ids, &mut sorted).unwrap();
        let weights = self.weighted.then(|| on(device, &weights));
        OnDevice { index, sorted, ids, weights, dout: on(device, &buffer(&dout)), columns, width }
    }

    fn update(&self, device: &Device, of: &OnDevice, tables: &mut [Table], update: Update) {
        device
            .update_tables(UpdateTables {
                which: 0..tables.len(),
                tables,
                columns: &of.columns,
                width: of.width,
                index: &of.index,
                sorted: &of.sorted,
                weights: of.weights.as_ref(),
                dout: &of.dout,
                update,
            })
            .unwrap();
    }

    /// Vectors of all tables, of some for some samples, and weights and state of all tables after updates.
    fn run(&self, device: &Device) -> Vec<Vec<f32>> {
        let (mut tables, of) = (self.tables(device), self.on(device));
        let look_up = |tables: &[Table], which, samples: std::ops::Range<usize>| {
            let mut out = on(device, &numbers_like(samples.len() * of.width));
            device
                .lookup(Lookup {
                    tables,
                    which,
                    columns: &of.columns,
                    width: of.width,
                    index: &of.index,
                    samples,
                    values: &of.ids,
                    weights: of.weights.as_ref(),
                    out: &mut out,
                })
                .unwrap();
            out.to_vec().unwrap()
        };
        let mut results = vec![
            look_up(&tables, 0..tables.len(), 0..self.samples),
            look_up(&tables, tables.len() / 2..tables.len(), self.samples / 3..self.samples),
        ];
        for step in 1..3 {
            let update = regularised(Update::new(self.rule, 0.1, step), self.how);
            self.update(device, &of, &mut tables, update);
        }
        device.check().unwrap();
        for table in &tables {
            results.extend([table.weights.to_vec().unwrap(), table.state.to_vec().unwrap()]);
        }
        results
    }

    fn check(&self) {
        let expected = self.on(&Device::Reference).sorted;
        for device in devices() {
            let sorted = self.on(&device).sorted;
            assert_eq!(
                (sorted.keys.to_vec().unwrap(), &sorted.bounds),
                (expected.keys.to_vec().unwrap(), &expected.bounds)
            );
        }
        compare(if self.rounds() { 0 } else { 64 }, |device| self.run(device));
        if !self.rounds() {
            return;
        }
        // To the last bit, but for the sign of a zero.
        let expected = self.run(&Device::Reference);
        for device in devices() {
            for (o, (got, expected)) in self.run(&device).iter().zip(&expected).enumerate() {
                let differ = got.iter().zip(expected).position(|(g, e)| g != e);
                let both = differ.map(|i| (i, got[i], expected[i]));
                assert_eq!(both, None, "output {o} on {}: element, got, expected", device.name());
            }
        }
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
            formats: &ALL[..1],
            random: false,
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
