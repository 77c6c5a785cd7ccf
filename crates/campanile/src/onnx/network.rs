//! From the blocks of a model to ONNX operations: the same list of blocks that training instantiates, one function for each kind.
//!
//! ```text
//! rows.FEATURE → Gather (→ pooling) → vectors → towers → blocks → Sigmoid → probability
//! ```

use super::graph::{GraphBuilder, Size, Value, int, ints};
use super::proto::ElementType;
use spec::feature::{Feature, Hotness};
use spec::model::{
    BlockName, BlockSource, CrossLayer, Layers, LinearLayer, Model, Parameter, Projected, Tower, TowerModule,
};
use spec::tensor_train::TensorTrain;
use spec::{Activation, Pooling};
use std::collections::HashMap;

/// Name of the input with the dense features.
pub const DENSE: &str = "dense";

/// Name of the input with the row numbers of a feature.
pub fn rows_input(feature: &str) -> String {
    format!("rows.{feature}")
}

/// Name of the input with the weights of a feature's ids.
pub fn weights_input(feature: &str) -> String {
    format!("weights.{feature}")
}

/// Names of the outputs: one probability for each label.
pub fn outputs(model: &Model) -> Vec<String> {
    match model.labels() {
        [] => vec!["probability".into()],
        labels => labels.iter().map(|label| format!("probability_{}", label.name)).collect(),
    }
}

/// Builds the operations of `model`. `element` says in which type the table of a feature is kept.
pub fn build(model: &Model, element: impl Fn(&str) -> ElementType) -> GraphBuilder {
    let mut graph = GraphBuilder::default();
    let batch = || Size::Free("batch".into());
    let dense = (model.dense_features() > 0).then(|| {
        let sizes = vec![batch(), Size::Fixed(model.dense_features())];
        let doc = "dense features after their transforms, in the order of the schema";
        graph.input(DENSE, ElementType::Float, sizes, doc)
    });
    let mut vectors = Vec::new();
    for (index, feature) in model.features().iter().enumerate() {
        let kept = match model.tensor_train(index) {
            Some(train) => Kept::Train(train, model.cores_of(index)),
            None => Kept::Rows(model.row_width(index), element(&feature.name)),
        };
        vectors.push(lookup(&mut graph, feature, &kept));
    }
    let sparse = match model.has_tower_modules() {
        true => model.towers().iter().map(|tower| tower_output(&mut graph, tower, model, &vectors)).collect(),
        false => vectors,
    };
    let logits = blocks(&mut graph, model, dense, sparse);
    let probabilities = graph.op("Sigmoid", &[&logits], vec![]);
    for (label, name) in outputs(model).iter().enumerate() {
        let column = graph.slice(&probabilities, label..label + 1, model.outputs());
        let flat = graph.reshape(&column, &[-1]);
        graph.output(flat, name, vec![batch()], "probability of the label, of each sample");
    }
    graph
}

/// What a model keeps of a table.
enum Kept {
    /// Rows of so many columns, in this type.
    Rows(usize, ElementType),
    /// The cores of a tensor train.
    Train(TensorTrain, Vec<Parameter>),
}

