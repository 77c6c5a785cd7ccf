use crate::launch::{conform, launch_over};
use crate::transport::Transport;
use crate::{CollectiveError, Label, Options};
use kernels::{Buffer, Device};
use spec::topology::Topology;

/// Copies on queues, ordered by events. On the host every event is past, so that this shows the way of the memory, not the order.
#[test]
fn device_memory() {
    conform(|transport| {
        transport.use_queues();
        Transport::of(transport)
    });
}

/// A rank that fails while copies are queued ends all others, and no memory is lost or freed twice.
#[test]
fn failure_with_copies_under_way() {
    let failure = launch_over(
        Topology::new(1, 4).unwrap(),
        &Options::default(),
        |_| Ok(Device::Reference),
        |world| {
            let (label, counts) = (Label::from("exchange"), [100; 4]);
            let buffer = || Buffer::<f32>::zeroed(world.device(), 400);
            let first = world.start_all_to_all(&label, buffer()?, &counts, buffer()?, &counts)?;
            if world.rank() == 3 {
                return Err::<(), _>(CollectiveError::Arguments {
                    rank: 3,
                    operation: "lookup",
                    label,
                    what: "rows of the table",
                    expected: 10,
                    got: 11,
                });
            }
            let second = world.start_all_to_all(&label, buffer()?, &counts, buffer()?, &counts)?;
            second.wait()?;
            first.wait()?;
            Ok(())
        },
        |transport| {
            transport.use_queues();
            Transport::of(transport)
        },
    );
    assert!(failure.unwrap_err().to_string().contains("rows of the table"));
}
