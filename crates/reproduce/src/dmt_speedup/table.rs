//! The results, as a table beside the paper's figures.

use super::cases::{Case, Way};
use super::limit::{Messages, StepLimit};
use super::{Measured, Setting, SpeedupResult, run_of};
use crate::error::{Error, Result};
use campanile::file::read_json;
use pages::text::{columns, median};
use serde_json::{Value, json};
use spec::links::LinkModel;
use spec::pace::Pace;
use spec::presets::ModelKind;

/// Medians of the jobs of a case.
pub struct Row {
    case: Case,
    jobs: usize,
    step_s: f64,
    compute_s: f64,
    exposed_s: f64,
    network_bytes: u64,
    messages: Messages,
    /// Metered bytes between hosts over those that the interfaces counted.
    metered_share: Option<f64>,
    over_flat: Option<f64>,
    over_sptt: Option<f64>,
    /// Lower bound of the step time: the schedule's critical path.
    limit_s: Option<f64>,
    /// Share of the hideable communication that overlap hides.
    hidden: Option<f64>,
    paper: &'static str,
}

/// Rows of all cases with results, in the order of their first result.
pub fn rows(records: &[SpeedupResult], measured: &Measured) -> Result<Vec<Row>> {
    let mut cases: Vec<Case> = Vec::new();
    for record in records {
        if !cases.contains(&record.case) {
            cases.push(record.case);
        }
    }
    cases.iter().map(|case| row(case, records, measured)).collect()
}

fn row(case: &Case, records: &[SpeedupResult], measured: &Measured) -> Result<Row> {
    let of = |case: Case| records.iter().filter(move |record| record.case == case);
    let middle = |case: Case, value: fn(&SpeedupResult) -> f64| {
        let mut values: Vec<f64> = of(case).map(value).collect();
        (!values.is_empty()).then(|| median(&mut values))
    };
    let step = |way: Way| middle(Case { way, ..*case }, |record| record.step_s);
    let (step_s, flat, sptt) = (step(case.way).unwrap_or(f64::NAN), step(Way::Flat), step(Way::Sptt));
    let ready = StepLimit::new(&run_of(case, &measured.setting.common, measured.program)?);
    let folder = measured.folder;
    let pace = folder.join("pace").join(format!("{}.json", case.name()));
    let links = folder.join(format!("links-{}.json", case.hosts));
    let limit_s = match pace.exists() && links.exists() {
        false => None,
        true => {
            let swept: Value = read_json(&links)?;
            let links: Vec<LinkModel> = serde_json::from_value(swept["links"].clone())
                .map_err(Error::json(format!("links of {} hosts", case.hosts)))?;
            // Without a line through the sizes of some collective there is no limit.
            ready.priced(&read_json::<Pace>(&pace)?, &links).ok().map(|priced| priced.step_s)
        }
    };
    let serial = match case.way {
        Way::Flat => Some(Way::FlatSerial),
        Way::Cr2 => Some(Way::Cr2Serial),
        _ => None,
    };
    let hidden = serial.and_then(|way| {
        let serial = Case { way, ..*case };
        let alone = middle(serial, |record| record.step_s)?;
        // What each phase takes when nothing else goes on.
        let seconds = |name: &str| {
            let times = of(serial).map(|r| r.phases.iter().find(|p| p.0 == name).map_or(0.0, |p| p.1 + p.2));
            median(&mut times.collect::<Vec<f64>>())
        };
        let hideable = ready.hideable_s(&seconds);
        (hideable > 0.0).then(|| (alone - step_s) / hideable)
    });
    let mut shares: Vec<f64> = of(*case)
        .filter_map(|record| Some(record.job_network_bytes as f64 / record.counted_bytes? as f64))
        .collect();
    Ok(Row {
        case: *case,
        jobs: of(*case).count(),
        step_s,
        compute_s: middle(*case, |record| record.compute_s).unwrap_or(f64::NAN),
        exposed_s: middle(*case, |record| record.exposed_s).unwrap_or(f64::NAN),
        network_bytes: of(*case).next().map_or(0, |record| record.network_bytes),
        messages: ready.messages(),
        metered_share: (!shares.is_empty()).then(|| median(&mut shares)),
        over_flat: flat.map(|flat| flat / step_s),
        over_sptt: sptt.filter(|_| case.way.has_modules()).map(|sptt| sptt / step_s),
        limit_s,
        hidden,
        paper: paper(case),
    })
}

