use ground::table_format::TableFormat;
use kernels::internals::half_float::{Half, bf16_at_random, f16_at_random};
use kernels::{RowRounding, store_row};

/// Floats of all kinds: every exponent with several fractions, both signs, and what has no size.
fn floats() -> Vec<f32> {
    let fractions =
        [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x3000, 0x7fff, 0x8000, 0x8001, 0x0f_f000, 0x7f_ffff];
    let mut all = Vec::new();
    for exponent in 0..=255u32 {
        for fraction in fractions {
            let bits = exponent << 23 | fraction;
            all.extend([f32::from_bits(bits), f32::from_bits(bits | 1 << 31)]);
        }
    }
    all
}

fn nearest(half: Half, x: f32) -> u16 {
    let format = match half {
        Half::F16 => TableFormat::F16,
        Half::Bf16 => TableFormat::Bf16,
    };
    let mut to = [0; 2];
    store_row(format, &[x], RowRounding::NEAREST, &mut to);
    u16::from_le_bytes(to)
}

#[test]
fn all_bits_are_decoded_as_another_library_does() {
    for bits in 0..=u16::MAX {
        let (of_f16, of_bf16) = (half::f16::from_bits(bits).to_f32(), half::bf16::from_bits(bits).to_f32());
        let got = [Half::F16, Half::Bf16].map(|half| half.decode(bits));
        for (got, expected) in got.into_iter().zip([of_f16, of_bf16]) {
            assert!(got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()), "{bits:x}");
        }
    }
}

#[test]
fn rounding_to_nearest_is_that_of_another_library() {
    for x in floats() {
        let of_f16 = half::f16::from_f32(x);
        let of_f16 = if of_f16.is_infinite() { half::f16::MAX.copysign(of_f16) } else { of_f16 };
        let of_bf16 = half::bf16::from_f32(x);
        let of_bf16 = if of_bf16.is_infinite() { half::bf16::MAX.copysign(of_bf16) } else { of_bf16 };
        let got = [nearest(Half::F16, x), nearest(Half::Bf16, x)];
        if x.is_nan() {
            assert!(half::f16::from_bits(got[0]).is_nan() && half::bf16::from_bits(got[1]).is_nan());
            continue;
        }
        assert_eq!(got, [of_f16.to_bits(), of_bf16.to_bits()], "{x:e}");
    }
}

/// Over all random numbers of 13 bits, as many are rounded up as a number is away from the lower neighbour; what needs no rounding stays.
#[test]
fn rounding_at_random_has_the_right_mean() {
    let numbers = [1.0f32, 1.0003, -0.300_02, 6.0e-5, 3.0e-5, 1.23e-7, -2.0e-8, 1e-9, 0.0, 65_503.0, 7.5e-3];
    for x in numbers {
        for (half, draws) in [(Half::F16, 1u32 << 13), (Half::Bf16, 1 << 16)] {
            let step = u32::MAX / draws + 1;
            let mut sum = 0.0;
            for random in (0..draws).map(|i| i.wrapping_mul(step)) {
                let got = match half {
                    Half::F16 => f16_at_random(x, random),
                    Half::Bf16 => bf16_at_random(x, random),
                };
                sum += f64::from(half.decode(got));
            }
            let mean = sum / f64::from(draws);
            // Below the smallest normal f16 numbers have more bits than were drawn here: a draw is worth so much.
            let least = if half == Half::F16 { 2f64.powi(-24) / f64::from(draws) } else { 0.0 };
            let off = (mean - f64::from(x)).abs();
            assert!(off <= f64::from(x).abs() * 1e-7 + least, "{x:e} as {half:?}: {mean:e}");
        }
    }
}

#[test]
fn what_can_be_represented_is_never_changed() {
    for bits in (0..=u16::MAX).step_by(7) {
        for half in [Half::F16, Half::Bf16] {
            let x = half.decode(bits);
            let (random, nearest) = match half {
                Half::F16 => (f16_at_random(x, u32::MAX), nearest(half, x)),
                Half::Bf16 => (bf16_at_random(x, u32::MAX), nearest(half, x)),
            };
            if x.is_finite() {
                assert_eq!([random, nearest], [bits; 2], "{x:e} as {half:?}");
            }
        }
    }
}
