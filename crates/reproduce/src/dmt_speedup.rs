//! How much faster DMT is, on a wire: flat against SPTT against tower modules, over hosts joined by links (DMT §5.3).
//!
//! Every case is one job on a cluster, started by `--launcher`. Computations are paced: each phase takes the time that it was
//! measured to take alone on this machine, times `--pace-scale`, while every byte crosses the wire. Cases take turns, so that
//! what the machine does meanwhile falls on all of them alike; medians count.

mod cases;
mod limit;
mod table;

use crate::Report;
use crate::error::{During, Error, Result};
use crate::launcher::Launcher;
use crate::program::Program;
use campanile::file::{read_json, replace};
use campanile::records::Records;
use cases::{Case, Common, Way, Wire};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use spec::links::LinkModel;
use spec::pace::Pace;
use spec::presets::ModelKind;
use spec::run::Run;
use spec::schedule::Task;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cases to measure, the cluster and the folder of results.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  Hosts are network namespaces of this machine
    sudo campanile reproduce dmt-speedup --out runs/speedup
  Hosts of a cluster
    campanile reproduce dmt-speedup --out runs/speedup --launcher 'mpirun -np {ranks} --map-by ppr:{ranks_per_host}:node'
  Only the table of what was measured
    campanile reproduce dmt-speedup --out runs/speedup --table

A measurement that was stopped or killed goes on with the same command: finished jobs are taken from DIR/records.jsonl.")]
pub struct Args {
    /// Number of hosts
    #[arg(long, value_name = "H", value_delimiter = ',', default_value = "2,4,8", help_heading = "Cluster")]
    hosts: Vec<usize>,
    /// Number of ranks on each host
    #[arg(long, value_name = "L", default_value_t = 2, help_heading = "Cluster")]
    ranks_per_host: usize,
    /// Command that starts a job; {hosts}, {ranks_per_host}, {ranks}, {rate} and {counters} are replaced by those of the job
    #[arg(long, value_name = "COMMAND", help_heading = "Cluster")]
    #[arg(
        default_value = "scripts/cluster --hosts {hosts} --ranks-per-host {ranks_per_host} --rate {rate} \
                           --counters {counters} --"
    )]
    launcher: String,
    /// Rate of the links, for a launcher that creates them
    #[arg(long, default_value = "1gbit", help_heading = "Cluster")]
    rate: String,
    /// Models
    #[arg(long, value_delimiter = ',', default_value = "dlrm,dcn", help_heading = "Measurement")]
    models: Vec<ModelKind>,
    /// Wire formats
    #[arg(long, value_delimiter = ',', default_value = "f32,bf16", help_heading = "Measurement")]
    wires: Vec<Wire>,
    /// Variants to measure: dataflow, compression ratio (crN), and whether phases overlap (-serial)
    #[arg(long, value_delimiter = ',', help_heading = "Measurement")]
    #[arg(default_value = "flat,hierarchical,sptt,paper,cr2,cr4,cr8,cr16,flat-serial,cr2-serial")]
    ways: Vec<Way>,
    /// Samples of each rank in a step
    #[arg(long, value_name = "N", default_value_t = 1024, help_heading = "Measurement")]
    local_batch: usize,
    /// Factor on the measured times of computations, to stand for faster or slower accelerators
    #[arg(long, value_name = "X", default_value_t = 1.0, help_heading = "Measurement")]
    pace_scale: f64,
    /// Compute really instead of by a pace; where ranks share cores, times depend on the number of cores
    #[arg(long, help_heading = "Measurement")]
    real: bool,
    /// Number of measured steps of a job; one more comes before them
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Measurement")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Number of jobs of each case
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Measurement")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Folder for paces, link speeds and results; a measurement that was stopped goes on there
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    out: PathBuf,
    /// Measure nothing; print the table of the results in the folder
    #[arg(long, help_heading = "Output")]
    table: bool,
    /// Print one JSON array
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Steps before the clock starts.
const WARM_UP: u64 = 1;
/// Steps in which a computation is measured.
const PACE_STEPS: u64 = 3;

/// Times and bytes of one job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SpeedupResult {
    #[serde(flatten)]
    case: Case,
    round: u64,
    /// Seconds of a step; mean over steps, as are all times.
    step_s: f64,
    /// Seconds of a step at work; mean over ranks.
    compute_s: f64,
    /// Seconds of a step with collectives under way; mean over ranks.
    communication_s: f64,
    /// Seconds of a step that wait for communication; mean over ranks.
    exposed_s: f64,
    /// Bytes between hosts in a step, over all ranks.
    network_bytes: u64,
    /// Bytes between hosts in the whole job, as metered.
    job_network_bytes: u64,
    /// Bytes between hosts in the whole job, as the interfaces counted them.
    counted_bytes: Option<u64>,
    /// Phases by name, with seconds a step at work and seconds waited for.
    phases: Vec<(String, f64, f64)>,
}

