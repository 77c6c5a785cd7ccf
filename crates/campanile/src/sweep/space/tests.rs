use super::*;

fn values(text: &str) -> Vec<Value> {
    let space = Space::new(vec![text.parse().unwrap()]).unwrap();
    space.trials(None, 0).unwrap().into_iter().flatten().collect()
}

#[test]
fn lists_are_toml_values_or_words() {
    assert_eq!(values("optimizer.peak=0.01,1"), [Value::Float(0.01), Value::Integer(1)]);
    assert_eq!(values("train.overlap=true,false"), [Value::Boolean(true), Value::Boolean(false)]);
    let lists = values("model.top=[64,1],[128,64,1]");
    assert_eq!(lists.iter().map(|list| list.as_array().unwrap().len()).collect::<Vec<_>>(), [2, 3]);
    let words = values("model.tower_module=none,\"dcn:d=8,rank=4\"");
    assert_eq!(words, [Value::String("none".into()), Value::String("dcn:d=8,rank=4".into())]);
    assert_eq!(values("checkpoint.every=10min"), [Value::String("10min".into())]);
    let formats = ["bf16", "u4+ec", "fp8-e5m2"].map(|format| Value::String(format.into()));
    assert_eq!(values("wire.dense=bf16,u4+ec,fp8-e5m2"), formats);
}

#[test]
fn a_grid_has_every_combination_and_a_smaller_number_is_drawn_from_it() {
    let space = |seed| {
        let space = ["a.x=1,2,3", "b=4,5"].map(|text| text.parse().unwrap()).to_vec();
        move |count| Space::new(space.clone()).unwrap().trials(count, seed).unwrap()
    };
    let all = space(0)(None);
    let shown: Vec<String> = all.iter().map(|values| format!("{}{}", values[0], values[1])).collect();
    assert_eq!(shown, ["14", "15", "24", "25", "34", "35"]);
    assert_eq!(space(0)(Some(100)), all, "there are no more");
    let four = space(0)(Some(4));
    assert!(four.len() == 4 && four.iter().all(|trial| all.contains(trial)), "{four:?}");
    assert!(four.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!(space(0)(Some(4)), four, "by counter");
    assert!((1..20).any(|seed| space(seed)(Some(4)) != four), "the seed draws others");
}

#[test]
fn ranges_are_drawn_by_counter() {
    let draw = |text: &str, count| {
        let space = Space::new(vec![text.parse().unwrap(), "k=1,2".parse().unwrap()]).unwrap();
        space.trials(Some(count), 7).unwrap()
    };
    let many = draw("p=1e-4..1e-1:log", 300);
    let floats: Vec<f64> = many.iter().map(|trial| trial[0].as_float().unwrap()).collect();
    assert!(floats.iter().all(|x| (1e-4..=1e-1).contains(x)));
    let small = floats.iter().filter(|x| **x < 10f64.powf(-2.5)).count();
    assert!((120..180).contains(&small), "half of the draws lie below the geometric middle: {small}");
    assert!(floats.iter().all(|x| format!("{x:e}").split('e').next().unwrap().len() <= 5), "four digits");
    assert_eq!(draw("p=1e-4..1e-1:log", 3)[..], many[..3], "draw i does not depend on how many there are");
    for trials in [draw("p=2..4", 60), draw("p=2..4:log", 60)] {
        let mut whole: Vec<i64> = trials.iter().map(|trial| trial[0].as_integer().unwrap()).collect();
        whole.sort_unstable();
        whole.dedup();
        assert_eq!(whole, [2, 3, 4]);
    }
    let ones = many.iter().filter(|trial| trial[1] == Value::Integer(1)).count();
    assert_eq!(ones, 150, "points of the grid take turns");
    assert_eq!(draw("p=0..1", DRAWS).len(), DRAWS);
}

#[test]
fn what_is_no_setting_is_refused() {
    let refused = |text: &str| text.parse::<Setting>().unwrap_err().to_string();
    for text in ["model.dim", "=3", "model.=3", "model.dim=", "model.dim=1,,2"] {
        assert!(refused(text).contains("is no setting; write KEY=V1,V2"), "{text}");
    }
    assert!(refused("p=2..1").contains("smaller of two"));
    assert!(refused("p=1..x").contains("two numbers"));
    assert!(refused("p=0..1:log").contains("above 0"));
    assert!(refused("data.split=0.1,0.2").contains("share one log"));
    assert!("data.shuffle=0,100".parse::<Setting>().is_ok());
    let twice = ["a=1,2", "a=3"].map(|text| text.parse().unwrap()).to_vec();
    assert_eq!(Space::new(twice).unwrap_err(), SpaceError::Twice { key: "a".into() });
    let list: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    let large = ["a", "b"].map(|key| format!("{key}={}", list.join(",")).parse().unwrap()).to_vec();
    assert_eq!(Space::new(large).unwrap().trials(Some(3), 0), Err(SpaceError::TooMany));
}

#[test]
fn values_take_the_place_of_those_of_a_config() {
    let base: Table = toml::from_str("[train]\nbatch = 64\n[model]\nkind = 'dlrm'").unwrap();
    let apply = |key: &str| {
        let space = Space::new(vec![format!("{key}=1").parse().unwrap()]).unwrap();
        space.applied(&base, &[Value::Integer(1)])
    };
    assert_eq!(apply("train.batch").unwrap()["train"]["batch"], Value::Integer(1));
    let new = apply("optimizer.dense.rate").unwrap();
    assert_eq!(new["optimizer"]["dense"]["rate"], Value::Integer(1));
    assert_eq!(new["train"], base["train"]);
    assert!(matches!(apply("model.kind.x"), Err(SpaceError::NotASection { .. })));
}
