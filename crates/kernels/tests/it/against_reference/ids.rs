//! Ids of bags: where each bag's ids lie, and ids sorted by table and row.

use super::support::*;
use ground::Pooling;
use ground::optimizer::UpdateRule;
use kernels::{BagIndex, Device, IndexBags, KernelError, Segment, SortedIds, Table};

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
