use super::*;

#[test]
fn text_and_back() {
    for (text, every) in [
        ("500", Every::Steps(500)),
        ("30s", Every::Seconds(30.0)),
        ("90s", Every::Seconds(90.0)),
        ("10min", Every::Seconds(600.0)),
        ("1h", Every::Seconds(3600.0)),
        ("0.5s", Every::Seconds(0.5)),
    ] {
        assert_eq!(text.parse(), Ok(every));
        assert_eq!(every.to_string(), text);
    }
    assert_eq!(" 1.5 h".parse(), Ok(Every::Seconds(5400.0)));
    for text in ["", "10m", "min", "-5", "-5s", "1e3s", "10 minutes", "1.5", "1..5s", "inf", "nans"] {
        let refused = text.parse::<Every>().unwrap_err();
        assert!(refused.contains("10min"), "{refused}");
    }
}

#[test]
fn steps_are_numbers_and_times_are_text() {
    for (json, every) in
        [("500", Every::Steps(500)), ("\"10min\"", Every::Seconds(600.0)), ("\"30s\"", Every::Seconds(30.0))]
    {
        assert_eq!(serde_json::to_string(&every).unwrap(), json);
        assert_eq!(serde_json::from_str::<Every>(json).unwrap(), every);
    }
    for json in ["-1", "1.5", "true", "\"soon\"", "null"] {
        assert!(serde_json::from_str::<Every>(json).is_err(), "{json}");
    }
}

#[test]
fn what_never_comes_is_a_problem() {
    for every in [Every::Steps(0), Every::Seconds(0.0), Every::Seconds(f64::NAN), Every::Seconds(1e10)] {
        assert!(every.problem().is_some(), "{every:?}");
    }
    assert_eq!(Every::Seconds(1e-6).problem(), None);
}
