//! How much faster a plan is than tables dealt out in turns, on a model whose table sizes and bags follow power laws (Neo §8.4).
//!
//! Two placements of the same model take turns: tables whole, rank after rank (round robin), and what the planner makes of them.
//! Each is measured twice: as two ranks of one thread in this process, and on a cluster whose computations are paced, as in
//! [`dmt_speedup`](crate::dmt_speedup). What the planner predicts that each rank computes is held against what the rank was
//! measured to compute alone.

mod model;
mod table;

use crate::Report;
use crate::error::{During, Error, Result};
use crate::launcher::{Launcher, run_here};
use crate::program::Program;
use campanile::file::{read_json, replace};
use campanile::records::Records;
use clap::ValueEnum;
use planning::PlanOptions;
use planning::cost::Hierarchical;
use planning::planner::{self, Request, Weights};
use planning::system::System;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use spec::pace::{Pace, Seconds};
use spec::placement::{Layout, Placement};
use spec::plan::PlanFile;
use spec::run::Run;
use std::path::{Path, PathBuf};

/// Cluster, measurement and folder of results.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  Hosts are network namespaces of this machine
    sudo campanile reproduce plan-speedup --out runs/plans
  Only the ranks of this process
    campanile reproduce plan-speedup --worlds in-process --out runs/plans
  Only the table of what was measured
    campanile reproduce plan-speedup --out runs/plans --table

A measurement that was stopped or killed goes on with the same command: finished jobs are taken from DIR/records.jsonl.")]
pub struct Args {
    /// Clusters to measure
    #[arg(long, value_delimiter = ',', default_value = "in-process,cluster", help_heading = "Cluster")]
    worlds: Vec<World>,
    /// Number of hosts of the cluster
    #[arg(long, value_name = "H", default_value_t = 4, help_heading = "Cluster")]
    hosts: usize,
    /// Number of ranks on each host of the cluster
    #[arg(long, value_name = "L", default_value_t = 2, help_heading = "Cluster")]
    ranks_per_host: usize,
    /// Command that starts a job; {hosts}, {ranks_per_host}, {ranks}, {rate} and {counters} are replaced by those of the job
    #[arg(long, value_name = "COMMAND", help_heading = "Cluster")]
    #[arg(
        default_value = "scripts/cluster --hosts {hosts} --ranks-per-host {ranks_per_host} --rate {rate}mbit \
                           --counters {counters} --"
    )]
    launcher: String,
    /// Rate of the link of each host, in Mbit/s; plans count with it
    #[arg(long, value_name = "MBIT", default_value_t = 1000, help_heading = "Cluster")]
    rate: u64,
    /// Samples of each rank in a step
    #[arg(long, value_name = "N", default_value_t = 1024, help_heading = "Measurement")]
    local_batch: usize,
    /// Number of measured steps of a job
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Measurement")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Number of jobs of each placement
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Measurement")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Folder for the model, plans, paces and results; a measurement that was stopped goes on there
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: PathBuf,
    /// Measure nothing; print the table of the results in the folder
    #[arg(long, help_heading = "Output")]
    table: bool,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Steps before the clock starts.
const WARM_UP: u64 = 2;
/// Steps in which a computation is measured.
const PACE_STEPS: u64 = 5;

/// Ranks that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum World {
    /// Two ranks of one thread in one process
    InProcess,
    /// Hosts joined by links; computations are paced
    Cluster,
}

/// Placement of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Way {
    /// Whole tables, rank after rank.
    RoundRobin,
    /// What the planner makes.
    Plan,
}

const WAYS: [Way; 2] = [Way::RoundRobin, Way::Plan];

/// A world and a placement in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Case {
    world: World,
    way: Way,
}

impl Case {
    fn name(self) -> String {
        let world = if self.world == World::Cluster { "cluster" } else { "in-process" };
        let way = if self.way == Way::Plan { "plan" } else { "round-robin" };
        format!("{world}-{way}")
    }
}

/// Times and bytes of one job.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct JobResult {
    #[serde(flatten)]
    case: Case,
    round: u64,
    /// Seconds of a step: the median in process, the mean on the cluster.
    step_s: f64,
    /// Bytes between hosts in a step, over all ranks; 0 in process.
    network_bytes: u64,
}

/// What each rank computes for its tables in a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RankTimes {
    /// Seconds that the planner predicts, without communication.
    predicted_s: Vec<f64>,
    /// Seconds that the rank was measured to take alone.
    measured_s: Vec<f64>,
    /// Schemes of the tables, and how many have each.
    schemes: Vec<(String, usize)>,
}

