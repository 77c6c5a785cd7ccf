//! Run folders as `campanile train --out` leaves them, with numbers like those of a real run.

use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// A run to make up.
pub struct Fixture {
    /// Shifts the curves: another seed is another run.
    pub seed: u64,
    /// Samples a step.
    pub batch: u64,
    /// How much better than usual it learns.
    pub skill: f64,
    /// Whether it comes to its end.
    pub finished: bool,
    /// What the data is called.
    pub data: &'static str,
}

impl Default for Fixture {
    fn default() -> Self {
        let data = "synthetic log, 26 features with Zipf ids, 13 dense features";
        Self { seed: 0, batch: 2048, skill: 0.0, finished: true, data }
    }
}

/// Train records of a whole run.
pub const RECORDS: u64 = 200;
const STEPS_APART: u64 = 10;

impl Fixture {
    /// Writes the folder.
    pub fn write(&self, dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        let mut text = String::new();
        for record in self.records() {
            writeln!(text, "{record}").unwrap();
        }
        fs::write(dir.join("metrics.jsonl"), text).unwrap();
        fs::write(dir.join("config.toml"), self.config()).unwrap();
        let schedule = include_str!("../../golden/schedule-mlperf-2x2.txt");
        fs::write(dir.join("schedule.txt"), schedule).unwrap();
    }

    fn config(&self) -> String {
        format!(
            "[model]\nkind = \"dlrm\"\npreset = \"kaggle\"\n\n[topology]\nhosts = 2\nranks_per_host = 2\n\n\
             [train]\nbatch = {}\nseed = {}\n\n[optimizer.tables]\nrule = \"row_wise_adagrad\"\n",
            self.batch, self.seed
        )
    }

    fn records(&self) -> Vec<Value> {
        let steps = RECORDS * STEPS_APART;
        let mut records = vec![json!({
            "event": "start", "time": "2026-11-15T07:12:16Z", "version": "0.1.0", "model": "dlrm",
            "parameters": 540_201_217u64, "hosts": 2, "ranks_per_host": 2, "threads_per_rank": 4,
            "batch": self.batch, "steps": steps, "samples": steps * self.batch, "eval_samples": 200_000,
            "seed": self.seed, "data": self.data,
            "command": ["campanile", "train", "--preset", "kaggle", "--out", "runs/one"],
        })];
        let until = if self.finished { RECORDS } else { RECORDS * 6 / 10 };
        for i in 1..=until {
            records.push(self.train(i));
            if i % 50 == 0 {
                records.push(self.eval(i));
                let path = format!("checkpoints/step-{}", i * STEPS_APART);
                records.push(json!({
                    "event": "checkpoint", "step": i * STEPS_APART, "path": path, "bytes": 2_170_000_000u64,
                    "copy_s": 0.41, "write_s": 3.2 + 0.1 * self.noise(i),
                }));
            }
        }
        if self.finished {
            records.push(self.end(steps));
        }
        records
    }

    fn train(&self, i: u64) -> Value {
        let share = i as f64 / RECORDS as f64;
        let step = i * STEPS_APART;
        let learnt = 1.0 - (-6.0 * share).exp();
        let rate = 0.02 * (share / 0.1).min(1.0) * (1.0 - 0.9 * ((share - 0.5) / 0.5).max(0.0));
        json!({
            "event": "train", "step": step, "epoch": share, "samples": step * self.batch,
            "loss": 0.56 - (0.1 + self.skill) * learnt + 0.012 * self.noise(i) * (1.3 - learnt),
            "auc": if i < 2 { None } else { Some(0.60 + (0.165 + self.skill) * learnt.powf(0.6) + 0.001 * self.noise(i)) },
            "samples_per_s": self.speed() * (1.0 + 0.03 * self.noise(i + 1000) - if i % 50 == 1 { 0.25 } else { 0.0 }),
            "seconds": (step * self.batch) as f64 / self.speed(),
            "rate_dense": rate, "rate_tables": rate * 2.0,
        })
    }

