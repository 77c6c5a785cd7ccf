//! What ends one rank ends all, soon, with a message that says who and where.

use collectives::{
    Activity, CollectiveError, Communicator, ExternalError, Failure, Label, Lossy, Options, launch,
};
use kernels::{Buffer, Device, KernelError};
use spec::codec::{Codec, Compensation};
use spec::program::{Algorithm, Units};
use spec::topology::Topology;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// Far below the 60 seconds that ranks wait for each other, and far above what a loaded machine needs to
/// print the backtrace of a panic.
const SOON: Duration = Duration::from_secs(15);

/// Runs 2 × 2 ranks, which must fail, all of them, soon.
fn fails_within(limit: Duration, body: impl Fn(&Communicator) -> Outcome + Sync) -> Failure {
    let ended = AtomicUsize::new(0);
    struct Count<'a>(&'a AtomicUsize);
    impl Drop for Count<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let start = Instant::now();
    let topology = Topology::new(2, 2).unwrap();
    let outcome = launch(
        topology,
        &Options { wait_limit: limit },
        |_| Ok(Device::Reference),
        |world| {
            let _count = Count(&ended);
            body(&world)
        },
    );
    let failure = outcome.expect_err("this run cannot succeed");
    assert!(start.elapsed() < SOON, "ended only after {:?}", start.elapsed());
    assert_eq!(ended.load(Ordering::SeqCst), 4, "all ranks have ended");
    println!("{failure}\n");
    assert_eq!(failure.ranks.len(), 4);
    failure
}

fn fails(body: impl Fn(&Communicator) -> Outcome + Sync) -> Failure {
    fails_within(Duration::from_secs(60), body)
}

fn says(failure: &Failure, parts: &[&str]) {
    let text = failure.to_string();
    parts.iter().for_each(|part| assert!(text.contains(part), "`{part}` is not in: {text}"));
}

/// Time for the other ranks to be where the test wants them.
fn meanwhile() {
    sleep(Duration::from_millis(100));
}

/// Waits in a collective that cannot complete; it must say that the run has ended.
fn stuck(world: &Communicator) -> Outcome {
    let label = Label::from("pooled");
    world.enter(&Label::from("forward"));
    let counts = vec![1; world.size()];
    let send = Buffer::from_slice(world.device(), &vec![1.0f32; world.size()])?;
    let error = world.all_to_all(&label, send, &counts, Buffer::new(world.device()), &counts).unwrap_err();
    Err(error.into())
}

#[test]
fn a_rank_that_panics() {
    let failure = fails(|world| {
        world.barrier(&Label::from("begin"))?;
        if world.rank() == 2 {
            world.enter(&Label::from("lookup"));
            meanwhile();
            panic!("row {} is past the end", 7);
        }
        stuck(world)
    });
    assert!(matches!(failure.cause, CollectiveError::Panicked { rank: 2, host: 1, .. }), "{failure}");
    says(
        &failure,
        &[
            "rank 2 on host 1 panicked in phase `lookup`: row 7 is past the end",
            "rank 0 on host 0, phase `forward`: waiting for",
            "in all_to_all #1 of 4 ranks (`pooled`)",
            "rank 2 on host 1, phase `lookup`: failed; last started barrier #0 of 4 ranks (`begin`)",
        ],
    );
}

#[test]
fn a_rank_that_fails() {
    let failure = fails(|world| {
        if world.rank() == 3 {
            world.enter(&Label::from("reading"));
            meanwhile();
            return Err(std::io::Error::other("disk is gone").into());
        }
        stuck(world)
    });
    assert!(matches!(failure.cause, CollectiveError::Failed { rank: 3, .. }), "{failure}");
    says(&failure, &["rank 3 on host 1 failed in phase `reading`: disk is gone"]);
    assert!(failure.ranks[..3].iter().all(|rank| matches!(rank.activity, Activity::Waiting(_))));
}

/// A reason outside of this program is one line: nobody need know where the others were.
#[test]
fn a_rank_that_gives_up() {
    let failure = fails(|world| {
        if world.rank() == 3 {
            world.enter(&Label::from("reading"));
            meanwhile();
            return Err(ExternalError(std::io::Error::other("disk is gone").into()).into());
        }
        stuck(world)
    });
    assert!(matches!(failure.cause, CollectiveError::GaveUp { rank: 3, .. }), "{failure}");
    assert_eq!(failure.to_string(), "disk is gone (rank 3 on host 1, phase `reading`)");
    assert_eq!(failure.ranks.len(), 4);
}

