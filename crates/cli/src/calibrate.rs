//! `campanile calibrate`: measures the rates of this machine or cluster, and writes them as a system file.
//!
//! Collectives are swept over sizes, and real steps of small runs are trained on all ranks at once, as in any run. From what
//! their phases took come the rates of computations; from what whole steps took, how much of the communication was hidden. A GPU is
//! measured by one rank, with runs that keep it busy.

mod card;
mod fitted;
mod runs;
mod table;

use crate::bench::collectives::Rounds;
use crate::bench::collectives::ranks::on_ranks;
use crate::bench::collectives::sweep::{Point, Sweep, Swept};
use crate::bench::step;
use crate::bench::target::Target;
use crate::cluster::{TransportArgs, agree_on, complete_topology, without_nccl};
use crate::folder::clock::rfc3339;
use crate::output::{Force, Inputs, Output};
use crate::progress::{Console, Unit};
use crate::system_file::SystemFile;
use anyhow::{Context, Result, ensure};
use collectives::{Communicator, Label};
use fitted::{Compared, Taken};
use kernels::{Buffer, Device};
use runs::{Setup, TimedSteps, Trial};
use spec::device::DeviceChoice;
use spec::links::{GroupSpan, LinkModel};
use spec::machine_rates::MachineRates;
use spec::optimizer::NamedOptimizer;
use spec::precision::Precision;
use spec::program::Algorithm;
use spec::run::Config;
use spec::schedule::CollectiveKind;
use spec::topology::Topology;
use std::path::PathBuf;
use std::time::SystemTime;
use training::{Cluster, Logs, Outcome, Session, resolve_device};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  2 × 2 ranks that are threads of this process; then a step priced by what was measured
    campanile calibrate --out here.toml
    campanile simulate --model run.toml --system here.toml
  A cluster: every rank runs the command, rank 0 writes
    mpirun -np 8 campanile calibrate --transport mpi --out cluster.toml
  For runs with another all-reduce
    campanile calibrate --all-reduce two-level --out here.toml
  One GPU; then a step on it, priced by what was measured
    campanile calibrate --device cuda --precision bf16 --out gpu.toml
    campanile simulate --model dlrm --system gpu.toml")]
