//! The graph of small models, looked into without a runtime.

use super::graph::{Numbers, Parameter};
use super::network::build;
use super::proto::{ElementType, Graph};
use super::{aligned, field_head};
use prost::Message;
use spec::Pooling;
use spec::feature::{Feature, Hotness};
use spec::model::{Architecture, Model};
use std::collections::HashSet;

fn feature(name: &str, hotness: Hotness, weighted: bool) -> Feature {
    let (name, pooling) = (name.to_owned(), Pooling::Mean);
    Feature {
        name,
        rows: 10,
        pooling,
        hotness,
        weighted,
        dim: None,
        format: None,
        cache: None,
        tt_rank: None,
    }
}

fn graph_of(model: &Model) -> (Graph, Vec<Parameter>) {
    graph_with(model, ElementType::Float16)
}

/// The graph of a model whose table of `b` is kept in this type.
fn graph_with(model: &Model, element: ElementType) -> (Graph, Vec<Parameter>) {
    build(model, |name| if name == "b" { element } else { ElementType::Float }).finish("test")
}

fn dlrm() -> Model {
    let features = vec![feature("a", Hotness::One, false), feature("b", Hotness::Many { mean: 3 }, true)];
    Model::new(features, 3, 4, Architecture::Dlrm { bottom: vec![8, 4], top: vec![5, 1] }).unwrap()
}

#[test]
fn every_value_is_made_before_it_is_read() {
    let deepfm =
        Model::new(dlrm().features().to_vec(), 3, 4, Architecture::DeepFm { deep: vec![5, 1] }).unwrap();
    for (model, element) in [dlrm(), deepfm].iter().zip([ElementType::Float16, ElementType::Uint8]) {
        let (graph, parameters) = graph_with(model, element);
        let mut known: HashSet<&str> = graph.input.iter().map(|input| input.name.as_str()).collect();
        known.extend(graph.initializer.iter().map(|tensor| tensor.name.as_str()));
        known.extend(parameters.iter().map(|parameter| parameter.name.as_str()));
        for node in &graph.node {
            for input in &node.input {
                assert!(known.contains(input.as_str()), "{} reads {input}, which nothing made", node.op_type);
            }
            for output in &node.output {
                assert!(known.insert(output), "{output} is made twice");
            }
        }
        assert!(graph.output.iter().all(|output| known.contains(output.name.as_str())));
    }
}

#[test]
fn all_parameters_of_the_model_are_in_the_graph() {
    let model = dlrm();
    let (graph, parameters) = graph_of(&model);
    let mut wanted: Vec<(String, Vec<usize>)> =
        model.dense_parameter_list().into_iter().map(|p| (p.name, p.shape)).collect();
    wanted.extend([("tables.a.weight".into(), vec![10, 4]), ("tables.b.weight".into(), vec![10, 4])]);
    let mut got: Vec<_> = parameters.iter().map(|p| (p.name.clone(), p.shape.clone())).collect();
    wanted.sort();
    got.sort();
    assert_eq!(got, wanted);
    let inputs: Vec<&str> = graph.input.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(inputs, ["dense", "rows.a", "rows.b", "weights.b"]);
    // The table of 16 bits is looked up as it is, and widened after.
    let halves = parameters.iter().find(|p| p.name == "tables.b.weight").unwrap();
    assert_eq!((halves.element, halves.bytes()), (ElementType::Float16, 80));
}

#[test]
fn tables_of_codes_have_ranges() {
    let (_, parameters) = graph_with(&dlrm(), ElementType::Uint8);
    let of = |name: &str| parameters.iter().find(|p| p.name == name).unwrap();
    let (codes, ranges) = (of("tables.b.weight"), of("tables.b.weight.ranges"));
    assert_eq!((codes.element, codes.bytes()), (ElementType::Uint8, 40));
    assert_eq!((ranges.shape.as_slice(), ranges.bytes()), (&[10, 2][..], 80));
    assert_eq!(ranges.numbers, Numbers::Ranges("tables.b.weight".into()));
}

#[test]
fn numbers_that_lie_apart_begin_at_pages() {
    let parameter = |rows| Parameter {
        name: "p".into(),
        shape: vec![rows, 3],
        element: ElementType::Float,
        numbers: Numbers::All,
    };
    let mut at = 0;
    let starts: Vec<u64> = [1, 1000, 2].map(|rows| aligned(&mut at, &parameter(rows))).to_vec();
    assert_eq!((starts, at), (vec![0, 4096, 16384], 16384 + 24));
}

#[test]
fn heads_of_fields_are_those_of_protobuf() {
    let tensor = super::proto::Tensor { raw_data: vec![7; 300], ..Default::default() };
    let encoded = tensor.encode_to_vec();
    assert!(encoded.starts_with(&field_head(super::proto::RAW_DATA_FIELD, 300)));
}
