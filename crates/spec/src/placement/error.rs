//! Reasons why a placement does not match its model or cluster.

/// Reason why a placement does not match its model or cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The number of layouts differs from the number of features.
    #[error("placement: {got} layouts were given for {expected} features; give one for each")]
    Count {
        /// Number of features.
        expected: usize,
        /// Number of layouts.
        got: usize,
    },
    /// A shard belongs to no feature of the model.
    #[error("placement: a shard belongs to feature {feature}, but the model has {count}")]
    Feature {
        /// Index of the feature.
        feature: usize,
        /// Number of features.
        count: usize,
    },
    /// A layout names a rank or host that does not exist.
    #[error("placement of {feature}: {what} {index} does not exist; there are {count}")]
    Unknown {
        /// Name of the feature.
        feature: String,
        /// `rank` or `host`.
        what: &'static str,
        /// Rank or host that was named.
        index: usize,
        /// Number of ranks or hosts in the cluster.
        count: usize,
    },
    /// The ranks that hold rows of the same columns, or copies, are not in ascending order.
    #[error("placement of {feature}: rows are cut over ranks {ranks:?}; name each once, in ascending order")]
    Order {
        /// Name of the feature.
        feature: String,
        /// Ranks that were named.
        ranks: Vec<usize>,
    },
    /// A table is cut into no pieces, or into more pieces than it has rows or columns.
    #[error("placement of {feature}: {pieces} pieces cannot be cut from {available} {what}")]
    Pieces {
        /// Name of the feature.
        feature: String,
        /// Number of pieces.
        pieces: usize,
        /// What is cut: `rows` or `columns`.
        what: &'static str,
        /// Number of rows or columns of the table.
        available: usize,
    },
    /// A grid has another number of rectangles than ranks.
    #[error(
        "placement of {feature}: a grid of {rows} × {columns} rectangles needs as many ranks, but {ranks} are named"
    )]
    Grid {
        /// Name of the feature.
        feature: String,
        /// Number of pieces of rows.
        rows: usize,
        /// Number of pieces of columns.
        columns: usize,
        /// Number of ranks that were named.
        ranks: usize,
    },
    /// The shards of a table leave a gap, overlap, or form no grid.
    #[error(
        "placement of {feature}: the shards do not tile the table of {rows} rows × {columns} columns: {problem}; cut a table \
         by whole rows and whole columns, and name every rectangle once"
    )]
    Tiling {
        /// Name of the feature.
        feature: String,
        /// Number of rows of the table.
        rows: usize,
        /// Number of columns of the table.
        columns: usize,
        /// First thing that is wrong.
        problem: String,
    },
    /// Copies that get the gradient of every sample are on some ranks only.
    #[error(
        "placement of {feature}: copies on ranks {ranks:?} of {count} would get the gradient of every sample; replicate the \
         table on all ranks, or make it data-parallel"
    )]
    SomeCopies {
        /// Name of the feature.
        feature: String,
        /// Ranks with a copy.
        ranks: Vec<usize>,
        /// Number of ranks.
        count: usize,
    },
    /// A tensor train is cut, on one rank, or replicated.
    #[error(
        "placement of {feature}: a tensor train (tt_rank) is small, and every rank that serves the feature has its cores; make the table \
         data_parallel, or leave its placement out"
    )]
    TensorTrain {
        /// Name of the feature.
        feature: String,
    },
    /// Copies of a table of rows are said to be those of a tensor train.
    #[error(
        "placement of {feature}: the table has rows, not the cores of a tensor train; use `copies = \"rows\"`, or plan again with \
         `campanile plan`"
    )]
    NoTensorTrain {
        /// Name of the feature.
        feature: String,
    },
    /// A table that is cut has copies.
    #[error("placement of {feature}: a table with copies is not cut; name one shard with all its holders")]
    CutCopies {
        /// Name of the feature.
        feature: String,
    },
}
