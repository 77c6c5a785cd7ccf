//! What a run came to, for people and for programs.

use super::breakdown::quality_of;
use crate::dataflow;
use crate::text::{bytes, columns, si};
use spec::device::DeviceChoice;
use spec::precision::Precisions;
use spec::run::Run;
use spec::schedule::Lane;
use std::fmt::Write;
use training::Outcome;

/// What a good run comes within of the best possible AUC.
const CLOSE: f64 = 0.01;

/// How much a summary tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// About ten lines.
    Short,
    /// Phases and the placement besides.
    Verbose,
}

/// The result as text.
pub fn summary(run: &Run, outcome: &Outcome, wall: f64, detail: Detail) -> String {
    let mut text = String::new();
    let steps = outcome.trained;
    let _ = writeln!(
        text,
        "{} {} ({} parameters) for {steps} steps of {} samples on {} ranks, {:.1} s in all",
        if outcome.paced { "Paced" } else { "Trained" },
        run.model.kind(),
        si(run.model.parameters() as f64),
        run.batch,
        run.topology(),
        wall
    );
    let overlap = if run.overlap { "" } else { "; nothing overlaps" };
    let _ = writeln!(text, "Dataflow {}{overlap}", dataflow::of_run(run));
    if run.device != DeviceChoice::Cpu || run.precision != Precisions::default() {
        let _ = writeln!(text, "Device {}, products in {}", run.device, run.precision);
    }
    if let Some(regularised) = run.regularisation_text() {
        let _ = writeln!(text, "With {regularised}");
    }
    text.push_str(&quality(run, outcome));
    if steps > 0 {
        let exposed = outcome.step_time().map_or(String::new(), |time| {
            format!("; {:.0} % of a step waits for communication", 100.0 * time.exposed_share)
        });
        let _ = writeln!(
            text,
            "\nThroughput  {} samples/s, {:.2} ms a step{}{exposed}",
            si(outcome.samples_per_s()),
            1e3 * outcome.seconds / outcome.timed.max(1) as f64,
            if outcome.paced { " (paced)" } else { "" }
        );
        match detail {
            Detail::Short => text.push_str("  --verbose shows phases, bytes and placement\n"),
            Detail::Verbose => {
                text.push_str(
                    "\nWhere the time went (mean of ranks, ms a step; under way: until the transport was done; \
                     waited: with nothing else to do)\n",
                );
                text.push_str(&time_table(outcome));
                text.push_str("\nWhat ran where\n");
                text.push_str(&place_table(run, outcome));
                text.push('\n');
            }
        }
    }
    if let Some(digest) = &outcome.parameters_sha256 {
        let _ = writeln!(text, "parameters sha256 {digest}");
    }
    text
}

fn quality(run: &Run, outcome: &Outcome) -> String {
    let Some(scores) = &outcome.scores else {
        return if outcome.paced {
            "Computations were only waited for (paced): nothing was learnt, so there is no loss and no AUC\n"
                .into()
        } else if outcome.interrupted {
            format!("Stopped before its evaluation\n{}", best_state(run, outcome))
        } else {
            "No evaluation, so no AUC; give samples to evaluate on with --eval or --eval-samples\n".into()
        };
    };
    let mut text = quality_of("unseen", scores);
    if let (Some(auc), Some(best)) = (scores.evaluation.auc, scores.best_auc) {
        let gap = (best - auc).max(0.0);
        let _ = writeln!(text, "  best possible AUC on this data {best:.4}; the gap is {gap:.4}");
        if gap > CLOSE && !outcome.losses.is_empty() {
            text.push_str(&what_keeps_it(run, outcome));
        }
    }
    text.push_str(&best_state(run, outcome));
    text
}

