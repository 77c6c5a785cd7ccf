use super::*;
use std::time::Duration;

/// Squares the numbers below `count`, and returns what came out before an error.
fn squares(
    count: u64,
    threads: usize,
    fault: impl Fn(&str, u64) -> Result<(), DataError> + Sync,
) -> (Vec<u64>, Result<(), DataError>) {
    let mut next = 0;
    let mut out = vec![];
    let outcome = run(
        vec![0; threads + 1],
        threads,
        |job| {
            *job = next;
            next += 1;
            fault("read", *job)?;
            Ok(next <= count)
        },
        || (),
        |(), job| {
            if *job % 7 == 0 {
                thread::sleep(Duration::from_micros(200));
            }
            let _ = fault("work", *job);
            *job *= *job;
        },
        |job| {
            fault("take", *job)?;
            out.push(*job);
            Ok(())
        },
    );
    (out, outcome)
}

#[test]
fn results_come_in_order() {
    for threads in [1, 4] {
        let (out, outcome) = squares(100, threads, |_, _| Ok(()));
        outcome.unwrap();
        assert_eq!(out, (0..100).map(|i| i * i).collect::<Vec<_>>());
    }
}

#[test]
fn errors_end_it_after_what_came_before() {
    for stage in ["read", "take"] {
        let at = if stage == "take" { 50 * 50 } else { 50 };
        let (out, outcome) = squares(1000, 3, |here, job| {
            if here == stage && job == at { Err(DataError::file("x", "fault")) } else { Ok(()) }
        });
        assert_eq!(outcome, Err(DataError::file("x", "fault")));
        assert_eq!(out.len(), 50, "{stage}");
    }
}

#[test]
fn panics_end_it_with_their_message() {
    for (stage, thread) in [("read", "reader"), ("work", "parser")] {
        let (out, outcome) = squares(1000, 3, |here, job| {
            assert!(here != stage || job != 50, "no {job}");
            Ok(())
        });
        assert_eq!(outcome, Err(DataError::Panic { thread, message: "no 50".into() }));
        assert_eq!(out.len(), 50, "{stage}");
    }
}
