use super::*;

#[test]
fn messages_come_back() {
    let collective =
        CollectiveStatus { operation: "all_to_all", label: "pooled".into(), sequence: 7, size: 4 };
    let activity = Activity::Waiting(Duration::from_millis(12));
    let status = RankStatus {
        rank: 2,
        host: 1,
        phase: "lookup".into(),
        activity,
        collective: Some(collective),
        answers: true,
    };
    let long = "é".repeat(LONGEST);
    for (cause, status) in
        [("disk is gone", status.clone()), (&long, RankStatus { collective: None, ..status })]
    {
        let message = Message::Ended { origin: 3, cause: cause.to_owned(), gave_up: cause == long, status };
        let bytes = message.encode();
        assert!(bytes.len() <= LONGEST);
        let expected = format!("{message:?}").replace(&long, &long[..TEXT]);
        assert_eq!(format!("{:?}", Message::decode(&bytes).unwrap()), expected);
        (0..bytes.len()).for_each(|len| assert!(Message::decode(&bytes[..len]).is_none(), "{len}"));
    }
    let left = Message::Left { rank: 1, phase: "last".into() };
    assert_eq!(format!("{:?}", Message::decode(&left.encode()).unwrap()), format!("{left:?}"));
}

#[test]
fn headers_that_fit() {
    let make = |operation, element, sends, expects| {
        let names = Header { operation, element, label: "a label".into() };
        let mut bytes = header(&names, &"phase".repeat(20).into());
        set_lengths(&mut bytes, sends, expects);
        bytes
    };
    let mine = make("all_reduce (second half)", "f32", 1 << 40, 5);
    assert!(agree(&mine, &make("all_reduce (second half)", "f32", 5, 1 << 40)));
    assert!(!agree(&mine, &make("all_reduce (second half)", "f32", 1 << 40, 5)));
    assert!(!agree(&mine, &make("all_reduce", "f32", 5, 1 << 40)));
    assert!(!agree(&mine, &make("all_reduce (second half)", "f64", 5, 1 << 40)));
    let call = call(3, &mine);
    assert_eq!((call.rank, call.sends, call.expects), (3, 1 << 40, 5));
    assert_eq!((call.operation, call.element), ("all_reduce (second half)", "f32"));
    assert_eq!((call.label.as_str(), call.phase.as_str()), ("a label", &"phase".repeat(20)[..52]));
}
