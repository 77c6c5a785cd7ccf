//! What every transport must do. Each case is the body of one rank, with a naive oracle inside: a rank knows what all
//! others send, because everything sent is a function of (sender, receiver, position). So the same cases run whether
//! ranks are threads or processes.

use collectives::{CollectiveError, Communicator, Label, Lossy, Pending, Prepared, Vectors};
use kernels::{Buffer, Element, Round};
use spec::codec::{Codec, Compensation};
use spec::placement::share;
use spec::program::{Algorithm, Program, Units};
use spec::topology::{LinkClass, Topology};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub type Outcome = Result<(), CollectiveError>;

/// A case, and what it is called.
pub type Case = fn(Communicator) -> Outcome;

/// Clusters to run every case on: 1, 2, 3, 4 and 8 ranks.
pub fn clusters() -> Vec<Topology> {
    let shapes = [(1, 1), (1, 2), (2, 1), (3, 1), (2, 2), (1, 4), (2, 4), (4, 2)];
    shapes.into_iter().map(|(hosts, ranks)| Topology::new(hosts, ranks).unwrap()).collect()
}

/// A well-mixed number that depends on all four.
pub fn mix(a: usize, b: usize, c: usize, d: usize) -> u64 {
    [a, b, c, d].iter().fold(0x9e37_79b9_7f4a_7c15, |state: u64, &x| {
        let state = (state ^ x as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state ^ (state >> 29)
    })
}

/// Floats of very different magnitudes and both signs: their sum depends on the order.
pub fn float(source: usize, position: usize, seed: usize) -> f32 {
    let bits = mix(source, position, seed, 7);
    let size = 10f32.powi((bits % 9) as i32 - 4);
    let value = ((bits >> 20) % 10_000 + 1) as f32 * size;
    if bits & (1 << 50) == 0 { value } else { -value }
}

/// The specification of a sum.
pub fn ordered_sum(values: impl Iterator<Item = f32>) -> f32 {
    values.reduce(|sum, value| sum + value).unwrap_or(0.0)
}

/// Bits of floats. NaN of a sum has the bits that its device gives it, so that one NaN stands for all.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }).collect()
}

trait Made: Element {
    fn made(number: u64) -> Self;
}
macro_rules! made {
    ($($t:ty),*) => { $(impl Made for $t { fn made(number: u64) -> Self { (number % 251) as $t } })* };
}
made!(u8, u16, u32, u64, f32, f64);

/// How much `from` sends to `to` in a round: uneven, often nothing.
fn count(from: usize, to: usize, round: usize) -> usize {
    match round {
        0 => 0,
        1 => 3,
        _ => (mix(from, to, round, 1) % 9).saturating_sub(2) as usize,
    }
}

fn part<T: Made>(from: usize, to: usize, round: usize, len: usize) -> Vec<T> {
    (0..len).map(|i| T::made(mix(from, to, round, i))).collect()
}

pub fn all_to_all(world: Communicator) -> Outcome {
    all_to_all_of::<u8>(&world)?;
    all_to_all_of::<u16>(&world)?;
    all_to_all_of::<u32>(&world)?;
    all_to_all_of::<u64>(&world)?;
    all_to_all_of::<f32>(&world)?;
    all_to_all_of::<f64>(&world)
}

fn all_to_all_of<T: Made>(group: &Communicator) -> Outcome {
    let (me, size, label) = (group.rank(), group.size(), Label::from("exchange"));
    let (mut send, mut recv) = (Buffer::<T>::new(group.device()), Buffer::<T>::new(group.device()));
    for round in 0..8 {
        let send_counts: Vec<usize> = (0..size).map(|to| count(me, to, round)).collect();
        let recv_counts: Vec<usize> = (0..size).map(|from| count(from, me, round)).collect();
        let sent: Vec<T> = (0..size).flat_map(|to| part(me, to, round, send_counts[to])).collect();
        let expected: Vec<T> = (0..size).flat_map(|from| part(from, me, round, recv_counts[from])).collect();
        // Longer than it need be in some rounds: the rest must stay out of it.
        send.resize(sent.len() + round % 3)?;
        send.write(0, &sent)?;
        (send, recv) = group.all_to_all(&label, send, &send_counts, recv, &recv_counts)?;
        assert_eq!(recv.to_vec()?, expected, "round {round}");
        assert_eq!(send.len(), sent.len() + round % 3);
        if size > 1 {
            assert_eq!(send.to_vec()?[..sent.len()], sent, "send is only read");
        }
    }
    Ok(())
}

