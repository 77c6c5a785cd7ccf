//! How much memory processes have while they run.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

/// Resident bytes, sampled over time.
#[derive(Default)]
pub struct Samples(Vec<u64>);

impl Samples {
    /// One more, of all `processes` together, after a moment. None where one of them is gone.
    pub fn take(&mut self, processes: &[u32]) {
        sleep(Duration::from_millis(20));
        let each = processes.iter().map(|process| resident(*process));
        self.0.extend(each.sum::<Option<u64>>());
    }

    /// Asserts that memory was flat within 2 % from the end of the warm-up to the end of training.
    pub fn assert_flat(&self) {
        let count = self.0.len();
        assert!(count >= 20, "only {count} samples were taken");
        let median = |from: usize, to: usize| {
            let mut part = self.0[count * from / 10..count * to / 10].to_vec();
            part.sort_unstable();
            part[part.len() / 2] as f64
        };
        // The last tenth is the evaluation and the digest.
        let (before, after) = (median(2, 4), median(7, 9));
        eprintln!("{:.2} MB after the warm-up, {:.2} MB before the end", before / 1e6, after / 1e6);
        assert!(after <= 1.02 * before, "memory grew from {before} to {after} bytes: {:?}", self.0);
    }
}

fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
