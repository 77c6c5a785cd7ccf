//! A trained model as an ONNX file, for onnxruntime and other programs that serve models.
//!
//! ```text
//! inputs    dense             float  batch × dense features, after the transforms of the schema
//!           rows.FEATURE      int64  batch: the row of the feature's table
//!                                    batch × ids, for features with many ids; shorter bags end in −1
//!           weights.FEATURE   float  the same shape, for features with weights
//! outputs   probability       float  batch; probability_LABEL for each label of a model with several
//! ```
//!
//! ONNX cannot hash ids, so that row numbers are inputs: [`ModelRows`](crate::ModelRows) makes them from a log, under these names.
//! Tables of 16 bits stay as they are, and are widened after the lookup. Tables of int8 are their codes, with
//! `tables.FEATURE.weight.ranges` for scale and minimum of each row; where a table was cut by columns, whose parts have scales of
//! their own, they are f32. Tensor trains are their cores, which are multiplied for each row. All other numbers are f32. What is
//! written goes from the checkpoint to the file a megabyte at a time. A file holds at most 2 GiB, the most that readers of the format
//! accept; the weights of larger models lie in a second file, `model.onnx.data`, each at a multiple of 4096 bytes.

mod graph;
mod network;
mod proto;
mod weights;

pub use network::{DENSE, rows_input, weights_input};

use crate::Error;
use crate::checkpoint::{OpenError, SavedRun};
use crate::output::{Output, OutputError};
use graph::Parameter;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use proto::{ElementType, Entry, OperatorSet, Tensor};
use spec::model::Model;
use spec::table_format::TableFormat;
use std::io::Write;
use std::path::PathBuf;
use training::checkpoint::{Checkpoint, CheckpointError};
use weights::write_numbers;

/// The most bytes of weights that go into the file of the model itself: a message of protobuf has less than 2 GiB.
const ONE_FILE: u64 = (2 << 30) - (64 << 20);
/// Weights in a file of their own begin at multiples of this many bytes, so that they can be mapped into memory.
const ALIGNMENT: u64 = 4096;

/// The files of an ONNX model.
pub(crate) struct OnnxFiles<'a> {
    /// File of the model.
    pub model: &'a Output,
    /// File of the weights; `None` where they are in that of the model.
    pub data: Option<&'a Output>,
}

/// Where the weights of a model lie: beside it, or in one file with it.
pub(crate) fn data_file(
    checkpoint: &Checkpoint,
    out: &std::path::Path,
    apart: bool,
) -> Result<Option<PathBuf>, Error> {
    let mut name = out.as_os_str().to_owned();
    name.push(".data");
    let bytes: u64 = parameters_of(checkpoint)?.1.iter().map(Parameter::bytes).sum();
    Ok((apart || bytes > ONE_FILE).then(|| name.into()))
}

/// The model of a checkpoint.
pub fn model_of(checkpoint: &Checkpoint) -> Result<Model, Error> {
    let config = SavedRun::of(checkpoint)?.config;
    let refuse = |error: spec::run::RunError| CheckpointError::Malformed {
        path: checkpoint.path().to_owned(),
        problem: format!("the description of the run in the manifest is not valid: {error}"),
    };
    Ok(config.model.check(None).map_err(refuse).map_err(OpenError::from)?)
}

fn parameters_of(checkpoint: &Checkpoint) -> Result<(proto::Graph, Vec<Parameter>), Error> {
    let model = model_of(checkpoint)?;
    let element = |feature: &str| {
        let name = format!("tables.{feature}.weight");
        match checkpoint.format(&name) {
            TableFormat::F16 => ElementType::Float16,
            TableFormat::Bf16 => ElementType::Bfloat16,
            TableFormat::Int8 if has_whole_rows(checkpoint, &name) => ElementType::Uint8,
            TableFormat::Int8 | TableFormat::F32 => ElementType::Float,
        }
    };
    Ok(network::build(&model, element).finish(model.kind()))
}

/// Whether every row of a table of int8 has one scale, as it has unless the table was cut by columns.
fn has_whole_rows(checkpoint: &Checkpoint, table: &str) -> bool {
    let shape = checkpoint.tensors().find(|(name, _)| *name == table).map(|(_, shape)| shape);
    matches!(shape, Some(&[_, width]) if checkpoint.is_stored_as(table, &(0..width), TableFormat::Int8))
}

