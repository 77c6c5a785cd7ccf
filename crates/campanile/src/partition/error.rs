//! Why features cannot be divided.

use crate::file::FileError;
use planning::partitioner::PartitionError;
use spec::affinity::AffinityError;
use std::path::PathBuf;

/// Why features cannot be divided into towers.
#[derive(Debug, thiserror::Error)]
pub enum DivisionError {
    /// A file that cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file that is no matrix of NumPy.
    #[error("{}", path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: super::NpyError,
    },
    /// Numbers that are no affinity.
    #[error(transparent)]
    Affinity(#[from] AffinityError),
    /// A matrix in a file that is no affinity.
    #[error("{}", path.display())]
    AffinityOf {
        /// The file.
        path: PathBuf,
        /// What is wrong with the matrix.
        source: AffinityError,
    },
    /// A file that is no text.
    #[error("{}: not a text file", path.display())]
    NoText {
        /// The file.
        path: PathBuf,
        /// Where it is none.
        source: std::str::Utf8Error,
    },
    /// A file of JSON that holds something else.
    #[error("{}: {looks}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What it should look like.
        looks: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// An affinity of nothing.
    #[error("{}: the file names no features", path.display())]
    NoFeatures {
        /// The file.
        path: PathBuf,
    },
    /// A feature without a load.
    #[error("{}: no load for feature {feature}", path.display())]
    NoLoad {
        /// The file.
        path: PathBuf,
        /// The feature.
        feature: String,
    },
    /// A load that cannot be.
    #[error("{}: the load of {feature} is {load}; loads are finite and at least 0", path.display())]
    WrongLoad {
        /// The file.
        path: PathBuf,
        /// The feature.
        feature: String,
        /// The load.
        load: f64,
    },
    /// A load of something else.
    #[error("{}: a load is given for {feature}, which is not a feature of the affinity", path.display())]
    LoadOfNothing {
        /// The file.
        path: PathBuf,
        /// The name.
        feature: String,
    },
    /// A group of something else.
    #[error("{}: {group} names {feature:?}, which is not a feature of the affinity", path.display())]
    GroupOfNothing {
        /// The file.
        path: PathBuf,
        /// The group.
        group: String,
        /// The name.
        feature: String,
    },
    /// A feature in two groups, or twice in one.
    #[error("{}: {feature} is in {group} {again}", path.display())]
    InTwoGroups {
        /// The file.
        path: PathBuf,
        /// The feature.
        feature: String,
        /// A group.
        group: String,
        /// The other place, in words.
        again: String,
    },
    /// A feature without a group.
    #[error("{}: {feature} is in no group", path.display())]
    InNoGroup {
        /// The file.
        path: PathBuf,
        /// The feature.
        feature: String,
    },
    /// Slices without columns.
    #[error("--slice-to 0: a slice has at least 1 column")]
    EmptySlices,
    /// Tables without columns.
    #[error("--dim 0: a table has at least 1 column")]
    EmptyTables,
    /// Slices so narrow that there are too many.
    #[error(
        "--slice-to {width}: {dim} columns of {features} features make more than {most} pieces; use at least {least}"
    )]
    TooManyPieces {
        /// Width of a slice.
        width: usize,
        /// Columns of a table.
        dim: usize,
        /// Features.
        features: usize,
        /// The most pieces.
        most: usize,
        /// The least width.
        least: usize,
    },
    /// Slices of tables of unknown columns.
    #[error("--slice-to: the number of columns of a table is not known; give it with --dim")]
    UnknownColumns,
    /// Loads that nothing counts.
    #[error("--loads and --load-of are for --balance load; give that too")]
    LoadsUnused,
    /// Loads of tables that nothing is known of.
    #[error("{flag} needs the loads of the tables, which are not known; give --loads FILE")]
    UnknownLoads {
        /// What asks for them.
        flag: &'static str,
    },
    /// A group that has no load to share out.
    #[error("--groups: {error} (group {group} is {name})")]
    Group {
        /// What the partitioner says.
        error: PartitionError,
        /// Number of the group.
        group: usize,
        /// Name of the group.
        name: String,
    },
    /// A ratio that cannot be.
    #[error("--ratio: {0}")]
    Ratio(PartitionError),
    /// Dimensions that cannot be.
    #[error("--dims: {0}")]
    Dims(PartitionError),
    /// More towers than features, whose tables might be sliced.
    #[error(
        "{0}, or slice the tables into more pieces with --slice-to D (columns of a piece) and --dim N (columns of a table)"
    )]
    MorePieces(PartitionError),
    /// More towers than there are pieces.
    #[error("{towers} towers are too many for {features} features{given}: {hint}")]
    TooManyTowers {
        /// Towers asked for.
        towers: usize,
        /// Features.
        features: usize,
        /// The slices asked for, in words.
        given: String,
        /// What would work.
        hint: String,
    },
    /// A division that cannot be.
    #[error(transparent)]
    Partition(PartitionError),
}
