use super::*;
use crate::links::GroupSpan;
use crate::schedule::CollectiveKind;

fn calibration() -> MachineRates {
    let link = |collective, group, ranks| LinkModel {
        collective,
        algorithm: Default::default(),
        group,
        ranks,
        latency_s: 1e-5,
        bytes_per_s: 1e9,
    };
    MachineRates {
        about: "a test".into(),
        hosts: 2,
        ranks_per_host: 2,
        transport: Transport::InProcess,
        threads: 1,
        precision: Default::default(),
        gpu: None,
        ranks_per_machine: 4,
        cores: 2,
        overlap: 0.25,
        stretch: 1.05,
        operations: vec![
            OperationModel { flops_per_s: Some(9e10), ..OperationModel::new(Class::TopForward, 1e-6) },
            OperationModel { items_per_s: Some(1e7), ..OperationModel::new(Class::Loss, 0.0) },
        ],
        links: vec![link(CollectiveKind::AllToAll, GroupSpan::World, 4)],
    }
}

#[test]
fn it_survives_a_file() {
    let text = serde_json::to_string(&calibration()).unwrap();
    assert!(
        text.contains(r#""class":"top-forward""#) && text.contains(r#""transport":"in-process""#),
        "{text}"
    );
    assert!(!text.contains("null"), "{text}");
    let read: MachineRates = serde_json::from_str(&text).unwrap();
    assert_eq!(read, calibration());
    read.check().unwrap();
    let unknown = serde_json::from_str::<MachineRates>(&text.replace("stretch", "strech")).unwrap_err();
    assert!(unknown.to_string().starts_with("unknown field `strech`"), "{unknown}");
    let class = serde_json::from_str::<MachineRates>(&text.replace("top-forward", "topmost")).unwrap_err();
    assert!(class.to_string().starts_with("unknown variant `topmost`"), "{class}");
}

/// A file says in which precision it was measured, unless that is f32, and prices no other.
#[test]
fn rates_are_of_one_precision() {
    assert!(!serde_json::to_string(&calibration()).unwrap().contains("precision"));
    let rates = MachineRates { precision: Precision::Bf16, ..calibration() };
    let text = serde_json::to_string(&rates).unwrap();
    assert!(text.contains(r#""precision":"bf16""#), "{text}");
    assert_eq!(serde_json::from_str::<MachineRates>(&text).unwrap(), rates);
    rates.check_precision(&Precision::Bf16.into()).unwrap();
    for other in ["f32", "bf16,top=f32"] {
        let run = other.parse::<crate::precision::PrecisionConfig>().unwrap().check();
        let refused = rates.check_precision(&run).unwrap_err().to_string();
        assert!(
            refused.contains(&format!("measured in bf16, but the run computes them in {other};")),
            "{refused}"
        );
    }
}

#[test]
fn names_are_those_of_files() {
    for class in [Class::ReadAhead, Class::LinearTowersForward, Class::DotBackward, Class::UpdateTables] {
        assert_eq!(serde_json::to_string(&class).unwrap(), format!("\"{class}\""));
    }
}

#[test]
fn what_cannot_have_been_measured_is_refused() {
    let refused = |change: &dyn Fn(&mut MachineRates)| {
        let mut calibration = calibration();
        change(&mut calibration);
        calibration.check().unwrap_err().to_string()
    };
    assert_eq!(
        refused(&|c| c.operations[0].flops_per_s = Some(-1.0)),
        "flops_per_s of top-forward is -1; expected a number above 0"
    );
    assert_eq!(
        refused(&|c| c.links[0].algorithm = Algorithm::Ring),
        "the line of all-to-all over world has the algorithm ring; only an all-reduce has one, so leave it out"
    );
    let of = |c: &mut MachineRates, algorithm| {
        c.links.push(LinkModel { collective: CollectiveKind::AllReduce, algorithm, ..c.links[0] });
    };
    assert_eq!(
        refused(&|c| [Algorithm::Direct, Algorithm::TwoLevel, Algorithm::TwoLevel]
            .map(|each| of(c, each))
            .into_iter()
            .collect()),
        "the line of two-level all-reduce over world is given twice"
    );
    assert_eq!(
        refused(&|c| c.operations[1].overhead_s = f64::NAN),
        "overhead_s of loss is NaN; expected 0, or a number above it"
    );
    assert_eq!(
        refused(&|c| c.links[0].bytes_per_s = 0.0),
        "bytes_per_s of all-to-all over world of 4 is 0; expected a number above 0"
    );
    assert_eq!(refused(&|c| c.cores = 0), "cores is 0; expected at least 1");
    assert_eq!(refused(&|c| c.stretch = 0.0), "stretch is 0; expected a number above 0");
    assert_eq!(refused(&|c| c.overlap = 1.5), "overlap is 1.5; expected a share from 0 to 1");
    let twice = refused(&|c| c.operations[1].class = Class::TopForward);
    assert_eq!(twice, "the rate of top-forward is given twice");
    let twice = refused(&|c| c.links.push(c.links[0]));
    assert_eq!(twice, "the line of all-to-all over world is given twice");
}

/// A file says on which GPU it was measured, unless that is none, and prices no run on a CPU then.
#[test]
fn rates_are_of_one_kind_of_device() {
    assert!(!serde_json::to_string(&calibration()).unwrap().contains("gpu"));
    let rates = MachineRates { gpu: Some("NVIDIA H200".into()), ..calibration() };
    let text = serde_json::to_string(&rates).unwrap();
    assert!(text.contains(r#""gpu":"NVIDIA H200""#), "{text}");
    assert_eq!(serde_json::from_str::<MachineRates>(&text).unwrap(), rates);
    for device in [DeviceChoice::Cuda(None), DeviceChoice::Cuda(Some(1)), DeviceChoice::Auto] {
        rates.check_device(device).unwrap();
    }
    let refused = rates.check_device(DeviceChoice::Cpu).unwrap_err().to_string();
    assert!(
        refused.starts_with(
            "rates were measured on NVIDIA H200, but the run computes on cpu; choose --device cuda"
        ),
        "{refused}"
    );
    calibration().check_device(DeviceChoice::Cpu).unwrap();
    calibration().check_device(DeviceChoice::Auto).unwrap();
    let refused = calibration().check_device(DeviceChoice::Cuda(None)).unwrap_err().to_string();
    assert!(
        refused.contains("choose --device cpu for the run, or run `campanile calibrate --device cuda`"),
        "{refused}"
    );
}
