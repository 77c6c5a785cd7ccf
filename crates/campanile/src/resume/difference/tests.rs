use super::*;
use spec::codec::Rounding;
use spec::wire::WireConfig;

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
    let said = says(|c| (c.optimizer.weight_decay, c.model.dropout) = (Some(0.5), Some(0.1)));
    assert!(said.contains("optimizer.weight_decay: requested 0.5, but the run has none"), "{said}");
    assert!(said.contains("model.dropout: requested 0.1, but the run has none"), "{said}");
    let said = says(|c| (c.train.clip_norm, c.train.clip_value) = (Some(1.0), Some(2.0)));
    assert!(said.contains("train.clip_norm: requested 1,") && said.contains("train.clip_value"), "{said}");
    let said = says(|c| (c.train.label_smoothing, c.optimizer.table_weight_decay) = (Some(0.5), Some(1.0)));
    assert!(
        said.contains("train.label_smoothing") && said.contains("optimizer.table_weight_decay"),
        "{said}"
    );
    let said = says(|c| c.data.shuffle = Some(9));
    assert!(said.contains("data.shuffle: requested 9, but the run has none"), "{said}");
}

#[test]
fn many_differences_are_cut_short_and_none_is_no_error() {
    let said = says(|c| c.model.features.as_mut().unwrap().iter_mut().for_each(|f| f.rows += 1));
    assert!(said.lines().count() == TOLD + 2 && said.contains(" more"), "{said}");
    assert_eq!(says(|c| (c.topology.hosts, c.model.preset) = (Some(1), None)), "");
    // How values travel may change, as the cluster may.
    let other = |c: &mut Config| {
        c.wire =
            WireConfig { rounding: Some(Rounding::Stochastic), ..WireConfig::all("u4+ec".parse().unwrap()) };
        c.train.all_reduce = Some("ring".parse().unwrap());
    };
    assert_eq!(says(other), "");
}
