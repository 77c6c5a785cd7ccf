use super::*;

fn data(format: DataFormat) -> DataConfig {
    DataConfig { format: Some(format), split: Some(0.1), ..DataConfig::default() }
}

#[test]
fn the_order_of_time_comes_first_and_a_named_column_before_it() {
    let mut config = data(DataFormat::CriteoTsv);
    assert_eq!(config.split_of(&Schema::criteo()).unwrap().unwrap().by, SplitBy::Order);
    config.split_by = Some("I2".into());
    let split = config.split_of(&Schema::criteo()).unwrap().unwrap();
    assert_eq!(split.by, SplitBy::Column("I2".into()));
    assert_eq!(split.to_string(), "0.1 by column I2");
}

#[test]
fn what_cannot_be_split_is_refused_by_name() {
    let refusal = |change: fn(&mut DataConfig)| {
        let mut config = data(DataFormat::Csv);
        change(&mut config);
        config.split_of(&Schema::criteo()).unwrap_err().to_string()
    };
    for share in [0.0, 1.0, -0.1, f64::NAN, f64::INFINITY] {
        let mut config = data(DataFormat::Csv);
        config.split = Some(share);
        assert!(config.split_of(&Schema::criteo()).unwrap_err().to_string().contains("--split"), "{share}");
    }
    assert!(refusal(|c| c.eval = vec!["a".into()]).contains("--eval"));
    assert!(refusal(|c| c.format = None).contains("synthetic"));
    assert!(refusal(|c| c.format = Some(DataFormat::Prepared)).contains("data prepare --split 0.1"));
    assert!(refusal(|c| (c.split, c.split_by) = (None, Some("ts".into()))).contains("--split 0.1"));
}
