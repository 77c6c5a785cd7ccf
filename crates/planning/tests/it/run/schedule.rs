//! A schedule's dependencies protect everything its phases hand to each other.

use spec::dataflow::{AllToAll, Dataflow, Deployment, PeerPermute, Sptt};
use spec::feature::{Feature, Hotness};
use spec::model::{Architecture, Model};
use spec::placement::{Cut, Layout, Placement};
use spec::presets::{ModelKind, Preset};
use spec::schedule::{Lane, Operation, PhaseId, Schedule, Slot, StepOptions, Task, Work};
use spec::topology::{Groups, Topology};
use spec::towers::{Assignment, Module};
use spec::volume::BatchSizes;
use spec::wire::{Wire, WireConfig};
use std::collections::{HashMap, HashSet};

fn schedules() -> Vec<Schedule> {
    let mut models: Vec<Model> = ModelKind::ALL
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
    let flat = models.iter().flat_map(|model| {
        [0, 100].map(|replicate| Deployment {
            model: model.clone(),
            placement: planning::placement::balanced(model, topology, replicate),
            dataflow: Dataflow::Flat(AllToAll::Flat),
            wire: Wire::default(),
            all_reduce: Default::default(),
            emulation: None,
            cached: None,
        })
    });
    let copied: Vec<Deployment> = flat.clone().take(2).chain(by_towers()).map(with_copies).collect();
    let all = flat.chain(by_towers()).flat_map(on_wires).chain(copied);
    all.flat_map(|deployment| {
        [Task::Train, Task::Evaluate]
            .into_iter()
            .flat_map(|task| [1, 1 << 20].map(|bytes| Schedule::new(&deployment, task, bytes)))
            .chain((deployment.wire == Wire::default()).then(|| Schedule::with_norm(&deployment, 1 << 12)))
            .collect::<Vec<_>>()
    })
    .collect()
}

/// The deployment with copies of its first two tables that are not cut, on all ranks or on those of a group.
fn with_copies(deployment: Deployment) -> Deployment {
    let Deployment { model, placement, dataflow, .. } = &deployment;
    let whole = |&feature: &usize| placement.shards_of(feature).len() == 1;
    let copied: Vec<usize> = (0..model.features().len()).filter(whole).take(2).collect();
    let layout = |feature: usize| {
        let first = placement.shards_of(feature)[0].holders.ranks()[0];
        let of_group = |sptt: &Sptt| sptt.groups().members(sptt.groups().group_of(first)).collect();
        Layout::DataParallel { ranks: dataflow.sptt().map(of_group) }
    };
    let shards = (0..model.features().len()).flat_map(|feature| match copied.contains(&feature) {
        true => layout(feature).shards(model, feature, placement.topology()).unwrap(),
        false => placement.shards_of(feature).to_vec(),
    });
    let placement = Placement::new(model, placement.topology(), shards.collect()).unwrap();
    let dataflow = match dataflow {
        Dataflow::Sptt(sptt) => {
            Dataflow::Sptt(Sptt::new(model, &placement, sptt.groups(), sptt.permute()).unwrap())
        }
        flat => flat.clone(),
    };
    Deployment { placement, dataflow, ..deployment }
}

