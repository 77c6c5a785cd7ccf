//! Builds the flat step: ids to holders → lookup → pooled vectors back → bottom, interaction, top → the same in reverse.

use super::*;
use crate::feature::Hotness;
use crate::model::Parameter;
use crate::volume::{Item, Quantity};

/// Bytes of an id, a length or a float on the wire.
const WORD: u64 = 4;
/// Parameters of a bucket begin at multiples of this many floats: a cache line.
const ALIGN: usize = 16;

pub(super) fn build(model: &Model, placement: &Placement, task: Task, bucket_bytes: usize) -> Schedule {
    let mut build = Build { phases: Vec::new() };
    let network = model.network();
    let parameters = network.parameters();
    let buckets = buckets(&parameters, bucket_bytes);
    let train = task == Task::Train;
    let variable = model.features().iter().any(|f| f.hotness != Hotness::One);
    let has_bottom = !network.bottom.is_empty();

    // Input of the next batch is issued between the phases of this one, where its exchanges have something to hide
    // behind; each entry is pushed where the comment says.
    let read = Phase {
        cost: Cost { flops: Volume::none(), memory: Volume::of(2 * WORD, Quantity::Ids) },
        ..compute("read batch", Operation::ReadBatch, &[], &[Slot::Batch])
    };
    let index = Phase {
        cost: Cost { flops: Volume::none(), memory: Volume::of(2 * WORD, Quantity::HeldIds) },
        ..compute("index ids", Operation::IndexIds, &index_reads(variable), &[Slot::Index])
    };
    let sort = Phase {
        cost: Cost { flops: Volume::none(), memory: Volume::of(4 * WORD, Quantity::HeldIds) },
        ..compute("sort ids", Operation::SortIds, &[Slot::Ids, Slot::Index], &[Slot::Sorted])
    };

    let mut lookup_reads = vec![Slot::Ids, Slot::Index, Slot::Tables];
    lookup_reads.extend(model.weighted().then_some(Slot::Weights));
    build.push(Phase {
        // Every row is read once per id, every pooled vector written once.
        cost: Cost {
            flops: Volume::of(1, Quantity::LookedUpRows),
            memory: Volume::of(WORD, Quantity::LookedUpRows).and(WORD, Quantity::LookedUpVectors),
        },
        ..compute("lookup", Operation::Lookup, &lookup_reads, &[Slot::Pooled])
    });
    build.push(exchange(
        "pooled exchange",
        Traffic::ToSamples { item: Item::Vector, bytes: WORD },
        Slot::Pooled,
        Slot::Arrived,
    ));
    if has_bottom {
        build.push(forward(network, Block::Bottom, &buckets, &parameters));
    }
    // The next batch is read while the pooled vectors travel.
    build.push_ahead(read);
    if variable {
        let traffic = Traffic::ToHolders { item: Item::Length, bytes: WORD };
        build.push_ahead(exchange("lengths exchange", traffic, Slot::Batch, Slot::Lengths));
    }
    let mut vectors = vec![Slot::Arrived, Slot::Pooled];
    vectors.extend(has_bottom.then_some(Slot::Output(Block::Bottom)));
    build.push(Phase {
        cost: Cost {
            flops: Volume::none(),
            memory: Volume::of(2 * WORD * network.interaction.input_width() as u64, Quantity::Samples),
        },
        ..compute("restore order", Operation::RestoreOrder, &vectors, &[Slot::Features])
    });
    build.push(forward(network, Block::Interaction, &buckets, &parameters));
    // Ids travel beside the top MLP, when their lengths are known.
    let traffic = Traffic::ToHolders { item: Item::Id, bytes: WORD };
    let mut ids = exchange("ids exchange", traffic, Slot::Batch, Slot::Ids);
    ids.reads.extend(variable.then_some(Slot::Lengths));
    build.push_ahead(ids);
    if model.weighted() {
        let traffic = Traffic::ToHolders { item: Item::Weight, bytes: WORD };
        let mut weights = exchange("weights exchange", traffic, Slot::Batch, Slot::Weights);
        weights.reads.extend(variable.then_some(Slot::Lengths));
        build.push_ahead(weights);
    }
    build.push(forward(network, Block::Top, &buckets, &parameters));
    if !train {
        build.push(compute("predict", Operation::Predict, &[Slot::Output(Block::Top)], &[Slot::Predictions]));
        build.push_ahead(index);
        return finish(model, placement, task, buckets, build);
    }

    let logits = [Slot::Output(Block::Top), Slot::Batch];
    build.push(compute("loss", Operation::Loss, &logits, &[Slot::Gradient(Block::Top)]));
    backward(&mut build, network, Block::Top, &buckets, &parameters);
    backward(&mut build, network, Block::Interaction, &buckets, &parameters);
    let features = [Slot::Gradient(Block::Interaction)];
    let mut split = vec![Slot::PooledGradient];
    split.extend(has_bottom.then_some(Slot::Gradient(Block::Bottom)));
    build.push(Phase {
        cost: Cost {
            flops: Volume::none(),
            memory: Volume::of(2 * WORD * network.interaction.input_width() as u64, Quantity::Samples),
        },
        ..compute("split gradients", Operation::SplitGradients, &features, &split)
    });
    build.push(exchange(
        "gradient exchange",
        Traffic::ToHolders { item: Item::Vector, bytes: WORD },
        Slot::PooledGradient,
        Slot::ArrivedGradient,
    ));
    if has_bottom {
        backward(&mut build, network, Block::Bottom, &buckets, &parameters);
    }
    // Sorting hides behind the gradient exchange.
    build.push_ahead(index);
    build.push_ahead(sort);
    let mut update = vec![Slot::ArrivedGradient, Slot::Sorted, Slot::Index, Slot::Tables];
    update.extend(model.weighted().then_some(Slot::Weights));
    build.push(Phase {
        // Every gradient is read once per id, every row read and written once.
        cost: Cost {
            flops: Volume::of(2, Quantity::HeldRows),
            memory: Volume::of(3 * WORD, Quantity::HeldRows),
        },
        ..compute("update tables", Operation::UpdateTables, &update, &[Slot::Tables])
    });
    for (i, bucket) in buckets.iter().enumerate() {
        build.push(Phase {
            cost: Cost {
                flops: Volume::of(2 * bucket.elements as u64, Quantity::Step),
                memory: Volume::of(3 * WORD * bucket.elements as u64, Quantity::Step),
            },
            ..compute(
                &format!("update bucket {i}"),
                Operation::UpdateDense(i),
                &[Slot::BucketGradient(i), Slot::Parameters(i)],
                &[Slot::Parameters(i)],
            )
        });
    }
    finish(model, placement, task, buckets, build)
}