    fn eval(&self, i: u64) -> Value {
        let learnt = 1.0 - (-6.0 * i as f64 / RECORDS as f64).exp();
        let auc = 0.62 + (0.158 + self.skill) * learnt;
        let logloss = 0.555 - (0.1 + self.skill) * learnt;
        let bins: Vec<Value> = (0..20)
            .map(|bin| {
                let predicted = (f64::from(bin) + 0.5) / 20.0;
                let samples = (60_000.0 * (-3.2 * predicted).exp()) as u64;
                let actual = predicted + 0.02 * self.noise(bin as u64 + 50) - 0.05 * predicted * predicted;
                json!({ "samples": samples, "mean_prediction": predicted, "click_rate": actual.clamp(0.0, 1.0) })
            })
            .collect();
        json!({
            "event": "eval", "step": i * STEPS_APART, "samples": 200_000, "auc": auc, "best_auc": 0.8012,
            "logloss": logloss, "ne": logloss / 0.5623, "accuracy": 0.781, "calibration": 1.012 + 0.2 * self.skill,
            "mean_prediction": 0.253, "click_rate": 0.25, "bins": bins,
        })
    }

    fn end(&self, steps: u64) -> Value {
        let ms = |ms: f64| ms * steps as f64 / 1e3 * self.batch as f64 / 2048.0;
        let phase = |(name, lane, busy, waited, host, network): (&str, &str, f64, f64, u64, u64)| {
            let sent = json!({ "host": host * steps, "network": network * steps });
            json!({ "name": name, "lane": lane, "busy_s": ms(busy), "exposed_s": ms(waited), "sent": sent })
        };
        let phases = [
            ("lookup", "compute", 1.31, 0.0, 0, 0),
            ("pooled exchange", "exchange", 0.35, 0.82, 1_703_936, 3_407_872),
            ("bottom forward", "compute", 0.92, 0.0, 0, 0),
            ("read batch", "compute", 0.61, 0.04, 0, 0),
            ("restore order", "compute", 0.44, 0.0, 0, 0),
            ("interaction forward", "compute", 0.71, 0.0, 0, 0),
            ("ids exchange", "exchange", 0.05, 0.09, 106_496, 212_992),
            ("top forward", "compute", 1.52, 0.0, 0, 0),
            ("loss", "compute", 0.03, 0.0, 0, 0),
            ("top backward 1-4", "compute", 2.21, 0.0, 0, 0),
            ("reduce bucket 0", "gradients", 0.22, 0.14, 1_364_800, 2_729_600),
            ("top backward 0", "compute", 0.98, 0.0, 0, 0),
            ("reduce bucket 1", "gradients", 0.11, 0.05, 393_216, 786_432),
            ("interaction backward", "compute", 1.12, 0.0, 0, 0),
            ("gradient exchange", "exchange", 0.36, 0.95, 1_703_936, 3_407_872),
            ("bottom backward", "compute", 1.41, 0.0, 0, 0),
            ("index ids", "compute", 0.04, 0.0, 0, 0),
            ("sort ids", "compute", 0.55, 0.0, 0, 0),
            ("update tables", "compute", 2.35, 0.0, 0, 0),
            ("update bucket 0", "compute", 0.31, 0.0, 0, 0),
        ]
        .map(phase);
        let rows = [10_131_227u64, 8_351_593, 7_046_547, 8_223_211];
        let place =
            |(rank, rows)| json!({ "rank": rank, "host": rank / 2, "tables": 6 + rank % 2, "rows": rows });
        let placement: Vec<Value> = rows.into_iter().enumerate().map(place).collect();
        json!({
            "event": "end", "step": steps, "seconds": (steps * self.batch) as f64 / self.speed(),
            "samples_per_s": self.speed(), "interrupted": false, "parameters_sha256": "5b1d".repeat(16),
            "phases": phases, "placement": placement, "threads_per_rank": 4,
        })
    }

    fn speed(&self) -> f64 {
        118_000.0 * (self.batch as f64 / 2048.0).powf(0.2)
    }

    /// Something between −1 and 1 that looks like chance.
    fn noise(&self, i: u64) -> f64 {
        let mixed = (i + 977 * self.seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    }
}