/// Copies are priced: rows that are touched travel, and a larger batch touches more of them until a vector of all is shorter.
#[test]
fn copies_are_reduced_by_what_sends_less() {
    let deployments = schedules().into_iter().map(|schedule| schedule.deployment().clone());
    let copied = deployments.filter(|deployment| deployment.placement.copied().next().is_some());
    for deployment in copied.filter(|deployment| deployment.members() > 1).step_by(4) {
        let ranks = deployment.placement.topology().ranks();
        let sent = |scheduled: usize, batch: usize| -> u64 {
            let options = StepOptions {
                task: Task::Train,
                bucket_bytes: 1 << 20,
                norm: false,
                batch: scheduled,
                fuse_pairs: false,
                in_place: false,
            };
            let schedule = Schedule::with_options(&deployment, options);
            let sizes = BatchSizes::typical(&deployment.model, &deployment.placement, batch);
            let names = ["row counts exchange", "touched rows exchange", "row sums exchange", "reduce rows"];
            let phases = (0..schedule.phases().len())
                .filter(|&i| names.contains(&schedule.phases()[i].name.as_str()))
                .map(PhaseId);
            let step = planning::step::StepGraph::of_schedule(&schedule, batch);
            let transfers =
                step.operations.iter().filter(|op| names.contains(&op.label.to_string().as_str()));
            assert!(transfers.clone().count() > 0);
            assert!(transfers.map(|op| op.work.transfer().unwrap().bytes).all(|bytes| bytes > 0.0));
            let sent = |id| {
                (0..ranks)
                    .map(|rank| schedule.sent(id, &sizes, rank))
                    .map(|s| s.host + s.network)
                    .sum::<u64>()
            };
            phases.map(sent).sum()
        };
        for batch in [8, 200_000_000] {
            let chosen = sent(batch, batch);
            assert!(chosen <= sent(8, batch) && chosen <= sent(200_000_000, batch), "{batch}");
        }
        assert!(sent(200_000_000, 200_000_000) < sent(8, 200_000_000));
    }
}

/// The same deployment with other formats, and with another all-to-all where there is a choice.
fn on_wires(deployment: Deployment) -> Vec<Deployment> {
    let wires = ["f32", "bf16", "vectors=f16", "gradients=bf16"]
        .map(|text| text.parse::<WireConfig>().unwrap().check());
    let mut all: Vec<Deployment> =
        wires.into_iter().map(|wire| Deployment { wire, ..deployment.clone() }).collect();
    if deployment.dataflow.sptt().is_none() {
        let dataflow = Dataflow::Flat(AllToAll::Hierarchical);
        let levels = |d: Deployment| Deployment { dataflow: dataflow.clone(), ..d };
        all.extend(all.clone().into_iter().map(levels));
    }
    all
}

/// What a format and an all-to-all add, in order.
#[test]
fn phases_of_a_leg() {
    let model = Preset::Demo.model(ModelKind::Dlrm, None, Some(1000)).unwrap();
    let placement = planning::placement::balanced(&model, Topology::new(2, 2).unwrap(), 0);
    let names = |all_to_all, wire: &str| -> Vec<String> {
        let (model, placement) = (model.clone(), placement.clone());
        let wire = wire.parse::<WireConfig>().unwrap().check();
        let deployment = Deployment {
            model,
            placement,
            dataflow: Dataflow::Flat(all_to_all),
            wire,
            all_reduce: Default::default(),
            emulation: None,
            cached: None,
        };
        let schedule = Schedule::new(&deployment, Task::Evaluate, 1 << 20);
        let names = schedule.phases().iter().filter(|phase| !phase.ahead).map(|phase| phase.name.clone());
        names.take_while(|name| name != "restore order").filter(|name| !name.starts_with("bottom")).collect()
    };
    assert_eq!(names(AllToAll::Flat, "f32"), ["lookup", "pooled exchange"]);
    let encoded = ["lookup", "encode pooled", "pooled exchange", "decode pooled"];
    assert_eq!(names(AllToAll::Flat, "bf16"), encoded);
    let (inside, between) = ("pooled exchange in host", "pooled exchange between hosts");
    let levels = ["lookup", "peer permute", inside, "pooled regroup", between];
    assert_eq!(names(AllToAll::Hierarchical, "gradients=bf16"), levels);
    let both = ["lookup", "encode pooled", inside, "pooled regroup", between, "decode pooled"];
    assert_eq!(names(AllToAll::Hierarchical, "f16"), both);
}

