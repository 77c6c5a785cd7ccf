use super::*;

fn at(told_at: u64, told: f64, done: u64) -> LineState {
    LineState { done, total: 1000, told_at: Duration::from_secs(told_at), told_share: told }
}

#[test]
fn a_line_every_twentieth_but_neither_too_often_nor_too_rarely() {
    let seconds = Duration::from_secs;
    assert!(!at(0, 0.0, 900).due(seconds(1)), "a second is too soon, whatever was done");
    assert!(at(0, 0.0, 50).due(seconds(2)));
    assert!(!at(0, 0.0, 49).due(seconds(9)));
    assert!(at(0, 0.0, 1).due(seconds(10)), "ten seconds without a word are too long");
    assert!(!at(100, 0.5, 549).due(seconds(103)));
    assert!(at(100, 0.5, 551).due(seconds(103)));
}

#[test]
fn lines_tell_all() {
    let progress = Console::Lines.progress("training", 1000, Unit::Count("steps"));
    let line = progress.line(&at(0, 0.0, 250), Duration::from_secs(30), "loss 0.5");
    assert_eq!(line, "training: 250 of 1.0 k steps (25 %), 1 min 30 s left; loss 0.5");
    let unknown = LineState { done: 5, ..LineState::default() };
    assert_eq!(progress.line(&unknown, Duration::from_secs(30), ""), "training: 5 steps");
}

#[test]
fn progress_goes_on_from_where_it_was() {
    for console in [Console::Lines, Console::Terminal(80), Console::Quiet] {
        let progress = console.progress("reading", 10, Unit::Bytes);
        progress.advance(3);
        progress.advance(4);
        if console != Console::Quiet {
            let done = progress.lines.as_ref().map_or(progress.bar.position(), |l| lock(l).state.done);
            assert_eq!(done, 7, "{console:?}");
        }
    }
}

#[test]
fn durations_read_well() {
    assert_eq!(duration(41.6), "42 s");
    assert_eq!(duration(200.0), "3 min 20 s");
    assert_eq!(duration(18_610.0), "5 h 10 min");
}
