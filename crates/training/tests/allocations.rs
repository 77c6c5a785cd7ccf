//! A step allocates nothing once buffers have grown: counted over all threads by the allocator itself.
#![allow(unsafe_code)]

mod common;

use common::config;
use kernels::Device;
use spec::presets::ModelKind;
use spec::run::Run;
use spec::schedule::Task;
use spec::synthetic::Synthetic;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use training::{Execution, Rank};

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

/// Allocations of all ranks over the last hundred of `steps` steps.
fn allocations(run: &Run, threads: usize, steps: u64) -> u64 {
    let counts = collectives::launch(
        run.topology(),
        &Default::default(),
        |_| Device::cpu(threads),
        |world| {
            let device = world.device().clone();
            device.enter(|| {
                let schedule = run.schedule(Task::Train);
                let source = common::training_source(run);
                let mut rank = Rank::new(world.device().clone(), run, &schedule, world.rank(), source)?;
                let circles = training::Circles::new(&world, &run.dataflow)?;
                let mut execution = Execution::new(schedule);
                let (mut before, mut after) = (0, 0);
                execution.run(
                    &mut rank,
                    &circles,
                    steps,
                    |step| run.batches().at(step),
                    |_, step| {
                        match step {
                            step if step + 101 == steps => before = ALLOCATIONS.load(Ordering::Relaxed),
                            step if step + 1 == steps => after = ALLOCATIONS.load(Ordering::Relaxed),
                            _ => {}
                        }
                        Ok(ControlFlow::Continue(()))
                    },
                )?;
                Ok::<_, training::Error>((before, after))
            })
        },
    )
    .unwrap_or_else(|e| panic!("{e}"));
    // Other ranks may be at the end of the run, or in their warm-up, by a step: look at the widest common window.
    let first = counts.iter().map(|c| c.0).max().unwrap();
    let last = counts.iter().map(|c| c.1).min().unwrap();
    last.saturating_sub(first)
}

/// One test, because the counter belongs to the whole process.
#[test]
fn a_step_after_warm_up_allocates_nothing() {
    for (kind, multi_hot, hosts, ranks, threads) in [
        (ModelKind::Dlrm, false, 1, 1, 2),
        (ModelKind::Dcn, true, 1, 1, 1),
        (ModelKind::Dlrm, true, 2, 2, 1),
        (ModelKind::Dcn, false, 1, 2, 2),
    ] {
        let mut config = config(kind, multi_hot, hosts, ranks);
        // Large enough that the number of multi-hot ids varies by less than the slack of a buffer.
        config.train.batch = Some(960);
        config.data.synthetic =
            Some(Synthetic { samples: 400 * 960, eval_samples: 0, groups: 2, ..Default::default() });
        let run = config.check().unwrap();
        let counted = allocations(&run, threads, 300);
        assert_eq!(counted, 0, "{kind:?} on {hosts} × {ranks} ranks of {threads} threads");
    }
}