/// The paper's statement on such a model on its largest clusters.
fn paper(case: &Case) -> &'static str {
    match (case.way, case.model) {
        (Way::Flat, ModelKind::Dcn) => "30 % exposed on 64 GPUs",
        (Way::Cr2, ModelKind::Dlrm) => "up to 1.9 × flat, 1.4 × SPTT",
        (Way::Paper, ModelKind::Dcn) => "up to 1.8 × flat, 1.4 × SPTT",
        (Way::Cr16, _) => "up to 2 × SPTT",
        _ => "",
    }
}

/// Note on the part of a DLRM's speedup that does not come from towers.
const SHORTER_TOP: &str = "\
Part of the speedup of a DLRM's tower modules is their shorter top MLP: one layer of 1024 less than that of flat and SPTT. It is
inferred from the FLOPs of the paper's Table 4 and not printed in it, as is that a DCN tower gives one vector.";

/// Property of a case's model that is inferred from the paper's FLOPs.
fn inferred(case: &Case) -> Option<&'static str> {
    match (case.way.has_modules(), case.model) {
        (false, _) | (_, ModelKind::DeepFm) => None,
        (true, ModelKind::Dlrm) => {
            Some("a top MLP of one 1024 layer less than flat and SPTT, which is part of the speedup")
        }
        (true, ModelKind::Dcn) => Some("towers that give one vector each"),
    }
}

pub fn to_text(rows: &[Row], setting: &Setting) -> String {
    let head = [
        "model",
        "hosts",
        "wire",
        "way",
        "step ms",
        "compute",
        "exposed",
        "share",
        "× flat",
        "× SPTT",
        "limit",
        "step/limit",
        "hidden",
        "MB/host",
        "messages",
        "KB each",
        "metered",
        "paper",
    ];
    let mut lines = vec![head.map(String::from).to_vec()];
    let ms = |seconds: f64| format!("{:.0}", 1e3 * seconds);
    let maybe = |value: Option<f64>, text: &dyn Fn(f64) -> String| value.map_or("–".into(), text);
    let times = |value: f64| format!("{value:.2}");
    let percent = |value: f64| format!("{:.0} %", 100.0 * value);
    for row in rows {
        let (case, messages) = (&row.case, row.messages);
        lines.push(vec![
            case.model.name().into(),
            case.hosts.to_string(),
            case.wire.to_string(),
            case.way.to_string(),
            ms(row.step_s),
            ms(row.compute_s),
            ms(row.exposed_s),
            percent(row.exposed_s / row.step_s),
            maybe(row.over_flat, &times),
            maybe(row.over_sptt, &times),
            maybe(row.limit_s, &ms),
            maybe(row.limit_s.map(|limit| row.step_s / limit), &times),
            maybe(row.hidden, &percent),
            format!("{:.1}", row.network_bytes as f64 / 1e6 / case.hosts as f64),
            messages.count.to_string(),
            format!("{:.0}", messages.bytes as f64 / 1e3 / messages.count.max(1) as f64),
            maybe(row.metered_share, &percent),
            row.paper.into(),
        ]);
    }
    format!(
        "{setting}\n{}\nA step in ms by the clock of rank 0, compute and exposed communication as means of ranks, medians of jobs. \
         limit: the\nschedule's critical path at the speed of the links. hidden: of the communication that\ncomputation can hide. MB/host \
         and messages between\nhosts in a step. metered: of the bytes that the interfaces counted.\n{SHORTER_TOP}\n",
        columns(&lines)
    )
}

impl Row {
    pub fn to_json(&self, setting: &Setting) -> Value {
        json!({
            "setting": setting,
            "model": self.case.model,
            "hosts": self.case.hosts,
            "wire": self.case.wire,
            "way": self.case.way,
            "jobs": self.jobs,
            "step_s": self.step_s,
            "compute_s": self.compute_s,
            "exposed_s": self.exposed_s,
            "over_flat": self.over_flat,
            "over_sptt": self.over_sptt,
            "limit_s": self.limit_s,
            "hidden": self.hidden,
            "network_bytes": self.network_bytes,
            "messages": self.messages.count,
            "message_bytes": self.messages.bytes,
            "metered_share": self.metered_share,
            "paper": self.paper,
            "inferred": inferred(&self.case),
        })
    }
}
