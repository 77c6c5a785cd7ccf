//! Stochastic rounding: unbiased, and only where there is something to round.

use super::support::*;
use ground::codec::Codec;
use kernels::{Device, Round};

const LOSSY: [Codec; 7] =
    [Codec::F16, Codec::Bf16, Codec::Fp8E4m3, Codec::Fp8E5m2, Codec::U8, Codec::U4, Codec::U2];

/// The mean over many keys is the value: within five standard errors, since each draw is one of two neighbours. Draws of
/// neighbours are independent: the mean over a row of one value is as near.
#[test]
fn the_mean_is_the_value() {
    const KEYS: u64 = 4000;
    let device = Device::cpu(1).unwrap();
    // The first two values set the range; the rest are in between, with neighbours in f16 that are subnormal too.
    let values = [-448.0, 448.0, 0.3, -17.77, 123.456, 1e-6, 447.9, 0.001];
    for codec in LOSSY {
        let mut sums = [0f64; 8];
        let (mut least, mut most) = (values, values);
        for key in 0..KEYS {
            let got = coded(&device, codec, Round::Stochastic { key }, &values);
            for (i, x) in got.iter().enumerate() {
                sums[i] += f64::from(*x);
                (least[i], most[i]) = (least[i].min(*x), most[i].max(*x));
            }
        }
        for (i, value) in values.iter().enumerate() {
            let spacing = f64::from(most[i]) - f64::from(least[i]);
            let tolerance = 5.0 * 0.5 * spacing / (KEYS as f64).sqrt() + 1e-6 * f64::from(value.abs());
            let mean = sums[i] / KEYS as f64;
            assert!((mean - f64::from(*value)).abs() <= tolerance, "{codec}: the mean of {value} is {mean}");
            // One of two neighbours, the nearest among them.
            let nearest = coded(&device, codec, Round::Nearest, &values)[i];
            assert!(nearest == least[i] || nearest == most[i], "{codec}: {value} became {nearest}");
        }
        let row: Vec<f32> = [0.0, 3.0].into_iter().chain((0..4000).map(|_| 1.3)).collect();
        let got = coded(&device, codec, Round::Stochastic { key: 1 }, &row);
        let mean = got[2..].iter().map(|&x| f64::from(x)).sum::<f64>() / 4000.0;
        assert!((mean - 1.3).abs() < 0.04, "{codec}: {mean}");
        assert_ne!(got, coded(&device, codec, Round::Stochastic { key: 2 }, &row), "{codec}");
    }
}

/// Whatever is representable stays as it is, infinities and NaNs of 16-bit formats included.
#[test]
fn representable_values_stay() {
    for device in devices() {
        for codec in [Codec::F16, Codec::Bf16] {
            let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_ne_bytes).collect();
            let all = decoded(&device, codec, 1 << 16, &bytes);
            let again = encoded(&device, codec, Round::Stochastic { key: 5 }, &all).unwrap();
            for ((bytes, again), value) in bytes.chunks(2).zip(again.chunks(2)).zip(all) {
                let nan = decoded(&Device::Reference, codec, 1, again)[0].is_nan();
                assert!(bytes == again || value.is_nan() && nan, "{codec}: {value}");
            }
            let beyond = coded(&device, codec, Round::Stochastic { key: 5 }, &[f32::MAX, f32::NEG_INFINITY]);
            assert!(beyond[1] == f32::NEG_INFINITY && (codec == Codec::Bf16 || beyond[0] == f32::INFINITY));
        }
        for codec in [Codec::Fp8E4m3, Codec::Fp8E5m2] {
            let most = if codec == Codec::Fp8E4m3 { 0x7e } else { 0x7b };
            let bytes: Vec<u8> = 1f32.to_ne_bytes().into_iter().chain((0..=most).rev()).collect();
            let all = decoded(&device, codec, usize::from(most) + 1, &bytes);
            assert_eq!(encoded(&device, codec, Round::Stochastic { key: 5 }, &all).unwrap(), bytes);
        }
        for codec in [Codec::U8, Codec::U4, Codec::U2] {
            let all: Vec<f32> = (0..1 << codec.bits()).map(|code| code as f32 * 0.5 - 3.0).collect();
            assert_eq!(coded(&device, codec, Round::Stochastic { key: 5 }, &all), all);
        }
    }
}
