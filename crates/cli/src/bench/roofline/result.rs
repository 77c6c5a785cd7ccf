//! Phases against their limits, and the groups that they belong to.

use super::measure::{Effort, Measured};
use crate::folder::clock::rfc3339;
use crate::text::median;
use serde::Serialize;
use spec::fuse::Fuse;
use spec::machine_rates::{Amount, Class};
use spec::model::{BlockName, Layers, LinearLayer};
use spec::precision::Precision;
use spec::run::Run;
use spec::schedule::{Operation, PhaseId, Schedule, Task, Work};
use spec::volume::BatchSizes;
use std::time::SystemTime;
use training::Cluster;

/// Inputs and outputs of a layer that is wide: its products should come near the peak.
const WIDE: usize = 256;

/// Limit that binds a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Matrix products in a precision.
    Products(Precision),
    /// Random rows that are read.
    Gather,
    /// Random rows that are read and written.
    Update,
    /// A stream through memory.
    Stream,
}

/// Group of phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Matrix products of layers.
    Products,
    /// Lookup, sorting of ids, update of tables.
    Embeddings,
    /// All other phases, and the time between phases.
    Rest,
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 3] = [Self::Products, Self::Embeddings, Self::Rest];

    /// Name of the group in tables and pictures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Products => "products",
            Self::Embeddings => "embeddings",
            Self::Rest => "everything else",
        }
    }
}

/// The limit that binds an operation.
pub fn limit(run: &Run, schedule: &Schedule, operation: &Operation) -> Limit {
    match schedule.describe(operation).class {
        Class::BottomForward
        | Class::BottomBackward
        | Class::CrossForward
        | Class::CrossBackward
        | Class::TopForward
        | Class::TopBackward
        | Class::LinearTowersForward
        | Class::LinearTowersBackward
        | Class::CrossTowersForward
        | Class::CrossTowersBackward => Limit::Products(precision(run, operation)),
        Class::TensorTrainForward | Class::TensorTrainBackward => Limit::Products(Precision::F32),
        Class::Lookup | Class::LookupDot => Limit::Gather,
        Class::UpdateTables | Class::DotUpdate => Limit::Update,
        _ => Limit::Stream,
    }
}

fn group(schedule: &Schedule, operation: &Operation, limit: Limit) -> Group {
    match (limit, schedule.describe(operation).class) {
        (Limit::Products(_), _) => Group::Products,
        (Limit::Gather | Limit::Update, _) | (_, Class::SortIds) => Group::Embeddings,
        _ => Group::Rest,
    }
}

fn precision(run: &Run, operation: &Operation) -> Precision {
    operation.block().map_or(run.precision.all, |block| run.precision.of(block))
}

fn sizes(run: &Run) -> BatchSizes {
    BatchSizes::typical(&run.model, &run.placement, run.batch)
}

/// Bytes of a row of the tables: the mean over ids.
pub fn row_bytes(run: &Run) -> usize {
    // A lookup of its own says it.
    let unfused = Run { fuse: Fuse::Never, ..run.clone() };
    let (schedule, sizes) = (unfused.schedule(Task::Train), sizes(run));
    let lookup = schedule.phases().iter().position(|phase| phase.work == Work::Compute(Operation::Lookup));
    // A float of a row is one addition.
    let floats = lookup.map(|lookup| Amount::of(&schedule, PhaseId(lookup), &sizes, 0));
    let floats = floats.map_or(1.0, |of| (of.flops / of.items.max(1.0)).round().max(1.0));
    let weight_bytes = run.model.table_bytes() as f64 / run.model.table_parameters().max(1) as f64;
    (floats * weight_bytes).round() as usize
}

/// Share of the weights of an operation's layers that belong to layers at least [`WIDE`] wide on both sides.
fn wide_share(run: &Run, operation: &Operation) -> Option<f64> {
    let (block, range) = match operation {
        Operation::Forward(block) | Operation::ForwardWithDropout(block) => (*block, None),
        Operation::Backward(block, range) => (*block, Some(range.clone())),
        _ => return None,
    };
    if block == BlockName::TOWERS {
        return None;
    }
    let layers = &run.model.network().block(block).layers;
    let range = range.unwrap_or(0..layers.count());
    let maps: Vec<&LinearLayer> = match layers {
        Layers::Cross { layers, .. } => layers[range].iter().flat_map(|layer| layer.maps()).collect(),
        other => other.maps().get(range)?.to_vec(),
    };
    let weights = |of: &dyn Fn(&&&LinearLayer) -> bool| -> u64 {
        maps.iter().filter(of).map(|map| (map.inputs * map.outputs) as u64).sum()
    };
    let all = weights(&|_| true);
    (all > 0).then(|| weights(&|map| map.inputs.min(map.outputs) >= WIDE) as f64 / all as f64)
}

/// Median and best of some measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Peak {
    /// Name of the limit, as phases name it.
    #[serde(skip)]
    pub limit: Limit,
    /// Median of the rounds, in FLOP/s or bytes a second.
    pub median: f64,
    /// The best round.
    pub best: f64,
}

