//! The Python package `campanile`: conversions between Python's values and those of the library, and nothing else.
//!
//! What people import is `python/campanile`; this is its `_campanile`. Results cross as JSON or as bytes.
#![deny(unsafe_code)]

mod attend;
mod error;
mod model;
mod objects;
mod run;
mod table;

use attend::attended;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};

/// Answers a question of the command line: JSON, and a page.
#[pyfunction]
fn answer(py: Python<'_>, arguments: Vec<String>) -> PyResult<(String, String)> {
    let refused = Arc::new(Mutex::new(None));
    let kept = refused.clone();
    let answered = attended(py, None, move |_, stop| {
        Ok(match campanile_cli::answer(&arguments, stop) {
            Ok(answer) => Some((answer.json.to_string(), answer.html)),
            Err(error) => {
                if let Ok(mut kept) = kept.lock() {
                    *kept = Some(format!("{error:#}"));
                }
                None
            }
        })
    });
    match answered.whole()? {
        Some(answer) => Ok(answer),
        None => {
            let told = refused.lock().ok().and_then(|mut told| told.take());
            Err(error::refuse(told.unwrap_or_else(|| "there is no answer".into())))
        }
    }
}

#[pymodule]
fn _campanile(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("CampanileError", module.py().get_type::<error::CampanileError>())?;
    module.add_class::<table::Table>()?;
    module.add_function(wrap_pyfunction!(run::train, module)?)?;
    module.add_function(wrap_pyfunction!(run::resume, module)?)?;
    module.add_function(wrap_pyfunction!(model::predict, module)?)?;
    module.add_function(wrap_pyfunction!(model::evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(model::rows, module)?)?;
    module.add_function(wrap_pyfunction!(model::describe, module)?)?;
    module.add_function(wrap_pyfunction!(model::tensor, module)?)?;
    module.add_function(wrap_pyfunction!(model::export, module)?)?;
    module.add_function(wrap_pyfunction!(model::write_embedding, module)?)?;
    module.add_function(wrap_pyfunction!(answer, module)?)?;
    Ok(())
}