/// The run of a case.
fn run_of(case: &Case, common: &Common, program: &dyn Program) -> Result<Run> {
    program.run(&case.flags(common)).map_err(Error::Program).during(|| case.name())
}

/// Measures what the folder lacks, and compares all cases.
pub fn report(args: &Args, program: &dyn Program) -> Result<Report> {
    if args.table {
        return recorded(&args.out, program);
    }
    let setting = args.setting();
    let measured = Measured { setting: &setting, folder: &args.out, program };
    if !(args.pace_scale > 0.0 && args.pace_scale.is_finite()) {
        return Err(Error::PaceScale(args.pace_scale));
    }
    let cases = cases::all(&args.models, &args.hosts, &args.wires, &args.ways);
    for case in &cases {
        run_of(case, &setting.common, program)?;
    }
    let records: Records<SpeedupResult> = Records::open(&args.out, &json!(setting))?;
    measured.measure(args, &cases, &records)?;
    measured.report(&records.all()?)
}

/// Compares the cases whose results are in a folder, and measures nothing.
pub fn recorded(folder: &Path, program: &dyn Program) -> Result<Report> {
    let records: Records<SpeedupResult> = Records::existing(folder);
    Measured { setting: &setting(folder)?, folder, program }.report(&records.all()?)
}

/// Settings that the results in a folder were measured with.
pub fn setting(folder: &Path) -> Result<Setting> {
    let records: Records<SpeedupResult> = Records::existing(folder);
    serde_json::from_value(records.what()?).map_err(Error::json("what was measured"))
}

impl Args {
    fn setting(&self) -> Setting {
        Setting {
            common: Common { ranks_per_host: self.ranks_per_host, local_batch: self.local_batch },
            rate: self.rate.clone(),
            compute: if self.real { "real" } else { "paced" }.into(),
            pace_scale: self.pace_scale,
            steps: self.steps,
        }
    }
}

/// Flags of every run that is started, on two and four hosts.
pub(crate) fn runs_started() -> Vec<Vec<String>> {
    let (models, wires) = ([ModelKind::Dlrm, ModelKind::Dcn], [Wire::F32, Wire::Bf16]);
    let cases = cases::all(&models, &[2, 4], &wires, <Way as clap::ValueEnum>::value_variants());
    let common = Common { ranks_per_host: 2, local_batch: 64 };
    cases.iter().map(|case| case.flags(&common)).collect()
}

/// Settings that all jobs of a measurement share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    common: Common,
    rate: String,
    /// `paced` or `real`.
    compute: String,
    pace_scale: f64,
    steps: u64,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { common: Common { ranks_per_host, local_batch }, rate, compute, pace_scale, steps } = self;
        write!(f, "{compute} compute")?;
        if compute == "paced" && *pace_scale != 1.0 {
            write!(f, " × {pace_scale}")?;
        }
        write!(
            f,
            "; {ranks_per_host} ranks a host, {local_batch} samples a rank, links of {rate}; {steps} steps a job"
        )
    }
}

/// A measurement in progress: its settings, its folder and the program that runs its jobs.
struct Measured<'a> {
    setting: &'a Setting,
    folder: &'a Path,
    program: &'a dyn Program,
}

