//! The flat step: ids to holders → lookup → pooled vectors back → bottom, interaction, top → the same in reverse.

use super::build::Build;
use super::*;

pub(super) fn build(mut build: Build) -> Schedule {
    build.lookup(&[Slot::Pooled]);
    build.depart(Leg::Pooled, Group::World, Slot::Pooled, Slot::Arrived);
    build.forward_before_vectors();
    // The next batch is read while the pooled vectors travel.
    build.read_ahead();
    build.arrive(Leg::Pooled, Slot::Arrived);
    build.network(&[Slot::Arrived, Slot::Pooled]);
    if build.task == Task::Evaluate {
        build.index_ahead();
        return build.finish();
    }

    build.depart(Leg::Gradient, Group::World, Slot::PooledGradient, Slot::ArrivedGradient);
    build.backward_before_vectors();
    // Sorting hides behind the gradient exchange.
    build.index_ahead();
    build.arrive(Leg::Gradient, Slot::ArrivedGradient);
    build.update_tables(&[Slot::ArrivedGradient]);
    build.update_dense(false);
    build.finish()
}
