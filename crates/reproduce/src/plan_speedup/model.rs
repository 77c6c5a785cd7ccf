//! A model whose table sizes and bags follow power laws.

use spec::feature::{Feature, Hotness};
use spec::run::Config;
use spec::synthetic::Synthetic;

/// Number of tables.
pub const TABLES: usize = 24;
/// Rows of the largest table.
const ROWS: f64 = 200_000.0;
/// Mean ids of the largest bags.
const IDS: f64 = 200.0;
/// Exponents of the power laws of rows and of ids. The largest bags have more than half of all ids.
const ROWS_EXPONENT: f64 = 1.5;
const IDS_EXPONENT: f64 = 2.0;

/// The `i`-th largest of values that follow a power law.
fn law(largest: f64, exponent: f64, i: usize) -> f64 {
    largest / ((i + 1) as f64).powf(exponent)
}

/// The model, and samples enough for the batches of a measurement. Large tables and large bags are not the same features, and
/// neither is sorted.
pub fn skewed() -> Config {
    let feature = |i: usize| {
        let (size, bag) = ((5 * i + 2) % TABLES, (7 * i + 3) % TABLES);
        Feature {
            name: format!("C{i}"),
            rows: law(ROWS, ROWS_EXPONENT, size).max(10.0) as usize,
            pooling: Default::default(),
            hotness: match law(IDS, IDS_EXPONENT, bag).round() as u32 {
                0 | 1 => Hotness::One,
                mean => Hotness::Many { mean },
            },
            weighted: false,
            dim: None,
            format: None,
            cache: None,
            tt_rank: None,
        }
    };
    let mut config = Config::default();
    config.model.features = Some((0..TABLES).map(feature).collect());
    config.model.dense_features = Some(4);
    config.model.dim = Some(32);
    config.model.bottom = Some(vec![32, 32]);
    config.model.top = Some(vec![32, 1]);
    // The log has no truth to be learnt: its ids are uniform, and labels fall at random.
    config.data.synthetic = Some(Synthetic {
        samples: 1 << 16,
        eval_samples: 0,
        groups: 1,
        zipf: 0.0,
        within: 0.0,
        across: 0.0,
        main: 0.0,
        dense: 0.0,
        ..Default::default()
    });
    config
}
