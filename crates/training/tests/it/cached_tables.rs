//! Tables larger than memory train as tables in memory do, to the last bit.

use crate::common::{ADAM, config, mixed, optimizer, train, train_session};
use proptest::prelude::*;
use spec::byte_size::ByteSize;
use spec::codec::Rounding;
use spec::dataflow::DataflowKind;
use spec::feature::Hotness;
use spec::optimizer::UpdateRule;
use spec::placement::Cut;
use spec::presets::ModelKind;
use spec::run::{Config, Every, Run, RunError};
use spec::table_cache::{CachePolicy, WAYS};
use spec::table_format::TableFormat;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use training::checkpoint::{Checkpoint, locate};
use training::{Event, Logs, Outcome, Saving, Session, TraceRow};

/// The rules of tables.
const RULES: [UpdateRule; 4] =
    [UpdateRule::Sgd, UpdateRule::Adagrad { eps: 1e-8 }, UpdateRule::RowWiseAdagrad { eps: 1e-8 }, ADAM];

/// A run of 40 steps with tables of thousands of rows.
fn large(multi_hot: bool, hosts: usize, ranks_per_host: usize) -> Config {
    let mut config = config(ModelKind::Dlrm, multi_hot, hosts, ranks_per_host);
    let rows = [5000, 2000, 9000, 7, 3300, 6400];
    let features = config.model.features.as_mut().into_iter().flatten();
    features.zip(rows).for_each(|(feature, rows)| feature.rows = rows);
    config.train.steps = Some(40);
    config.train.eval_every = Some(25);
    config
}

/// The config with so much memory for tables on a host.
fn within(config: &Config, memory: u64, store: &Path) -> Config {
    let mut config = config.clone();
    (config.tables.memory, config.tables.store) = (Some(ByteSize(memory)), Some(store.to_owned()));
    config
}

/// The smallest memory of a host that a run can do with.
fn least(config: &Config) -> u64 {
    let refused = planning::check(&within(config, 0, Path::new("store"))).unwrap_err();
    assert_eq!(refused.field, "tables.memory (--table-memory)");
    let text = refused.problem.rsplit("give at least ").next().expect("a size is named");
    text.parse::<ByteSize>().expect("a size is named").0
}

