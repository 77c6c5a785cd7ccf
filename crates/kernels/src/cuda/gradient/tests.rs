use super::*;

/// Shared memory that a block of an H200 may have.
const HOPPER_SHARED: usize = 232_448;

#[test]
fn every_kernel_fits_into_shared_memory() {
    for (rows, inputs) in [(65_536, 1024), (128, 1024), (65_536, 64)] {
        for pairs in [false, true] {
            let kernel = Kernel::of(rows, inputs, pairs);
            assert!(kernel.shared_memory() <= HOPPER_SHARED, "{kernel:?}");
        }
    }
}

#[test]
fn blocks_come_in_whole_clusters_and_each_has_a_tile() {
    let pair = Kernel::of(65_536, 1024, true);
    assert_eq!(pair, Kernel { columns: 256, stages: 3, cluster: 2 });
    assert_eq!(pair.blocks(65_536, 1024, 132), 132);
    assert_eq!(pair.blocks(65_536, 1024, 131), 130);
    let few = Kernel::of(129, 130, true);
    assert_eq!(few, Kernel { columns: 128, stages: 5, cluster: 2 });
    assert_eq!(few.blocks(129, 130, 132), 4);
    assert_eq!(Kernel::of(1, 8, false).blocks(1, 8, 132), 1);
}
