use super::*;
use crate::feature::{Feature, Hotness};
use crate::model::{Architecture, Model};
use crate::placement::{Layout, Placement};
use crate::topology::Topology;

/// Two cross layers of rank 3 over 8 columns and a logit, counted by hand for 10 samples.
#[test]
fn cross_layers_keep_their_inner_vectors_and_twice_their_width() {
    let feature = |name: &str| Feature {
        name: name.into(),
        rows: 5,
        pooling: Default::default(),
        hotness: Hotness::One,
        weighted: false,
        dim: None,
    };
    let architecture =
        Architecture::Dcn { bottom: vec![], cross_layers: 2, cross_rank: Some(3), top: vec![1] };
    let model = Model::new(vec![feature("a"), feature("b")], 0, 4, architecture).unwrap();
    let layouts = vec![Layout::TableWise { rank: 0 }; 2];
    let placement = Placement::of_layouts(&model, Topology::new(1, 1).unwrap(), &layouts).unwrap();
    let (dataflow, wire) = (Dataflow::Flat(AllToAll::Flat), Default::default());
    let deployment =
        Deployment { model, placement, dataflow, wire, all_reduce: Default::default(), emulation: None };
    let floats = |trains| Buffers::new(&deployment, 10, trains, Rounding::NONE).activations(0) / 40.0;
    let forward = (8 + 4) + 2 * (3 + 2 * 8) + 1;
    let backward = 8 + (2 * 8 + 3) + (1 + 8);
    assert_eq!(floats(false), f64::from(forward));
    assert_eq!(floats(true), f64::from(forward + backward));
}
