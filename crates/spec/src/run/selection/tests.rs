use super::*;
use crate::run::{Length, TrainConfig};

fn log(samples: u64, eval_samples: u64) -> Data {
    Data::Log { samples, eval_samples, shuffle: None }
}

#[test]
fn names_are_read_as_they_are_written() {
    for text in ["auc", "click.auc", "a.b.logloss"] {
        let name: MetricName = text.parse().unwrap();
        assert_eq!(name.to_string(), text);
        assert_eq!(text.parse(), Ok(KeepBest::By(name)));
    }
    let of_label: MetricName = "a.b.logloss".parse().unwrap();
    assert_eq!((of_label.label.as_deref(), of_label.metric.as_str()), (Some("a.b"), "logloss"));
    assert_eq!("none".parse(), Ok(KeepBest::Never));
    for text in ["", ".auc", "auc.", "a b"] {
        assert!(text.parse::<KeepBest>().is_err(), "{text:?}");
    }
}

#[test]
fn epochs_are_evaluated_and_the_best_is_kept_by_default() {
    // 100 samples in batches of 32 are 4 steps an epoch.
    let of = |config: &TrainConfig, data: &Data, steps: u64| {
        config.check_evaluations(data, Length { batch: 32, steps })
    };
    let mut config = TrainConfig::default();
    let one = of(&config, &log(100, 10), 4).unwrap();
    assert_eq!(one, Evaluations::default(), "a run of one epoch is as it was");
    assert_eq!(of(&config, &log(100, 0), 12).unwrap(), Evaluations::default(), "nothing to evaluate on");
    let three = of(&config, &log(100, 10), 12).unwrap();
    assert_eq!(three, Evaluations { every: Some(4), keep_best: Some(MetricName::auc()), patience: None });
    config.eval_every = Some(100);
    let late = of(&config, &log(100, 10), 12).unwrap();
    assert_eq!(late, Evaluations { every: Some(100), ..Evaluations::default() });
    (config.eval_every, config.patience) = (None, Some(0));
    assert_eq!(of(&config, &log(100, 10), 12).unwrap().patience, None, "0 is never");
    (config.keep_best, config.patience) = (Some(KeepBest::Never), None);
    assert_eq!(
        of(&config, &log(100, 10), 12).unwrap(),
        Evaluations { every: Some(4), ..Evaluations::default() }
    );
}

#[test]
fn what_needs_evaluations_is_refused_without_them() {
    let refused = |config: &TrainConfig, data: &Data, steps: u64| {
        config.check_evaluations(data, Length { batch: 32, steps }).unwrap_err().to_string()
    };
    let mut config = TrainConfig { patience: Some(2), ..TrainConfig::default() };
    assert!(refused(&config, &log(100, 0), 12).contains("--eval FILE"));
    assert!(refused(&config, &log(100, 10), 4).contains("--eval-every"));
    config.keep_best = Some(KeepBest::Never);
    assert!(refused(&config, &log(100, 10), 12).contains("--keep-best auc"));
    let config = TrainConfig { keep_best: Some(KeepBest::By(MetricName::auc())), ..TrainConfig::default() };
    assert!(
        refused(&config, &log(100, 0), 12).starts_with("train.keep_best (--keep-best): there are no rows")
    );
    // A log that was not read yet has no number of rows.
    assert!(config.check_evaluations(&log(0, 0), Length { batch: 32, steps: 0 }).is_ok());
}