pub fn all_gather(world: Communicator) -> Outcome {
    let (me, size, label) = (world.rank(), world.size(), Label::from("gather"));
    let mut recv = Buffer::<u32>::new(world.device());
    for round in 0..8 {
        let counts: Vec<usize> = (0..size).map(|from| count(from, 0, round)).collect();
        let mine: Vec<u32> = part(me, 0, round, counts[me]);
        let send = Buffer::from_slice(world.device(), &mine)?;
        let (send, received) = world.all_gather(&label, send, &counts, recv)?;
        let expected: Vec<u32> = (0..size).flat_map(|from| part(from, 0, round, counts[from])).collect();
        assert_eq!(received.to_vec()?, expected);
        assert_eq!(send.to_vec()?, mine);
        recv = received;
    }
    Ok(())
}

pub fn broadcast(world: Communicator) -> Outcome {
    let label = Label::from("broadcast");
    for root in 0..world.size() {
        for len in [0, 1, 5, 1000] {
            let mine: Vec<f64> = part(world.rank(), 0, len, len);
            let buffer = Buffer::from_slice(world.device(), &mine)?;
            assert_eq!(world.broadcast(&label, root, buffer)?.to_vec()?, part::<f64>(root, 0, len, len));
        }
    }
    Ok(())
}

pub fn barrier(world: Communicator) -> Outcome {
    // The last rank is late; nobody may be through before it has come.
    let label = Label::from("barrier");
    world.barrier(&label)?;
    let start = Instant::now();
    if world.rank() == world.size() - 1 {
        std::thread::sleep(Duration::from_millis(150));
    }
    world.barrier(&label)?;
    assert!(start.elapsed() >= Duration::from_millis(50), "through after {:?}", start.elapsed());
    Ok(())
}

pub fn reduce_scatter(world: Communicator) -> Outcome {
    let (me, size, label) = (world.rank(), world.size(), Label::from("reduce_scatter"));
    let mut recv = Buffer::new(world.device());
    for round in 0..8 {
        let counts: Vec<usize> = (0..size).map(|to| count(to, 0, round) * 3).collect();
        let total: usize = counts.iter().sum();
        let start: usize = counts[..me].iter().sum();
        let mine: Vec<f32> = (0..total).map(|i| float(me, i, round)).collect();
        let send = Buffer::from_slice(world.device(), &mine)?;
        let (_, received) = world.reduce_scatter(&label, send, &counts, recv)?;
        let sum = |i| ordered_sum((0..size).map(|rank| float(rank, i, round)));
        let expected: Vec<f32> = (start..start + counts[me]).map(sum).collect();
        assert_eq!(bits(&received.to_vec()?), bits(&expected));
        recv = received;
    }
    Ok(())
}

pub fn all_reduce(world: Communicator) -> Outcome {
    let (me, size, label) = (world.rank(), world.size(), Label::from("gradients"));
    for len in [0, 1, 2, 3, 7, 8, 9, 64, 1000] {
        let mine: Vec<f32> = (0..len).map(|i| float(me, i, len)).collect();
        let sums = world.all_reduce(&label, Buffer::from_slice(world.device(), &mine)?)?;
        let expected: Vec<f32> =
            (0..len).map(|i| ordered_sum((0..size).map(|rank| float(rank, i, len)))).collect();
        assert_eq!(bits(&sums.to_vec()?), bits(&expected), "{len} elements");
        if size > 2 && len == 1000 {
            let another = |i| ordered_sum((0..size).rev().map(|rank| float(rank, i, len)));
            let another: Vec<f32> = (0..len).map(another).collect();
            assert_ne!(bits(&another), bits(&expected), "these values cannot tell one order from another");
        }
    }
    Ok(())
}

/// What a format leaves of a value.
pub fn rounded(wire: Codec, value: f32) -> f32 {
    match wire {
        Codec::F16 => half::f16::from_f32(value).to_f32(),
        Codec::Bf16 => half::bf16::from_f32(value).to_f32(),
        _ => value,
    }
}

