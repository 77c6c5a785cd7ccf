//! A sweep as text and as JSON.

use super::sweep::{Point, Sweep, Swept};
use crate::text::{bytes, columns, si};
use anyhow::Result;
use serde_json::json;
use spec::links::{LinkModel, described};

pub fn print(sweep: &Sweep, swept: &Swept, as_json: bool) -> Result<()> {
    let Sweep { topology, rounds, .. } = sweep;
    if as_json {
        let result = json!({
            "hosts": topology.hosts(),
            "ranks_per_host": topology.ranks_per_host(),
            "rounds": rounds.measured,
            "warm_up": rounds.warm_up,
            "points": swept.points,
            "links": swept.links,
        });
        println!("{result}");
        return Ok(());
    }
    println!(
        "Collectives on {topology} ranks, median of {} rounds by the slowest rank; size: what a rank sends or reduces",
        rounds.measured
    );
    let head = [
        "collective",
        "group",
        "size",
        "median",
        "best",
        "algorithm",
        "bus",
        "between hosts",
        "messages of a rank",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(swept.points.iter().map(row));
    print!("{}", columns(&rows));
    println!("\nLines through them: time = latency + size / bandwidth");
    let mut rows = vec![["collective", "group", "latency", "bandwidth"].map(String::from).to_vec()];
    rows.extend(swept.links.iter().map(|line| {
        let LinkModel { group, ranks, latency_s, bytes_per_s, .. } = line;
        vec![line.described(), format!("{group} of {ranks}"), seconds(*latency_s), per_second(*bytes_per_s)]
    }));
    print!("{}", columns(&rows));
    Ok(())
}

fn row(point: &Point) -> Vec<String> {
    vec![
        described(point.collective, point.algorithm),
        format!("{} of {}", point.group, point.ranks),
        binary(point.bytes),
        seconds(point.median_s),
        seconds(point.min_s),
        per_second(point.algorithm_bytes_per_s),
        per_second(point.bus_bytes_per_s),
        bytes(point.network_bytes),
        format!("{} × {}", point.messages, binary(point.message_bytes)),
    ]
}

/// A duration as text: `1.5 ms`.
pub fn seconds(value: f64) -> String {
    match value {
        v if v < 1e-3 => format!("{:.1} µs", 1e6 * v),
        v if v < 1.0 => format!("{:.2} ms", 1e3 * v),
        v => format!("{v:.2} s"),
    }
}

fn per_second(value: f64) -> String {
    let text = si(value);
    let gap = if text.ends_with(|c: char| c.is_ascii_digit()) { " " } else { "" };
    format!("{text}{gap}B/s")
}

/// A size as text: `64 KiB`, where it is a whole number of such units.
fn binary(value: usize) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(size, _)| value >= *size && value.is_multiple_of(*size));
    unit.map_or_else(|| format!("{value} B"), |(size, name)| format!("{} {name}", value / size))
}

#[cfg(test)]
mod tests;
