use kernels::internals::cuda::wire::unit;

#[test]
fn units_divide_offsets_and_lengths() {
    assert_eq!(unit(&[[0, 16, 32], [64, 48, 16]]), 16);
    assert_eq!(unit(&[[0, 16, 32], [64, 48, 8]]), 8);
    assert_eq!(unit(&[[6, 16, 32]]), 2);
    assert_eq!(unit(&[[0, 1, 32]]), 1);
}
