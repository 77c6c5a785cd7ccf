use super::*;
use crate::dataflow::{AllToAll, Dataflow, Deployment};
use crate::placement::{Layout, Placement};
use crate::presets::{ModelKind, Preset};
use crate::schedule::Task;
use crate::topology::Topology;
use crate::wire::Wire;

/// The step of a DLRM on 2 × 2 ranks.
fn schedule() -> Schedule {
    let model = Preset::Demo.model(ModelKind::Dlrm, None, None).unwrap();
    let layouts: Vec<Layout> = (0..26).map(|table| Layout::TableWise { rank: table % 4 }).collect();
    let placement = Placement::of_layouts(&model, Topology::new(2, 2).unwrap(), &layouts).unwrap();
    let dataflow = Dataflow::Flat(AllToAll::Flat);
    let deployment = Deployment {
        model,
        placement,
        dataflow,
        wire: Wire::default(),
        all_reduce: Default::default(),
        emulation: None, cached: None,
    };
    Schedule::new(&deployment, Task::Train, 4 << 20)
}

fn pace() -> Pace {
    let computations = schedule();
    let computations = computations.phases().iter().filter(|p| matches!(p.work, Work::Compute(_)));
    let phases = computations.map(|p| (p.name.clone(), Seconds::Everywhere(0.001))).collect();
    Pace { threads: None, scale: 2.0, phases }
}

#[test]
fn times_are_scaled_and_collectives_have_none() {
    let (schedule, mut pace) = (schedule(), pace());
    pace.phases.insert("lookup".into(), Seconds::ByRank(vec![0.0, 0.5, 1.0, 1.5]));
    let times = pace.of_rank(&schedule, 2).unwrap();
    for (phase, time) in schedule.phases().iter().zip(times) {
        let expected = match (&phase.work, phase.name.as_str()) {
            (Work::Collective(_), _) => 0,
            (_, "lookup") => 2000,
            _ => 2,
        };
        assert_eq!(time, Duration::from_millis(expected), "{}", phase.name);
    }
    let text = serde_json::to_string(&pace).unwrap();
    assert_eq!(serde_json::from_str::<Pace>(&text).unwrap(), pace);
}

#[test]
fn a_pace_measured_before_reads_back_were_phases_is_whole() {
    let (schedule, mut pace) = (schedule(), pace());
    assert!(pace.phases.remove("read back").is_some());
    let times = pace.of_rank(&schedule, 0).unwrap();
    let at = schedule.phases().iter().position(|phase| phase.name == "read back").unwrap();
    assert_eq!(times[at], Duration::ZERO);
}

#[test]
fn what_does_not_fit_is_named() {
    let refused = |change: &dyn Fn(&mut Pace)| {
        let mut pace = pace();
        change(&mut pace);
        pace.check(&schedule()).unwrap_err().to_string()
    };
    let lookup = |seconds: Seconds| {
        refused(&|pace| {
            pace.phases.insert("lookup".into(), seconds.clone());
        })
    };
    let missing = refused(&|pace| {
        pace.phases.remove("lookup");
        pace.phases.remove("loss");
    });
    assert!(missing.contains("\"lookup\"") && missing.contains("\"loss\""), "{missing}");
    let unknown = refused(&|pace| {
        pace.phases.insert("ids exchange".into(), Seconds::Everywhere(1.0));
    });
    assert!(unknown.contains("\"ids exchange\" is not a computation"), "{unknown}");
    assert!(lookup(Seconds::ByRank(vec![0.1; 3])).contains("3 times, but the run has 4 ranks"));
    for wrong in [f64::NAN, -1.0, f64::INFINITY, 1e9] {
        assert!(lookup(Seconds::Everywhere(wrong)).contains("\"lookup\" is"), "{wrong}");
        assert!(refused(&|pace| pace.scale = wrong).contains("scale is"), "{wrong}");
    }
    assert!(serde_json::from_str::<Pace>(r#"{"phases": {"lookup": "soon"}}"#).is_err());
}