/// In every format: rounded, summed in rank order, and rounded again. Every rank has the same bits.
pub fn encoded_all_reduce(world: Communicator) -> Outcome {
    let (me, size, label) = (world.rank(), world.size(), Label::from("reduce"));
    for wire in [Codec::F32, Codec::F16, Codec::Bf16] {
        for len in [0, 1, 3, 8, 1001] {
            let mine: Vec<f32> = (0..len).map(|i| float(me, i, len) * 1e-3).collect();
            let buffer = Buffer::from_slice(world.device(), &mine)?;
            let units = Units::of_tensors(wire, len, &[]);
            let prepared = world.prepare_all_reduce(units, Algorithm::Direct, Compensation::None);
            let lossy = Lossy::none(world.device());
            let (_, sums) = world.start_all_reduce_by(&label, &Arc::new(prepared), buffer, lossy)?.wait()?;
            let sum = |i| ordered_sum((0..size).map(|rank| rounded(wire, float(rank, i, len) * 1e-3)));
            let expected: Vec<f32> = match size {
                1 => mine,
                _ => (0..len).map(|i| rounded(wire, sum(i))).collect(),
            };
            assert_eq!(bits(&sums.to_vec()?), bits(&expected), "{len} elements as {wire}");
        }
    }
    Ok(())
}

/// Every algorithm with every codec, for any length: in single precision within 1e-6 of the sum of absolute values, otherwise
/// within what the codec loses. All ranks have the same bits, in every run.
pub fn algorithms(world: Communicator) -> Outcome {
    let (me, size, label) = (world.rank(), world.size(), Label::from("algorithms"));
    // Between -1 and 1.
    let value = |rank: usize, i: usize| (mix(rank, i, 7, 3) % 2001) as f32 / 1000.0 - 1.0;
    for algorithm in Algorithm::ALL {
        for codec in Codec::ALL {
            for len in [0, 1, size, 1000] {
                let tensors = [0..len / 3, (len / 3).next_multiple_of(16).min(len)..len];
                let mine: Vec<f32> = (0..len).map(|i| value(me, i)).collect();
                let units = Units::of_tensors(codec, len, &tensors);
                let prepared = world.prepare_all_reduce(units, algorithm, Compensation::None);
                let prepared = Arc::new(prepared);
                let reduce = || {
                    let buffer = Buffer::from_slice(world.device(), &mine)?;
                    let lossy = Lossy::none(world.device());
                    let (_, sums) = world.start_all_reduce_by(&label, &prepared, buffer, lossy)?.wait()?;
                    Ok::<_, CollectiveError>(sums.to_vec()?)
                };
                let sums = reduce()?;
                assert_eq!(bits(&sums), bits(&reduce()?), "{algorithm} as {codec}, twice");
                let counts = vec![len; size];
                let copy = Buffer::from_slice(world.device(), &sums)?;
                let all = world.all_gather(&label, copy, &counts, Buffer::new(world.device()))?.1.to_vec()?;
                for i in tensors.iter().cloned().flatten() {
                    let same = (0..size).all(|rank| all[rank * len + i].to_bits() == sums[i].to_bits());
                    assert!(same, "{algorithm} as {codec}: ranks differ at {i}");
                    let exact: f64 = (0..size).map(|rank| f64::from(value(rank, i))).sum();
                    let absolute: f64 = (0..size).map(|rank| f64::from(value(rank, i).abs())).sum();
                    // What is lost goes by the largest value of a row, which is at most the number of ranks.
                    let largest = size as f64;
                    let within = match codec {
                        Codec::F32 => 1e-6 * absolute,
                        Codec::F16 | Codec::Bf16 => 0.02 * largest,
                        Codec::U8 | Codec::Fp8E4m3 => 0.2 * largest,
                        Codec::Fp8E5m2 | Codec::U4 => 0.5 * largest,
                        Codec::U2 => 2.0 * largest,
                    };
                    let error = (f64::from(sums[i]) - exact).abs();
                    assert!(error <= within, "{algorithm} as {codec} of {len}: {} for {exact}", sums[i]);
                }
            }
        }
    }
    Ok(())
}

