//! Classes of computations, each of which one set of rates describes.

use crate::model::{BlockName, Layers, Model};
use crate::towers::Module;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Class of computations that one set of rates describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Reading batches ahead, on threads beside the step; items are numbers of samples.
    ReadAhead,
    /// Taking a batch that was read, and laying out its ids.
    ReadBatch,
    /// Finding bags in ids that arrived, in the order of ranks or in peer order.
    IndexIds,
    /// Grouping ids by row.
    SortIds,
    /// Looking up and pooling rows of tables; items are ids.
    Lookup,
    /// Computing rows of tensor trains from their cores, and pooling them.
    TensorTrainForward,
    /// Summing gradients of rows of tensor trains, and bringing them to the cores.
    TensorTrainBackward,
    /// Looking up and pooling rows of tables, fused with the dot products of the vectors; items are ids.
    LookupDot,
    /// Bringing vectors into peer order, and back.
    Permute,
    /// Encoding the vectors of a leg into its wire format.
    Encode,
    /// Decoding the vectors of a leg from its wire format.
    Decode,
    /// Laying out vectors between the two levels of a hierarchical all-to-all.
    Regroup,
    /// Transposing features × peers into peers × features, and back.
    Transpose,
    /// Bringing vectors into the order of the interaction.
    RestoreOrder,
    /// Laying out the gradients of vectors by holder, for their exchange.
    SplitGradients,
    /// Forward pass of the bottom MLP.
    BottomForward,
    /// Backward pass of the bottom MLP.
    BottomBackward,
    /// Forward pass of dot products.
    DotForward,
    /// Backward pass of dot products.
    DotBackward,
    /// Forward pass of cross layers.
    CrossForward,
    /// Backward pass of cross layers.
    CrossBackward,
    /// Forward pass of the top MLP.
    TopForward,
    /// Backward pass of the top MLP.
    TopBackward,
    /// Forward pass of linear tower modules, as in DLRM.
    LinearTowersForward,
    /// Backward pass of linear tower modules.
    LinearTowersBackward,
    /// Forward pass of cross tower modules, as in DCN.
    CrossTowersForward,
    /// Backward pass of cross tower modules.
    CrossTowersBackward,
    /// Computing the loss and its gradient, or predictions; items are samples.
    Loss,
    /// Bringing the loss and predictions to the host, and counting the predictions.
    ReadBack,
    /// Backward pass of the lookup, fused with the optimizer of the tables; items are ids.
    UpdateTables,
    /// Backward pass of dot products and of the lookup, fused with the optimizer of the tables; items are ids.
    DotUpdate,
    /// Optimizer of the dense parameters.
    UpdateDense,
    /// Reading and writing rows of tables that are larger than memory.
    Storage,
}

impl Class {
    /// Classes of a block's forward and backward passes.
    pub(crate) fn of_block(name: BlockName, model: &Model) -> (Self, Self) {
        if name == BlockName::TOWERS {
            return match model.tower_module() {
                Module::Dcn { .. } => (Class::CrossTowersForward, Class::CrossTowersBackward),
                Module::None | Module::Dlrm { .. } => {
                    (Class::LinearTowersForward, Class::LinearTowersBackward)
                }
            };
        }
        let network = model.network();
        match &network.block(name).layers {
            Layers::Mlp(_) if network.runs_before_vectors(name) => {
                (Class::BottomForward, Class::BottomBackward)
            }
            // Both are matrix products over the samples of a rank, once vectors are there.
            Layers::Mlp(_) | Layers::Project(_) => (Class::TopForward, Class::TopBackward),
            // Both bring the vectors of a sample together, pair by pair.
            Layers::Dot { .. } | Layers::Fm { .. } => (Class::DotForward, Class::DotBackward),
            Layers::Cross { .. } => (Class::CrossForward, Class::CrossBackward),
            // Columns are copied and added, as vectors are brought into order.
            Layers::Sum { .. } => (Class::RestoreOrder, Class::SplitGradients),
        }
    }

    /// Amounts that decide how long a computation of the class takes: FLOPs, bytes, items.
    pub fn goes_by(self) -> [bool; 3] {
        match self {
            Class::BottomForward
            | Class::BottomBackward
            | Class::TensorTrainForward
            | Class::TensorTrainBackward
            | Class::DotForward
            | Class::DotBackward
            | Class::CrossForward
            | Class::CrossBackward
            | Class::TopForward
            | Class::TopBackward
            | Class::LinearTowersForward
            | Class::LinearTowersBackward
            | Class::CrossTowersForward
            | Class::CrossTowersBackward => [true, true, false],
            // A short row costs little more than to find it.
            Class::Lookup | Class::LookupDot | Class::UpdateTables | Class::DotUpdate => [false, true, true],
            Class::ReadAhead | Class::Loss => [false, false, true],
            Class::ReadBatch
            | Class::IndexIds
            | Class::SortIds
            | Class::Permute
            | Class::Encode
            | Class::Decode
            | Class::Regroup
            | Class::Transpose
            | Class::RestoreOrder
            | Class::SplitGradients
            | Class::ReadBack
            | Class::UpdateDense
            | Class::Storage => [false, true, false],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Class::ReadAhead => "read-ahead",
            Class::ReadBatch => "read-batch",
            Class::IndexIds => "index-ids",
            Class::SortIds => "sort-ids",
            Class::Lookup => "lookup",
            Class::TensorTrainForward => "tensor-train-forward",
            Class::TensorTrainBackward => "tensor-train-backward",
            Class::LookupDot => "lookup-dot",
            Class::Permute => "permute",
            Class::Encode => "encode",
            Class::Decode => "decode",
            Class::Regroup => "regroup",
            Class::Transpose => "transpose",
            Class::RestoreOrder => "restore-order",
            Class::SplitGradients => "split-gradients",
            Class::BottomForward => "bottom-forward",
            Class::BottomBackward => "bottom-backward",
            Class::DotForward => "dot-forward",
            Class::DotBackward => "dot-backward",
            Class::CrossForward => "cross-forward",
            Class::CrossBackward => "cross-backward",
            Class::TopForward => "top-forward",
            Class::TopBackward => "top-backward",
            Class::LinearTowersForward => "linear-towers-forward",
            Class::LinearTowersBackward => "linear-towers-backward",
            Class::CrossTowersForward => "cross-towers-forward",
            Class::CrossTowersBackward => "cross-towers-backward",
            Class::Loss => "loss",
            Class::ReadBack => "read-back",
            Class::UpdateTables => "update-tables",
            Class::DotUpdate => "dot-update",
            Class::UpdateDense => "update-dense",
            Class::Storage => "storage",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
