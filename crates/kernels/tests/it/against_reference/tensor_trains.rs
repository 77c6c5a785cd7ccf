//! Tensor trains: rows computed from cores, and gradients of cores.

use super::support::*;
use ground::Pooling;
use ground::tensor_train::TensorTrain;
use kernels::{
    BagIndex, Buffer, Device, LookupTensorTrains, RowRuns, SortedIds, SumRows, Table, TensorTrainAt,
    TensorTrainGradients,
};
use proptest::prelude::*;

/// A step of some tensor trains.
struct Step {
    trains: Vec<(TensorTrain, usize, Pooling)>,
    /// Bags of each train, sample after sample.
    lengths: Vec<u32>,
    ids: Vec<u32>,
    weights: Vec<f32>,
    parameters: Vec<f32>,
    samples: usize,
    seed: u64,
}

/// Floats between the cores, which nobody may touch.
const GAP: usize = 3;

impl Step {
    fn new(shapes: &[(usize, usize, usize, bool)], samples: usize, hotness: u64, seed: u64) -> Self {
        let mut numbers = Numbers(seed);
        let train = |&(rows, width, rank, mean): &(usize, usize, usize, bool)| {
            let pooling = if mean { Pooling::Mean } else { Pooling::Sum };
            (TensorTrain::new(rows, width, rank).unwrap(), rows, pooling)
        };
        let trains: Vec<_> = shapes.iter().map(train).collect();
        let lengths: Vec<u32> =
            (0..samples * trains.len()).map(|_| (numbers.next() % (hotness + 1)) as u32).collect();
        let rows =
            lengths.iter().enumerate().flat_map(|(bag, &n)| vec![shapes[bag / samples.max(1)].0; n as usize]);
        // Half of the ids are few, so that they repeat.
        let ids: Vec<u32> = rows
            .map(|rows| {
                let few = if numbers.next().is_multiple_of(2) { rows.min(3) } else { rows };
                (numbers.next() % few as u64) as u32
            })
            .collect();
        let weights = ids.iter().map(|_| numbers.float()).collect();
        let floats: usize = trains.iter().map(|(train, ..)| train.parameters() + 3 * GAP).sum();
        let parameters = (0..floats).map(|_| numbers.float()).collect();
        Self { trains, lengths, ids, weights, parameters, samples, seed }
    }

    fn places(&self) -> Vec<TensorTrainAt> {
        let mut next = 0;
        let place = |(table, (train, ..)): (usize, &(TensorTrain, usize, Pooling))| {
            let cores = train.cores().map(|len| {
                let at = next;
                next += len + GAP;
                at
            });
            TensorTrainAt { table, train: *train, cores }
        };
        self.trains.iter().enumerate().map(place).collect()
    }

    /// Columns of the vectors, with one between them that nobody may touch; and the width of a row.
    fn columns(&self) -> (Vec<usize>, usize) {
        let mut next = 1;
        let columns = self.trains.iter().map(|(train, ..)| {
            let at = next;
            next += train.width + 1;
            at
        });
        (columns.collect(), next)
    }

