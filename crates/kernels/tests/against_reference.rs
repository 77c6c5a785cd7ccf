//! Every operation on `Cpu` with 1, 2 and 3 threads, and without vector instructions, against `Device::Reference`.
//!
//! Tolerance: a sum of n products is held to `(1e-6 + n·1e-7)·(1 + |expected| + magnitude)` where the magnitude is that of
//! its terms, all of which lie in [-1, 1]; element-wise results to 1e-6 of their size. Across thread counts bits are equal.

use kernels::{
    BagIndex, Bce, Buffer, ColumnCopy, CrossBackward, Device, DotShape, IndexBags, InputGradient,
    KernelError, LinearAt, LinearBackward, LinearCrossForward, LinearForward, LinearShape, Lookup, Matrix,
    MatrixMut, Segment, SortedIds, SumBlocks, Table, Update, UpdateDense, UpdateTables,
};
use proptest::prelude::*;
use spec::optimizer::UpdateRule;
use spec::{Activation, Pooling};

/// The reference first, then the devices held against it; the ones at `1..4` must agree in every bit.
fn devices() -> Vec<Device> {
    let cpus = [1, 2, 3].map(|threads| kernels::Cpu::new(threads).unwrap());
    let portable = Device::Cpu(cpus[1].portable());
    let mut devices = vec![Device::Reference];
    devices.extend(cpus.map(Device::Cpu));
    devices.push(portable);
    devices
}

/// Numbers that depend on nothing but the seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 ^ self.0 >> 29) >> 16
    }
    fn float(&mut self) -> f32 {
        (self.next() % (1 << 20)) as f32 / (1 << 19) as f32 - 1.0
    }
    fn floats(&mut self, len: usize) -> Buffer<f32> {
        buffer(&(0..len).map(|_| self.float()).collect::<Vec<_>>())
    }
}

fn buffer<T: kernels::Element>(data: &[T]) -> Buffer<T> {
    Buffer::from_slice(&Device::Reference, data).unwrap()
}

fn copy<T: kernels::Element>(of: &Buffer<T>) -> Buffer<T> {
    buffer(&of.to_vec().unwrap())
}

fn none() -> Buffer<u32> {
    Buffer::new(&Device::Reference)
}

fn zeros(len: usize) -> Buffer<f32> {
    Buffer::zeroed(&Device::Reference, len).unwrap()
}

fn bits(of: &Buffer<f32>) -> Vec<u32> {
    of.to_vec().unwrap().into_iter().map(f32::to_bits).collect()
}

/// Runs `work` on every device and compares what it gives: to the reference within a tolerance for sums of `terms`
/// terms, and bit by bit across thread counts.
fn compare(terms: usize, work: impl Fn(&Device) -> Vec<Vec<f32>> + Sync) {
    let results: Vec<_> = devices().iter().map(&work).collect();
    let tolerance = 1e-6 + terms as f32 * 1e-7;
    for (d, result) in results.iter().enumerate().skip(1) {
        for (o, (got, expected)) in result.iter().zip(&results[0]).enumerate() {
            assert_eq!(got.len(), expected.len());
            for (i, (g, e)) in got.iter().zip(expected).enumerate() {
                let close = (g - e).abs() <= tolerance * (1.0 + e.abs() + (terms as f32).sqrt());
                assert!(close, "device {d}, output {o}, element {i}: {g}, expected {e}");
            }
        }
    }
    for threads in 2..=3 {
        for (one, more) in results[1].iter().zip(&results[threads]) {
            let same = one.iter().zip(more).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "bits differ between 1 and {threads} threads");
        }
    }
    // Inside the pool as outside it.
    let device = &devices()[2];
    assert_eq!(device.enter(|| work(device)), results[2]);
}

/// Sizes around the edges of tiles and blocks.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0..40usize, 2 => 40..150usize, 1 => Just(256), 1 => 250..300usize]
}

