//! A trial of NCCL on one GPU: a rank that sends to itself, by all the code that ranks on several GPUs use.

use crate::transport::in_process::{InProcess, World};
use crate::transport::nccl::{NcclMover, Seat};
use crate::transport::{ExchangeRequest, GroupId, Header, Mover, Span, SumRequest};
use crate::{CollectiveError, Label, Options};
use kernels::{Buffer, Device, Nccl};
use spec::topology::Topology;
use std::sync::Arc;

type Result<T = ()> = std::result::Result<T, CollectiveError>;

/// Sends memory of the GPU of `device` to itself by NCCL, and lets NCCL add what one rank has, on every queue of the device. Fails
/// where NCCL is missing or something else arrives than was sent. NCCL allows one rank on a GPU, so this is all that a machine with
/// one GPU can show of `--transport nccl` by itself.
pub fn try_nccl(device: &Device) -> Result {
    let topology = Topology::new(1, 1).expect("one rank is a cluster");
    let world = Arc::new(InProcess::new(Arc::new(World::new(topology)), 0, Options::default().wait_limit));
    let seat = Seat { rank: 0, ranks: 1, wait_limit: Options::default().wait_limit };
    let mover = NcclMover::new(world.clone(), world.clone(), Arc::new(Nccl::load()?), seat);
    // Offsets and lengths as codecs make them: of bytes, not of words. The last is empty.
    for (number, (at, len, to)) in
        [(0, 4096, 0), (3, 1001, 7), (1, 1 << 20, 5), (64, 0, 0)].into_iter().enumerate()
    {
        let queue = device.on(number % 4);
        let sent: Vec<u8> = (0..at + len).map(|i| (i * 7 + number) as u8).collect();
        let send = Buffer::from_slice(device.for_exchange(), &sent)?.into_bytes();
        let recv = Buffer::<u8>::zeroed(device.for_exchange(), to + len)?.into_bytes();
        let ticket = mover.start(ExchangeRequest {
            device: &queue,
            group: GroupId::WORLD,
            me: 0,
            sequence: number as u64,
            header: header("exchange", "u8"),
            send,
            to: &[Span { at, len }],
            recv,
            from: &[Span { at: to, len }],
        })?;
        let exchanged = mover.test(ticket)?.ok_or_else(|| wrong("exchanges that are queued", 1, 0))?;
        queue.check()?;
        let got = exchanged.recv.into_buffer::<u8>().to_vec()?;
        if got[to..] != sent[at..] || got[..to].iter().any(|&byte| byte != 0) {
            return Err(wrong("bytes that arrive as they were sent", len, 0));
        }
        let floats: Vec<f32> = (0..1001).map(|i| i as f32 / 3.0 - 100.0).collect();
        let mut vector = Buffer::from_slice(device.for_exchange(), &floats)?.into_bytes();
        let summed = mover.sum(SumRequest {
            device: &queue,
            group: GroupId::WORLD,
            me: 0,
            size: 1,
            sequence: 100 + number as u64,
            header: header("all_reduce", "f32"),
            vector: &mut vector,
            floats: floats.len(),
        });
        summed.unwrap_or_else(|| Err(wrong("vectors on a GPU that NCCL adds", 1, 0)))?;
        queue.check()?;
        if vector.into_buffer::<f32>().to_vec()? != floats {
            return Err(wrong("floats that one rank adds up to what they are", floats.len(), 0));
        }
    }
    mover.settle()
}

fn header(operation: &'static str, element: &'static str) -> Header {
    Header { operation, element, label: Label::from("trial of NCCL") }
}

fn wrong(what: &'static str, expected: usize, got: usize) -> CollectiveError {
    let label = Label::from("trial of NCCL");
    CollectiveError::Arguments { rank: 0, operation: "try_nccl", label, what, expected, got }
}