impl Limit {
    /// Name of the limit in tables and pictures.
    pub fn name(self) -> String {
        match self {
            Self::Products(precision) => format!("products in {precision}"),
            Self::Gather => "random rows".into(),
            Self::Update => "changed rows".into(),
            Self::Stream => "stream".into(),
        }
    }

    /// Unit of the peak.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Products(_) => "FLOP/s",
            Self::Gather | Self::Update | Self::Stream => "B/s",
        }
    }

    /// The amount of a phase that the limit binds.
    fn amount(self, amount: &Amount) -> f64 {
        match self {
            Self::Products(_) => amount.flops,
            Self::Gather | Self::Update | Self::Stream => amount.bytes,
        }
    }
}

impl Serialize for Limit {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Products(_) => "products",
            Self::Gather => "gather",
            Self::Update => "update",
            Self::Stream => "stream",
        })
    }
}

/// A phase against its limit.
#[derive(Debug, Serialize)]
pub struct PhaseShare {
    /// Name of the phase.
    pub name: String,
    /// Group of the phase.
    pub group: Group,
    /// Median time in a step, in milliseconds.
    pub ms: f64,
    /// Shortest time in a step, in milliseconds.
    pub best_ms: f64,
    /// Share of the step.
    pub share_of_step: f64,
    /// FLOPs that the schedule states.
    pub flops: f64,
    /// Bytes that the schedule states.
    pub bytes: f64,
    /// Limit that binds the phase.
    pub limit: Limit,
    /// Precision of the phase's products.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// Unit of `reached` and `peak`.
    pub unit: &'static str,
    /// Speed that was reached; `None` where the schedule states no amount.
    pub reached: Option<f64>,
    /// Peak of the limit.
    pub peak: f64,
    /// Reached over peak.
    pub share: Option<f64>,
    /// Share of the weights that belong to layers at least 256 wide, of phases that have layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wide_share: Option<f64>,
    /// Whether the phase runs beside the others and is no part of the step's time: on a GPU, what is done for the next batch.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub beside: bool,
}

/// Phases of a group together.
#[derive(Debug, Serialize)]
pub struct GroupShare {
    /// Group of phases.
    pub name: Group,
    /// Time in a step, in milliseconds.
    pub ms: f64,
    /// Share of the step.
    pub share_of_step: f64,
    /// Time at the peaks of the phases' limits over the time taken; `None` where the schedule states no amounts.
    pub share: Option<f64>,
}

/// Peaks by limit.
#[derive(Debug, Serialize)]
pub struct PeakTable {
    /// FLOP/s of products, for every precision of the step.
    pub products: std::collections::BTreeMap<String, Peak>,
    /// Bytes a second of random rows that are read.
    pub gather: Peak,
    /// Bytes a second of random rows that are read and written.
    pub update: Peak,
    /// Bytes a second of a stream through memory.
    pub stream: Peak,
}

impl PeakTable {
    /// All peaks.
    pub fn all(&self) -> impl Iterator<Item = &Peak> {
        self.products.values().chain([&self.gather, &self.update, &self.stream])
    }

    fn of(&self, limit: Limit) -> f64 {
        self.all().find(|peak| peak.limit == limit).map_or(f64::NAN, |peak| peak.median)
    }
}

/// A step against the limits of the machine.
#[derive(Debug, Serialize)]
pub struct Roofline {
    /// When the step was measured.
    pub time: String,
    /// Version and commit of the program.
    pub version: &'static str,
    /// Name of the processor, where it is known.
    pub cpu: Option<String>,
    /// Device of the rank: `cpu` or `cuda`.
    pub device: &'static str,
    /// Name of the device: `cpu`, or what the driver calls the GPU.
    pub device_name: String,
    /// Preset of the run.
    pub preset: Option<String>,
    /// Architecture of the model.
    pub model: &'static str,
    /// Samples of a step.
    pub batch: usize,
    /// Precision of products.
    pub precision: String,
    /// Threads of the rank.
    pub threads: usize,
    /// Rows of all tables.
    pub table_rows: u64,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Exponent of the power law of ids.
    pub zipf: f64,
    /// Rounds of peaks and steps.
    pub rounds: u64,
    /// Steps that are timed in each round.
    pub steps: u64,
    /// Median time of a step, in milliseconds.
    pub ms_per_step: f64,
    /// Shortest step, in milliseconds.
    pub ms_of_best_step: f64,
    /// Sum of the medians of all phases and of the time between them, in milliseconds: what shares of the step refer to.
    pub ms_of_phases: f64,
    /// Median time of a step between its phases, in milliseconds.
    pub ms_between_phases: f64,
    /// Peaks of the machine.
    pub peaks: PeakTable,
    /// Phases of the schedule, in order.
    pub phases: Vec<PhaseShare>,
    /// Groups of phases, which add up to the step.
    pub groups: Vec<GroupShare>,
}

