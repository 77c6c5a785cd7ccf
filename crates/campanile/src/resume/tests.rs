use super::*;

/// Runs that were kept before logs were shuffled by default go on as they began.
#[test]
fn older_runs_keep_the_order_of_their_log() {
    let mut config = Config::default();
    keep_order(&mut config);
    assert_eq!(config, Config::default(), "a synthetic log has no order");
    config.data.format = Some(DataFormat::Csv);
    keep_order(&mut config);
    assert_eq!(config.data.shuffle, Some(0));
    config.data.shuffle = Some(100);
    keep_order(&mut config);
    assert_eq!(config.data.shuffle, Some(100));
}
