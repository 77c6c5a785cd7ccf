//! The backward pass: layers last to first, gradients of vectors, reductions, updates.

use super::super::Convention;
use super::super::layers::{Layer, LayerClass};
use super::{Build, Pass, Spread, UPDATE_BYTES};
use crate::step::{Compute, ComputeClass, OperationName, Part, Work};
use spec::schedule::{CollectiveKind, Lane, PhaseId};

impl Build<'_> {
    pub(super) fn backward(&mut self, last: Vec<Option<PhaseId>>) {
        let frozen = self.job.frozen();
        let trained = |layer: &Layer| !layer.is_frozen(frozen);
        let first = self.operations.len();
        let embedding = self.model.sparse.is_some() && !frozen.embedding;
        // The loss needs all of the last layer: its sum, or what experts sent back.
        let predicted = self.summed.last().copied().flatten();
        let mut computed = self.computed.iter().rev().copied();
        let [last_computed, one_before] = [0, 1].map(|_| computed.next().flatten());
        let times = |i| self.job.backward_times(self.model, &self.layers, i);
        let times: Vec<f64> = (0..self.layers.len()).map(times).collect();
        // What nothing below needs is left out: the first layers, if any.
        let layers: Vec<usize> = (0..self.layers.len()).rev().filter(|&i| times[i] > 0.0).collect();
        let pass = Pass { backward: true, layers, before: [one_before, last_computed] };
        self.computed.fill(None);
        self.summed.fill(None);
        self.gathered.fill(None);
        let mut vectors = None;
        for (at, &i) in pass.layers.iter().enumerate() {
            let layer = self.layers[i];
            if layer.class == LayerClass::Bottom && vectors.is_none() && embedding {
                vectors = Some(self.gradients_back(i + 1));
            }
            let before = self.summed.get(i + 1).copied().unwrap_or(predicted);
            self.layer(&pass, at, times[i], &[before, None], trained(&layer));
        }
        if embedding {
            let lowest = self.layers.iter().position(|layer| layer.class != LayerClass::Bottom);
            let exchange = vectors.unwrap_or_else(|| self.gradients_back(lowest.unwrap_or(0)));
            self.update_tables(exchange);
        }
        if self.convention == Convention::Pooled {
            let updated = self.update_dense(first, trained);
            // What the next step gathers first, and so all that queues behind it, is what this one has updated.
            if let Some(gather) = self.operations[..first].iter_mut().find(|op| op.gathers()) {
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

    /// Gradients of vectors go back to the tables, once layer `from` has been gone through; replicas reduce those of the rows that
    /// were looked up.
    fn gradients_back(&mut self, from: usize) -> Option<PhaseId> {
        let mut ready = self.summed.get(from).copied().flatten();
        if let Some((_, span)) = self.tables {
            let name = (OperationName::of("gradients all-to-all"), Lane::Exchange, Part::GradientExchange);
            let bytes = self.vector_bytes();
            ready = Some(self.collective(name, CollectiveKind::AllToAll, span, bytes, &[ready]));
        }
        if let Some((level, span)) = self.replicas {
            let touched = self.looked_up();
            let bytes = match self.convention {
                Convention::MadMax => touched,
                // Replicas look up rows of their own: together they touch at most all of the table.
                Convention::Pooled => {
                    self.model.replicated_gradient(self.job).min(level.degree as f64 * touched)
                }
            };
            let name = (OperationName::of("rows all-reduce"), Lane::Gradients, Part::GradientExchange);
            ready = Some(self.collective(name, CollectiveKind::AllReduce, span, bytes, &[ready]));
        }
        ready
    }

    fn update_tables(&mut self, exchange: Option<PhaseId>) {
        let looked_up = self.looked_up();
        // Of the rows that were looked up about half are distinct: these are read and written. A gradient is read for every
        // vector, which MAD-Max leaves out.
        let bytes = match self.convention {
            Convention::MadMax => looked_up,
            Convention::Pooled => looked_up + self.model.pooled() * self.job.per_device,
        };
        let work = Work::Compute(Compute {
            class: ComputeClass::Embedding,
            flops: 0.0,
            bytes,
            operand: self.model.embedding_bytes,
        });
        self.push(
            OperationName::of("update tables"),
            Lane::Compute,
            Part::EmbeddingUpdate,
            &[exchange],
            work,
        );
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
    pub(super) fn reduce(&mut self, layer: &Layer, spread: &Spread, computed: PhaseId) {
        let whole = layer.parameters * self.model.dense_bytes;
        let shard = whole / spread.shards;
        let name = |action| (layer.label(action), Lane::Gradients, Part::DenseExchange);
        if let Some((level, span)) = spread.fsdp {
            let bytes = shard * level.degree as f64;
            let kind = CollectiveKind::ReduceScatter;
            self.collective(name("reduce-scatter"), kind, span, bytes, &[Some(computed)]);
        }
        if let Some((_, span)) = spread.ddp {
            // MAD-Max reduces what the levels above have left of a layer, even where devices have only a shard of that.
            let bytes = match self.convention {
                Convention::MadMax => whole / spread.shards_above_ddp,
                Convention::Pooled => shard,
            };
            self.collective(name("all-reduce"), CollectiveKind::AllReduce, span, bytes, &[Some(computed)]);
        }
    }
}
