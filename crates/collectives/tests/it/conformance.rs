//! The in-process transport under the suite that all transports share, and what only it can be asked.

use crate::{gpu, suite};
use collectives::{CollectiveError, Communicator, Label, Options, launch};
use kernels::{Buffer, Device, KernelError};
use proptest::prelude::*;
use spec::topology::Topology;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Device of a rank: all ranks share the GPU if the environment variable CAMPANILE_TEST_DEVICE names one.
fn device() -> Result<Device, KernelError> {
    gpu::of_a_rank().unwrap_or(Ok(Device::Reference))
}

fn run(topology: Topology, body: impl Fn(Communicator) -> suite::Outcome + Sync) {
    let options = Options { wait_limit: Duration::from_secs(20) };
    let body = |world: Communicator| -> suite::Outcome {
        let device = world.device().clone();
        body(world)?;
        Ok::<_, CollectiveError>(device.check()?)
    };
    if let Err(failure) = launch(topology, &options, |_| device(), body) {
        panic!("on {topology}: {failure}");
    }
}

fn everywhere(case: suite::Case) {
    suite::clusters().into_iter().for_each(|topology| run(topology, case));
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => { $(#[test] fn $name() { everywhere(suite::$name); })* };
}

cases!(
    all_to_all,
    all_gather,
    broadcast,
    barrier,
    reduce_scatter,
    all_reduce,
    all_reduce_f64,
    encoded_all_reduce,
    algorithms,
    encoded_scatter_and_gather,
    outstanding,
    queues,
    crossed,
    abandoned,
    progress,
    split,
    disjoint,
    meter,
);

#[test]
fn stress() {
    run(Topology::new(4, 2).unwrap(), |world| suite::stress(world, 2000));
}

/// An exchange is complete once its last member has started, even if some members never look at it again until the
/// others have told them, by another way, that they are done.
#[test]
fn who_has_started_holds_nobody_up() {
    let (done, all_done) = mpsc::channel::<usize>();
    let all_done = Mutex::new(all_done);
    run(Topology::new(1, 4).unwrap(), |world| {
        let label = Label::from("exchange");
        let mine = Buffer::from_slice(world.device(), &[world.rank() as u32; 4])?;
        let counts = [1; 4];
        let pending = world.start_all_to_all(&label, mine, &counts, Buffer::new(world.device()), &counts)?;
        if world.rank() == 2 {
            let others = all_done.lock().unwrap();
            for _ in 0..3 {
                others.recv_timeout(Duration::from_secs(5)).expect("the others are held up by this rank");
            }
        }
        assert_eq!(pending.wait()?.1.to_vec()?, [0, 1, 2, 3]);
        if world.rank() != 2 {
            done.send(world.rank()).unwrap();
        }
        Ok(())
    });
}

/// A rank that fails while its device, and those of others for it, still copy ends all ranks with its cause; the memory is freed
/// when the devices are done.
#[test]
fn failure_with_copies_outstanding() {
    let failed = launch(
        Topology::new(1, 4).unwrap(),
        &Options { wait_limit: Duration::from_secs(20) },
        |_| device(),
        |world| -> suite::Outcome {
            let (label, counts, len) = (Label::from("exchange"), [1 << 18; 4], 1 << 20);
            let mut pending = Vec::new();
            for queue in 0..4 {
                let group = world.on(&world.device().on(queue));
                let buffer = || Buffer::<f32>::zeroed(world.device(), len);
                pending.push(group.start_all_to_all(&label, buffer()?, &counts, buffer()?, &counts)?);
                if (world.rank(), queue) == (2, 2) {
                    return Err(KernelError::OutOfMemory { bytes: 12_345 }.into());
                }
            }
            pending.into_iter().rev().try_for_each(|pending| pending.wait().map(|_| ()))
        },
    );
    let text = failed.expect_err("rank 2 fails").to_string();
    assert!(text.contains("rank 2") && text.contains("12345"), "{text}");
}

/// In a group of one, the buffers trade places.
#[test]
fn alone_nothing_is_copied() {
    run(Topology::new(1, 1).unwrap(), |world| {
        let (exchange, send) = (Label::from("exchange"), Buffer::from_slice(world.device(), &[1u32, 2, 3])?);
        let (send, recv) = world.all_to_all(&exchange, send, &[2], Buffer::new(world.device()), &[2])?;
        assert_eq!((send.len(), recv.to_vec()?), (3, vec![1, 2]));
        assert_eq!(world.meter()[0].calls, 1);
        assert_eq!(world.meter()[0].sent(spec::topology::LinkClass::Local), 0);
        Ok(())
    });
}

#[test]
fn results_come_in_rank_order() {
    let topology = Topology::new(2, 3).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let ranks = launch(
        topology,
        &Options::default(),
        |rank| {
            seen.lock().unwrap().push(rank);
            Ok(Device::Reference)
        },
        |world| {
            let thread = std::thread::current().name().map(str::to_owned);
            assert_eq!(thread, Some(format!("rank {}", world.rank())));
            Ok::<_, CollectiveError>(world.rank())
        },
    );
    assert_eq!(ranks.unwrap(), [0, 1, 2, 3, 4, 5]);
    seen.lock().unwrap().sort_unstable();
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sizes(hosts in 1usize..4, per_host in 1usize..4, seed in 0usize..1 << 20, most in 0usize..200) {
        let topology = Topology::new(hosts, per_host).unwrap();
        let size = topology.ranks();
        let count = |from, to| suite::mix(from, to, seed, 11) as usize % (most + 1);
        run(topology, |world| {
            let (me, label) = (world.rank(), Label::from("any"));
            let device = world.device();
            let made = |from, to| (0..count(from, to)).map(move |i| suite::mix(from, to, seed, i));
            let out: Vec<usize> = (0..size).map(|to| count(me, to)).collect();
            let back: Vec<usize> = (0..size).map(|from| count(from, me)).collect();
            let send: Vec<u64> = (0..size).flat_map(|to| made(me, to)).collect();
            let send = Buffer::from_slice(device, &send)?;
            let exchange = world.start_all_to_all(&label, send, &out, Buffer::new(world.device()), &back)?;

            let len = count(size, size);
            let mine: Vec<f32> = (0..len).map(|i| suite::float(me, i, seed)).collect();
            let reduce = world.start_all_reduce(&label, Buffer::from_slice(device, &mine)?)?;

            let counts: Vec<usize> = (0..size).map(|rank| count(rank, size + 1)).collect();
            let mine: Vec<u64> = made(me, size + 1).collect();
            let mine = Buffer::from_slice(device, &mine)?;
            let gather = world.start_all_gather(&label, mine, &counts, Buffer::new(world.device()))?;

            let total: usize = counts.iter().sum();
            let mine: Vec<f32> = (0..total).map(|i| suite::float(me, i, seed + 1)).collect();
            let mine = Buffer::from_slice(device, &mine)?;
            let scatter = world.start_reduce_scatter(&label, mine, &counts, Buffer::new(world.device()))?;

            let sums = |seed, range: std::ops::Range<usize>| -> Vec<u32> {
                let sum = |i| suite::ordered_sum((0..size).map(|rank| suite::float(rank, i, seed)));
                range.map(|i| sum(i).to_bits()).collect()
            };
            let start: usize = counts[..me].iter().sum();
            assert_eq!(suite::bits(&scatter.wait()?.1.to_vec()?), sums(seed + 1, start..start + counts[me]));
            let expected: Vec<u64> = (0..size).flat_map(|from| made(from, size + 1)).collect();
            assert_eq!(gather.wait()?.1.to_vec()?, expected);
            assert_eq!(suite::bits(&reduce.wait()?.to_vec()?), sums(seed, 0..len));
            let expected: Vec<u64> = (0..size).flat_map(|from| made(from, me)).collect();
            assert_eq!(exchange.wait()?.1.to_vec()?, expected);
            Ok(())
        });
    }
}
