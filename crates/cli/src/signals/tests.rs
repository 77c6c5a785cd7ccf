use super::*;

fn stopped_by(signal: i32) -> Stop {
    let stop = Stop::default();
    stop.signal.store(signal as usize, Ordering::SeqCst);
    stop.asked.store(true, Ordering::SeqCst);
    stop
}

#[test]
fn codes_are_those_of_shells() {
    for (signal, code) in [(SIGINT, 130), (SIGTERM, 143), (SIGHUP, 129), (SIGUSR1, 138)] {
        assert_eq!(stopped_by(signal).interrupted("").exit_code(), code);
    }
}

#[test]
fn only_errors_after_a_signal_are_due_to_it() {
    let error = || Err::<(), _>(anyhow!("no samples").context("reading"));
    let ended = stopped_by(SIGINT).ended(error()).unwrap_err();
    assert_eq!(ended.downcast_ref::<Interrupted>().unwrap().exit_code(), 130);
    assert_eq!(ended.to_string(), "reading: no samples");
    assert!(!Stop::default().ended(error()).unwrap_err().is::<Interrupted>());
    assert!(stopped_by(SIGINT).ended(Ok::<_, anyhow::Error>(())).is_ok());
}
