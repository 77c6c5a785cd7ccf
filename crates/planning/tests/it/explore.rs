//! Exploration: every point once, and what is best whatever the order.

use planning::cost::CostKind;
use planning::explore::{
    Capability, Evaluator, ExploreProgress, Found, Front, Nesting, Outcome, Scaling, Space, SpaceError,
    Subject, Summary, Tally, WhatIf, explore,
};
use planning::simulator::Simulation;
use planning::system::System;
use planning::trained::Trained;
use planning::workload::{
    Activations, Convention, Job, LayerGroup, Layered, Parallel, Strategies, Strategy, TaskKind,
};
use proptest::prelude::*;
use std::collections::HashSet;

fn layered(name: &str) -> Subject {
    Subject::Layered(Layered::named(name).unwrap())
}

fn systems(names: &[&str]) -> Vec<System> {
    names.iter().map(|name| System::named(name).unwrap()).collect()
}

fn space(models: &[&str], on: &[&str], batches: &[usize], what_if: WhatIf) -> Space {
    let models = models.iter().map(|name| layered(name)).collect();
    Space::new(models, systems(on), batches.to_vec(), TaskKind::PreTraining, what_if).unwrap()
}

fn scaled(combined: bool) -> WhatIf {
    let mut what_if = WhatIf::default();
    what_if.add(Some(Capability::Flops), &[1.0, 2.0]).unwrap();
    what_if.add(Some(Capability::Inter), &[2.0, 10.0, 2.0]).unwrap();
    what_if.add(None, &[10.0]).unwrap();
    if combined {
        what_if.combine();
    }
    what_if
}

fn dlrm_a(what_if: WhatIf) -> Space {
    space(&["dlrm-a"], &["zionex:128"], &[512], what_if)
}

fn product(a: &HashSet<Strategy>, b: &HashSet<Strategy>) -> Vec<(Strategy, Strategy)> {
    a.iter().flat_map(|a| b.iter().map(move |b| (a.clone(), b.clone()))).collect()
}

