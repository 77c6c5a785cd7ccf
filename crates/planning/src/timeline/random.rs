//! Random steps: what holds of lanes whatever runs on them.

use super::*;
use proptest::prelude::*;

/// A step that owns what its items wait for.
#[derive(Clone, Debug)]
struct Made {
    lanes: Vec<Lane>,
    after: Vec<Vec<(PhaseId, Distance)>>,
    shares: Vec<bool>,
    seconds: Vec<f64>,
}

impl Made {
    fn items(&self) -> Vec<Item<'_>> {
        let item = |i: usize| Item {
            lane: self.lanes[i],
            after: &self.after[i],
            computes: self.lanes[i] == Lane::Compute,
            shares: self.shares[i],
            seconds: self.seconds[i],
        };
        (0..self.lanes.len()).map(item).collect()
    }

    fn busiest(&self) -> f64 {
        let busy = |lane: Lane| -> f64 {
            (0..self.lanes.len()).filter(|&i| self.lanes[i] == lane).map(|i| self.seconds[i]).sum()
        };
        Lane::ALL.map(busy).into_iter().fold(0.0, f64::max)
    }

    /// What precedes each item: all that it comes after, and the one before it on its lane, with distances.
    fn edges(&self) -> Vec<(usize, usize, f64)> {
        let mut edges = Vec::new();
        for (i, after) in self.after.iter().enumerate() {
            edges.extend(after.iter().map(|&(PhaseId(other), distance)| (other, i, f64::from(distance))));
            let before = self.lanes[..i].iter().rposition(|&lane| lane == self.lanes[i]);
            let last = self.lanes.iter().rposition(|&lane| lane == self.lanes[i]);
            edges.push(before.map_or((last.unwrap_or(i), i, 1.0), |before| (before, i, 0.0)));
        }
        edges
    }

    /// The steady state's period by its definition: of all circles of dependencies the one that takes most time for each
    /// step that it spans. A period is too short if some circle gains on it.
    fn period(&self) -> f64 {
        let (edges, n) = (self.edges(), self.lanes.len());
        let gains = |period: f64| {
            let mut ahead = vec![0.0f64; n];
            for _ in 0..=n {
                let mut grew = false;
                for &(from, to, distance) in &edges {
                    let reached = ahead[from] + self.seconds[to] - period * distance;
                    if reached > ahead[to] + 1e-12 {
                        (ahead[to], grew) = (reached, true);
                    }
                }
                if !grew {
                    return false;
                }
            }
            true
        };
        let (mut short, mut long) = (0.0, self.seconds.iter().sum::<f64>());
        for _ in 0..60 {
            let middle = 0.5 * (short + long);
            if gains(middle) { short = middle } else { long = middle }
        }
        long
    }
}

/// Up to 12 operations on three lanes. Each may wait for earlier ones of its step, and for any of the step before.
fn made(shared: bool) -> impl Strategy<Value = Made> {
    let lane = prop::sample::select(Lane::ALL.to_vec());
    let seconds = prop_oneof![1 => Just(0.0), 3 => (1u32..10).prop_map(f64::from), 3 => 1e-6..10.0f64];
    let wait = (any::<prop::sample::Index>(), 0u32..2);
    let item = (lane, seconds, prop::collection::vec(wait, 0..3), any::<bool>());
    prop::collection::vec(item, 1..12).prop_map(move |items| {
        let all = items.len();
        let after = |(i, waits): (usize, &Vec<(prop::sample::Index, u32)>)| {
            let waits = waits.iter().filter(|(_, distance)| *distance == 1 || i > 0);
            let id = |(index, distance): &(prop::sample::Index, u32)| {
                (PhaseId(index.index(if *distance == 1 { all } else { i })), *distance)
            };
            waits.map(id).collect()
        };
        Made {
            lanes: items.iter().map(|item| item.0).collect(),
            after: items.iter().map(|item| &item.2).enumerate().map(after).collect(),
            shares: items.iter().map(|item| shared && item.3 && item.0 != Lane::Compute).collect(),
            seconds: items.iter().map(|item| item.1).collect(),
        }
    })
}