    /// Vectors and gradients of the parameters on a device.
    fn results(&self, device: &Device, weighted: bool) -> Vec<Vec<f32>> {
        let on = |floats: &[f32]| Buffer::from_slice(device, floats).unwrap();
        let tables: Vec<Table> = self
            .trains
            .iter()
            .map(|(train, rows, pooling)| Table::without_rows(device, [*rows, train.width], *pooling))
            .collect();
        let starts: Vec<u32> = self
            .lengths
            .iter()
            .scan(0, |next, length| {
                *next += length;
                Some(*next - length)
            })
            .collect();
        let index = BagIndex::from_bags(device, tables.len(), &starts, &self.lengths).unwrap();
        let values = Buffer::from_slice(device, &self.ids).unwrap();
        let weights = weighted.then(|| on(&self.weights));
        let (parameters, trains, (columns, width)) = (on(&self.parameters), self.places(), self.columns());
        let mut out = on(&vec![7.5; self.samples * width]);
        let (weights, samples) = (weights.as_ref(), self.samples);
        device
            .lookup_tensor_trains(LookupTensorTrains {
                tables: &tables,
                trains: &trains,
                parameters: &parameters,
                columns: &columns,
                width,
                index: &index,
                samples,
                values: &values,
                weights,
                out: &mut out,
            })
            .unwrap();
        let mut numbers = Numbers(self.seed ^ 1);
        let dout: Vec<f32> = (0..samples * width).map(|_| numbers.float()).collect();
        let (mut sorted, mut runs) = (SortedIds::new(device), RowRuns::new(device));
        let (mut rows, mut sums) = (Buffer::new(device), Buffer::new(device));
        let which: Vec<usize> = (0..tables.len()).collect();
        device.sort_ids(&tables, &index, &values, &mut sorted).unwrap();
        device.find_runs(&which, &sorted, &mut runs, &mut rows).unwrap();
        device
            .sum_rows(SumRows {
                tables: &tables,
                which: &which,
                columns: &columns,
                width,
                index: &index,
                sorted: &sorted,
                runs: &runs,
                weights,
                dout: &on(&dout),
                sums: &mut sums,
            })
            .unwrap();
        let mut gradient = on(&vec![7.5; self.parameters.len()]);
        device
            .tensor_train_gradients(TensorTrainGradients {
                tables: &tables,
                trains: &trains,
                parameters: &parameters,
                runs: &runs,
                rows: &rows,
                sums: &sums,
                gradient: &mut gradient,
            })
            .unwrap();
        vec![out.to_vec().unwrap(), gradient.to_vec().unwrap()]
    }

    /// Terms of the longest sum.
    fn terms(&self) -> usize {
        let of = |(train, ..): &(TensorTrain, usize, Pooling)| train.rank * train.rank * train.width;
        self.trains.iter().map(of).max().unwrap_or(0) * (1 + self.ids.len())
    }
}

fn shape() -> impl Strategy<Value = (usize, usize, usize, bool)> {
    let width = prop_oneof![Just(1usize), Just(8), Just(9), Just(16), Just(17), Just(64), 2usize..40];
    let rank = prop_oneof![Just(1usize), Just(4), Just(16), 1usize..9];
    (prop_oneof![1usize..30, 100usize..3000], width, rank, any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn vectors_and_gradients(
        shapes in prop::collection::vec(shape(), 1..4),
        samples in 0usize..70,
        hotness in 1u64..4,
        weighted in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let step = Step::new(&shapes, samples, hotness, seed);
        compare(step.terms(), |device| step.results(device, weighted));
    }
}

/// Slices of many parts: ranks of 64 and more, and rows that need more than one look.
#[test]
fn high_ranks_and_many_rows() {
    for (shape, samples) in
        [((500, 128, 64, false), 40), ((300, 16, 128, false), 30), ((40_000, 16, 4, false), 6000)]
    {
        let step = Step::new(&[shape], samples, 1, 5);
        compare(step.terms(), |device| step.results(device, false));
    }
}

/// Bags that end in several groups of rows have the same bits for any number of threads.
#[test]
fn many_ids_in_bags() {
    let step = Step::new(&[(5000, 16, 4, false), (300, 9, 3, true)], 1500, 5, 7);
    assert!(step.ids.len() > 4096);
    compare(step.terms(), |device| step.results(device, true));
}

/// Ids past the end of a table are refused by name, although the digits of some could be looked up.
#[test]
fn ids_past_the_end_are_refused() {
    for device in host_devices() {
        let train = TensorTrain::new(10, 8, 2).unwrap();
        assert!(train.rows.iter().product::<usize>() > 10);
        let out = device.lookup_tensor_trains(LookupTensorTrains {
            tables: &[Table::without_rows(&device, [10, 8], Pooling::Sum)],
            trains: &[TensorTrainAt { table: 0, train, cores: [0, 100, 200] }],
            parameters: &Buffer::zeroed(&device, 300).unwrap(),
            columns: &[0],
            width: 8,
            index: &BagIndex::from_bags(&device, 1, &[0], &[1]).unwrap(),
            samples: 1,
            values: &Buffer::from_slice(&device, &[10]).unwrap(),
            weights: None,
            out: &mut Buffer::zeroed(&device, 8).unwrap(),
        });
        let text = out.unwrap_err().to_string();
        assert!(text.contains("10"), "{text}");
    }
}
