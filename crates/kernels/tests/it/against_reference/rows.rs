//! Rows that copies of tables touch: sums of their gradients, in both ways in which copies add them, and updates.

use super::support::*;
use ground::Pooling;
use ground::optimizer::UpdateRule;
use ground::random::RandomSequence;
use ground::share;
use ground::table_format::TableFormat;
use kernels::{
    BagIndex, Buffer, CollectRows, Device, IndexBags, KernelError, RandomRounding, RowPart, RowRuns, Segment,
    SortedIds, SpreadRows, SumRows, Table, Update, UpdateRows, UpdateTables,
};

const DIMS: [usize; 4] = [16, 5, 1, 40];
const ROWS: [usize; 4] = [300, 7, 2000, 1];
/// The tables that have copies; the others are here to be left alone.
const WHICH: [usize; 3] = [0, 2, 3];
const COLUMNS: [usize; 4] = [1, usize::MAX, 17, 19];
const WIDTH: usize = 60;

struct Case {
    samples: usize,
    longest: u32,
    copies: usize,
    pooling: Pooling,
    weighted: bool,
    rule: UpdateRule,
    how: usize,
    /// Number format of the tables, and whether weights are rounded at random.
    format: (TableFormat, bool),
}

/// What one copy has of a step: a share of the samples, numbered from 0.
struct Copy {
    index: BagIndex,
    sorted: SortedIds,
    weights: Buffer<f32>,
    dout: Buffer<f32>,
}

impl Case {
    fn tables(&self, device: &Device) -> Vec<Table> {
        let mut numbers = Numbers(17);
        let make = |(&rows, &dim): (&usize, &usize)| {
            let (format, random) = self.format;
            let mut table = Table::in_format(device, format, [rows, dim], self.pooling, &self.rule).unwrap();
            table.weights.write(0, &numbers.floats(rows * dim).to_vec().unwrap()).unwrap();
            if random {
                let sequence = RandomSequence::new(5, "rounding");
                table.weights.round_at_random(RandomRounding { sequence, first_row: 9, first_column: 2 });
            }
            table
        };
        ROWS.iter().zip(&DIMS).map(make).collect()
    }

    /// The samples `own` of all, as one rank has them.
    fn copy(&self, device: &Device, own: std::ops::Range<usize>) -> Copy {
        let (mut segments, mut lengths, mut values) = (vec![], vec![], vec![]);
        for (table, &rows) in ROWS.iter().enumerate() {
            segments.push(Segment {
                table,
                first_sample: 0,
                samples: own.len(),
                first_value: values.len(),
                lengths_at: Some(lengths.len()),
            });
            for sample in own.clone() {
                let mut numbers = Numbers((sample * 7 + table) as u64);
                let length = numbers.next() as u32 % (self.longest + 1);
                lengths.push(length);
                values.extend((0..length).map(|_| (numbers.next() % rows as u64) as u32));
            }
        }
        let weights: Vec<f32> = values.iter().map(|&id| 0.5 + id as f32 / 64.0).collect();
        let mut gradients: Vec<f32> =
            own.clone().flat_map(|sample| Numbers(sample as u64).floats(WIDTH).to_vec().unwrap()).collect();
        if self.format.0.rounds() {
            // Sums of such numbers are exact, in whatever order they are added: one bit of a sum decides how a weight is rounded.
            gradients.iter_mut().for_each(|x| *x = (*x * 256.0).round() / 256.0);
        }
        let (mut index, mut sorted) = (BagIndex::new(device), SortedIds::new(device));
        let (values, tables) = (on(device, &buffer(&values)), self.tables(device));
        device
            .index_bags(IndexBags {
                tables: ROWS.len(),
                // More samples than the copy serves, as a rank has them.
                samples: own.len() + 3,
                segments: &segments,
                lengths: &lengths,
                values: values.len(),
                index: &mut index,
            })
            .unwrap();
        device.sort_ids(&tables, &index, &values, &mut sorted).unwrap();
        let (weights, dout) = (on(device, &buffer(&weights)), on(device, &buffer(&gradients)));
        Copy { index, sorted, weights, dout }
    }

    /// Rows and sums of one copy.
    fn sums(&self, device: &Device, copy: &Copy) -> (RowRuns, Buffer<u32>, Buffer<f32>) {
        let (mut runs, mut rows) = (RowRuns::new(device), on(device, &none()));
        assert!(device.find_runs(&WHICH, &copy.sorted, &mut runs, &mut rows).unwrap());
        let mut sums = on(device, &numbers_like(3));
        device
            .sum_rows(SumRows {
                tables: &self.tables(device),
                which: &WHICH,
                columns: &COLUMNS,
                width: WIDTH,
                index: &copy.index,
                sorted: &copy.sorted,
                runs: &runs,
                weights: self.weighted.then_some(&copy.weights),
                dout: &copy.dout,
                sums: &mut sums,
            })
            .unwrap();
        (runs, rows, sums)
    }