/// The pooled vector of each sample: one row of the table, or the rows of a bag.
fn lookup(graph: &mut GraphBuilder, feature: &Feature, kept: &Kept) -> Value {
    let Feature { name, rows, pooling, hotness, weighted, .. } = feature;
    let sizes = || match hotness {
        Hotness::One => vec![Size::Free("batch".into())],
        Hotness::Many { .. } => vec![Size::Free("batch".into()), Size::Free(format!("ids of {name}"))],
    };
    let doc = match hotness {
        Hotness::One => format!("row of the table of {name}, from 0 to {}", rows - 1),
        Hotness::Many { .. } => {
            format!(
                "rows of the table of {name}, from 0 to {}; bags shorter than the longest end in -1",
                rows - 1
            )
        }
    };
    let ids = graph.input(&rows_input(name), ElementType::Int64, sizes(), &doc);
    let weights = weighted.then(|| {
        let doc = format!("weight of each id of {name}; where there is no id it counts for nothing");
        graph.input(&weights_input(name), ElementType::Float, sizes(), &doc)
    });
    let gather = |graph: &mut GraphBuilder, ids: &Value| match kept {
        Kept::Train(train, cores) => multiply_out(graph, train, cores, ids),
        Kept::Rows(width, ElementType::Uint8) => decode(graph, name, [*rows, *width], ids),
        Kept::Rows(width, element) => {
            let table = graph.parameter(&format!("tables.{name}.weight"), vec![*rows, *width], *element);
            let found = graph.op("Gather", &[&table, ids], vec![int("axis", 0)]);
            match element {
                ElementType::Float => found,
                _ => graph.op("Cast", &[&found], vec![int("to", ElementType::Float as i64)]),
            }
        }
    };
    if *hotness == Hotness::One {
        let vector = gather(graph, &ids);
        return match weights {
            None => vector,
            Some(weights) => {
                let weights = graph.reshape(&weights, &[-1, 1]);
                graph.op("Mul", &[&vector, &weights], vec![])
            }
        };
    }
    // Where a bag has ended the first row is read, and counts for nothing.
    let (zero, one, axes) = (graph.integer(0), graph.float(1.0), graph.integers(&[1]));
    let present = graph.op("GreaterOrEqual", &[&ids, &zero], vec![]);
    let present = graph.op("Cast", &[&present], vec![int("to", ElementType::Float as i64)]);
    let safe = graph.op("Max", &[&ids, &zero], vec![]);
    let vectors = gather(graph, &safe);
    let factors = match &weights {
        None => present.clone(),
        Some(weights) => graph.op("Mul", &[&present, weights], vec![]),
    };
    let last = graph.integers(&[2]);
    let factors = graph.op("Unsqueeze", &[&factors, &last], vec![]);
    let weighted = graph.op("Mul", &[&vectors, &factors], vec![]);
    let pooled = graph.op("ReduceSum", &[&weighted, &axes], vec![int("keepdims", 0)]);
    match pooling {
        Pooling::Sum => pooled,
        Pooling::Mean => {
            let count = graph.op("ReduceSum", &[&present, &axes], vec![int("keepdims", 1)]);
            let count = graph.op("Max", &[&count, &one], vec![]);
            graph.op("Div", &[&pooled, &count], vec![])
        }
    }
}

/// Rows of a table of 8-bit codes: `minimum + scale · code`, with two roundings, as training computes it.
fn decode(graph: &mut GraphBuilder, feature: &str, shape: [usize; 2], ids: &Value) -> Value {
    let [codes, ranges] = graph.codes(&format!("tables.{feature}.weight"), shape);
    let [codes, ranges] = [codes, ranges].map(|of| graph.op("Gather", &[&of, ids], vec![int("axis", 0)]));
    let codes = graph.op("Cast", &[&codes], vec![int("to", ElementType::Float as i64)]);
    let last = graph.integers(&[-1]);
    let [scale, minimum] = [0, 1].map(|column| {
        let [start, end] = [column, column + 1].map(|at| graph.integers(&[at]));
        graph.op("Slice", &[&ranges, &start, &end, &last], vec![])
    });
    let scaled = graph.op("Mul", &[&codes, &scale], vec![]);
    graph.op("Add", &[&scaled, &minimum], vec![])
}

/// Rows of a tensor train, of its cores: digits of the row numbers, the slices that they name, and their products.
fn multiply_out(graph: &mut GraphBuilder, train: &TensorTrain, cores: &[Parameter], ids: &Value) -> Value {
    let ([a, b, c], rank) = (train.columns.map(|n| n as i64), train.rank as i64);
    let flat = graph.reshape(ids, &[-1]);
    let [second, third] = [1, 2].map(|digit| graph.integer(train.rows[digit] as i64));
    let above = graph.op("Div", &[&flat, &third], vec![]);
    let digits = [
        graph.op("Div", &[&above, &second], vec![]),
        graph.op("Mod", &[&above, &second], vec![]),
        graph.op("Mod", &[&flat, &third], vec![]),
    ];
    let shapes = [[-1, a, rank], [-1, rank, b * rank], [-1, c, rank]];
    let mut slices = Vec::new();
    for ((parameter, digit), shape) in cores.iter().zip(&digits).zip(&shapes) {
        let core = graph.parameter(&parameter.name, parameter.shape.clone(), ElementType::Float);
        let slice = graph.op("Gather", &[&core, digit], vec![int("axis", 0)]);
        slices.push(graph.reshape(&slice, shape));
    }
    let joined = graph.op("MatMul", &[&slices[0], &slices[1]], vec![]);
    let joined = graph.reshape(&joined, &[-1, a * b, rank]);
    let turned = graph.op("Transpose", &[&slices[2]], vec![ints("perm", &[0, 2, 1])]);
    let rows = graph.op("MatMul", &[&joined, &turned], vec![]);
    let rows = graph.reshape(&rows, &[-1, a * b * c]);
    let rows = graph.slice(&rows, 0..train.width, (a * b * c) as usize);
    // As many as there are ids, in the same order.
    let (shape, width) = (graph.op("Shape", &[ids], vec![]), graph.integers(&[train.width as i64]));
    let shape = graph.op("Concat", &[&shape, &width], vec![int("axis", 0)]);
    graph.op("Reshape", &[&rows, &shape], vec![])
}

