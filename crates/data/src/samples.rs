//! Decoded samples on their way from a reader to whoever keeps or counts them.

/// Some samples of a log, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// 0 or 1, one per sample.
    pub labels: Vec<f32>,
    /// Samples × dense columns, row-major, transformed.
    pub dense: Vec<f32>,
    /// The bags of each sparse column.
    pub bags: Vec<Bags>,
}

/// One sparse column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bags {
    /// Ids in each sample's bag; empty where every bag holds exactly one.
    pub lengths: Vec<u32>,
    /// Ids, sample after sample: the 64-bit key of the id's text, or the row for vocabularies and row numbers.
    pub ids: Vec<u64>,
    /// One per id; empty for columns without weights.
    pub weights: Vec<f32>,
}

impl Samples {
    /// None yet, of `columns` sparse columns.
    pub fn new(columns: usize) -> Self {
        Self { bags: vec![Bags::default(); columns], ..Self::default() }
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Empties everything and keeps the memory.
    pub fn clear(&mut self) {
        self.labels.clear();
        self.dense.clear();
        for bags in &mut self.bags {
            bags.lengths.clear();
            bags.ids.clear();
            bags.weights.clear();
        }
    }
}