    fn copies(&self, device: &Device) -> Vec<Copy> {
        (0..self.copies).map(|copy| self.copy(device, share(self.samples, self.copies, copy))).collect()
    }

    /// The tables after one update by the sums of all copies, brought together row by row.
    fn by_rows(&self, device: &Device) -> Vec<Vec<f32>> {
        let of_copies: Vec<_> = self.copies(device).iter().map(|copy| self.sums(device, copy)).collect();
        let (mut rows, mut sums, mut parts) = (vec![], vec![], vec![]);
        for (runs, some, floats) in &of_copies {
            let mut at = sums.len();
            for (k, &table) in WHICH.iter().enumerate() {
                let of = runs.bounds[k] + rows.len()..runs.bounds[k + 1] + rows.len();
                parts.push(RowPart { table, rows: of.clone(), sums: at });
                at += of.len() * DIMS[table];
            }
            rows.extend(some.to_vec().unwrap());
            sums.extend(floats.to_vec().unwrap());
        }
        parts.sort_by_key(|part| part.table);
        self.update(device, &parts, &on(device, &buffer(&rows)), &on(device, &buffer(&sums)))
    }

    /// As [`by_rows`](Self::by_rows), by vectors with a place for every row.
    fn dense(&self, device: &Device) -> Vec<Vec<f32>> {
        let tables = self.tables(device);
        let mut sum = vec![];
        for copy in self.copies(device) {
            let (runs, rows, sums) = self.sums(device, &copy);
            let (mut vector, args) = (on(device, &numbers_like(9)), (&rows, &sums));
            let (rows, sums) = args;
            let args =
                SpreadRows { tables: &tables, which: &WHICH, runs: &runs, rows, sums, vector: &mut vector };
            device.spread_rows(args).unwrap();
            let vector = vector.to_vec().unwrap();
            sum.resize(vector.len(), 0.0);
            sum.iter_mut().zip(vector).for_each(|(sum, more): (&mut f32, f32)| *sum += more);
        }
        let (mut parts, mut rows, mut sums) = (vec![], on(device, &none()), on(device, &zeros(0)));
        device
            .collect_rows(CollectRows {
                tables: &tables,
                which: &WHICH,
                vector: &on(device, &buffer(&sum)),
                parts: &mut parts,
                rows: &mut rows,
                sums: &mut sums,
            })
            .unwrap();
        self.update(device, &parts, &rows, &sums)
    }

    fn update(
        &self,
        device: &Device,
        parts: &[RowPart],
        rows: &Buffer<u32>,
        sums: &Buffer<f32>,
    ) -> Vec<Vec<f32>> {
        let mut tables = self.tables(device);
        let mut keys = Buffer::new(device);
        for step in 1..3 {
            let update = regularised(Update::new(self.rule, 0.1, step), self.how);
            let args = UpdateRows { tables: &mut tables, parts, rows, sums, keys: &mut keys, update };
            device.update_rows(args).unwrap();
        }
        device.check().unwrap();
        contents(&tables)
    }

    /// The tables after updates by the gradients of all samples at once.
    fn at_once(&self) -> Vec<Vec<f32>> {
        let all = self.copy(&Device::Reference, 0..self.samples);
        let mut tables = self.tables(&Device::Reference);
        for step in 1..3 {
            for t in WHICH {
                Device::Reference
                    .update_tables(UpdateTables {
                        tables: &mut tables,
                        which: t..t + 1,
                        columns: &COLUMNS,
                        width: WIDTH,
                        index: &all.index,
                        sorted: &all.sorted,
                        weights: self.weighted.then_some(&all.weights),
                        // The update wants a row for each sample of the index.
                        dout: &buffer(&[all.dout.to_vec().unwrap(), vec![0.0; 3 * WIDTH]].concat()),
                        update: regularised(Update::new(self.rule, 0.1, step), self.how),
                    })
                    .unwrap();
            }
        }
        contents(&tables)
    }
}

fn contents(tables: &[Table]) -> Vec<Vec<f32>> {
    tables.iter().flat_map(|t| [t.weights.to_vec().unwrap(), t.state.to_vec().unwrap()]).collect()
}