#[test]
fn a_rank_without_a_device() {
    let start = Instant::now();
    let devices = |rank| match rank {
        1 => Err(KernelError::Device("no such card".into())),
        _ => Ok(Device::Reference),
    };
    let outcome = launch(Topology::new(1, 3).unwrap(), &Options::default(), devices, |world| stuck(&world));
    says(&outcome.unwrap_err(), &["rank 1 on host 0 failed in phase `launch`: device: no such card"]);
    assert!(start.elapsed() < SOON, "ended only after {:?}", start.elapsed());
}

#[test]
fn a_rank_that_is_late() {
    let failure = fails_within(Duration::from_millis(200), |world| {
        if world.rank() == 1 {
            world.enter(&Label::from("a long computation"));
            sleep(Duration::from_millis(500));
        }
        stuck(world)
    });
    let CollectiveError::WaitLimit { missing, sequence: 0, .. } = &failure.cause else {
        panic!("{failure}");
    };
    assert_eq!(missing, &[1]);
    says(
        &failure,
        &[
            "waited 200.0ms, the limit, in all_to_all #0 (`pooled`)",
            "rank 1 on host 0, phase `a long computation`: computing",
        ],
    );
}

#[test]
fn a_rank_that_computes_is_told_at_its_next_call() {
    let failure = fails(|world| {
        if world.rank() == 0 {
            return Err("early".into());
        }
        meanwhile();
        world.enter(&Label::from("later"));
        let error = world.start_barrier(&Label::from("b")).unwrap_err();
        assert!(matches!(&error, CollectiveError::Ended(failure) if failure.to_string().contains("early")));
        let alone = world.start_all_reduce(&Label::from("g"), Buffer::new(world.device()));
        assert!(matches!(alone, Err(CollectiveError::Ended(_))));
        Err(error.into())
    });
    says(&failure, &["rank 0 on host 0 failed in phase `launch`: early"]);
}

#[test]
fn another_collective() {
    let failure = fails(|world| {
        if world.rank() == 1 {
            world.enter(&Label::from("backward"));
            let gradients = Buffer::zeroed(world.device(), 4)?;
            world.all_reduce(&Label::from("gradients"), gradients)?;
            unreachable!("that cannot work");
        }
        stuck(world)
    });
    assert!(matches!(failure.cause, CollectiveError::Mismatch { sequence: 0, .. }), "{failure}");
    says(
        &failure,
        &[
            "rank 1 called all_reduce of f32 (`gradients`) in phase `backward`",
            "called all_to_all of f32 (`pooled`) in phase `forward`",
            "sending 4 bytes",
        ],
    );
}

#[test]
fn another_size() {
    let failure = fails(|world| {
        if world.rank() != 1 {
            return stuck(world);
        }
        meanwhile();
        world.enter(&Label::from("forward"));
        // Five elements for rank 2, which expects one.
        let counts = [1, 1, 5, 1];
        let send = Buffer::<f32>::zeroed(world.device(), 8)?;
        world.all_to_all(&Label::from("pooled"), send, &counts, Buffer::new(world.device()), &[1; 4])?;
        unreachable!("that cannot work");
    });
    let CollectiveError::Mismatch { first, second, .. } = &failure.cause else { panic!("{failure}") };
    assert_eq!((first.rank, first.sends, first.expects), (2, 4, 4));
    assert_eq!((second.rank, second.sends, second.expects), (1, 20, 4));
    says(&failure, &["rank 1 called all_to_all", "sending 20 bytes", "rank 2 called", "in phase `forward`"]);
}

#[test]
fn a_value_that_is_not_finite() {
    let failure = fails(|world| {
        world.enter(&Label::from("reduce bucket 0"));
        let mut gradient = vec![1.0; 300];
        gradient[200] = if world.rank() == 2 { f32::NAN } else { 2.0 };
        let units = Units::of_tensors(Codec::U4, 300, std::slice::from_ref(&(0..300)));
        let prepared = world.prepare_all_reduce(units, Algorithm::Ring, Compensation::None);
        let gradient = Buffer::from_slice(world.device(), &gradient)?;
        let (label, lossy) = (Label::from("gradients"), Lossy::none(world.device()));
        world.start_all_reduce_by(&label, &Arc::new(prepared), gradient, lossy)?.wait()?;
        Ok(())
    });
    says(&failure, &["rank 2", "`reduce bucket 0`", "value 200 is NaN"]);
}

#[test]
fn another_type() {
    let failure = fails(|world| {
        if world.rank() != 3 {
            return stuck(world);
        }
        meanwhile();
        world.enter(&Label::from("ids"));
        let send = Buffer::<u32>::zeroed(world.device(), 4)?;
        world.all_to_all(&Label::from("ids"), send, &[1; 4], Buffer::new(world.device()), &[1; 4])?;
        unreachable!("that cannot work");
    });
    says(
        &failure,
        &["rank 3 called all_to_all of u32 (`ids`) in phase `ids`", "all_to_all of f32 (`pooled`)"],
    );
}

