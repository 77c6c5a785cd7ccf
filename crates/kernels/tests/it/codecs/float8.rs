//! 8-bit floats against the values that torch gives to all codes, and against the definition of rounding.

use super::support::*;
use ground::codec::Codec;
use kernels::Round;

/// Values of all codes, as torch decodes them.
fn table(codec: Codec) -> Vec<f64> {
    let column = if codec == Codec::Fp8E4m3 { 1 } else { 2 };
    let lines = include_str!("../../golden/float8.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split(' ').nth(column).unwrap().parse().unwrap()).collect()
}

fn most(codec: Codec) -> u8 {
    if codec == Codec::Fp8E4m3 { 0x7e } else { 0x7b }
}

const CODECS: [Codec; 2] = [Codec::Fp8E4m3, Codec::Fp8E5m2];

#[test]
fn all_codes_are_decoded_as_torch_does() {
    for codec in CODECS {
        let expected = table(codec);
        assert_eq!(expected.len(), 256);
        for device in devices() {
            for scale in [1f32, -0.75] {
                let bytes: Vec<u8> = scale.to_ne_bytes().into_iter().chain(0..=255).collect();
                for (value, expected) in decoded(&device, codec, 256, &bytes).iter().zip(&expected) {
                    let expected = scale * *expected as f32;
                    let same = value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan();
                    assert!(same, "{codec}: {value}, not {expected}");
                }
            }
        }
    }
}

/// Every value that has a code, every middle between two and its neighbours, below the middle of the smallest too: the nearest
/// code wins, of two the even one.
#[test]
fn values_are_rounded_to_the_nearest_code() {
    for codec in CODECS {
        let (all, most) = (table(codec), most(codec));
        let mut values: Vec<f32> = (0..=most).map(|code| all[usize::from(code)] as f32).collect();
        for pair in all[..=usize::from(most)].windows(2) {
            let middle = ((pair[0] + pair[1]) / 2.0) as f32;
            values.extend([
                middle.next_down(),
                middle,
                middle.next_up(),
                pair[0] as f32 * 0.3 + pair[1] as f32 * 0.7,
            ]);
        }
        values.extend([1e-30, f32::from_bits(1), 0.0]);
        values.extend(values.clone().iter().map(|value| -value));
        let nearest = |value: f32| {
            let distance = |code: u8| (all[usize::from(code)] - f64::from(value.abs())).abs();
            // Of two that are as near, an even code comes first.
            let best =
                (0..=most).min_by(|&a, &b| (distance(a), a % 2).partial_cmp(&(distance(b), b % 2)).unwrap());
            best.unwrap() | if value.is_sign_negative() { 0x80 } else { 0 }
        };
        let expected: Vec<u8> = values.iter().map(|&value| nearest(value)).collect();
        for device in devices() {
            // The largest value is that of the format, so that the scale is 1.
            let bytes = encoded(&device, codec, Round::Nearest, &values).unwrap();
            assert_eq!(bytes[..4], 1f32.to_ne_bytes());
            for ((value, got), expected) in values.iter().zip(&bytes[4..]).zip(&expected) {
                assert_eq!(got, expected, "{codec}: {value}");
            }
        }
    }
}

/// The largest value of a row becomes the largest of the format, whatever its size; all others keep their relative precision.
#[test]
fn the_scale_takes_the_largest_value_to_the_largest_code() {
    for codec in CODECS {
        let precision = if codec == Codec::Fp8E4m3 { 1.0 / 16.0 } else { 1.0 / 8.0 };
        for device in devices() {
            for size in [1e-5f32, 1.0, 3e38, 1e-30, f32::MAX] {
                let values = [0.3, -1.0, 0.77, 0.1, -0.05, 0.0].map(|x| x * size);
                let bytes = encoded(&device, codec, Round::Nearest, &values).unwrap();
                assert_eq!(bytes[5], most(codec) | 0x80, "{codec}");
                for (x, y) in values.iter().zip(decoded(&device, codec, 6, &bytes)) {
                    assert!((x - y).abs() <= 1.001 * precision * x.abs(), "{codec}: {x} became {y}");
                }
            }
            // Zeros, and values that are hardly above them.
            assert_eq!(coded(&device, codec, Round::Nearest, &[0.0, -0.0]), [0.0, 0.0]);
            let least = coded(&device, codec, Round::Nearest, &[f32::from_bits(1), 1e-39]);
            assert!(least.iter().all(|x| (0.0..2e-38).contains(x)), "{least:?}");
        }
    }
}