/// The same of a reduce-scatter and of an all-gather, several under way at once.
pub fn encoded_scatter_and_gather(world: Communicator) -> Outcome {
    let (me, size, label) = (world.rank(), world.size(), Label::from("encoded"));
    let round = |wire, value| if size == 1 { value } else { rounded(wire, value) };
    for wire in [Codec::F32, Codec::F16, Codec::Bf16] {
        for round_number in 0..4 {
            let counts: Vec<usize> = (0..size).map(|to| count(to, 0, round_number)).collect();
            let total: usize = counts.iter().sum();
            let value = |rank: usize, i: usize| float(rank, i, round_number) * 1e-3;
            let given = |rank| (0..total).map(move |i| value(rank, i));
            let send = Buffer::from_slice(world.device(), &given(me).collect::<Vec<f32>>())?;
            let units = Units::of_tensors(wire, total, &[]);
            let ends = counts.iter().scan(0, |end, count| {
                *end += count;
                Some(*end - count..*end)
            });
            let shares: Vec<Range<usize>> = ends.collect();
            let vectors = |send| Vectors { send, recv: Buffer::new(world.device()), round: Round::Nearest };
            let program = Program::reduce_scatter(&units, &shares, me);
            let prepared = Arc::new(Prepared::new(units.clone(), program));
            let scatter = world.start_reduce_scatter_by(&label, &prepared, &shares, vectors(send))?;
            let mine: Vec<f32> = given(me).take(counts[me]).collect();
            let mine = Buffer::from_slice(world.device(), &mine)?;
            let program = Program::all_gather(&units, &shares, me);
            let prepared = Arc::new(Prepared::new(units, program));
            let gather = world.start_all_gather_by(&label, &prepared, &shares, vectors(mine))?;

            let gathered: Vec<f32> = (0..size)
                .flat_map(|from| {
                    given(from).take(counts[from]).map(|value| round(wire, value)).collect::<Vec<f32>>()
                })
                .collect();
            let (sent, received) = gather.wait()?;
            assert_eq!(bits(&received.to_vec()?), bits(&gathered), "as {wire}");
            assert_eq!(sent.len(), counts[me]);
            let first: usize = counts[..me].iter().sum();
            let sum = |i| ordered_sum((0..size).map(|rank| round(wire, value(rank, first + i))));
            let expected: Vec<f32> = (0..counts[me]).map(sum).collect();
            let (sent, received) = scatter.wait()?;
            assert_eq!(bits(&received.to_vec()?), bits(&expected), "as {wire}");
            assert_eq!(sent.len(), total);
        }
    }
    Ok(())
}

pub fn all_reduce_f64(world: Communicator) -> Outcome {
    let (me, size, label) = (world.rank(), world.size(), Label::from("metrics"));
    for len in [0, 1, 5, 2] {
        let value = |rank: usize, i: usize| f64::from(float(rank, i, len)) / 3.0;
        let mut values: Vec<f64> = (0..len).map(|i| value(me, i)).collect();
        world.all_reduce_f64(&label, &mut values)?;
        let sum = |i| (0..size).map(|rank| value(rank, i)).reduce(|a, b| a + b).unwrap();
        let expected: Vec<f64> = (0..len).map(sum).collect();
        assert_eq!(values, expected);
    }
    Ok(())
}

enum Outstanding {
    Exchange(Pending<(Buffer<u64>, Buffer<u64>)>, Vec<u64>),
    Sum(Pending<Buffer<f32>>, Vec<f32>),
    Scatter(Pending<(Buffer<f32>, Buffer<f32>)>, Vec<f32>),
    Copy(Pending<Buffer<u64>>, Vec<u64>),
    Barrier(Pending<()>),
}