fn same(one: &Outcome, other: &Outcome, what: &str) {
    assert_eq!(one.losses, other.losses, "{what}");
    assert_eq!(one.parameters_sha256, other.parameters_sha256, "{what}");
    let of = |outcome: &Outcome| outcome.scores.as_ref().map(|scores| scores.evaluation);
    assert_eq!(of(one), of(other), "{what}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the optimizer, the policy, the pooling, the format, the placement and the size of the cache, one set included.
    #[test]
    fn bits_are_those_of_tables_in_memory(
        rule in prop::sample::select(RULES.to_vec()),
        policy in prop::sample::select(CachePolicy::ALL.to_vec()),
        multi_hot: bool,
        format in prop::sample::select(TableFormat::ALL.to_vec()),
        rounding in prop::sample::select(vec![Rounding::Nearest, Rounding::Stochastic]),
        (hosts, ranks_per_host) in prop::sample::select(vec![(1, 1), (1, 2), (2, 2)]),
        dataflow in prop::sample::select(vec![DataflowKind::Flat, DataflowKind::Sptt]),
        cut in prop::sample::select(vec![Cut::Whole, Cut::Columns, Cut::Rows]),
        widths: bool,
        overlap: bool,
        more in prop::sample::select(vec![0, 1000, 20_000, 100_000]),
    ) {
        let mut config = large(multi_hot, hosts, ranks_per_host);
        if widths {
            config = mixed(config);
        }
        config.optimizer.tables = Some(optimizer(rule, 0.02));
        (config.tables.format, config.tables.rounding) = (Some(format), Some(rounding));
        (config.train.dataflow, config.placement.cut) = (Some(dataflow), Some(cut));
        config.train.overlap = Some(overlap);
        let in_memory = train(&planning::check(&config).unwrap());
        let store = tempfile::tempdir().unwrap();
        let mut cached = within(&config, least(&config) + more, store.path());
        cached.tables.cache_policy = Some(policy);
        let run = planning::check(&cached).unwrap();
        prop_assert!(run.table_cache.as_ref().unwrap().shards.any());
        let outcome = train(&run);
        same(&in_memory, &outcome, "cached");
        prop_assert_eq!(outcome.cache.is_some(), policy != CachePolicy::Mapped);
        if let Some(counts) = outcome.cache {
            prop_assert!(counts.missing > 0 && counts.missing <= counts.rows);
        }
        prop_assert!(in_memory.cache.is_none());
    }
}

/// With one set for each table nearly all rows go by scratch, which is bounded by two batches.
#[test]
fn one_set_is_enough() {
    let config = large(true, 1, 1);
    let store = tempfile::tempdir().unwrap();
    let run = planning::check(&within(&config, least(&config), store.path())).unwrap();
    let shards = run.table_cache.as_ref().unwrap().shards.of_rank(0);
    let sets: Vec<Option<usize>> = shards.iter().map(|shard| shard.map(|shard| shard.slots / WAYS)).collect();
    assert!(sets.iter().flatten().count() >= 5 && sets.iter().flatten().all(|&sets| sets == 1), "{sets:?}");
    same(&train(&planning::check(&config).unwrap()), &train(&run), "one set");
}

/// Memory for everything keeps everything there, and the schedule is that of a run without a cache.
#[test]
fn what_fits_is_in_memory() {
    let config = large(false, 2, 2);
    let run = planning::check(&within(&config, 1 << 30, Path::new("never made"))).unwrap();
    assert!(!run.table_cache.as_ref().unwrap().shards.any());
    let plain = planning::check(&config).unwrap();
    assert_eq!(
        run.schedule(spec::schedule::Task::Train).phases(),
        plain.schedule(spec::schedule::Task::Train).phases()
    );
    let outcome = train(&run);
    same(&train(&plain), &outcome, "everything in memory");
    assert!(outcome.cache.is_none());
}

/// Trains with checkpoints in `root`, from the last one there, and stops soon after step `until`.
fn sitting(run: &Run, root: &Path, until: Option<u64>) -> Outcome {
    let checkpoint = locate(root).ok().map(|path| Checkpoint::open(path).unwrap());
    let stop = AtomicBool::new(false);
    let session = Session {
        observe: &|event| {
            if let (Event::Training(progress), Some(until)) = (event, until) {
                stop.store(progress.step >= until, Ordering::Relaxed);
            }
        },
        stop: Some(&stop),
        checkpoints: Some(Saving { root: root.to_owned(), run: serde_json::Value::Null }),
        resume: checkpoint.as_ref(),
        ..Session::default()
    };
    train_session(run, &Logs::Synthetic, &session).unwrap_or_else(|e| panic!("{e}"))
}

/// Checkpoints of tables larger than memory are those of tables in memory: either goes on from the other's.
#[test]
fn runs_are_resumed_with_and_without_a_cache() {
    for (rule, format) in RULES.into_iter().zip(TableFormat::ALL) {
        let mut config = large(true, 1, 2);
        config.optimizer.tables = Some(optimizer(rule, 0.02));
        config.tables.format = Some(format);
        config.checkpoint.every = Some(Every::Steps(7));
        let plain = planning::check(&config).unwrap();
        let store = tempfile::tempdir().unwrap();
        let cached = planning::check(&within(&config, least(&config) + 5000, store.path())).unwrap();
        let whole = train(&plain);
        for (first, then) in [(&cached, &cached), (&cached, &plain), (&plain, &cached)] {
            let root = tempfile::tempdir().unwrap();
            let stopped = sitting(first, root.path(), Some(11));
            assert!(stopped.interrupted && stopped.steps < 40, "stopped after {} steps", stopped.steps);
            let resumed = sitting(then, root.path(), None);
            assert_eq!(resumed.parameters_sha256, whole.parameters_sha256, "{rule:?} {format}");
            assert_eq!(resumed.losses, whole.losses[whole.losses.len() - resumed.losses.len()..]);
        }
    }
}

/// Rows in memory may be f32 over tables of fewer bits: nearer to f32 than tables of fewer bits are.
#[test]
fn rows_in_use_may_be_more_precise() {
    for format in [TableFormat::Bf16, TableFormat::Int8] {
        let mut config = large(false, 1, 1);
        config.tables.rounding = Some(Rounding::Nearest);
        let wide = train(&planning::check(&config).unwrap());
        config.tables.format = Some(format);
        let narrow = train(&planning::check(&config).unwrap());
        let store = tempfile::tempdir().unwrap();
        let mut precise = config.clone();
        precise.tables.cache_format = Some(TableFormat::F32);
        let mut precise = within(&precise, least(&precise) + 50_000, store.path());
        let nearest = train(&planning::check(&precise).unwrap());
        let off = |outcome: &Outcome| {
            wide.losses.iter().zip(&outcome.losses).map(|(a, b)| (a - b).abs()).sum::<f64>()
        };
        assert!(off(&nearest) < 0.8 * off(&narrow), "{format}: {} and {}", off(&nearest), off(&narrow));
        assert_ne!(nearest.parameters_sha256, narrow.parameters_sha256);
        // Rows that leave memory are rounded as updates are.
        precise.tables.rounding = Some(Rounding::Stochastic);
        let run = planning::check(&precise).unwrap();
        let random = train(&run);
        assert_ne!(random.parameters_sha256, nearest.parameters_sha256, "{format}");
        same(&random, &train(&run), "the same numbers every time");
    }
}

/// Rows on their way are on a lane of their own: their phases have times there, and spans in the trace.
#[test]
fn rows_on_their_way_are_seen() {
    let config = large(false, 1, 2);
    let store = tempfile::tempdir().unwrap();
    let run = planning::check(&within(&config, least(&config) + 8000, store.path())).unwrap();
    let session = Session { trace_steps: Some(5), ..Session::default() };
    let outcome = train_session(&run, &Logs::Synthetic, &session).unwrap_or_else(|e| panic!("{e}"));
    let trace = outcome.trace.unwrap();
    for name in ["fetch rows", "write back rows"] {
        let spans = trace.spans().iter().filter(|span| trace.name(span.phase) == name);
        assert!(spans.filter(|span| span.row == TraceRow::Storage).count() >= 5, "{name}");
        let phase = outcome.phases.iter().find(|phase| phase.name == name).unwrap();
        assert!(phase.communication_s > 0.0 && phase.sent.network == 0, "{name}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let mut config = config(ModelKind::Dlrm, false, 1, 1);
    let problem = |config: &Config| {
        let RunError { field, problem } = planning::check(config).unwrap_err();
        format!("{field}: {problem}")
    };
    config.tables.memory = Some(ByteSize(1 << 20));
    assert!(problem(&config).contains("--table-store"), "{}", problem(&config));
    config.tables.store = Some("store".into());
    config.tables.cache_format = Some(TableFormat::F16);
    assert!(problem(&config).contains("is f32; use f32"), "{}", problem(&config));
    config.tables.cache_format = None;
    config.tables.memory = None;
    assert!(problem(&config).contains("of use with tables.memory"), "{}", problem(&config));
}

/// A table with `cache = false` is in memory whole, and changes no bit; where it does not fit there, the run is refused.
#[test]
fn a_table_may_stay_in_memory() {
    let config = large(false, 1, 2);
    let store = tempfile::tempdir().unwrap();
    let mut stays = config.clone();
    stays.model.features.as_mut().unwrap()[2].cache = Some(false);
    assert!(least(&stays) > least(&config));
    let run = planning::check(&within(&stays, least(&stays), store.path())).unwrap();
    for rank in 0..2 {
        let shards = run.placement.held_by(rank).iter();
        let cached = shards.zip(run.table_cache.as_ref().unwrap().shards.of_rank(rank));
        assert!(cached.clone().all(|(shard, cached)| shard.feature != 2 || cached.is_none()));
    }
    same(&train(&planning::check(&config).unwrap()), &train(&run), "one table in memory");
    let refused = planning::check(&within(&stays, least(&config), store.path())).unwrap_err();
    assert!(refused.problem.contains("cache = false"), "{}", refused.problem);
}

/// Bags of no ids, and batches smaller than the ranks, find nothing and fetch nothing.
#[test]
fn empty_bags() {
    let mut config = large(true, 2, 4);
    let features = config.model.features.as_mut().unwrap();
    features.iter_mut().for_each(|feature| feature.hotness = Hotness::Many { mean: 1 });
    let store = tempfile::tempdir().unwrap();
    let cached = planning::check(&within(&config, least(&config) + 8000, store.path())).unwrap();
    same(&train(&planning::check(&config).unwrap()), &train(&cached), "empty bags");
}