const CLOSE: f64 = 1e-9;
const STEPS: usize = 6;

/// Nothing begins before what it waits for has ended, in its step or in the one before, nor before its lane is free; and
/// all takes its time, more where it shares the wire.
fn check_spans(made: &Made, spans: &[Span]) -> Result<(), TestCaseError> {
    let (edges, n) = (made.edges(), made.lanes.len());
    for step in 0..STEPS {
        for &(from, to, distance) in &edges {
            let Some(earlier) = step.checked_sub(distance as usize) else { continue };
            let (from, to) = (spans[earlier * n + from], spans[step * n + to]);
            prop_assert!(to.begin_s >= from.end_s - CLOSE, "{to:?} waits for {from:?}");
        }
        for i in 0..n {
            let took = spans[step * n + i].end_s - spans[step * n + i].begin_s;
            prop_assert!(
                took >= made.seconds[i] - CLOSE && (made.shares[i] || took <= made.seconds[i] + CLOSE)
            );
        }
    }
    Ok(())
}

fn check_sums(made: &Made, timeline: &Timeline) -> Result<(), TestCaseError> {
    let step = timeline.step_s;
    prop_assert!(step >= made.busiest() - CLOSE, "{step} s, but a lane is busy for {} s", made.busiest());
    prop_assert!(step <= timeline.serial_s() + CLOSE, "{step} s, of {} s in all", timeline.serial_s());
    let both = timeline.exposed_s() + timeline.hideable_s();
    prop_assert!((both - timeline.communication_s).abs() < CLOSE, "{both} of {}", timeline.communication_s);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn order_is_kept_and_times_add_up(made in prop_oneof![made(false), made(true)]) {
        let items = made.items();
        check_spans(&made, &sharing::spans(&items, STEPS))?;
        if !made.shares.contains(&true) {
            check_spans(&made, &apart(&items, STEPS))?;
        }
        check_sums(&made, &Timeline::once(&items))?;
        check_sums(&made, &Timeline::steady(&items))?;
    }

    /// Where nothing shares the wire, both ways to lay operations out are one.
    #[test]
    fn apart_is_sharing_of_nothing(made in made(false)) {
        let items = made.items();
        for (a, b) in apart(&items, STEPS).iter().zip(sharing::spans(&items, STEPS)) {
            prop_assert!((a.begin_s - b.begin_s).abs() < CLOSE && (a.end_s - b.end_s).abs() < CLOSE, "{a:?} {b:?}");
        }
    }

    #[test]
    fn steady_period_is_the_critical_circle(made in made(false)) {
        let (got, expected) = (Timeline::steady(&made.items()).step_s, made.period());
        prop_assert!((got - expected).abs() < 1e-6, "{got} for {expected}");
    }

    /// The period of a step that shares the wire is that of the middle of a long run, wherever lanes come to be alike.
    #[test]
    fn steady_period_is_that_of_a_long_run(made in made(true)) {
        let items = made.items();
        let (n, spans) = (items.len(), sharing::spans(&items, 60));
        let grown = |from: usize, to: usize| {
            let of = |i: usize| (spans[to * n + i].end_s - spans[from * n + i].end_s) / (to - from) as f64;
            (0..n).map(of).fold(0.0, f64::max)
        };
        let (expected, again) = (grown(40, 50), grown(30, 50));
        if (expected - again).abs() >= 1e-9 {
            return Ok(());
        }
        // A lane that waits for nobody runs ahead without bounds, and the end of a run is not like its middle.
        let most = SETTLING + MEASURED;
        if sharing::until_alike(&items, most).1.is_none() {
            return Ok(());
        }
        let got = Timeline::steady(&items).step_s;
        prop_assert!((got - expected).abs() < 1e-6, "{got} for {expected}");
    }

    #[test]
    fn sharing_the_wire_is_never_faster(made in made(true)) {
        let alone = Made { shares: vec![false; made.lanes.len()], ..made.clone() };
        let (shared, apart) = (Timeline::once(&made.items()).step_s, Timeline::once(&alone.items()).step_s);
        prop_assert!(shared >= apart - CLOSE, "{shared} beside {apart}");
    }

    /// With links apart, what takes less time never makes a step longer. (Where the wire is shared, it may: see below.)
    #[test]
    fn faster_is_never_slower(made in made(false), which in any::<prop::sample::Index>(), part in 0.0..1.0f64) {
        let mut faster = made.clone();
        faster.seconds[which.index(made.lanes.len())] *= part;
        for lay in [Timeline::once, Timeline::steady] {
            let (before, after) = (lay(&made.items()).step_s, lay(&faster.items()).step_s);
            prop_assert!(after <= before + 1e-6, "{after} after {before}");
        }
    }
}

