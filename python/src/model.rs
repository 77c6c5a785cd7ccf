//! What can be done with a trained model: predict, evaluate, embeddings, rows, exports.

use crate::attend::attended;
use crate::error::{of, refuse};
use crate::table::Table;
use campanile::checkpoint::{SavedRun, locate_to_use, open_to_use};
use campanile::export::Export;
use campanile::scoring::Samples;
use campanile::{Control, Evaluation, ModelRows, Numbers, Prediction, Use};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyList};
use spec::feature::Feature;
use spec::run::DataFormat;
use spec::tensor_train::TensorTrain;
use std::path::{Path, PathBuf};
use training::checkpoint::{Checkpoint, Contents};

/// Data as the package hands it over: paths, or a table.
#[derive(FromPyObject)]
pub enum Data<'py> {
    /// A table in memory.
    Table(Bound<'py, Table>),
    /// Files.
    Paths(Vec<String>),
}

impl Data<'_> {
    /// Samples to score.
    fn samples(&self) -> Samples {
        match self {
            Data::Table(table) => Samples::default().with_table(table.get().inner.clone()),
            Data::Paths(paths) => Samples { data: paths.clone(), ..Samples::default() },
        }
    }
}

/// A number of hosts, a format by name and so on, as keywords.
fn completed(samples: Samples, format: Option<&str>, which: Option<&str>) -> PyResult<Samples> {
    let format = format.map(str::parse::<DataFormat>).transpose().map_err(refuse)?;
    Ok(Samples { format: format.or(samples.format), which: chosen(which)?, ..samples })
}

fn chosen(which: Option<&str>) -> PyResult<Option<Use>> {
    which.map(str::parse::<Use>).transpose().map_err(refuse)
}

/// Probabilities of all rows, the number of them for each row, and the first bad rows with their number.
#[pyfunction]
#[pyo3(signature = (folder, data, *, format=None, which=None, progress=None))]
pub fn predict<'py>(
    py: Python<'py>,
    folder: PathBuf,
    data: Data<'py>,
    format: Option<&str>,
    which: Option<&str>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyByteArray>, u64, u64, Vec<String>)> {
    let samples = completed(data.samples(), format, which)?;
    let prediction = Prediction::on(folder, samples);
    let (predicted, probabilities) =
        attended(py, progress.as_ref(), |control, _| prediction.control(control).probabilities()).whole()?;
    let bytes: Vec<u8> = py.detach(|| probabilities.iter().flat_map(|p| p.to_le_bytes()).collect());
    let bad = predicted.rows - predicted.scored;
    Ok((PyByteArray::new(py, &bytes), predicted.rows, bad, predicted.first_bad))
}

/// Metrics on labelled data, as JSON.
#[pyfunction]
#[pyo3(signature = (folder, data=None, *, format=None, which=None, group=None, slices=vec![], progress=None))]
#[allow(clippy::too_many_arguments)]
pub fn evaluate(
    py: Python<'_>,
    folder: PathBuf,
    data: Option<Data<'_>>,
    format: Option<&str>,
    which: Option<&str>,
    group: Option<String>,
    slices: Vec<String>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<String> {
    let samples = data.as_ref().map_or(Samples::default(), Data::samples);
    let samples = Samples { group, slices, ..completed(samples, format, which)? };
    let evaluation = Evaluation::on(folder, samples);
    let evaluated =
        attended(py, progress.as_ref(), |control, _| evaluation.control(control).run()).whole()?;
    Ok(campanile::summary::of_evaluation(&evaluated).to_string())
}

/// Name, columns (0 for one number a row), whether the numbers are floats, and the numbers themselves, of each input of the model.
#[pyfunction]
#[pyo3(signature = (folder, data, *, format=None, which=None, progress=None))]
pub fn rows<'py>(
    py: Python<'py>,
    folder: PathBuf,
    data: Data<'py>,
    format: Option<&str>,
    which: Option<&str>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let samples = Samples { strict: true, ..completed(data.samples(), format, which)? };
    let rows = ModelRows::on(folder, samples);
    let (tensors, bytes) = attended(py, progress.as_ref(), |control, _| {
        let mut open = rows.control(control).open()?;
        let mut bytes: Vec<Vec<u8>> = vec![Vec::new(); open.tensors.len()];
        open.for_each(&mut |block| {
            for (bytes, numbers) in bytes.iter_mut().zip(&block.numbers) {
                match numbers {
                    Numbers::Rows(rows) => bytes.extend(rows.iter().flat_map(|row| row.to_le_bytes())),
                    Numbers::Floats(floats) => {
                        bytes.extend(floats.iter().flat_map(|float| float.to_le_bytes()))
                    }
                }
            }
            Ok(())
        })?;
        Ok((open.tensors, bytes))
    })
    .whole()?;
    let all = PyList::empty(py);
    for (tensor, bytes) in tensors.iter().zip(&bytes) {
        let width = tensor.width.unwrap_or(0);
        all.append((&tensor.name, width, tensor.floats, PyByteArray::new(py, bytes)))?;
    }
    Ok(all)
}

