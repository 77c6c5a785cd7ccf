//! Builds the operations of a step on one device, from a model, a system and a task.

mod backward;

use super::layers::{Layer, LayerClass};
use super::strategy::{Level, LevelSpan};
use super::{Convention, Job, LayerGroup, Layered, Parallel, Strategy, TaskKind, WorkloadError};
use crate::step::{Compute, ComputeClass, Op, OperationName, Part, Period, StepGraph, Transfer, Work};
use crate::system::System;
use spec::schedule::{CollectiveKind, Distance, Lane, PhaseId};

/// Bytes of an id on the wire.
const ID_BYTES: f64 = 4.0;
/// Bytes of memory that an update of a dense parameter touches: weight, gradient and Adam's two moments are read, all but the
/// gradient written.
const UPDATE_BYTES: f64 = 28.0;

impl Job {
    /// One step of this job.
    pub fn step(
        &self,
        model: &Layered,
        system: &System,
        convention: Convention,
    ) -> Result<StepGraph, WorkloadError> {
        self.strategies.check(system)?;
        self.loads.check(system)?;
        if convention == Convention::MadMax {
            self.strategies.check_madmax()?;
        }
        let layers = model.layers(convention);
        let spread = |group| Spread::new(self.strategies.of(group), self.batch(group), system);
        let tables = &self.strategies.embedding;
        let build = Build {
            model,
            job: self,
            convention,
            bottom: spread(LayerGroup::Bottom),
            top: spread(LayerGroup::Top),
            experts: spread(LayerGroup::Experts),
            transformer: spread(LayerGroup::Transformer),
            tables: tables.span(|parallel| parallel == Parallel::Mp, system),
            replicas: tables.span(|parallel| parallel == Parallel::Ddp, system),
            world: LevelSpan { members: system.devices(), nodes: system.nodes },
            // Few models have more, and then it grows.
            operations: Vec::with_capacity(8 * layers.len() + 8),
            computed: vec![None; layers.len()],
            summed: vec![None; layers.len()],
            gathered: vec![None; layers.len()],
            ids: None,
            layers,
        };
        let period = match convention {
            Convention::MadMax => Period::Once,
            Convention::Pooled => Period::Steady,
        };
        Ok(StepGraph { samples: self.samples(system), period, operations: build.operations() })
    }
}

/// Parallelism of a class of layers.
#[derive(Clone, Copy)]
struct Spread {
    ddp: Option<(Level, LevelSpan)>,
    fsdp: Option<(Level, LevelSpan)>,
    tp: Option<(Level, LevelSpan)>,
    shards: f64,
    /// Of these, the shards that levels above DDP make.
    shards_above_ddp: f64,
    batch: f64,
}

impl Spread {
    fn new(strategy: &Strategy, batch: f64, system: &System) -> Self {
        let is_ddp = |parallel| parallel == Parallel::Ddp;
        Self {
            ddp: strategy.span(is_ddp, system),
            fsdp: strategy.span(Parallel::is_fsdp, system),
            tp: strategy.span(|parallel| parallel == Parallel::Tp, system),
            shards: strategy.shards() as f64,
            shards_above_ddp: strategy.shards_above(is_ddp) as f64,
            batch,
        }
    }

    /// Whether its layers are gathered early.
    fn prefetches(&self) -> bool {
        self.fsdp.is_some_and(|(level, _)| level.parallel == Parallel::FsdpPrefetch)
    }

    fn tp_degree(&self) -> f64 {
        self.tp.map_or(1.0, |(level, _)| level.degree as f64)
    }
}

/// The layers that a step goes through in one direction, in this order.
struct Pass {
    backward: bool,
    layers: Vec<usize>,
    /// The last two layers that computed before it.
    before: [Option<PhaseId>; 2],
}