/// DeepFM's branches: what needs no vector runs while vectors travel, forward and backward; the factorization machine gives
/// all columns a gradient before the MLP adds its own; the sum hands its gradient to all three.
#[test]
fn phases_of_parallel_branches() {
    let model = Preset::Demo.model(ModelKind::DeepFm, None, Some(1000)).unwrap();
    let placement = planning::placement::balanced(&model, Topology::new(2, 2).unwrap(), 0);
    let (dataflow, wire) = (Dataflow::Flat(AllToAll::Flat), Wire::default());
    let deployment = Deployment {
        model,
        placement,
        dataflow,
        wire,
        all_reduce: Default::default(),
        emulation: None,
        cached: None,
    };
    let schedule = Schedule::new(&deployment, Task::Train, 1 << 20);
    let computed = |phase: &&spec::schedule::Phase| matches!(phase.work, Work::Compute(_)) && !phase.ahead;
    let names: Vec<&str> = schedule.phases().iter().filter(computed).map(|phase| &phase.name[..]).collect();
    let expected = [
        "lookup",
        "linear forward",
        "restore order",
        "deep forward",
        "fm forward",
        "logit forward",
        "loss",
        "read back",
        "logit backward",
        "fm backward",
        "deep backward",
        "split gradients",
        "linear backward",
        "update tables",
        "update bucket 0",
        "update bucket 1",
    ];
    assert_eq!(names, expected);
    let phase = |name: &str| schedule.phases().iter().find(|phase| phase.name == name).unwrap();
    let [linear, deep, fm] = ["linear", "deep", "fm"].map(spec::model::BlockName::new);
    let terms = [linear, deep, fm];
    assert_eq!(phase("logit forward").reads, terms.map(Slot::Output));
    assert_eq!(phase("logit backward").writes[1..], terms.map(Slot::Gradient));
    assert_eq!(phase("deep forward").reads[..2], [Slot::Features, Slot::Batch]);
    assert_eq!(phase("split gradients").reads, [deep, fm].map(Slot::Gradient));
    assert!(phase("deep backward").reads.contains(&Slot::Gradient(fm)), "it adds to what the other has set");
}

/// SPTT with every permute, tables whole and cut, with and without modules, with and without a bottom MLP.
fn by_towers() -> Vec<Deployment> {
    let permutes = [PeerPermute::Vectors, PeerPermute::Ids, PeerPermute::None];
    let modules = [
        (ModelKind::Dlrm, 13, Module::None),
        (ModelKind::Dlrm, 13, Module::Dlrm { c: 1, p: 1, d: 8 }),
        (ModelKind::Dcn, 13, Module::Dcn { d: 16, rank: Some(4), out: Default::default() }),
        (ModelKind::Dlrm, 0, Module::Dlrm { c: 0, p: 1, d: 16 }),
        (ModelKind::DeepFm, 13, Module::None),
        (ModelKind::DeepFm, 0, Module::None),
    ];
    let mut all = Vec::new();
    for (kind, dense_features, module) in modules {
        let mut outline = Preset::Demo.outline();
        outline.dense_features = dense_features;
        let mut features = outline.features();
        for feature in features.iter_mut().step_by(3) {
            feature.hotness = Hotness::Many { mean: 2 };
        }
        features[3].weighted = true;
        let architecture = outline.architecture(kind, module);
        // Five towers: on two groups they share, on five hosts' worth of features they differ in size.
        let assignment = Some(&Assignment::Strided(5));
        let model =
            Model::with_towers(features, dense_features, outline.dim, architecture, assignment, module)
                .unwrap();
        for (permute, cut) in permutes.into_iter().zip([Cut::Hotness, Cut::Whole, Cut::Rows]) {
            let groups = Groups::new(Topology::new(4, 2).unwrap(), 2).unwrap();
            let groups = if permute == PeerPermute::None { groups.in_peer_order() } else { groups };
            let placement = planning::placement::in_towers(&model, groups, cut);
            let dataflow = Dataflow::Sptt(Sptt::new(&model, &placement, groups, permute).unwrap());
            all.push(Deployment {
                model: model.clone(),
                placement,
                dataflow,
                wire: Wire::default(),
                all_reduce: Default::default(),
                emulation: None,
                cached: None,
            });
        }
    }
    all
}