/// Where the wire is shared, faster can be slower, as it is on real networks: a reduction that is ready a second earlier gets
/// into the way of vectors that all wait for.
#[test]
fn haste_on_a_shared_wire_may_cost_time() {
    let step = |before_reduction: f64| {
        let (reduction, vectors) = ([(PhaseId(0), 0)], [(PhaseId(3), 0)]);
        let item = |lane, after, shares, seconds| Item {
            lane,
            after,
            computes: lane == Lane::Compute,
            shares,
            seconds,
        };
        let items = [
            item(Lane::Compute, &[][..], false, before_reduction),
            item(Lane::Gradients, &reduction[..], true, 1.0),
            item(Lane::Exchange, &[][..], false, 1.0),
            item(Lane::Exchange, &[][..], true, 1.0),
            item(Lane::Compute, &vectors[..], false, 10.0),
        ];
        Timeline::once(&items).step_s
    };
    assert_eq!((step(2.0), step(1.0)), (12.0, 13.0));
}

#[test]
fn what_never_ends_does_not_hang() {
    let item = |lane, seconds| Item { lane, after: &[], computes: false, shares: true, seconds };
    let items =
        [item(Lane::Exchange, f64::INFINITY), item(Lane::Gradients, 1.0), item(Lane::Exchange, f64::NAN)];
    assert_eq!(Timeline::once(&items).step_s, f64::INFINITY);
    assert_eq!(Timeline::steady(&items).step_s, f64::INFINITY);
}

/// A circle that spans three steps: computation, an exchange for the next step, storage, a reduction for the step after it, and at its end
/// an operation that holds up the computation of the one behind. The ends of any eight steps have another mean.
#[test]
fn steps_that_take_turns_have_a_mean() {
    let item =
        |lane, after, seconds| Item { lane, after, computes: lane == Lane::Compute, shares: false, seconds };
    let [computed, exchanged, stored, reduced] =
        [[(PhaseId(0), 0)], [(PhaseId(1), 1)], [(PhaseId(2), 0)], [(PhaseId(3), 1)]];
    let items = [
        item(Lane::Compute, &[][..], 9.0),
        item(Lane::Exchange, &computed[..], 4.0),
        item(Lane::Storage, &exchanged[..], 8.0),
        item(Lane::Gradients, &stored[..], 7.0),
        item(Lane::Compute, &reduced[..], 0.0),
    ];
    assert_eq!(apart_until_alike(&items, 16).1, None);
    assert_eq!(Timeline::steady(&items).step_s, 28.0 / 3.0);
}

/// Once it is under way a step takes what its slower lane does, however the first one began.
#[test]
fn a_first_step_without_a_stall_does_not_count() {
    let (computed, exchanged) = ([(PhaseId(2), 0)], [(PhaseId(0), 1)]);
    let item =
        |lane, after, shares, seconds| Item { lane, after, computes: lane == Lane::Compute, shares, seconds };
    let items = [
        item(Lane::Compute, &[][..], false, 1.0),
        item(Lane::Compute, &computed[..], false, 5.0),
        item(Lane::Exchange, &exchanged[..], true, 4.9),
    ];
    assert!((Timeline::steady(&items).step_s - 6.0).abs() < 1e-9);
}
