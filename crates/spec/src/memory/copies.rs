//! Memory of data-parallel tables and tensor trains besides the tables: vectors of the samples that a copy serves, and sums of gradients by row.

use super::Buffers;
use crate::placement::{Shard, width};
use crate::schedule::CopyReduction;

/// Batches on their way through the dataflow.
const INPUTS: f64 = 2.0;

impl Buffers<'_> {
    /// Bytes of the vectors of data-parallel tables on `rank`, of their gradients, and of sums by row of all copies.
    pub(super) fn copies(&self, rank: usize) -> f64 {
        let copied = self.deployment.placement.copied_by(rank);
        if copied.is_empty() {
            return 0.0;
        }
        let samples = self.served(rank);
        let vectors = self.floats(samples * width(copied) as f64);
        if !self.trains {
            return vectors;
        }
        let of_reduction = |reduction: CopyReduction| {
            let shards = copied.iter().filter(|shard| {
                let at = self.copies.binary_search_by_key(&shard.feature, |table| table.feature);
                at.is_ok_and(|at| self.copies[at].reduction == reduction)
            });
            shards.map(|shard| self.rows(shard, samples)).collect::<Vec<_>>()
        };
        let trains = copied.iter().filter(|shard| shard.is_tensor_train());
        let trains: Vec<Rows> = trains.map(|shard| self.rows(shard, samples)).collect();
        let sum = |tables: &[Rows], of: &dyn Fn(&Rows) -> f64| tables.iter().map(of).sum::<f64>();
        let (dense, by_rows) = (of_reduction(CopyReduction::Dense), of_reduction(CopyReduction::Rows));
        let mut bytes = 2.0 * vectors;
        for tables in [&dense, &by_rows, &trains] {
            // Rows and their runs, as many as ids at most.
            bytes += INPUTS * 2.0 * self.floats(sum(tables, &|of| of.ids));
            bytes += self.floats(sum(tables, &|of| of.touched * of.width));
        }
        // Numbers, sums and keys of the rows of all copies.
        bytes += INPUTS * self.floats(sum(&by_rows, &|of| of.copies * of.touched))
            + self.floats(sum(&by_rows, &|of| of.copies * of.touched * of.width))
            + self.floats(2.0 * sum(&by_rows, &|of| of.copies * of.touched));
        // The vector, parts of it from all copies, and what is collected of it.
        bytes
            + 3.0 * self.floats(sum(&dense, &|of| of.all * (of.width + 1.0)))
            + self.floats(sum(&dense, &|of| of.all * (of.width + 3.0)))
    }

    /// Samples that the copies on `rank` serve.
    pub fn served(&self, rank: usize) -> f64 {
        match self.sptt() {
            None => self.samples(rank) as f64,
            Some(_) => self.peer_samples(rank) as f64,
        }
    }

    fn rows(&self, shard: &Shard, samples: f64) -> Rows {
        let ids = samples * self.deployment.model.features()[shard.feature].hotness.mean() as f64;
        let all = shard.rows.len() as f64;
        let (copies, width) = (shard.holders.ranks().len() as f64, shard.columns.len() as f64);
        Rows { ids, all, touched: ids.min(all), copies, width }
    }
}

/// Rows of one data-parallel table in a step.
struct Rows {
    /// Ids that the copy serves.
    ids: f64,
    /// Rows of the table.
    all: f64,
    /// Rows that the copy touches at most.
    touched: f64,
    /// Number of copies.
    copies: f64,
    /// Columns of the table.
    width: f64,
}
