use super::*;

fn parse(lines: &[MetricsLine]) -> RecordedRun {
    RecordedRun::of(Records { records: lines.to_vec(), ..Records::default() })
}

#[test]
fn a_run_that_went_on_is_not_over() {
    let end = |step, interrupted| MetricsLine::End(End { step, interrupted, ..End::default() });
    let resume = MetricsLine::Resume(Resume { step: 10, ..Resume::default() });
    let train = |step| MetricsLine::Train(Train { step, samples: step * 7, ..Train::default() });
    assert_eq!(parse(&[end(10, true)]).state(), State::Interrupted);
    let going = parse(&[train(10), end(10, true), resume.clone(), train(14)]);
    assert_eq!((going.state(), going.steps()), (State::NotFinished, 14));
    let over = parse(&[train(10), end(10, true), resume, train(30), end(30, false)]);
    assert_eq!((over.state(), over.steps(), over.steps_of_last_sitting()), (State::Finished, 30, 20));
    assert_eq!((over.samples_at(30), over.samples_at(20)), (210.0, 20.0));
}

#[test]
fn every_sitting_counts() {
    let train = |seconds| MetricsLine::Train(Train { seconds, ..Train::default() });
    assert_eq!(parse(&[train(1.0), train(2.0), train(0.5), train(3.0)]).results().seconds, Some(5.0));
}

#[test]
fn a_run_without_records_has_no_results() {
    let results = parse(&[]).results();
    assert_eq!((results.state, results.steps, results.metric("auc")), (State::NotFinished, 0, None));
    assert_eq!(results.samples_per_s, None);
}