/// What orders phases besides their dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The host: a computation ends before anything later is issued, a collective only when something waits for it.
    Issue,
    /// Queues of a device: computations end before later computations, batches are read one after the other, and all else is
    /// ordered by dependencies alone.
    Queues,
}

/// A set of nodes, as bits.
#[derive(Clone, Debug)]
struct Nodes(Vec<u64>);

impl Nodes {
    fn insert(&mut self, node: usize) {
        self.0[node / 64] |= 1 << (node % 64);
    }

    fn contains(&self, node: usize) -> bool {
        self.0[node / 64] >> (node % 64) & 1 == 1
    }

    fn extend(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(all, more)| *all |= more);
    }
}

/// The nodes that must have ended before each node of `steps` unrolled steps begins, as the interpreter runs them.
fn happens_before(schedule: &Schedule, steps: usize, order: Order) -> Vec<Nodes> {
    let count = schedule.phases().len();
    let queue = |node: usize| match schedule.phases()[node % count].work {
        Work::Compute(Operation::ReadBatch) if order == Order::Queues => Some(1),
        Work::Compute(_) => Some(0),
        Work::Collective(_) => None,
    };
    let mut before: Vec<Nodes> = Vec::new();
    for node in 0..steps * count {
        let (step, phase) = (node / count, node % count);
        let mut direct: Vec<usize> = schedule.phases()[phase]
            .after
            .iter()
            .filter_map(|(id, distance)| Some(step.checked_sub(*distance as usize)? * count + id.0))
            .collect();
        direct.extend((0..node).filter(|&n| match order {
            Order::Issue => queue(n).is_some(),
            Order::Queues => queue(n).is_some() && queue(n) == queue(node),
        }));
        let mut all = Nodes(vec![0; (steps * count).div_ceil(64)]);
        for n in direct {
            assert!(n < node, "{} waits for a later phase", schedule.phases()[phase].name);
            all.insert(n);
            all.extend(&before[n]);
        }
        before.push(all);
    }
    before
}

#[test]
fn no_phase_reads_too_early_or_overwrites_too_soon() {
    for (schedule, order) in
        schedules().into_iter().flat_map(|s| [(s.clone(), Order::Issue), (s, Order::Queues)])
    {
        let (steps, count) = (4, schedule.phases().len());
        let before = happens_before(&schedule, steps, order);
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
                        done.contains(*writer),
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
                        reader == node || done.contains(reader),
                        "`{}` of step {step} overwrites {slot:?} while `{}` may read it",
                        phase.name,
                        schedule.phases()[reader % count].name
                    );
                }
                if let Some(writer) = written.insert(place(slot), node) {
                    assert!(
                        done.contains(writer),
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
        // No number of ranks divides it.
        let batch = 4003;
        let sizes = BatchSizes::typical(model, schedule.placement(), batch);
        let spent = |blocks: &[&str]| -> u64 {
            let of_blocks = |i: &usize| blocks.iter().any(|b| schedule.phases()[*i].name.starts_with(b));
            let phases = (0..schedule.phases().len()).filter(of_blocks);
            let ranks = 0..schedule.placement().topology().ranks();
            phases
                .flat_map(|i| ranks.clone().map(move |rank| (i, rank)))
                .map(|(i, rank)| schedule.flops(PhaseId(i), &sizes, rank))
                .sum()
        };
        let of_towers = model.tower_flops() * batch as u64;
        assert_eq!(spent(&["towers"]), of_towers);
        assert_eq!(of_towers > 0, model.has_tower_modules());
        let of_network = model.training_flops() * batch as u64 - of_towers;
        let blocks: Vec<&str> = model.network().blocks().iter().map(|block| block.name.as_str()).collect();
        assert_eq!(spent(&blocks), of_network);
    }
}