pub struct Args {
    #[command(flatten)]
    transport: TransportArgs,
    /// Number of hosts [default: 2; 1 with --device cuda]
    #[arg(long, value_name = "H", help_heading = "Cluster")]
    hosts: Option<usize>,
    /// Number of ranks on each host; a rank is one worker of the run: a thread, or a process with --transport mpi [default:
    /// 2; 1 with --device cuda]
    #[arg(long, value_name = "L", help_heading = "Cluster")]
    ranks_per_host: Option<usize>,
    /// Device that ranks compute on: cpu, cuda or cuda:1 (one rank on that GPU, with larger models and batches, whose phases are timed
    /// by events on the device), or auto (cuda where `campanile doctor` finds what it needs, else cpu); a file predicts runs on its own
    /// kind of device only
    #[arg(long, value_name = "cpu|cuda[:INDEX]|auto", default_value_t, help_heading = "Cluster")]
    device: DeviceChoice,
    /// Also measure all-reduces of this algorithm, for runs that use it: ring, recursive-doubling or two-level [default: direct
    /// ones only]
    #[arg(long, value_name = "ALGORITHM", help_heading = "Measurement")]
    all_reduce: Option<Algorithm>,
    /// Precision of the operands of matrix products: f32, f32x3 (CPU only), tf32 (GPUs only) or bf16; a file predicts runs of its own
    /// precision only [default: f32]
    #[arg(long, value_name = "f32|f32x3|tf32|bf16", help_heading = "Measurement")]
    precision: Option<Precision>,
    /// Update rule of the runs that are measured on a GPU; predictions are best for runs of this rule [default: sgd; on a CPU adam, and
    /// no other]
    #[arg(long, value_parser = crate::args::optimizer_parser(), value_name = "RULE", help_heading = "Measurement")]
    optimizer: Option<NamedOptimizer>,
    /// Name of this cluster in the system file
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    name: Option<String>,
    /// Write the system file here
    #[arg(long, value_name = "FILE.toml", help_heading = "Output")]
    out: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Output")]
    force: Force,
    /// Measure a few steps of small batches, to see that it works; not precise enough to predict by
    #[arg(long, help_heading = "Measurement")]
    quick: bool,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Effort {
    steps: TimedSteps,
    /// Times that every run is trained, in turns with the others.
    rounds: usize,
    /// Divisor of the batches.
    divisor: usize,
    /// Sizes of collectives, in bytes.
    sizes: &'static [usize],
    /// Measurements of each size.
    sweep: Rounds,
}

/// Small sizes do not count: bursts of a shaped link, or caches, make them faster than they are in the midst of a step.
const FULL: Effort = Effort {
    steps: TimedSteps { timed: 12, warm_up: 3 },
    rounds: 3,
    divisor: 1,
    sizes: &[128 << 10, 512 << 10, 2 << 20, 8 << 20],
    sweep: Rounds { measured: 7, warm_up: 2 },
};

const QUICK: Effort = Effort {
    steps: TimedSteps { timed: 2, warm_up: 1 },
    rounds: 1,
    divisor: 8,
    sizes: &[64 << 10, 256 << 10],
    sweep: Rounds { measured: 2, warm_up: 1 },
};

pub fn run(args: Args, console: Console) -> Result<()> {
    without_nccl(&args.transport, args.all_reduce)?;
    let mut cluster = args.transport.join()?;
    // The first rank writes for all.
    let out = args.out.as_deref().filter(|_| cluster.has_first_rank());
    let output = Output::check_if_any(out, args.force.force, &Inputs::default())?;
    let precision = args.precision.unwrap_or_default();
    let mut config = Config::default();
    (config.topology.hosts, config.topology.ranks_per_host) = (args.hosts, args.ranks_per_host);
    let device = resolve_device(args.device, &precision.into())?;
    if device != DeviceChoice::Cpu {
        config.train.device = Some(device);
        complete_topology(&cluster, &mut config)?;
        return of_gpu(&args, device, &config, output, console);
    }
    ensure!(
        args.optimizer.is_none(),
        "--optimizer: runs on a CPU are measured with adam only; leave it out, or use --device cuda"
    );
    complete_topology(&cluster, &mut config)?;
    let run = planning::check(&config)?;
    let topology = run.topology();
    let effort = if args.quick { QUICK } else { FULL };
    let all_reduce = args.all_reduce.unwrap_or_default();
    agree_on(
        &mut cluster,
        &format!("calibrate {topology}, {effort:?}, {all_reduce} all-reduce, {precision}"),
    )?;
    let threads = training::threads(&run, &cluster);
    let setup = Setup { topology, threads, precision, divisor: effort.divisor };
    let trials = runs::trials(setup, effort.steps)?;
    for trial in &trials {
        training::check_size(&trial.run, &cluster, training::MemoryUse::TRAINING)
            .with_context(|| trial.name.clone())?;
    }
    let largest = effort.sizes.iter().max().map_or(0, |&size| size as u64);
    let job = Job { topology, cluster: &cluster, trials: &trials, effort, all_reduce, console };
    let measured = on_ranks(&cluster, topology, largest.saturating_mul(6), |world| job.on_rank(world))?;
    cluster.leave()?;
    let Some(measured) = measured else { return Ok(()) };
    let mut calibration = MachineRates {
        about: about(&processor(), trials.len(), effort.rounds as u64, effort.steps.timed),
        hosts: topology.hosts(),
        ranks_per_host: topology.ranks_per_host(),
        transport: args.transport.transport,
        threads,
        precision,
        gpu: None,
        ranks_per_machine: measured.ranks_per_machine,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        overlap: 0.0,
        stretch: 1.0,
        operations: fitted::operations(&trials, &measured.taken),
        links: measured.links,
    };
    let compared = fitted::fit_steps(&mut calibration, &trials, &measured.taken)?;
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| format!("{topology} ranks, {}", table::joined(args.transport.transport)));
    let memory_bytes = SystemFile::memory_here(calibration.ranks_per_machine);
    finish(&args, SystemFile { name, memory_bytes, measured: calibration }, &compared, output)
}