fn index_reads(variable: bool) -> Vec<Slot> {
    if variable { vec![Slot::Ids, Slot::Lengths] } else { vec![Slot::Ids] }
}

/// Layers in the order in which backward finishes their gradients, cut into runs of about `bytes`. A bucket never spans
/// two blocks, a layer never two buckets; inside a layer the matrix comes before the bias.
fn buckets(parameters: &[Parameter], bytes: usize) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut block = None;
    let mut end = parameters.len();
    for layer in parameters.chunk_by(|a, b| a.owner == b.owner).rev() {
        let first = end - layer.len();
        let full = buckets.last().is_none_or(|b| b.elements * WORD as usize >= bytes);
        if full || block != Some(layer[0].owner.0) {
            buckets.push(Bucket { parameters: Vec::new(), starts: Vec::new(), elements: 0 });
        }
        block = Some(layer[0].owner.0);
        let bucket = buckets.last_mut().expect("the first layer opens a bucket");
        for (i, parameter) in layer.iter().enumerate() {
            bucket.parameters.push(first + i);
            bucket.starts.push(bucket.elements);
            bucket.elements += parameter.len.next_multiple_of(ALIGN);
        }
        end = first;
    }
    buckets
}

/// Buckets of a block, with the layers whose gradients they hold.
fn block_buckets(buckets: &[Bucket], parameters: &[Parameter], block: Block) -> Vec<(usize, Range<usize>)> {
    buckets
        .iter()
        .enumerate()
        .filter_map(|(i, bucket)| {
            let layers = bucket.parameters.iter().map(|&p| parameters[p].owner).filter(|o| o.0 == block);
            let (first, last) = (layers.clone().map(|o| o.1).min()?, layers.map(|o| o.1).max()?);
            Some((i, first..last + 1))
        })
        .collect()
}