#[test]
fn another_length_or_root() {
    let failure = fails(|world| {
        let gradients = Buffer::zeroed(world.device(), 8 + usize::from(world.rank() == 2))?;
        world.all_reduce(&Label::from("gradients"), gradients)?;
        Ok(())
    });
    assert!(matches!(failure.cause, CollectiveError::Mismatch { .. }), "{failure}");
    let failure = fails(|world| {
        let values = Buffer::<u8>::zeroed(world.device(), 3)?;
        world.broadcast(&Label::from("weights"), usize::from(world.rank() == 2), values)?;
        Ok(())
    });
    assert!(matches!(failure.cause, CollectiveError::Mismatch { .. }), "{failure}");
}

#[test]
fn another_label_is_fine() {
    let topology = Topology::new(2, 2).unwrap();
    let outcome = launch(
        topology,
        &Options::default(),
        |_| Ok(Device::Reference),
        |world| world.barrier(&Label::from(format!("label of rank {}", world.rank()))),
    );
    outcome.unwrap();
}

#[test]
fn arguments_that_do_not_fit() {
    let failure = fails(|world| {
        if world.rank() != 0 {
            return stuck(world);
        }
        let send = Buffer::<f32>::zeroed(world.device(), 3)?;
        let error =
            world.all_to_all(&Label::from("pooled"), send, &[1; 4], Buffer::new(world.device()), &[1; 4]);
        assert!(matches!(error, Err(CollectiveError::Arguments { expected: 4, got: 3, .. })), "{error:?}");
        // Even a rank that does not care about the error ends the others.
        Ok(())
    });
    says(
        &failure,
        &["rank 0: invalid arguments of all_to_all (`pooled`): elements to send: expected 4, got 3"],
    );
    let failure = fails(|world| {
        let send = Buffer::<f32>::zeroed(world.device(), 3)?;
        world.all_gather(&Label::from("weights"), send, &[1; 3], Buffer::new(world.device()))?;
        Ok(())
    });
    says(&failure, &["all_gather (`weights`): counts: expected 4, got 3"]);
}

#[test]
fn a_rank_that_leaves_before_the_others_wait() {
    let failure = fails(|world| {
        world.enter(&Label::from("last"));
        if world.rank() == 1 {
            return Ok(());
        }
        meanwhile();
        stuck(world)
    });
    assert!(matches!(failure.cause, CollectiveError::LeftEarly { rank: 1, .. }), "{failure}");
    says(&failure, &["rank 1 on host 0 finished in phase `last`", "need it in all_to_all #0 (`pooled`)"]);
}

#[test]
fn a_rank_that_leaves_while_the_others_wait() {
    let failure = fails(|world| {
        let host = world.split(&Label::from("set-up"), world.rank() / 2, 0)?;
        world.enter(&Label::from("last"));
        match world.rank() {
            0 => stuck(&host),
            1 => {
                meanwhile();
                Ok(())
            }
            _ => Ok(()),
        }
    });
    let CollectiveError::LeftEarly { rank: 1, waiting, .. } = &failure.cause else { panic!("{failure}") };
    assert_eq!(waiting, &[0]);
    assert_eq!(failure.ranks[1].activity, Activity::Finished);
    says(&failure, &["rank 1 on host 0 finished in phase `last`, but ranks [0] need it in all_to_all #0"]);
}

/// Ranks of a device that computes nothing exchange what exists, also with ranks that compute; a buffer without contents ends
/// the run.
#[test]
fn a_buffer_without_contents() {
    let run = |idle_space: &(dyn Fn(&Device) -> kernels::Space + Sync)| {
        let devices = |rank| Ok(if rank == 0 { Device::Reference } else { Device::Idle });
        launch(Topology::new(1, 2).unwrap(), &Options::default(), devices, |world| {
            let send = Buffer::from_slice(idle_space(world.device()), &[world.rank() as u32 + 7; 2])?;
            let label = Label::from("ids");
            let recv = Buffer::new(world.device().for_exchange());
            let (_, recv) = world.all_to_all(&label, send, &[1; 2], recv, &[1; 2])?;
            Ok::<_, CollectiveError>(recv.to_vec()?)
        })
    };
    assert_eq!(run(&Device::for_exchange).unwrap(), [[7, 8], [7, 8]]);
    let failure = run(&|device| kernels::Space::from(device)).unwrap_err();
    says(&failure, &["all_to_all: the buffer has no contents, since its device computes nothing"]);
}
