//! A schedule as text.

use super::*;
use crate::codec::Compensation;
use crate::program::Algorithm;
use std::fmt::Write;

/// One row per phase: number, name, lane, what, dependencies, and the largest volume of any rank.
pub(super) fn render(schedule: &Schedule, batch: usize) -> String {
    let topology = schedule.placement().topology();
    let sizes = BatchSizes::typical(schedule.model(), schedule.placement(), batch);
    let rows: Vec<[String; 7]> = (0..schedule.phases.len())
        .map(|i| {
            let phase = &schedule.phases[i];
            let id = PhaseId(i);
            let most = |of: &dyn Fn(usize) -> u64| (0..topology.ranks()).map(of).max().unwrap_or(0);
            let what = match &phase.work {
                Work::Compute(_) => String::new(),
                Work::Collective(c) => {
                    let codec = c.traffic.codec();
                    let wire = if codec.encodes() { format!(" as {codec}") } else { String::new() };
                    let how = match c.algorithm {
                        Algorithm::Direct => String::new(),
                        other => format!(", {other}"),
                    };
                    let compensated = match c.compensation {
                        Compensation::None => "",
                        Compensation::Every => " with error compensation",
                        Compensation::AsPrinted => " with error compensation as printed",
                    };
                    format!("{} over {}: {}{wire}{compensated}{how}", c.kind, c.group, c.traffic)
                }
            };
            let after: Vec<String> = phase
                .after
                .iter()
                .map(|(id, distance)| format!("{}{}", id.0, "′".repeat(*distance as usize)))
                .collect();
            [
                format!(
                    "{i}{}{}",
                    if phase.ahead { "+" } else { "" },
                    if phase.reads_back() { "*" } else { "" }
                ),
                phase.name.clone(),
                phase.lane.to_string(),
                after.join(" "),
                count(most(&|rank| schedule.flops(id, &sizes, rank)), "F"),
                bytes_of(phase, most, schedule, id, &sizes),
                what,
            ]
        })
        .collect();
    let head = ["#", "phase", "lane", "after", "flops", "bytes host/network", "collective"];
    let head = head.map(String::from);
    let mut widths = head.clone().map(|h| h.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in std::iter::once(&head).chain(&rows) {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            let right = matches!(i, 4 | 5);
            let _ = if right { write!(line, "{pad}{cell}  ") } else { write!(line, "{cell}{pad}  ") };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for phase in &schedule.phases {
        let replaced = schedule.replaces(phase);
        if !replaced.is_empty() {
            let _ = writeln!(text, "{}, in place of: {}", phase.name, replaced.join(", "));
        }
    }
    for reduction in [CopyReduction::Dense, CopyReduction::Rows] {
        let features = copies::of_reduction(&schedule.copies, reduction);
        let names = features.iter().map(|&feature| schedule.model().features()[feature].name.as_str());
        if !features.is_empty() && schedule.task == Task::Train {
            let names = names.collect::<Vec<_>>().join(", ");
            let _ =
                writeln!(text, "gradients of data-parallel tables, reduced {}: {names}", reduction.name());
        }
    }
    text
}

/// Bytes sent for a collective, bytes of memory touched (in brackets) for a computation.
fn bytes_of(
    phase: &Phase,
    most: impl Fn(&dyn Fn(usize) -> u64) -> u64,
    schedule: &Schedule,
    id: PhaseId,
    sizes: &BatchSizes,
) -> String {
    match phase.work {
        Work::Compute(_) => match most(&|rank| schedule.memory(id, sizes, rank)) {
            0 => String::new(),
            bytes => format!("({})", count(bytes, "B")),
        },
        Work::Collective(_) => {
            let ranks = 0..schedule.placement().topology().ranks();
            let (host, network) = ranks
                .map(|rank| schedule.sent(id, sizes, rank))
                .fold((0, 0), |most, sent| (sent.host.max(most.0), sent.network.max(most.1)));
            format!("{} / {}", nonzero(host), nonzero(network))
        }
    }
}

fn nonzero(bytes: u64) -> String {
    if bytes == 0 { "0".into() } else { count(bytes, "B") }
}

/// `12.3 kB`, and nothing for nothing.
fn count(value: u64, unit: &str) -> String {
    const PREFIXES: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    if value == 0 {
        return String::new();
    }
    let mut scaled = value as f64;
    let mut prefix = 0;
    while scaled >= 999.95 && prefix + 1 < PREFIXES.len() {
        scaled /= 1000.0;
        prefix += 1;
    }
    if prefix == 0 { format!("{value} {unit}") } else { format!("{scaled:.1} {}{unit}", PREFIXES[prefix]) }
}
