//! Whole training steps beside PyTorch's, as `scripts/compare-torch` measures them.

use super::{Sources, days, distinct, lines};
use crate::error::Result;
use pages::markdown::table;
use pages::text::{grouped, median};
use serde::Deserialize;
use std::collections::BTreeMap;

const FILE: &str = "compare-torch.jsonl";

/// One timed program in a round of `scripts/compare-torch`.
#[derive(Deserialize)]
struct Timed {
    date: String,
    commit: String,
    cpu: String,
    threads: usize,
    versions: BTreeMap<String, String>,
    round: u64,
    program: String,
    /// Precision of products: records of f32 alone do not name it.
    #[serde(default = "f32_alone")]
    precision: String,
    /// How PyTorch computes in the precision: by autocast, compiled, or by the precision of f32 products.
    #[serde(default)]
    variant: String,
    preset: String,
    model: String,
    batch: u64,
    samples_per_s: f64,
}

fn f32_alone() -> String {
    "f32".into()
}

/// A row of the table: what is trained, and how much faster than PyTorch it should be.
struct Case {
    preset: &'static str,
    model: &'static str,
    batch: u64,
    precision: &'static str,
    /// Aim of the ratio to the faster PyTorch in f32.
    plain: Option<f64>,
    /// Aim of the ratio to the fastest PyTorch in bf16.
    bf16: Option<f64>,
}

/// Rows of the table; `scripts/compare-torch` has the same targets.
#[rustfmt::skip]
const CASES: [Case; 12] = [
    Case { preset: "kaggle", model: "dlrm", batch: 2048, precision: "f32", plain: Some(1.6), bf16: None },
    Case { preset: "kaggle", model: "dlrm", batch: 2048, precision: "f32x3", plain: None, bf16: None },
    Case { preset: "kaggle", model: "dlrm", batch: 2048, precision: "bf16", plain: Some(2.5), bf16: None },
    Case { preset: "mlperf", model: "dlrm", batch: 2048, precision: "f32", plain: Some(1.3), bf16: None },
    Case { preset: "mlperf", model: "dlrm", batch: 2048, precision: "f32x3", plain: Some(2.0), bf16: None },
    Case { preset: "mlperf", model: "dlrm", batch: 2048, precision: "bf16", plain: Some(3.0), bf16: Some(1.2) },
    Case { preset: "mlperf", model: "dlrm", batch: 8192, precision: "f32", plain: None, bf16: None },
    Case { preset: "mlperf", model: "dlrm", batch: 8192, precision: "f32x3", plain: Some(2.0), bf16: None },
    Case { preset: "mlperf", model: "dlrm", batch: 8192, precision: "bf16", plain: Some(3.0), bf16: Some(1.2) },
    Case { preset: "mlperf", model: "dcn", batch: 2048, precision: "f32", plain: Some(1.05), bf16: None },
    Case { preset: "mlperf", model: "dcn", batch: 2048, precision: "f32x3", plain: Some(1.5), bf16: None },
    Case { preset: "mlperf", model: "dcn", batch: 2048, precision: "bf16", plain: Some(2.5), bf16: None },
];

/// Samples per second by round.
type Rounds = BTreeMap<u64, f64>;

/// The fastest of some peers, and how we compare with it.
struct Compared {
    peer: String,
    rate: f64,
    ratio: f64,
    /// Least and largest ratio of a round.
    range: Option<(f64, f64)>,
}

