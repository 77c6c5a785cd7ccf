//! How well `campanile calibrate` predicts steps: real runs that no calibration has seen are measured and priced.
//!
//! Everything is measured twice: with ranks that are threads of one process, and with ranks that are processes, on hosts joined by links
//! (`--launcher`). Cases take turns, so that what the machine does meanwhile falls on all of them alike; medians count.

mod cases;
mod table;

use crate::Report;
use crate::error::{During, Error, Result};
use crate::launcher::{Launcher, run_here};
use crate::program::Program;
use campanile::records::Records;
use cases::Case;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use spec::transport::Transport;
use std::path::{Path, PathBuf};

/// Cluster and jobs to measure, and the folder of results.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  Threads of one process, and hosts that are network namespaces of this machine
    sudo campanile reproduce predictions --out runs/predictions
  Threads alone
    campanile reproduce predictions --out runs/predictions --only in-process
  Only the table of what was measured
    campanile reproduce predictions --out runs/predictions --table

A measurement that was stopped or killed goes on with the same command: finished jobs are taken from DIR/records.jsonl.")]
pub struct Args {
    /// Number of hosts
    #[arg(long, value_name = "H", default_value_t = 2, help_heading = "Cluster")]
    hosts: usize,
    /// Number of ranks on each host
    #[arg(long, value_name = "L", default_value_t = 2, help_heading = "Cluster")]
    ranks_per_host: usize,
    /// Command that starts a job of processes; {hosts}, {ranks_per_host}, {ranks}, {rate} and {counters} are replaced by
    /// those of the job
    #[arg(long, value_name = "COMMAND", help_heading = "Cluster")]
    #[arg(
        default_value = "scripts/cluster --hosts {hosts} --ranks-per-host {ranks_per_host} --rate {rate} --"
    )]
    launcher: String,
    /// Rate of the links, for a launcher that creates them
    #[arg(long, default_value = "1gbit", help_heading = "Cluster")]
    rate: String,
    /// Measure ranks of one kind only
    #[arg(long, value_name = "KIND", help_heading = "Measurement")]
    only: Option<Kind>,
    /// System file to predict by, for the kind of ranks it was measured with; may be given once for each kind [default:
    /// calibrate first]
    #[arg(long, value_name = "FILE", help_heading = "Measurement")]
    calibration: Vec<PathBuf>,
    /// Number of measured steps of a job; a quarter as many come before them
    #[arg(long, value_name = "N", default_value_t = 24, help_heading = "Measurement")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Number of jobs of each case
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Measurement")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Folder for calibrations and results; a measurement that was stopped goes on there
    #[arg(long, value_name = "DIR", default_value = "reports/predictions", help_heading = "Output")]
    out: PathBuf,
    /// Measure nothing; print the table of the results in the folder
    #[arg(long, help_heading = "Output")]
    table: bool,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Kinds of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Threads of one process
    InProcess,
    /// Processes on hosts joined by links
    Mpi,
}

impl Kind {
    const ALL: [Kind; 2] = [Kind::InProcess, Kind::Mpi];

    fn joined(self) -> Transport {
        match self {
            Kind::InProcess => Transport::InProcess,
            Kind::Mpi => Transport::Mpi,
        }
    }

    /// System file with the rates of ranks of this kind.
    fn calibration(self, folder: &Path) -> PathBuf {
        folder.join(match self {
            Kind::InProcess => "in-process.toml",
            Kind::Mpi => "mpi.toml",
        })
    }
}

/// Settings that all jobs share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    hosts: usize,
    ranks_per_host: usize,
    rate: String,
    steps: u64,
}

/// Times of one job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictionResult {
    ranks: Kind,
    case: String,
    round: u64,
    /// Seconds of a step: mean over the steps that were timed.
    step_s: f64,
    /// Seconds of a step at work; mean over ranks.
    compute_s: f64,
    /// Seconds of a step that wait for communication; mean over ranks.
    exposed_s: f64,
}

/// Measures what the folder lacks, and compares measured with predicted steps.
pub fn report(args: &Args, program: &dyn Program) -> Result<Report> {
    if args.table {
        return recorded(&args.out, program);
    }
    let setting = Setting {
        hosts: args.hosts,
        ranks_per_host: args.ranks_per_host,
        rate: args.rate.clone(),
        steps: args.steps,
    };
    let records: Records<PredictionResult> = Records::open(&args.out, &json!(setting))?;
    for path in &args.calibration {
        let rates = program.read_rates(path).map_err(Error::Program)?;
        let kind = if rates.transport == Transport::InProcess { Kind::InProcess } else { Kind::Mpi };
        program.copy_system_file(path, &kind.calibration(&args.out)).map_err(Error::Program)?;
    }
    let launcher = Launcher {
        program: program.path().to_owned(),
        template: args.launcher.clone(),
        rate: args.rate.clone(),
        folder: args.out.clone(),
    };
    let measurement = Measurement { setting: &setting, launcher: &launcher, folder: &args.out, program };
    let left_out = measurement.measure(args, &records)?;
    table::report(&records.all()?, &setting, &args.out, left_out.as_deref(), program)
}

/// Compares the cases whose results are in a folder, and measures nothing.
pub fn recorded(folder: &Path, program: &dyn Program) -> Result<Report> {
    let records: Records<PredictionResult> = Records::existing(folder);
    let setting = serde_json::from_value(records.what()?).map_err(Error::json("what was measured"))?;
    table::report(&records.all()?, &setting, folder, None, program)
}