/// Writes the model of `checkpoint`, whose data was verified.
pub(crate) fn write(checkpoint: &Checkpoint, files: &OnnxFiles) -> Result<(), Error> {
    let (graph, parameters) = parameters_of(checkpoint)?;
    let shell = proto::Model {
        ir_version: proto::IR_VERSION,
        producer_name: "campanile".into(),
        producer_version: env!("CARGO_PKG_VERSION").into(),
        doc_string: "row numbers of ids are inputs: `campanile data rows` makes them from a log".into(),
        graph: None,
        opset_import: vec![OperatorSet { domain: String::new(), version: proto::OPSET }],
        metadata_props: vec![Entry { key: "step".into(), value: checkpoint.manifest().step.to_string() }],
    };
    let location = files.data.map(file_name);
    let mut at = 0;
    let heads: Vec<Vec<u8>> = parameters
        .iter()
        .map(|parameter| head(parameter, location.as_deref().map(|file| (file, aligned(&mut at, parameter)))))
        .collect();
    let inside = |p: &Parameter| if files.data.is_some() { 0 } else { raw_field(p) };
    let mut opened = graph.encode_to_vec();
    let tensors: u64 = parameters
        .iter()
        .zip(&heads)
        .map(|(parameter, head)| {
            let length = head.len() as u64 + inside(parameter);
            field_head(proto::INITIALIZER_FIELD, length).len() as u64 + length
        })
        .sum();
    let mut start = shell.encode_to_vec();
    start.extend(field_head(proto::GRAPH_FIELD, opened.len() as u64 + tensors));
    start.append(&mut opened);
    if let Some(data) = files.data {
        write_data(checkpoint, &parameters, data)?;
    }
    let refuse = cannot_write(files.model);
    let mut out = files.model.create()?;
    out.write_all(&start).map_err(&refuse)?;
    for (parameter, head) in parameters.iter().zip(&heads) {
        let length = head.len() as u64 + inside(parameter);
        out.write_all(&field_head(proto::INITIALIZER_FIELD, length)).map_err(&refuse)?;
        out.write_all(head).map_err(&refuse)?;
        if files.data.is_none() {
            out.write_all(&field_head(proto::RAW_DATA_FIELD, parameter.bytes())).map_err(&refuse)?;
            write_numbers(checkpoint, parameter, &mut out, &refuse)?;
        }
    }
    Ok(out.finish()?)
}

/// Writes the numbers of all parameters into a file of their own.
fn write_data(checkpoint: &Checkpoint, parameters: &[Parameter], data: &Output) -> Result<(), Error> {
    let refuse = cannot_write(data);
    let (mut out, mut at, mut written) = (data.create()?, 0, 0u64);
    for parameter in parameters {
        let start = aligned(&mut at, parameter);
        out.write_all(&vec![0; (start - written) as usize]).map_err(&refuse)?;
        write_numbers(checkpoint, parameter, &mut out, &refuse)?;
        written = start + parameter.bytes();
    }
    Ok(out.finish()?)
}

/// Place of the next parameter in the file of weights; `at` is moved behind it.
fn aligned(at: &mut u64, parameter: &Parameter) -> u64 {
    let start = at.next_multiple_of(ALIGNMENT);
    *at = start + parameter.bytes();
    start
}

/// An initialiser without its numbers, and where they are if they lie apart.
fn head(parameter: &Parameter, apart: Option<(&str, u64)>) -> Vec<u8> {
    let entry = |key: &str, value: String| Entry { key: key.into(), value };
    let mut tensor = Tensor {
        dims: parameter.shape.iter().map(|&n| n as i64).collect(),
        data_type: parameter.element as i32,
        name: parameter.name.clone(),
        ..Tensor::default()
    };
    if let Some((file, offset)) = apart {
        tensor.external_data = vec![
            entry("location", file.into()),
            entry("offset", offset.to_string()),
            entry("length", parameter.bytes().to_string()),
        ];
        tensor.data_location = 1;
    }
    tensor.encode_to_vec()
}

/// Bytes of a parameter's numbers as a field of its tensor.
fn raw_field(parameter: &Parameter) -> u64 {
    field_head(proto::RAW_DATA_FIELD, parameter.bytes()).len() as u64 + parameter.bytes()
}

/// Beginning of a field of `length` bytes.
fn field_head(field: u32, length: u64) -> Vec<u8> {
    let mut head = Vec::new();
    encode_key(field, WireType::LengthDelimited, &mut head);
    encode_varint(length, &mut head);
    head
}

fn file_name(output: &Output) -> String {
    output.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn cannot_write(output: &Output) -> impl Fn(std::io::Error) -> Error + '_ {
    |source| OutputError::Write { path: output.path().to_owned(), source }.into()
}

#[cfg(test)]
mod tests;