/// A group's tower parameters are on it alone, and those of the network on all.
#[test]
fn every_parameter_is_in_exactly_one_bucket() {
    for schedule in schedules() {
        let parameters = schedule.model().dense_parameter_list();
        let mut seen = vec![0; parameters.len()];
        for bucket in schedule.buckets().iter().chain(schedule.tower_buckets()) {
            let mut end = 0;
            for (&p, &start) in bucket.parameters.iter().zip(&bucket.starts) {
                assert!(start >= end && start % 16 == 0);
                end = start + parameters[p].len;
                seen[p] += 1;
            }
            assert!(end <= bucket.elements);
        }
        assert!(seen.iter().all(|&n| n == 1));
        if let Some(sptt) = schedule.deployment().dataflow.sptt() {
            for (group, bucket) in schedule.tower_buckets().iter().enumerate() {
                let here = |&p: &usize| sptt.group_of_tower(parameters[p].owner.1) == Some(group);
                assert!(bucket.parameters.iter().all(here));
            }
        }
    }
}

/// What is optional is there where it is needed, and only there.
#[test]
fn phases_of_sptt_follow_from_the_deployment() {
    for deployment in by_towers() {
        let sptt = deployment.dataflow.sptt().unwrap();
        let cut = deployment.sums();
        let modules = deployment.model.has_tower_modules();
        let (dense, fm) = (deployment.model.dense_features() > 0, deployment.model.kind() == "deepfm");
        let schedule = Schedule::new(&deployment, Task::Train, 1 << 20);
        let has = |name: &str| schedule.phases().iter().any(|phase| phase.name == name);
        for name in ["group exchange", "transpose", "peer exchange", "peer gradient exchange"] {
            assert!(has(name), "{name}");
        }
        for (there, names) in [
            (sptt.permute() == PeerPermute::Vectors, vec!["peer permute", "reverse permute"]),
            (sptt.permute() == PeerPermute::Ids, vec!["index ids in peer order"]),
            (sptt.permute() != PeerPermute::Ids, vec!["index ids"]),
            (cut, vec!["group sums", "group gather"]),
            (modules, vec!["towers forward", "towers backward", "reduce tower gradients", "update towers"]),
            (dense && !fm, vec!["bottom forward"]),
            (dense && fm, vec!["linear forward"]),
            (fm, vec!["deep forward", "fm backward"]),
            (false, vec!["pooled exchange", "gradient exchange"]),
        ] {
            names.iter().for_each(|name| assert_eq!(has(name), there, "{name}"));
        }
    }
}

/// Clipping by the norm adds its phases and nothing else; every dense update waits for the norm, and the norm for all reductions.
#[test]
fn the_norm_of_gradients_comes_before_every_update() {
    let flat = schedules().swap_remove(0).deployment().clone();
    for deployment in by_towers().into_iter().chain([flat]) {
        let (plain, clipped) =
            (Schedule::new(&deployment, Task::Train, 1 << 12), Schedule::with_norm(&deployment, 1 << 12));
        let added: Vec<&str> = match deployment.model.has_tower_modules() {
            true => vec!["tower norm", "reduce tower norm", "gradient norm"],
            false => vec!["gradient norm"],
        };
        let names = |s: &Schedule| s.phases().iter().map(|phase| phase.name.clone()).collect::<Vec<_>>();
        let mut all = names(&clipped);
        all.retain(|name| !added.contains(&name.as_str()));
        assert_eq!((names(&plain), names(&plain).len() + added.len()), (all, names(&clipped).len()));
        // What a phase waits for in the same step, directly or not.
        let waits = |name: &str| {
            let mut open = vec![clipped.phases().iter().position(|phase| phase.name == name).unwrap()];
            let mut found = HashSet::new();
            while let Some(at) = open.pop() {
                let before = clipped.phases()[at].after.iter().filter(|(_, distance)| *distance == 0);
                open.extend(before.map(|(id, _)| id.0).filter(|&id| found.insert(id)));
            }
            found.into_iter().map(|id| clipped.phases()[id].name.clone()).collect::<HashSet<_>>()
        };
        let norm = waits("gradient norm");
        for name in names(&clipped) {
            if name.starts_with("reduce ") {
                assert!(norm.contains(&name), "the norm waits for {name}");
            }
            if name == "update towers" || name.starts_with("update bucket") {
                assert!(waits(&name).contains("gradient norm"), "{name} waits for the norm");
            }
        }
        let sizes = BatchSizes::typical(&deployment.model, &deployment.placement, 64);
        let id = clipped.phases().iter().position(|phase| phase.name == "gradient norm").unwrap();
        let elements: usize = clipped.buckets().iter().map(|bucket| bucket.elements).sum();
        assert_eq!(clipped.memory(PhaseId(id), &sizes, 0), 4 * elements as u64);
    }
}

