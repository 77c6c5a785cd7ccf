//! Unsigned integers: how far a decoded value may be from what was encoded.

use super::support::*;
use ground::codec::Codec;
use kernels::Round;
use proptest::prelude::*;

const CODECS: [Codec; 3] = [Codec::U8, Codec::U4, Codec::U2];

/// Widths around those of vectors and registers.
fn width() -> impl Strategy<Value = usize> {
    prop_oneof![1..70usize, prop::sample::select(vec![8, 16, 32, 64, 127, 128, 129, 200])]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    /// |x − decode(encode(x))| ≤ scale/2 (nearest) or scale (at random), plus a few units in the last place of the minimum and
    /// the range; offsets much larger than the range, subnormal values and ranges beyond the largest float included.
    #[test]
    fn decoded_values_are_within_half_a_scale(
        width in width(),
        seed in any::<u64>(),
        range in -149..=127i32,
        offset in prop_oneof![Just(f32::MIN_POSITIVE), Just(0.0), any::<f32>().prop_filter("finite", |x| x.is_finite())],
        near in prop::bool::ANY,
    ) {
        let mut numbers = Numbers(seed);
        let size = 2f64.powi(range) * 1.999;
        // An offset of any size, or one that is some powers of two above the range.
        let offset = if near { size * f64::from((seed % 30) as f32).exp2() } else { f64::from(offset) };
        let limit = f64::from(f32::MAX);
        let values: Vec<f32> =
            (0..width).map(|_| (f64::from(numbers.float()) * size + offset).clamp(-limit, limit) as f32).collect();
        let low = values.iter().copied().fold(f32::INFINITY, f32::min);
        let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for device in devices() {
            for codec in CODECS {
                for (round, steps) in [(Round::Nearest, 0.5), (Round::Stochastic { key: seed }, 1.0)] {
                    let bytes = encoded(&device, codec, round, &values).unwrap();
                    let scale = f64::from(f32::from_ne_bytes(bytes[..4].try_into().unwrap()));
                    let minimum = f32::from_ne_bytes(bytes[4..8].try_into().unwrap());
                    prop_assert!(minimum == low, "{} is not {}", minimum, low);
                    let last = 2f64.powi(-21) * (f64::from(low).abs() + f64::from(high) - f64::from(low)) + 2f64.powi(-149);
                    for (x, y) in values.iter().zip(decoded(&device, codec, width, &bytes)) {
                        let error = (f64::from(*x) - f64::from(y)).abs();
                        prop_assert!(error <= steps * scale + last, "{codec} {round:?}: {x} became {y}, scale {scale}");
                        prop_assert!(low != high || *x == y);
                    }
                    // The scale is that of the range, unless the range is hardly a normal number.
                    let levels = f64::from((1u32 << codec.bits()) - 1);
                    let expected = (f64::from(high) - f64::from(low)) / levels;
                    let close = (scale - expected).abs() <= expected * 2f64.powi(-21);
                    prop_assert!(close || low < high && scale == 2f64.powi(-120) && expected < scale);
                }
            }
        }
    }
}

/// The whole range of f32, and each of its ends beside something smaller.
#[test]
fn the_largest_floats_stay_finite() {
    let (most, least) = (f32::MAX, f32::MIN);
    let rows = [
        [least, most, 0.0],
        [most, most / 3.0, 0.0],
        [least / 3.0, most, 1.0],
        [least, 7.0, least.next_up()],
    ];
    for device in devices() {
        for (codec, values) in CODECS.into_iter().flat_map(|codec| rows.map(|row| (codec, row))) {
            let got = coded(&device, codec, Round::Nearest, &values);
            assert!(got.iter().all(|x| x.is_finite()), "{codec}: {values:?} became {got:?}");
            let range = values.iter().fold(0.0, |range, &x| f64::max(range, f64::from(x).abs() * 2.0));
            let step = range / f64::from((1u32 << codec.bits()) - 1);
            for (x, y) in values.iter().zip(&got) {
                assert!(
                    (f64::from(*x) - f64::from(*y)).abs() <= 0.51 * step,
                    "{codec}: {values:?} became {got:?}"
                );
            }
        }
    }
}

/// Rows of equal values, zeros of either sign among them, come back as they were; the least floats do not vanish in an error.
#[test]
fn constant_rows_are_exact() {
    for device in devices() {
        for codec in CODECS {
            for (value, width) in
                [(0.0, 1), (-0.0, 5), (3.25e-20, 16), (f32::MAX, 17), (f32::MIN, 128), (1e-45, 33)]
            {
                let got = coded(&device, codec, Round::Nearest, &vec![value; width]);
                assert!(got.iter().all(|x| *x == value), "{codec}: {value} became {got:?}");
            }
            let mixed = encoded(&device, codec, Round::Nearest, &[-0.0, 0.0, -0.0]).unwrap();
            assert_eq!(mixed[..8], [0; 8]);
        }
    }
}

/// Equation 1 by hand: codes 0, 1, 2 and 3 of 2 bits, ties to even, the first in the lowest bits.
#[test]
fn codes_of_two_bits() {
    for device in devices() {
        let row = [-1.0, 2.0, 0.0, 1.0, 0.5, -0.5, 1.5];
        let bytes = encoded(&device, Codec::U2, Round::Nearest, &row).unwrap();
        let header = [1f32.to_ne_bytes(), (-1f32).to_ne_bytes()].concat();
        assert_eq!(bytes, [&header[..], &[0b_10_01_11_00, 0b_00_10_00_10]].concat());
    }
}
