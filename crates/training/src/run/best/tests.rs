use super::*;

fn by(metric: &str) -> BestSoFar {
    BestSoFar::by(metric.parse().unwrap()).unwrap()
}

/// Judges values at steps 10, 20, … and gives the step of the best and the evaluations since.
fn after(metric: &str, values: &[f64]) -> (Option<u64>, u64) {
    let mut best = by(metric);
    for (i, &value) in values.iter().enumerate() {
        best.judge(10 * (i as u64 + 1), Some(value));
    }
    (best.best().map(|best| best.step), best.without_improvement())
}

#[test]
fn the_first_of_the_best_values_is_the_best() {
    assert_eq!(after("auc", &[0.6, 0.7, 0.7, 0.65]), (Some(20), 2));
    assert_eq!(after("logloss", &[0.6, 0.5, 0.5, 0.7]), (Some(20), 2));
    assert_eq!(after("auc", &[0.6, 0.5, 0.61]), (Some(30), 0));
    assert_eq!(after("auc", &[]), (None, 0));
    // What is no number is never best, and counts as no better.
    assert_eq!(after("auc", &[f64::NAN, 0.5, f64::NAN]), (Some(20), 1));
    assert_eq!(after("ne", &[f64::NAN, f64::NAN]), (None, 2));
}

#[test]
fn patience_counts_evaluations_in_a_row() {
    let mut best = by("auc");
    let stops: Vec<bool> = [0.6, 0.5, 0.7, 0.6, 0.6, 0.6]
        .iter()
        .enumerate()
        .map(|(i, &value)| {
            best.judge(i as u64 + 1, Some(value));
            best.stops(Some(2))
        })
        .collect();
    assert_eq!(stops, [false, false, false, false, true, true]);
    assert!(!best.stops(Some(4)) && !best.stops(None));
}

#[test]
fn an_undefined_metric_says_nothing() {
    let mut best = by("auc");
    assert!((1..100).all(|step| !best.judge(step, None)));
    assert!(best.best().is_none() && !best.stops(Some(1)));
}

#[test]
fn a_step_that_is_evaluated_again_counts_once() {
    let mut best = by("auc");
    assert!(best.judge(10, Some(0.7)) && best.judge(10, Some(0.7)));
    assert!(!best.judge(20, Some(0.6)) && !best.judge(20, Some(0.6)));
    assert_eq!(best.without_improvement(), 1);
}

#[test]
fn bits_survive_the_manifest() {
    let mut best = by("logloss");
    best.judge(10, Some(0.1 + 0.2));
    best.judge(20, Some(0.4));
    let text = serde_json::to_string(&best).unwrap();
    assert_eq!(serde_json::from_str::<BestSoFar>(&text).unwrap(), best);
}

#[test]
fn a_metric_must_have_a_best_value() {
    for metric in METRICS.iter() {
        let named = BestSoFar::by(metric.field.parse().unwrap());
        assert_eq!(named.is_ok(), metric.better != Better::Neither, "{}", metric.field);
    }
    let refused = |name: &str| BestSoFar::by(name.parse().unwrap()).unwrap_err().to_string();
    assert!(
        refused("calibration").contains("calibration has no best value; use one of auc, pr_auc, logloss")
    );
    assert!(refused("loss").contains("loss is not a metric; use one of auc"));
}

/// Scores of one label, or of two: 0.6 and 0.7 is their AUC.
fn scores(names: &[&str]) -> Scores {
    let evaluation = Evaluation::of(&[0.1, 0.9], &[0.0, 1.0]).unwrap();
    let of = |(i, name): (usize, &&str)| {
        let evaluation = Evaluation { auc: Some(0.6 + 0.1 * i as f64), ..evaluation };
        let (name, bins, slices) = ((*name).to_owned(), Vec::new(), Vec::new());
        crate::run::scores::LabelScores { name, evaluation, bins, group: None, slices }
    };
    let labels: Vec<_> = names.iter().enumerate().map(of).collect();
    let evaluation = Evaluation { auc: Some(0.6), ..evaluation };
    Scores { evaluation, bins: Vec::new(), best_auc: None, group: None, slices: Vec::new(), labels }
}

#[test]
fn a_label_decides_where_it_is_named() {
    let two = scores(&["click", "buy"]);
    assert_eq!(by("auc").value(&two), Some(0.6), "the first");
    assert_eq!((by("click.auc").value(&two), by("buy.auc").value(&two)), (Some(0.6), Some(0.7)));
    let mut best = by("buy.auc");
    best.judge(5, best.value(&two));
    best.keep_metrics(5, &two);
    assert_eq!((best.best().unwrap().metrics["auc"], best.label()), (Some(0.7), "AUC of buy".into()));
    assert_eq!(by("view.auc").value(&two), None);
    let mut config = spec::run::Config::default();
    config.train.keep_best = Some("click.auc".parse().unwrap());
    let error = BestSoFar::of_run(&planning::check(&config).unwrap()).unwrap_err().to_string();
    assert!(error.contains("leave its name out: auc"), "{error}");
}