/// Opens the checkpoint that would be used, without reading its numbers.
fn opened(folder: &Path, which: Option<&str>) -> PyResult<Checkpoint> {
    let found = locate_to_use(folder, chosen(which)?).map_err(|error| of(&error.into()))?;
    Checkpoint::open(found.0).map_err(|error| of(&error.into()))
}

/// What a checkpoint holds, as JSON: step, digest, tensors, the run's config, and the model as a list of blocks.
#[pyfunction]
#[pyo3(signature = (folder, which=None))]
pub fn describe(folder: PathBuf, which: Option<&str>) -> PyResult<String> {
    let checkpoint = opened(&folder, which)?;
    let model = campanile::onnx::model_of(&checkpoint).map_err(|error| of(&error))?;
    let saved = SavedRun::of(&checkpoint).map_err(|error| of(&error.into()))?;
    let manifest = checkpoint.manifest();
    let tensors: Vec<_> = checkpoint
        .tensors()
        .map(|(name, shape)| serde_json::json!({ "name": name, "shape": shape }))
        .collect();
    let tensor_trains: serde_json::Map<_, _> = model
        .tensor_trains()
        .map(|(feature, TensorTrain { width, rows, columns, rank })| {
            let Feature { name, rows: table_rows, .. } = &model.features()[feature];
            let train = serde_json::json!({
                "table_rows": table_rows, "width": width, "rows": rows, "columns": columns, "rank": rank,
            });
            (name.clone(), train)
        })
        .collect();
    Ok(serde_json::json!({
        "path": checkpoint.path(),
        "step": manifest.step,
        "parameters_sha256": manifest.parameters_sha256,
        "parameters": model.parameters(),
        "kind": model.kind(),
        "features": model.features(),
        "dense_features": model.dense_features(),
        "tensors": tensors,
        "tensor_trains": tensor_trains,
        "config": saved.config,
        "model": model,
    })
    .to_string())
}

/// Numbers of a tensor of a checkpoint whose files are whole: its shape, and f32 in the order of its rows.
#[pyfunction]
#[pyo3(signature = (folder, name, which=None))]
pub fn tensor<'py>(
    py: Python<'py>,
    folder: PathBuf,
    name: &str,
    which: Option<&str>,
) -> PyResult<(Vec<usize>, Bound<'py, PyByteArray>)> {
    let which = chosen(which)?;
    let read = || -> Result<_, campanile::Error> {
        let checkpoint = open_to_use(&folder, which, &Control::default())?.checkpoint;
        let shape = checkpoint.tensors().find(|(known, _)| *known == name).map(|(_, shape)| shape.to_vec());
        let Some(shape) = shape else { return Ok(None) };
        let (&rows, rest) = shape.split_first().unwrap_or((&1, &[]));
        let columns: usize = rest.iter().product();
        let mut numbers = vec![0f32; rows * columns];
        checkpoint.read_rows(name, 0..rows, 0..columns, &mut numbers)?;
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        Ok(Some((shape, bytes)))
    };
    match py.detach(read).map_err(|error| of(&error))? {
        Some((shape, bytes)) => Ok((shape, PyByteArray::new(py, &bytes))),
        None => Err(refuse(format!("the checkpoint has no tensor {name}"))),
    }
}

/// Writes the model for other programs, and returns the files.
#[pyfunction]
#[pyo3(signature = (folder, out, *, onnx, external_data=false, force=false, which=None))]
pub fn export(
    py: Python<'_>,
    folder: PathBuf,
    out: PathBuf,
    onnx: bool,
    external_data: bool,
    force: bool,
    which: Option<&str>,
) -> PyResult<Vec<PathBuf>> {
    let which = chosen(which)?;
    let exported = attended(py, None, |control, _| {
        let export = match onnx {
            true => Export::check_onnx(&folder, which, &out, force, external_data)?,
            false => Export::check(&folder, which, &out, force)?,
        };
        export.write(Contents::Parameters, &control)
    })
    .whole()?;
    let mut files = vec![out];
    files.extend(exported.data);
    files.extend(exported.inputs);
    files.extend(exported.ids);
    Ok(files)
}

/// Writes the rows of one table with their ids to a file.
#[pyfunction]
#[pyo3(signature = (folder, feature, out, *, which=None))]
pub fn write_embedding(
    py: Python<'_>,
    folder: PathBuf,
    feature: String,
    out: PathBuf,
    which: Option<&str>,
) -> PyResult<bool> {
    let which = chosen(which)?;
    let written = attended(py, None, |control, _| {
        campanile::Embeddings::of(folder, feature).which(which).control(control).to(out)
    });
    Ok(written.whole()?.with_ids)
}
