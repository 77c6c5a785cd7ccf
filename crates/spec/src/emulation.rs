//! Emulation of many nodes on one rank: each node has its share of the batch and dense gradients of its own, which are reduced by
//! the algorithm and the codec of the run, as the ranks of a cluster of that size would reduce them (Yang et al., 2020, §3).
//!
//! ```
//! use spec::emulation::Emulation;
//! let emulation = Emulation { nodes: 16, ..Emulation::default() };
//! assert_eq!((emulation.host_of(7), emulation.host_of(8)), (0, 1));
//! ```

use crate::model::Parameter;
use crate::run::RunError;
use crate::schedule::Bucket;
use crate::topology::Topology;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest number of nodes that one rank emulates.
const MOST: usize = 4096;

/// Emulation of the dense gradients of many nodes on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Emulation {
    /// Number of nodes, at least 2.
    pub nodes: usize,
    /// Number of nodes on a host; the last host may have fewer.
    pub nodes_per_host: usize,
    /// Layers whose gradients are reduced among the nodes.
    pub layers: EmulatedLayers,
}

/// Layers whose gradients are reduced among emulated nodes. The gradients of all other layers are those of the whole batch, in
/// f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EmulatedLayers {
    /// All layers.
    #[default]
    All,
    /// Layers whose number of outputs is a multiple of the number of nodes, each in a bucket of its own (Yang et al., §4).
    Divisible,
}

impl Default for Emulation {
    fn default() -> Self {
        Self { nodes: 2, nodes_per_host: 8, layers: EmulatedLayers::All }
    }
}

impl Emulation {
    /// Host of a node.
    pub fn host_of(&self, node: usize) -> usize {
        node / self.nodes_per_host
    }

    /// Host of each node.
    pub fn hosts(&self) -> Vec<usize> {
        (0..self.nodes).map(|node| self.host_of(node)).collect()
    }

    /// Cluster that is emulated; `None` where its hosts have different numbers of nodes.
    pub fn topology(&self) -> Option<Topology> {
        let per_host = self.nodes_per_host.min(self.nodes);
        let even = self.nodes.is_multiple_of(per_host);
        even.then(|| Topology::new(self.nodes / per_host, per_host).ok()).flatten()
    }

    /// Whether the gradients of a bucket are reduced among the nodes; `parameters` are those of the model.
    pub fn covers(&self, bucket: &Bucket, parameters: &[Parameter]) -> bool {
        let outputs = |&parameter: &usize| parameters[parameter].shape.first().copied().unwrap_or(1);
        match self.layers {
            EmulatedLayers::All => true,
            EmulatedLayers::Divisible => {
                bucket.parameters.iter().map(outputs).all(|outputs| outputs % self.nodes == 0)
            }
        }
    }
}

/// Section `[emulation]` of a config: nodes that one rank emulates, for experiments with the reductions of large clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EmulationConfig {
    /// Number of nodes that the only rank of the run emulates: dense gradients are computed for each node's share of the batch and
    /// reduced by `train.all_reduce` with the codec `wire.dense`. Default: 1, no emulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// Number of emulated nodes on a host. Default: 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_per_host: Option<usize>,
    /// Layers whose gradients are reduced among the nodes: `all`, or `divisible`, those whose number of outputs is a multiple of
    /// `nodes`. Default: `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<EmulatedLayers>,
}

impl EmulationConfig {
    /// Makes a config with every setting of an emulation written out.
    pub fn explicit(emulation: Option<Emulation>) -> Self {
        let Some(Emulation { nodes, nodes_per_host, layers }) = emulation else { return Self::default() };
        Self { nodes: Some(nodes), nodes_per_host: Some(nodes_per_host), layers: Some(layers) }
    }

    /// Whether the section says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the section; `None` where nothing is emulated.
    pub fn check(&self) -> Result<Option<Emulation>, RunError> {
        let refuse = |field: &str, problem: String| Err(RunError::new(format!("emulation.{field}"), problem));
        match self.nodes {
            Some(0) => return refuse("nodes", "0 nodes train nothing; use 1 for no emulation".into()),
            Some(nodes) if nodes > MOST => {
                return refuse("nodes", format!("one rank cannot emulate {nodes} nodes; use at most {MOST}"));
            }
            _ => {}
        }
        if self.nodes_per_host == Some(0) {
            return refuse("nodes_per_host", "a host has at least one node; use at least 1".into());
        }
        let nodes = self.nodes.unwrap_or(1);
        if nodes == 1 {
            if self.nodes_per_host.is_some() || self.layers.is_some() {
                return refuse(
                    "nodes",
                    "the section sets other keys, but emulates no nodes; use at least 2".into(),
                );
            }
            return Ok(None);
        }
        let Emulation { nodes_per_host, layers, .. } = Emulation::default();
        Ok(Some(Emulation {
            nodes,
            nodes_per_host: self.nodes_per_host.unwrap_or(nodes_per_host),
            layers: self.layers.unwrap_or(layers),
        }))
    }
}
