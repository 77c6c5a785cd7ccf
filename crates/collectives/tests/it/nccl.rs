//! NCCL under the suite that all transports share, with one rank on one GPU: NCCL refuses two ranks on one card. That ranks queue
//! their operations in one order, and are freed when one fails, is shown with a stand-in beside the code. Several GPUs were not
//! tried.

use crate::{gpu, suite};
use collectives::{CollectiveError, Label, Options, launch_over_nccl, try_nccl};
use kernels::{Buffer, Device, KernelError, Nccl};
use spec::topology::Topology;
use std::time::Duration;

/// Device of a rank on the GPU that the environment variable CAMPANILE_TEST_DEVICE names; `None`, with a word, where it names none
/// or there is no NCCL. CAMPANILE_NO_SKIPS=nccl makes a failure of that.
fn device() -> Option<impl Fn(usize) -> Result<Device, KernelError> + Sync> {
    let missing = match (gpu::is_there(), Nccl::load()) {
        (false, _) => "CAMPANILE_TEST_DEVICE names no GPU".to_owned(),
        (true, Err(error)) => error.to_string(),
        (true, Ok(_)) => return Some(|_| gpu::of_a_rank().expect("a GPU is there")),
    };
    let demanded = std::env::var("CAMPANILE_NO_SKIPS").unwrap_or_default();
    assert!(!demanded.split(' ').any(|name| name == "nccl"), "CAMPANILE_NO_SKIPS names nccl, but {missing}");
    println!("SKIPPED: {missing}, so nothing was tested here");
    None
}

fn alone(case: suite::Case) {
    let Some(device) = device() else { return };
    let options = Options { wait_limit: Duration::from_secs(20) };
    let body = |world: collectives::Communicator| -> suite::Outcome {
        let device = world.device().clone();
        case(world)?;
        Ok(device.check()?)
    };
    launch_over_nccl(Topology::new(1, 1).unwrap(), &options, device, body).unwrap();
}

macro_rules! cases {
    ($($name:ident),* $(,)?) => { $(#[test] fn $name() { alone(suite::$name); })* };
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
    alone(|world| suite::stress(world, 500));
}

/// Among one rank nothing is sent; here the rank sends to itself, by NCCL.
#[test]
fn a_rank_sends_to_itself() {
    let Some(device) = device() else { return };
    try_nccl(&device(0).unwrap()).unwrap();
}

/// Two ranks on one card are refused with a sentence, and not by a hang.
#[test]
fn two_ranks_on_one_card_are_refused() {
    let Some(device) = device() else { return };
    let refused = launch_over_nccl(
        Topology::new(1, 2).unwrap(),
        &Options { wait_limit: Duration::from_secs(20) },
        device,
        |world| {
            let mine = Buffer::from_slice(world.device(), &[1.0])?;
            world.all_reduce(&Label::from("gradients"), mine).map(drop)
        },
    );
    let text = refused.expect_err("one card").to_string();
    assert!(text.contains("ranks 0 and 1 both use GPU"), "{text}");
}

/// Host memory has nothing that NCCL could move: the transport below it does.
#[test]
fn ranks_without_gpus_never_get_to_nccl() {
    let run = launch_over_nccl(
        Topology::new(2, 2).unwrap(),
        &Options { wait_limit: Duration::from_secs(20) },
        |_| Ok(Device::Reference),
        |world| -> Result<(), CollectiveError> { suite::all_to_all(world) },
    );
    match Nccl::load() {
        Ok(_) => run.map(drop).unwrap(),
        Err(missing) => assert_eq!(run.unwrap_err().cause.to_string(), missing.to_string()),
    }
}
