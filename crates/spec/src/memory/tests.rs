use super::*;
use crate::feature::{Feature, Hotness};
use crate::model::{Architecture, Model};
use crate::placement::{Layout, Placement};
use crate::schedule::{StepOptions, Task};
use crate::topology::Topology;

/// Two tables of 4 columns on one rank, with two cross layers of rank 3 over 8 columns and a logit.
fn cross_layers() -> Deployment {
    let feature = |name: &str| Feature {
        name: name.into(),
        rows: 5,
        pooling: Default::default(),
        hotness: Hotness::One,
        weighted: false,
        dim: None,
        format: None,
        cache: None,
        tt_rank: None,
    };
    let architecture =
        Architecture::Dcn { bottom: vec![], cross_layers: 2, cross_rank: Some(3), top: vec![1] };
    let model = Model::new(vec![feature("a"), feature("b")], 0, 4, architecture).unwrap();
    let layouts = vec![Layout::TableWise { rank: 0 }; 2];
    let placement = Placement::of_layouts(&model, Topology::new(1, 1).unwrap(), &layouts).unwrap();
    let (dataflow, wire) = (Dataflow::Flat(AllToAll::Flat), Default::default());
    Deployment {
        model,
        placement,
        dataflow,
        wire,
        all_reduce: Default::default(),
        emulation: None,
        cached: None,
    }
}

/// Counted by hand for 10 samples.
#[test]
fn cross_layers_keep_their_inner_vectors_and_twice_their_width() {
    let deployment = cross_layers();
    let floats = |trains| Buffers::new(&deployment, 10, trains, Rounding::NONE).activations(0) / 40.0;
    // Inner vectors, 3 wide, and gradients that only products read have room for 32 columns.
    let forward = (8 + 4) + 2 * (32 + 2 * 8) + 1;
    let backward = 8 + (8 + 32 + 32) + (1 + 8);
    assert_eq!(floats(false), f64::from(forward));
    assert_eq!(floats(true), f64::from(forward + backward));
}

/// Vectors that are looked up in place are those that the network reads. Apart, they and their gradients are sent and received too.
#[test]
fn vectors_in_place_take_no_memory_of_their_own() {
    let deployment = cross_layers();
    let floats = |in_place| {
        let (task, bucket_bytes) = (Task::Train, 1024);
        let options = StepOptions { task, bucket_bytes, norm: false, batch: 10, fuse_pairs: false, in_place };
        let schedule = Schedule::with_options(&deployment, options);
        let buffers = Buffers::of_schedule(&schedule, 10, true, Rounding::NONE);
        [buffers.vectors(0), buffers.activations(0)].map(|bytes| bytes / 40.0)
    };
    let ([apart, activations], [in_place, same]) = (floats(false), floats(true));
    assert_eq!((apart, in_place), (4.0 * 8.0, 0.0));
    assert_eq!(activations, same);
}
