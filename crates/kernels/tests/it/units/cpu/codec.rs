use super::avx2;
use ground::codec::{Codec, Row};
use kernels::{Buffer, CarriedError, Decode, Device, Encode, Round, Rows};

/// Other tests run the machine's best level and the portable one; this runs the level between.
#[test]
fn avx2_gives_the_bits_of_the_reference() {
    let Some(fast) = avx2() else { return };
    let widths = [1, 2, 8, 13, 16, 31, 32, 64, 100, 128, 131];
    let floats = |len: usize| -> Vec<f32> {
        (0..len).map(|i| ((i * 7919 % 1000) as f32 / 500.0 - 1.0) * (1 + i % 7) as f32).collect()
    };
    for codec in Codec::ALL {
        let (mut rows, mut at, mut byte) = (Vec::new(), 0, 0);
        for &width in widths.iter().cycle().take(800) {
            rows.push(Row { at, byte, width });
            (at, byte) = (at + width, byte + codec.encoded_bytes(1, width as u64) as usize);
        }
        let from = Buffer::from_slice(&fast, &floats(at)).unwrap();
        let run = |device: &Device, round: Round| {
            let mut to = Buffer::<u8>::zeroed(device, byte).unwrap();
            let mut errors = Buffer::from_slice(device, &vec![1e-3f32; at]).unwrap();
            let (error, rows) = (CarriedError { buffer: &mut errors, at: 0 }, Rows::once(&rows));
            let args = Encode { codec, round, rows, from: &from, to: &mut to, to_at: 0, error: Some(error) };
            device.encode(args).unwrap();
            let mut sums = Buffer::from_slice(device, &floats(at)).unwrap();
            let (blocks, block_bytes, from, to_at) = (2, 0, &to, 0);
            let sum = &mut sums;
            device
                .decode(Decode {
                    codec,
                    rows,
                    blocks,
                    block_bytes,
                    from,
                    from_at: 0,
                    to: sum,
                    to_at,
                    add: true,
                })
                .unwrap();
            let floats = [errors, sums].map(|buffer| buffer.to_vec().unwrap()).concat();
            (to.to_vec().unwrap(), floats.into_iter().map(f32::to_bits).collect::<Vec<_>>())
        };
        for round in [Round::Nearest, Round::Stochastic { key: 3 }] {
            assert!(run(&fast, round) == run(&Device::Reference, round), "{codec} {round:?}");
        }
    }
}
