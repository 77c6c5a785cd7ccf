//! The backward pass: layers last to first, gradients of vectors, reductions, updates.

use super::super::layers::{Layer, LayerClass};
use super::super::{Convention, Frozen, TaskKind};
use super::{Build, Spread, UPDATE_BYTES};
use crate::step::{Compute, ComputeClass, Op, OperationName, Part, Work};
use spec::schedule::{CollectiveKind, Lane, PhaseId};

impl Build<'_> {
    pub(super) fn backward(&mut self, last: Vec<Option<PhaseId>>) {
        let frozen = match self.job.task {
            TaskKind::FineTuning(frozen) => frozen,
            _ => Frozen::default(),
        };
        let trained = |layer: &Layer| !layer.is_frozen(frozen);
        let first = self.operations.len();
        let has_tables = self.model.sparse.is_some();
        let embedding = has_tables && !frozen.embedding;
        // The loss needs all of the last layer: its sum, or what experts sent back.
        let predicted = self.summed.last().copied().flatten();
        self.computed.fill(None);
        self.summed.fill(None);
        let mut vectors = None;
        for i in (0..self.layers.len()).rev() {
            let layer = self.layers[i];
            if layer.class == LayerClass::Bottom && vectors.is_none() && embedding {
                vectors = Some(self.gradients_back(i + 1));
            }
            // What lies below it, and is trained: lower layers, and for all but the bottom the tables.
            let below =
                self.layers[..i].iter().any(trained) || (embedding && layer.class != LayerClass::Bottom);
            let below = below || self.job.task == TaskKind::PreTraining;
            let times = f64::from(u8::from(trained(&layer))) + f64::from(u8::from(below));
            if times > 0.0 {
                let before = self.summed.get(i + 1).copied().unwrap_or(predicted);
                self.layer(i, true, times, &[before, None], trained(&layer));
            }
        }
        if embedding {
            let exchange = vectors.unwrap_or_else(|| self.gradients_back(0));
            self.update_tables(exchange);
        }
        if self.convention == Convention::Pooled {
            let updated = self.update_dense(first, trained);
            // What the next step gathers first, and so all that queues behind it, is what this one has updated.
            let gathers =
                |op: &&mut Op| matches!(&op.work, Work::Transfer(t) if t.kind == CollectiveKind::AllGather);
            if let Some(gather) = self.operations[..first].iter_mut().find(gathers) {
                gather.after.push((updated, 1));
            }
        }
        // MAD-Max's backward pass begins when both forward streams have ended.
        if self.convention == Convention::MadMax {
            for lane in [Lane::Compute, Lane::Exchange] {
                if let Some(op) = self.operations[first..].iter_mut().find(|op| op.lane == lane) {
                    op.after.extend(last.iter().flatten().map(|&id| (id, 0)));
                }
            }
        }
    }

    /// Gradients of vectors go back to the tables, once layer `from` has been gone through.
    fn gradients_back(&mut self, from: usize) -> Option<PhaseId> {
        let ready = self.summed.get(from).copied().flatten();
        let Some((_, span)) = self.tables else { return ready };
        let name = (OperationName::of("gradients all-to-all"), Lane::Exchange, Part::GradientExchange);
        let bytes = self.vector_bytes();
        Some(self.collective(name, CollectiveKind::AllToAll, span, bytes, &[ready]))
    }

    fn update_tables(&mut self, exchange: Option<PhaseId>) {
        let shards = self.tables.map_or(1.0, |(level, _)| level.degree as f64);
        let samples = self.job.embedding_batch / shards;
        let looked_up = self.model.looked_up() * samples;
        // Of the rows that were looked up about half are distinct: these are read and written. A gradient is read for every
        // vector, which MAD-Max leaves out.
        let bytes = match self.convention {
            Convention::MadMax => looked_up,
            Convention::Pooled => looked_up + self.model.pooled() * samples,
        };
        let work = Work::Compute(Compute {
            class: ComputeClass::Embedding,
            flops: 0.0,
            bytes,
            operand: self.model.embedding_bytes,
        });
        let updated = self.push(
            OperationName::of("update tables"),
            Lane::Compute,
            Part::EmbeddingUpdate,
            &[exchange],
            work,
        );
        if let Some((_, span)) = self.replicas {
            let bytes = self.model.table_parameters() * self.model.embedding_bytes / shards;
            let name = (OperationName::of("tables all-reduce"), Lane::Gradients, Part::DenseExchange);
            self.collective(name, CollectiveKind::AllReduce, span, bytes, &[Some(updated)]);
        }
    }

    /// The update of all that is trained, when all reductions since `first` have ended.
    fn update_dense(&mut self, first: usize, trained: impl Fn(&Layer) -> bool) -> PhaseId {
        let of = |layer: &Layer| layer.parameters / self.spread(layer).shards;
        let parameters: f64 = self.layers.iter().filter(|layer| trained(layer)).map(of).sum();
        let bytes = UPDATE_BYTES * parameters;
        let reductions = self.operations[first..].iter().enumerate();
        let reductions = reductions
            .filter(|(_, op)| op.part == Part::DenseExchange)
            .map(|(i, _)| Some(PhaseId(first + i)));
        let reductions: Vec<Option<PhaseId>> = reductions.collect();
        let work = Work::Compute(Compute { class: ComputeClass::Other, flops: 0.0, bytes, operand: 4.0 });
        self.push(OperationName::of("update dense"), Lane::Compute, Part::DenseUpdate, &reductions, work)
    }

    /// The layer's gradient over its replicas.
    pub(super) fn reduce(
        &mut self,
        spread: &Spread,
        label: impl Fn(&'static str) -> OperationName,
        whole: f64,
        shard: f64,
        computed: PhaseId,
    ) {
        let name = |action| (label(action), Lane::Gradients, Part::DenseExchange);
        if let Some((level, span)) = spread.fsdp {
            let bytes = shard * level.degree as f64;
            self.collective(
                name("reduce-scatter"),
                CollectiveKind::ReduceScatter,
                span,
                bytes,
                &[Some(computed)],
            );
        }
        if let Some((_, span)) = spread.ddp {
            // MAD-Max reduces a layer whole, even where devices have only a shard of it.
            let bytes = if self.convention == Convention::MadMax { whole } else { shard };
            self.collective(name("all-reduce"), CollectiveKind::AllReduce, span, bytes, &[Some(computed)]);
        }
    }
}
