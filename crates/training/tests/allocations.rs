//! A step allocates nothing once buffers have grown: counted over all threads by the allocator itself.
#![allow(unsafe_code)]

#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "it/common/mod.rs"]
mod common;

use common::{config, mixed};
use data::Batch;
use kernels::Device;
use spec::codec::Rounding;
use spec::dataflow::{AllToAll, PeerPermute};
use spec::placement::{self, Cut};
use spec::presets::ModelKind;
use spec::program::Algorithm;
use spec::run::{AllReduce, Config, Run};
use spec::schedule::{CopyReduction, Task};
use spec::synthetic::Synthetic;
use spec::towers::Assignment;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use training::{Execution, RankState, Source};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of all ranks in the best of several windows of 50 steps, the last of which ends `steps` steps. A buffer may grow
/// long after the warm-up, and no more then: when the collectives of a step fall otherwise in time, or when a thread that found
/// no core so far computes its first block. What steps themselves allocate shows in every window.
fn allocations(run: &Run, threads: usize, steps: u64, source: impl Fn() -> Source + Sync) -> u64 {
    let counts = collectives::launch(
        run.topology(),
        &Default::default(),
        |_| Device::cpu(threads),
        |world| {
            let schedule = run.schedule(Task::Train);
            let mut rank = RankState::new(world.device().clone(), run, &schedule, world.rank(), source())?;
            let communicators = training::Communicators::new(&world, &run.dataflow)?;
            let mut execution = Execution::new(schedule).traced(5);
            let mut marks = Vec::with_capacity(WINDOWS as usize + 1);
            execution.run(
                &mut rank,
                &communicators,
                steps,
                |step| run.batches().at(step),
                |_, step| {
                    let left = steps - 1 - step;
                    if left.is_multiple_of(50) && left <= 50 * WINDOWS {
                        marks.push(ALLOCATIONS.load(Ordering::Relaxed));
                    }
                    Ok(ControlFlow::Continue(()))
                },
            )?;
            Ok::<_, training::Error>(marks)
        },
    )
    .unwrap_or_else(|e| panic!("{e}"));
    // Other ranks may be ahead or behind by a step: look at what all windows have in common.
    let window = |w: usize| {
        let first = counts.iter().map(|marks| marks[w]).max().unwrap();
        let last = counts.iter().map(|marks| marks[w + 1]).min().unwrap();
        last.saturating_sub(first)
    };
    (0..WINDOWS as usize).map(window).min().unwrap()
}

const WINDOWS: u64 = 3;

fn with_batches(mut config: Config, batch: usize) -> Run {
    config.train.batch = Some(batch);
    let samples = 400 * batch as u64;
    config.data.synthetic = Some(Synthetic { samples, eval_samples: 0, groups: 2, ..Default::default() });
    planning::check(&config).unwrap()
}

fn regularised(mut config: Config) -> Config {
    (config.optimizer.weight_decay, config.optimizer.table_weight_decay) = (Some(0.1), Some(0.1));
    (config.train.clip_value, config.train.clip_norm) = (Some(0.1), Some(0.1));
    (config.train.label_smoothing, config.model.dropout) = (Some(0.1), Some(0.1));
    config
}