/// Which state was the best, what became of it, and why the run stopped early if it did.
fn best_state(run: &Run, outcome: &Outcome) -> String {
    let mut text = String::new();
    if let Some(why) = campanile::summary::why_stopped(outcome) {
        let _ = writeln!(text, "  stopped early after step {} of {}: {why}", outcome.steps, run.steps);
    }
    let Some(best) = &outcome.best else { return text };
    let (step, epoch) = (best.evaluation.step, (best.epoch * 100.0).round() / 100.0);
    let found = format!("best {} {:.4} after step {step} (epoch {epoch})", best.label, best.evaluation.value);
    let kept = best.checkpoint.is_some();
    let _ = match best.last {
        _ if step == outcome.steps => writeln!(text, "  {found}: the last"),
        Some(last) => {
            let used = if kept {
                ": eval, predict and export use the best"
            } else {
                ", and the best was not kept: pass --out DIR to keep it"
            };
            writeln!(text, "  {found}; the last, after step {}, has {last:.4}{used}", outcome.steps)
        }
        None if kept => writeln!(text, "  {found}: eval, predict and export use it"),
        None => writeln!(text, "  {found}"),
    };
    text
}

/// Why the model is not at the best possible AUC, as far as the run itself tells.
fn what_keeps_it(run: &Run, outcome: &Outcome) -> String {
    let rows: usize = run.model.features().iter().map(|f| f.rows).sum();
    let per_row = outcome.samples as f64 * run.model.features().len() as f64 / rows as f64;
    let losses = &outcome.losses;
    let tenth = (losses.len() / 10).max(1);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (first, last) = (mean(&losses[..tenth]), mean(&losses[losses.len() - tenth..]));
    let overfits = outcome.best.as_ref().is_some_and(|best| best.evaluation.step < outcome.steps);
    if overfits {
        let seen = si(outcome.samples as f64);
        format!(
            "  what keeps it from that: the model overfits, its best state came before the last, and the loss fell from \
             {first:.4} to {last:.4} on {seen} samples; try fewer epochs, --patience 1 or --table-weight-decay 0.1\n"
        )
    } else if last >= first {
        format!(
            "  the loss did not fall ({first:.4} at first, {last:.4} at last): try lower learning rates (--lr)\n"
        )
    } else {
        format!(
            "  what keeps it from that: {} samples were seen, {per_row:.0} ids for each table row on average, and the \
             loss still fell from {first:.4} to {last:.4}; try more samples or epochs (--samples, --epochs)\n",
            si(outcome.samples as f64)
        )
    }
}

/// One row per phase that took at least a hundredth of the step, the others in one row; then their sum.
fn time_table(outcome: &Outcome) -> String {
    let Some(total) = outcome.step_time() else { return String::new() };
    let steps = outcome.timed as f64;
    let head = ["phase", "at work", "under way", "waited", "share"];
    let mut rows = vec![head.map(String::from).to_vec()];
    // Seconds at work, under way, waited.
    let row = |name: &str, [busy, under_way, exposed]: [f64; 3]| {
        let ms = |seconds: f64| format!("{:.2}", 1e3 * seconds);
        let share = format!("{:.0} %", 100.0 * (busy + exposed) / total.step_s);
        vec![name.into(), ms(busy), ms(under_way), ms(exposed), share]
    };
    let mut other = [(total.step_s - total.compute_s - total.exposed_s).max(0.0), 0.0, 0.0];
    for phase in &outcome.phases {
        let times = [phase.busy_s, phase.communication_s, phase.exposed_s].map(|seconds| seconds / steps);
        if times[0] + times[2] >= 0.01 * total.step_s {
            rows.push(row(&phase.name, times));
        } else {
            other.iter_mut().zip(times).for_each(|(sum, time)| *sum += time);
        }
    }
    rows.push(row("between phases, and the rest", other));
    rows.push(row("all", [total.step_s - total.exposed_s, total.communication_s, total.exposed_s]));
    let mut text = columns(&rows);
    let _ = writeln!(
        text,
        "  exposed communication {:.1} % of a step; {:.0} % of the communication was hidden",
        100.0 * total.exposed_share,
        100.0 * (1.0 - total.exposed_s / total.communication_s.max(total.exposed_s)).max(0.0)
    );
    text
}

