use super::model::{TABLES, skewed};
use super::round_robin;
use super::table::pearson;
use planning::PlanOptions;
use planning::cost::Hierarchical;
use planning::planner;
use planning::system::System;

#[test]
fn correlation_is_that_of_lines() {
    let line: Vec<(f64, f64)> = (0..5).map(|x| (f64::from(x), 3.0 - 2.0 * f64::from(x))).collect();
    assert!((pearson(&line).unwrap() + 1.0).abs() < 1e-12);
    // By hand: deviations (-1, -1), (0, 1), (1, 0) have r = 1/2.
    assert!((pearson(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0)]).unwrap() - 0.5).abs() < 1e-12);
    assert_eq!(pearson(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]), None);
}

/// The skewed model is skewed, and the planner knows what to do about it.
#[test]
fn the_plan_is_more_even_than_round_robin() {
    for (hosts, ranks) in [(1, 2), (4, 2)] {
        let mut config = skewed();
        config.topology.hosts = Some(hosts);
        config.topology.ranks_per_host = Some(ranks);
        config.train.batch = Some(1024 * hosts * ranks);
        let run = planning::check(&config).unwrap();
        assert_eq!(run.model.features().len(), TABLES);
        let (system, cost) = (System::cpu(run.topology()), Hierarchical::default());
        let request = PlanOptions::new(&system, &cost).request(&run);
        let plan = planner::plan(&request).unwrap();
        let dealt = planner::loads(&request, &round_robin(&run).unwrap());
        let slowest = dealt.iter().map(|load| load.predicted_s).fold(0.0, f64::max);
        assert!(slowest > 1.2 * plan.cost_s, "{hosts} × {ranks}: {slowest} against {}", plan.cost_s);
    }
}