/// Serialised, everything that was issued has ended before the next phase begins: in the middle of a run, in the prologue
/// (ahead phases alone) and in the last step (all but those).
#[test]
fn a_serialised_schedule_overlaps_nothing() {
    for schedule in schedules() {
        let (before, schedule) = (schedule.clone(), schedule.serialised());
        let names = |s: &Schedule| s.phases().iter().map(|phase| phase.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&before), names(&schedule));
        let (steps, count) = (4, schedule.phases().len());
        let runs = |node: usize| {
            let (step, ahead) = (node / count, schedule.phases()[node % count].ahead);
            if ahead { step + 1 < steps } else { step > 0 }
        };
        let mut under_way: HashSet<usize> = HashSet::new();
        for node in (0..steps * count).filter(|&node| runs(node)) {
            for (PhaseId(id), distance) in &schedule.phases()[node % count].after {
                if let Some(step) = (node / count).checked_sub(*distance as usize) {
                    assert!(step * count + id < node);
                    under_way.remove(&(step * count + id));
                }
            }
            assert!(under_way.is_empty(), "{under_way:?} beside {}", schedule.phases()[node % count].name);
            under_way.insert(node);
        }
    }
}

/// What the default schedule hides (Neo §4.2): `hidden` is under way while `beside` computes.
#[test]
fn communication_hides_behind_computation() {
    let overlaps = |schedule: &Schedule, hidden: &str, beside: &str| {
        let find = |name: &str| schedule.phases().iter().position(|phase| phase.name == name);
        let (Some(hidden), Some(beside)) = (find(hidden), find(beside)) else {
            panic!("no {hidden} or no {beside} in {}", schedule.table(64))
        };
        let waits = |i: usize| schedule.phases()[i].after.contains(&(PhaseId(hidden), 0));
        assert!(hidden < beside && !(hidden..=beside).any(waits), "{}", schedule.table(64));
    };
    let model = Preset::Demo.model(ModelKind::Dlrm, None, Some(1000)).unwrap();
    let placement = planning::placement::balanced(&model, Topology::new(2, 2).unwrap(), 0);
    let flat = Deployment {
        model,
        placement,
        dataflow: Dataflow::Flat(AllToAll::Flat),
        wire: Wire::default(),
        all_reduce: Default::default(),
        emulation: None,
        cached: None,
    };
    let flat = Schedule::new(&flat, Task::Train, 1 << 20);
    overlaps(&flat, "ids exchange", "top forward");
    overlaps(&flat, "pooled exchange", "bottom forward");
    overlaps(&flat, "reduce bucket 0", "interaction backward");
    overlaps(&flat, "gradient exchange", "bottom backward");
    let towers =
        by_towers().into_iter().find(|d| d.model.has_tower_modules() && d.model.dense_features() > 0);
    let towers = Schedule::new(&towers.unwrap(), Task::Train, 1 << 20);
    overlaps(&towers, "ids exchange", "top forward");
    overlaps(&towers, "peer exchange", "bottom forward");
    overlaps(&towers, "reduce tower gradients", "reverse transpose");
    overlaps(&towers, "reduce tower gradients", "sort ids");
    overlaps(&towers, "reduce tower gradients", "update tables");
    // Gradients queue apart from the exchanges.
    let lane = |name: &str| towers.phases().iter().find(|phase| phase.name == name).map(|phase| phase.lane);
    assert_eq!(lane("reduce tower gradients"), Some(Lane::Gradients));
    assert_eq!(lane("group gradient exchange"), Some(Lane::Exchange));
}
