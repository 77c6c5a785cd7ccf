//! Long runs over MPI stay as they are: after warm-up exchanges allocate nothing, and the process does not grow.

mod mpirun;

use collectives::{CollectiveError, Communicator, Label, Lossy, MpiJob, MpiOptions, Options, Prepared};
use kernels::{Buffer, Device};
use mpirun::mpirun;
use spec::codec::{Codec, Compensation};
use spec::program::{Algorithm, Units};
use spec::topology::Topology;
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came; the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Elements for each member: short and long ones, and none.
const SIZES: [usize; 6] = [1, 100, 513, 0, 3000, 20_000];

/// All-to-alls of all sizes, and a reduction beside them.
struct Rounds {
    buffers: [Buffer<f32>; 3],
    counts: Vec<usize>,
    labels: [Label; 2],
    prepared: Arc<Prepared>,
}

impl Rounds {
    fn run(&mut self, world: &Communicator, rounds: usize) -> Result<(), CollectiveError> {
        let [pooled, gradients] = &self.labels;
        for round in 0..rounds {
            world.enter(pooled);
            let size = SIZES[round % SIZES.len()];
            self.counts.fill(size);
            let [mut send, recv, dense] = self.buffers.each_mut().map(Buffer::take);
            send.resize(size * world.size())?;
            let exchange = world.start_all_to_all(pooled, send, &self.counts, recv, &self.counts)?;
            world.enter(gradients);
            let lossy = Lossy::none(world.device());
            let reduction = world.start_all_reduce_by(gradients, &self.prepared, dense, lossy)?;
            let (send, recv) = exchange.wait()?;
            self.buffers = [send, recv, reduction.wait()?.1];
        }
        Ok(())
    }
}

/// Bytes of memory that the process has in use.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number of pages") * 4096
}

fn steady(world: &Communicator) -> Result<(), CollectiveError> {
    let most = SIZES.iter().max().expect("some") * world.size();
    let buffer = |len| Buffer::<f32>::zeroed(world.device(), len);
    let units = Units::of_tensors(Codec::F32, 1000, &[]);
    let prepared = world.prepare_all_reduce(units, Algorithm::Direct, Compensation::None);
    let mut rounds = Rounds {
        prepared: Arc::new(prepared),
        buffers: [buffer(most)?, buffer(most)?, buffer(1000)?],
        counts: vec![0; world.size()],
        labels: ["pooled", "gradients"].map(Label::from),
    };
    rounds.run(world, 1000)?;
    let (resident_before, before) = (resident(), ALLOCATIONS.load(Ordering::SeqCst));
    rounds.run(world, 7000)?;
    let (allocations, resident) = (ALLOCATIONS.load(Ordering::SeqCst) - before, resident());
    let text = format!(
        "rank {}: {allocations} allocations, resident {resident_before} to {resident} bytes",
        world.rank()
    );
    println!("{text}");
    // Nobody may leave before all have looked: that a rank leaves is news to the others, and takes memory.
    world.barrier(&Label::from("looked"))?;
    assert!(allocations == 0 && resident as f64 <= resident_before as f64 * 1.02, "{text}");
    Ok(())
}

fn rank(_: &[String], job: MpiJob) -> ExitCode {
    let ranks = std::env::var("OMPI_COMM_WORLD_SIZE").ok().and_then(|size| size.parse().ok());
    let topology = Topology::new(1, ranks.expect("mpirun says it")).expect("a cluster");
    let mpi = MpiOptions { check_hosts: false, ..MpiOptions::default() };
    let outcome = job.launch(topology, &Options::default(), &mpi, |_| Device::cpu(1), |world| steady(&world));
    match outcome {
        Ok(()) => {
            job.finish().expect("all ranks are done");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    mpirun::main(
        rank,
        &[("steady_state", || {
            let ended = mpirun(4, &["steady"]);
            println!("after {:.1?}: {}", ended.took, ended.said);
            assert!(ended.success);
        })],
    )
}
