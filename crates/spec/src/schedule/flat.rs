//! The flat step: ids to holders → lookup → pooled vectors back → bottom, interaction, top → the same in reverse.

use super::build::Build;
use super::fused::Fused;
use super::*;

pub(super) fn build(mut build: Build) -> Schedule {
    let sums = build.deployment.sums();
    let mut pooled = vec![Slot::Pooled];
    pooled.extend(sums.then_some(Slot::Partial));
    let copied = build.copied();
    pooled.extend(copied.then_some(Slot::CopyPooled));
    build.lookup(&pooled);
    // Vectors that are never written out do not travel.
    let travels = build.fused == Fused::Nothing;
    if travels {
        build.depart(Leg::Pooled, Group::World, Slot::Pooled, Slot::Arrived);
    }
    if sums {
        build.sum_partials("world sums", Group::World, Slot::Partial);
    }
    build.lookup_tensor_trains();
    build.forward_before_vectors();
    // The next batch is read while the pooled vectors travel.
    build.read_ahead();
    if travels {
        build.arrive(Leg::Pooled, Slot::Arrived);
    }
    let mut arrived = vec![Slot::Arrived, Slot::Pooled];
    arrived.extend(sums.then_some(Slot::Summed));
    arrived.extend(copied.then_some(Slot::CopyPooled));
    let mut laid_out = vec![Slot::PooledGradient];
    laid_out.extend(sums.then_some(Slot::SummedGradient));
    laid_out.extend(copied.then_some(Slot::CopyGradient));
    build.network(&arrived, &laid_out);
    if build.task == Task::Evaluate {
        build.index_ahead();
        return build.finish();
    }

    if travels {
        build.depart(Leg::Gradient, Group::World, Slot::PooledGradient, Slot::ArrivedGradient);
    }
    if sums {
        build.gather_sum_gradients("world gather", Group::World, Slot::ArrivedSumGradient);
    }
    build.sum_copies();
    build.tensor_train_gradients();
    build.backward_before_vectors();
    // Sorting hides behind the gradient exchange.
    build.index_ahead();
    if travels {
        build.arrive(Leg::Gradient, Slot::ArrivedGradient);
    }
    let mut gradients = vec![Slot::ArrivedGradient];
    gradients.extend(sums.then_some(Slot::ArrivedSumGradient));
    build.update_tables(&gradients);
    build.update_copies();
    build.update_dense(false);
    build.finish()
}
