//! What measurements need of the program that makes them.

use crate::error::Failure;
use spec::machine_rates::MachineRates;
use spec::run::Run;
use std::path::Path;

/// The program that measures: its path, its flags, its files and its progress bar.
pub trait Program {
    /// Path of the `campanile` binary, which jobs of a measurement start.
    fn path(&self) -> &Path;

    /// Parses flags of `campanile train` and checks the run that they describe.
    fn run(&self, flags: &[String]) -> Result<Run, Failure>;

    /// Reads the rates of a cluster from a system file that `campanile calibrate` wrote.
    fn read_rates(&self, system_file: &Path) -> Result<MachineRates, Failure>;

    /// Copies a system file, which is checked on the way.
    fn copy_system_file(&self, from: &Path, to: &Path) -> Result<(), Failure>;

    /// Tells people something that is no warning.
    fn note(&self, text: &str);

    /// Begins to show the progress of `total` jobs under the title `what`.
    fn progress(&self, what: &str, total: u64) -> Box<dyn Progress>;
}

/// The progress of jobs, as shown to people. The display ends when the value is dropped.
pub trait Progress {
    /// Shows that `done` jobs are done, and what goes on now.
    fn at(&self, done: u64, message: &str);

    /// Shows what goes on now, where no job is counted.
    fn say(&self, message: &str);
}

#[cfg(test)]
pub mod tests;
