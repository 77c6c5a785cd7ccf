use super::*;

/// A job that is a script: what it prints, and whether it ends well, can be chosen.
fn run(template: &str, script: &str) -> Result<Ended> {
    let folder = tempfile::tempdir().unwrap();
    let launcher = Launcher {
        program: "/bin/sh".into(),
        template: template.into(),
        rate: "1gbit".into(),
        folder: folder.path().to_owned(),
    };
    launcher.run(4, 2, &["-c".into(), script.into()])
}

#[test]
fn the_last_object_is_the_result() {
    let ended =
        run("env HOSTS={hosts} RANKS={ranks}", r#"echo '{"a": 1}'; echo "{\"b\": $HOSTS$RANKS}"; echo end"#);
    let ended = ended.unwrap();
    assert_eq!((ended.result["b"].as_u64(), ended.counted), (Some(48), None));
}

#[test]
fn what_interfaces_counted_is_added_up() {
    let counters = r#"echo '[{"sent": 3}, {"sent": 4}]' > $COUNTERS; echo '{}'"#;
    assert_eq!(run("env COUNTERS={counters}", counters).unwrap().counted, Some(7));
}

#[test]
fn jobs_that_fail_say_how() {
    assert!(matches!(run(" ", ""), Err(Error::NoLauncher)));
    assert!(matches!(run("/does/not/exist", ""), Err(Error::Start { .. })));
    let failed = run("env", "echo why >&2; exit 3").err().unwrap();
    assert!(matches!(&failed, Error::Job { output, .. } if output == "why\n"), "{failed:?}");
    assert!(matches!(run("env", "echo nothing"), Err(Error::NoResult { .. })));
}
