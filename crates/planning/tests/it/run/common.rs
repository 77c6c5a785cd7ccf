//! Small models with towers for tests.

use spec::feature::{Feature, Hotness};
use spec::towers::Assignment;

pub fn lists(towers: &[&[&str]]) -> Assignment {
    Assignment::Lists(towers.iter().map(|names| names.iter().map(|&name| name.into()).collect()).collect())
}

/// Tables of different size; every third is multi-hot.
pub fn features(count: usize) -> Vec<Feature> {
    let feature = |i| Feature {
        name: format!("C{i}"),
        rows: 5 + 7 * i,
        pooling: Default::default(),
        hotness: if i % 3 == 1 { Hotness::Many { mean: 2 } } else { Hotness::One },
        weighted: false,
        dim: None,
        format: None,
        cache: None,
        tt_rank: None,
    };
    (0..count).map(feature).collect()
}
