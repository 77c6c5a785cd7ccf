//! The most memory that a process had.

use std::fs;

/// Most bytes that a process ever had, without the pages of its files: those of the program itself are shared with others that run
/// it, depend on how it was built, and can be dropped at any time. `None` where the process is gone.
pub fn most(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let bytes = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    };
    Some(bytes("VmHWM:")?.saturating_sub(bytes("RssFile:")?))
}
