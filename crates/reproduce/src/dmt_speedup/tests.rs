use super::cases::{Case, Common, Way, Wire, all};
use super::{Measured, Setting, SpeedupResult, run_of, table};
use crate::program::Program;
use crate::program::tests::{Flags, Jobs};
use campanile::records::Records;
use clap::ValueEnum;
use planning::Timeline;
use spec::links::{GroupSpan, LinkModel};
use spec::pace::{Pace, Seconds};
use spec::presets::ModelKind;
use spec::schedule::{CollectiveKind, Schedule, Task, Work};

const COMMON: Common = Common { ranks_per_host: 2, local_batch: 64 };

fn cases() -> Vec<Case> {
    let wires = [Wire::F32, Wire::Bf16];
    all(&[ModelKind::Dlrm, ModelKind::Dcn], &[2, 8], &wires, Way::value_variants())
}

/// A pace of a millisecond for every computation.
fn pace(schedule: &Schedule) -> Pace {
    let computations = schedule.phases().iter().filter(|phase| matches!(phase.work, Work::Compute(_)));
    let phases = computations.map(|phase| (phase.name.clone(), Seconds::Everywhere(0.001))).collect();
    Pace { threads: None, scale: 1.0, phases }
}

/// 100 MB/s between hosts, 10 GB/s inside.
fn links(hosts: usize) -> Vec<LinkModel> {
    let line = |collective, group| {
        let (ranks, bytes_per_s) = match group {
            GroupSpan::World => (2 * hosts, 1e8),
            GroupSpan::Peers => (hosts, 1e8),
            GroupSpan::Host => (2, 1e10),
        };
        LinkModel { collective, algorithm: Default::default(), group, ranks, latency_s: 0.0, bytes_per_s }
    };
    let kinds = [CollectiveKind::AllToAll, CollectiveKind::AllReduce];
    let spans = [GroupSpan::World, GroupSpan::Host, GroupSpan::Peers];
    kinds.into_iter().flat_map(|kind| spans.map(|span| line(kind, span))).collect()
}

fn priced(case: &Case) -> Timeline {
    let run = run_of(case, &COMMON, &Flags).unwrap();
    let pace = pace(&run.schedule(Task::Train));
    super::limit::StepLimit::new(&run).priced(&pace, &links(case.hosts)).unwrap()
}

#[test]
fn every_case_is_a_run_whose_computations_are_measured() {
    let cases = cases();
    assert!(cases.len() > 60);
    for case in &cases {
        let schedule = run_of(case, &COMMON, &Flags).unwrap().schedule(Task::Train);
        let measured = run_of(&case.measured(), &COMMON, &Flags).unwrap().schedule(Task::Train);
        let mut pace = pace(&measured);
        pace.phases.retain(|name, _| schedule.phases().iter().any(|phase| phase.name == *name));
        pace.check(&schedule).unwrap_or_else(|error| panic!("{}: {error}", case.name()));
        assert!(priced(case).step_s > 0.0, "{}", case.name());
    }
}

#[test]
fn towers_and_halves_have_lower_limits() {
    let case = Case { model: ModelKind::Dlrm, hosts: 8, wire: Wire::F32, way: Way::Flat };
    let communication = |way, wire| priced(&Case { way, wire, ..case }).communication_s;
    let flat = communication(Way::Flat, Wire::F32);
    assert!((flat / communication(Way::Flat, Wire::Bf16) - 2.0).abs() < 0.1);
    let ratios =
        [Way::Sptt, Way::Cr2, Way::Cr4, Way::Cr8, Way::Cr16].map(|way| communication(way, Wire::F32));
    assert!(ratios.is_sorted_by(|more, less| more > less), "{ratios:?}");
}

