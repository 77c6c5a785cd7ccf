//! A program that parses the flags which measurements of this crate use, and does nothing else.

use super::{Program, Progress};
use crate::error::Failure;
use spec::machine_rates::MachineRates;
use spec::run::{Config, Run};
use std::cell::RefCell;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

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
            "--all-reduce" => config.train.all_reduce = Some(value.parse()?),
            "--wire-rounding" => config.wire.rounding = Some(value.parse()?),
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

/// A program whose jobs are a script that prints `result`. Each job adds a line to `FOLDER/jobs`; job number `FOLDER/killed` is
/// killed.
pub struct Jobs {
    folder: PathBuf,
    script: PathBuf,
    rates: Option<MachineRates>,
    notes: RefCell<Vec<String>>,
}

impl Jobs {
    /// Jobs that print `result`. Every system file holds `rates`.
    pub fn new(folder: &Path, result: &str, rates: Option<MachineRates>) -> Self {
        let (folder, script) = (folder.to_owned(), folder.join("job.sh"));
        let at = folder.display();
        let text = format!(
            "echo \"$*\" >> {at}/jobs\n\
             test \"$(wc -l < {at}/jobs)\" = \"$(cat {at}/killed 2> /dev/null)\" && kill -9 $$\n\
             while test $# -gt 1; do test \"$1\" = --out && touch \"$2\"; shift; done\n\
             echo '{result}'\n"
        );
        std::fs::write(&script, format!("#!/bin/sh\n{text}")).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, script, rates, notes: RefCell::default() }
    }

    /// Kills job number `number`, from 1.
    pub fn kill(&self, number: usize) {
        std::fs::write(self.folder.join("killed"), number.to_string()).unwrap();
    }

    /// Arguments of all jobs so far.
    pub fn started(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.join("jobs")).unwrap_or_default();
        text.lines().map(ToOwned::to_owned).collect()
    }

    /// Everything that was told.
    pub fn notes(&self) -> String {
        self.notes.borrow().join("\n")
    }
}

impl Program for Jobs {
    fn path(&self) -> &Path {
        &self.script
    }

    fn run(&self, flags: &[String]) -> Result<Run, Failure> {
        Flags.run(flags)
    }

    fn read_rates(&self, system_file: &Path) -> Result<MachineRates, Failure> {
        self.rates.clone().ok_or_else(|| format!("{}: not there", system_file.display()).into())
    }

    fn copy_system_file(&self, _: &Path, _: &Path) -> Result<(), Failure> {
        Ok(())
    }

    fn note(&self, text: &str) {
        self.notes.borrow_mut().push(text.into());
    }

    fn progress(&self, what: &str, total: u64) -> Box<dyn Progress> {
        Flags.progress(what, total)
    }
}

#[test]
fn every_run_that_is_started_is_consistent() {
    let runs = crate::runs_started();
    assert!(runs.len() > 80, "{}", runs.len());
    for flags in runs {
        Flags.run(&flags).unwrap_or_else(|error| panic!("{flags:?}: {error}"));
    }
}
