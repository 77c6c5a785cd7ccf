//! What ends one rank ends all under `mpirun` too, within seconds, with a message that says who and where.

mod mpirun;

use collectives::{Communicator, Label, MpiJob, MpiOptions, Options};
use kernels::{Buffer, Device};
use mpirun::mpirun;
use spec::topology::Topology;
use std::error::Error;
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::Duration;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// Longer than any of these tests may take.
const FOREVER: Duration = Duration::from_secs(100);

/// Time for the other ranks to be where the test wants them.
fn meanwhile() {
    sleep(Duration::from_millis(200));
}

/// Waits in a collective that cannot complete.
fn stuck(world: &Communicator) -> Outcome {
    world.enter(&Label::from("forward"));
    let counts = vec![1; world.size()];
    let send = Buffer::from_slice(world.device(), &vec![1.0f32; world.size()])?;
    world.all_to_all(&Label::from("pooled"), send, &counts, Buffer::new(world.device()), &counts)?;
    panic!("that cannot work");
}

fn signal(name: &str) {
    let sent = Command::new("kill").args([name, &std::process::id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
}

/// An all-to-all in which rank 1 sends rank 2 `more` elements than it expects.
fn uneven(world: &Communicator, len: usize, more: usize) -> Outcome {
    let (mut counts, expected) = (vec![len; 4], vec![len; 4]);
    if world.rank() == 1 {
        counts[2] += more;
    }
    let send = Buffer::<f32>::zeroed(world.device(), counts.iter().sum())?;
    world.all_to_all(&Label::from("pooled"), send, &counts, Buffer::new(world.device()), &expected)?;
    // Those that it does not concern may be through.
    stuck(world)
}

fn body(case: &str, world: &Communicator) -> Outcome {
    world.barrier(&Label::from("begin"))?;
    match (case, world.rank()) {
        ("panic", 2) => {
            world.enter(&Label::from("lookup"));
            meanwhile();
            panic!("row {} is past the end", 7);
        }
        ("error", 3) => {
            world.enter(&Label::from("reading"));
            meanwhile();
            return Err(std::io::Error::other("disk is gone").into());
        }
        ("computing", 1) => {
            world.enter(&Label::from("a long computation"));
            sleep(FOREVER);
        }
        ("computing", 0) => {
            meanwhile();
            return Err("early".into());
        }
        ("late", 1) => {
            world.enter(&Label::from("a long computation"));
            sleep(FOREVER);
        }
        ("stopped", 1) => {
            world.enter(&Label::from("lookup"));
            signal("-STOP");
        }
        ("killed_0", 0) | ("killed_3", 3) => {
            world.enter(&Label::from("lookup"));
            meanwhile();
            signal("-KILL");
        }
        ("aborts", 2) => {
            world.enter(&Label::from("native code"));
            meanwhile();
            std::process::abort();
        }
        ("collective", 1) => {
            world.enter(&Label::from("backward"));
            world.all_reduce(&Label::from("gradients"), Buffer::zeroed(world.device(), 4)?)?;
        }
        ("type", 3) => {
            world.enter(&Label::from("ids"));
            let send = Buffer::<u32>::zeroed(world.device(), 4)?;
            world.all_to_all(&Label::from("ids"), send, &[1; 4], Buffer::new(world.device()), &[1; 4])?;
        }
        ("longer", _) => return uneven(world, 1, 4),
        ("much_longer", _) => return uneven(world, 100_000, 1_000_000),
        ("root", rank) => {
            let values = Buffer::<u8>::zeroed(world.device(), 3)?;
            world.broadcast(&Label::from("weights"), usize::from(rank == 2), values)?;
        }
        ("arguments", 0) => {
            let send = Buffer::<f32>::zeroed(world.device(), 3)?;
            let error =
                world.all_to_all(&Label::from("pooled"), send, &[1; 4], Buffer::new(world.device()), &[1; 4]);
            assert!(error.is_err());
            // Even a rank that does not care about the error ends the others.
            return Ok(());
        }
        ("left", 1) => {
            world.enter(&Label::from("last"));
            return Ok(());
        }
        _ => {}
    }
    stuck(world)
}

fn rank(arguments: &[String], job: MpiJob) -> ExitCode {
    let case = arguments[0].as_str();
    let rank: usize = std::env::var("OMPI_COMM_WORLD_RANK").unwrap().parse().unwrap();
    let topology = Topology::new(2, 2).expect("a cluster");
    let limit = if matches!(case, "late" | "stopped") { 1 } else { 60 };
    let options = Options { wait_limit: Duration::from_secs(limit) };
    let identity = if case == "identity" && rank == 2 { "batch 512" } else { "batch 256" }.to_owned();
    let mpi = MpiOptions { check_hosts: case == "hosts", identity, ..MpiOptions::default() };
    let outcome = job.launch(topology, &options, &mpi, |_| Ok(Device::Reference), |world| body(case, &world));
    // In one piece: all ranks write to one place.
    let report = match outcome {
        Ok(()) => format!("rank {rank} ended well\n"),
        Err(failure) => format!("rank {rank} reports: {failure}\n"),
    };
    eprint!("{report}");
    ExitCode::FAILURE
}

/// Four ranks, which must end soon and say all of this.
fn fails(case: &str, parts: &[&str]) -> String {
    let ended = mpirun(if case == "world" { 3 } else { 4 }, &[case]);
    assert!(!ended.success, "{case}: {}", ended.said);
    assert!(ended.took < Duration::from_secs(10), "{case} took {:.1?}: {}", ended.took, ended.said);
    println!("--- {case}, {:.1?}\n{}", ended.took, ended.said);
    assert!(!ended.said.contains("ended well"));
    parts.iter().for_each(|part| assert!(ended.said.contains(part), "`{part}` is not in: {}", ended.said));
    ended.said
}

const WAITS: &str = "rank 0 on host 0, phase `forward`: waiting for";

fn main() -> ExitCode {
    mpirun::main(
        rank,
        &[
            ("a_rank_that_panics", || {
                let cause = "rank 2 on host 1 panicked in phase `lookup`: row 7 is past the end";
                let itself = "rank 2 on host 1, phase `lookup`: failed; last started barrier #0 of 4 ranks";
                fails("panic", &[cause, WAITS, "in all_to_all #1 of 4 ranks (`pooled`)", itself]);
            }),
            ("a_rank_that_fails", || {
                fails("error", &["rank 3 on host 1 failed in phase `reading`: disk is gone", WAITS]);
            }),
            ("a_rank_that_computes_on", || {
                let computes = "rank 1 on host 0, phase `a long computation`: computing";
                fails("computing", &["rank 0 on host 0 failed in phase `launch`: early", computes]);
            }),
            ("a_rank_that_is_late", || {
                let waited = "waited 1.0s, the limit, in all_to_all #1 (`pooled`); missing: ranks [1]";
                fails("late", &[waited, "rank 1 on host 0, phase `a long computation`: computing"]);
            }),
            ("a_rank_that_is_stopped", || {
                let waited = "waited 1.0s, the limit, in all_to_all #1 (`pooled`); missing: ranks [1]";
                let stopped = "rank 1 on host 0, phase `lookup`: computing; last started barrier #0 of 4 ranks (`begin`) \
                               (from its status file; it does not answer)";
                fails("stopped", &[waited, stopped]);
            }),
            ("ranks_that_are_killed", || {
                for (case, rank) in [("killed_0", "rank 0 on host 0"), ("killed_3", "rank 3 on host 1")] {
                    let said = fails(case, &["signal 9", rank]);
                    let line = said.lines().find(|line| line.contains(" died in phase ")).unwrap_or_default();
                    assert!(line.starts_with(rank) && line.contains(", pid "), "{said}");
                    let place = " died in phase `lookup`: last started barrier #0 of 4 ranks (`begin`)";
                    assert!(line.ends_with(place), "{said}");
                    // Those that mpirun ends because of that are none of it.
                    assert_eq!(said.matches(" died ").count(), 1, "{said}");
                }
            }),
            ("a_rank_that_aborts", || {
                let place = "died in phase `native code`: last started barrier #0 of 4 ranks (`begin`)";
                fails("aborts", &["rank 2 on host 1 (", place, "signal 6"]);
            }),
            ("another_collective", || {
                let call = "rank 1 called all_reduce of f32 (`gradients`) in phase `backward`";
                fails("collective", &[call, "called all_to_all of f32 (`pooled`) in phase `forward`"]);
            }),
            ("another_type", || {
                let call = "rank 3 called all_to_all of u32 (`ids`) in phase `ids`";
                fails("type", &[call, "all_to_all of f32 (`pooled`)"]);
            }),
            ("another_size", || {
                fails("longer", &["disagree on their collective #1", "sending 20 bytes"]);
            }),
            ("another_size_by_far", || {
                fails("much_longer", &["disagree on their collective #1", "sending 4400000 bytes"]);
            }),
            ("another_root", || {
                fails("root", &["disagree on their collective #1"]);
            }),
            ("arguments_that_do_not_fit", || {
                fails(
                    "arguments",
                    &[
                        "rank 0: invalid arguments of all_to_all (`pooled`): elements to send: expected 4, got 3",
                    ],
                );
            }),
            ("a_rank_that_leaves", || {
                let need = "need it in all_to_all #1 (`pooled`)";
                fails("left", &["rank 1 on host 0 finished in phase `last`, but ranks", need]);
            }),
            ("another_world_size", || {
                fails("world", &["MPI started 3 processes, but 2 × 2 has 4 ranks"]);
            }),
            ("other_hosts", || {
                fails("hosts", &["shares a host with the ranks [0, 1, 2, 3], but on 2 × 2 these are"]);
            }),
            ("another_configuration", || {
                fails(
                    "identity",
                    &["rank 2 was started with something else", "rank 0: batch 256", "here:   batch 512"],
                );
            }),
        ],
    )
}
