//! Machine rates as text and as JSON.

use super::fitted::Compared;
use crate::bench::collectives::sweep_report::seconds;
use crate::system_file::SystemFile;
use crate::text::{columns, si};
use serde_json::{Value, json};
use spec::links::LinkModel;
use spec::machine_rates::{MachineRates, OperationModel};
use spec::precision::Precision;
use spec::transport::Transport;
use std::fmt::Write;

/// Name of a transport: `in process`, or `MPI`.
pub fn joined(joined: Transport) -> &'static str {
    match joined {
        Transport::InProcess => "in process",
        Transport::Mpi => "MPI",
        Transport::Nccl => "NCCL",
    }
}

/// Machine rates and compared steps as one JSON object.
pub fn to_json(file: &SystemFile, compared: &[Compared]) -> Value {
    let steps = compared.iter().map(|Compared { name, measured_s, priced_s }| {
        json!({ "run": name, "measured_s": measured_s, "priced_s": priced_s })
    });
    json!({ "name": file.name, "measured": file.measured, "steps": steps.collect::<Vec<_>>() })
}

/// Machine rates and compared steps as text.
pub fn to_text(file: &SystemFile, compared: &[Compared]) -> String {
    let MachineRates { ranks_per_machine, cores, threads, precision, overlap, stretch, about, .. } =
        &file.measured;
    let in_precision = match precision {
        Precision::F32 => String::new(),
        other => format!(", products in {other}"),
    };
    let mut text = format!(
        "{}: {ranks_per_machine} ranks × {threads} threads share {cores} cores{in_precision}\n",
        file.name
    );
    let _ = writeln!(text, "{about}\n\nComputations: time = overhead + amounts / rates, of a core at work");
    let head = ["class", "overhead", "FLOP/s", "B/s", "items/s", "worst error"];
    let mut rows = vec![head.map(String::from).to_vec()];
    rows.extend(file.measured.operations.iter().map(operation));
    text += &columns(&rows);
    text += "\nCollectives: time = latency + size / bandwidth\n";
    let mut rows = vec![["collective", "group", "latency", "B/s"].map(String::from).to_vec()];
    rows.extend(file.measured.links.iter().map(link));
    text += &columns(&rows);
    let _ = writeln!(
        text,
        "\nWhole steps: {:.0} % of what computation could hide is hidden, and a step takes {stretch:.3} times its phases",
        100.0 * overlap
    );
    let mut rows = vec![["run, samples a step", "measured", "priced", "ratio"].map(String::from).to_vec()];
    rows.extend(compared.iter().map(|Compared { name, measured_s, priced_s }| {
        vec![name.clone(), seconds(*measured_s), seconds(*priced_s), format!("{:.2}", priced_s / measured_s)]
    }));
    text + &columns(&rows)
}

fn operation(operation: &OperationModel) -> Vec<String> {
    let OperationModel { class, overhead_s, flops_per_s, bytes_per_s, items_per_s, worst_error } = operation;
    let rate = |rate: &Option<f64>| rate.map_or("–".into(), si);
    vec![
        class.to_string(),
        seconds(*overhead_s),
        rate(flops_per_s),
        rate(bytes_per_s),
        rate(items_per_s),
        format!("{:.0} %", 100.0 * worst_error),
    ]
}

fn link(link: &LinkModel) -> Vec<String> {
    let LinkModel { group, ranks, latency_s, bytes_per_s, .. } = link;
    vec![link.described(), format!("{group} of {ranks}"), seconds(*latency_s), si(*bytes_per_s)]
}
