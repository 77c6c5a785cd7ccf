//! Steps that train a part of a model: what nobody needs is left out.

use super::{Operation, Phase, Schedule, Slot, dependencies};
use crate::model::{Block, BlockName, Layers};
use crate::schedule::Part;
use crate::volume::Quantity;
use std::collections::HashSet;

/// Parameters that a step leaves as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrozenParameters {
    /// Blocks of the network whose weights stay; [`BlockName::TOWERS`] for tower modules.
    pub blocks: Vec<BlockName>,
    /// Whether the tables stay, and the cores of tensor trains.
    pub tables: bool,
}

impl Schedule {
    /// Leaves gradients, reductions and updates of what is frozen out of a training step, and what only these need. The backward pass
    /// goes through a frozen block where something below it learns, and costs one half: the gradient of its inputs. Where nothing
    /// below an MLP learns, its first layer has no gradient of inputs.
    ///
    /// Phases that are fused of others are left as they are: freeze tables in a step that is not fused.
    ///
    /// The simulator prices such steps; the trainer does not execute them, since its backward passes compute both gradients.
    pub fn with_frozen(mut self, frozen: &FrozenParameters) -> Self {
        let mut phases = std::mem::take(&mut self.phases);
        let stays = |block: BlockName| frozen.blocks.contains(&block);
        // Buckets that some layer that learns puts a gradient into.
        let mut learning = HashSet::new();
        for phase in &mut phases {
            let of_weights = |slot: &Slot| matches!(slot, Slot::BucketGradient(_));
            let block = match phase.operation() {
                Some(Operation::Backward(block, _)) => *block,
                Some(Operation::TensorTrainGradients(_)) if frozen.tables => {
                    phase.writes.clear();
                    continue;
                }
                Some(Operation::TensorTrainGradients(_)) => {
                    learning.extend(phase.writes.iter().copied());
                    continue;
                }
                _ => continue,
            };
            if stays(block) && phase.writes.iter().any(of_weights) {
                phase.writes.retain(|slot| !of_weights(slot));
                phase.cost.flops = phase.cost.flops.clone().halved();
            }
            learning.extend(phase.writes.iter().copied().filter(of_weights));
        }
        for phase in &mut phases {
            if let Some(Operation::GradientNorm | Operation::TowerNorm) = phase.operation() {
                let towers = Slot::BucketGradient(self.buckets.len());
                phase.reads.retain(|slot| match slot {
                    Slot::BucketGradient(_) => learning.contains(slot),
                    Slot::TowerNorm => learning.contains(&towers),
                    _ => true,
                });
            }
        }
        let begins = |phase: &Phase| match phase.operation() {
            Some(Operation::UpdateDense(bucket)) => learning.contains(&Slot::BucketGradient(*bucket)),
            Some(
                Operation::UpdateTables
                | Operation::UpdateInPlace
                | Operation::DotUpdate(_)
                | Operation::UpdateCopies(_),
            ) => !frozen.tables,
            Some(Operation::Loss | Operation::ReadBack | Operation::Predict) => true,
            _ => matches!(
                self.part(phase),
                Part::Lookup | Part::VectorExchange | Part::BottomForward | Part::TopForward
            ),
        };
        // Last to first: a phase is needed if it is the aim of a step, or if something needed reads what it writes. Weights are there
        // without a phase that changes them.
        let state = |slot: &Slot| matches!(slot, Slot::Tables | Slot::Parameters(_));
        let mut read: HashSet<Slot> = HashSet::new();
        let mut needed = vec![false; phases.len()];
        // What works ahead is issued behind the phases that read it a step later: twice through finds these readers.
        for _ in 0..2 {
            for (phase, needed) in phases.iter().zip(&mut needed).rev() {
                *needed |= begins(phase) || phase.writes.iter().any(|slot| read.contains(slot));
                if *needed {
                    read.extend(phase.reads.iter().copied().filter(|slot| !state(slot)));
                }
            }
        }
        for i in 0..phases.len() {
            let Some(Operation::Backward(block, layers)) = phases[i].operation() else { continue };
            let first = match self.deployment.model.network().blocks().iter().find(|b| b.name == *block) {
                Some(Block { layers: Layers::Mlp(mlp), .. }) if layers.start == 0 => mlp.first(),
                _ => None,
            };
            let Some(first) = first.filter(|first| first.input_gradient) else { continue };
            let passed_on = |slot: &Slot| {
                let reads = |(phase, needed): (&Phase, &bool)| {
                    let same = phase.operation().and_then(Operation::block) == Some(*block);
                    *needed && !same && phase.reads.contains(slot)
                };
                !matches!(slot, Slot::BucketGradient(_))
                    && phases[i + 1..].iter().zip(&needed[i + 1..]).any(reads)
            };
            if !phases[i].writes.iter().any(passed_on) {
                let whole = phases[i].cost.flops.clone();
                phases[i].cost.flops = whole.less(first.forward_flops(), Quantity::Samples);
            }
        }
        let mut keep = needed.into_iter();
        phases.retain(|_| keep.next().unwrap_or(false));
        dependencies::derive(&mut phases);
        self.phases = phases;
        self
    }

    /// Whether the step changes the tables.
    pub fn trains_tables(&self) -> bool {
        let changes = |phase: &Phase| {
            phase.writes.contains(&Slot::Tables) && phase.operation() != Some(&Operation::PlaceRows)
        };
        self.phases.iter().any(changes)
    }

    /// Whether the step changes a bucket; the one behind those of the network is that of the towers.
    pub fn trains_bucket(&self, bucket: usize) -> bool {
        self.phases.iter().any(|phase| phase.operation() == Some(&Operation::UpdateDense(bucket)))
    }
}
