//! `campanile doctor`: what this machine has that a run can use, what is missing, and the package that has it.

mod cuda;
mod machine;
mod mpi;
mod part;

use anyhow::{Result, bail};
use cuda::CudaParts;
use machine::Machine;
use mpi::MpiParts;
use part::Part;
use serde_json::{Value, json};
use std::fmt::Write;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  campanile doctor
  campanile doctor --json --require cuda")]
pub struct Args {
    /// Exit with an error unless this can be used: cuda (for --device cuda), mpi (for --transport mpi) or nccl (for --transport
    /// nccl, on one machine); may be given several times [default: none, the exit code is 0 whatever is missing]
    #[arg(long, value_name = "cuda|mpi|nccl")]
    require: Vec<Needed>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What a caller may insist on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Needed {
    /// NVIDIA GPUs, with all libraries that `--device cuda` uses
    Cuda,
    /// MPI, for `--transport mpi`
    Mpi,
    /// NCCL, for `--transport nccl`, with what `--device cuda` uses
    Nccl,
}

/// Name of the processor, where the system tells it.
pub fn processor() -> Option<String> {
    machine::processor()
}

/// What was found on this machine.
struct Report {
    machine: Machine,
    mpi: MpiParts,
    cuda: CudaParts,
}

pub fn run(args: &Args) -> Result<()> {
    let report = Report { machine: Machine::here(), mpi: MpiParts::here(), cuda: CudaParts::here() };
    match args.json {
        true => println!("{}", report.to_json()),
        false => print!("{}", report.to_text()),
    }
    args.require.iter().try_for_each(|&needed| report.require(needed))
}

impl Report {
    /// Fails where `needed` cannot be used, with the first reason.
    fn require(&self, needed: Needed) -> Result<()> {
        let (name, problem) = match needed {
            Needed::Cuda => ("cuda", self.cuda.problem()),
            Needed::Mpi => ("mpi", self.mpi.problem()),
            Needed::Nccl => ("nccl", self.cuda.problem().or_else(|| self.cuda.nccl_problem())),
        };
        match problem {
            Some(problem) => bail!("--require {name}: {problem}"),
            None => Ok(()),
        }
    }

    /// Parts that were looked for, in the order in which they are told.
    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.mpi.parts().into_iter().chain(self.cuda.parts())
    }

    fn to_json(&self) -> Value {
        let missing = self.parts().filter_map(Part::missing);
        let missing = missing
            .map(|(name, problem, remedy)| json!({ "part": name, "problem": problem, "remedy": remedy }));
        json!({
            "version": crate::VERSION,
            "machine": self.machine.to_json(),
            "mpi": self.mpi.to_json(),
            "cuda": self.cuda.to_json(),
            "missing": missing.collect::<Vec<_>>(),
        })
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        section(&mut text, "Machine", &self.machine.lines());
        section(&mut text, "MPI", &self.mpi.lines());
        section(&mut text, "CUDA", &self.cuda.lines());
        let missing = self.parts().filter_map(Part::missing);
        let missing: Vec<String> =
            missing.map(|(name, problem, remedy)| format!("{name}: {problem}; {remedy}")).collect();
        if !missing.is_empty() {
            section(&mut text, "Missing", &missing);
        }
        text
    }
}

/// Appends lines under a heading.
fn section(text: &mut String, heading: &str, lines: &[String]) {
    let gap = if text.is_empty() { "" } else { "\n" };
    let _ = writeln!(text, "{gap}{heading}");
    for line in lines {
        let _ = writeln!(text, "  {}", crate::text::printable(line));
    }
}

#[cfg(test)]
mod tests;