impl Case {
    /// Records of the case, of the last measurement that has our program in the precision.
    fn records<'a>(&self, records: &'a [Timed]) -> Vec<&'a Timed> {
        let of_case = |r: &&Timed| {
            (r.preset.as_str(), r.model.as_str(), r.batch) == (self.preset, self.model, self.batch)
        };
        let ours = |r: &&Timed| r.program == "campanile" && r.precision == self.precision;
        let last = records.iter().rev().filter(of_case).find(ours).map(|record| record.date.as_str());
        records.iter().filter(of_case).filter(|record| Some(record.date.as_str()) == last).collect()
    }

    fn cells(&self, records: &[&Timed]) -> Vec<String> {
        let ours: Rounds = records
            .iter()
            .filter(|r| r.program == "campanile" && r.precision == self.precision)
            .map(|r| (r.round, r.samples_per_s))
            .collect();
        let rate = |rate: f64| format!("{}/s", grouped(rate.round() as u64));
        let mut cells = vec![
            format!("{} {}, {}", self.preset, self.model, self.batch),
            self.precision.into(),
            rate(middle(&ours)),
        ];
        let compared = compare(&ours, records, "f32");
        let (peer, ratio, range) = match &compared {
            Some(Compared { peer, rate: of_peer, ratio, range }) => (
                format!("{} ({peer})", rate(*of_peer)),
                format!("{ratio:.2}"),
                range.map_or(String::new(), |(least, most)| format!("{least:.2} to {most:.2}")),
            ),
            None => Default::default(),
        };
        cells.extend([peer, ratio, range, verdict(compared.as_ref(), self.plain)]);
        let compared = match self.precision {
            "f32" => None,
            _ => compare(&ours, records, "bf16"),
        };
        let (peer, ratio) = match &compared {
            Some(Compared { peer, rate: of_peer, ratio, .. }) => {
                (format!("{} ({peer})", rate(*of_peer)), format!("{ratio:.2}"))
            }
            None => Default::default(),
        };
        cells.extend([peer, ratio, verdict(compared.as_ref(), self.bf16)]);
        cells
    }
}

fn middle(rates: &Rounds) -> f64 {
    median(&mut rates.values().copied().collect::<Vec<_>>())
}

fn verdict(compared: Option<&Compared>, target: Option<f64>) -> String {
    let Some((compared, target)) = compared.zip(target) else { return String::new() };
    format!("{target}: {}", if compared.ratio >= target { "met" } else { "missed" })
}

/// Ours beside the fastest PyTorch of a precision; nothing where none was measured.
fn compare(ours: &Rounds, records: &[&Timed], precision: &str) -> Option<Compared> {
    let mut peers: BTreeMap<String, Rounds> = BTreeMap::new();
    for record in records.iter().filter(|r| r.program != "campanile" && r.precision == precision) {
        let embeddings = record.program.strip_prefix("torch-").unwrap_or(&record.program);
        let name = match record.variant.as_str() {
            "" | "plain" => embeddings.to_owned(),
            variant => format!("{embeddings}, {variant}"),
        };
        peers.entry(name).or_default().insert(record.round, record.samples_per_s);
    }
    let (peer, rates) = peers.into_iter().max_by(|a, b| middle(&a.1).total_cmp(&middle(&b.1)))?;
    // A round that was interrupted lacks the programs that run last.
    let of_rounds = ours.iter().filter_map(|(round, rate)| Some(rate / rates.get(round)?));
    let range = of_rounds.fold(None, |range: Option<(f64, f64)>, ratio| {
        let (least, most) = range.unwrap_or((ratio, ratio));
        Some((least.min(ratio), most.max(ratio)))
    });
    let rate = middle(&rates);
    Some(Compared { peer, rate, ratio: middle(ours) / rate, range })
}

/// Whole training steps beside PyTorch's: the last measurement of each case and precision that is recorded.
pub fn steps(sources: &Sources) -> Result<String> {
    let records: Vec<Timed> = lines(&sources.reports.join(FILE))?;
    let (mut rows, mut used) = (Vec::new(), Vec::new());
    for case in CASES {
        let of_case = case.records(&records);
        if !of_case.is_empty() {
            rows.push(case.cells(&of_case));
            used.extend(of_case);
        }
    }
    let head = [
        "model, batch",
        "precision",
        "campanile",
        "PyTorch f32",
        "ratio",
        "min to max of rounds",
        "target",
        "PyTorch bf16",
        "ratio",
        "target",
    ];
    let of_used = |of: fn(&Timed) -> String| {
        let all: Vec<String> = used.iter().map(|record| of(record)).collect();
        distinct(all.iter().map(String::as_str))
    };
    let versions = |record: &Timed| {
        let all: Vec<String> =
            record.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        all.join(", ")
    };
    Ok(format!(
        "{}\nSamples per second; ratio: ours over the fastest PyTorch of f32 and of bf16, which is named with its embeddings (`bag`: \
         nn.EmbeddingBag, `fbgemm`: one fused operator) and how it computes in bf16; medians of rounds. Measured by \
         `scripts/compare-torch` on {}, commit {}, {}, {} threads, {}. Records: `reports/{FILE}`.\n",
        table(2, &head, &rows),
        days(used.iter().map(|record| record.date.as_str())),
        of_used(|record| record.commit.clone()),
        of_used(|record| record.cpu.clone()),
        of_used(|record| record.threads.to_string()),
        of_used(versions),
    ))
}

#[cfg(test)]
mod tests;
