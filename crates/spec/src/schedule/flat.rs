//! The flat step: ids to holders → lookup → pooled vectors back → bottom, interaction, top → the same in reverse.

use super::build::{Build, WORD, compute, world};
use super::*;
use crate::volume::Item;

pub(super) fn build(deployment: &Deployment, task: Task, bucket_bytes: usize) -> Schedule {
    let mut build = Build::new(deployment, task, bucket_bytes);
    build.lookup(&[Slot::Pooled]);
    let traffic = Traffic::ToSamples { item: Item::Vector, bytes: WORD };
    build.push(world("pooled exchange", traffic, Slot::Pooled, Slot::Arrived));
    if build.has_bottom() {
        build.forward(Block::Bottom);
    }
    // The next batch is read while the pooled vectors travel.
    build.read_ahead();
    build.restore_order(&[Slot::Arrived, Slot::Pooled]);
    build.forward(Block::Interaction);
    // Ids travel beside the top MLP.
    build.ids_ahead();
    build.forward(Block::Top);
    if task == Task::Evaluate {
        build.push(compute("predict", Operation::Predict, &[Slot::Output(Block::Top)], &[Slot::Predictions]));
        build.index_ahead();
        return build.finish();
    }

    let logits = [Slot::Output(Block::Top), Slot::Batch];
    build.push(compute("loss", Operation::Loss, &logits, &[Slot::Gradient(Block::Top)]));
    build.backward(Block::Top);
    build.backward(Block::Interaction);
    build.split_gradients();
    let traffic = Traffic::ToHolders { item: Item::Vector, bytes: WORD };
    build.push(world("gradient exchange", traffic, Slot::PooledGradient, Slot::ArrivedGradient));
    if build.has_bottom() {
        build.backward(Block::Bottom);
    }
    // Sorting hides behind the gradient exchange.
    build.index_ahead();
    build.update_tables(&[Slot::ArrivedGradient]);
    build.update_dense();
    build.finish()
}
