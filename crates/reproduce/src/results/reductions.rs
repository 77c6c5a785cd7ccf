//! Errors of quantised reductions, emulated among many nodes.

use crate::error::{Error, Result};
use collectives::EmulatedAllReduce;
use kernels::{Buffer, Device, KernelError, Round};
use pages::markdown::table;
use spec::codec::{Codec, Compensation};
use spec::program::{Algorithm, Units};
use spec::random::RandomSequence;

/// Floats of a vector.
const LENGTH: usize = 8192;
/// Nodes of a host.
const PER_HOST: usize = 8;
/// All-reduces over which errors are averaged.
const STEPS: usize = 64;

/// Mean errors by the number of nodes.
pub(super) fn errors() -> Result<String> {
    let mut first = None;
    let mut cells = Vec::new();
    for nodes in [8, 16, 32, 64, 128] {
        let of = |algorithm, codec, compensation, steps| {
            error(nodes, algorithm, codec, compensation, steps).map_err(|e| Error::Program(e.into()))
        };
        let ring = of(Algorithm::Ring, Codec::U8, Compensation::None, 1)?;
        let doubling = of(Algorithm::RecursiveDoubling, Codec::U8, Compensation::None, 1)?;
        let (of_ring, of_doubling) = *first.get_or_insert((ring, doubling));
        let carried = |steps| of(Algorithm::Ring, Codec::U4, Compensation::Every, steps);
        let percent = |value: f64| format!("{:.2} %", 100.0 * value);
        cells.push(vec![
            nodes.to_string(),
            percent(ring),
            format!("{:.1}", ring / of_ring),
            percent(doubling),
            format!("{:.1}", doubling / of_doubling),
            percent(carried(1)?),
            percent(carried(STEPS)?),
        ]);
    }
    let head = [
        "nodes",
        "ring, u8",
        "× 8 nodes",
        "recursive doubling, u8",
        "× 8 nodes",
        "ring, u4+ec, 1",
        "ring, u4+ec, 64",
    ];
    let text = table(0, &head, &cells);
    Ok(format!(
        "{text}\nVectors of {LENGTH} numbers between −1 and 1, emulated whenever this page is made.\n"
    ))
}

/// Error of the mean of `steps` all-reduces of the same vectors, relative to the mean size of the sums.
pub(super) fn error(
    nodes: usize,
    algorithm: Algorithm,
    codec: Codec,
    compensation: Compensation,
    steps: usize,
) -> std::result::Result<f64, KernelError> {
    let device = Device::cpu(1)?;
    let units = Units::of_tensors(codec, LENGTH, std::slice::from_ref(&(0..LENGTH)));
    let hosts: Vec<usize> = (0..nodes).map(|node| node / PER_HOST).collect();
    let mut emulated = EmulatedAllReduce::new(&device, algorithm, units, &hosts, compensation)?;
    let numbers = RandomSequence::new(17, "vectors");
    let value = |node: usize, i: usize| numbers.symmetric((node * LENGTH + i) as u64, 1.0);
    let mut sums = vec![0.0f64; LENGTH];
    for _ in 0..steps {
        let vector = |node| (0..LENGTH).map(|i| value(node, i)).collect::<Vec<f32>>();
        let vectors = (0..nodes).map(|node| Buffer::from_slice(&device, &vector(node)));
        let mut vectors = vectors.collect::<std::result::Result<Vec<_>, _>>()?;
        emulated.run(&device, &mut vectors, |_| Round::Nearest)?;
        let got = vectors[0].to_vec()?;
        sums.iter_mut().zip(got).for_each(|(sum, got)| *sum += f64::from(got) / steps as f64);
    }
    let exact = |i: usize| (0..nodes).map(|node| f64::from(value(node, i))).sum::<f64>();
    let (mut lost, mut size) = (0.0, 0.0);
    for (i, sum) in sums.iter().enumerate() {
        lost += (sum - exact(i)).abs();
        size += exact(i).abs();
    }
    Ok(lost / size)
}