/// Median and smallest of some seconds, in milliseconds.
fn milliseconds(seconds: &[f64]) -> (f64, f64) {
    let mut seconds = seconds.to_vec();
    let median = median(&mut seconds); // sorts them
    (1e3 * median, 1e3 * seconds.first().copied().unwrap_or(0.0))
}

fn peak_of(limit: Limit, rounds: &[f64]) -> Peak {
    let mut rounds = rounds.to_vec();
    let median = median(&mut rounds); // sorts them
    Peak { limit, median, best: rounds.last().copied().unwrap_or(0.0) }
}

/// Settings of a run that the run itself does not tell.
pub struct About {
    /// Preset that the run began with.
    pub preset: Option<String>,
    /// Exponent of the power law of ids.
    pub zipf: f64,
    /// Name of the GPU; `None` on the CPU.
    pub gpu: Option<String>,
}

impl Roofline {
    /// Sets what was measured against the peaks.
    pub fn new(run: &Run, effort: &Effort, measured: &Measured, about: About) -> Self {
        let of = &measured.peaks;
        let products = of
            .products
            .iter()
            .map(|(precision, rounds)| (precision.to_string(), peak_of(Limit::Products(*precision), rounds)));
        let peaks = PeakTable {
            products: products.collect(),
            gather: peak_of(Limit::Gather, &of.gather),
            update: peak_of(Limit::Update, &of.update),
            stream: peak_of(Limit::Stream, &of.stream),
        };
        let (ms_per_step, ms_of_best_step) = milliseconds(&measured.steps);
        let (ms_between_phases, _) = milliseconds(&measured.between);
        let mut phases = phases(run, measured, &peaks);
        let one_by_one = phases.iter().filter(|phase| !phase.beside);
        let ms_of_phases = ms_between_phases + one_by_one.map(|phase| phase.ms).sum::<f64>();
        phases.iter_mut().for_each(|phase| phase.share_of_step = phase.ms / ms_of_phases);
        let groups = Group::ALL.map(|group| {
            let between = if group == Group::Rest { ms_between_phases } else { 0.0 };
            GroupShare::of(group, &phases, between, ms_of_phases)
        });
        Self {
            time: rfc3339(SystemTime::now()),
            version: crate::VERSION,
            cpu: crate::doctor::processor(),
            device: if about.gpu.is_some() { "cuda" } else { "cpu" },
            device_name: about.gpu.unwrap_or_else(|| "cpu".into()),
            preset: about.preset,
            model: run.model.kind(),
            batch: run.batch,
            precision: run.precision.to_string(),
            threads: training::threads(run, &Cluster::Threads),
            table_rows: run.model.features().iter().map(|feature| feature.rows as u64).sum(),
            row_bytes: row_bytes(run),
            zipf: about.zipf,
            rounds: effort.rounds,
            steps: effort.steps,
            ms_per_step,
            ms_of_best_step,
            ms_of_phases,
            ms_between_phases,
            peaks,
            phases,
            groups: groups.into(),
        }
    }
}

fn phases(run: &Run, measured: &Measured, peaks: &PeakTable) -> Vec<PhaseShare> {
    let (schedule, sizes) = (run.schedule(Task::Train), sizes(run));
    let of_phase = |(i, seconds): (usize, &Vec<f64>)| {
        let phase = &schedule.phases()[i];
        let (limit, group, wide_share) = match &phase.work {
            Work::Compute(operation) => {
                let limit = limit(run, &schedule, operation);
                (limit, group(&schedule, operation, limit), wide_share(run, operation))
            }
            Work::Collective(_) => (Limit::Stream, Group::Rest, None),
        };
        let amount = Amount::of(&schedule, PhaseId(i), &sizes, 0);
        let (ms, best_ms) = milliseconds(seconds);
        let (bound, peak) = (limit.amount(&amount), peaks.of(limit));
        let reached = (bound > 0.0 && ms > 0.0).then(|| bound / (ms / 1e3));
        PhaseShare {
            name: phase.name.clone(),
            group,
            ms,
            best_ms,
            share_of_step: 0.0,
            flops: amount.flops,
            bytes: amount.bytes,
            limit,
            precision: match limit {
                Limit::Products(precision) => Some(precision),
                Limit::Gather | Limit::Update | Limit::Stream => None,
            },
            unit: limit.unit(),
            reached,
            peak,
            share: reached.map(|reached| reached / peak),
            wide_share,
            beside: measured.beside.contains(&i),
        }
    };
    measured.phases.iter().enumerate().map(of_phase).collect()
}

impl GroupShare {
    fn of(name: Group, phases: &[PhaseShare], between_ms: f64, step_ms: f64) -> Self {
        let mine = phases.iter().filter(|phase| phase.group == name && !phase.beside);
        let ms = between_ms + mine.clone().map(|phase| phase.ms).sum::<f64>();
        let at_peak: f64 = mine.filter_map(|phase| Some(phase.share? * phase.ms)).sum();
        let share = (at_peak > 0.0 && ms > 0.0).then(|| at_peak / ms);
        Self { name, ms, share_of_step: ms / step_ms, share }
    }
}
