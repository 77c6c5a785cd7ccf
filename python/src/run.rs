//! Training: a new run, and one that goes on.

use crate::attend::{Attended, attended};
use crate::error::{of, refuse};
use crate::model::Data;
use campanile::{Config, Control, Error, Trained, Training};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::path::PathBuf;

/// A config: the path of a TOML file, or its keys as JSON.
fn config(path: Option<PathBuf>, json: Option<&str>) -> PyResult<Config> {
    match (path, json) {
        (Some(path), _) => campanile::file::read_config(&path).map_err(|error| of(&error.into())),
        (None, Some(json)) => serde_json::from_str(json).map_err(|error| {
            // Where in the JSON means nothing to whoever wrote a dict.
            let text = error.to_string();
            let told = text.rsplit_once(" at line ").map_or(text.as_str(), |(told, _)| told);
            refuse(format!("the config: {told}; see docs/reference/config.md for its keys"))
        }),
        (None, None) => Ok(Config::default()),
    }
}

/// Trains a run in the folder `out`, and returns its summary as JSON.
#[pyfunction]
#[pyo3(signature = (out, *, config_path=None, config_json=None, data=None, eval=None, label=None, progress=None))]
#[allow(clippy::too_many_arguments)]
pub fn train(
    py: Python<'_>,
    out: PathBuf,
    config_path: Option<PathBuf>,
    config_json: Option<&str>,
    data: Option<Data<'_>>,
    eval: Option<Data<'_>>,
    label: Option<String>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let config = config(config_path, config_json)?;
    let (data, eval) = (data.as_ref().map(Source::of), eval.as_ref().map(Source::of));
    let kept = out.clone();
    let trained = attended(py, progress.as_ref(), |control, _| {
        let mut training = Training::new(config).control(control).out(kept);
        if let Some(label) = label {
            training = training.label(label);
        }
        match data {
            None => {}
            Some(Source::Table(table)) => training = training.table(table)?,
            Some(Source::Paths(paths)) => {
                for path in paths {
                    training = training.data(path)?;
                }
            }
        }
        match eval {
            None => {}
            Some(Source::Table(table)) => training = training.evaluate_on_table(table),
            Some(Source::Paths(paths)) => {
                for path in paths {
                    training = training.evaluate_on(path)?;
                }
            }
        }
        run(training)
    });
    summary(trained, &out)
}

/// Goes on with the run in `folder`, and returns its summary as JSON.
#[pyfunction]
#[pyo3(signature = (folder, *, progress=None))]
pub fn resume(py: Python<'_>, folder: PathBuf, progress: Option<Bound<'_, PyAny>>) -> PyResult<String> {
    let from = folder.clone();
    let trained =
        attended(py, progress.as_ref(), |control: Control, _| run(Training::resume(from)?.control(control)));
    summary(trained, &folder)
}

/// Data that needs no lock of the interpreter.
enum Source {
    Table(std::sync::Arc<data::Table>),
    Paths(Vec<String>),
}

impl Source {
    fn of(data: &Data<'_>) -> Self {
        match data {
            Data::Table(table) => Self::Table(table.get().inner.clone()),
            Data::Paths(paths) => Self::Paths(paths.clone()),
        }
    }
}

/// Trains. Results that could not be kept are worth more than the reason.
fn run(training: Training) -> Result<Trained, Error> {
    match training.run() {
        Err(Error::NotKept { source, .. }) => Err(*source),
        trained => trained,
    }
}

fn summary(attended: Attended<Trained>, folder: &std::path::Path) -> PyResult<String> {
    match (attended.interrupted, attended.result) {
        (None, result) => {
            let Trained { run, outcome, warm_start, .. } = result?;
            Ok(campanile::summary::to_json(&run, &outcome, warm_start.as_ref()).to_string())
        }
        (Some(interrupted), Err(_)) => Err(interrupted),
        (Some(interrupted), Ok(trained)) => Python::attach(|py| {
            let steps = trained.outcome.steps;
            let told = format!(
                "stopped after step {steps}; the state is saved in {0}, go on with campanile.resume({0:?})",
                folder.display().to_string()
            );
            if interrupted.is_instance_of::<PyKeyboardInterrupt>(py) {
                return Err(PyKeyboardInterrupt::new_err(told));
            }
            // An exception of the callback stays what it is, with a note on the state.
            let _ = interrupted.value(py).call_method1("add_note", (told,));
            Err(interrupted)
        }),
    }
}