fn place_table(run: &Run, outcome: &Outcome) -> String {
    let mut text = String::new();
    let placement = &run.placement;
    let topology = run.topology();
    for host in 0..topology.hosts() {
        let ranks: Vec<String> = (0..topology.ranks())
            .filter(|&rank| topology.host_of(rank) == host)
            .map(|rank| {
                let owned = placement.owned_by(rank);
                let rows: usize = owned.iter().map(|s| s.rows.len()).sum();
                format!("rank {rank}: {} tables, {} rows", owned.len(), si(rows as f64))
            })
            .collect();
        let _ = writeln!(text, "  host {host}   {}", ranks.join("   "));
    }
    text.push_str(&tower_places(run));
    let network: usize = run.model.network().parameters().iter().map(|parameter| parameter.len).sum();
    let replicated = placement.replicated().len();
    let cores: usize = run.model.tensor_trains().map(|(_, train)| train.parameters()).sum();
    let trains = match (run.model.tensor_trains().count(), run.dataflow.sptt().is_some()) {
        (0, _) => String::new(),
        (trains, grouped) => {
            let parameters = si(cores as f64);
            let places = if grouped { ", each on the ranks of one group" } else { "" };
            format!(", {trains} tensor trains ({parameters} parameters{places})")
        }
    };
    let _ = writeln!(
        text,
        "  everywhere   {}dense layers ({} parameters), {replicated} replicated tables{trains}; {} thread(s) a rank",
        if run.model.has_tower_modules() { "other " } else { "" },
        si(network as f64),
        outcome.threads
    );
    if let Some(cache) = &outcome.cache {
        let of_steps = |bytes_moved: u64| bytes(bytes_moved / outcome.timed.max(1));
        let _ = writeln!(
            text,
            "  tables larger than memory   {:.1} % of the rows were in memory; a step read {} and wrote {}, which took {:.1} ms, of which it waited for {:.1}",
            100.0 * cache.hit_rate(),
            of_steps(cache.bytes_read),
            of_steps(cache.bytes_written),
            1e3 * cache.io_s / outcome.timed.max(1) as f64,
            1e3 * cache.stall_s / outcome.timed.max(1) as f64,
        );
    }
    let copied = placement.copied().count();
    if copied > 0 {
        let whose = if run.dataflow.sptt().is_some() { " of a tower group" } else { "" };
        let _ = writeln!(text, "  data-parallel   {copied} table(s), each on all ranks{whose}");
    }
    let steps = outcome.trained;
    let total = |lane: Lane| {
        let phases = outcome.phases.iter().filter(|p| p.lane == lane);
        phases.fold((0, 0), |sum, p| (sum.0 + p.sent.host / steps, sum.1 + p.sent.network / steps))
    };
    let (exchange, gradients) = (total(Lane::Exchange), total(Lane::Gradients));
    let _ = writeln!(
        text,
        "  sent a step   embeddings and ids {} inside hosts, {} between; dense gradients {} inside, {} between",
        bytes(exchange.0),
        bytes(exchange.1),
        bytes(gradients.0),
        bytes(gradients.1)
    );
    text
}

/// A line for each group that has tower modules.
fn tower_places(run: &Run) -> String {
    let mut text = String::new();
    let Some(sptt) = run.dataflow.sptt() else { return text };
    for group in 0..sptt.groups().count() {
        let towers = &sptt.plan(group).towers;
        let of_tower =
            |&t: &usize| run.model.towers()[t].parameters(t).into_iter().map(|parameter| parameter.len);
        let parameters: usize = towers.iter().flat_map(of_tower).sum();
        if !towers.is_empty() {
            let (count, parameters) = (towers.len(), si(parameters as f64));
            let _ = writeln!(
                text,
                "  group {group}   on each of its ranks: {count} tower(s), {parameters} parameters"
            );
        }
    }
    text
}