fn linear(shape: LinearShape, relu: bool, bias: bool, accumulate: Option<bool>, seed: u64) {
    let LinearShape { rows, inputs, outputs } = shape;
    let mut numbers = Numbers(seed);
    // The parameters of this layer among others: something before the matrix, and between matrix and bias.
    let (x, parameters) = (numbers.floats(rows * inputs), numbers.floats(outputs * inputs + outputs + 5));
    let at = LinearAt { weight: 2, bias: bias.then_some(outputs * inputs + 5) };
    let (dy, dx) = (numbers.floats(rows * outputs), numbers.floats(rows * inputs));
    let activation = if relu { Activation::Relu } else { Activation::Identity };
    compare(rows.max(inputs).max(outputs), |device| {
        let mut y = numbers_like(rows * outputs);
        device
            .linear_forward(LinearForward {
                shape,
                x: &x,
                parameters: &parameters,
                at,
                activation,
                y: &mut y,
            })
            .unwrap();
        let (mut masked, mut dx) = (copy(&dy), copy(&dx));
        // The same mask for all: that of dx.
        device.relu_backward(dy.len().min(x.len()), &x, &mut masked).unwrap();
        let mut gradient = numbers_like(parameters.len());
        let into = accumulate.map(|accumulate| (&mut dx, InputGradient { accumulate, relu }));
        device
            .linear_backward(LinearBackward {
                shape,
                x: &x,
                parameters: &parameters,
                at,
                dy: &dy,
                dx: into,
                gradient: &mut gradient,
            })
            .unwrap();
        let (mut z, mut out) = (numbers_like(rows * outputs), numbers_like(rows * outputs));
        device
            .linear_cross_forward(LinearCrossForward {
                shape,
                h: &x,
                parameters: &parameters,
                at,
                x0: &dy,
                x: &masked,
                z: &mut z,
                out: &mut out,
            })
            .unwrap();
        [y, masked, dx, gradient, z, out].map(|buffer| buffer.to_vec().unwrap()).to_vec()
    });
}

/// Old contents that must be overwritten.
fn numbers_like(len: usize) -> Buffer<f32> {
    buffer(&vec![7.5; len])
}

