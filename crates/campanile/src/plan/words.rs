//! The placement of a run in a line.

use spec::placement::{Scheme, Shard};
use spec::run::Run;
use std::collections::BTreeMap;

/// The placement of a run in a line, as `26 tables table-wise on 4 ranks; the largest rank has 1.30 × the mean lookups`.
pub fn in_words(run: &Run) -> String {
    let (placement, model) = (&run.placement, &run.model);
    let mut schemes: BTreeMap<Scheme, usize> = BTreeMap::new();
    (0..model.features().len())
        .for_each(|feature| *schemes.entry(placement.scheme(feature)).or_default() += 1);
    let mut schemes: Vec<(Scheme, usize)> = schemes.into_iter().collect();
    schemes.sort_by_key(|(_, tables)| std::cmp::Reverse(*tables));
    let tables = |(i, (scheme, count)): (usize, &(Scheme, usize))| match (i, count) {
        (0, 1) => format!("1 table {scheme}"),
        (0, _) => format!("{count} tables {scheme}"),
        _ => format!("{count} {scheme}"),
    };
    let tables = schemes.iter().enumerate().map(tables).collect::<Vec<_>>().join(", ");
    let ranks = placement.topology().ranks();
    if ranks == 1 {
        return format!("{tables} on 1 rank");
    }
    // Numbers that a rank reads for a sample, of shards whose rows are equally frequent.
    let numbers = |shard: &Shard| {
        let feature = &model.features()[shard.feature];
        let rows = shard.rows.len() as f64 / feature.rows.max(1) as f64;
        let served = shard.holders.ranks().len() as f64;
        feature.hotness.mean() as f64 * rows * shard.columns.len() as f64 / served
    };
    let of_rank = |rank| placement.held_by(rank).iter().map(numbers).sum::<f64>();
    let loads: Vec<f64> = (0..ranks).map(of_rank).collect();
    let mean = loads.iter().sum::<f64>() / ranks as f64;
    let largest = loads.iter().copied().fold(0.0, f64::max) / mean.max(f64::MIN_POSITIVE);
    format!("{tables} on {ranks} ranks; the largest rank has {largest:.2} × the mean lookups")
}
