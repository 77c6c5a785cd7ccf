//! Other wires and other all-reduces: what DMT's §6 asks of FP8, and what its text leaves to NCCL.

use super::{Figure, Row};
use crate::error::{During, Result};
use pages::picture::{Bars, Picture, Series};
use planning::cost::Hierarchical;
use planning::simulator::Simulation;
use planning::step::StepGraph;
use planning::system::System;
use planning::trained::Trained;
use spec::program::Algorithm;
use spec::run::AllReduce;
use spec::schedule::Task;
use spec::wire::{Format, WireConfig};

/// Samples a device, in all of the paper's measurements of speed.
const BATCH: usize = 16_384;
/// A flat model and one with towers, of both kinds.
const MODELS: [&str; 4] = ["dlrm", "8t-dlrm", "dcn", "8t-dcn"];
const SCALES: [usize; 2] = [64, 512];
const WIRES: [Format; 5] = [Format::F32, Format::Bf16, Format::Fp8, Format::U8, Format::U4];

/// Milliseconds of a step of a model on H100.
fn step_ms(name: &str, devices: usize, wire: Format, all_reduce: AllReduce) -> Result<f64> {
    let system = System::named(&format!("h100:{devices}"))?;
    let model = Trained::named(name)?.with_all_reduce(all_reduce);
    let run = model.run(&system, BATCH, &WireConfig::all(wire.into()));
    let run = run.during(|| format!("{name} on {devices} GPUs"))?;
    let step = StepGraph::of_schedule(&run.schedule(Task::Train), run.batch);
    Ok(1e3 * Simulation::new(&Hierarchical::default(), &step, &system).iteration_s())
}

/// Step times of all models and scales, one for each of `settings`.
fn steps(
    title: &'static str,
    caption: &str,
    settings: &[(String, Format, AllReduce)],
    notes: Vec<String>,
) -> Result<Figure> {
    let (mut rows, mut series) = (Vec::new(), Vec::new());
    let cases = || MODELS.iter().flat_map(|model| SCALES.map(|devices| (*model, devices)));
    let name = |(model, devices): (&str, usize)| format!("{} on {devices} H100", model.to_uppercase());
    for case in cases() {
        for (setting, wire, all_reduce) in settings {
            let ms = step_ms(case.0, case.1, *wire, *all_reduce)?;
            rows.push(Row::new(name(case), setting, ms));
        }
    }
    for (setting, ..) in settings {
        let of_setting = rows.iter().filter(|row| row.quantity == *setting);
        let values = of_setting.map(|row| Some(row.ours)).collect();
        series.push(Series { name: setting.clone(), values, reference: Vec::new() });
    }
    let picture = Picture::Bars(Bars {
        caption: caption.into(),
        unit: "ms".into(),
        groups: cases().map(name).collect(),
        series,
    });
    Ok(Figure { title, rows, notes, pictures: vec![picture] })
}

/// Step times by the format of all that travels, vectors and gradients alike.
pub fn wires() -> Result<Figure> {
    let settings = WIRES.map(|wire| (format!("{wire}, ms"), wire, AllReduce::Auto));
    let notes = vec![
        "Local batch 16 K; one format for vectors, their gradients and dense gradients, with the all-reduce that `auto` chooses. \
         Encodes and decodes are computations of the step, those of reductions included; fp8 is e4m3 forward and e5m2 backward, with \
         a scale for each row."
            .into(),
    ];
    steps("DMT, §6: step times by wire format", "Step time by wire format", &settings, notes)
}

/// Step times by the algorithm that sums dense gradients.
pub fn all_reduces() -> Result<Figure> {
    let settings = Algorithm::ORDERED
        .map(|algorithm| (format!("{algorithm}, ms"), Format::Bf16, AllReduce::By(algorithm)));
    let notes = vec![
        "Local batch 16 K, bf16 on the wire, buckets of 4 MiB. Every algorithm is priced by the program that the trainer executes. \
         `ring` is one ring through all GPUs, not NCCL's several rings, one for each network card."
            .into(),
    ];
    steps("Step times by all-reduce algorithm", "Step time by all-reduce", &settings, notes)
}
