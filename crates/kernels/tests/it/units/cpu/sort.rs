use ground::Pooling;
use ground::optimizer::UpdateRule;
use kernels::{BagIndex, Buffer, Device, KernelError, SortedIds, Table};

/// Keys, bounds and samples of sorted ids.
type Sorted = (Vec<u64>, Vec<usize>, Vec<u32>);

/// Keys, bounds and samples of two tables of `rows` rows without columns, with the same bags.
fn sorted(device: &Device, rows: usize, bags: &[(u32, u32)], ids: &[u32]) -> Result<Sorted, KernelError> {
    let make = || Table::zeroed(device, rows, 0, Pooling::Sum, &UpdateRule::Sgd).unwrap();
    let (starts, lengths): (Vec<u32>, Vec<u32>) = bags.iter().chain(bags).copied().unzip();
    let index = BagIndex::from_bags(device, 2, &starts, &lengths)?;
    let mut sorted = SortedIds::new(device);
    device.sort_ids(&[make(), make()], &index, &Buffer::from_slice(device, ids)?, &mut sorted)?;
    Ok((sorted.keys.to_vec()?, sorted.bounds, sorted.samples.to_vec()?))
}

/// Rows of any number of digits, in bags that lie in order, with gaps, in blocks of another order, and over each other.
#[test]
fn keys_of_any_number_of_digits_are_in_order() {
    let cpu = Device::cpu(2).unwrap();
    let ids_of = |rows: usize, count: usize| -> Vec<u32> {
        (0..count as u64)
            .map(|i| ((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % rows as u64)
            .map(|id| id as u32)
            .collect()
    };
    for rows in [1, 2, 200, 256, 257, 1 << 16, (1 << 16) + 1, 1 << 24, (1 << 24) + 1, u32::MAX as usize + 1] {
        for count in [0, 1, 63, 64, 1000] {
            let ids = ids_of(rows, count);
            let single: Vec<_> = (0..count as u32).map(|value| (value, 1)).collect();
            let pairs: Vec<_> = (0..count as u32 / 2).map(|bag| (2 * bag, bag % 3)).collect();
            let long: Vec<_> = (0..count as u32 / 5).map(|bag| (5 * bag, 5)).collect();
            let half = single.len() / 2;
            let swapped = [&single[half..], &single[..half]].concat();
            let over: Vec<_> = (0..count as u32 / 2).map(|bag| (bag, 2)).collect();
            for (kind, bags) in [single, pairs, long, swapped, over].iter().enumerate() {
                let (keys, bounds, samples) = sorted(&cpu, rows, bags, &ids).unwrap();
                let (expected, its_bounds, its_samples) =
                    sorted(&Device::Reference, rows, bags, &ids).unwrap();
                assert!(
                    keys == expected && bounds == its_bounds,
                    "{rows} rows, {count} ids, bags of kind {kind}"
                );
                // Values of several bags belong to any of them.
                assert!(kind == 4 || samples == its_samples, "{rows} rows, {count} ids, bags of kind {kind}");
            }
        }
        if rows <= u32::MAX as usize {
            let mut ids = ids_of(rows, 500);
            ids[321] = rows as u32;
            let bags: Vec<_> = (0..500).map(|value| (value, 1)).collect();
            let refused = KernelError::IdOutOfRange { table: 0, id: rows as u32, rows };
            assert_eq!(sorted(&cpu, rows, &bags, &ids).unwrap_err().to_string(), refused.to_string());
        }
    }
}
