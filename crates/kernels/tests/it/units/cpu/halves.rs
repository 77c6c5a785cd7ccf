use kernels::internals::cpu::Level;
use kernels::internals::cpu::halves::{add_row, decode_row};
use kernels::internals::half_float::{Half, decode};

fn sums_are_those_of_the_arithmetic(half: Half, level: Level, row: &[u16]) {
    let (mut sum, mut slow) = (vec![1.5f32; row.len()], vec![1.5f32; row.len()]);
    if !add_row(level, half, 0.3, row, &mut sum) {
        assert_eq!(level, Level::Portable);
        return;
    }
    slow.iter_mut().zip(row).for_each(|(slow, &bits)| *slow += 0.3 * half.decode(bits));
    assert_eq!(sum, slow);
}

#[test]
fn all_bits_are_those_of_the_arithmetic() {
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let (mut got, mut expected) = (vec![0.0; all.len()], vec![0.0; all.len()]);
    let level = Level::detect();
    // Some are left behind the last eight.
    for len in [all.len(), 5, 8, 19] {
        decode_row(level, Half::F16, &all[..len], &mut got[..len]);
        decode(Half::F16, &all[..len], &mut expected[..len]);
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        assert!(got.iter().zip(&expected).all(same));
    }
    sums_are_those_of_the_arithmetic(Half::F16, level, &all[..0x7c00]);
    sums_are_those_of_the_arithmetic(Half::Bf16, level, &all[..0x7f7b]);
}
