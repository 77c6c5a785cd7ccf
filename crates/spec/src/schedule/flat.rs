//! The flat step: ids to holders → lookup → pooled vectors back → bottom, interaction, top → the same in reverse.

use super::build::{Build, WORD, world};
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
    build.network(&[Slot::Arrived, Slot::Pooled]);
    if task == Task::Evaluate {
        build.index_ahead();
        return build.finish();
    }

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
