use super::*;
use crate::calibrate::fitted;
use spec::schedule::{Task, Work};
use std::collections::BTreeSet;

fn setup(device: DeviceChoice, divisor: usize) -> Setup<'static> {
    Setup { device, precision: Precision::Bf16, optimizer: "sgd", rows: 1000, divisor }
}

fn classes<'a>(runs: impl IntoIterator<Item = &'a spec::run::Run>) -> BTreeSet<spec::machine_rates::Class> {
    let mut classes = BTreeSet::new();
    for run in runs {
        let schedule = run.schedule(Task::Train);
        classes.extend(schedule.phases().iter().filter_map(|phase| match &phase.work {
            Work::Compute(operation) => Some(schedule.describe(operation).class),
            Work::Collective(_) => None,
        }));
    }
    classes
}

/// Presets on one GPU have no class that is not measured, and no model that is measured.
#[test]
fn every_class_of_a_run_on_one_gpu_is_measured() {
    let trials = trials(setup(DeviceChoice::Cuda(None), 1)).unwrap();
    let measured = classes(trials.iter().map(|trial| &trial.run));
    for preset in ["mlperf", "kaggle", "terabyte"] {
        for flags in [
            "--model dlrm",
            "--model dcn",
            "--model dlrm --towers strided:8 --tower-module dlrm:c=1,p=0,d=64",
        ] {
            let flags = format!("--preset {preset} --rows-cap 1000 --device cuda --precision bf16 {flags}");
            let config = RunArgs::from_words(flags.split_whitespace()).unwrap().config().unwrap();
            let run = step::checked(config, 0.0, BATCHES).unwrap();
            let missing: Vec<_> = classes([&run]).difference(&measured).copied().collect();
            assert!(missing.is_empty(), "{flags}: {missing:?}");
            let same = |trial: &&Trial| trial.run.model.network() == run.model.network();
            assert!(trials.iter().find(same).is_none(), "{flags} is measured itself");
        }
    }
    for trial in &trials {
        assert_eq!(trial.run.topology().ranks(), 1, "{}", trial.name);
        assert!(trial.run.device.is_cuda() && trial.run.precision == Precision::Bf16.into());
        assert_eq!(trial.run.dense_optimizer.update.name(), "sgd");
    }
}

/// The whole way, on the CPU: runs are trained, rates fitted, and steps priced.
#[test]
fn rates_are_fitted_to_what_was_timed() {
    let all = trials(setup(DeviceChoice::Cpu, 4096)).unwrap();
    let effort = Effort { warm_up: 0, steps: 1, digest: false };
    let taken = measure(&all, effort, Console::new(true)).unwrap();
    assert!(taken.iter().all(|rounds| rounds.len() == 1 && rounds[0].step_s > 0.0));
    let rates = fitted::operations(&all, &taken);
    let fitted: BTreeSet<_> = rates.iter().map(|rate| rate.class).collect();
    assert_eq!(fitted, classes(all.iter().map(|trial| &trial.run)), "reading ahead has no rate");
}
