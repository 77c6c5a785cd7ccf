use super::*;

fn halving(trials: usize, factor: Option<usize>) -> Halving {
    Halving { trials, factor, better: Better::Higher }
}

/// Runs a plan to its end; a trial's result is what `value` says.
fn run(plan: Halving, value: impl Fn(usize, usize) -> Option<f64>) -> (Vec<(usize, usize)>, Results) {
    let (mut ran, mut results) = (Vec::new(), Results::new());
    while let Some((trial, rung)) = plan.next(&results) {
        assert!(results.insert((trial, rung), value(trial, rung)).is_none(), "{trial} {rung} ran twice");
        ran.push((trial, rung));
    }
    (ran, results)
}

#[test]
fn rungs_end_with_whole_runs() {
    let rungs = [(1, 2), (2, 2), (3, 2), (12, 2), (100, 2), (3, 3), (4, 3), (12, 3)];
    let found = rungs.map(|(trials, factor)| halving(trials, Some(factor)).rungs());
    assert_eq!(found, [1, 2, 3, 3, 3, 2, 3, 3]);
    assert_eq!(halving(12, None).rungs(), 1);
    assert_eq!(halving(12, None).steps(0, 40), 40);
    assert_eq!([0, 1, 2].map(|rung| halving(12, Some(3)).steps(rung, 100)), [12, 34, 100]);
    assert_eq!([0, 1, 2].map(|rung| halving(12, Some(2)).steps(rung, 1)), [1, 1, 1]);
}

#[test]
fn the_best_go_on() {
    // Trial 5 is the best early and trial 4 in the end; the last two are equal, and the first of equals goes on.
    let value = |trial: usize, rung: usize| match (trial, rung) {
        (5, 0) => Some(10.0),
        (5, _) => Some(3.5),
        (6 | 7, _) => Some(2.5),
        _ => Some(trial as f64),
    };
    let (ran, results) = run(halving(8, Some(2)), value);
    let of = |rung| ran.iter().filter(|(_, r)| *r == rung).map(|(trial, _)| *trial).collect::<Vec<_>>();
    assert_eq!(of(0), (0..8).collect::<Vec<_>>());
    assert_eq!(of(1), [3, 4, 5, 6]);
    assert_eq!(of(2), [4, 5]);
    assert_eq!(halving(8, Some(2)).order(&results), [4, 5, 3, 6, 7, 2, 1, 0]);
    let lower = Halving { better: Better::Lower, ..halving(8, Some(2)) };
    assert_eq!(run(lower, value).0.last(), Some(&(1, 2)));
}

#[test]
fn failed_trials_do_not_go_on_and_come_last() {
    let failing = |trial: usize, rung: usize| (trial != 0 && (trial, rung) != (3, 1)).then_some(trial as f64);
    let (ran, results) = run(halving(4, Some(2)), failing);
    assert_eq!(ran, [(0, 0), (1, 0), (2, 0), (3, 0), (2, 1), (3, 1), (2, 2)]);
    assert_eq!(halving(4, Some(2)).order(&results), [2, 1, 0, 3]);
    let (ran, results) = run(halving(2, Some(2)), |_, _| None);
    assert_eq!(ran.len(), 2, "none is left for the second rung");
    assert_eq!(results.len(), 2);
}

#[test]
fn states_are_kept_only_while_they_can_be_needed() {
    let value = |trial: usize| [3.0, 1.0, 4.0, 2.0][trial];
    for (factor, most) in [(None, [4, 4, 3, 2]), (Some(2), [4, 4, 4, 3])] {
        let (plan, mut results) = (halving(4, factor), Results::new());
        let mut kept: Vec<usize> = (0..4).collect();
        let mut counts = Vec::new();
        while let Some((trial, rung)) = plan.next(&results) {
            let needed = plan.needed(Some((trial, rung)), &results);
            assert!(needed.contains(&trial) && needed.iter().all(|trial| kept.contains(trial)), "{needed:?}");
            counts.push(needed.len());
            results.insert((trial, rung), Some(value(trial)));
            kept = needed;
        }
        assert_eq!(counts[..4], most);
        assert_eq!(plan.needed(None, &results), [2]);
        assert!(kept.contains(&2), "the best one's state was still there");
    }
}

#[test]
fn a_plan_goes_on_from_any_point() {
    let value = |trial: usize, rung: usize| Some(((trial * 7 + rung * 3) % 5) as f64);
    let plan = halving(9, Some(3));
    let (ran, results) = run(plan, value);
    for cut in 0..ran.len() {
        let before: Results = ran[..cut].iter().map(|at| (*at, results[at])).collect();
        assert_eq!(plan.next(&before), Some(ran[cut]), "after {cut} results");
    }
}
