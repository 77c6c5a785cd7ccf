//! CPU time of a thread: what it computed for, where the clock on the wall also counts what others had the core for.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// CPU time that the calling thread has had so far.
pub(crate) fn of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Such a clock starts at 0, and a second has fewer than 2³² nanoseconds.
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
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
}
