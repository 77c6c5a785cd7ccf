//! What `campanile calibrate` measured of a system, as a file.

use anyhow::{Context, Result, ensure};
use campanile::file::{read_toml, replace};
use serde::{Deserialize, Serialize};
use spec::machine_rates::MachineRates;
use std::path::Path;

/// A system file that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemFile {
    /// What tables call the system.
    pub name: String,
    /// Bytes of memory for each rank: those of a machine, shared out among its ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
    /// What was measured of it.
    pub measured: MachineRates,
}

impl SystemFile {
    /// Reads and checks one.
    pub fn read(path: &Path) -> Result<Self> {
        let file: Self = read_toml(path)?;
        file.measured.check().with_context(|| path.display().to_string())?;
        let sensible = |bytes: &f64| bytes.is_finite() && *bytes > 0.0;
        let memory = file.memory_bytes;
        ensure!(
            memory.as_ref().is_none_or(sensible),
            "{}: memory_bytes is {}; expected a number above 0",
            path.display(),
            memory.unwrap_or_default()
        );
        Ok(file)
    }

    /// Memory of this machine for each of so many ranks, where the system tells.
    pub fn memory_here(ranks: usize) -> Option<f64> {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().strip_suffix(" kB")?;
        Some(kib.trim().parse::<f64>().ok()? * 1024.0 / ranks.max(1) as f64)
    }

    /// The file as TOML.
    pub fn to_text(&self) -> Result<String> {
        toml::to_string_pretty(self).context("the system as TOML")
    }

    /// Writes the file into a command's own folder, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        Ok(replace(path, self.to_text()?.as_bytes())?)
    }
}

#[cfg(test)]
mod tests;
