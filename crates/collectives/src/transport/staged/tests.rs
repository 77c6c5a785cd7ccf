use super::{Route, Staged};
use crate::launch::{conform, launch_over};
use crate::transport::Transport;
use crate::transport::in_process::InProcess;
use crate::{CollectiveError, Label, Options};
use kernels::{Buffer, Device};
use spec::topology::Topology;
use std::sync::Arc;
use std::time::Duration;

fn staged(transport: &Arc<InProcess>, looks: usize) -> Transport {
    let mover = Staged::new(transport.clone(), transport.clone(), Route::Everything { looks });
    Transport { control: transport.clone(), mover: Arc::new(mover) }
}

#[test]
fn copies_that_are_done_at_once() {
    conform(|transport| staged(transport, 0));
}

/// Exchanges begin only when the rank looks again, and then in another order than they were started in.
#[test]
fn copies_that_take_some_time() {
    conform(|transport| staged(transport, 3));
}

/// A rank that ends without having waited for its exchanges still takes part in them.
#[test]
fn nobody_waits_for_bytes_that_never_leave() {
    let run = launch_over(
        Topology::new(1, 3).unwrap(),
        &Options { wait_limit: Duration::from_secs(20) },
        |_| Ok(Device::Reference),
        |world| {
            let (label, counts) = (Label::from("exchange"), [1; 3]);
            let mine = Buffer::from_slice(world.device(), &[world.rank() as u32; 3])?;
            let exchange =
                world.start_all_to_all(&label, mine, &counts, Buffer::new(world.device()), &counts)?;
            if world.rank() > 0 {
                assert_eq!(exchange.wait()?.1.to_vec()?, [0, 1, 2]);
            }
            Ok::<_, CollectiveError>(())
        },
        |transport| staged(transport, usize::MAX),
    );
    run.unwrap();
}
