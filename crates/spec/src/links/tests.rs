use super::*;

#[test]
fn it_survives_json() {
    let (collective, group) = (CollectiveKind::AllReduce, GroupSpan::Host);
    let algorithm = Algorithm::Direct;
    let line = LinkModel { collective, algorithm, group, ranks: 2, latency_s: 1e-6, bytes_per_s: 9e9 };
    let text = serde_json::to_string(&line).unwrap();
    assert!(text.contains(r#""collective":"all_reduce","group":"host""#), "{text}");
    assert_eq!(serde_json::from_str::<LinkModel>(&text).unwrap(), line);
    // Files from before there was a choice name no algorithm.
    let older = text.replace(r#","algorithm":"direct""#, "");
    assert!(older.len() < text.len(), "{text}");
    assert_eq!(serde_json::from_str::<LinkModel>(&older).unwrap(), line);
}
