//! NCCL by itself: one rank on the GPU that CAMPANILE_TEST_DEVICE names, which sends to itself. Skipped, with a word, where there
//! is no GPU or no NCCL.
#![allow(clippy::single_range_in_vec_init, reason = "a range for each rank, of which there is one")]

use crate::gpu;
use kernels::{Buffer, Bytes, Device, KernelError, Nccl, NcclCommunicator};

/// A communicator of one rank, and its device.
fn alone() -> Option<(Device, NcclCommunicator)> {
    let (device, nccl) = match (gpu::device(), Nccl::load()) {
        (Some(device), Ok(nccl)) => (device, nccl),
        (None, _) => {
            println!("SKIPPED: CAMPANILE_TEST_DEVICE names no GPU");
            return None;
        }
        (_, Err(error)) => {
            println!("SKIPPED: {error}");
            return None;
        }
    };
    let id = nccl.new_id().unwrap();
    let communicator = nccl.join(&device, &id, 1, 0).unwrap();
    Some((device, communicator))
}

fn bytes(device: &Device, values: &[u8]) -> Bytes {
    Buffer::from_slice(device.for_exchange(), values).unwrap().into_bytes()
}

#[test]
fn any_bytes_on_any_queue() {
    let Some((device, communicator)) = alone() else { return };
    let sent: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    for (number, (at, len, to)) in [(0, 100_000, 0), (5, 1, 99_999), (17, 33_333, 3)].into_iter().enumerate()
    {
        let queue = device.on(number);
        let send = bytes(&device, &sent);
        let mut recv = bytes(&device, &vec![255; 100_000]);
        let (out, back) = ([at..at + len], [to..to + len]);
        communicator.exchange(&queue, &send, out.iter().cloned(), &mut recv, back.iter().cloned()).unwrap();
        queue.synchronise().unwrap();
        let got = recv.into_buffer::<u8>().to_vec().unwrap();
        assert_eq!(got[to..to + len], sent[at..at + len]);
        assert!(got[..to].iter().chain(&got[to + len..]).all(|&byte| byte == 255));
    }
    communicator.check().unwrap();
    communicator.close().unwrap();
}

#[test]
fn sums_of_one_rank() {
    let Some((device, communicator)) = alone() else { return };
    let values: Vec<f32> = (0..1001).map(|i| i as f32 / 7.0).collect();
    let mut vector = Buffer::from_slice(device.for_exchange(), &values).unwrap().into_bytes();
    communicator.all_reduce(&device, &mut vector, values.len()).unwrap();
    communicator.all_reduce(&device, &mut vector, 0).unwrap();
    device.synchronise().unwrap();
    assert_eq!(vector.into_buffer::<f32>().to_vec().unwrap(), values);
    communicator.close().unwrap();
}

#[test]
fn what_does_not_fit_is_refused_and_what_was_aborted_is_gone() {
    let Some((device, communicator)) = alone() else { return };
    let (send, mut recv) = (bytes(&device, &[1; 10]), bytes(&device, &[0; 10]));
    let mut exchange = |to: &[std::ops::Range<usize>], from: &[std::ops::Range<usize>]| {
        communicator.exchange(&device, &send, to.iter().cloned(), &mut recv, from.iter().cloned())
    };
    assert!(matches!(exchange(&[0..11], &[0..10]), Err(KernelError::PastEnd { .. })));
    assert!(matches!(exchange(&[0..1, 1..2], &[0..1]), Err(KernelError::Mismatch { .. })));
    exchange(&[3..3], &[5..5]).unwrap();
    let host = Buffer::from_slice(&Device::Reference, &[1u8; 10]).unwrap().into_bytes();
    let mut on_card = bytes(&device, &[0; 10]);
    let whole = || [0..10].into_iter();
    let refused = communicator.exchange(&device, &host, whole(), &mut on_card, whole());
    assert!(matches!(refused, Err(KernelError::OtherDevice { operand: "send", .. })));
    let mut vector = bytes(&device, &[0; 10]);
    let refused = communicator.all_reduce(&device, &mut vector, 3);
    assert!(matches!(refused, Err(KernelError::PastEnd { .. })));
    communicator.abort();
    communicator.abort();
    communicator.check().unwrap();
    let refused = communicator.all_reduce(&device, &mut vector, 1).unwrap_err();
    assert_eq!(refused.to_string(), "device: NCCL's communicator was aborted");
}

/// Refusals do not depend on the machine: without CUDA, NCCL has nothing to join.
#[test]
fn host_devices_are_refused() {
    let Ok(nccl) = Nccl::load() else {
        println!("SKIPPED: NCCL is not installed");
        return;
    };
    let Ok(id) = nccl.new_id() else { return };
    let refused = nccl.join(&Device::Reference, &id, 1, 0).map(drop).unwrap_err().to_string();
    assert!(refused.contains("NCCL works between GPUs, not on reference"), "{refused}");
}
