use kernels::internals::cuda::gradient::Kernel;

/// Shared memory that a block of an H200 may have.
const HOPPER_SHARED: usize = 232_448;

#[test]
fn every_kernel_fits_into_shared_memory() {
    for (rows, inputs) in [(65_536, 1024), (128, 1024), (65_536, 64)] {
        let kernel = Kernel::of(rows, inputs);
        assert!(kernel.shared_memory() <= HOPPER_SHARED, "{kernel:?}");
    }
}

#[test]
fn each_block_has_a_tile() {
    let wide = Kernel::of(65_536, 1024);
    assert_eq!(wide, Kernel { columns: 256, stages: 3 });
    assert_eq!(wide.blocks(65_536, 1024, 132), 132);
    let few = Kernel::of(129, 136);
    assert_eq!(few, Kernel { columns: 128, stages: 5 });
    assert_eq!(few.blocks(129, 136, 132), 4);
    assert_eq!(Kernel::of(1, 8).blocks(1, 8, 132), 1);
}