/// Output of a tower over the vectors of its members.
fn tower_output(graph: &mut GraphBuilder, tower: &Tower, model: &Model, vectors: &[Value]) -> Value {
    let members: Vec<Value> = tower
        .members
        .iter()
        .map(|m| graph.slice(&vectors[m.feature], m.columns.clone(), model.row_width(m.feature)))
        .collect();
    let all_members = graph.concat(&members);
    match &tower.module {
        TowerModule::PassThrough => all_members,
        TowerModule::Projection { all, each } => {
            let mut parts: Vec<Value> = all.iter().map(|map| linear(graph, map, &all_members)).collect();
            match &each[..] {
                [] => {}
                // Members of one width are so many rows of one map.
                [map] => {
                    let rows = graph.reshape(&all_members, &[-1, map.inputs as i64]);
                    let mapped = linear(graph, map, &rows);
                    let width = map.outputs * tower.members.len();
                    parts.push(graph.reshape(&mapped, &[-1, width as i64]));
                }
                several => {
                    for (member, value) in tower.members.iter().zip(&members) {
                        let map = several.iter().find(|map| map.inputs == member.columns.len());
                        parts.extend(map.map(|map| linear(graph, map, value)));
                    }
                }
            }
            graph.concat(&parts)
        }
        TowerModule::Cross { layer, map } => {
            let crossed = cross(graph, layer, &all_members, &all_members);
            map.as_ref().map_or(crossed.clone(), |map| linear(graph, map, &crossed))
        }
    }
}

/// Carries out the blocks of the network, and gives the output of the last.
fn blocks(graph: &mut GraphBuilder, model: &Model, dense: Option<Value>, sparse: Vec<Value>) -> Value {
    let network = model.network();
    let mut done: HashMap<BlockName, Value> = HashMap::new();
    // The output of the leading block, and behind it the columns of the sparse features.
    let mut features = None;
    let mut last = Value::default();
    for block in network.blocks() {
        let mut parts = Vec::new();
        for read in network.reads(block) {
            let from = match read.from {
                BlockSource::Dense => dense.clone().unwrap_or_default(),
                BlockSource::Output(name) => done.get(&name).cloned().unwrap_or_default(),
                BlockSource::Features => features
                    .get_or_insert_with(|| {
                        let leading = network.leading().and_then(|block| done.get(&block.name));
                        let all: Vec<Value> = leading.into_iter().chain(&sparse).cloned().collect();
                        graph.concat(&all)
                    })
                    .clone(),
            };
            parts.push(graph.columns(&from, &read.columns, network.width(read.from)));
        }
        last = match &block.layers {
            Layers::Sum { .. } => graph.sum(&parts),
            layers => {
                let input = graph.concat(&parts);
                layer(graph, layers, input)
            }
        };
        done.insert(block.name, last.clone());
    }
    last
}

/// The layers of one block over their joined input.
fn layer(graph: &mut GraphBuilder, layers: &Layers, input: Value) -> Value {
    match layers {
        Layers::Mlp(layers) => layers.iter().fold(input, |x, map| linear(graph, map, &x)),
        Layers::Dot { vectors, dim } => dot(graph, &input, *vectors, *dim),
        Layers::Cross { layers, .. } => {
            layers.iter().fold(input.clone(), |x, map| cross(graph, map, &input, &x))
        }
        Layers::Fm { vectors, dim } => factorization_machine(graph, &input, *vectors, *dim),
        Layers::Project(parts) => {
            let width = layers.input_width();
            let mut start = 0;
            let mapped: Vec<Value> = parts
                .iter()
                .map(|part| {
                    let columns = start..start + part.input_width();
                    start = columns.end;
                    let value = graph.slice(&input, columns, width);
                    match part {
                        Projected::Unchanged(_) => value,
                        Projected::Mapped(map) => linear(graph, map, &value),
                    }
                })
                .collect();
            graph.concat(&mapped)
        }
        Layers::Sum { .. } => input,
    }
}

