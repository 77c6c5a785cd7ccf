//! Whether a checkpoint holds the tensors of the model that it says it is of: every parameter with its shape, what the
//! optimizers keep of it, and nothing else. Names are those of `checkpoint::state`.

use crate::checkpoint::slices::Slices;
use crate::checkpoint::state::{ERRORS, dense_state, table_state_name, table_weight};
use crate::checkpoint::{Checkpoint, CheckpointError};
use spec::model::Model;
use spec::optimizer::UpdateRule;
use std::collections::BTreeMap;

/// Refuses a checkpoint that is not of `model`, trained with the rule `dense` for its dense layers and `tables` for its
/// tables. Shapes are compared, data is not read.
pub fn check_contents(
    checkpoint: &Checkpoint,
    model: &Model,
    dense: &UpdateRule,
    tables: &UpdateRule,
) -> Result<(), CheckpointError> {
    let refuse = |problem: String| CheckpointError::malformed(checkpoint.path(), problem);
    let expected = expected(model, dense, tables);
    let mut there: BTreeMap<&str, &[usize]> = checkpoint.tensors().collect();
    for (name, shape) in &expected {
        let Some(got) = there.remove(name.as_str()) else {
            // A table whose columns are cut may have one number for every slice of a row.
            if let Some(name) = sliced(name, shape, model, &there) {
                there.remove(name.as_str());
                continue;
            }
            return Err(refuse(format!("no tensor {name}, which the run in its manifest has")));
        };
        if got != shape {
            let problem = format!(
                "tensor {name} has the shape {got:?}, but {shape:?} according to the run in the manifest"
            );
            return Err(refuse(problem));
        }
    }
    // Errors that ranks carry depend on the cluster, and are taken up by name.
    match there.keys().find(|name| !name.starts_with(ERRORS)) {
        Some(name) => Err(refuse(format!("tensor {name} is none of the run in its manifest"))),
        None => Ok(()),
    }
}

/// The tensors of a model, by name, with their shapes.
fn expected(model: &Model, dense: &UpdateRule, tables: &UpdateRule) -> Vec<(String, Vec<usize>)> {
    let mut expected = Vec::new();
    for (f, feature) in model.features().iter().enumerate() {
        if model.tensor_train(f).is_some() {
            continue;
        }
        let width = model.row_width(f);
        expected.push((table_weight(&feature.name), vec![feature.rows, width]));
        let kept = tables.state_per_row(width);
        if kept > 0 {
            expected.push((table_state_name(&feature.name), vec![feature.rows, kept]));
        }
    }
    for parameter in model.dense_parameter_list() {
        let state = (0..dense.state_per_row(1)).map(|i| dense_state(&parameter.name, i));
        let names: Vec<String> = std::iter::once(parameter.name.clone()).chain(state).collect();
        expected.extend(names.into_iter().map(|name| (name, parameter.shape.clone())));
    }
    expected
}

/// The tensor that stands for `name` where the columns of the table are cut into slices.
fn sliced(name: &str, shape: &[usize], model: &Model, there: &BTreeMap<&str, &[usize]>) -> Option<String> {
    let feature = model.features().iter().position(|feature| table_state_name(&feature.name) == name)?;
    let of_slices = |(found, got): (&&str, &&[usize])| {
        let slices = Slices::parse(found.strip_prefix(name)?, model.row_width(feature))?;
        (**got == [shape[0], slices.count()]).then(|| (*found).to_owned())
    };
    there.iter().find_map(of_slices)
}
