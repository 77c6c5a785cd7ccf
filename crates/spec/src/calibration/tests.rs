use super::*;
use crate::links::Circle;
use crate::run::Config;
use crate::schedule::{CollectiveKind, PhaseId, Task, Work};
use crate::volume::BatchSizes;

fn calibration() -> Calibration {
    let link =
        |collective, group, ranks| LinkModel { collective, group, ranks, latency_s: 1e-5, bytes_per_s: 1e9 };
    Calibration {
        about: "a test".into(),
        hosts: 2,
        ranks_per_host: 2,
        transport: Joined::InProcess,
        threads: 1,
        ranks_per_machine: 4,
        cores: 2,
        overlap: 0.25,
        stretch: 1.05,
        operations: vec![
            OperationModel { flops_per_s: Some(9e10), ..OperationModel::new(Class::TopForward, 1e-6) },
            OperationModel { items_per_s: Some(1e7), ..OperationModel::new(Class::Loss, 0.0) },
        ],
        links: vec![link(CollectiveKind::AllToAll, Circle::World, 4)],
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
    let read: Calibration = serde_json::from_str(&text).unwrap();
    assert_eq!(read, calibration());
    read.check().unwrap();
    let unknown = serde_json::from_str::<Calibration>(&text.replace("stretch", "strech")).unwrap_err();
    assert!(unknown.to_string().starts_with("unknown field `strech`"), "{unknown}");
    let class = serde_json::from_str::<Calibration>(&text.replace("top-forward", "topmost")).unwrap_err();
    assert!(class.to_string().starts_with("unknown variant `topmost`"), "{class}");
}

#[test]
fn names_are_those_of_files() {
    for class in [Class::ReadAhead, Class::LinearTowersForward, Class::DotBackward, Class::UpdateTables] {
        assert_eq!(serde_json::to_string(&class).unwrap(), format!("\"{class}\""));
    }
}

#[test]
fn what_cannot_have_been_measured_is_refused() {
    let refused = |change: &dyn Fn(&mut Calibration)| {
        let mut calibration = calibration();
        change(&mut calibration);
        calibration.check().unwrap_err().to_string()
    };
    assert_eq!(
        refused(&|c| c.operations[0].flops_per_s = Some(-1.0)),
        "flops_per_s of top-forward is -1; expected a number above 0"
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

/// Every computation of every dataflow has a class, and an amount of what the class goes by.
#[test]
fn amounts_of_a_step() {
    for module in ["none", "dlrm:c=1,p=0,d=8", "dcn:d=32"] {
        let mut config = Config::default();
        config.model.towers = Some("strided:2".parse().unwrap());
        config.model.tower_module = Some(module.parse().unwrap());
        config.wire = "bf16".parse().unwrap();
        let run = config.check().unwrap();
        let schedule = run.schedule(Task::Train);
        let sizes = BatchSizes::typical(&run.model, &run.placement, run.batch);
        for (i, phase) in schedule.phases().iter().enumerate() {
            let amount = Amount::of(&schedule, PhaseId(i), &sizes, 1);
            let Work::Compute(operation) = &phase.work else {
                assert_eq!(amount, Amount::default());
                continue;
            };
            let class = Class::of(operation, &run.model);
            let by = [amount.flops, amount.bytes, amount.items].into_iter().zip(class.goes_by());
            assert!(
                by.clone().filter(|(_, counts)| *counts).all(|(amount, _)| amount > 0.0),
                "{}: {class}",
                phase.name
            );
        }
        let read = Amount::read_ahead(&schedule, &sizes, 0).items;
        assert_eq!(read, (run.batch / 4 * (26 + 13)) as f64);
    }
}

#[test]
fn planted_rates_are_found() {
    let planted = OperationModel {
        flops_per_s: Some(8e10),
        bytes_per_s: Some(5e9),
        ..OperationModel::new(Class::TopForward, 2e-6)
    };
    let amounts = [(1e6, 1e4), (4e7, 1e5), (2e8, 5e6), (9e8, 2e6)];
    let points = amounts.map(|(flops, bytes)| Amount { flops, bytes, items: 1e9 });
    let points = points.map(|amount| (amount, planted.seconds(&Amount { items: 0.0, ..amount })));
    let found = OperationModel::fit(Class::TopForward, &points).unwrap();
    let near = |a: Option<f64>, b: Option<f64>| (a.unwrap() / b.unwrap() - 1.0).abs() < 1e-6;
    assert!(
        near(found.flops_per_s, planted.flops_per_s) && near(found.bytes_per_s, planted.bytes_per_s),
        "{found:?}"
    );
    assert!(
        (found.overhead_s - 2e-6).abs() < 1e-9 && found.worst_error < 1e-6 && found.items_per_s.is_none()
    );
    assert_eq!(OperationModel::fit(Class::TopForward, &[]), None);
}