/// Measures one rank on a GPU, which `config` says.
fn of_gpu(
    args: &Args,
    device: DeviceChoice,
    config: &Config,
    output: Option<Output>,
    console: Console,
) -> Result<()> {
    let topology = planning::check(config)?.topology();
    ensure!(
        topology.ranks() == 1,
        "--device {device}: a GPU is measured by one rank, but --hosts and --ranks-per-host make {topology}; leave them out"
    );
    let precision = args.precision.unwrap_or_default();
    let optimizer = args.optimizer.map_or("sgd", |rule| rule.name);
    let (rows, divisor) = if args.quick { (1000, 64) } else { (1_000_000, 1) };
    let trials = card::trials(card::Setup { device, precision, optimizer, rows, divisor })?;
    for trial in &trials {
        training::check_size(&trial.run, &Cluster::Threads, training::MemoryUse::TRAINING)
            .with_context(|| trial.name.clone())?;
    }
    let target = Target::new(device, &precision.into(), 1)?;
    let (steps, warm_up) = if args.quick { (2, 1) } else { (40, 6) };
    let taken = card::measure(&trials, step::Effort { warm_up, steps, digest: false }, console)?;
    let mut calibration = MachineRates {
        about: format!("{}, {optimizer}", about(&target.name, trials.len(), step::ROUNDS, steps)),
        hosts: 1,
        ranks_per_host: 1,
        transport: args.transport.transport,
        threads: 1,
        precision,
        gpu: Some(target.name.clone()),
        ranks_per_machine: 1,
        cores: 1,
        overlap: 0.0,
        stretch: 1.0,
        operations: fitted::operations(&trials, &taken),
        links: Vec::new(),
    };
    let compared = fitted::fit_steps(&mut calibration, &trials, &taken)?;
    let name = args.name.clone().unwrap_or_else(|| format!("one {}", target.name));
    let memory_bytes = match &target.device {
        Device::Cuda(cuda) => Some(cuda.gpu().memory()?.1 as f64),
        _ => None,
    };
    finish(args, SystemFile { name, memory_bytes, measured: calibration }, &compared, output)
}

/// Checks, writes and prints what was measured.
fn finish(args: &Args, file: SystemFile, compared: &[Compared], output: Option<Output>) -> Result<()> {
    file.measured.check().context("what was measured")?;
    if let Some(output) = &output {
        output.write(file.to_text()?.as_bytes())?;
    }
    if args.json {
        println!("{}", table::to_json(&file, compared));
        return Ok(());
    }
    print!("{}", table::to_text(&file, compared));
    if let Some(path) = &args.out {
        println!("\nwritten to {}", path.display());
    }
    Ok(())
}

/// Name of this machine's processor.
fn processor() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    cpu.map_or("a CPU that does not say its name", |(_, name)| name).into()
}