fn start(group: &Communicator, round: usize) -> Result<Outstanding, CollectiveError> {
    let (me, size, label) = (group.rank(), group.size(), Label::from("many"));
    let device = group.device();
    Ok(match round % 5 {
        0 => {
            let counts = vec![round % 4; size];
            let sent: Vec<u64> = (0..size).flat_map(|to| part(me, to, round, counts[to])).collect();
            let expected = (0..size).flat_map(|from| part(from, me, round, counts[from])).collect();
            let send = Buffer::from_slice(device, &sent)?;
            let pending =
                group.start_all_to_all(&label, send, &counts, Buffer::new(group.device()), &counts)?;
            Outstanding::Exchange(pending, expected)
        }
        1 | 4 => {
            let mine: Vec<f32> = (0..round * 3).map(|i| float(me, i, round)).collect();
            let sum = |i| ordered_sum((0..size).map(|rank| float(rank, i, round)));
            let pending = group.start_all_reduce(&label, Buffer::from_slice(device, &mine)?)?;
            Outstanding::Sum(pending, (0..round * 3).map(sum).collect())
        }
        2 if round.is_multiple_of(2) => Outstanding::Barrier(group.start_barrier(&label)?),
        2 => {
            let counts = vec![round; size];
            let mine: Vec<f32> = (0..round * size).map(|i| float(me, i, round)).collect();
            let sum = |i| ordered_sum((0..size).map(|rank| float(rank, i, round)));
            let send = Buffer::from_slice(device, &mine)?;
            let pending = group.start_reduce_scatter(&label, send, &counts, Buffer::new(group.device()))?;
            Outstanding::Scatter(pending, (me * round..(me + 1) * round).map(sum).collect())
        }
        _ => {
            let root = round % size;
            let mine: Vec<u64> = part(me, 0, round, round);
            let pending = group.start_broadcast(&label, root, Buffer::from_slice(device, &mine)?)?;
            Outstanding::Copy(pending, part(root, 0, round, round))
        }
    })
}

fn finish(operation: Outstanding) -> Outcome {
    match operation {
        Outstanding::Exchange(pending, expected) => assert_eq!(pending.wait()?.1.to_vec()?, expected),
        Outstanding::Sum(pending, expected) => assert_eq!(bits(&pending.wait()?.to_vec()?), bits(&expected)),
        Outstanding::Scatter(pending, expected) => {
            assert_eq!(bits(&pending.wait()?.1.to_vec()?), bits(&expected));
        }
        Outstanding::Copy(pending, expected) => assert_eq!(pending.wait()?.to_vec()?, expected),
        Outstanding::Barrier(pending) => pending.wait()?,
    }
    Ok(())
}

/// Twenty operations under way at once, waited for in another order on every rank.
pub fn outstanding(world: Communicator) -> Outcome {
    let me = world.rank();
    for repeat in 0..3 {
        let mut all = (0..20).map(|round| start(&world, round)).collect::<Result<Vec<_>, _>>()?;
        let mut step = 0;
        while !all.is_empty() {
            let next = mix(me, step, repeat, 3) as usize % all.len();
            finish(all.swap_remove(next))?;
            step += 1;
        }
    }
    Ok(())
}

/// Operations on all queues of the device at once, whose memory must not get into each other's way.
pub fn queues(world: Communicator) -> Outcome {
    let (me, size, label) = (world.rank(), world.size(), Label::from("queues"));
    let groups: Vec<Communicator> = (0..4).map(|queue| world.on(&world.device().on(queue))).collect();
    let len = 5000;
    for round in 0..5 {
        let mut all = Vec::new();
        for (queue, group) in groups.iter().enumerate() {
            let mine: Vec<f32> = (0..len).map(|i| float(me, i, 4 * round + queue)).collect();
            let mine = Buffer::from_slice(world.device(), &mine)?;
            all.push((queue, group.start_all_reduce(&label, mine)?, start(group, round + queue)?));
        }
        if me % 2 == 0 {
            all.reverse();
        }
        for (queue, sums, other) in all {
            finish(other)?;
            let seed = 4 * round + queue;
            let sum = |i| ordered_sum((0..size).map(|rank| float(rank, i, seed)));
            let expected: Vec<f32> = (0..len).map(sum).collect();
            assert_eq!(bits(&sums.wait()?.to_vec()?), bits(&expected), "queue {queue}");
        }
    }
    Ok(())
}

/// Rank 0 finishes one all-reduce before it starts the next; the others start both, and odd ranks wait for the second
/// first. So rank 0 needs them to go on with an operation that they are not waiting for.
pub fn crossed(world: Communicator) -> Outcome {
    if world.rank() == 0 {
        // Time for the others to be waiting when the first half of anything completes.
        std::thread::sleep(Duration::from_millis(50));
        return [1, 4].into_iter().try_for_each(|round| start(&world, round).and_then(finish));
    }
    let mut both = vec![start(&world, 1)?, start(&world, 4)?];
    if world.rank() % 2 == 1 {
        both.reverse();
    }
    both.into_iter().try_for_each(finish)
}

