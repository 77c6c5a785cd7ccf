use super::*;

#[test]
fn sleep_takes_next_to_nothing() {
    let before = of_this_thread();
    std::thread::sleep(Duration::from_millis(50));
    let slept = of_this_thread();
    assert!(slept - before < Duration::from_millis(25), "{:?}", slept - before);
    let sum: u64 = std::hint::black_box(0..1_000_000u64).sum();
    assert!(std::hint::black_box(sum) > 0 && of_this_thread() > slept);
}
