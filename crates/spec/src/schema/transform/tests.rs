use super::*;
use crate::schema::{DenseColumn, Schema};

fn parse(transform: &str) -> Result<DenseColumn, String> {
    toml::from_str(&format!("column = \"I1\"\ntransform = {transform}")).map_err(|error| error.to_string())
}

#[test]
fn transforms_are_written_as_they_are_read() {
    let texts = [
        "\"none\"",
        "\"log\"",
        "\"standardise\"",
        "{ clip = [-1, 2.5] }",
        "{ clip_quantiles = [0.01, 0.99] }",
        "{ bucketise = 10 }",
        "[\"log\", { clip = [0, 3] }, \"standardise\"]",
    ];
    for text in texts {
        let column = parse(text).unwrap();
        let toml = toml::to_string(&column).unwrap();
        assert_eq!(toml::from_str::<DenseColumn>(&toml).unwrap(), column, "{toml}");
        let json = serde_json::to_string(&column).unwrap();
        assert_eq!(serde_json::from_str::<DenseColumn>(&json).unwrap(), column, "{json}");
        let learnt = ["standardise", "quantiles", "bucketise"].iter().any(|name| text.contains(name));
        assert_eq!(column.transform.is_learnt(), learnt, "{text}");
        let mut schema = Schema::criteo();
        schema.dense[0] = column;
        schema.check().unwrap();
        let toml = toml::to_string_pretty(&schema).unwrap();
        assert_eq!(toml::from_str::<Schema>(&toml).unwrap(), schema, "{toml}");
    }
    // Old schemas have the text of before.
    let column = DenseColumn { column: "I1".into(), transform: Transform::Log, missing: 0.0 };
    let json = serde_json::to_string(&column).unwrap();
    assert_eq!(json, r#"{"column":"I1","transform":"log","missing":0.0}"#);
}

#[test]
fn nonsense_is_refused_with_what_to_do() {
    let unreadable = [
        ("\"standardize\"", "unknown transform \"standardize\"; use none, log, standardise"),
        ("{ clip = [0, 1], bucketise = 3 }", "two keys"),
        ("{ buckets = 3 }", "unknown transform \"buckets\""),
        ("{}", "empty transform"),
        ("[[\"log\"]]", "a list inside a list"),
        ("{ clip = [0] }", "invalid length 1"),
        ("{ bucketise = -3 }", "invalid value"),
        ("7", "a transform: none, log"),
    ];
    for (text, problem) in unreadable {
        let error = parse(text).unwrap_err();
        assert!(error.contains(problem), "{text}: {error}");
    }
    let unusable = [
        ("[]", "a list of 0 transforms"),
        ("{ clip = [2, 1] }", "clip = [2, 1]: give two finite numbers"),
        ("{ clip = [nan, 1] }", "clip = [NaN, 1]"),
        ("{ clip_quantiles = [0.5, 1.5] }", "clip_quantiles = [0.5, 1.5]: give two shares"),
        ("{ clip_quantiles = [0.5, 0.5] }", "give two shares"),
        ("{ bucketise = 1 }", "bucketise = 1: give a number from 2 to 10000"),
        ("[\"log\", { bucketise = 1000000000 }]", "bucketise = 1000000000"),
    ];
    for (text, problem) in unusable {
        let mut schema = Schema::criteo();
        schema.dense[0] = parse(text).unwrap();
        let error = schema.check().unwrap_err().to_string();
        assert!(error.starts_with("dense.I1.transform: ") && error.contains(problem), "{text}: {error}");
    }
}