struct Build<'a> {
    model: &'a Layered,
    job: &'a Job,
    convention: Convention,
    layers: Vec<Layer>,
    bottom: Spread,
    top: Spread,
    experts: Spread,
    transformer: Spread,
    tables: Option<(Level, LevelSpan)>,
    replicas: Option<(Level, LevelSpan)>,
    world: LevelSpan,
    operations: Vec<Op>,
    /// By layer: its computation in this pass.
    computed: Vec<Option<PhaseId>>,
    /// By layer: what the next one waits for beside it, in this pass.
    summed: Vec<Option<PhaseId>>,
    /// By layer: its gather in this pass.
    gathered: Vec<Option<PhaseId>>,
    /// The exchange of the next batch's ids.
    ids: Option<PhaseId>,
}

impl Build<'_> {
    fn operations(mut self) -> Vec<Op> {
        let last = self.forward();
        if self.job.task != TaskKind::Inference {
            self.backward(last);
        }
        if let (Some(ids), Some(lookup)) = (self.ids, self.operations.first_mut()) {
            lookup.after.push((ids, 1));
        }
        if self.job.task == TaskKind::Inference && self.convention == Convention::Pooled {
            self.gather_one_layer_ahead();
        }
        self.operations
    }

    /// The first layers are gathered one layer ahead, too, over the end of the step before: there is room for no more.
    fn gather_one_layer_ahead(&mut self) {
        let computed: Vec<PhaseId> = self.computed.iter().copied().flatten().collect();
        for (at, &first) in computed.iter().enumerate().take(2) {
            let before = computed[(at + computed.len()).saturating_sub(2) % computed.len()];
            let waits: Vec<PhaseId> = self.operations[first.0].after.iter().map(|&(id, _)| id).collect();
            for PhaseId(wait) in waits {
                if self.operations[wait].gathers() {
                    self.operations[wait].after.push((before, 1));
                }
            }
        }
    }

    fn spread(&self, layer: &Layer) -> Spread {
        match layer.group {
            LayerGroup::Bottom => self.bottom,
            LayerGroup::Top => self.top,
            LayerGroup::Experts => self.experts,
            LayerGroup::Transformer => self.transformer,
            LayerGroup::Tables => unreachable!("tables are no layers"),
        }
    }

    /// Rows that the busiest device looks up in a step, in bytes.
    fn looked_up(&self) -> f64 {
        self.model.looked_up() * self.job.per_device * self.job.loads.busiest()
    }

    fn push(
        &mut self,
        label: OperationName,
        lane: Lane,
        part: Part,
        after: &[Option<PhaseId>],
        work: Work,
    ) -> PhaseId {
        let after: Vec<(PhaseId, Distance)> = after.iter().flatten().map(|&id| (id, 0)).collect();
        // MAD-Max has one stream for all collectives.
        let lane = match (lane, self.convention) {
            (Lane::Gradients, Convention::MadMax) => Lane::Exchange,
            _ => lane,
        };
        self.operations.push(Op { label, lane, after, ahead: false, part, work });
        PhaseId(self.operations.len() - 1)
    }

    fn collective(
        &mut self,
        (label, lane, part): (OperationName, Lane, Part),
        kind: CollectiveKind,
        span: LevelSpan,
        bytes: f64,
        after: &[Option<PhaseId>],
    ) -> PhaseId {
        let LevelSpan { members, nodes } = span;
        let transfer = match (kind, self.convention) {
            (CollectiveKind::AllToAll, Convention::Pooled) => Transfer::all_to_all(members, nodes, bytes),
            _ => Transfer::of_vector(kind, members, nodes, bytes),
        };
        self.push(label, lane, part, after, Work::Transfer(transfer))
    }

    /// Rows are looked up, pooled where we are asked, and exchanged. Gives the lookup, and what waits for vectors waits for.
    fn lookup(&mut self) -> Option<PhaseId> {
        self.model.sparse?;
        let samples = self.job.per_device;
        let (looked_up, pooled) = (self.looked_up(), self.model.pooled() * samples);
        let ours = self.convention == Convention::Pooled;
        let bytes = if ours { looked_up + pooled } else { looked_up };
        let work = Work::Compute(Compute {
            class: ComputeClass::Embedding,
            flops: 0.0,
            bytes,
            operand: self.model.embedding_bytes,
        });
        let lookup = self.push(OperationName::of("lookup"), Lane::Compute, Part::Lookup, &[], work);
        let Some((_, span)) = self.tables else { return Some(lookup) };
        let name = (OperationName::of("vectors all-to-all"), Lane::Exchange, Part::VectorExchange);
        let vectors = self.vector_bytes();
        let exchange = self.collective(name, CollectiveKind::AllToAll, span, vectors, &[Some(lookup)]);
        if ours && self.model.has_large_tables() {
            // The next batch's ids travel behind this batch's vectors.
            let sparse = self.model.sparse.map_or(0.0, |sparse| sparse.tables * sparse.pooling);
            let bytes = sparse * ID_BYTES * samples * self.job.loads.busiest();
            let name = (OperationName::of("ids all-to-all"), Lane::Exchange, Part::Input);
            let ids = self.collective(name, CollectiveKind::AllToAll, span, bytes, &[]);
            self.operations[ids.0].ahead = true;
            self.ids = Some(ids);
        }
        Some(exchange)
    }

    /// Bytes of a device in an exchange of vectors. MAD-Max sends rows as they were looked up, to one of the others, twice.
    fn vector_bytes(&self) -> f64 {
        let shards = self.tables.map_or(1.0, |(level, _)| level.degree as f64);
        match self.convention {
            Convention::MadMax => 2.0 * self.looked_up() / shards,
            Convention::Pooled => self.model.pooled() * self.job.per_device,
        }
    }

    /// The forward pass; gives its last operation on each lane.
    fn forward(&mut self) -> Vec<Option<PhaseId>> {
        let mut vectors = self.lookup();
        let pass = Pass { backward: false, layers: (0..self.layers.len()).collect(), before: [None; 2] };
        for i in 0..self.layers.len() {
            let layer = self.layers[i];
            let needs_vectors = layer.class != LayerClass::Bottom;
            // Only the first one has to wait.
            let vectors = if needs_vectors { vectors.take() } else { None };
            let before = i.checked_sub(1).and_then(|before| self.summed[before]);
            self.layer(&pass, i, 1.0, &[vectors, before], true);
        }
        let on = |lane| self.operations.iter().rposition(|op| op.lane == lane).map(PhaseId);
        vec![on(Lane::Compute), on(Lane::Exchange)]
    }

    /// Gathers the layer at a place of a pass: when the layer two places before it has computed, since there is room for one layer
    /// beside that at work.
    fn gather(&mut self, pass: &Pass, at: usize) {
        let i = pass.layers[at];
        let (layer, spread) = (self.layers[i], self.spread(&self.layers[i]));
        let Some((level, span)) = spread.fsdp else { return };
        let stays = spread.prefetches() && self.convention == Convention::Pooled;
        if pass.backward && at == 0 && stays {
            // The last layer of the forward pass is still there.
            return;
        }
        let earlier = match at.checked_sub(2) {
            Some(two_before) => self.computed[pass.layers[two_before]],
            None => pass.before[at].filter(|_| self.convention == Convention::Pooled),
        };
        let bytes = layer.parameters * self.model.dense_bytes / spread.shards * level.degree as f64;
        let name = (
            layer.label(if pass.backward { "gather again" } else { "gather" }),
            Lane::Gradients,
            Part::DenseExchange,
        );
        self.gathered[i] = Some(self.collective(name, CollectiveKind::AllGather, span, bytes, &[earlier]));
    }

    /// The gathers that are issued before the layer at a place of a pass computes: its own, unless that was issued early, and the
    /// next one's, if it is gathered early.
    fn gathers_before(&mut self, pass: &Pass, at: usize) {
        let early = |build: &Self, at: usize| {
            pass.layers.get(at).is_some_and(|&i| build.spread(&build.layers[i]).prefetches())
        };
        if at == 0 || !early(self, at) {
            self.gather(pass, at);
        }
        if early(self, at + 1) {
            self.gather(pass, at + 1);
        }
    }

    /// The operations of the layer at a place of a pass; the cost is so many times the forward pass's.
    fn layer(&mut self, pass: &Pass, at: usize, times: f64, after: &[Option<PhaseId>; 2], reduces: bool) {
        let (i, backward) = (pass.layers[at], pass.backward);
        let (layer, spread) = (self.layers[i], self.spread(&self.layers[i]));
        let bytes = self.model.dense_bytes;
        let part = match (layer.class, backward) {
            (LayerClass::Bottom, false) => Part::BottomForward,
            (LayerClass::Bottom, true) => Part::BottomBackward,
            (_, false) => Part::TopForward,
            (_, true) => Part::TopBackward,
        };
        let label = |action| layer.label(action);
        let to_experts = if backward { layer.from_experts } else { layer.to_experts };
        let from_experts = if backward { layer.to_experts } else { layer.from_experts };
        let samples = spread.batch / spread.tp_degree();
        self.gathers_before(pass, at);
        let mut waits = [after[0], after[1], self.gathered[i], None, None];
        if let Some(floats) = to_experts {
            let name =
                (label(if backward { "gradients to experts" } else { "to experts" }), Lane::Exchange, part);
            let before = [after[0], after[1], self.neighbour(i, backward)];
            waits[3] = Some(self.collective(
                name,
                CollectiveKind::AllToAll,
                self.world,
                floats * bytes * samples,
                &before,
            ));
        }
        if let (true, Some(floats)) = (backward && self.job.recomputes(&layer), layer.to_experts) {
            let name = (label("to experts again"), Lane::Exchange, part);
            let bytes = floats * bytes * samples;
            waits[4] = Some(self.collective(name, CollectiveKind::AllToAll, self.world, bytes, &[after[0]]));
        }
        let score = if self.convention == Convention::Pooled { layer.score_flops } else { 0.0 };
        let flops = times * (layer.flops + score) * spread.batch / spread.tp_degree();
        let work = Work::Compute(Compute { class: ComputeClass::Gemm, flops, bytes: 0.0, operand: bytes });
        let computed = self.push(
            label(if backward { "backward" } else { "forward" }),
            Lane::Compute,
            part,
            &waits,
            work,
        );
        self.computed[i] = Some(computed);
        self.summed[i] = Some(computed);
        if let (Some((_, span)), true) = (spread.tp, layer.sums_activations(backward)) {
            let activations = spread.batch * layer.outputs * bytes;
            let name =
                (label(if backward { "sum gradients" } else { "sum activations" }), Lane::Exchange, part);
            self.summed[i] =
                Some(self.collective(name, CollectiveKind::AllReduce, span, activations, &[Some(computed)]));
        }
        if let Some(floats) = from_experts {
            let name = (
                label(if backward { "gradients from experts" } else { "from experts" }),
                Lane::Exchange,
                part,
            );
            let before = [self.summed[i]];
            self.summed[i] = Some(self.collective(
                name,
                CollectiveKind::AllToAll,
                self.world,
                floats * bytes * samples,
                &before,
            ));
        }
        if backward && reduces {
            self.reduce(&layer, &spread, computed);
        }
    }

    /// The layer that was computed just before, in this pass.
    fn neighbour(&self, i: usize, backward: bool) -> Option<PhaseId> {
        let other = if backward { Some(i + 1).filter(|&i| i < self.layers.len()) } else { i.checked_sub(1) };
        other.and_then(|other| self.computed[other])
    }
}
