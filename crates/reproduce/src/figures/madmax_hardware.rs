//! MAD-Max's study of hardware: the next generation, and ten times of everything.

use super::layered::{Setting, best, kinds};
use super::madmax::breakdown;
use super::{Figure, Row};
use crate::error::Result;
use pages::picture::{Bars, Picture, Series};
use planning::system::System;
use planning::workload::{Parallel, Strategy};

/// Scales A100 to A100+: compute, memory, memory bandwidth and links inside a node (insight 7); `inter` scales links between nodes.
fn next_generation(mut system: System, inter: f64) -> System {
    system.device.f32_flops *= 2.42;
    system.device.f16_flops *= 2.42;
    system.device.memory_bytes *= 2.0;
    system.device.memory_bytes_per_s *= 1.29;
    system.intra.bytes_per_s *= 1.5;
    system.inter.bytes_per_s *= inter;
    system
}

/// Figure 13: DLRM-A on A100, A100+ and A100+ with NVLink between nodes.
pub fn fig13() -> Result<Figure> {
    let mut rows = Vec::new();
    let old = Setting::new("dlrm-a", "zionex:128", 512.0)?;
    let with_inter = |inter| Setting { system: next_generation(old.system.clone(), inter), ..old.clone() };
    let (plus, wide) = (with_inter(2.0), with_inter(9.0));
    let strategies = [
        Strategy::flat(Parallel::Fsdp, &old.system),
        Strategy::nested(Parallel::Tp, Parallel::Ddp, &old.system),
        Strategy::nested(Parallel::Fsdp, Parallel::Ddp, &old.system),
        Strategy::flat(Parallel::Ddp, &old.system),
    ];
    let mut bars: [Vec<Option<f64>>; 2] = [Vec::new(), Vec::new()];
    for strategy in &strategies {
        let (base, next, inter) = (old.with(strategy)?, plus.with(strategy)?, wide.with(strategy)?);
        let case = kinds(strategy);
        let of = |quantity: &str, a: f64, b: f64| Row::new(&case, quantity, a / b);
        rows.push(of("A100+ over A100", next.throughput(), base.throughput()));
        rows.push(of("A100+ (Inter+) over A100", inter.throughput(), base.throughput()));
        rows.push(of("A100+ (Inter+) over A100+", inter.throughput(), next.throughput()));
        bars[0].push(Some(next.throughput() / base.throughput()));
        bars[1].push(Some(inter.throughput() / base.throughput()));
    }
    let (next, inter) = (plus.all()?, wide.all()?);
    if let (Some(next), Some(inter)) = (best(&next, true), best(&inter, true)) {
        let row = Row::new(
            "best within memory",
            "A100+ (Inter+) over A100+",
            inter.throughput() / next.throughput(),
        );
        rows.push(row.beside(1.82));
    }
    let [next, inter] = bars;
    let series = |name: &str, values| Series { name: name.into(), values, reference: Vec::new() };
    let picture = Picture::Bars(Bars {
        caption: "DLRM-A over A100".into(),
        unit: "speedup".into(),
        groups: strategies.iter().map(kinds).collect(),
        series: vec![series("A100+", next), series("A100+ (Inter+)", inter)],
    });
    Ok(Figure {
        title: "MAD-Max, Figure 13: generations of devices",
        rows,
        notes: Vec::new(),
        pictures: vec![picture],
    })
}

/// Ten times of one capability, or of all.
const CAPABILITIES: [&str; 6] =
    ["compute", "memory size", "memory bandwidth", "links inside", "links between", "all"];

fn ten_times(mut system: System, capability: &str) -> System {
    let all = capability == "all";
    let factor = |name: &str| if all || capability == name { 10.0 } else { 1.0 };
    let (compute, memory) = (factor("compute"), factor("memory bandwidth"));
    system.device.f32_flops *= compute;
    system.device.f16_flops *= compute;
    system.device.memory_bytes *= factor("memory size");
    system.device.memory_bytes_per_s *= memory;
    system.intra.bytes_per_s *= factor("links inside");
    system.inter.bytes_per_s *= factor("links between");
    system
}

fn cases() -> Result<Vec<(&'static str, Setting)>> {
    let (recommender, language) =
        (Setting::new("dlrm-a", "zionex:128", 512.0)?, Setting::new("gpt-3", "llm-a100:2048", 1.0)?);
    Ok(vec![
        ("DLRM-A, pre-training", recommender.clone()),
        ("DLRM-A, inference", recommender.inference()),
        ("GPT-3, pre-training", language.clone()),
        ("GPT-3, inference", language.inference()),
    ])
}

/// Figure 14: the best strategy within memory, with ten times of a capability, over FSDP without.
pub fn fig14() -> Result<Figure> {
    let (mut rows, mut series) = (Vec::new(), Vec::new());
    for (case, setting) in cases()? {
        // As in all of the paper's figures. Over the best strategy, 1.43 and 1.43 would stand where its text has 1.64 and 2.12.
        let base = setting.baseline()?.throughput();
        let (mut values, mut but_between) = (Vec::new(), 0.0f64);
        for capability in CAPABILITIES {
            let better = Setting { system: ten_times(setting.system.clone(), capability), ..setting.clone() };
            let all = better.all()?;
            let Some(outcome) = best(&all, true) else {
                values.push(None);
                continue;
            };
            let speedup = outcome.throughput() / base;
            let name = outcome.name(&setting.model);
            rows.push(Row::new(case, format!("10 × {capability}, {name}"), speedup));
            values.push(Some(speedup));
            if !matches!(capability, "all" | "links between") {
                but_between = but_between.max(speedup);
            }
        }
        let printed = match case {
            "DLRM-A, pre-training" => Some(1.64),
            "DLRM-A, inference" => Some(2.12),
            _ => None,
        };
        let row = Row::new(case, "the most of any but links between nodes", but_between);
        rows.push(Row { paper: printed, ..row });
        series.push(Series { name: case.into(), values, reference: Vec::new() });
    }
    let picture = Picture::Bars(Bars {
        caption: "Ten times of a capability".into(),
        unit: "speedup".into(),
        groups: CAPABILITIES.iter().map(|name| name.to_string()).collect(),
        series,
    });
    let notes = vec![
        "By MAD-Max's rules, with the best strategy that fits, over FSDP on hardware as it is. In inference ten times the memory holds \
         tables that are sharded inside nodes and replicated between them."
            .into(),
    ];
    Ok(Figure { title: "MAD-Max, Figure 14: ten times the hardware", rows, notes, pictures: vec![picture] })
}

/// Figure 15: where the time of the cases of Figure 14 goes.
pub fn fig15() -> Result<Figure> {
    let mut rows = Vec::new();
    for (case, setting) in cases()?.into_iter().filter(|(case, _)| case.ends_with("pre-training")) {
        for capability in ["of nothing"].into_iter().chain(CAPABILITIES) {
            let better = Setting { system: ten_times(setting.system.clone(), capability), ..setting.clone() };
            let all = better.all()?;
            if let Some(outcome) = best(&all, true) {
                rows.extend(breakdown(&format!("{case}, 10 × {capability}"), outcome));
            }
        }
    }
    let notes = vec!["By MAD-Max's rules. The paper draws bars without numbers.".into()];
    Ok(Figure { title: "MAD-Max, Figure 15: where the time goes", rows, notes, pictures: Vec::new() })
}