fn forward(
    network: &crate::model::Network,
    block: Block,
    buckets: &[Bucket],
    parameters: &[Parameter],
) -> Phase {
    let mut reads = vec![match block {
        Block::Bottom => Slot::Batch,
        Block::Interaction => Slot::Features,
        Block::Top => Slot::Output(Block::Interaction),
    }];
    reads.extend(block_buckets(buckets, parameters, block).iter().map(|(i, _)| Slot::Parameters(*i)));
    Phase {
        cost: Cost {
            flops: Volume::of(network.forward_flops(block), Quantity::Samples),
            memory: Volume::none(),
        },
        ..compute(&format!("{block} forward"), Operation::Forward(block), &reads, &[Slot::Output(block)])
    }
}

/// The backward phases of a block, one per bucket, each followed by the reduction of its bucket.
fn backward(
    build: &mut Build,
    network: &crate::model::Network,
    block: Block,
    buckets: &[Bucket],
    parameters: &[Parameter],
) {
    let parts = block_buckets(buckets, parameters, block);
    if parts.is_empty() {
        // The dot interaction has no parameters.
        let layers = 0..network.layers(block);
        build.push(backward_phase(network, block, layers, format!("{block} backward"), None));
    }
    let many = parts.len() > 1;
    for (bucket, layers) in parts {
        let name = match many {
            true if layers.len() == 1 => format!("{block} backward {}", layers.start),
            true => format!("{block} backward {}-{}", layers.start, layers.end - 1),
            false => format!("{block} backward"),
        };
        build.push(backward_phase(network, block, layers, name, Some(bucket)));
        let elements = buckets[bucket].elements;
        build.push(Phase {
            name: format!("reduce bucket {bucket}"),
            work: Work::Collective(Collective {
                kind: CollectiveKind::AllReduce,
                group: Group::World,
                traffic: Traffic::AllReduce { elements, bytes: WORD },
            }),
            lane: Lane::Gradients,
            ahead: false,
            after: Vec::new(),
            reads: vec![Slot::BucketGradient(bucket)],
            writes: vec![Slot::BucketGradient(bucket)],
            cost: Cost::default(),
        });
    }
}

fn backward_phase(
    network: &crate::model::Network,
    block: Block,
    layers: Range<usize>,
    name: String,
    bucket: Option<usize>,
) -> Phase {
    let input = match block {
        Block::Bottom => Slot::Batch,
        Block::Interaction => Slot::Features,
        Block::Top => Slot::Output(Block::Interaction),
    };
    let mut reads = vec![Slot::Gradient(block), Slot::Output(block), input];
    let mut writes = match block {
        Block::Bottom => vec![Slot::Gradient(Block::Bottom)],
        Block::Interaction => vec![Slot::Gradient(Block::Interaction)],
        // The last of the top MLP's backward phases leaves the gradient of the interaction's output.
        Block::Top if layers.start == 0 => {
            vec![Slot::Gradient(Block::Top), Slot::Gradient(Block::Interaction)]
        }
        Block::Top => vec![Slot::Gradient(Block::Top)],
    };
    if let Some(bucket) = bucket {
        reads.push(Slot::Parameters(bucket));
        writes.push(Slot::BucketGradient(bucket));
    }
    let flops = network.backward_flops(block, layers.clone());
    Phase {
        cost: Cost { flops: Volume::of(flops, Quantity::Samples), memory: Volume::none() },
        ..compute(&name, Operation::Backward(block, layers), &reads, &writes)
    }
}

