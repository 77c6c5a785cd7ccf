//! Every codec on every device, in every bit as the reference.

use super::support::*;
use ground::codec::{Codec, Row};
use kernels::{Decode, Device, Round, Rows};

const WIDTHS: [usize; 20] = [0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 127, 128, 129, 300];

/// Rows of the widths, with gaps, repeated behind each other.
struct Layout {
    rows: Vec<Row>,
    count: usize,
    floats: usize,
    bytes: usize,
}

impl Layout {
    fn new(codec: Codec, widths: &[usize], count: usize) -> Self {
        let (mut at, mut byte) = (3, 5);
        let mut rows = Vec::new();
        for &width in widths {
            rows.push(Row { at, byte, width });
            at += width + width % 3;
            byte += codec.encoded_bytes(1, width as u64) as usize + width % 2;
        }
        Self { rows, count, floats: at - 3, bytes: byte - 5 }
    }

    fn rows(&self) -> Rows<'_> {
        Rows { rows: &self.rows, count: self.count, floats: self.floats, bytes: self.bytes }
    }
}

/// Rows of one width, so many that two threads share them, and rows of all widths.
fn layouts(codec: Codec) -> Vec<Layout> {
    let mut layouts = vec![Layout::new(codec, &WIDTHS, 2), Layout::new(codec, &[], 3)];
    layouts.push(Layout::new(codec, &[16], 2500));
    layouts.push(Layout::new(codec, &[40_000], 1));
    // Without gaps: widths that 6 divides.
    layouts.push(Layout::new(codec, &[12], 3000));
    layouts.push(Layout::new(codec, &[24, 24, 24, 24, 24, 0, 96, 96, 6], 60));
    layouts
}

/// Encodes with errors and without, decodes sums of three blocks: all bits that come out.
fn run(device: &Device, codec: Codec, round: Round, layout: &Layout) -> Vec<Vec<u32>> {
    let rows = layout.rows();
    let mut numbers = Numbers(layout.count as u64);
    let from = numbers.floats(3 + layout.floats * layout.count);
    let errors: Vec<f32> = numbers.floats(from.len()).iter().map(|e| e * 0.01).collect();
    let bytes = 7 + layout.bytes * layout.count;
    let (plain, none) = encode_rows(device, (codec, round), rows, &from, (bytes, 7), None).unwrap();
    assert!(none.is_empty());
    let carried = Some((&errors[..], 3));
    let (with_error, errors) = encode_rows(device, (codec, round), rows, &from, (bytes, 7), carried).unwrap();
    let mut out = vec![errors];
    let blocks = [&plain[..], &with_error, &plain].concat();
    for (count, add) in [(1, false), (3, false), (2, true), (0, false), (0, true)] {
        let mut to = buffer(device, &from);
        let (from, from_at, to_at, block_bytes) = (&buffer(device, &blocks), 7, 3, bytes);
        let to_ = &mut to;
        let args = Decode { codec, rows, blocks: count, block_bytes, from, from_at, to: to_, to_at, add };
        checked(device, device.decode(args)).unwrap();
        out.push(to.to_vec().unwrap());
    }
    let mut out: Vec<_> = out.iter().map(|values| bits(values)).collect();
    out.push([plain, with_error].concat().into_iter().map(u32::from).collect());
    out
}

#[test]
fn every_device_gives_the_bits_of_the_reference() {
    let devices = devices();
    for codec in Codec::ALL {
        for round in [Round::Nearest, Round::Stochastic { key: 7 }] {
            for (l, layout) in layouts(codec).iter().enumerate() {
                let expected = run(&devices[0], codec, round, layout);
                for (d, device) in devices.iter().enumerate().skip(1) {
                    let got = run(device, codec, round, layout);
                    for (o, (got, expected)) in got.iter().zip(&expected).enumerate() {
                        let differs = got.iter().zip(expected).position(|(got, expected)| got != expected);
                        assert_eq!(differs, None, "{codec} {round:?} layout {l} device {d} output {o}");
                    }
                }
            }
        }
    }
}

/// Sums are those of single blocks, decoded and added in order in f32; errors are what encoding loses.
#[test]
fn sums_and_errors_follow_their_formulas() {
    let mut numbers = Numbers(3);
    let blocks: Vec<Vec<f32>> = (0..3).map(|_| numbers.floats(200)).collect();
    let held = numbers.floats(200);
    for codec in Codec::ALL {
        for device in devices() {
            let encode = |values: &[f32]| encoded(&device, codec, Round::Nearest, values).unwrap();
            let bytes: Vec<u8> = blocks.iter().flat_map(|block| encode(block)).collect();
            let mut to = buffer(&device, &held);
            let (from, rows, block_bytes) = (&buffer(&device, &bytes), &row(200), bytes.len() / 3);
            let rows = Rows::once(rows);
            let args = Decode {
                codec,
                rows,
                blocks: 3,
                block_bytes,
                from,
                from_at: 0,
                to: &mut to,
                to_at: 0,
                add: true,
            };
            checked(&device, device.decode(args)).unwrap();
            let mut expected = held.clone();
            for block in &blocks {
                let block = coded(&device, codec, Round::Nearest, block);
                expected.iter_mut().zip(block).for_each(|(sum, value)| *sum += value);
            }
            assert_eq!(bits(&to.to_vec().unwrap()), bits(&expected), "{codec}");

            let z: Vec<f32> = blocks[0].iter().zip(&held).map(|(x, e)| x + e).collect();
            let lost: Vec<f32> =
                z.iter().zip(coded(&device, codec, Round::Nearest, &z)).map(|(z, d)| z - d).collect();
            let how = (codec, Round::Nearest);
            let carried = Some((&held[..], 0));
            let (sent, errors) =
                encode_rows(&device, how, rows, &blocks[0], (block_bytes, 0), carried).unwrap();
            assert_eq!((sent, bits(&errors)), (encode(&z), bits(&lost)), "{codec}");
            assert_eq!(lost.iter().all(|e| *e == 0.0), codec == Codec::F32);
        }
    }
}

/// f32 is the identity, whatever the bits are.
#[test]
fn f32_is_the_identity() {
    let values = [1.0, f32::NAN, -0.0, f32::NEG_INFINITY, f32::from_bits(1), f32::MAX];
    for device in devices() {
        for round in [Round::Nearest, Round::Stochastic { key: 1 }] {
            let bytes = encoded(&device, Codec::F32, round, &values).unwrap();
            assert_eq!(bytes, values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<_>>());
            assert_eq!(bits(&decoded(&device, Codec::F32, 6, &bytes)), bits(&values));
        }
    }
}
