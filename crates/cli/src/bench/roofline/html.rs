//! A step against the limits of the machine, as a page.

use super::result::{Limit, PhaseShare, Roofline};
use super::table::{about, cells, head, percent, speed};
use pages::picture::{self, Bars, Page, Picture, RoofPoint, Series, Table};

/// A page with the roofline, shares of the limits, times, and all numbers.
pub fn page(of: &Roofline) -> Page {
    let pictures = vec![
        Picture::Roofline(roofline(of)),
        Picture::Bars(bars(of, "Share of the limit that binds each phase", "%", |phase| {
            phase.share.map(|share| 100.0 * share)
        })),
        Picture::Bars(bars(
            of,
            "Time of phases that take at least 0.1 % of the step, median over steps",
            "ms",
            |phase| (phase.share_of_step >= 0.001).then_some(phase.ms),
        )),
        Picture::Bars(groups(of)),
        Picture::Table(Table {
            caption: "Phases".into(),
            head: head(),
            rows: of.phases.iter().map(cells).collect(),
        }),
    ];
    let subtitle = format!("{}; {}", about(of), of.cpu.as_deref().unwrap_or("unknown processor"));
    Page { title: "A step against the limits of the machine".into(), subtitle, pictures }
}

fn roofline(of: &Roofline) -> picture::Roofline {
    let (compute, memory) =
        of.peaks.all().partition::<Vec<_>, _>(|peak| matches!(peak.limit, Limit::Products(_)));
    let named = |peaks: Vec<&super::result::Peak>| -> Vec<(String, f64)> {
        peaks.into_iter().map(|peak| (peak.limit.name(), peak.median)).collect()
    };
    picture::Roofline {
        caption: "Roofline: phases below the peaks that were measured in the same run".into(),
        compute: named(compute),
        memory: named(memory),
        points: of.phases.iter().map(point).collect(),
    }
}

fn point(phase: &PhaseShare) -> RoofPoint {
    let mut details = vec![
        ("time".into(), format!("{:.3} ms", phase.ms)),
        ("limit".into(), format!("{}, {}", phase.limit.name(), speed(phase.peak, phase.limit))),
    ];
    if let Some((reached, share)) = phase.reached.zip(phase.share) {
        details.push(("reached".into(), speed(reached, phase.limit)));
        details.push(("share".into(), percent(share)));
    }
    RoofPoint {
        name: phase.name.clone(),
        class: phase.group.name().into(),
        intensity: phase.flops / phase.bytes,
        speed: phase.flops / (phase.ms / 1e3),
        details,
    }
}

/// A bar for each phase that has a value.
fn bars(of: &Roofline, caption: &str, unit: &str, value: fn(&PhaseShare) -> Option<f64>) -> Bars {
    let with_value = of.phases.iter().filter_map(|phase| Some((phase.name.clone(), Some(value(phase)?))));
    let (groups, values) = with_value.unzip();
    let series = Series { name: unit.into(), values, reference: Vec::new() };
    Bars { caption: caption.into(), unit: unit.into(), groups, series: vec![series] }
}

fn groups(of: &Roofline) -> Bars {
    let (groups, values) =
        of.groups.iter().map(|group| (group.name.name().into(), Some(100.0 * group.share_of_step))).unzip();
    let series = Series { name: "% of the step".into(), values, reference: Vec::new() };
    Bars {
        caption: "Share of the step by group".into(),
        unit: "% of the step".into(),
        groups,
        series: vec![series],
    }
}
