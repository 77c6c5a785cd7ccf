use super::*;
use crate::model::Model;
use crate::placement::{Layout, Scheme};
use crate::presets::{ModelKind, Preset};

fn model(dim: usize) -> Model {
    Preset::Demo.model(ModelKind::Dlrm, Some(dim), None).unwrap()
}

/// A placement on 2 × 2 ranks with every scheme.
fn placement(model: &Model) -> Placement {
    let mut layouts: Vec<Layout> = (0..26).map(|table| Layout::TableWise { rank: table % 4 }).collect();
    layouts[0] = Layout::RowWise { ranks: vec![0, 2, 3] };
    layouts[1] = Layout::ColumnWise { ranks: vec![3, 1] };
    layouts[2] = Layout::Grid { rows: 2, columns: 2, ranks: vec![0, 1, 2, 3] };
    layouts[3] = Layout::Replicated;
    layouts[4] = Layout::DataParallel { ranks: None };
    Placement::of_layouts(model, Topology::new(2, 2).unwrap(), &layouts).unwrap()
}

#[test]
fn a_plan_comes_back_from_its_file() {
    let (model, cluster) = (model(16), Topology::new(2, 2).unwrap());
    let placement = placement(&model);
    let plan = PlanFile::of(&model, &placement, None);
    let json: PlanFile = serde_json::from_str(&serde_json::to_string(&plan).unwrap()).unwrap();
    assert_eq!(json.placement(&model, cluster, None).unwrap(), placement);
    // In a config, too, where it stands for a run that goes on.
    let choice = PlanChoice::File(Box::new(plan.clone()));
    let config = crate::run::PlacementConfig { plan: Some(choice), ..Default::default() };
    let text = toml::to_string_pretty(&config).unwrap();
    assert_eq!(toml::from_str::<crate::run::PlacementConfig>(&text).unwrap(), config);
    assert!(plan.tables[3].shards[0].copies.is_some() && plan.tables[0].shards[0].copies.is_none());
}

#[test]
fn the_first_difference_is_named_with_both_values() {
    let (ours, cluster) = (model(16), Topology::new(2, 2).unwrap());
    let plan = PlanFile::of(&ours, &placement(&ours), None);
    let refused = |plan: &PlanFile, model: &Model, cluster, groups| {
        plan.placement(model, cluster, groups).unwrap_err().to_string()
    };
    type Case = (fn(&mut PlanFile), &'static str);
    let cases: [Case; 7] = [
        (|plan| plan.version = 2, "the plan has version 2, this program reads version 1;"),
        (|plan| plan.tables[5].rows += 1, "rows are "),
        (|plan| plan.tables[7].name = "other".into(), "table 7 is other in the plan, but C8 in the model;"),
        (|plan| plan.tables.truncate(20), "the plan has 20 tables, the model has 26;"),
        (|plan| plan.tables[8].shards[0].ranks = vec![9], "rank 9 does not exist"),
        (|plan| plan.tables[8].shards[0].ranks = vec![], "a shard of table C9 names ranks []"),
        (|plan| plan.tables[0].shards[1].rows[0] += 1, "do not tile the table"),
    ];
    for (change, expected) in cases {
        let mut changed = plan.clone();
        change(&mut changed);
        let got = refused(&changed, &ours, cluster, None);
        assert!(got.contains(expected), "{got}");
    }
    let got = refused(&plan, &model(8), cluster, None);
    assert!(got.contains("table C1: dim is 16 in the plan, but 8 in the model"), "{got}");
    let got = refused(&plan, &ours, Topology::new(1, 4).unwrap(), None);
    assert!(got.contains("for 2 hosts × 2 ranks, the run has 1 host × 4 ranks"), "{got}");
    let got = refused(&plan, &ours, cluster, Some(2));
    assert!(got.contains("for the flat dataflow, the run has sptt with 2 hosts per tower"), "{got}");
}

#[test]
fn differences_of_plans_are_found() {
    let model = model(16);
    let one = PlanFile::of(&model, &placement(&model), None);
    let mut other = one.clone();
    let whole =
        PlannedShard { rows: [0, other.tables[0].rows], columns: [0, 16], ranks: vec![1], copies: None };
    other.tables[0].shards = vec![whole];
    other.tables[9].name = "new".into();
    let difference = one.difference(&other).unwrap();
    assert_eq!(difference.unchanged, 24);
    let [first, gone, new] = &difference.tables[..] else { panic!("{difference:?}") };
    let place = |place: &Option<TablePlace>| place.clone().map(|place| (place.scheme, place.ranks));
    assert_eq!(place(&first.before), Some((Scheme::RowWise, vec![0, 2, 3])));
    assert_eq!(place(&first.after), Some((Scheme::TableWise, vec![1])));
    assert_eq!((gone.name.as_str(), &gone.after, &new.before), ("C10", &None, &None));
    // The table moved from ranks 0, 2 and 3 to rank 1: no bytes are lost.
    let sum = |of: fn(&RankDifference) -> Option<u64>| difference.ranks.iter().filter_map(of).sum::<u64>();
    assert_eq!(sum(|rank| rank.before_bytes), sum(|rank| rank.after_bytes));
    let moved = 64 * one.tables[0].rows as u64;
    assert_eq!(difference.ranks[1].after_bytes, difference.ranks[1].before_bytes.map(|bytes| bytes + moved));
}
