//! Ranks without a trainer: each takes a gradient step on its own samples, and all reduce their gradients.
//!
//! ```text
//! cargo run --release --example ranks_by_hand
//! ```

use collectives::{CollectiveError, Communicator, Label, Options, launch};
use kernels::{Buffer, Device};
use spec::topology::{LinkClass, Topology};
use std::error::Error;

/// Fits y = 3x − 1 by gradient descent on 2 hosts × 2 ranks, which are threads.
pub fn main() -> Result<(), Box<dyn Error>> {
    let topology = Topology::new(2, 2)?;
    let fitted = launch(topology, &Options::default(), |_| Device::cpu(1), |world| fit(&world))?;
    for (rank, ([slope, intercept], bytes)) in fitted.iter().enumerate() {
        println!("rank {rank}: y = {slope:.3}x + {intercept:.3}, {bytes} bytes sent to other hosts");
    }
    assert!(fitted.iter().all(|(line, _)| *line == fitted[0].0), "ranks have the same bits");
    Ok(())
}

/// One rank's part: the line that all ranks find, and the bytes that this rank sent to other hosts.
fn fit(world: &Communicator) -> Result<([f32; 2], u64), CollectiveError> {
    let label = Label::from("gradients");
    let mut line = [0.0_f32, 0.0];
    // Every rank has its own samples.
    let samples: Vec<f32> = (0..8).map(|i| (world.rank() * 8 + i) as f32 / 32.0).collect();
    for _ in 0..2000 {
        let mut gradient = [0.0_f32; 2];
        for &x in &samples {
            let error = line[0] * x + line[1] - (3.0 * x - 1.0);
            gradient[0] += error * x;
            gradient[1] += error;
        }
        let mine = Buffer::from_slice(world.device(), &gradient)?;
        let summed = world.start_all_reduce(&label, mine)?.wait()?.to_vec()?;
        for (weight, gradient) in line.iter_mut().zip(&summed) {
            *weight -= 0.05 * gradient / world.size() as f32;
        }
    }
    let bytes = world.meter().iter().map(|sent| sent.sent(LinkClass::Network)).sum();
    Ok((line, bytes))
}
