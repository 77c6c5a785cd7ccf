//! After warm-up, collectives allocate nothing, on any thread; nor do they allocate on a GPU or wait for it.

#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "../../kernels/tests/it/gpu.rs"]
mod gpu;

use collectives::{CollectiveError, Communicator, Label, Lossy, Options, Prepared, Vectors, launch};
use kernels::{Buffer, Device, KernelError};
use spec::codec::{Codec, Compensation};
use spec::program::{Algorithm, Program, Units};
use spec::topology::Topology;
use std::alloc::{GlobalAlloc, Layout, System};
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

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn none(group: &Communicator) -> Lossy {
    Lossy::none(group.device())
}

struct Round {
    send: Buffer<f32>,
    recv: Buffer<f32>,
    dense: [Buffer<f32>; 3],
    prepared: [Arc<Prepared>; 4],
    metrics: [f64; 3],
    labels: [Label; 4],
}

impl Round {
    /// All collectives, several under way at once.
    fn run(&mut self, world: &Communicator, host: &Communicator) -> Result<(), CollectiveError> {
        let [exchange, gradients, metrics, other] = &self.labels;
        world.enter(exchange);
        let counts = [7, 7, 7, 7];
        let (send, recv) = (self.send.take(), self.recv.take());
        let pending = world.start_all_to_all(exchange, send, &counts, recv, &counts)?;
        let reductions = [
            world.start_all_reduce_by(gradients, &self.prepared[0], self.dense[0].take(), none(world))?,
            host.start_all_reduce_by(gradients, &self.prepared[1], self.dense[1].take(), none(world))?,
            world.start_all_reduce_by(gradients, &self.prepared[2], self.dense[2].take(), none(world))?,
        ];
        (self.send, self.recv) = pending.wait()?;
        for (buffer, pending) in self.dense.iter_mut().zip(reductions).rev() {
            *buffer = pending.wait()?.1;
        }
        world.all_reduce_f64(metrics, &mut self.metrics)?;
        let (send, recv) = (self.send.take(), self.recv.take());
        let vectors = Vectors { send, recv, round: kernels::Round::Nearest };
        let shares = [0..7, 7..14, 14..21, 21..28];
        let scatter = world.start_reduce_scatter_by(other, &self.prepared[3], &shares, vectors)?;
        let (send, recv) = scatter.wait()?;
        let (send, recv) = host.all_gather(other, send, &[14, 14], recv)?;
        self.send = world.broadcast(other, 1, send)?;
        self.recv = recv;
        world.barrier(other)
    }
}

/// Fewest allocations of the process, and fewest allocations and waits of the rank's device, in a hundred rounds after warm-up.
fn fewest(device: impl Fn() -> Result<Device, KernelError> + Sync) -> Vec<(usize, u64)> {
    let counted = launch(
        Topology::new(2, 2).unwrap(),
        &Options::default(),
        |_| device(),
        |world| -> Result<(usize, u64), CollectiveError> {
            let device = world.device();
            let labels = ["exchange", "gradients", "metrics", "other"].map(Label::from);
            let host = world.split(&labels[3], world.rank() / 2, 0)?;
            let reduction = |group: &Communicator, codec, len, algorithm| {
                let units = Units::of_tensors(codec, len, std::slice::from_ref(&(0..len)));
                Arc::new(group.prepare_all_reduce(units, algorithm, Compensation::None))
            };
            let units = Units::of_tensors(Codec::F32, 28, &[]);
            let shares = [0..7, 7..14, 14..21, 21..28];
            let program = Program::reduce_scatter(&units, &shares, world.rank());
            let mut round = Round {
                prepared: [
                    reduction(&world, Codec::F32, 1000, Algorithm::Direct),
                    reduction(&host, Codec::U4, 30, Algorithm::Ring),
                    reduction(&world, Codec::Bf16, 2001, Algorithm::TwoLevel),
                    Arc::new(Prepared::new(units, program)),
                ],
                send: Buffer::zeroed(device, 28)?,
                recv: Buffer::new(world.device()),
                dense: [
                    Buffer::zeroed(device, 1000)?,
                    Buffer::zeroed(device, 30)?,
                    Buffer::zeroed(device, 2001)?,
                ],
                metrics: [0.0; 3],
                labels,
            };
            let edge = Label::from("edge");
            for _ in 0..5 {
                round.run(&world, &host)?;
                world.barrier(&edge)?;
            }
            // Everyone is warm, and from here to the last barrier nobody does anything but collectives. A list of what is
            // under way may still grow when threads take turns as they never did before: once, not in every window.
            let on_device = || {
                let counts = world.device().counts();
                counts.allocations + counts.synchronisations
            };
            let mut fewest = (usize::MAX, u64::MAX);
            for _ in 0..10 {
                let (before, before_on_device) = (ALLOCATIONS.load(Ordering::SeqCst), on_device());
                world.barrier(&edge)?;
                for _ in 0..100 {
                    round.run(&world, &host)?;
                }
                world.barrier(&edge)?;
                fewest.0 = fewest.0.min(ALLOCATIONS.load(Ordering::SeqCst) - before);
                fewest.1 = fewest.1.min(on_device() - before_on_device);
                world.barrier(&edge)?;
            }
            Ok(fewest)
        },
    );
    counted.unwrap()
}

#[test]
fn nothing_after_warm_up() {
    assert_eq!(fewest(|| Device::cpu(1)), [(0, 0); 4]);
}

/// On the GPU that the environment names. What the host allocates to launch kernels is not counted here.
#[test]
fn nothing_on_a_gpu_after_warm_up() {
    if gpu::is_there() {
        let on_device: Vec<u64> = fewest(|| gpu::of_a_rank().unwrap()).into_iter().map(|(_, n)| n).collect();
        assert_eq!(on_device, [0; 4]);
    }
}
