//! A phase that a dataflow does not have is refused, by the names of both.

use crate::common::config;
use kernels::Device;
use spec::dataflow::AllToAll;
use spec::presets::ModelKind;
use spec::schedule::{Task, Work};
use spec::volume::Leg;
use training::dataflow::{Carries, Copies, Dataflow, Flat, Input};

#[test]
fn phases_of_the_other_dataflow_are_refused() {
    let run = planning::check(&config(ModelKind::Dlrm, true, 2, 2)).unwrap();
    let (model, placement) = (&run.model, &run.placement);
    let copies = Copies::new(&Device::Reference, &run.schedule(Task::Train), 0).unwrap();
    let mut flat = Flat::new(&Device::Reference, model, placement, AllToAll::Flat, run.wire, (0, copies));
    let input = Input::new(&Device::Reference, model, placement, 0, 4);
    let refused = [
        flat.transpose(&Device::Reference, &input, &mut []).unwrap_err().to_string(),
        flat.payload(Carries::TowerNorm).unwrap_err().to_string(),
        flat.leg(Leg::Peer).unwrap_err().to_string(),
        flat.payload(Carries::VectorsInHost(Leg::Pooled)).unwrap_err().to_string(),
    ];
    for (refused, phase) in
        refused.iter().zip(["transpose", "norm of the towers", "peer exchange", "hierarchical"])
    {
        assert!(refused.contains(phase), "{refused}");
    }
    assert!(refused[..3].iter().all(|refused| refused.contains("flat")), "{refused:?}");
}

/// No two collectives of a step work on the same buffers.
#[test]
fn every_collective_of_a_step_carries_something_else() {
    for (all_to_all, wire) in [("flat", "f32"), ("flat", "bf16"), ("hierarchical", "f16")] {
        let mut config = config(ModelKind::Dlrm, true, 2, 2);
        config.train.all_to_all = Some(all_to_all.parse().unwrap());
        config.wire = wire.parse().unwrap();
        let run = planning::check(&config).unwrap();
        let mut carried = Vec::new();
        for phase in run.schedule(Task::Train).phases() {
            let Work::Collective(collective) = &phase.work else { continue };
            let carries = Carries::of(phase, collective).unwrap();
            assert!(!carried.contains(&carries), "{}: {carries}", phase.name);
            carried.push(carries);
        }
        assert!(carried.len() > 5, "{carried:?}");
    }
}
