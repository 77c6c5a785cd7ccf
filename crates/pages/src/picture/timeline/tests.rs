use super::*;

#[test]
fn times_read_well() {
    assert_eq!([12.345_678, 0.5, 2500.0, 0.0].map(duration), ["12.35 ms", "500.0 µs", "2.500 s", "0 ms"]);
    assert_eq!([1e-7, 1e-12].map(duration), ["0.1000 ns", "1.000e-6 ns"]);
}
