//! Formats of the wire: every device against `half`, and `half` against the definition of rounding.

use crate::gpu::{self, on};
use ground::codec::{Codec, Row};
use half::{bf16, f16};
use kernels::{BlockCopy, Buffer, Decode, Device, Encode, KernelError, Round, Rows};
use proptest::prelude::*;

const CODECS: [Codec; 2] = [Codec::F16, Codec::Bf16];

fn devices() -> Vec<Device> {
    let cpus = [1, 3].map(|threads| kernels::Cpu::new(threads).unwrap());
    let portable = Device::Cpu(cpus[1].portable());
    let mut devices = vec![Device::Reference, portable];
    devices.extend(cpus.map(Device::Cpu));
    gpu::and_gpu(devices)
}

fn buffer<T: kernels::Element>(data: &[T]) -> Buffer<T> {
    Buffer::from_slice(&Device::Reference, data).unwrap()
}

fn whole(len: usize) -> BlockCopy {
    BlockCopy { from: 0, to: 0, len }
}

/// Encodes `values[lead..]` to the halves from `at` on.
fn encode(
    device: &Device,
    codec: Codec,
    values: &[f32],
    lead: usize,
    to: &mut Buffer<u8>,
    at: usize,
) -> Result<(), KernelError> {
    let rows = [Row { at: lead, byte: 0, width: values.len() - lead }];
    let (from, rows, round) = (&on(device, &buffer(values)), Rows::once(&rows), Round::Nearest);
    device.encode(Encode { codec, round, rows, from, to, to_at: 2 * at, error: None })
}

fn encoded(device: &Device, codec: Codec, values: &[f32]) -> Vec<u16> {
    let mut to = on(device, &buffer(&vec![0u8; 2 * values.len()]));
    encode(device, codec, values, 0, &mut to, 0).unwrap();
    halves(&to)
}

fn halves(bytes: &Buffer<u8>) -> Vec<u16> {
    bytes.to_vec().unwrap().chunks_exact(2).map(|pair| u16::from_ne_bytes([pair[0], pair[1]])).collect()
}

/// Sum of `blocks` blocks of halves in `out[1..]`, which holds 9 before.
fn summed(device: &Device, codec: Codec, blocks: usize, len: usize, bits: &[u16]) -> Vec<f32> {
    let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_ne_bytes()).collect();
    let mut out = on(device, &buffer(&vec![9f32; len + 2]));
    let rows = [Row { at: 0, byte: 0, width: len }];
    let (rows, from, to, block_bytes) = (Rows::once(&rows), &on(device, &buffer(&bytes)), &mut out, 2 * len);
    device
        .decode(Decode { codec, rows, blocks, block_bytes, from, from_at: 0, to, to_at: 1, add: false })
        .unwrap();
    out.to_vec().unwrap()
}

fn decoded(device: &Device, codec: Codec, bits: &[u16]) -> Vec<f32> {
    summed(device, codec, 1, bits.len(), bits)[1..=bits.len()].to_vec()
}

fn by_half(codec: Codec, value: f32) -> u16 {
    match codec {
        Codec::F16 => f16::from_f32(value).to_bits(),
        _ => bf16::from_f32(value).to_bits(),
    }
}

/// Every value of 16 bits comes back as it was, a NaN as a NaN.
#[test]
fn all_values_survive() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    for device in devices() {
        for codec in CODECS {
            let floats = decoded(&device, codec, &all);
            let again = encoded(&device, codec, &floats);
            for ((&bits, again), float) in all.iter().zip(again).zip(floats) {
                let infinity = if codec == Codec::F16 { 0x7c00 } else { 0x7f80 };
                let nan = bits & 0x7fff > infinity;
                assert_eq!(float.is_nan(), nan, "{bits:04x} of {codec}");
                if nan {
                    assert!(again & 0x7fff > infinity, "{bits:04x} of {codec} became {again:04x}");
                } else {
                    assert_eq!(again, bits, "{codec}");
                }
            }
        }
    }
}

/// Between neighbours the nearer wins, in the middle the even one: the definition, in double precision.
#[test]
fn rounding_is_to_nearest_even() {
    for device in devices() {
        for (codec, infinity) in [(Codec::F16, 0x7c00), (Codec::Bf16, 0x7f80)] {
            let finite: Vec<u16> = (0..infinity).collect();
            let floats = decoded(&device, codec, &finite);
            let middle = |i: usize| ((f64::from(floats[i]) + f64::from(floats[i + 1])) / 2.0) as f32;
            let middles: Vec<f32> = (0..floats.len() - 1).map(middle).collect();
            let (below, above): (Vec<f32>, Vec<f32>) =
                middles.iter().map(|m| (m.next_down(), m.next_up())).unzip();
            let got = [below, middles, above].map(|values| encoded(&device, codec, &values));
            for i in 0..floats.len() - 1 {
                let (low, high) = (finite[i], finite[i + 1]);
                let even = if low % 2 == 0 { low } else { high };
                // The smallest of bf16 have middles that are no singles: they were rounded already.
                if codec == Codec::Bf16
                    || f64::from(middle(i)) * 2.0 == f64::from(floats[i]) + f64::from(floats[i + 1])
                {
                    assert_eq!(
                        [got[0][i], got[1][i], got[2][i]],
                        [low, even, high],
                        "{codec} above {low:04x}"
                    );
                }
            }
        }
        let past = encoded(&device, Codec::F16, &[65519.996, 65520.0, -1e9, f32::MAX, 6e-8, 2.9e-8, -0.0]);
        assert_eq!(past, [0x7bff, 0x7c00, 0xfc00, 0x7c00, 1, 0, 0x8000]);
        assert_eq!(encoded(&device, Codec::Bf16, &[f32::MAX, f32::MIN, -0.0]), [0x7f80, 0xff80, 0x8000]);
    }
}

