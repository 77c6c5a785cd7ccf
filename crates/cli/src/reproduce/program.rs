//! This program, as measurements of `reproduce` see it.

use crate::args::RunArgs;
use crate::progress::{Console, Progress, Unit};
use crate::system_file::SystemFile;
use anyhow::{Context, Result};
use reproduce::Failure;
use spec::machine_rates::MachineRates;
use spec::run::Run;
use std::path::{Path, PathBuf};

/// The running binary and its console.
pub struct ThisProgram {
    path: PathBuf,
    console: Console,
}

impl ThisProgram {
    /// The running binary.
    pub fn new(console: Console) -> Result<Self> {
        Ok(Self { path: std::env::current_exe().context("the path of this program")?, console })
    }
}

impl reproduce::Program for ThisProgram {
    fn path(&self) -> &Path {
        &self.path
    }

    fn run(&self, flags: &[String]) -> Result<Run, Failure> {
        let described = RunArgs::from_words(flags.iter().map(String::as_str))?;
        Ok(planning::check(&described.config()?)?)
    }

    fn read_rates(&self, system_file: &Path) -> Result<MachineRates, Failure> {
        Ok(SystemFile::read(system_file)?.measured)
    }

    fn copy_system_file(&self, from: &Path, to: &Path) -> Result<(), Failure> {
        Ok(SystemFile::read(from)?.write(to)?)
    }

    fn note(&self, text: &str) {
        self.console.note(text);
    }

    fn progress(&self, what: &str, total: u64) -> Box<dyn reproduce::Progress> {
        Box::new(self.console.progress(what, total, Unit::Count("jobs")))
    }
}

impl reproduce::Progress for Progress {
    fn at(&self, done: u64, message: &str) {
        Self::at(self, done, message);
    }

    fn say(&self, message: &str) {
        Self::say(self, message);
    }
}

#[cfg(test)]
mod tests;
