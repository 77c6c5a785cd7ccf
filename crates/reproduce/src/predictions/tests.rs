use super::*;
use crate::program::tests::Jobs;
use spec::machine_rates::MachineRates;

/// A measurement whose job is killed goes on with that job, and what is left; the machine is calibrated once.
#[test]
fn a_measurement_goes_on_where_it_was() {
    #[derive(clap::Parser)]
    struct Flagged {
        #[command(flatten)]
        args: Args,
    }
    let folder = tempfile::tempdir().unwrap();
    let rates = MachineRates {
        about: String::new(),
        hosts: 2,
        ranks_per_host: 2,
        transport: Transport::InProcess,
        threads: 1,
        precision: Default::default(),
        gpu: None,
        ranks_per_machine: 4,
        cores: 4,
        overlap: 0.0,
        stretch: 1.0,
        operations: vec![],
        links: vec![],
    };
    let result = r#"{"step_time": {"step_s": 1.0, "compute_s": 0.5, "exposed_s": 0.5}}"#;
    let jobs = Jobs::new(folder.path(), result, Some(rates));
    let out = folder.path().join("out");
    let words = ["x", "--only", "in-process", "--rounds", "2", "--out", out.to_str().unwrap()];
    let args = <Flagged as clap::Parser>::try_parse_from(words).unwrap().args;
    let setting = Setting { hosts: 2, ranks_per_host: 2, rate: "1gbit".into(), steps: 4 };
    let launcher = Launcher {
        program: jobs.path().to_owned(),
        template: String::new(),
        rate: String::new(),
        folder: out.clone(),
    };
    let measurement = Measurement { setting: &setting, launcher: &launcher, folder: &out, program: &jobs };
    let measure = || {
        let records: Records<PredictionResult> = Records::open(&out, &json!(setting)).unwrap();
        measurement.measure(&args, &records).map(|_| records.all().unwrap())
    };
    let all = 2 * cases::ALL.len();
    jobs.kill(3);
    assert!(measure().is_err());
    let results = measure().unwrap();
    assert_eq!(results.len(), all);
    let twice = |at: usize| {
        results[at + 1..]
            .iter()
            .any(|other| (&other.case, other.round) == (&results[at].case, results[at].round))
    };
    assert!(!(0..all).any(twice), "{results:?}");
    // One calibration, all jobs, and the one that was killed.
    assert_eq!(jobs.started().len(), 1 + all + 1, "{:?}", jobs.started());
    assert_eq!(jobs.started().iter().filter(|job| job.starts_with("calibrate")).count(), 1);
    assert!(jobs.notes().contains("going on: 1 result(s) are taken from"), "{}", jobs.notes());
}
