//! Prices of data-parallel tables: every copy serves its share of the samples, and sums of gradients by row are reduced.

use super::prices::{Price, Prices, WORD};
use spec::tensor_train::TensorTrain;
use spec::volume::expected_distinct;

/// How sums of gradients by row are added up over the copies, and what a copy sends for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sums {
    /// Whether a vector with the sums of all rows is reduced; otherwise the rows that were touched are gathered.
    pub dense: bool,
    /// Rows that a copy touches.
    pub touched: f64,
}

impl Prices<'_> {
    /// How the sums of a table are added up: in the way that sends less in a typical batch, as the schedule decides.
    pub(super) fn sums(&self, feature: usize) -> Sums {
        let model = self.request.model;
        let (rows, width) = (model.features()[feature].rows as f64, model.row_width(feature) as f64);
        let members = self.members() as f64;
        let samples = self.request.batch.div_ceil(self.members()) as u64;
        let ids = samples * model.features()[feature].hotness.mean();
        let touched = expected_distinct(ids, model.features()[feature].rows) as f64;
        let by_rows = (members - 1.0) * WORD * (1.0 + touched * (1.0 + width));
        let dense = 2.0 * (members - 1.0) / members * WORD * rows * (width + 1.0);
        let touched = self.distinct(feature, self.batch() / members * self.ids[feature], rows);
        Sums { dense: by_rows > dense, touched }
    }

    /// Bytes that a copy which touches so many rows sends to the others.
    pub(super) fn sums_sent(&self, feature: usize, dense: bool, touched: u64) -> u64 {
        let model = self.request.model;
        let (rows, width) = (model.features()[feature].rows as u64, model.row_width(feature) as u64);
        let others = self.members() as u64 - 1;
        match dense {
            true => 8 * others * (rows * (width + 1)) / (others + 1),
            false => 4 * others * (1 + touched * (1 + width)),
        }
    }

    /// Price of a copy on each of its holders.
    pub(super) fn copy(&self, feature: usize) -> Price {
        let model = self.request.model;
        if let Some(train) = model.tensor_train(feature) {
            return self.tensor_train(feature, &train);
        }
        let (all, columns) = (model.features()[feature].rows, model.row_width(feature));
        let (rows, width, members) = (all as f64, columns as f64, self.members() as f64);
        let (samples, Sums { dense, touched }) = (self.batch() / members, self.sums(feature));
        let ids = samples * self.ids[feature];
        let vector = WORD * rows * (width + 1.0);
        let state = 2.0 * WORD * self.request.tables.state_per_row(columns) as f64;
        let of_all = self.distinct(feature, members * ids, rows);
        let mut bytes = WORD * width * (2.0 * ids + samples)
            + 24.0 * ids
            + WORD * width * (touched + 3.0 * members * touched)
            + state * of_all;
        let mut communication = 0.0;
        if dense {
            bytes += 2.0 * vector + 2.0 * WORD * width * touched;
            communication += vector * self.rates.reduced;
        } else {
            // Dense sums of all tables travel as one vector; rows of a table have messages of their own.
            communication += 2.0 * self.rates.message;
            communication += members * WORD * touched * (1.0 + width) * self.rates.gathered;
        }
        if self.request.groups.is_some() {
            // Ids of the peers' samples come from other groups.
            communication += WORD * ids * self.rates.ids;
        }
        let sums = match dense {
            true => 4.0 * vector,
            false => WORD * members * touched * (width + 4.0),
        };
        let memory =
            self.stored(feature, all, columns) + 2.0 * WORD * samples * width + 2.0 * 24.0 * ids + sums;
        Price { cost: self.weighted(bytes, communication), memory: memory as u64 }
    }

    /// Price of a tensor train on each of its holders. Its cores are among the dense parameters, which every rank has room for.
    fn tensor_train(&self, feature: usize, train: &TensorTrain) -> Price {
        let (samples, width) = (self.batch() / self.members() as f64, train.width as f64);
        let ids = samples * self.ids[feature];
        let touched = self.distinct(feature, ids, self.request.model.features()[feature].rows as f64);
        let (slices, cores) = (train.slices().iter().sum::<usize>() as f64, train.parameters() as f64);
        let bytes = WORD
            * (2.0 * width * (ids + samples) + slices * ids + (2.0 * slices + 4.0 * width) * touched)
            + 24.0 * ids
            + 4.0 * WORD * cores;
        let mut communication = WORD * cores * self.rates.reduced;
        if self.request.groups.is_some() {
            communication += WORD * ids * self.rates.ids;
        }
        let memory = 2.0 * WORD * samples * width + 2.0 * 24.0 * ids + WORD * touched * width;
        Price { cost: self.weighted(bytes, communication), memory: memory as u64 }
    }

    /// Bytes that the copy of a tensor train sends to the others: gradients of its cores.
    pub(super) fn cores_sent(&self, feature: usize) -> Option<u64> {
        let (train, others) = (self.request.model.tensor_train(feature)?, self.members() as u64 - 1);
        Some(8 * others * train.parameters() as u64 / (others + 1))
    }
}
