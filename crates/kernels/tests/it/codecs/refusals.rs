//! Values and operands that are refused.

use super::support::*;
use ground::codec::{Codec, Row};
use kernels::{Decode, Device, KernelError, Round, Rows};

/// The smallest offset is named, with one thread and with two, whichever row or thread finds it; with an error, what is refused
/// is the sum.
#[test]
fn values_that_are_not_finite_are_named() {
    let (rows, width) = (2000, 33);
    for codec in Codec::ALL {
        let bytes = codec.encoded_bytes(1, width as u64) as usize;
        let row = [Row { at: 2, byte: 0, width }];
        let rows = Rows { rows: &row, count: rows, floats: width, bytes };
        let mut values = vec![0.5; 2 + rows.count * width];
        values[65_003] = f32::NAN;
        values[40_007] = f32::NEG_INFINITY;
        values[40_008] = f32::INFINITY;
        let errors = vec![-1.0; rows.count * width];
        for device in devices() {
            for error in [None, Some((&errors[..], 0))] {
                let how = (codec, Round::Nearest);
                let result = encode_rows(&device, how, rows, &values, (rows.count * bytes, 0), error);
                let refused = KernelError::NotFinite { op: "encode", at: 40_007, value: "-inf" };
                let expected = if codec.by_rows() { Some(refused) } else { None };
                assert_eq!(result.err(), expected, "{codec}");
            }
            // Two finite numbers whose sum is not.
            let how = (codec, Round::Nearest);
            let result = encode_rows(
                &device,
                how,
                Rows { count: 1, ..rows },
                &[0.0, 0.0, f32::MAX].into_iter().chain([1.0; 32]).collect::<Vec<_>>(),
                (bytes, 0),
                Some((&[f32::MAX; 33], 0)),
            );
            let said = "encode: value 2 is inf, but only finite values can be encoded";
            assert_eq!(result.err().map(|e| e.to_string()), codec.by_rows().then_some(said.to_string()));
        }
    }
}

#[test]
fn operands_are_checked() {
    let device = Device::cpu(1).unwrap();
    let rows = |rows: &[Row], count, floats, bytes, have: [usize; 3]| {
        let rows = Rows { rows, count, floats, bytes };
        let how = (Codec::U4, Round::Nearest);
        let errors = vec![0.0; have[2]];
        let error = Some((&errors[..], 1)).filter(|_| have[2] > 0);
        encode_rows(&device, how, rows, &vec![1.0; have[0]], (have[1], 1), error).err().map(|e| e.to_string())
    };
    let row = |at, byte, width| Row { at, byte, width };
    // Two rows of 4 values take 10 bytes each.
    let two = [row(5, 100, 4), row(9, 110, 4)];
    assert_eq!(rows(&two, 1, 0, 0, [13, 21, 9]), None);
    assert_eq!(rows(&two, 2, 8, 20, [21, 41, 17]), None);
    assert_eq!(rows(&[], 2, 8, 20, [0, 0, 0]), None);
    assert_eq!(rows(&two, 0, 8, 20, [0, 0, 0]), None);
    assert_eq!(rows(&[row(5, 9, 0)], 9, 8, 20, [0, 0, 0]), None);
    // Each row beside its repetitions.
    assert_eq!(rows(&[row(0, 0, 4), row(4, 20, 4)], 2, 8, 10, [16, 41, 17]), None);
    let refused = [
        (rows(&two, 1, 0, 0, [12, 21, 9]), "from holds 12 elements, but 13 are needed"),
        (rows(&two, 1, 0, 0, [13, 20, 9]), "to holds 20 elements, but 21 are needed"),
        (rows(&two, 1, 0, 0, [13, 21, 8]), "error holds 8 elements, but 9 are needed"),
        (rows(&two, 2, 8, 20, [20, 41, 0]), "from holds 20 elements"),
        (rows(&two, usize::MAX, 8, 20, [20, 41, 0]), "from holds 20 elements"),
        (rows(&two, 2, 8, 19, [21, 41, 0]), "the distance between repetitions holds 19 elements, but 20"),
        (rows(&two, 2, 7, 20, [21, 41, 17]), "the distance between repetitions holds 7 elements, but 8"),
        (rows(&[row(5, 0, 4), row(9, 9, 4)], 1, 0, 0, [13, 41, 9]), "the gap before a row"),
        (rows(&[row(5, 9, 4), row(9, 0, 4)], 1, 0, 0, [13, 41, 9]), "the start of a row"),
    ];
    for (got, expected) in refused {
        assert!(got.as_ref().is_some_and(|got| got.contains(expected)), "{got:?}, expected {expected}");
    }
    let decode = |blocks, floats, bytes| {
        let (from, mut to) = (buffer(&device, &vec![0u8; bytes]), buffer(&device, &vec![1.0; floats]));
        let (rows, to) = (Rows::once(&two), &mut to);
        let args = Decode {
            codec: Codec::U4,
            rows,
            blocks,
            block_bytes: 30,
            from: &from,
            from_at: 3,
            to,
            to_at: 2,
            add: false,
        };
        device.decode(args).err().map(|e| e.to_string())
    };
    assert_eq!((decode(2, 10, 53), decode(0, 10, 0)), (None, None));
    assert!(decode(2, 10, 52).unwrap().contains("from holds 52 elements, but 53 are needed"));
    assert!(decode(2, 9, 53).unwrap().contains("to holds 9 elements, but 10 are needed"));
}
