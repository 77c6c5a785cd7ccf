//! `campanile train --dry-run`: what would be trained, in lines.

use crate::dataflow;
use crate::text::{bytes, columns, grouped, si};
use campanile::train::{DryRun, Reading};
use std::fmt::Write;

/// The plan as text.
pub fn text(plan: &DryRun) -> String {
    let (run, model) = (&plan.run, &plan.run.model);
    let mut text = String::from("Dry run: everything was checked, nothing is trained or kept\n");
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<11} {value}");
    };
    line(
        "Model",
        format!(
            "{}, {} parameters: {} in {} tables of {}{}, {} in dense layers; {} dense features",
            model.kind(),
            si(model.parameters() as f64),
            si(model.table_parameters() as f64),
            model.features().len(),
            model.dims_text(),
            model.table_formats_text().map_or(String::new(), |text| format!(" ({text})")),
            si(model.dense_parameters() as f64),
            model.dense_features()
        ),
    );
    let read = match plan.reading {
        Reading::Generated | Reading::Prepared => "",
        Reading::Temporarily => "; prepared in a temporary folder, which is removed",
    };
    line("Data", format!("{}{read}", plan.data));
    let (samples, eval) = (run.data.samples(), run.data.eval_samples());
    line("Rows", format!("{} to train on, {} to evaluate on", grouped(samples), grouped(eval)));
    let per_epoch = run.batches().per_epoch();
    line(
        "Steps",
        format!(
            "{} of {} samples, {per_epoch} an epoch; {} evaluation(s)",
            run.steps,
            run.batch,
            plan.evaluations()
        ),
    );
    if let Some(step) = plan.resumed {
        line("Resumes", format!("after step {step}: {} steps are left", run.steps.saturating_sub(step)));
    }
    line(
        "Ranks",
        format!(
            "{} ranks, {} thread(s) each; dataflow {}",
            run.topology(),
            plan.threads,
            dataflow::of_run(run)
        ),
    );
    let free = plan.available.map_or(String::new(), |free| format!(" of {} free", bytes(free)));
    line(
        "Memory",
        format!(
            "{}{free} for the {} rank(s) of this process: {}",
            bytes(plan.memory.total()),
            plan.ranks_here,
            plan.memory
        ),
    );
    let step = &plan.step;
    line(
        "One step",
        format!(
            "{} phases, {}FLOP, {} of memory touched; sent {} inside hosts, {} between",
            step.phases,
            si(step.flops as f64),
            bytes(step.memory),
            bytes(step.sent.host),
            bytes(step.sent.network)
        ),
    );
    let options = plan.options();
    line("Options", if options.is_empty() { "none beyond the defaults".into() } else { options.join(", ") });
    match plan.writes.as_slice() {
        [] => line("Writes", "nothing: pass --out DIR to keep the run".into()),
        writes => {
            let writes: Vec<String> = writes.iter().map(|path| path.display().to_string()).collect();
            line("Writes", writes.join(", "));
        }
    }
    let head = ["rank", "host", "tables", "rows"].map(String::from).to_vec();
    let rows = plan
        .placement
        .iter()
        .map(|rank| [rank.rank, rank.host, rank.tables, rank.rows].map(|number| number.to_string()).to_vec());
    let table: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    text + "Placement\n" + &columns(&table)
}