/// Flags of every run that is started on so many hosts and ranks.
pub(crate) fn runs_started(hosts: usize, ranks_per_host: usize) -> Vec<Vec<String>> {
    cases::ALL.iter().map(|case| case.flags(hosts, ranks_per_host)).collect()
}

/// A measurement in progress: its settings, its folder and the program that runs its jobs.
struct Measurement<'a> {
    setting: &'a Setting,
    launcher: &'a Launcher,
    folder: &'a Path,
    program: &'a dyn Program,
}

impl Measurement<'_> {
    /// Runs the jobs that have no record yet, round by round. Returns why ranks that are processes were left out, if they were.
    fn measure(&self, args: &Args, records: &Records<PredictionResult>) -> Result<Option<String>> {
        let kinds = Kind::ALL.into_iter().filter(|kind| args.only.is_none_or(|only| only == *kind));
        let (mut measured, mut left_out) = (Vec::new(), None);
        for kind in kinds {
            match self.calibrate(kind) {
                Ok(()) => measured.push(kind),
                // A machine may not allow network namespaces, or have no MPI: what can be measured still is.
                Err(error) if kind == Kind::Mpi && args.only.is_none() => left_out = Some(error.chain()),
                Err(error) => return Err(error),
            }
        }
        if let Some(taken) = records.taken()? {
            self.program.note(&taken.to_string());
        }
        let done = records.all()?;
        let done = |kind: Kind, case: &Case, round: u64| {
            done.iter()
                .any(|record| (record.ranks, record.case.as_str(), record.round) == (kind, case.name, round))
        };
        let jobs = args.rounds * (measured.len() * cases::ALL.len()) as u64;
        let progress = self.program.progress("measuring", jobs);
        let mut ended = 0;
        for round in 0..args.rounds {
            for &kind in &measured {
                for case in &cases::ALL {
                    if !done(kind, case, round) {
                        progress.at(ended, case.name);
                        let record = self.job(kind, case, round);
                        records.append(&record.during(|| case.name.to_owned())?)?;
                    }
                    ended += 1;
                }
            }
        }
        Ok(left_out)
    }

    /// Measures the rates of the cluster, unless the folder has them.
    fn calibrate(&self, kind: Kind) -> Result<()> {
        let path = kind.calibration(self.folder);
        if !path.exists() {
            let what = || format!("calibrating, ranks {}", table::ranks(kind));
            self.program.note(&what());
            let mut arguments = vec!["calibrate".to_string(), "--json".into(), "--out".into()];
            let whole = std::path::absolute(&path).map_err(Error::file(&path, "written"))?;
            arguments.push(whole.display().to_string());
            self.start(kind, arguments).during(what)?;
        }
        let measured = self.program.read_rates(&path).map_err(Error::Program)?;
        let Setting { hosts, ranks_per_host, .. } = *self.setting;
        let same_ranks = (measured.hosts, measured.ranks_per_host) == (hosts, ranks_per_host);
        if same_ranks && measured.transport == kind.joined() {
            return Ok(());
        }
        Err(Error::OtherCluster {
            path,
            there: format!("{} × {}", measured.hosts, measured.ranks_per_host),
            here: format!("{hosts} × {ranks_per_host}"),
            kind: table::ranks(kind),
        })
    }

    /// Runs a case once, and returns its times.
    fn job(&self, kind: Kind, case: &Case, round: u64) -> Result<PredictionResult> {
        let Setting { hosts, ranks_per_host, steps, .. } = *self.setting;
        let warm_up = steps.div_ceil(4);
        let mut arguments = vec!["train".to_string()];
        arguments.extend(case.flags(hosts, ranks_per_host));
        // Reports are no part of a step.
        let length = format!(
            "--steps {} --warm-up {warm_up} --report-every 1000000 --samples 1048576 --eval-samples 0 --json",
            steps + warm_up
        );
        arguments.extend(length.split_whitespace().map(String::from));
        let result = self.start(kind, arguments)?;
        let number = |key: &str| {
            let number = result["step_time"][key].as_f64();
            number.ok_or_else(|| Error::Missing {
                field: format!("step_time.{key}"),
                result: result.to_string(),
            })
        };
        Ok(PredictionResult {
            ranks: kind,
            case: case.name.into(),
            round,
            step_s: number("step_s")?,
            compute_s: number("compute_s")?,
            exposed_s: number("exposed_s")?,
        })
    }

    /// Starts this program on ranks of a kind.
    fn start(&self, kind: Kind, mut arguments: Vec<String>) -> Result<Value> {
        let Setting { hosts, ranks_per_host, .. } = *self.setting;
        if !arguments.iter().any(|argument| argument == "--hosts") {
            let cluster =
                ["--hosts".into(), hosts.to_string(), "--ranks-per-host".into(), ranks_per_host.to_string()];
            arguments.extend(cluster);
        }
        match kind {
            Kind::InProcess => run_here(self.program.path(), &arguments),
            Kind::Mpi => {
                arguments.extend(["--transport".into(), "mpi".into()]);
                Ok(self.launcher.run(hosts, ranks_per_host, &arguments)?.result)
            }
        }
    }
}

#[cfg(test)]
mod tests;
