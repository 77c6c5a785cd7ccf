use super::*;

fn fault(change: impl Fn(&mut Synthetic)) -> Option<&'static str> {
    let mut log = Synthetic::default();
    change(&mut log);
    log.check(26, 13).err().map(|error| error.field)
}

#[test]
fn the_default_and_its_limits_are_accepted() {
    assert_eq!(fault(|_| ()), None);
    assert_eq!(fault(|log| log.zipf = 1.0), None);
    assert_eq!(fault(|log| log.zipf = 0.0), None);
    assert_eq!(fault(|log| (log.groups, log.across) = (1, 0.0)), None);
    assert_eq!(fault(|log| (log.groups, log.within) = (26, 0.0)), None);
    assert_eq!(fault(|log| log.eval_samples = 0), None);
}

#[test]
fn a_refusal_names_the_field() {
    assert_eq!(fault(|log| log.zipf = -0.1), Some("zipf"));
    assert_eq!(fault(|log| log.zipf = f64::NAN), Some("zipf"));
    assert_eq!(fault(|log| log.zipf = 99.0), Some("zipf"));
    assert_eq!(fault(|log| log.within = f64::INFINITY), Some("within"));
    assert_eq!(fault(|log| log.across = -1.0), Some("across"));
    assert_eq!(fault(|log| log.main = f64::NAN), Some("main"));
    assert_eq!(fault(|log| log.dense = -1.0), Some("dense"));
    assert_eq!(fault(|log| log.click_rate = 0.0), Some("click_rate"));
    assert_eq!(fault(|log| log.click_rate = f64::NAN), Some("click_rate"));
    assert_eq!(fault(|log| log.samples = 0), Some("samples"));
    assert_eq!(fault(|log| log.groups = 0), Some("groups"));
    assert_eq!(fault(|log| log.group_ratio = 0.5), Some("group_ratio"));
    assert_eq!(fault(|log| log.group_ratio = f64::NAN), Some("group_ratio"));
    assert_eq!(fault(|log| log.group_ratio = 50.0), Some("group_ratio"));
    assert_eq!(fault(|log| log.groups = 27), Some("groups"));
    assert_eq!(fault(|log| log.groups = 26), Some("groups"));
    assert_eq!(fault(|log| log.groups = 1), Some("across"));
    assert_eq!(Synthetic::default().check(26, 0).unwrap_err().field, "dense");
    assert_eq!(Synthetic::default().check(100, 13), Ok(()));
}
