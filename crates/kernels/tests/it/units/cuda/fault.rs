use kernels::KernelError;
use kernels::internals::cuda::fault::{FAULTS, Operands, error_of};

#[test]
fn a_record_becomes_the_error_of_the_cpu() {
    let operands = Operands { rows: vec![10, 20], values: 7, samples: 3, gradients: 2 };
    let with = |word: usize, value: u64| {
        let mut words = [u64::MAX; FAULTS];
        words[word] = value;
        error_of(&words, &operands)
    };
    assert_eq!(error_of(&[u64::MAX; FAULTS], &operands), None);
    assert_eq!(with(0, 1 << 32 | 33), Some(KernelError::IdOutOfRange { table: 1, id: 33, rows: 20 }));
    assert_eq!(with(1, 5 << 2 | 2), Some(KernelError::NotFinite { op: "encode", at: 5, value: "-inf" }));
    let short = KernelError::TooShort { op: "index_bags", operand: "values", expected: 9, got: 7 };
    assert_eq!(with(2, u64::MAX - 1 - 9), Some(short));
    let op = "update_tables";
    let row = KernelError::Mismatch { op, what: "rows of a table", expected: 20, got: 21 };
    assert_eq!(with(3, 1 << 34 | 21), Some(row));
    let sample = KernelError::Mismatch { op, what: "samples of the index", expected: 3, got: 5 };
    assert_eq!(with(3, 2 << 32 | 5), Some(sample));
    let operand = "gradients of samples";
    let gradient = KernelError::TooShort { op: "sum_rows", operand, expected: 3, got: 2 };
    assert_eq!(with(3, 3 << 32 | 2), Some(gradient));
}
