use super::*;

fn run(config: Option<&str>) -> RecordedRun {
    RecordedRun { config: config.map(Into::into), ..RecordedRun::default() }
}

#[test]
fn only_differences_are_named() {
    let one = run(Some("[train]\nbatch = 64\nseed = 1\n[[model.features]]\nrows = 5\n"));
    let two = run(Some("[train]\nbatch = 64\nseed = 2\n[[model.features]]\nrows = 6\n"));
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        differences(&[one.clone(), two]),
        [
            ("model.features[0].rows".to_owned(), vec![some("5"), some("6")]),
            ("train.seed".to_owned(), vec![some("1"), some("2")]),
        ]
    );
    assert!(differences(&[one.clone(), one.clone()]).is_empty());
    let missing = differences(&[one, run(None), run(Some("]"))]);
    assert_eq!(missing.len(), 4);
    assert_eq!(missing[0], ("(not TOML)".to_owned(), vec![None, None, some("]")]));
}

#[test]
fn differences_know_which_way_is_better() {
    let figures = figures();
    let named = |name: &str| figures.iter().find(|figure| figure.name == name).unwrap();
    assert_eq!(difference(named("AUC"), 0.012), "<small class=\"better\">▲ +0.0120</small>");
    assert_eq!(difference(named("logloss"), 0.012), "<small class=\"worse\">▼ +0.0120</small>");
    assert_eq!(difference(named("logloss"), -0.00001), "<small class=\"same\">±0</small>");
}
