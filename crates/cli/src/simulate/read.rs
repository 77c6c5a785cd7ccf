//! Models and systems: by name, or from a file.

use crate::system_file;
use anyhow::{Context, Result, bail};
use campanile::file::{read_config, read_plan};
use planning::system::{self, System, SystemFile};
use planning::trained::Trained;
use planning::workload::{self, Layered, ModelFile};
use serde::de::DeserializeOwned;
use spec::plan::PlanChoice;
use std::path::{Path, PathBuf};

/// The model that is simulated.
pub enum Subject {
    /// A model described by its layers, which is only simulated.
    Layered(Layered),
    /// A model that Campanile trains.
    Trained(Box<Trained>),
}

/// A model by its name or from its file.
pub fn model(text: &str) -> Result<Subject> {
    if let Ok(model) = Layered::named(text) {
        return Ok(Subject::Layered(model));
    }
    if let Ok(model) = Trained::named(text) {
        return Ok(Subject::Trained(Box::new(model)));
    }
    let unknown = || {
        format!(
            "--model {text}: no model has this name, and no file. Simulated are {}; trained are {}; or give a .json or .toml \
             file",
            workload::NAMES,
            Trained::names().join(", ")
        )
    };
    let file = Described::read(text).with_context(unknown)?;
    if file.is_run()? {
        let name = Path::new(text).file_stem().map_or(text.into(), |stem| stem.to_string_lossy());
        // A TOML file may name other files.
        let config = if file.json { file.parse()? } else { read_config(&file.path)? };
        return Ok(Subject::Trained(Box::new(Trained::of_config(&name, config))));
    }
    let fields: ModelFile = file.parse()?;
    Ok(Subject::Layered(Layered::from_file(&fields).with_context(|| file.name())?))
}

/// The plan of `--plan`: a file, `auto`, or `none`.
pub fn plan(text: &str) -> Result<Option<PlanChoice>> {
    match text {
        "none" => Ok(None),
        "auto" => Ok(Some(PlanChoice::Auto)),
        path => {
            let plan = read_plan(Path::new(path)).with_context(|| {
                format!("--plan {path}: use auto, none, or a file that `campanile plan --out` wrote")
            })?;
            Ok(Some(PlanChoice::File(Box::new(plan))))
        }
    }
}

/// The system that a step is simulated on.
pub enum Hardware {
    /// A system described by its hardware.
    Described(System),
    /// A system with the rates that `campanile calibrate` measured.
    Measured(Box<system_file::SystemFile>),
}

/// A system by its name or from its file.
pub fn hardware(text: &str) -> Result<Hardware> {
    let path = Path::new(text);
    if path.extension().is_some_and(|end| end == "toml") && Described::read(text)?.has(&["measured"])? {
        return Ok(Hardware::Measured(Box::new(system_file::SystemFile::read(path)?)));
    }
    system(text).map(Hardware::Described)
}

/// A system described by its hardware, by name or from a file.
pub fn system(text: &str) -> Result<System> {
    let is_file = Path::new(text).extension().is_some_and(|end| end == "json" || end == "toml");
    if !is_file {
        return System::named(text).with_context(|| format!("--system {text}"));
    }
    let unknown =
        || format!("--system {text}: the known names are {}, each also as NAME:GPUS", system::NAMES);
    let file = Described::read(text).with_context(unknown)?;
    if file.has(&["measured"])? {
        bail!(
            "{text} holds measured rates, which only `campanile simulate` uses, for models that Campanile trains; give a system by \
             name, or a file that describes its hardware"
        );
    }
    if file.has(&["nodes", "devices_per_node"])? {
        let system: System = file.parse()?;
        return system.checked().with_context(|| file.name());
    }
    let fields: SystemFile = file.parse()?;
    System::from_file(&fields).with_context(|| file.name())
}

/// The text of a JSON or TOML file.
pub struct Described {
    path: PathBuf,
    text: String,
    json: bool,
}

impl Described {
    /// Reads a file whose ending says whether it is JSON or TOML.
    pub fn read(path: &str) -> Result<Self> {
        let path = PathBuf::from(path);
        let json = match path.extension().and_then(|end| end.to_str()) {
            Some("json") => true,
            Some("toml") => false,
            _ => bail!("{}: a description is a .json or a .toml file", path.display()),
        };
        let text = std::fs::read_to_string(&path);
        let text = text.with_context(|| format!("{}: cannot be read", path.display()))?;
        Ok(Self { path, text, json })
    }

    /// Path of the file, for messages.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Parses the file. Errors name the file, and line and column of the mistake.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T> {
        let parsed = match self.json {
            true => serde_json::from_str(&self.text).map_err(anyhow::Error::from),
            false => toml::from_str(&self.text).map_err(anyhow::Error::from),
        };
        parsed.with_context(|| self.name())
    }

    /// Whether the file has any of these fields.
    fn has(&self, fields: &[&str]) -> Result<bool> {
        if self.json {
            let value: serde_json::Value = self.parse()?;
            return Ok(fields.iter().any(|&field| value.get(field).is_some()));
        }
        let table: toml::Table = self.parse()?;
        Ok(fields.iter().any(|&field| table.contains_key(field)))
    }

    /// Whether the file is the config of a run: it has a section of one, and no field of a layered model.
    fn is_run(&self) -> Result<bool> {
        let sections = ["model", "topology", "placement", "train", "wire", "optimizer", "data", "checkpoint"];
        Ok(self.has(&sections)? && !self.has(&["type"])?)
    }
}
