//! Errors of the library as exceptions of Python, with the texts of the command line.

use pyo3::PyErr;
use pyo3::exceptions::PyException;
use std::fmt::Display;

pyo3::create_exception!(
    campanile,
    CampanileError,
    PyException,
    "What was asked for cannot be done. The text says what is wrong, and what to do about it."
);

/// An exception with this text.
pub fn refuse(problem: impl Display) -> PyErr {
    CampanileError::new_err(problem.to_string())
}

/// An exception with the text of an error and its causes, as the command line prints it.
pub fn of(error: &campanile::Error) -> PyErr {
    refuse(campanile::chain(error))
}
