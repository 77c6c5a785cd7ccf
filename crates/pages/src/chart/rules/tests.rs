use super::*;
use crate::chart::Axis;

#[test]
fn names_give_way_to_each_other() {
    let axis = Axis::over([0.0, 100.0].into_iter(), 5);
    let plot = Plot { left: 0.0, right: 500.0, top: 10.0, bottom: 100.0, x: axis, y: axis };
    let rule = |x: f64| Rule { x, name: "a name".into() };
    let rules = [rule(99.0), rule(98.0), rule(f64::NAN), rule(1.0), rule(2.0), rule(50.0)];
    let plot = plot.with_room_for(&rules);
    assert_eq!(plot.top, 40.0);
    let mut svg = String::new();
    plot.rules(&mut svg, &rules);
    let heights: Vec<&str> = svg.split("<text").skip(1).filter_map(|t| t.split('"').nth(5)).collect();
    // At 50, 2, 1, 98 and 99. The line of 2 begins below the name of 1, and that of 98 below the name of 99.
    assert_eq!(heights, ["35.0", "35.0", "20.0", "35.0", "20.0"]);
    assert!(svg.contains("text-anchor=\"end\">a name") && !svg.contains("NaN"));
}
