use ground::table_format::TableFormat;
use kernels::{RowRounding, store_row, stored_row};
use proptest::prelude::*;

/// Bytes behind the codes: the scale, then the minimum.
const EXTRA: usize = TableFormat::INT8_EXTRA;

fn stored(weights: &[f32], rounding: RowRounding) -> Vec<u8> {
    let mut row = vec![0; TableFormat::Int8.row_bytes(weights.len())];
    store_row(TableFormat::Int8, weights, rounding, &mut row);
    row
}

fn read(row: &[u8]) -> Vec<f32> {
    let mut weights = vec![0.0; row.len() - EXTRA];
    stored_row(TableFormat::Int8, row, &mut weights);
    weights
}

fn scale(row: &[u8]) -> f32 {
    f32::from_le_bytes(*row[row.len() - EXTRA..].first_chunk().unwrap())
}

fn at_random(bits: u64) -> RowRounding {
    RowRounding::at_random(bits, 3)
}

proptest! {
    #[test]
    fn weights_are_within_half_a_step_or_a_step(
        weights in proptest::collection::vec(-3.0f32..5.0, 1..200),
        bits in any::<u64>(),
    ) {
        for (rounding, most) in [(RowRounding::NEAREST, 0.5f32), (at_random(bits), 1.0)] {
            let row = stored(&weights, rounding);
            let step = scale(&row);
            for (got, &x) in read(&row).into_iter().zip(&weights) {
                // Sums and products are rounded, too.
                prop_assert!((got - x).abs() <= most * step * 1.0001 + x.abs() * 1e-6, "{got} of {x} in steps of {step}");
            }
        }
    }

    #[test]
    fn the_ends_of_a_row_stay(weights in proptest::collection::vec(-1e3f32..1e3, 1..50)) {
        let got = read(&stored(&weights, RowRounding::NEAREST));
        let ends = |row: &[f32]| row.iter().fold((f32::MAX, f32::MIN), |(least, most), &x| (least.min(x), most.max(x)));
        let ((least, most), (x_least, x_most)) = (ends(&got), ends(&weights));
        prop_assert_eq!(least, x_least);
        prop_assert!((most - x_most).abs() <= 2e-7 * (x_most.abs() + x_least.abs()));
    }
}

#[test]
fn rounding_at_random_has_the_right_mean() {
    let weights = [0.0f32, 1.0, 0.1234, 0.5, 0.9001];
    let draws = 40_000;
    let mut sums = [0.0f64; 5];
    for draw in 0..draws {
        // Bits of any quality: they are mixed with the column.
        let row = stored(&weights, at_random(u64::wrapping_mul(draw, 0x9e37_79b9_7f4a_7c15)));
        sums.iter_mut().zip(read(&row)).for_each(|(sum, x)| *sum += f64::from(x));
    }
    for (sum, x) in sums.iter().zip(weights) {
        // A step is 1/255, and the error of a mean of so many draws well below a hundredth of it.
        assert!((sum / draws as f64 - f64::from(x)).abs() < 5e-5, "{} of {x}", sum / draws as f64);
    }
}

#[test]
fn rows_of_one_weight_stay() {
    for x in [0.0f32, 1.5, -3e-39, 1e38] {
        assert_eq!(read(&stored(&[x; 7], RowRounding::NEAREST)), [x; 7]);
    }
    assert!(read(&stored(&[], RowRounding::NEAREST)).is_empty());
}

#[test]
fn what_is_not_finite_shows() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for at in [0, 20, 33] {
            let mut weights = vec![0.25; 34];
            weights[at] = bad;
            assert!(read(&stored(&weights, at_random(1))).iter().all(|x| x.is_nan()), "{bad} at {at}");
        }
    }
    // A range that is too wide for a float.
    assert!(read(&stored(&[f32::MAX, f32::MIN], RowRounding::NEAREST)).iter().all(|x| x.is_nan()));
}

/// PyTorch 2.9: `torch.ops.quantized.embedding_bag_byte_prepack(torch.tensor([[-1., -.5, 0., .1, .7, 2.]]))`.
#[test]
fn rows_are_those_of_pytorch() {
    let row = stored(&[-1.0, -0.5, 0.0, 0.1, 0.7, 2.0], RowRounding::NEAREST);
    assert_eq!(row[..6], [0, 42, 85, 94, 144, 255]);
    assert_eq!(row[6..10], (3.0f32 / 255.0).to_le_bytes());
    assert_eq!(row[10..], (-1.0f32).to_le_bytes());
}