/// Medians of jobs, and speedups over the same cluster and wire.
#[test]
fn table_says_how_much_faster() {
    let record = |way, round, step_s| SpeedupResult {
        case: Case { model: ModelKind::Dlrm, hosts: 2, wire: Wire::F32, way },
        round,
        step_s,
        compute_s: 0.1,
        communication_s: 1.0,
        exposed_s: step_s - 0.1,
        network_bytes: 2_000_000,
        job_network_bytes: 90,
        counted_bytes: Some(100),
        phases: Vec::new(),
    };
    let mut records: Vec<SpeedupResult> =
        [1.0, 9.0, 1.2].iter().zip(0..).map(|(s, i)| record(Way::Flat, i, *s)).collect();
    records.extend([record(Way::Sptt, 0, 0.9), record(Way::Cr2, 0, 0.6)]);
    let folder = tempfile::tempdir().unwrap();
    let setting =
        Setting { common: COMMON, rate: "1gbit".into(), compute: "paced".into(), pace_scale: 2.0, steps: 4 };
    let measured = Measured { setting: &setting, folder: folder.path(), program: &Flags };
    let rows = table::rows(&records, &measured).unwrap();
    let json: Vec<_> = rows.iter().map(|row| row.to_json(&setting)).collect();
    assert_eq!((json.len(), &json[0]["jobs"], &json[0]["step_s"]), (3, &3.into(), &1.2.into()));
    assert!((json[2]["over_flat"].as_f64().unwrap() - 2.0).abs() < 1e-9);
    assert!((json[2]["over_sptt"].as_f64().unwrap() - 1.5).abs() < 1e-9);
    assert_eq!(json[1]["metered_share"], 0.9);
    let text = table::to_text(&rows, &setting);
    assert!(
        text.starts_with("paced compute × 2; 2 ranks a host, 64 samples a rank, links of 1gbit"),
        "{text}"
    );
}

/// A measurement whose job is killed goes on with that job, and what is left.
#[test]
fn a_measurement_goes_on_where_it_was() {
    #[derive(clap::Parser)]
    struct Flagged {
        #[command(flatten)]
        args: super::Args,
    }
    let folder = tempfile::tempdir().unwrap();
    let result = r#"{"links": [], "steps": 5, "timed_steps": 4, "sent_network_bytes": 10, "phases": [],
        "step_time": {"step_s": 1.0, "compute_s": 0.5, "communication_s": 0.5, "exposed_s": 0.5}}"#;
    let jobs = Jobs::new(folder.path(), &result.replace('\n', ""), None);
    let (out, launcher) = (folder.path().join("out"), jobs.path().display().to_string());
    let words = "x --hosts 2 --models dlrm --wires f32 --ways flat,sptt --rounds 2 --real --launcher";
    let words =
        words.split(' ').map(String::from).chain([launcher, "--out".into(), out.display().to_string()]);
    let args = <Flagged as clap::Parser>::try_parse_from(words).unwrap().args;
    let setting = args.setting();
    let measured = Measured { setting: &setting, folder: &out, program: &jobs };
    let cases = all(&args.models, &args.hosts, &args.wires, &args.ways);
    let measure = || {
        let records = Records::open(&out, &serde_json::json!(setting)).unwrap();
        measured.measure(&args, &cases, &records).map(|()| records.all().unwrap())
    };
    // The links come first, then four jobs.
    jobs.kill(4);
    assert!(measure().is_err());
    assert_eq!((jobs.started().len(), jobs.notes().as_str()), (4, ""));
    let results: Vec<SpeedupResult> = measure().unwrap();
    assert_eq!(
        results.iter().map(|result| (result.case.way, result.round)).collect::<Vec<_>>(),
        [(Way::Flat, 0), (Way::Sptt, 0), (Way::Flat, 1), (Way::Sptt, 1)]
    );
    assert_eq!(jobs.started().len(), 6, "two jobs were left; the links are known: {:?}", jobs.started());
    assert!(jobs.notes().starts_with("going on: 2 result(s) are taken from"), "{}", jobs.notes());
}
