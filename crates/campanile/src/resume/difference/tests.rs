use super::*;

fn says(change: impl Fn(&mut Config)) -> String {
    let before = Config::default();
    let before = before.explicit(&planning::check(&before).unwrap());
    let mut now = before.clone();
    change(&mut now);
    let refused = refuse_another(Path::new("runs/one"), &before, &now);
    refused.map_or_else(|error| error.to_string(), |()| String::new())
}

#[test]
fn both_values_are_told() {
    let said = says(|c| c.train.batch = Some(128));
    assert!(
        said.contains("runs/one") && said.contains("train.batch: requested 128, but the run has 2048"),
        "{said}"
    );
    let said = says(|c| c.model.features.as_mut().unwrap()[2].rows = 7);
    assert!(said.contains("model.features[2].rows: requested 7"), "{said}");
    let said = says(|c| c.model.top = Some(vec![8, 1]));
    assert!(said.contains("model.top: requested 2 entries"), "{said}");
    let said = says(|c| c.data.shuffle = Some(9));
    assert!(said.contains("data.shuffle: requested 9, but the run has none"), "{said}");
}

#[test]
fn many_differences_are_cut_short_and_none_is_no_error() {
    let said = says(|c| c.model.features.as_mut().unwrap().iter_mut().for_each(|f| f.rows += 1));
    assert!(said.lines().count() == TOLD + 2 && said.contains(" more"), "{said}");
    assert_eq!(says(|c| (c.topology.hosts, c.model.preset) = (Some(1), None)), "");
}