/// One test, because the counter belongs to the whole process.
#[test]
fn a_step_after_warm_up_allocates_nothing() {
    for (kind, multi_hot, hosts, ranks, threads) in [
        (ModelKind::Dlrm, false, 1, 1, 2),
        (ModelKind::Dcn, true, 1, 1, 1),
        (ModelKind::Dlrm, true, 2, 2, 1),
        (ModelKind::Dcn, false, 1, 2, 2),
        (ModelKind::DeepFm, true, 1, 2, 1),
    ] {
        // Large enough that the number of multi-hot ids varies by less than the slack of a buffer.
        let run = with_batches(config(kind, multi_hot, hosts, ranks), 960);
        let counted = allocations(&run, threads, 300, || common::training_source(&run));
        assert_eq!(counted, 0, "{kind:?} on {hosts} × {ranks} ranks of {threads} threads");
    }
    // The rest on the same few batches again and again: their ids need no slack, and need not be drawn.
    const BATCH: u64 = 192;
    let mut flat = config(ModelKind::Dlrm, true, 2, 2);
    flat.placement.cut = Some(Cut::Rows);
    let flat = with_batches(flat, BATCH as usize);
    let mut log = common::training_source(&flat);
    let batches: Vec<Batch> = (0..4)
        .map(|i| {
            let mut batch = Batch::default();
            log.fill(i * BATCH..(i + 1) * BATCH, &mut batch).unwrap();
            batch
        })
        .collect();
    let counted = |run: &Run| allocations(run, 1, 300, || Source::resident(batches.clone()));
    assert_eq!(counted(&flat), 0, "tables cut by rows");
    for (all_to_all, wire) in [("flat", "bf16"), ("hierarchical", "f32"), ("hierarchical", "f16")] {
        let mut config = config(ModelKind::Dlrm, true, 2, 2);
        config.train.all_to_all = Some(all_to_all.parse().unwrap());
        config.wire = wire.parse().unwrap();
        let run = with_batches(config, BATCH as usize);
        assert_eq!(counted(&run), 0, "{all_to_all}, {wire}");
    }
    // Data-parallel tables, reduced by rows and densely.
    let mut copied = config(ModelKind::Dlrm, true, 2, 2);
    for name in ["C0", "C1", "C2", "C3", "C4"] {
        copied.placement.tables.insert(name.into(), placement::Layout::DataParallel { ranks: None });
    }
    // Few of the rows of a large table are touched.
    copied.model.features.as_mut().unwrap()[2].rows = 1000;
    let run = with_batches(copied, BATCH as usize);
    let reductions: Vec<CopyReduction> =
        run.schedule(Task::Train).copies().iter().map(|table| table.reduction).collect();
    assert!(reductions.contains(&CopyReduction::Rows) && reductions.contains(&CopyReduction::Dense));
    assert_eq!(counted(&run), 0, "data-parallel tables");
    let mut trains = config(ModelKind::Dlrm, true, 2, 2);
    trains.model.features.iter_mut().flatten().take(3).for_each(|feature| feature.tt_rank = Some(4));
    assert_eq!(counted(&with_batches(trains, BATCH as usize)), 0, "tensor trains");
    for (wire, all_reduce) in [
        ("u4+ec", Algorithm::Ring),
        ("fp8", Algorithm::TwoLevel),
        ("u2+ec-paper", Algorithm::RecursiveDoubling),
    ] {
        let mut config = config(ModelKind::Dlrm, true, 2, 2);
        config.train.all_to_all = Some(AllToAll::Hierarchical);
        (config.wire, config.train.all_reduce) = (wire.parse().unwrap(), Some(AllReduce::By(all_reduce)));
        config.wire.rounding = Some(Rounding::Stochastic);
        let run = with_batches(config, BATCH as usize);
        assert_eq!(counted(&run), 0, "{wire} by {all_reduce}");
    }
    // Maps of vectors to one length, on one way of a DeepFM and between bottom MLP and interaction of a DLRM.
    for kind in [ModelKind::Dlrm, ModelKind::DeepFm] {
        let run = with_batches(mixed(config(kind, true, 1, 2)), BATCH as usize);
        assert_eq!(counted(&run), 0, "{kind:?} of mixed dims");
    }
    // Products in other precisions, part by part.
    for precision in ["bf16", "f32x3,top=bf16"] {
        let mut config = config(ModelKind::Dcn, true, 1, 2);
        (config.train.device, config.train.precision) = (None, precision.parse().ok());
        assert_eq!(counted(&with_batches(config, BATCH as usize)), 0, "{precision}");
    }
    let mut emulated = config(ModelKind::Dlrm, true, 1, 1);
    emulated.emulation.nodes = Some(8);
    emulated.wire = "vectors=u4,gradients=u2,dense=u4+ec".parse().unwrap();
    emulated.train.all_reduce = Some("recursive-doubling".parse().unwrap());
    assert_eq!(counted(&with_batches(emulated, BATCH as usize)), 0, "emulated nodes");
    // SPTT: every permute, every cut and both kinds of modules.
    for (kind, module, d, cluster, cut, permute) in [
        (ModelKind::Dlrm, "none", 8, (2, 2, 1), Cut::Columns, PeerPermute::Ids),
        (ModelKind::Dlrm, "dlrm:c=1,p=1,d=4", 4, (2, 2, 1), Cut::Hotness, PeerPermute::Vectors),
        (ModelKind::Dcn, "dcn:d=8", 8, (2, 1, 2), Cut::Rows, PeerPermute::Ids),
        (ModelKind::Dcn, "dcn:d=4,out=features", 8, (2, 2, 1), Cut::Whole, PeerPermute::None),
    ] {
        let (hosts, ranks, per_group) = cluster;
        let mut config = config(kind, true, hosts, ranks);
        config.topology.hosts_per_tower = Some(per_group);
        config.model.towers = Some(Assignment::Strided(4));
        config.model.tower_module = Some(module.parse().unwrap());
        config.model.bottom = Some(vec![16, d]);
        config.placement.cut = Some(cut);
        config.train.peer_permute = Some(permute);
        config.wire = match cut {
            Cut::Hotness => "bf16",
            Cut::Rows => "u8+ec",
            _ => "f32",
        }
        .parse()
        .unwrap();
        // All options of regularisation, too, and towers over members of several widths.
        if permute == PeerPermute::Vectors {
            config = mixed(regularised(config));
        }
        let run = with_batches(config, BATCH as usize);
        assert_eq!(counted(&run), 0, "{kind:?} under {module}, {cut:?}, permuting {permute}");
    }
}
