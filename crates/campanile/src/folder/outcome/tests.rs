use super::super::metrics::MetricsLine;
use super::*;
use spec::run::Config;
use training::metrics::METRICS;

#[test]
fn every_row_has_its_place() {
    let run = planning::check(&Config::default()).unwrap();
    let places = placement(&run);
    assert_eq!(places.len(), run.topology().ranks());
    let rows: u64 = run.model.features().iter().map(|feature| feature.rows as u64).sum();
    assert_eq!(places.iter().map(|place| place.rows).sum::<u64>(), rows);
    assert_eq!(places.last().map(|place| place.host), Some(run.topology().hosts() as u64 - 1));
}

/// Every rank of a group computes all of its towers, for the samples of its peers.
#[test]
fn every_tower_has_its_group() {
    let mut config = Config::default();
    config.model.towers = Some("strided:5".parse().unwrap());
    config.model.tower_module = Some("dlrm:d=8".parse().unwrap());
    let run = planning::check(&config).unwrap();
    let towers: u64 = placement(&run).iter().map(|place| place.towers).sum();
    assert_eq!(towers, 5 * run.topology().ranks_per_host() as u64);
}

#[test]
fn an_evaluation_keeps_its_numbers() {
    let (scores, labels) = ([0.1, 0.4, 0.35, 0.8], [0.0, 0.0, 1.0, 1.0]);
    let evaluation = Evaluation::of(&scores, &labels).unwrap();
    let bins = training::metrics::calibration_bins(&scores, &labels, 2).unwrap();
    let eval = Eval::of(7, &evaluation, Some(0.9), &bins);
    assert_eq!((eval.step, eval.samples), (7, 4));
    assert_eq!((eval.metrics.get("auc"), eval.metrics.get(BEST_AUC)), (Some(0.75), Some(0.9)));
    for metric in &METRICS {
        assert_eq!(eval.metrics.get(metric.field), (metric.of)(&evaluation), "{}", metric.field);
    }
    assert_eq!(eval.bins.iter().map(|bin| bin.samples).collect::<Vec<_>>(), [3, 1]);
    // The best possible AUC follows the AUC, and only where it is known.
    let line = serde_json::to_string(&MetricsLine::Eval(eval.clone())).unwrap();
    let begin = r#"{"event":"eval","step":7,"samples":4,"auc":0.75,"best_auc":0.9,"#;
    assert!(line.starts_with(begin) && line.contains(r#","mean_prediction":"#), "{line}");
    assert_eq!(serde_json::from_str::<MetricsLine>(&line).unwrap(), MetricsLine::Eval(eval));
    let line = serde_json::to_string(&Eval::of(7, &evaluation, None, &bins)).unwrap();
    assert!(!line.contains(BEST_AUC), "{line}");
}
