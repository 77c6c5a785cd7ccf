//! Logs under a progress bar.

use crate::progress::{Console, Progress, Unit};
use crate::signals::Stop;
use crate::text::{si, tell};
use anyhow::Result;
use campanile::Notice;
pub use campanile::logs::{MEMORY, OpenLogs, Raw};
use data::prepare::PrepareProgress;
use data::prepared::Manifest;
use spec::run::{DataConfig, Split};
use std::path::Path;

/// Opens the training and the evaluation log of `data`. What must be prepared goes into `keep`, or into a temporary folder.
pub fn open(data: &DataConfig, keep: Option<&Path>, stop: &Stop, console: Console) -> Result<OpenLogs> {
    Ok(campanile::logs::open(data, keep, &console.control(stop))?)
}

/// Runs `work` under a progress bar, and says afterwards what was left out.
pub fn with_progress(
    console: Console,
    what: &str,
    work: impl FnOnce(&(dyn Fn(PrepareProgress) + Sync)) -> Result<Manifest, data::DataError>,
) -> Result<Manifest> {
    let manifest = showing_progress(console, what, work)?;
    warn_of_bad_lines(manifest.bad_lines.count, &manifest.bad_lines.lines);
    Ok(manifest)
}

/// Runs `work` under a progress bar.
pub fn showing_progress<T>(
    console: Console,
    what: &str,
    work: impl FnOnce(&(dyn Fn(PrepareProgress) + Sync)) -> Result<T, data::DataError>,
) -> Result<T> {
    let progress = console.progress(what, 0, Unit::Bytes);
    Ok(work(&|step| show(&progress, what, step))?)
}

/// Shows how far reading is.
pub fn show(bar: &Progress, what: &str, PrepareProgress { counting, progress }: PrepareProgress) {
    bar.set_total(progress.total_bytes);
    let pass = if counting { ", counting" } else { "" };
    let bad = match progress.bad_lines {
        0 => String::new(),
        bad => format!(", {bad} bad lines"),
    };
    bar.at(progress.bytes, &format!("{what}{pass}: {} samples{bad}", si(progress.samples as f64)));
}

/// Tells of lines that were left out: on standard error, where it does not disturb programs.
pub fn warn_of_bad_lines(count: u64, first: &[String]) {
    if count > 0 {
        tell(Notice::BadLines { count, first: first.to_vec() });
    }
}

/// Says in a line which rows are evaluated on, on standard error.
pub fn say_split(console: Console, split: &Split, train: u64, eval: u64, untimed: u64) {
    console.note(Notice::Split { split: split.clone(), train, eval, untimed });
}

/// A size as people write it: `512MiB`, `1GiB`, `2 GB`, or bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim());
    let number: f64 =
        number.parse().map_err(|_| format!("{text:?} is not a size; write it as 512MiB or 1GiB"))?;
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("unknown unit {unit:?}; use kB, MB, GB, KiB, MiB or GiB")),
    };
    let size = number * scale;
    if !(1.0..1e18).contains(&size) {
        return Err(format!("size {text:?} is out of range; use 1 byte to 10^18 bytes"));
    }
    Ok(size as u64)
}
