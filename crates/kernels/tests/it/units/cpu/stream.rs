//! Copies past the caches, wherever they begin and end.

use kernels::internals::cpu::Level;
use kernels::internals::cpu::stream::{copy, fence};

#[test]
fn copies_wherever_lines_begin() {
    for level in [Level::detect(), Level::Portable] {
        copies(level);
    }
}

fn copies(level: Level) {
    let from: Vec<f32> = (0..200).map(|i| i as f32).collect();
    for (first, len) in (0..20).flat_map(|first| [0, 1, 15, 16, 17, 63, 64, 130].map(|len| (first, len))) {
        let mut to = vec![-1f32; 200];
        copy(level, &from[3..][..len], &mut to[first..first + len]);
        fence();
        let expected = |i: usize| match i.checked_sub(first) {
            Some(at) if at < len => from[3 + at],
            _ => -1.0,
        };
        assert!((0..200).all(|i| to[i] == expected(i)), "{len} floats at {first}: {to:?}");
    }
}
