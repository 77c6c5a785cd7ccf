//! Costs of a run's steps: time and bytes of every phase, and what each rank holds.

use super::bars::{Bar, bars};
use crate::folder::metrics::{End, RankTables};
use crate::text::{bytes, si};
use pages::chart::{figure, key};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Milliseconds a step, of phases that take at least a hundredth of it; the others in one bar.
pub fn times(end: &End, steps: u64) -> String {
    let ms = |seconds: f64| 1e3 * seconds / steps.max(1) as f64;
    let step_ms = ms(end.seconds);
    let bar = |name: &str, busy: f64, waited: f64| {
        let share = 100.0 * (busy + waited) / step_ms;
        let text = format!("{:.2} ms · {share:.0} %", busy + waited);
        Bar { name: name.into(), parts: [busy, waited], text }
    };
    let mut rows = Vec::new();
    let (mut small, mut small_busy, mut small_waited, mut rest) = (0, 0.0, 0.0, step_ms);
    for phase in &end.phases {
        let (busy, waited) = (ms(phase.busy_s), ms(phase.exposed_s));
        rest -= busy + waited;
        if busy + waited >= 0.01 * step_ms {
            rows.push(bar(&phase.name, busy, waited));
        } else {
            (small, small_busy, small_waited) = (small + 1, small_busy + busy, small_waited + waited);
        }
    }
    if small > 0 {
        rows.push(bar(&format!("{small} small phases"), small_busy, small_waited));
    }
    if rest >= 0.01 * step_ms {
        rows.push(bar("between phases", rest, 0.0));
    }
    let legend = key("first", "at work") + &key("second", "waited, with nothing else to do");
    let note = format!("Milliseconds a step, mean over ranks. A step takes {step_ms:.2} ms.");
    figure("times", "Time per phase", &note, &legend, &bars("Time per phase", ["at work", "waited"], &rows))
}

/// The most ranks that the chart of ranks shows.
const MOST_RANKS: usize = 64;

/// Milliseconds a step of every rank, over all phases: at work, and waiting for communication.
pub fn ranks(end: &End, steps: u64) -> String {
    let ranks = end.phases.iter().map(|phase| phase.ranks.len()).max().unwrap_or(0);
    if ranks == 0 {
        // A run of an older version.
        return String::new();
    }
    let ms = |seconds: f64| 1e3 * seconds / steps.max(1) as f64;
    let bar = |rank: usize| {
        let times = end.phases.iter().filter_map(|phase| phase.ranks.get(rank));
        let (busy, waited) = times.fold((0.0, 0.0), |sum, t| (sum.0 + t.busy_s, sum.1 + t.exposed_s));
        let (busy, waited) = (ms(busy), ms(waited));
        let share = 100.0 * waited / ms(end.seconds);
        Bar {
            name: format!("rank {rank}"),
            parts: [busy, waited],
            text: format!("{waited:.2} ms exposed · {share:.0} %"),
        }
    };
    let rows: Vec<Bar> = (0..ranks.min(MOST_RANKS)).map(bar).collect();
    let legend = key("first", "at work") + &key("second", "exposed communication");
    let total = end.step_time.map_or(String::new(), |time| {
        format!(
            " Of a step of {:.2} ms, communication was under way for {:.2} ms and exposed for {:.2} ms ({:.1} %).",
            1e3 * time.step_s,
            1e3 * time.communication_s,
            1e3 * time.exposed_s,
            100.0 * time.exposed_share
        )
    });
    let shown =
        if ranks > MOST_RANKS { format!(" The first {MOST_RANKS} of {ranks} ranks.") } else { String::new() };
    let note = format!("Milliseconds a step.{total}{shown}");
    let svg = bars("Time per rank", ["at work", "exposed"], &rows);
    figure("ranks", "Compute and exposed communication", &note, &legend, &svg)
}

/// Bytes a step, of phases that send any.
pub fn traffic(end: &End, steps: u64) -> String {
    let per_step = |sent: u64| sent / steps.max(1);
    let rows: Vec<Bar> = end
        .phases
        .iter()
        .filter(|phase| phase.sent.host > 0 || phase.sent.network > 0)
        .map(|phase| {
            let (host, network) = (per_step(phase.sent.host), per_step(phase.sent.network));
            let text = format!("{} + {}", bytes(host), bytes(network));
            Bar { name: phase.name.clone(), parts: [host as f64, network as f64], text }
        })
        .collect();
    let legend = key("first", "inside hosts") + &key("second", "between hosts");
    let note = "Bytes a step, sent by all ranks, as the transport counted them.";
    let svg = bars("Bytes per phase", ["inside hosts", "between hosts"], &rows);
    figure("traffic", "Bytes per phase", note, &legend, &svg)
}

/// A row for each host, a cell for each of its ranks, shaded by the rows it holds.
pub fn places(placement: &[RankTables]) -> String {
    let mut hosts: BTreeMap<u64, Vec<&RankTables>> = BTreeMap::new();
    for place in placement {
        hosts.entry(place.host).or_default().push(place);
    }
    let most = placement.iter().map(|place| place.rows).max().unwrap_or(0).max(1);
    let mut html = String::from(
        "<figure class=\"card\" id=\"places\"><figcaption>What ran where</figcaption><p class=\"note\">Tables of each \
         rank and their rows. Towers are on all ranks of their group; other dense layers and replicated tables are \
         everywhere.</p><div class=\"scroll\"><table>",
    );
    for (host, ranks) in hosts {
        let _ = write!(html, "<tr><th scope=\"row\">host {host}</th>");
        for place in ranks {
            let towers =
                if place.towers > 0 { format!("<br>{} towers", place.towers) } else { String::new() };
            let _ = write!(
                html,
                "<td class=\"place share\" style=\"--share:{:.0}%\"><b>rank {}</b><br>{} tables<br>{} rows{towers}</td>",
                100.0 * place.rows as f64 / most as f64,
                place.rank,
                place.tables,
                si(place.rows as f64)
            );
        }
        html.push_str("</tr>");
    }
    html.push_str("</table></div></figure>\n");
    html
}