/// `act(x·Wᵀ + b)`.
fn linear(graph: &mut GraphBuilder, map: &LinearLayer, x: &Value) -> Value {
    let bias = map.bias.then(|| format!("{}.bias", map.name));
    let y = product(graph, &format!("{}.weight", map.name), bias.as_deref(), map, x);
    match map.activation {
        Activation::Identity => y,
        Activation::Relu => graph.op("Relu", &[&y], vec![]),
    }
}

/// `x·Wᵀ + b`, with the names of the parameters.
fn product(
    graph: &mut GraphBuilder,
    weight: &str,
    bias: Option<&str>,
    map: &LinearLayer,
    x: &Value,
) -> Value {
    let weight = graph.parameter(weight, vec![map.outputs, map.inputs], ElementType::Float);
    let bias = bias.map(|name| graph.parameter(name, vec![map.outputs], ElementType::Float));
    let inputs: Vec<&Value> = [x, &weight].into_iter().chain(&bias).collect();
    graph.op("Gemm", &inputs, vec![int("transB", 1)])
}

/// `x₀ ⊙ (W·(V·x) + b) + x`.
fn cross(graph: &mut GraphBuilder, layer: &CrossLayer, x0: &Value, x: &Value) -> Value {
    let low = layer.v.as_ref().map(|v| product(graph, &v.name, None, v, x));
    let z = product(graph, &layer.w.name, Some(&layer.bias), &layer.w, low.as_ref().unwrap_or(x));
    let crossed = graph.op("Mul", &[x0, &z], vec![]);
    graph.op("Add", &[&crossed, x], vec![])
}

/// `[v₀, ⟨vᵢ, vⱼ⟩ for i = 1, 2, … and j < i]`.
fn dot(graph: &mut GraphBuilder, x: &Value, vectors: usize, dim: usize) -> Value {
    let first = graph.slice(x, 0..dim, vectors * dim);
    if vectors < 2 {
        return first;
    }
    let v = graph.reshape(x, &[-1, vectors as i64, dim as i64]);
    let turned = graph.op("Transpose", &[&v], vec![ints("perm", &[0, 2, 1])]);
    let products = graph.op("MatMul", &[&v, &turned], vec![]);
    let products = graph.reshape(&products, &[-1, (vectors * vectors) as i64]);
    let pairs: Vec<i64> = (1..vectors).flat_map(|i| (0..i).map(move |j| (i * vectors + j) as i64)).collect();
    let pairs = graph.integers(&pairs);
    let pairs = graph.op("Gather", &[&products, &pairs], vec![int("axis", 1)]);
    graph.concat(&[first, pairs])
}

/// `Σ_f w_f + ½ Σ_d ((Σ_f v_fd)² − Σ_f v_fd²)`, where the weight of a vector is its last column.
fn factorization_machine(graph: &mut GraphBuilder, x: &Value, vectors: usize, dim: usize) -> Value {
    let rows = graph.reshape(x, &[-1, vectors as i64, dim as i64 + 1]);
    let (zero, end, all, axis) = (
        graph.integers(&[0]),
        graph.integers(&[dim as i64]),
        graph.integers(&[dim as i64 + 1]),
        graph.integers(&[2]),
    );
    let v = graph.op("Slice", &[&rows, &zero, &end, &axis], vec![]);
    let w = graph.op("Slice", &[&rows, &end, &all, &axis], vec![]);
    let (one, both) = (graph.integers(&[1]), graph.integers(&[1, 2]));
    let linear = graph.op("ReduceSum", &[&w, &both], vec![int("keepdims", 0)]);
    let sum = graph.op("ReduceSum", &[&v, &one], vec![int("keepdims", 0)]);
    let squared_sum = graph.op("Mul", &[&sum, &sum], vec![]);
    let squares = graph.op("Mul", &[&v, &v], vec![]);
    let sum_of_squares = graph.op("ReduceSum", &[&squares, &one], vec![int("keepdims", 0)]);
    let difference = graph.op("Sub", &[&squared_sum, &sum_of_squares], vec![]);
    let twice = graph.op("ReduceSum", &[&difference, &one], vec![int("keepdims", 0)]);
    let half = graph.float(0.5);
    let pairs = graph.op("Mul", &[&twice, &half], vec![]);
    let total = graph.op("Add", &[&linear, &pairs], vec![]);
    graph.reshape(&total, &[-1, 1])
}
