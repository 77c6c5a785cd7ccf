//! Parts of a step.

/// Parts of a step, as Equation 1 of the Neo paper names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Reading samples, laying out their ids and sending these to the holders of tables.
    Input,
    /// Looking up and pooling embeddings.
    Lookup,
    /// Exchange of pooled vectors, from the holders of tables to the samples.
    VectorExchange,
    /// Forward pass of the bottom MLP.
    BottomForward,
    /// Forward pass from vectors to the prediction: tower modules, interaction, transformer layers, top MLP.
    TopForward,
    /// Backward pass of tower modules, interaction, transformer layers and top MLP.
    TopBackward,
    /// Backward pass of the bottom MLP.
    BottomBackward,
    /// Exchange of the gradients of pooled vectors, from the samples to the holders of tables.
    GradientExchange,
    /// Backward pass of the lookup together with the update of the tables.
    EmbeddingUpdate,
    /// Exchange of dense parameters and of their gradients.
    DenseExchange,
    /// Update of dense parameters.
    DenseUpdate,
}
