use super::*;

#[test]
fn sizes_and_times_read_well() {
    assert_eq!([1000, 1024, 65536, 16 << 20].map(binary), ["1000 B", "1 KiB", "64 KiB", "16 MiB"]);
    assert_eq!([2.5e-6, 1.25e-3, 3.0].map(seconds), ["2.5 µs", "1.25 ms", "3.00 s"]);
    assert_eq!((per_second(2.5e9), per_second(12.0)), ("2.5 GB/s".into(), "12 B/s".into()));
}
