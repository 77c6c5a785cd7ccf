use kernels::LinearShape;
use kernels::internals::cuda::weight_gradient::{SHARED, Shares};

fn shares(rows: usize, outputs: usize, inputs: usize) -> Option<(usize, usize)> {
    Shares::of(LinearShape { rows, inputs, outputs }).map(|Shares { tiles, splits }| (tiles, splits))
}

#[test]
fn rows_are_shared_out_so_that_all_blocks_work() {
    assert_eq!(shares(65_536, 1024, 480), Some((8, 8)));
    assert_eq!(shares(65_536, 1024, 1024), Some((16, 4)));
    assert_eq!(shares(65_536, 256, 512), Some((2, 33)));
    assert_eq!(shares(16_384, 3456, 512), Some((28, 7)));
}

#[test]
fn small_products_and_those_that_leave_tiles_empty_are_left_to_the_library() {
    assert_eq!(shares(65_536, 128, 256), None);
    assert_eq!(shares(8192, 1024, 1024), None);
    assert_eq!(shares(65_536, 260, 520), None);
}

#[test]
fn a_block_fits_into_shared_memory() {
    assert_eq!(SHARED, 230_560);
    const { assert!(SHARED <= 232_448, "shared memory that a block of an H200 may have") };
}
