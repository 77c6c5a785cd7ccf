//! A schedule's dependencies protect everything its phases hand to each other.

use spec::dataflow::{Dataflow, Deployment};
use spec::feature::{Feature, Hotness};
use spec::model::{Architecture, Model};
use spec::placement::Placement;
use spec::presets::{ModelKind, Preset};
use spec::schedule::{Schedule, Slot, Task, Work};
use spec::topology::Topology;
use spec::volume::BatchSizes;
use std::collections::{HashMap, HashSet};

fn schedules() -> Vec<Schedule> {
    let mut models: Vec<Model> = [ModelKind::Dlrm, ModelKind::Dcn]
        .into_iter()
        .flat_map(|kind| [Preset::Demo, Preset::Mlperf].map(|p| p.model(kind, None, Some(1000)).unwrap()))
        .collect();
    // Multi-hot and weighted; and without dense features, hence without a bottom MLP.
    let mut features: Vec<Feature> = models[0].features().to_vec();
    features[0].hotness = Hotness::Many { mean: 3 };
    features[1].hotness = Hotness::Many { mean: 2 };
    features[1].weighted = true;
    let architecture = Architecture::Dlrm { bottom: vec![], top: vec![8, 1] };
    models.push(Model::new(features, 0, 16, architecture).unwrap());
    let topology = Topology::new(2, 2).unwrap();
    models
        .iter()
        .flat_map(|model| {
            [0, 100].into_iter().flat_map(move |replicate| {
                let placement = Placement::balanced(model, topology, replicate);
                let deployment = Deployment { model: model.clone(), placement, dataflow: Dataflow::Flat };
                [Task::Train, Task::Evaluate]
                    .into_iter()
                    .flat_map(move |task| [1, 1 << 20].map(|bytes| Schedule::new(&deployment, task, bytes)))
            })
        })
        .collect()
}

/// The nodes that must have ended before each node of `steps` unrolled steps begins, as the interpreter runs them: a
/// computation ends before anything later is issued, a collective only when something waits for it.
fn happens_before(schedule: &Schedule, steps: usize) -> Vec<HashSet<usize>> {
    let count = schedule.phases().len();
    let mut before: Vec<HashSet<usize>> = Vec::new();
    for node in 0..steps * count {
        let (step, phase) = (node / count, node % count);
        let mut direct: Vec<usize> = schedule.phases()[phase]
            .after
            .iter()
            .filter_map(|(id, distance)| Some(step.checked_sub(*distance as usize)? * count + id.0))
            .collect();
        direct.extend((0..node).filter(|n| matches!(schedule.phases()[n % count].work, Work::Compute(_))));
        let mut all: HashSet<usize> = direct.iter().copied().collect();
        for n in direct {
            assert!(n < node, "{} waits for a later phase", schedule.phases()[phase].name);
            all.extend(&before[n]);
        }
        before.push(all);
    }
    before
}

#[test]
fn no_phase_reads_too_early_or_overwrites_too_soon() {
    for schedule in schedules() {
        let (steps, count) = (4, schedule.phases().len());
        let before = happens_before(&schedule, steps);
        // Input slots are double-buffered: one instance per parity of the batch.
        let input = |slot: &Slot| schedule.phases().iter().any(|p| p.ahead && p.writes.contains(slot));
        let mut written: HashMap<(Slot, usize), usize> = HashMap::new();
        let mut read: HashMap<(Slot, usize), Vec<usize>> = HashMap::new();
        for (node, done) in before.iter().enumerate() {
            let (step, phase) = (node / count, &schedule.phases()[node % count]);
            let batch = step + usize::from(phase.ahead);
            let place = |slot: &Slot| (*slot, if input(slot) { batch % 2 } else { 0 });
            for slot in &phase.reads {
                if let Some(writer) = written.get(&place(slot)) {
                    assert!(
                        done.contains(writer),
                        "`{}` of step {step} reads {slot:?} before `{}` has written it",
                        phase.name,
                        schedule.phases()[writer % count].name
                    );
                }
                read.entry(place(slot)).or_default().push(node);
            }
            for slot in &phase.writes {
                for reader in read.remove(&place(slot)).unwrap_or_default() {
                    assert!(
                        reader == node || done.contains(&reader),
                        "`{}` of step {step} overwrites {slot:?} while `{}` may read it",
                        phase.name,
                        schedule.phases()[reader % count].name
                    );
                }
                if let Some(writer) = written.insert(place(slot), node) {
                    assert!(
                        done.contains(&writer),
                        "`{}` and an earlier phase both write {slot:?}",
                        phase.name
                    );
                }
            }
        }
    }
}

#[test]
fn every_slot_that_is_read_is_written_and_every_name_is_unique() {
    for schedule in schedules() {
        let phases = schedule.phases();
        let names: HashSet<&str> = phases.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names.len(), phases.len());
        for phase in phases {
            for slot in &phase.reads {
                let given = matches!(slot, Slot::Tables | Slot::Parameters(_));
                let written = phases.iter().any(|p| p.writes.contains(slot));
                assert!(given || written, "`{}` reads {slot:?}, which nobody writes", phase.name);
            }
        }
    }
}

#[test]
fn the_phases_spend_all_of_the_models_flops() {
    for schedule in schedules().iter().filter(|s| s.task() == Task::Train) {
        let model = schedule.model();
        let sizes = BatchSizes::typical(model, schedule.placement(), 4000);
        let dense: u64 = (0..schedule.phases().len())
            .filter(|&i| {
                let name = &schedule.phases()[i].name;
                ["bottom", "interaction", "top"].iter().any(|block| name.starts_with(block))
            })
            .map(|i| schedule.flops(spec::schedule::PhaseId(i), &sizes, 0))
            .sum();
        assert_eq!(dense, model.training_flops() * 1000);
    }
}

#[test]
fn every_parameter_is_in_exactly_one_bucket() {
    for schedule in schedules() {
        let parameters = schedule.model().network().parameters();
        let mut seen = vec![0; parameters.len()];
        for bucket in schedule.buckets() {
            let mut end = 0;
            for (&p, &start) in bucket.parameters.iter().zip(&bucket.starts) {
                assert!(start >= end && start % 16 == 0);
                end = start + parameters[p].len;
                seen[p] += 1;
            }
            assert!(end <= bucket.elements);
        }
        assert!(seen.iter().all(|&n| n == 1));
    }
}
