use super::*;

/// Share of pairs of words that both lie below `p`, over rows and units that are `apart` from each other.
fn pairs(p: f64, [rows_apart, units_apart, layers_apart]: [u64; 3]) -> f64 {
    const ROWS: u64 = 512;
    const UNITS: u32 = 256;
    let layer = |i: u64| RandomSequence::new(3, &format!("dropout.top.{i}"));
    let (one, other) = (layer(0), layer(layers_apart));
    let below = (p * 4_294_967_296.0) as u32;
    let mut count = 0u64;
    for row in 0..ROWS {
        for unit in 0..UNITS {
            let both = word(one.bits(row), unit) < below
                && word(other.bits(row + rows_apart), unit + units_apart as u32) < below;
            count += u64::from(both);
        }
    }
    count as f64 / (ROWS * u64::from(UNITS)) as f64
}

/// 131,072 words: the share of those below `p` is `p`, and words of neighbouring units, rows and layers have nothing to do with
/// each other. Each share is within five standard deviations of what it should be.
#[test]
fn words_are_uniform_and_independent() {
    for p in [0.1, 0.5, 0.9] {
        let close = |share: f64, expected: f64| {
            let deviation = (expected * (1.0 - expected) / 131_072.0).sqrt();
            (share - expected).abs() < 5.0 * deviation
        };
        let alone = pairs(p, [0, 0, 0]);
        assert!(close(alone, p), "{alone} of the words lie below {p}");
        for apart in [[0, 1, 0], [0, 16, 0], [1, 0, 0], [1, 1, 0], [2, 0, 0], [96, 0, 0], [0, 0, 1]] {
            let both = pairs(p, apart);
            assert!(close(both, p * p), "{both} of the pairs {apart:?} apart lie below {p}");
        }
    }
}