/// What does not fit is refused, and so are blocks that overlap.
#[test]
fn operands_are_checked() {
    for device in devices() {
        let mut to = on(&device, &buffer(&[7u8; 8]));
        for at in [1, usize::MAX / 2] {
            let refused = encode(&device, Codec::Bf16, &[1.0; 4], 0, &mut to, at);
            assert!(matches!(refused, Err(KernelError::TooShort { .. })));
        }
        let overlapping = [whole(3), BlockCopy { from: 0, to: 2, len: 1 }];
        let [from, mut into] = [[1f32; 4], [0f32; 4]].map(|values| on(&device, &buffer(&values)));
        assert!(device.copy_blocks(&overlapping, &from, &mut into).is_err());
        assert_eq!(to.to_vec().unwrap(), [7; 8]);
    }
}

/// Large enough that several threads share the work.
#[test]
fn many_elements() {
    let values: Vec<f32> = (0..100_000).map(|i| (i as f32 - 5e4) * 1.2345e-3).collect();
    for codec in CODECS {
        let expected: Vec<u16> = values.iter().map(|&value| by_half(codec, value)).collect();
        for device in devices() {
            assert_eq!(encoded(&device, codec, &values), expected);
            assert_eq!(
                decoded(&device, codec, &expected),
                decoded(&Device::Reference, codec, &expected),
                "{codec}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    /// Any bits of a single, as `half` encodes them.
    #[test]
    fn encoding_is_that_of_half(bits in proptest::collection::vec(any::<u32>(), 0..70), lead in 0..5usize) {
        let values: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
        let lead = lead.min(values.len());
        for device in devices() {
            for codec in CODECS {
                let mut to = on(&device, &buffer(&vec![1u8; 2 * values.len() + 6]));
                encode(&device, codec, &values, lead, &mut to, 2).unwrap();
                let mut expected = vec![0x0101; values.len() + 3];
                for (to, &value) in expected[2..].iter_mut().zip(&values[lead..]) {
                    *to = by_half(codec, value);
                }
                prop_assert_eq!(halves(&to), expected);
            }
        }
    }

    #[test]
    fn encoded_blocks_are_summed_in_order(
        values in proptest::collection::vec(-1e3f32..1e3, 0..60),
        count in 0..6usize,
        len in 0..10usize,
    ) {
        prop_assume!(count * len <= values.len());
        for codec in CODECS {
            let bits = encoded(&Device::Reference, codec, &values);
            let floats = decoded(&Device::Reference, codec, &bits);
            let sum = |i| (0..count).map(|block| floats[block * len + i]).reduce(|sum, x| sum + x).unwrap_or(0.0);
            let mut expected = vec![9f32; len + 2];
            expected[1..=len].iter_mut().enumerate().for_each(|(i, expected)| *expected = sum(i));
            for device in devices() {
                prop_assert_eq!(summed(&device, codec, count, len, &bits), expected.clone());
            }
        }
    }

    #[test]
    fn blocks_are_copied(lens in proptest::collection::vec(0..9usize, 0..12), seed in 0..100usize) {
        let total: usize = lens.iter().sum();
        let values: Vec<u16> = (0..total as u16).collect();
        let starts: Vec<usize> = lens.iter().scan(0, |at, len| { *at += len; Some(*at - len) }).collect();
        // The blocks in some other order, one behind the other.
        let mut order: Vec<usize> = (0..lens.len()).collect();
        order.sort_by_key(|&i| (i * 7 + seed) % 13);
        let mut to = 0;
        let mut blocks = Vec::new();
        for &i in &order {
            blocks.push(BlockCopy { from: starts[i], to, len: lens[i] });
            to += lens[i];
        }
        let expected: Vec<u16> = order.iter().flat_map(|&i| values[starts[i]..][..lens[i]].to_vec()).collect();
        for device in devices() {
            let [from, mut out] = [&buffer(&values), &buffer(&vec![0u16; total])].map(|operand| on(&device, operand));
            device.copy_blocks(&blocks, &from, &mut out).unwrap();
            prop_assert_eq!(out.to_vec().unwrap(), expected.clone());
        }
    }
}
