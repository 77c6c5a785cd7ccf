use super::*;

#[test]
fn long_names_are_cut() {
    assert_eq!(shortened("all-to-all", 5), "all-…");
    assert_eq!(shortened("gemm", 4), "gemm");
    assert_eq!(shortened("gemm", 0), "…");
}