/// Description of the measurement: time, version, processor and effort.
fn about(processor: &str, trials: usize, rounds: u64, steps: u64) -> String {
    format!(
        "{} by campanile {}, on {processor}: {trials} runs, {rounds} × {steps} steps each",
        rfc3339(SystemTime::now()),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Runs and collectives that all ranks measure together.
struct Job<'a> {
    topology: Topology,
    cluster: &'a Cluster,
    trials: &'a [Trial],
    effort: Effort,
    all_reduce: Algorithm,
    console: Console,
}

/// Measurements of a rank.
struct Measured {
    ranks_per_machine: usize,
    links: Vec<LinkModel>,
    /// Times by trial and round.
    taken: Vec<Vec<Taken>>,
}

impl Job<'_> {
    fn on_rank(&self, world: &Communicator) -> Result<Measured> {
        let ranks_per_machine = ranks_per_machine(world)?;
        let links = lines(self.sweep().on_rank(world, self.console)?);
        let effort = self.effort;
        let console = self.console.of_rank(world.rank());
        let runs = effort.rounds * self.trials.len();
        let progress = console.progress("calibrating", runs as u64, Unit::Count("runs"));
        let mut done = 0;
        let session = Session {
            cluster: self.cluster,
            warm_up: effort.steps.warm_up,
            // Reports are no part of a step.
            report_every: Some(u64::MAX),
            ..Session::default()
        };
        let mut taken: Vec<Vec<Taken>> = self.trials.iter().map(|_| Vec::new()).collect();
        // In turns, so that what the machine does meanwhile falls on all of them.
        for _ in 0..effort.rounds {
            for (trial, taken) in self.trials.iter().zip(&mut taken) {
                progress.at(done, &trial.name);
                let outcome = training::train_rank(&trial.run, &Logs::Synthetic, world, &session)
                    .with_context(|| trial.name.clone())?;
                ensure!(outcome.timed > 0, "{}: no step was timed", trial.name);
                taken.push(taken_by(&outcome));
                done += 1;
            }
        }
        Ok(Measured { ranks_per_machine, links, taken })
    }

    fn sweep(&self) -> Sweep {
        let spans = [GroupSpan::World, GroupSpan::Host, GroupSpan::Peers].into_iter();
        // Norms of gradients are always reduced directly, and the runs that are timed reduce all else so, too.
        let mut algorithms = vec![Algorithm::Direct, self.all_reduce];
        algorithms.dedup();
        Sweep {
            topology: self.topology,
            kinds: CollectiveKind::ALL.to_vec(),
            algorithms,
            spans: spans.filter(|span| span.members(self.topology) > 1).collect(),
            sizes: self.effort.sizes.to_vec(),
            rounds: self.effort.sweep,
        }
    }
}

/// Times of a step of one run. A rank with one thread counts CPU time; for ranks with more threads only the wall clock is known.
fn taken_by(outcome: &Outcome) -> Taken {
    let steps = outcome.timed as f64;
    let of_phase = |phase: &training::PhaseReport| {
        let of_rank = |time: &training::RankTime| if outcome.threads == 1 { time.cpu_s } else { time.busy_s };
        phase.ranks.iter().map(of_rank).sum::<f64>() / phase.ranks.len().max(1) as f64 / steps
    };
    Taken {
        step_s: outcome.seconds / steps,
        phases: outcome.phases.iter().map(of_phase).collect(),
        reading_s: outcome.reading_s / steps,
    }
}

/// Latency and bandwidth of each collective in each group. Where no line fits the sizes, because of noise, the largest size gives
/// the bandwidth.
fn lines(swept: Swept) -> Vec<LinkModel> {
    let Swept { points, mut links } = swept;
    for point in points.iter().rev() {
        let Point { collective, algorithm, group, ranks, bytes, median_s, .. } = *point;
        let of = |link: &LinkModel| (link.collective, link.algorithm, link.group);
        if !links.iter().any(|link| of(link) == (collective, algorithm, group)) {
            let bytes_per_s = bytes as f64 / median_s;
            links.push(LinkModel { collective, algorithm, group, ranks, latency_s: 0.0, bytes_per_s });
        }
    }
    links
}

/// Number of ranks that share the machine of rank 0. The boot id of the kernel identifies a machine: several hosts may be network
/// namespaces of one.
fn ranks_per_machine(world: &Communicator) -> Result<usize> {
    let kernel = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mine = Buffer::from_slice(world.device(), &[crc32c::crc32c(&kernel)])?;
    let counts = vec![1; world.size()];
    let (_, all) = world.all_gather(&Label::from("machines"), mine, &counts, Buffer::new(world.device()))?;
    let all: Vec<u32> = all.to_vec()?;
    Ok(all.iter().filter(|&&machine| machine == all[0]).count())
}