fn compute(name: &str, operation: Operation, reads: &[Slot], writes: &[Slot]) -> Phase {
    Phase {
        name: name.into(),
        work: Work::Compute(operation),
        lane: Lane::Compute,
        ahead: false,
        after: Vec::new(),
        reads: reads.to_vec(),
        writes: writes.to_vec(),
        cost: Cost::default(),
    }
}

fn exchange(name: &str, traffic: Traffic, from: Slot, to: Slot) -> Phase {
    Phase {
        name: name.into(),
        work: Work::Collective(Collective { kind: CollectiveKind::AllToAll, group: Group::World, traffic }),
        lane: Lane::Exchange,
        ahead: false,
        after: Vec::new(),
        reads: vec![from],
        writes: vec![to],
        cost: Cost::default(),
    }
}

struct Build {
    phases: Vec<Phase>,
}

impl Build {
    fn push(&mut self, phase: Phase) {
        self.phases.push(phase);
    }

    fn push_ahead(&mut self, phase: Phase) {
        self.phases.push(Phase { ahead: true, ..phase });
    }
}

/// Derives the dependencies from what phases read and write.
///
/// A phase waits for the last writer of what it reads, and for the readers and the writer of what it overwrites. What
/// the ahead phases write is double-buffered, so a phase of batch i depends on the ahead phases of step i − 1, and an
/// ahead phase waits for the readers of two batches ago, which the writer of the batch between has already done.
fn finish(model: &Model, placement: &Placement, task: Task, buckets: Vec<Bucket>, build: Build) -> Schedule {
    let mut phases = build.phases;
    let count = phases.len();
    for i in 0..count {
        let mut after: Vec<(PhaseId, Distance)> = Vec::new();
        let mut add = |id: usize, distance: Distance| {
            if (id, distance) != (i, 0) && !after.contains(&(PhaseId(id), distance)) {
                after.push((PhaseId(id), distance));
            }
        };
        let phase = &phases[i];
        for slot in &phase.reads {
            // The nearest writer before this phase: in this step, or else in the step before.
            let writer = |range: Range<usize>| {
                range.rev().find(|&j| phases[j].writes.contains(slot) && (!phases[j].ahead || phase.ahead))
            };
            if let Some(j) = writer(0..i) {
                add(j, 0);
            } else if let Some(j) = (0..count).rev().find(|&j| phases[j].writes.contains(slot)) {
                add(j, 1);
            }
        }
        for slot in &phase.writes {
            // Whoever still reads the old value must be done. What an ahead phase writes is double-buffered: its old value
            // is that of two batches ago, read in the step before this one.
            for (j, reader) in phases.iter().enumerate().filter(|(_, p)| p.reads.contains(slot)) {
                if j < i && reader.ahead == phase.ahead {
                    add(j, 0);
                }
                if !reader.ahead && (phase.ahead || j >= i) {
                    add(j, 1);
                }
            }
        }
        phases[i].after = prune(after, &phases, i);
    }
    Schedule { model: model.clone(), placement: placement.clone(), task, buckets, phases }
}

/// Drops dependencies that another one already implies, so that the printed list says what matters.
fn prune(after: Vec<(PhaseId, Distance)>, phases: &[Phase], of: usize) -> Vec<(PhaseId, Distance)> {
    // Phases before `of` already have their dependencies; those of distance 1 at or after it do not yet.
    let implied = |target: (PhaseId, Distance), by: (PhaseId, Distance)| {
        let mut open = vec![by];
        let mut seen = Vec::new();
        while let Some((id, distance)) = open.pop() {
            if id.0 >= of && distance > 0 {
                continue;
            }
            for &(next, more) in &phases[id.0].after {
                let next = (next, distance + more);
                if next == target {
                    return true;
                }
                if next.1 <= target.1 && !seen.contains(&next) {
                    seen.push(next);
                    open.push(next);
                }
            }
        }
        false
    };
    let mut kept: Vec<(PhaseId, Distance)> = after
        .iter()
        .copied()
        .filter(|&target| !after.iter().any(|&by| by != target && implied(target, by)))
        .collect();
    kept.sort_by_key(|&(id, distance)| (distance, id));
    kept
}
