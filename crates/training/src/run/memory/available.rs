//! Memory that is available on this machine.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes the system could give without swapping, or what the limits of this process's control groups leave if that is
/// less; `None` where nothing says.
pub fn available_memory() -> Option<u64> {
    let system = fs::read_to_string("/proc/meminfo").ok().and_then(|text| free(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().flat_map(|line| folders(Path::new("/sys/fs/cgroup"), line));
    let left = limits.filter_map(|folder| left(&folder)).min();
    [system, left].into_iter().flatten().min()
}

/// What `/proc/meminfo` says is available.
fn free(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The folders of a control group and of those above it, which limit it too. `line` is one of `/proc/self/cgroup`:
/// `0::/a/b` of version 2, or `4:memory:/a/b` of version 1. Inside a container the group may be mounted as the root.
fn folders(root: &Path, line: &str) -> Vec<PathBuf> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { return Vec::new() };
    let root = match controllers {
        "" => root.to_owned(),
        named if named.split(',').any(|name| name == "memory") => root.join("memory"),
        _ => return Vec::new(),
    };
    let own = root.join(group.trim_start_matches('/'));
    own.ancestors().take_while(|folder| folder.starts_with(&root)).map(Path::to_owned).collect()
}

/// What the limit in a group's folder leaves: the limit less what is in use, but for files that the system can drop.
fn left(folder: &Path) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    let (limit, used) = match number("memory.max") {
        Some(limit) => (limit, number("memory.current")),
        None => (number("memory.limit_in_bytes")?, number("memory.usage_in_bytes")),
    };
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let field =
        |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    let inactive = field("total_inactive_file ").or_else(|| field("inactive_file ")).unwrap_or(0);
    Some(limit.saturating_sub(used.unwrap_or(0).saturating_sub(inactive)))
}

#[cfg(test)]
mod tests;