#[test]
fn linear_at_the_edges() {
    let shapes = [
        [0, 3, 5],
        [0, 64, 96],
        [0, 13, 512],
        [5, 0, 3],
        [5, 3, 0],
        [1, 1, 1],
        [300, 13, 65],
        [40, 600, 1],
        [29, 1, 33],
        [3, 700, 1100],
    ];
    for [rows, inputs, outputs] in shapes {
        linear(LinearShape { rows, inputs, outputs }, true, true, Some(false), 3);
        linear(LinearShape { rows, inputs, outputs }, false, false, None, 4);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn linear_layers(
        rows in size(), inputs in size(), outputs in prop_oneof![4 => size(), 1 => Just(1usize)],
        relu: bool, bias: bool, accumulate: Option<bool>, seed: u64,
    ) {
        linear(LinearShape { rows, inputs, outputs }, relu, bias, accumulate, seed);
    }

    #[test]
    fn dot_products(
        rows in 0..40usize, count in prop_oneof![4 => 0..40usize, 1 => 40..170usize],
        dim in prop_oneof![4 => 0..40usize, 1 => Just(64), 1 => Just(128)], seed: u64,
    ) {
        let width = dim + count * count.saturating_sub(1) / 2;
        let mut numbers = Numbers(seed);
        let (vectors, dout) = (numbers.floats(rows * count * dim), numbers.floats(rows * width));
        compare(dim.max(count), |device| {
            let (mut out, mut dvectors) = (numbers_like(rows * width), numbers_like(rows * count * dim));
            device.dot_forward(DotShape { rows, count, dim }, &vectors, &mut out).unwrap();
            device.dot_backward(DotShape { rows, count, dim }, &vectors, &dout, &mut dvectors).unwrap();
            vec![out.to_vec().unwrap(), dvectors.to_vec().unwrap()]
        });
    }

    #[test]
    fn cross_layers_and_sums(len in prop_oneof![0..100usize, 40_000..70_000usize], accumulate: bool, seed: u64) {
        let mut numbers = Numbers(seed);
        let [x0, z, x, dx0] = [(); 4].map(|()| numbers.floats(len));
        compare(1, |device| {
            let (mut dz, mut dx0) = (numbers_like(len), copy(&dx0));
            device.cross_backward(CrossBackward { len, x0: &x0, z: &z, dout: &x, dz: &mut dz, dx0: &mut dx0, accumulate }).unwrap();
            let mut sum = numbers_like(len / 3 + 2);
            device.sum_blocks(SumBlocks { count: 3, len: len / 3, blocks: &x, out: &mut sum, out_at: 1 }).unwrap();
            let mut none = numbers_like(len);
            device.sum_blocks(SumBlocks { count: 0, len, blocks: &x, out: &mut none, out_at: 0 }).unwrap();
            let mut added = copy(&z);
            device.add(len, &x, &mut added).unwrap();
            vec![dz.to_vec().unwrap(), dx0.to_vec().unwrap(), sum.to_vec().unwrap(), none.to_vec().unwrap(), added.to_vec().unwrap()]
        });
    }

    #[test]
    fn streaming_sums(len in prop_oneof![0..300usize, 40_000..70_000usize], seed: u64) {
        let x = Numbers(seed).floats(len);
        let exact = Device::Reference.sum(&x).unwrap().unwrap();
        for device in devices() {
            prop_assert!((device.sum(&x).unwrap().unwrap() - exact).abs() <= 1e-4 * len as f64);
        }
    }

    #[test]
    fn columns(rows in 0..200usize, a in 0..90usize, b in 0..90usize, gap in 0..5usize, seed: u64) {
        let mut numbers = Numbers(seed);
        let from = numbers.floats(3 + rows * (a + b + gap));
        compare(1, |device| {
            let mut to = numbers_like(2 + rows * (a + b));
            let copies = [ColumnCopy { from: 0, to: b, width: a }, ColumnCopy { from: a + gap, to: 0, width: b }];
            device.copy_columns(rows, &copies, Matrix { buffer: &from, at: 3, width: a + b + gap }, MatrixMut { buffer: &mut to, at: 2, width: a + b }).unwrap();
            vec![to.to_vec().unwrap()]
        });
    }

    #[test]
    fn sums_of_columns(rows in 0..200usize, a in 0..90usize, b in 0..90usize, gap in 0..5usize, seed: u64) {
        let mut numbers = Numbers(seed);
        let (from, to) = (numbers.floats(3 + rows * (a + b + gap)), numbers.floats(2 + rows * (a + b)));
        // The last block comes on top of another.
        let copies = [
            ColumnCopy { from: 0, to: b, width: a },
            ColumnCopy { from: a + gap, to: 0, width: b },
            ColumnCopy { from: gap, to: 0, width: a },
        ];
        let (values, mut expected) = (from.to_vec().unwrap(), to.to_vec().unwrap());
        for (r, c) in (0..rows).flat_map(|r| copies.iter().map(move |c| (r, c))) {
            for i in 0..c.width {
                expected[2 + r * (a + b) + c.to + i] += values[3 + r * (a + b + gap) + c.from + i];
            }
        }
        for device in devices() {
            let mut to = copy(&to);
            device.add_columns(rows, &copies, Matrix { buffer: &from, at: 3, width: a + b + gap }, MatrixMut { buffer: &mut to, at: 2, width: a + b }).unwrap();
            prop_assert_eq!(bits(&to), bits(&buffer(&expected)));
        }
    }

    #[test]
    fn dense_updates(len in prop_oneof![0..100usize, 40_000..70_000usize], rule in 0..4usize, seed: u64) {
        // All but the one for tables.
        let rule = [rules()[0], rules()[1], rules()[3], rules()[4]][rule];
        let mut numbers = Numbers(seed);
        let (weights, gradients) = (numbers.floats(len), [numbers.floats(len), numbers.floats(len)]);
        compare(10, |device| {
            let (mut w, mut state) = (copy(&weights), zeros(rule.state_per_row(len)));
            for (g, step) in gradients.iter().zip(1..) {
                device.update_dense(UpdateDense { update: Update { rule, rate: 0.1, step }, tensors: &[0..len / 3, len / 2..len], weights: &mut w, gradient: g, state: &mut state }).unwrap();
            }
            vec![w.to_vec().unwrap(), state.to_vec().unwrap()]
        });
    }

    #[test]
    fn tables(case in embedding_case()) {
        case.check();
    }
}

fn rules() -> [UpdateRule; 7] {
    [
        UpdateRule::Sgd,
        UpdateRule::Adagrad { eps: 1e-4 },
        UpdateRule::RowWiseAdagrad { eps: 1e-4 },
        UpdateRule::Adam { beta1: 0.9, beta2: 0.99, eps: 1e-4, weight_decay: 0.0 },
        UpdateRule::Adam { beta1: 0.9, beta2: 0.99, eps: 1e-4, weight_decay: 0.1 },
        UpdateRule::Lamb { beta1: 0.9, beta2: 0.99, eps: 1e-4, weight_decay: 0.0 },
        UpdateRule::Lamb { beta1: 0.9, beta2: 0.99, eps: 1e-4, weight_decay: 0.1 },
    ]
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
    seed: u64,
}

fn embedding_case() -> impl Strategy<Value = EmbeddingCase> {
    let dim = prop_oneof![1..40usize, Just(16), Just(32), Just(64), Just(128)];
    let rows = prop_oneof![1..4usize, 1..50usize, 1000..100_000usize];
    let samples = prop_oneof![0..30usize, 100..900usize];
    (0..5usize, samples, 0..5u32, any::<(bool, bool, u64)>(), 0..7usize).prop_flat_map(
        move |(tables, samples, longest, (mean, weighted, seed), rule)| {
            (proptest::collection::vec(dim.clone(), tables), proptest::collection::vec(rows.clone(), tables))
                .prop_map(move |(dims, rows)| {
                    let rule = rules()[rule];
                    EmbeddingCase { dims, rows, samples, longest, mean, weighted, rule, seed }
                })
        },
    )
}

impl EmbeddingCase {
    fn tables(&self) -> Vec<Table> {
        let mut numbers = Numbers(self.seed);
        let pooling = if self.mean { Pooling::Mean } else { Pooling::Sum };
        let make = |(&rows, &dim)| {
            let mut table = Table::zeroed(&Device::Reference, rows, dim, pooling, &self.rule).unwrap();
            table.weights.write(0, &numbers.floats(rows * dim).to_vec().unwrap()).unwrap();
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
        let (lengths, ids) = (buffer(&lengths), buffer(&values));
        let mut numbers = Numbers(self.seed ^ 99);
        let mut columns = vec![];
        let mut width = 1;
        for dim in &self.dims {
            columns.push(width);
            width += dim + 1;
        }
        let weights = numbers.floats(values.len());
        let weights = self.weighted.then_some(&weights);
        let dout = numbers.floats(self.samples * width);
        let sorting = |device: &Device| {
            let tables = self.tables();
            let (mut index, mut sorted) =
                (BagIndex::new(&Device::Reference), SortedIds::new(&Device::Reference));
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
            device.sort_ids(&tables, &index, &ids, &mut sorted).unwrap();
            (tables, index, sorted)
        };
        let (_, _, expected) = sorting(&Device::Reference);
        compare(64, |device| {
            let (mut tables, index, sorted) = sorting(device);
            assert_eq!(
                (sorted.keys.to_vec().unwrap(), &sorted.bounds),
                (expected.keys.to_vec().unwrap(), &expected.bounds)
            );
            let mut out = numbers_like(self.samples * width);
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
            let mut some = numbers_like(part.len() * width);
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
                        update: Update { rule: self.rule, rate: 0.1, step },
                    })
                    .unwrap();
            }
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
            seed,
        };
        let (segments, lengths, values) = case.ids();
        let mut numbers = Numbers(3);
        let weights = numbers.floats(values.len());
        let weights = weighted.then_some(&weights);
        let (near_dout, far_dout) = (numbers.floats(samples * near), numbers.floats(samples * far));
        for device in devices() {
            let (mut index, mut sorted, mut dout) = (
                BagIndex::new(&Device::Reference),
                SortedIds::new(&Device::Reference),
                zeros(samples * (near + far)),
            );
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
            let (mut whole, mut halves) = (case.tables(), case.tables());
            device
                .index_bags(IndexBags {
                    tables: 5,
                    samples,
                    segments: &segments,
                    lengths: &buffer(&lengths),
                    values: values.len(),
                    index: &mut index,
                })
                .unwrap();
            device.sort_ids(&whole, &index, &buffer(&values), &mut sorted).unwrap();
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
                            weights,
                            dout,
                            update: Update { rule, rate: 0.1, step },
                        })
                        .unwrap();
                };
                update(&mut whole, 0..5, &all_columns, near + far, &dout);
                update(&mut halves, 2..5, &far_columns, far, &far_dout);
                update(&mut halves, 0..2, &near_columns, near, &near_dout);
                update(&mut halves, 3..3, &near_columns, near, &near_dout);
            }
            for (whole, half) in whole.iter().zip(&halves) {
                assert_eq!(bits(&whole.weights), bits(&half.weights));
                assert_eq!(bits(&whole.state), bits(&half.state));
            }
        }
    }
}

