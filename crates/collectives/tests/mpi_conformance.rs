//! The MPI transport under the suite that all transports share. Needs `mpirun`.

#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "../../kernels/tests/it/gpu.rs"]
mod gpu;
mod mpirun;
#[path = "it/suite.rs"]
mod suite;

use collectives::{CollectiveError, Communicator, DeviceMemory, Failure, Label, MpiJob, MpiOptions, Options};
use kernels::{Buffer, Device, KernelError, Nccl};
use mpirun::mpirun;
use spec::topology::Topology;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The meter comes first: it looks at labels in the order of their first use.
const CASES: [(&str, suite::Case); 20] = [
    ("meter", suite::meter),
    ("all_to_all", suite::all_to_all),
    ("all_gather", suite::all_gather),
    ("broadcast", suite::broadcast),
    ("barrier", suite::barrier),
    ("reduce_scatter", suite::reduce_scatter),
    ("all_reduce", suite::all_reduce),
    ("all_reduce_f64", suite::all_reduce_f64),
    ("encoded_all_reduce", suite::encoded_all_reduce),
    ("algorithms", suite::algorithms),
    ("encoded_scatter_and_gather", suite::encoded_scatter_and_gather),
    ("large", large),
    ("outstanding", suite::outstanding),
    ("queues", suite::queues),
    ("crossed", suite::crossed),
    ("progress", suite::progress),
    ("split", suite::split),
    ("disjoint", suite::disjoint),
    ("stress", |world| suite::stress(world, 500)),
    // Last, because it leaves something undone on purpose.
    ("abandoned", suite::abandoned),
];

/// Device of a rank: all ranks share the GPU if the environment variable CAMPANILE_TEST_DEVICE names one.
fn device() -> Result<Device, KernelError> {
    gpu::of_a_rank().unwrap_or(Ok(Device::Reference))
}

/// Messages too long to be sent before they are asked for, several at once.
fn large(world: Communicator) -> suite::Outcome {
    let (me, size, label) = (world.rank(), world.size(), Label::from("large"));
    let made =
        |from: usize, to: usize, len: usize| (0..len as u64).map(move |i| i * 8 + (from * size + to) as u64);
    let mut all = Vec::new();
    for len in [10_000, 100_001, 300_000] {
        let (sent, counts) =
            ((0..size).flat_map(|to| made(me, to, len)).collect::<Vec<u64>>(), vec![len; size]);
        let send = Buffer::from_slice(world.device(), &sent)?;
        all.push((len, world.start_all_to_all(&label, send, &counts, Buffer::new(world.device()), &counts)?));
    }
    for (len, pending) in all.into_iter().rev() {
        let expected: Vec<u64> = (0..size).flat_map(|from| made(from, me, len)).collect();
        assert!(pending.wait()?.1.to_vec()? == expected, "{len} elements for each");
    }
    Ok(())
}

/// More bytes in one message than MPI can count, from rank 0 to rank 1.
fn huge(world: Communicator) -> suite::Outcome {
    let (me, label, len) = (world.rank(), Label::from("huge"), (1usize << 28) + 12_345);
    let places = [0, 1 << 27, (1 << 28) - 1, 1 << 28, len - 1];
    let mut send = Buffer::<u64>::zeroed(world.device(), if me == 0 { len } else { 0 })?;
    if me == 0 {
        places.iter().for_each(|&place| send.write(place, &[place as u64 + 7]).unwrap());
    }
    let (to, from) = ([0, if me == 0 { len } else { 0 }], [if me == 1 { len } else { 0 }, 0]);
    let (_, recv) = world.all_to_all(&label, send, &to, Buffer::new(world.device()), &from)?;
    let mut value = [0];
    for place in places.into_iter().filter(|_| me == 1) {
        recv.read(place, &mut value)?;
        assert_eq!(value, [place as u64 + 7]);
    }
    Ok(())
}

/// A message of more than 2 GiB, which needs 5 GB of memory.
fn beyond_31_bits() {
    let ended = mpirun(2, &["1", "2", "1073741824", "huge"]);
    assert!(ended.success && ended.said.contains("huge passed"), "{}", ended.said);
    println!("{}", ended.said);
}

/// One rank: all cases, one after the other, each on a group of its own that has all ranks.
fn rank(arguments: &[String], job: MpiJob) -> ExitCode {
    let number = |index: usize| arguments[index].parse::<usize>().expect("a number");
    let topology = Topology::new(number(0), number(1)).expect("a cluster");
    let options = Options { wait_limit: Duration::from_secs(60) };
    // NCCL allows one rank on a GPU.
    let by_nccl = topology.ranks() == 1 && gpu::is_there() && Nccl::load().is_ok();
    let device_memory = if by_nccl { DeviceMemory::Nccl } else { DeviceMemory::Staged };
    let mpi = MpiOptions { check_hosts: false, piece: number(2), device_memory, ..MpiOptions::default() };
    let outcome = job.launch(
        topology,
        &options,
        &mpi,
        |_| device(),
        |world| {
            let between = Label::from("between cases");
            let huge: [(&str, suite::Case); 1] = [("huge", huge)];
            let cases = if arguments.len() > 3 { &huge[..] } else { &CASES[..] };
            for &(name, case) in cases {
                let start = Instant::now();
                world.enter(&Label::from(name));
                case(world.split(&between, 0, world.rank())?)?;
                if world.rank() == 0 {
                    println!("{name} passed after {:.2?}", start.elapsed());
                }
            }
            Ok::<_, CollectiveError>(())
        },
    );
    match outcome.and_then(|()| again(&job, topology, &options, &mpi)) {
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

/// A job that was launched tells all ranks what the first has found out, and can be launched again.
fn again(job: &MpiJob, topology: Topology, options: &Options, mpi: &MpiOptions) -> Result<(), Failure> {
    let told = job.first_text(&format!("told by rank {}", job.rank()));
    assert_eq!(told.expect("all ranks are here"), "told by rank 0");
    job.launch(
        topology,
        options,
        mpi,
        |_| device(),
        |world| {
            // A group of its own too: those of the first launch are gone.
            suite::all_reduce(world.split(&Label::from("again"), 0, world.rank())?)?;
            if world.rank() == 0 {
                println!("again passed");
            }
            Ok::<_, CollectiveError>(())
        },
    )
}

fn clusters_of(ranks: usize, piece: usize) {
    for topology in suite::clusters().into_iter().filter(|topology| topology.ranks() == ranks) {
        let numbers = [topology.hosts(), topology.ranks_per_host(), piece].map(|number| number.to_string());
        let ended = mpirun(ranks, &[&numbers[0], &numbers[1], &numbers[2]]);
        assert!(ended.success, "on {topology}, after {:.1?}: {}", ended.took, ended.said);
        for name in CASES.map(|(name, _)| name).into_iter().chain(["again"]) {
            assert!(ended.said.contains(&format!("{name} passed")), "{name} on {topology}: {}", ended.said);
        }
        println!("{topology}, pieces of {piece} bytes: all {} cases pass, {:.1?}", CASES.len(), ended.took);
    }
}

fn main() -> ExitCode {
    mpirun::main(
        rank,
        &[
            ("one_rank", || clusters_of(1, 1 << 30)),
            ("two_ranks", || clusters_of(2, 1 << 30)),
            ("three_ranks", || clusters_of(3, 1 << 30)),
            ("four_ranks", || clusters_of(4, 1 << 30)),
            ("eight_ranks", || clusters_of(8, 1 << 30)),
            ("long_beyond_31_bits", beyond_31_bits),
            ("in_pieces", || clusters_of(4, 1003)),
        ],
    )
}