/// A mixed load with a few operations outstanding at any time, over the world and over two groups inside it.
pub fn stress(world: Communicator, operations: usize) -> Outcome {
    let (me, setup) = (world.world_rank(), Label::from("set-up"));
    let host = world.split(&setup, world.topology().host_of(me), me)?;
    let peers = world.split(&setup, me % world.topology().ranks_per_host(), me)?;
    let mut under_way = Vec::new();
    for step in 0..operations {
        // All ranks choose the same group and operation at every step; what they wait for, and when, is their own.
        let group = [&world, &host, &peers][mix(step, 0, 0, 0) as usize % 3];
        under_way.push(start(group, mix(step, 1, 1, 1) as usize % 40)?);
        while under_way.len() > mix(me, step, 2, 2) as usize % 8 {
            let next = mix(me, step, under_way.len(), 3) as usize % under_way.len();
            finish(under_way.swap_remove(next))?;
        }
    }
    under_way.into_iter().try_for_each(finish)
}

/// What is dropped does no harm, neither to others, nor to what follows, nor at the end of the run.
pub fn abandoned(world: Communicator) -> Outcome {
    let (me, size, label) = (world.rank(), world.size(), Label::from("abandoned"));
    for round in 0..10 {
        let mine = Buffer::from_slice(world.device(), &[me as f32; 17])?;
        let pending = world.start_all_reduce(&label, mine)?;
        if me == round % size {
            drop(pending);
        } else if round < 9 {
            let sum = (0..size).sum::<usize>() as f32;
            assert_eq!(pending.wait()?.to_vec()?, vec![sum; 17]);
        }
        if round < 9 {
            drop(world.start_barrier(&label)?);
            all_to_all_of::<u16>(&world)?;
            all_to_all_of::<u32>(&world)?;
        }
    }
    Ok(())
}

/// An operation of two stages completes by `progress` alone.
pub fn progress(world: Communicator) -> Outcome {
    let (size, label) = (world.size(), Label::from("progress"));
    let mut first = world.start_all_reduce(&label, Buffer::from_slice(world.device(), &[1.0; 9])?)?;
    let second = world.start_all_reduce(&label, Buffer::from_slice(world.device(), &[2.0; 5])?)?;
    while !first.progress()? {
        std::thread::yield_now();
    }
    assert!(first.progress()?, "once complete, always complete");
    assert_eq!(first.wait()?.to_vec()?, vec![size as f32; 9]);
    world.progress()?;
    assert_eq!(second.wait()?.to_vec()?, vec![2.0 * size as f32; 5]);
    Ok(())
}

/// Hosts, peers, and groups inside groups.
pub fn split(world: Communicator) -> Outcome {
    let (topology, me, label) = (world.topology(), world.world_rank(), Label::from("split"));
    let (hosts, per_host) = (topology.hosts(), topology.ranks_per_host());
    let host = world.split(&label, topology.host_of(me), me)?;
    let first = topology.host_of(me) * per_host;
    assert_eq!(host.members(), (first..first + per_host).collect::<Vec<_>>());
    assert_eq!((host.rank(), host.size(), host.world_rank()), (me - first, per_host, me));

    let peers = world.split(&label, me % per_host, me)?;
    assert_eq!(peers.members(), (0..hosts).map(|h| h * per_host + me % per_host).collect::<Vec<_>>());

    // Backwards, by key; equal keys fall back on rank.
    let backwards = world.split(&label, 5, world.size() - me)?;
    assert_eq!(backwards.members(), (0..world.size()).rev().collect::<Vec<_>>());
    let halves = backwards.split(&label, backwards.rank() % 2, 0)?;
    let members = backwards.members().iter().copied().skip(backwards.rank() % 2).step_by(2);
    assert_eq!(halves.members(), members.collect::<Vec<_>>());

    for group in [&world, &host, &peers, &backwards, &halves] {
        all_to_all_of::<u32>(group)?;
        // The order of a sum is that of the group.
        let mine = Buffer::from_slice(world.device(), &[float(me, 0, 1), float(me, 1, 1)])?;
        let sums = group.all_reduce(&label, mine)?.to_vec()?;
        let expected = [0, 1].map(|i| ordered_sum(group.members().iter().map(|&rank| float(rank, i, 1))));
        assert_eq!(bits(&sums), bits(&expected));
    }

    // Outstanding in several groups at once, waited for across them.
    let mut all = Vec::new();
    for round in 0..10 {
        for group in [&host, &peers, &halves] {
            all.push(start(group, round)?);
        }
    }
    if me % 2 == 0 {
        all.reverse();
    }
    all.into_iter().try_for_each(finish)
}