/// Settings that all jobs of a measurement share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Setting {
    hosts: usize,
    ranks_per_host: usize,
    rate: u64,
    local_batch: usize,
    steps: u64,
}

impl Setting {
    /// Hosts and ranks per host of a world.
    fn topology(&self, world: World) -> (usize, usize) {
        match world {
            World::InProcess => (1, 2),
            World::Cluster => (self.hosts, self.ranks_per_host),
        }
    }
}

/// Measures what the folder lacks, and compares both placements.
pub fn report(args: &Args, program: &dyn Program) -> Result<Report> {
    if args.table {
        return recorded(&args.out);
    }
    let Args { hosts, ranks_per_host, rate, local_batch, steps, .. } = *args;
    let setting = Setting { hosts, ranks_per_host, rate, local_batch, steps };
    let records: Records<JobResult> = Records::open(&args.out, &json!(setting))?;
    let config = args.out.join("model.toml");
    let text = toml::to_string_pretty(&model::skewed()).map_err(|e| Error::Program(Box::new(e)))?;
    replace(&config, text.as_bytes())?;
    Measured { setting: &setting, folder: &args.out, program }.measure(args, &records)?;
    recorded(&args.out)
}

/// Compares the results in a folder, and measures nothing.
pub fn recorded(folder: &Path) -> Result<Report> {
    let records: Records<JobResult> = Records::existing(folder);
    let setting: Setting =
        serde_json::from_value(records.what()?).map_err(Error::json("what was measured"))?;
    let rows = table::rows(&records.all()?, folder)?;
    Ok(Report { text: table::to_text(&rows, &setting), json: table::to_json(&rows).to_string() })
}

/// A measurement in progress: its settings, its folder and the program that runs its jobs.
struct Measured<'a> {
    setting: &'a Setting,
    folder: &'a Path,
    program: &'a dyn Program,
}