/// Four sources' samples, numbered in another order than their ids arrive in: each source's are cut into `pieces`, and
/// the numbers go round the sources piece by piece.
fn sort_permuted(samples: usize, longest: u32, pieces: usize) {
    let rows = [3, 1000, 1 << 20];
    let tables = rows.map(|rows| Table::zeroed(&Device::Reference, rows, 1, Pooling::Sum, &UpdateRule::Sgd));
    let tables = tables.map(Result::unwrap);
    let piece = samples / 4 / pieces;
    let mut numbers = Numbers(samples as u64);
    let (mut segments, mut lengths, mut values) = (vec![], vec![], vec![u32::MAX; 5]);
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
    let (lengths, ids) = (buffer(&lengths), buffer(&values));
    let mut results = devices().into_iter().map(|device| {
        let (mut index, mut sorted) = (BagIndex::new(&Device::Reference), SortedIds::new(&Device::Reference));
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
        device.sort_ids(&tables, &index, &ids, &mut sorted).unwrap();
        (sorted.keys.to_vec().unwrap(), sorted.bounds, sorted.samples.to_vec().unwrap())
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
        let table = Table::zeroed(&Device::Reference, 77, 1, Pooling::Sum, &UpdateRule::Sgd).unwrap();
        let mut draw = |len: usize, below: u64| -> Buffer<u32> {
            buffer(&(0..len).map(|_| (numbers.next() % below) as u32).collect::<Vec<_>>())
        };
        let (ids, starts, lengths) = (draw(values, 77), draw(bags, values as u64 - 8), draw(bags, 9));
        let index = BagIndex { tables: 1, samples: bags, starts, lengths };
        let mut results = devices().into_iter().map(|device| {
            let mut sorted = SortedIds::new(&Device::Reference);
            device.sort_ids(std::slice::from_ref(&table), &index, &ids, &mut sorted).unwrap();
            (sorted.keys.to_vec().unwrap(), sorted.bounds, sorted.samples.to_vec().unwrap())
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
                update: Update { rule, rate: 0.5, step: 1 },
                tensors: &[0..dim, dim..rows * dim],
                weights: &mut expected,
                gradient: &gradient,
                state: &mut state,
            })
            .unwrap();
        for device in devices() {
            let mut table = Table::zeroed(&device, rows, dim, Pooling::Sum, &rule).unwrap();
            table.weights.write(0, &start.to_vec().unwrap()).unwrap();
            let mut tables = [table];
            let segment = Segment { table: 0, first_sample: 0, samples, first_value: 0, lengths_at: None };
            let (mut index, mut sorted) =
                (BagIndex::new(&Device::Reference), SortedIds::new(&Device::Reference));
            device
                .index_bags(IndexBags {
                    tables: 1,
                    samples,
                    segments: &[segment],
                    lengths: &none(),
                    values: samples,
                    index: &mut index,
                })
                .unwrap();
            device.sort_ids(&tables, &index, &buffer(&ids), &mut sorted).unwrap();
            device
                .update_tables(UpdateTables {
                    tables: &mut tables,
                    which: 0..1,
                    columns: &[0],
                    width: dim,
                    index: &index,
                    sorted: &sorted,
                    weights: None,
                    dout: &dout,
                    update: Update { rule, rate: 0.5, step: 1 },
                })
                .unwrap();
            for (got, expected) in tables[0].weights.to_vec().unwrap().iter().zip(expected.to_vec().unwrap())
            {
                assert!((got - expected).abs() < 2e-4 * (1.0 + expected.abs()), "{got}, expected {expected}");
            }
        }
    }
}

/// `dloss/dx ≈ (loss(x + h) − loss(x − h)) / 2h` for a loss `Σ cᵢ·outᵢ`, whose gradient at the output is `c`.
fn finite_differences(
    at: &Buffer<f32>,
    analytic: &[f32],
    c: &[f32],
    forward: impl Fn(&Buffer<f32>) -> Vec<f32>,
) {
    let h = 1.0 / 64.0;
    for i in 0..at.len() {
        let loss = |delta: f32| {
            let mut moved = at.to_vec().unwrap();
            moved[i] += delta;
            forward(&buffer(&moved)).iter().zip(c).map(|(out, c)| *out as f64 * *c as f64).sum::<f64>()
        };
        let numeric = (loss(h) - loss(-h)) / (2.0 * h as f64);
        assert!(
            (numeric - analytic[i] as f64).abs() < 2e-3,
            "element {i}: {numeric} against {}",
            analytic[i]
        );
    }
}

#[test]
fn gradients_of_the_reference_are_its_finite_differences() {
    let device = Device::Reference;
    let mut numbers = Numbers(11);
    // A linear map is linear in each operand, a dot product in each element: the differences are exact but for rounding.
    let shape = LinearShape { rows: 4, inputs: 5, outputs: 3 };
    let (x, parameters, c) = (numbers.floats(20), numbers.floats(18), numbers.floats(12));
    let at = LinearAt { weight: 0, bias: Some(15) };
    let forward = |x: &Buffer<f32>, parameters: &Buffer<f32>| {
        let mut y = zeros(12);
        device
            .linear_forward(LinearForward {
                shape,
                x,
                parameters,
                at,
                activation: Activation::Identity,
                y: &mut y,
            })
            .unwrap();
        y.to_vec().unwrap()
    };
    let (mut dx, mut gradient) = (zeros(20), zeros(18));
    let into = Some((&mut dx, InputGradient::default()));
    device
        .linear_backward(LinearBackward {
            shape,
            x: &x,
            parameters: &parameters,
            at,
            dy: &c,
            dx: into,
            gradient: &mut gradient,
        })
        .unwrap();
    finite_differences(&x, &dx.to_vec().unwrap(), &c.to_vec().unwrap(), |x| forward(x, &parameters));
    finite_differences(&parameters, &gradient.to_vec().unwrap(), &c.to_vec().unwrap(), |parameters| {
        forward(&x, parameters)
    });

    let (rows, count, dim) = (2, 5, 3);
    let (vectors, c) = (numbers.floats(30), numbers.floats(26));
    let mut dvectors = zeros(30);
    device.dot_backward(DotShape { rows, count, dim }, &vectors, &c, &mut dvectors).unwrap();
    finite_differences(&vectors, &dvectors.to_vec().unwrap(), &c.to_vec().unwrap(), |vectors| {
        let mut out = zeros(26);
        device.dot_forward(DotShape { rows, count, dim }, vectors, &mut out).unwrap();
        out.to_vec().unwrap()
    });

    let [x0, z, x, c] = [(); 4].map(|()| numbers.floats(9));
    let (mut dz, mut dx0) = (zeros(9), zeros(9));
    device
        .cross_backward(CrossBackward {
            len: 9,
            x0: &x0,
            z: &z,
            dout: &c,
            dz: &mut dz,
            dx0: &mut dx0,
            accumulate: false,
        })
        .unwrap();
    let cross = |x0: &Buffer<f32>, z: &Buffer<f32>, x: &Buffer<f32>| {
        let mut out = vec![0.0; 9];
        kernels::reference::interaction::cross_forward(
            9,
            &x0.to_vec().unwrap(),
            &z.to_vec().unwrap(),
            &x.to_vec().unwrap(),
            &mut out,
        );
        out
    };
    finite_differences(&x0, &dx0.to_vec().unwrap(), &c.to_vec().unwrap(), |x0| cross(x0, &z, &x));
    finite_differences(&z, &dz.to_vec().unwrap(), &c.to_vec().unwrap(), |z| cross(&x0, z, &x));
    finite_differences(&x, &c.to_vec().unwrap(), &c.to_vec().unwrap(), |x| cross(&x0, &z, x));

    let logits = numbers.floats(6);
    let labels = buffer(&[0.0, 1.0, 1.0, 0.0, 0.0, 1.0]);
    let mut dlogits = zeros(6);
    device.bce(Bce { rows: 6, logits: &logits, labels: &labels, scale: 1.0, dlogits: &mut dlogits }).unwrap();
    finite_differences(&logits, &dlogits.to_vec().unwrap(), &[1.0], |logits| {
        vec![
            device
                .bce(Bce { rows: 6, logits, labels: &labels, scale: 1.0, dlogits: &mut zeros(6) })
                .unwrap()
                .unwrap() as f32,
        ]
    });
}

#[test]
fn bce_is_stable_and_sigmoid_saturates() {
    let device = Device::cpu(2).unwrap();
    let (logits, labels) = (buffer(&[1000.0, -1000.0, 1000.0, 0.0]), buffer(&[1.0, 0.0, 0.0, 1.0]));
    let mut dlogits = zeros(4);
    let loss = device
        .bce(Bce { rows: 4, logits: &logits, labels: &labels, scale: 0.5, dlogits: &mut dlogits })
        .unwrap()
        .unwrap();
    assert!((loss - (1000.0 + 2f64.ln())).abs() < 1e-9);
    assert_eq!(dlogits.to_vec().unwrap(), [0.0, 0.0, 0.5, -0.25]);
    let mut p = zeros(4);
    device.sigmoid(4, &logits, &mut p).unwrap();
    assert_eq!(p.to_vec().unwrap(), [1.0, 0.0, 1.0, 0.5]);
}

#[test]
fn ids_past_the_end_are_refused_and_change_nothing() {
    for device in devices() {
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
        let ids = buffer(&ids);
        let (mut index, mut sorted) = (BagIndex::new(&Device::Reference), SortedIds::new(&Device::Reference));
        device
            .index_bags(IndexBags {
                tables: 2,
                samples: 100,
                segments: &[segment(0), segment(1)],
                lengths: &none(),
                values: 200,
                index: &mut index,
            })
            .unwrap();
        let refused = KernelError::IdOutOfRange { table: 1, id: 5, rows: 5 };
        assert_eq!(device.sort_ids(&tables, &index, &ids, &mut sorted), Err(refused.clone()));
        let mut out = numbers_like(800);
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
        assert_eq!(looked, Err(refused));
        assert_eq!(out.to_vec().unwrap(), vec![7.5; 800]);
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
        // Nothing sorted is left that an update could follow.
        let mut tables = tables;
        let updated = device.update_tables(UpdateTables {
            tables: &mut tables,
            which: 0..2,
            columns: &[0, 4],
            width: 8,
            index: &index,
            sorted: &sorted,
            weights: None,
            dout: &out,
            update: Update { rule, rate: 0.1, step: 1 },
        });
        assert!(matches!(updated, Err(KernelError::TooShort { .. })));
    }
}

#[test]
fn ids_sorted_for_other_tables_are_refused() {
    for device in devices() {
        let rule = UpdateRule::Sgd;
        let table = |rows| Table::zeroed(&device, rows, 4, Pooling::Sum, &rule).unwrap();
        let segment = Segment { table: 0, first_sample: 0, samples: 9, first_value: 0, lengths_at: None };
        let (mut index, mut sorted) = (BagIndex::new(&Device::Reference), SortedIds::new(&Device::Reference));
        device
            .index_bags(IndexBags {
                tables: 1,
                samples: 9,
                segments: &[segment],
                lengths: &none(),
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
                update: Update { rule, rate: 0.1, step: 1 },
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
    for device in devices() {
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
                lengths: &none(),
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
                update: Update { rule, rate: 1.0, step: 1 },
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
    assert_eq!(Buffer::<f32>::zeroed(&device, 0).unwrap().to_vec().unwrap(), []);
    for len in [usize::MAX / 8, usize::MAX / 4, usize::MAX] {
        let refused = Buffer::<f32>::zeroed(&device, len);
        assert!(matches!(refused, Err(KernelError::OutOfMemory { .. })), "{len}");
        let mut buffer = Buffer::<f32>::new(&device);
        assert!(matches!(buffer.resize(len), Err(KernelError::OutOfMemory { .. })), "{len}");
    }
}

/// Enough samples for several threads: losses, their sum and probabilities have the bits of the reference.
#[test]
fn losses_do_not_depend_on_threads() {
    for rows in [0, 1, 1024, 1025, 9000] {
        let mut numbers = Numbers(rows as u64);
        let logits = buffer(&(0..rows).map(|_| 20.0 * numbers.float()).collect::<Vec<_>>());
        let labels = buffer(&(0..rows).map(|_| (numbers.next() % 2) as f32).collect::<Vec<_>>());
        let mut results = devices().into_iter().map(|device| {
            let (mut dlogits, mut p) = (numbers_like(rows + 1), numbers_like(rows + 1));
            let scale = 1.0 / 9000.0;
            let bce = Bce { rows, logits: &logits, labels: &labels, scale, dlogits: &mut dlogits };
            let loss = device.bce(bce).unwrap().unwrap();
            device.sigmoid(rows, &logits, &mut p).unwrap();
            (loss.to_bits(), bits(&dlogits), bits(&p))
        });
        let expected = results.next().unwrap();
        assert!(results.all(|result| result == expected), "{rows} samples");
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
    let lengths = buffer(&lengths);
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

/// The norms of LAMB are summed over parts of a tensor: how many threads there are changes no bit.
#[test]
fn lamb_has_the_same_bits_on_any_number_of_threads() {
    let after = |threads: usize| {
        let device = Device::cpu(threads).unwrap();
        let mut numbers = Numbers(3);
        let (len, rule) =
            (150_001, UpdateRule::Lamb { beta1: 0.9, beta2: 0.99, eps: 1e-6, weight_decay: 0.01 });
        let mut weights = Buffer::from_slice(&device, &numbers.floats(len).to_vec().unwrap()).unwrap();
        let mut state = Buffer::zeroed(&device, 2 * len).unwrap();
        for step in 1..=3 {
            let gradient = Buffer::from_slice(&device, &numbers.floats(len).to_vec().unwrap()).unwrap();
            let (update, tensors) = (Update { rule, rate: 0.1, step }, &[0..100_003, 100_010..len]);
            let (weights, state) = (&mut weights, &mut state);
            let args = UpdateDense { update, tensors, weights, gradient: &gradient, state };
            device.update_dense(args).unwrap();
        }
        weights.to_vec().unwrap()
    };
    let alone = after(1);
    assert!(alone == after(2) && alone == after(5));
}
