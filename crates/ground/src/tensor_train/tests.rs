use super::{MAX_PRODUCT, MAX_RANK, TensorTrain};

#[test]
fn digits_cover_every_row_and_every_column() {
    for rows in (1..2000).chain([1 << 20, 10_131_227, 4_000_000_000]) {
        let train = TensorTrain::new(rows, 16, 4).unwrap();
        let product: usize = train.rows.iter().product();
        assert!(product >= rows, "{rows} rows, digits {:?}", train.rows);
        let last = train.digits(rows - 1);
        assert!(last.iter().zip(train.rows).all(|(digit, values)| *digit < values));
        let [_, second, third] = train.rows;
        assert_eq!((last[0] * second + last[1]) * third + last[2], rows - 1);
    }
    for width in 1..600 {
        let train = TensorTrain::new(100, width, 1).unwrap();
        let [a, b, c] = train.columns;
        assert!(
            a * b * c >= width && a <= b && b <= c && c <= 2 * a.max(1),
            "{width} columns, {:?}",
            train.columns
        );
    }
    assert_eq!(
        [8, 16, 32, 64, 128].map(|width| TensorTrain::new(9, width, 1).unwrap().columns),
        [[2, 2, 2], [2, 2, 4], [2, 4, 4], [4, 4, 4], [4, 4, 8]]
    );
}

#[test]
fn ranks_that_no_device_has_room_for_are_refused() {
    assert!(TensorTrain::new(100, 16, 0).unwrap_err().contains("0 is no rank"));
    assert!(TensorTrain::new(100, 16, MAX_RANK + 1).unwrap_err().contains("use 1 to 256"));
    let wide = TensorTrain::new(100, 2048, 128).unwrap_err();
    assert!(wide.contains("use at most 64"), "{wide}");
    assert!(TensorTrain::new(100, 2049, 1).unwrap_err().contains("at most 2048"));
    assert!(TensorTrain::new(100, 512, 128).unwrap().product_len() <= MAX_PRODUCT);
}

#[test]
fn initial_rows_have_the_variance_of_a_table() {
    use crate::random::RandomSequence;
    let (rows, width) = (5000, 16);
    for rank in [1, 8] {
        let train = TensorTrain::new(rows, width, rank).unwrap();
        let bound = train.initial_bound(rows);
        let draw = |core: usize| -> Vec<f32> {
            let sequence = RandomSequence::new(7, &format!("core {core}"));
            (0..train.cores()[core] as u64).map(|i| sequence.symmetric(i, bound)).collect()
        };
        let cores = [draw(0), draw(1), draw(2)];
        let mut row = vec![0.0; width];
        let mut squares = 0.0;
        for i in 0..rows {
            train.row([&cores[0], &cores[1], &cores[2]], i, &mut row);
            squares += row.iter().map(|x| f64::from(x * x)).sum::<f64>();
        }
        let variance = squares / (rows * width) as f64;
        let expected = 1.0 / (3.0 * rows as f64);
        assert!((variance / expected - 1.0).abs() < 0.2, "rank {rank}: {variance} against {expected}");
    }
}