/// Sums of copies, added either way, update tables as the reference does it, with the same bits either way; and within
/// rounding as the gradients of all samples at once do.
#[test]
fn copies_update_as_one_table_does() {
    let mut how = 0;
    for (samples, longest, copies) in [(0, 2, 2), (700, 3, 1), (700, 3, 4), (90, 1, 7), (2, 4, 3)] {
        for (pooling, weighted) in [(Pooling::Sum, false), (Pooling::Mean, false), (Pooling::Mean, true)] {
            let rule = rules()[how % 7];
            let format = (TableFormat::F32, false);
            let case = Case { samples, longest, copies, pooling, weighted, rule, how: how % 4, format };
            compare(256, |device| {
                let (rows, dense) = (case.by_rows(device), case.dense(device));
                let bits =
                    |of: &[Vec<f32>]| -> Vec<u32> { of.iter().flatten().map(|x| x.to_bits()).collect() };
                assert_eq!(bits(&rows), bits(&dense), "{samples} samples on {copies} copies");
                rows
            });
            for (got, expected) in case.by_rows(&Device::Reference).iter().zip(case.at_once()) {
                for (g, e) in got.iter().zip(expected) {
                    assert!((g - e).abs() <= 1e-5 * (1.0 + e.abs()), "{g}, expected {e}, {samples} samples");
                }
            }
            how += 1;
        }
    }
}

/// Tables of other formats are rounded as the reference does it, and as an update by the gradients of all samples at once.
#[test]
fn copies_of_other_formats_update_as_one_table_does() {
    for (format, random) in TableFormat::ALL.into_iter().flat_map(|format| [(format, false), (format, true)])
    {
        for (rule, how) in [(UpdateRule::Sgd, 1), (UpdateRule::Adagrad { eps: 1e-8 }, 2)] {
            let (pooling, weighted, format) = (Pooling::Sum, false, (format, random));
            let case = Case { samples: 700, longest: 3, copies: 4, pooling, weighted, rule, how, format };
            let expected = case.at_once();
            compare(0, |device| {
                let rows = case.by_rows(device);
                assert_eq!(rows, case.dense(device), "{format:?}");
                if format.0.rounds() {
                    assert_eq!(rows, expected, "{format:?}");
                }
                rows
            });
        }
    }
}

/// Rows past the end of their table, parts out of order, and samples that have no gradient.
#[test]
fn rows_that_do_not_fit_are_refused() {
    for device in devices() {
        let mut tables = [Table::zeroed(&device, 3, 2, Pooling::Sum, &UpdateRule::Sgd).unwrap()];
        let mut update = |parts: &[RowPart], rows: &[u32]| {
            let updated = device.update_rows(UpdateRows {
                tables: &mut tables,
                parts,
                rows: &on(&device, &buffer(rows)),
                sums: &on(&device, &zeros(4)),
                keys: &mut Buffer::new(&device),
                update: Update::new(UpdateRule::Sgd, 0.1, 1),
            });
            checked(&device, updated)
        };
        let part = |rows, sums| RowPart { table: 0, rows, sums };
        assert_eq!(update(&[part(0..2, 0)], &[0, 2]), Ok(()));
        let past = KernelError::IdOutOfRange { table: 0, id: 3, rows: 3 };
        assert_eq!(update(&[part(0..2, 0)], &[0, 3]), Err(past));
        let short = |result| assert!(matches!(result, Err(KernelError::TooShort { .. })));
        short(update(&[part(0..3, 0)], &[0, 1, 2]));
        short(update(&[part(1..2, 2), part(0..1, 0)], &[0, 1]));

        let case = Case {
            samples: 50,
            longest: 2,
            copies: 1,
            pooling: Pooling::Sum,
            weighted: false,
            rule: UpdateRule::Sgd,
            how: 0,
            format: (TableFormat::F32, false),
        };
        let copy = case.copy(&device, 0..50);
        let (mut runs, mut rows) = (RowRuns::new(&device), on(&device, &none()));
        device.find_runs(&WHICH, &copy.sorted, &mut runs, &mut rows).unwrap();
        let summed = device.sum_rows(SumRows {
            tables: &case.tables(&device),
            which: &WHICH,
            columns: &COLUMNS,
            width: WIDTH,
            index: &copy.index,
            sorted: &copy.sorted,
            runs: &runs,
            weights: None,
            dout: &on(&device, &zeros(20 * WIDTH)),
            sums: &mut on(&device, &zeros(0)),
        });
        short(checked(&device, summed));
    }
}
