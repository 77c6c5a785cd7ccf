//! A program that parses the flags which measurements of this crate use, and does nothing else.

use super::{Program, Progress};
use crate::error::Failure;
use spec::machine_rates::MachineRates;
use spec::run::{Config, Run};
use std::path::Path;

/// Parses flags.
pub struct Flags;

/// The config that `flags` describe.
fn config(flags: &[String]) -> Result<Config, Failure> {
    let mut config = Config::default();
    let mut words = flags.iter();
    while let Some(flag) = words.next() {
        if flag == "--no-overlap" {
            config.train.overlap = Some(false);
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{flag} has no value"))?;
        match flag.as_str() {
            "--preset" => config.model.preset = Some(value.parse()?),
            "--model" => config.model.kind = Some(value.parse()?),
            "--dim" => config.model.dim = Some(value.parse()?),
            "--rows-cap" => config.model.rows_cap = Some(value.parse()?),
            "--towers" => config.model.towers = Some(value.parse()?),
            "--tower-module" => config.model.tower_module = Some(value.parse()?),
            "--hosts" => config.topology.hosts = Some(value.parse()?),
            "--ranks-per-host" => config.topology.ranks_per_host = Some(value.parse()?),
            "--batch" => config.train.batch = Some(value.parse()?),
            "--threads" => config.train.threads = Some(value.parse()?),
            "--dataflow" => config.train.dataflow = Some(value.parse()?),
            "--all-to-all" => config.train.all_to_all = Some(value.parse()?),
            "--wire" => config.wire = config.wire.overlaid(&value.parse()?),
            _ => return Err(format!("{flag} is no flag that a measurement may use").into()),
        }
    }
    Ok(config)
}

impl Program for Flags {
    fn path(&self) -> &Path {
        Path::new("/does/not/exist")
    }

    fn run(&self, flags: &[String]) -> Result<Run, Failure> {
        Ok(planning::check(&config(flags)?)?)
    }

    fn read_rates(&self, system_file: &Path) -> Result<MachineRates, Failure> {
        Err(format!("{}: not there", system_file.display()).into())
    }

    fn copy_system_file(&self, _: &Path, _: &Path) -> Result<(), Failure> {
        Ok(())
    }

    fn note(&self, _: &str) {}

    fn progress(&self, _: &str, _: u64) -> Box<dyn Progress> {
        Box::new(Self)
    }
}

impl Progress for Flags {
    fn at(&self, _: u64, _: &str) {}

    fn say(&self, _: &str) {}
}

#[test]
fn every_run_that_is_started_is_consistent() {
    let runs = crate::runs_started();
    assert!(runs.len() > 80, "{}", runs.len());
    for flags in runs {
        Flags.run(&flags).unwrap_or_else(|error| panic!("{flags:?}: {error}"));
    }
}