/// One group works while the others do nothing at all.
pub fn disjoint(world: Communicator) -> Outcome {
    let (me, label) = (world.rank(), Label::from("disjoint"));
    let group = world.split(&label, me % 2, me)?;
    for turn in 0..2 {
        if me % 2 == turn {
            (0..30).try_for_each(|round| start(&group, round).and_then(finish))?;
        }
        world.barrier(&label)?;
    }
    Ok(())
}

/// The meter counts what was sent, by link, over all communicators of the rank.
pub fn meter(world: Communicator) -> Outcome {
    let (me, size, topology) = (world.rank(), world.size(), world.topology());
    let [setup, exchange, gradients, gather, scatter, copy, late] =
        ["set-up", "exchange", "gradients", "gather", "scatter", "copy", "late"].map(Label::from);
    let host = world.split(&setup, topology.host_of(me), me)?;
    world.reset_meter();
    assert!(world.meter().is_empty());
    for round in 2..4 {
        let send_counts: Vec<usize> = (0..size).map(|to| count(me, to, round)).collect();
        let recv_counts: Vec<usize> = (0..size).map(|from| count(from, me, round)).collect();
        let send = Buffer::<u64>::zeroed(world.device(), send_counts.iter().sum())?;
        world.all_to_all(&exchange, send, &send_counts, Buffer::new(world.device()), &recv_counts)?;
    }
    world.all_reduce(&gradients, Buffer::zeroed(world.device(), 1001)?)?;
    let counts: Vec<usize> = (1..=host.size()).collect();
    let own = Buffer::<u32>::zeroed(world.device(), host.rank() + 1)?;
    host.all_gather(&gather, own, &counts, Buffer::new(host.device()))?;
    let counts: Vec<usize> = (0..size).collect();
    let send = Buffer::zeroed(world.device(), counts.iter().sum())?;
    world.reduce_scatter(&scatter, send, &counts, Buffer::new(world.device()))?;
    world.broadcast(&copy, 0, Buffer::<u8>::zeroed(world.device(), 10)?)?;
    world.barrier(&copy)?;
    if me == size - 1 {
        std::thread::sleep(Duration::from_millis(150));
    }
    world.barrier(&late)?;

    let bytes = |link: LinkClass, to: &dyn Fn(usize) -> usize| -> u64 {
        let there = (0..size).filter(|&rank| size > 1 && topology.link(me, rank) == link);
        there.map(to).sum::<usize>() as u64
    };
    let part = |rank| share(1001, size, rank).len();
    let on_host = |rank| topology.link(me, rank) != LinkClass::Network && host.size() > 1;
    let read = world.meter();
    assert_eq!(read, host.meter(), "one meter for a communicator and those split off it");
    let names: Vec<&str> = read.iter().map(|traffic| traffic.label.as_str()).collect();
    assert_eq!(names, ["exchange", "gradients", "gather", "scatter", "copy", "late"]);
    assert_eq!(read.iter().map(|traffic| traffic.calls).collect::<Vec<_>>(), [2, 1, 1, 1, 2, 1]);
    for link in [LinkClass::Local, LinkClass::Host, LinkClass::Network] {
        let sent: Vec<u64> = read.iter().map(|traffic| traffic.sent(link)).collect();
        let expected = [
            bytes(link, &|to| 8 * (count(me, to, 2) + count(me, to, 3))),
            bytes(link, &|to| 4 * (part(to) + part(me))),
            bytes(link, &|to| if on_host(to) { 4 * (host.rank() + 1) } else { 0 }),
            bytes(link, &|to| 4 * to),
            bytes(link, &|to| if me == 0 && to != 0 { 10 } else { 0 }),
            0,
        ];
        assert_eq!(sent, expected, "rank {me} over {link:?} links of {topology}");
    }
    if me != size - 1 {
        let least = Duration::from_millis(50);
        assert!(read[5].blocked >= least && read[5].in_flight >= least, "{:?}", read[5]);
    }
    world.reset_meter();
    assert!(world.meter().is_empty() && host.meter().is_empty());
    Ok(())
}
