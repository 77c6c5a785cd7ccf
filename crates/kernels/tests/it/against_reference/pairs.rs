//! Lookups fused with dot products, and gradients of dot products fused with updates: the bits of their parts on every device, and on
//! a GPU the results of the reference within the error of rounded operands.

use super::support::*;
use crate::gpu::in_precision;
use ground::Pooling;
use ground::optimizer::UpdateRule;
use ground::precision::Precision;
use ground::table_format::TableFormat;
use kernels::{
    BagIndex, Buffer, Device, DotShape, DotUpdate, IndexBags, Lookup, LookupDot, PairVectors, Repeats,
    Segment, SortedIds, Stored, Table, Update, UpdateTables,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Case {
    shape: DotShape,
    table_rows: usize,
    /// Ids of a bag at most; 0 for one id each.
    longest: u32,
    mean: bool,
    weighted: bool,
    update: Update,
    seed: u64,
    /// Number format of the tables: a device that fuses does so where they are f32.
    format: TableFormat,
}

/// Ids of a case on a device.
struct OnDevice {
    tables: Vec<Table>,
    columns: Vec<usize>,
    index: BagIndex,
    values: Buffer<u32>,
    weights: Option<Buffer<f32>>,
    sorted: SortedIds,
    repeats: Repeats,
    first: Buffer<f32>,
    dout: Buffer<f32>,
}

impl Case {
    fn on(&self, device: &Device) -> OnDevice {
        let DotShape { rows, count, dim } = self.shape;
        let mut numbers = Numbers(self.seed);
        let pooling = if self.mean { Pooling::Mean } else { Pooling::Sum };
        let tables: Vec<Table> = (1..count)
            .map(|_| {
                let (shape, rule) = ([self.table_rows, dim], &self.update.rule);
                let mut table = Table::in_format(device, self.format, shape, pooling, rule).unwrap();
                let weights = numbers.floats(self.table_rows * dim).to_vec().unwrap();
                table.weights.write(0, &weights).unwrap();
                table
            })
            .collect();
        // Tables in another order than their vectors.
        let columns = (0..tables.len()).map(|t| (1 + (t + 1) % tables.len()) * dim).collect();
        let (mut segments, mut lengths, mut values) = (vec![], vec![], vec![]);
        for table in 0..tables.len() {
            let lengths_at = (self.longest > 0).then_some(lengths.len());
            segments.push(Segment {
                table,
                first_sample: 0,
                samples: rows,
                first_value: values.len(),
                lengths_at,
            });
            for _ in 0..rows {
                let length = if self.longest > 0 { numbers.next() as u32 % (self.longest + 1) } else { 1 };
                lengths.push(length);
                values.extend((0..length).map(|_| (numbers.next() % self.table_rows as u64) as u32));
            }
        }
        let mut index = BagIndex::new(device);
        let (samples, of_values) = (rows, values.len());
        let bags = IndexBags {
            tables: tables.len(),
            samples,
            segments: &segments,
            lengths: &lengths,
            values: of_values,
            index: &mut index,
        };
        device.index_bags(bags).unwrap();
        let weights = self.weighted.then(|| on(device, &numbers.floats(values.len())));
        let values = on(device, &buffer(&values));
        let (mut sorted, mut repeats) = (SortedIds::new(device), Repeats::new(device));
        device.sort_ids(&tables, &index, &values, &mut sorted).unwrap();
        device.find_repeats(&index, &sorted, &mut repeats).unwrap();
        let first = on(device, &numbers.floats(rows * dim));
        let dout = on(device, &numbers.floats(rows * self.shape.width()));
        OnDevice { tables, columns, index, values, weights, sorted, repeats, first, dout }
    }

    /// Products, gradient of vector 0, weights and state of all tables after an update.
    fn run(&self, device: &Device, fused: bool) -> Vec<Vec<f32>> {
        let DotShape { rows, count, dim } = self.shape;
        let OnDevice { mut tables, columns, index, values, weights, sorted, repeats, first, dout } =
            self.on(device);
        let mut out = Buffer::new(device);
        out.resize_rows(device.keeps(self.shape.width()), rows, self.shape.width()).unwrap();
        let (mut dfirst, width) = (on(device, &numbers_like(rows * dim)), count * dim);
        let (which, weights, update) = (0..tables.len(), weights.as_ref(), self.update);
        if fused {
            let (columns, index, values, first) = (&columns[..], &index, &values, &first);
            let of = PairVectors { shape: self.shape, columns, index, values, weights, first };
            let (mut vectors, mut gradients) = (Buffer::new(device), Buffer::new(device));
            let lookup = LookupDot { tables: &tables, of, vectors: &mut vectors, out: &mut out };
            device.lookup_dot(lookup).unwrap();
            device
                .dot_update(DotUpdate {
                    tables: &mut tables,
                    of,
                    sorted: &sorted,
                    repeats: &repeats,
                    vectors: &vectors,
                    dout: &dout,
                    dfirst: &mut dfirst,
                    gradients: &mut gradients,
                    update,
                })
                .unwrap();
        } else {
            let mut vectors = on(device, &numbers_like(rows * width));
            let copy = [kernels::ColumnCopy { from: 0, to: 0, width: dim }];
            let from = kernels::Matrix { buffer: &first, at: 0, width: dim };
            let to = kernels::MatrixMut { buffer: &mut vectors, at: 0, width };
            device.copy_columns(rows, &copy, from, to).unwrap();
            device
                .lookup(Lookup {
                    tables: &tables,
                    which: which.clone(),
                    columns: &columns,
                    width,
                    index: &index,
                    samples: 0..rows,
                    values: &values,
                    weights,
                    out: &mut vectors,
                })
                .unwrap();
            device.dot_forward(self.shape, &vectors, &mut out).unwrap();
            let mut gradients = on(device, &numbers_like(rows * width));
            device.dot_backward(self.shape, &vectors, &dout, &mut gradients).unwrap();
            let from = kernels::Matrix { buffer: &gradients, at: 0, width };
            let to = kernels::MatrixMut { buffer: &mut dfirst, at: 0, width: dim };
            device.copy_columns(rows, &copy, from, to).unwrap();
            let (index, sorted, dout, columns) = (&index, &sorted, &gradients, &columns[..]);
            let tables = &mut tables;
            device
                .update_tables(UpdateTables {
                    tables,
                    which,
                    columns,
                    width,
                    index,
                    sorted,
                    weights,
                    dout,
                    update,
                })
                .unwrap();
        }
        device.check().unwrap();
        let mut all = vec![out.to_vec().unwrap(), dfirst.to_vec().unwrap()];
        all.extend(
            tables.iter().flat_map(|table| [table.weights.to_vec().unwrap(), table.state.to_vec().unwrap()]),
        );
        all
    }
}

fn case() -> impl Strategy<Value = Case> {
    let dim = proptest::sample::select(vec![16, 32, 48, 64, 128, 256]);
    let count = prop_oneof![2..=32usize, Just(27), Just(17), Just(16)];
    let table_rows = prop_oneof![1..4usize, 5..200usize, Just(1000)];
    let sizes = (0..70usize, count, dim, table_rows, 0..4u32);
    let format =
        prop_oneof![3 => Just(TableFormat::F32), 1 => proptest::sample::select(&TableFormat::ALL[1..])];
    (sizes, any::<(bool, bool, u64)>(), (0..7usize, 0..4usize), format).prop_map(
        |((rows, count, dim, table_rows, longest), (mean, weighted, seed), (rule, how), format)| Case {
            shape: DotShape { rows, count, dim },
            table_rows,
            longest,
            mean,
            weighted,
            update: regularised(Update::new(rules()[rule], 0.125, 3), how),
            seed,
            format,
        },
    )
}

/// Devices that fuse, and one that does not.
fn devices_of_pairs() -> Vec<Device> {
    let gpus = [Precision::Bf16, Precision::Tf32, Precision::F32].into_iter().filter_map(in_precision);
    std::iter::once(Device::cpu(2).unwrap()).chain(gpus).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn the_bits_of_their_parts(case in case()) {
        for device in devices_of_pairs() {
            let [parts, fused, again] = [false, true, true].map(|fused| case.run(&device, fused));
            for (o, (fused, parts)) in fused.iter().zip(&parts).enumerate() {
                let differ = fused.iter().zip(parts).position(|(a, b)| a != b && !(a.is_nan() && b.is_nan()));
                prop_assert_eq!(differ, None, "output {} on {} in {}", o, device.name(), device.precision().name());
            }
            prop_assert_eq!(&fused, &again, "a second time");
        }
    }
}

/// Uniform and repeated ids, long runs of one row, in SGD, on shapes of MLPerf's DLRM.
#[test]
fn near_the_reference_on_a_gpu() {
    let shape = DotShape { rows: 500, count: 27, dim: 128 };
    for (table_rows, rule) in
        [(100_000, UpdateRule::Sgd), (40, UpdateRule::Sgd), (1, UpdateRule::Sgd), (300, rules()[2])]
    {
        let update = Update::new(rule, 0.01, 1);
        let (longest, format) = (0, TableFormat::F32);
        let case = Case { shape, table_rows, longest, mean: false, weighted: false, update, seed: 5, format };
        if !crate::gpu::is_there() {
            continue;
        }
        let expected = case.run(&Device::Reference, true);
        for (precision, most) in [(Precision::Bf16, 6e-3), (Precision::Tf32, 1e-3)] {
            let Some(device) = in_precision(precision) else { continue };
            assert!(device.fuses_pairs(shape));
            let kept = device.keeps(shape.width()) != Stored::Plain;
            assert_eq!(kept, precision == Precision::Bf16);
            for (o, (got, expected)) in case.run(&device, true).iter().zip(&expected).enumerate() {
                let error = relative_error(got, expected);
                assert!(error <= most, "output {o}, {table_rows} rows, {}: {error}", precision.name());
            }
        }
    }
}