/// Nested loops over the same lists, and strategies as the paper writes them.
#[test]
fn points_are_all_combinations() {
    use Parallel::{Ddp, Fsdp, FsdpPrefetch, Mp, Tp};
    let (names, batches) = (["zionex:8", "a100:16"], [256, 512]);
    let space = space(&["dlrm-a", "gpt-3", "vit-l", "llm-moe"], &names, &batches, scaled(true));
    let ways = |parallels: &[Parallel], system: &System, has: bool| {
        let mut all: HashSet<Strategy> = parallels.iter().map(|&one| Strategy::flat(one, system)).collect();
        if system.nodes > 1 {
            for (&a, &b) in parallels.iter().flat_map(|a| parallels.iter().map(move |b| (a, b))) {
                if a != b && !(a.is_fsdp() && b.is_fsdp()) {
                    all.insert(Strategy::nested(a, b, system));
                }
            }
        }
        if has { all } else { HashSet::from([Strategy::flat(parallels[0], system)]) }
    };
    let mut expected = HashSet::new();
    for (m, subject) in space.models().iter().enumerate() {
        let Subject::Layered(model) = subject else { unreachable!() };
        for (s, system) in systems(&names).iter().enumerate() {
            for inter in [1.0, 2.0, 10.0] {
                for flops in [1.0, 2.0] {
                    for batch in batches {
                        let of = |group| match group {
                            LayerGroup::Tables => ways(&[Mp, Ddp], system, model.has(group)),
                            _ => ways(&[Fsdp, FsdpPrefetch, Ddp, Tp], system, model.has(group)),
                        };
                        let hardware = format!("{:?}", Scaling([flops, 1.0, 1.0, 1.0, inter]));
                        let [bottoms, tops, expert_ways, transformers, tables] = LayerGroup::ALL.map(of);
                        for (bottom, top) in product(&bottoms, &tops) {
                            for (experts, transformer) in product(&expert_ways, &transformers) {
                                for embedding in tables.clone() {
                                    let (bottom, top, experts) =
                                        (bottom.clone(), top.clone(), experts.clone());
                                    let transformer = transformer.clone();
                                    let recomputes = model.transformer.is_some();
                                    let strategies =
                                        Strategies { bottom, top, experts, transformer, embedding };
                                    for recompute in [false, true].into_iter().filter(|&is| !is || recomputes)
                                    {
                                        let key =
                                            (m, s, hardware.clone(), batch, strategies.clone(), recompute);
                                        expected.insert(key);
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    let all_at_once = format!("{:?}", Scaling([10.0; 5]));
    let mut seen = HashSet::new();
    for index in 0..space.len() {
        let point = space.point(index);
        let system = &space.systems()[point.system];
        let hardware = format!("{:?}", space.scaling(&point));
        let plan = point.plan.unwrap();
        let (strategies, recompute) = (plan.on(system), plan.activations == Activations::Recompute);
        let key = (point.model, point.system, hardware, batches[point.batch], strategies, recompute);
        assert!(seen.insert(key), "{point:?}");
    }
    seen.retain(|key| key.2 != all_at_once);
    assert_eq!(seen, expected);
}

#[test]
fn hardware_is_changed_alone_or_in_combination() {
    let names = |what_if: WhatIf| -> Vec<String> {
        let space = dlrm_a(what_if);
        let mut names: Vec<String> =
            (0..space.len()).map(|index| space.scaling(&space.point(index)).to_string()).collect();
        names.dedup();
        names
    };
    assert_eq!(names(scaled(false)), ["as it is", "flops ×2", "inter ×2", "inter ×10", "all ×10"]);
    let combined = names(scaled(true));
    assert_eq!(combined.len(), 7);
    for name in ["as it is", "flops ×2", "inter ×10", "flops ×2, inter ×10", "all ×10"] {
        assert!(combined.iter().any(|found| found == name), "{name} of {combined:?}");
    }
}

/// MAD-Max's Figures 8 and 9: of its own strategies, within memory (TP, DDP), by 1.14 ×; if memory were free, replicas. Layers that are
/// gathered early, and MLPs that are spread in different ways, are beyond the paper.
#[test]
fn best_strategies_of_dlrm_a_are_the_papers() {
    let space = dlrm_a(WhatIf::default());
    // 4 strategies, and 10 nestings of two, for each of two MLPs; 4 for tables.
    assert_eq!(space.len(), 14 * 14 * 4);
    let summary = explore(&space, CostKind::MadMax, 2, 5, &ExploreProgress::default());
    assert_eq!(summary.count(), space.len() as u64);
    let baseline = summary.cell(0, 0, 0, 0).baseline.unwrap();
    let over = |outcome: &Outcome| outcome.samples_per_s / baseline.outcome.samples_per_s;
    assert_eq!(space.described(&space.point(baseline.index)), "MLPs (FSDP), tables (MP)");
    let mut evaluator = Evaluator::new(&space, CostKind::MadMax);
    let early =
        |nesting: Nesting| [Some(nesting.inside), nesting.between].contains(&Some(Parallel::FsdpPrefetch));
    let mut papers: Vec<(String, Outcome)> = Vec::new();
    for point in (0..space.len()).map(|index| space.point(index)) {
        let plan = point.plan.unwrap();
        if plan.bottom == plan.top && !early(plan.top) {
            papers.extend(evaluator.evaluate(&point).ok().map(|outcome| (space.described(&point), outcome)));
        }
    }
    let best = |within: bool| {
        let may = papers.iter().filter(|(_, outcome)| outcome.fits || !within);
        may.max_by(|a, b| a.1.samples_per_s.total_cmp(&b.1.samples_per_s)).unwrap()
    };
    let (within, free) = (best(true), best(false));
    assert_eq!(within.0, "MLPs (TP, DDP), tables (MP)");
    assert!((over(&within.1) - 1.15).abs() < 0.01, "{}", over(&within.1));
    assert_eq!(free.0, "MLPs (DDP), tables (MP)");
    assert!((over(&free.1) - 1.35).abs() < 0.01, "{}", over(&free.1));
    assert!(!free.1.fits && free.1.too_big.is_some());
    // What is beyond the paper is faster.
    let best = summary.cell(0, 0, 0, 0).best.within_memory.unwrap();
    assert_eq!(summary.as_is.top[0], best);
    assert_eq!(space.described(&space.point(best.index)), "bottom MLP (DDP), top MLP (TP, DDP), tables (MP)");
}

/// A summary is what a loop over whole simulations finds.
#[test]
fn best_is_that_of_brute_force() {
    let space = space(&["dlrm-b"], &["zionex:128", "h100:64"], &[512, 1024], scaled(false));
    for cost in CostKind::ALL {
        let summary = explore(&space, cost, 3, 4, &ExploreProgress::default());
        let model = Layered::named("dlrm-b").unwrap();
        let convention = if cost == CostKind::MadMax { Convention::MadMax } else { Convention::Pooled };
        let mut best: Option<(f64, usize)> = None;
        for index in 0..space.len() {
            let point = space.point(index);
            if point.scaling != 0 {
                continue;
            }
            let system = &space.systems()[point.system];
            let strategies = point.plan.unwrap().on(system);
            let job = Job::pre_training(&model, &strategies, space.batches()[point.batch], system);
            // MAD-Max has FSDP on the first level only.
            let Ok(step) = job.step(&model, system, convention) else { continue };
            let speed = Simulation::new(cost.model().as_ref(), &step, system).samples_per_s;
            let fits = planning::memory::Memory::of_job(&job, &model, system).fits(system).is_ok();
            if fits && best.is_none_or(|(most, _)| speed > most) {
                best = Some((speed, index));
            }
        }
        let found = summary.as_is.best.within_memory.unwrap();
        assert_eq!(Some((found.outcome.samples_per_s, found.index)), best, "{cost}");
    }
}

#[test]
fn threads_and_order_change_nothing() {
    let space = space(&["dlrm-a", "dlrm-b"], &["zionex:128", "zionex:8"], &[512], scaled(true));
    let one = explore(&space, CostKind::Hierarchical, 1, 7, &ExploreProgress::default());
    assert_eq!(one, explore(&space, CostKind::Hierarchical, 5, 7, &ExploreProgress::default()));
    assert_eq!(one.count(), space.len() as u64);
    let mut evaluator = Evaluator::new(&space, CostKind::Hierarchical);
    let mut parts = vec![Summary::new(&space, 7); 4];
    for index in (0..space.len()).rev() {
        let point = space.point(index);
        parts[index * 7 % 4].add(&space, index, &point, &evaluator.evaluate(&point));
    }
    let mut merged = Summary::new(&space, 7);
    parts.into_iter().rev().for_each(|part| merged.merge(part));
    assert_eq!(one, merged);
}

#[test]
fn stopping_keeps_what_was_found() {
    let watch = ExploreProgress::default();
    watch.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let summary = explore(&dlrm_a(WhatIf::default()), CostKind::MadMax, 2, 5, &watch);
    assert_eq!((summary.count(), summary.as_is.best.within_memory), (0, None));
}

#[test]
fn models_that_are_trained_have_one_way() {
    let named = |name: &str| Subject::Trained(Trained::named(name).unwrap());
    let models = vec![named("dlrm"), named("8t-dlrm")];
    let space =
        Space::new(models, systems(&["h100:64"]), vec![16_384], TaskKind::PreTraining, WhatIf::default());
    let space = space.unwrap();
    assert_eq!(space.len(), 2);
    let summary = explore(&space, CostKind::Hierarchical, 1, 5, &ExploreProgress::default());
    let flat = summary.cell(0, 0, 0, 0).baseline.unwrap();
    let towers = summary.cell(1, 0, 0, 0).best.memory_free.unwrap();
    assert!(towers.outcome.samples_per_s > flat.outcome.samples_per_s);
}

#[test]
fn what_cannot_be_explored_is_refused() {
    let make = |models: Vec<Subject>, batches: Vec<usize>, what_if: WhatIf| {
        Space::new(models, systems(&["zionex:8"]), batches, TaskKind::PreTraining, what_if)
            .map(|space| space.len())
    };
    assert_eq!(make(vec![], vec![1], WhatIf::default()), Err(SpaceError::Empty { what: "model" }));
    assert_eq!(
        make(vec![layered("dlrm-a")], vec![0], WhatIf::default()),
        Err(SpaceError::Batch { batch: 0 })
    );
    let mut large = WhatIf::default();
    for capability in Capability::ALL {
        let factors: Vec<f64> = (2..1000).map(f64::from).collect();
        large.add(Some(capability), &factors).unwrap();
    }
    large.combine();
    assert_eq!(make(vec![layered("dlrm-a")], vec![1], large), Err(SpaceError::TooMany));
    for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(WhatIf::default().add(Some(Capability::Intra), &[factor]).is_err());
    }
    assert!("speed".parse::<Capability>().unwrap_err().to_string().contains("memory-bandwidth"));
}

fn outcome(memory_bytes: f64, samples_per_s: f64) -> Outcome {
    let iteration_s = 1.0 / samples_per_s;
    Outcome { iteration_s, samples_per_s, exposed_s: 0.0, memory_bytes, fits: true, too_big: None }
}

/// Numbers without a pattern, from 0 to 1.
fn noise(i: usize) -> f64 {
    spec::random::RandomSequence::new(1, "explore").unit_f64(i as u64)
}

#[test]
fn what_is_kept_is_bounded() {
    let mut tally = Tally::new(10);
    // All on the front, in no order: more than it keeps.
    for i in 0..100_000 {
        let memory = 1e9 * (1.0 + 1e3 * noise(i));
        tally.add(i, &Ok(outcome(memory, memory / 1e6)));
    }
    assert_eq!((tally.count, tally.top.len()), (100_000, 10));
    assert!(tally.front.points().len() <= Front::MOST && tally.front.is_thinned());
    assert_eq!(tally.front.points().last(), tally.best.within_memory.as_ref());
    let (least, most) = tally.times.range().unwrap();
    let median = tally.times.quantile(0.5).unwrap();
    assert!(least < median && median < most && tally.times.count() == 100_000);
    assert!((median / (1e6 / 5.01e11) - 1.0).abs() < 0.05, "{median}");
    assert!(tally.times.cumulative().len() < 1000);
}

proptest! {
    #[test]
    fn front_has_what_nothing_beats(points in prop::collection::vec((1u32..40, 1u32..40), 1..80)) {
        let found = |(index, &(memory, speed)): (usize, &(u32, u32))| {
            Found { index, outcome: outcome(f64::from(memory), f64::from(speed)) }
        };
        let all: Vec<Found> = points.iter().enumerate().map(found).collect();
        let beats = |a: &Found, b: &Found| {
            let (less, faster) = (a.outcome.memory_bytes - b.outcome.memory_bytes, a.outcome.samples_per_s - b.outcome.samples_per_s);
            less <= 0.0 && faster >= 0.0 && (less < 0.0 || faster > 0.0 || a.index < b.index)
        };
        let mut expected: Vec<Found> =
            all.iter().filter(|one| !all.iter().any(|other| beats(other, one))).copied().collect();
        expected.sort_by(|a, b| a.outcome.memory_bytes.total_cmp(&b.outcome.memory_bytes));
        let mut front = Front::default();
        all.iter().for_each(|&found| front.add(found));
        prop_assert_eq!(front.points(), &expected[..]);
        let (mut left, mut right) = (Front::default(), Front::default());
        all.iter().for_each(|&found| if found.index % 3 == 0 { left.add(found) } else { right.add(found) });
        right.merge(&left);
        prop_assert_eq!(&right, &front);
    }
}
