use kernels::internals::cuda::cross_product::shared_memory;

#[test]
fn blocks_fit_into_shared_memory() {
    assert_eq!([shared_memory(false), shared_memory(true)], [222_352, 228_496]);
    assert!(shared_memory(true) <= 232_448);
}