impl Measured<'_> {
    /// Runs the jobs of `cases` that have no record yet, round by round.
    fn measure(&self, args: &Args, cases: &[Case], records: &Records<SpeedupResult>) -> Result<()> {
        let launcher = Launcher {
            program: self.program.path().to_owned(),
            template: args.launcher.clone(),
            rate: args.rate.clone(),
            folder: args.out.clone(),
        };
        let done: Vec<(Case, u64)> =
            records.all()?.iter().map(|record| (record.case, record.round)).collect();
        if let Some(taken) = records.taken()? {
            self.program.note(&taken.to_string());
        }
        let progress = self.program.progress("measuring", cases.len() as u64 * args.rounds);
        let mut ended = 0;
        for &hosts in &args.hosts {
            progress.say(&format!("links of {hosts} hosts"));
            self.links(&launcher, hosts)?;
        }
        for round in 0..args.rounds {
            for case in cases {
                if !done.contains(&(*case, round)) {
                    progress.at(ended, &case.name());
                    let pace = if args.real { None } else { Some(self.pace(case)?) };
                    let record = self.job(&launcher, case, round, pace.as_deref());
                    records.append(&record.during(|| case.name())?)?;
                }
                ended += 1;
            }
        }
        Ok(())
    }

    /// Path of the file with the times of a case's computations. They are measured on this machine the first time, for the ranks
    /// of one host, which stand for all others.
    fn pace(&self, case: &Case) -> Result<PathBuf> {
        let folder = self.folder.join("pace");
        std::fs::create_dir_all(&folder).map_err(Error::file(&folder, "created"))?;
        let path = folder.join(format!("{}.json", case.name()));
        if path.exists() {
            return Ok(path);
        }
        let measured = folder.join(format!("{}.measured", case.measured().name()));
        if !measured.exists() {
            let fresh = measured.with_extension("new");
            let mut command = Command::new(self.program.path());
            command.arg("pace").args(case.measured().flags(&self.setting.common));
            command.args(["--measured-ranks", &self.setting.common.ranks_per_host.to_string()]);
            command.args(["--steps", &PACE_STEPS.to_string(), "--force", "--out"]).arg(&fresh);
            let name = format!("{command:?}");
            let output = command.output().map_err(|source| Error::Start { command: name.clone(), source })?;
            if !output.status.success() {
                return Err(Error::Job {
                    command: name,
                    status: output.status.to_string(),
                    output: String::from_utf8_lossy(&output.stderr).into_owned(),
                });
            }
            std::fs::rename(&fresh, &measured).map_err(Error::file(&measured, "written"))?;
        }
        let mut pace: Pace = read_json(&measured)?;
        pace.scale = self.setting.pace_scale;
        let schedule = run_of(case, &self.setting.common, self.program)?.schedule(Task::Train);
        pace.phases.retain(|name, _| schedule.phases().iter().any(|phase| phase.name == *name));
        pace.check(&schedule)?;
        let text = serde_json::to_string(&pace).map_err(Error::json("times of computations"))?;
        replace(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Latency and bandwidth of collectives on the links of so many hosts, measured the first time.
    fn links(&self, launcher: &Launcher, hosts: usize) -> Result<Vec<LinkModel>> {
        let path = self.folder.join(format!("links-{hosts}.json"));
        if !path.exists() {
            let sweep = "bench collectives --transport mpi --collectives all-to-all,all-reduce --from 256KiB --to 16MiB \
                         --rounds 5 --warm-up 2 --json";
            let arguments: Vec<String> = sweep.split_whitespace().map(String::from).collect();
            let ended = launcher
                .run(hosts, self.setting.common.ranks_per_host, &arguments)
                .during(|| "measuring the links".into())?;
            let text = format!("{:#}\n", ended.result);
            replace(&path, text.as_bytes())?;
        }
        let swept: Value = read_json(&path)?;
        serde_json::from_value(swept["links"].clone()).map_err(Error::json(path.display().to_string()))
    }

    /// Runs a case once, and returns its times and bytes.
    fn job(
        &self,
        launcher: &Launcher,
        case: &Case,
        round: u64,
        pace: Option<&Path>,
    ) -> Result<SpeedupResult> {
        let mut arguments = vec!["train".to_string()];
        arguments.extend(case.flags(&self.setting.common));
        let length = format!(
            "--steps {} --warm-up {WARM_UP} --transport mpi --eval-samples 0 --json",
            self.setting.steps + WARM_UP
        );
        arguments.extend(length.split_whitespace().map(String::from));
        if let Some(pace) = pace {
            arguments.extend(["--compute".into(), format!("paced:{}", pace.display())]);
        }
        let ended = launcher.run(case.hosts, self.setting.common.ranks_per_host, &arguments)?;
        let missing = |field: &str| Error::Missing { field: field.into(), result: ended.result.to_string() };
        let number =
            |path: &str| ended.result.pointer(path).and_then(Value::as_f64).ok_or_else(|| missing(path));
        let timed = number("/timed_steps")?;
        let phases = ended.result["phases"].as_array().ok_or_else(|| missing("phases"))?;
        let of = |phase: &Value, key: &str| phase[key].as_f64().unwrap_or(0.0) / timed;
        let sent = |phase: &Value| phase["sent"]["network"].as_u64().unwrap_or(0);
        Ok(SpeedupResult {
            case: *case,
            round,
            step_s: number("/step_time/step_s")?,
            compute_s: number("/step_time/compute_s")?,
            communication_s: number("/step_time/communication_s")?,
            exposed_s: number("/step_time/exposed_s")?,
            network_bytes: phases.iter().map(sent).sum::<u64>() / number("/steps")? as u64,
            job_network_bytes: number("/sent_network_bytes")? as u64,
            counted_bytes: ended.counted,
            phases: phases
                .iter()
                .map(|phase| {
                    let name = phase["name"].as_str().unwrap_or_default().to_owned();
                    (name, of(phase, "busy_s"), of(phase, "exposed_s"))
                })
                .collect(),
        })
    }

    fn report(&self, records: &[SpeedupResult]) -> Result<Report> {
        let rows = table::rows(records, self)?;
        let json = Value::Array(rows.iter().map(|row| row.to_json(self.setting)).collect());
        Ok(Report { text: table::to_text(&rows, self.setting), json: json.to_string() })
    }
}

#[cfg(test)]
mod tests;