impl Measured<'_> {
    /// Runs the jobs that have no record yet, round by round.
    fn measure(&self, args: &Args, records: &Records<JobResult>) -> Result<()> {
        let launcher = Launcher {
            program: self.program.path().to_owned(),
            template: args.launcher.clone(),
            rate: self.setting.rate.to_string(),
            folder: self.folder.to_owned(),
        };
        let cases: Vec<Case> =
            args.worlds.iter().flat_map(|&world| WAYS.map(|way| Case { world, way })).collect();
        let done: Vec<(Case, u64)> =
            records.all()?.iter().map(|record| (record.case, record.round)).collect();
        let progress = self.program.progress("measuring", cases.len() as u64 * args.rounds);
        for &case in &cases {
            progress.say(&format!("plan and pace of {}", case.name()));
            self.prepare(case).during(|| case.name())?;
        }
        let jobs = (0..args.rounds).flat_map(|round| cases.iter().map(move |&case| (case, round)));
        for (ended, (case, round)) in jobs.enumerate() {
            if done.contains(&(case, round)) {
                continue;
            }
            progress.at(ended as u64, &case.name());
            records.append(&self.job(&launcher, case, round).during(|| case.name())?)?;
        }
        Ok(())
    }

    fn file(&self, kind: &str, case: Case) -> PathBuf {
        self.folder.join(format!("{kind}-{}.json", case.name()))
    }

    /// Flags of the model on the ranks of a world.
    fn flags(&self, world: World) -> Vec<String> {
        let (hosts, ranks) = self.setting.topology(world);
        let batch = self.setting.local_batch * hosts * ranks;
        let mut flags = vec![self.folder.join("model.toml").display().to_string()];
        let rest = format!("--hosts {hosts} --ranks-per-host {ranks} --threads 1 --batch {batch}");
        flags.extend(rest.split_whitespace().map(String::from));
        flags
    }

    /// Flags of a case.
    fn placed(&self, case: Case) -> Vec<String> {
        let mut flags = self.flags(case.world);
        flags.extend(["--plan".into(), self.file("plan", case).display().to_string()]);
        flags
    }

    /// Writes the plan of a case, measures what its computations take, and predicts it.
    fn prepare(&self, case: Case) -> Result<()> {
        if self.file("ranks", case).exists() {
            return Ok(());
        }
        let run = self.program.run(&self.flags(case.world)).map_err(Error::Program)?;
        let system = self.system(&run);
        let cost = Hierarchical::default();
        let request = PlanOptions::new(&system, &cost).request(&run);
        let placement = match case.way {
            Way::RoundRobin => round_robin(&run)?,
            Way::Plan => planner::plan(&request).map_err(|e| Error::Program(Box::new(e)))?.placement,
        };
        let plan = PlanFile::of(&run.model, &placement, None);
        write_json(&self.file("plan", case), &plan)?;
        let pace = self.file("pace", case);
        let mut arguments = vec!["pace".to_owned()];
        arguments.extend(self.placed(case));
        let rest = format!("--steps {PACE_STEPS} --force --json --out {}", pace.display());
        arguments.extend(rest.split_whitespace().map(String::from));
        run_here(self.program.path(), &arguments)?;
        let computed = Request { weights: Weights { communication: 0.0, ..Weights::default() }, ..request };
        let predicted = planner::loads(&computed, &placement);
        let mut schemes: Vec<(String, usize)> = Vec::new();
        for feature in 0..run.model.features().len() {
            let name = placement.scheme(feature).to_string();
            match schemes.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => schemes.push((name, 1)),
            }
        }
        let times = RankTimes {
            predicted_s: predicted.iter().map(|load| load.predicted_s).collect(),
            measured_s: of_tables(&read_json(&pace)?, run.topology().ranks()),
            schemes,
        };
        write_json(&self.file("ranks", case), &times)
    }

    /// Hardware that the planner counts with: CPUs, and the links as they are shaped.
    fn system(&self, run: &Run) -> System {
        let mut system = System::cpu(run.topology());
        // The ranks of a host share its link.
        system.inter.bytes_per_s =
            self.setting.rate as f64 * 1e6 / 8.0 / run.topology().ranks_per_host() as f64;
        system.inter.util = 1.0;
        system
    }

    /// Runs a case once.
    fn job(&self, launcher: &Launcher, case: Case, round: u64) -> Result<JobResult> {
        let steps = self.setting.steps;
        let missing =
            |field: &str, of: &Value| Error::Missing { field: field.into(), result: of.to_string() };
        if case.world == World::InProcess {
            let mut arguments = vec!["bench".to_owned(), "step".to_owned()];
            arguments.extend(self.placed(case));
            let rest = format!("--steps {steps} --warm-up {WARM_UP} --json");
            arguments.extend(rest.split_whitespace().map(String::from));
            let result = run_here(self.program.path(), &arguments)?;
            let ms = result["ms_per_step"].as_f64().ok_or_else(|| missing("ms_per_step", &result))?;
            return Ok(JobResult { case, round, step_s: ms / 1e3, network_bytes: 0 });
        }
        let mut arguments = vec!["train".to_owned()];
        arguments.extend(self.placed(case));
        let rest = format!(
            "--steps {} --warm-up {WARM_UP} --transport mpi --eval-samples 0 --json --compute paced:{}",
            steps + WARM_UP,
            self.file("pace", case).display()
        );
        arguments.extend(rest.split_whitespace().map(String::from));
        let (hosts, ranks) = self.setting.topology(case.world);
        let result = launcher.run(hosts, ranks, &arguments)?.result;
        let number =
            |path: &str| result.pointer(path).and_then(Value::as_f64).ok_or_else(|| missing(path, &result));
        let (sent, all) = (number("/sent_network_bytes")?, number("/steps")?);
        let (step_s, network_bytes) = (number("/step_time/step_s")?, (sent / all) as u64);
        Ok(JobResult { case, round, step_s, network_bytes })
    }
}

/// Whole tables, rank after rank.
fn round_robin(run: &Run) -> Result<Placement> {
    let (tables, ranks) = (run.model.features().len(), run.topology().ranks());
    let layouts: Vec<Layout> = (0..tables).map(|table| Layout::TableWise { rank: table % ranks }).collect();
    Placement::of_layouts(&run.model, run.topology(), &layouts).map_err(|e| Error::Program(Box::new(e)))
}

/// Seconds that each rank computes for its tables: lookups, updates, and what is done with ids.
fn of_tables(pace: &Pace, ranks: usize) -> Vec<f64> {
    let of_rank = |rank: usize| {
        let phases = pace.phases.iter().filter(|(name, _)| table::is_of_tables(name));
        phases
            .map(|(_, seconds)| match seconds {
                Seconds::Everywhere(seconds) => *seconds,
                Seconds::ByRank(seconds) => seconds[rank],
            })
            .sum()
    };
    (0..ranks).map(of_rank).collect()
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(Error::json(path.display().to_string()))?;
    Ok(replace(path, (text + "\n").as_bytes())?)
}

#[cfg(test)]
mod tests;
