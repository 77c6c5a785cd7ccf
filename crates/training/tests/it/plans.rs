//! Random models under random plans: every scheme, flat and SPTT, gives the results of tables that are not cut; the transport
//! counts what the schedule says; checkpoints move from one plan to another.

use crate::common::metered::{Epoch, check_run};
use crate::common::{self, ADAM, optimizer, train};
use proptest::prelude::*;
use proptest::sample::select;
use spec::Pooling;
use spec::dataflow::DataflowKind;
use spec::feature::{Feature, Hotness};
use spec::optimizer::UpdateRule;
use spec::placement::{HostCut, Layout};
use spec::presets::ModelKind;
use spec::run::{Config, Run};
use spec::synthetic::Synthetic;
use spec::topology::{Groups, Topology};
use training::checkpoint::{Checkpoint, locate};
use training::{Logs, Outcome, Saving, Session};

/// How a table is cut, before it is known over which ranks.
#[derive(Clone, Copy, Debug)]
enum Scheme {
    Whole,
    Rows(usize),
    Columns(usize),
    Grid(usize, usize),
    HostRows,
    HostColumns,
    DataParallel,
    Replicated,
}

/// A table, and two schemes with numbers that choose ranks.
#[derive(Clone, Debug)]
struct Drawn {
    feature: Feature,
    schemes: [(Scheme, usize); 2],
}

impl Drawn {
    /// Layout of the table by one of its schemes, over the ranks of one group (the world, in the flat dataflow).
    fn layout(&self, plan: usize, groups: Groups, flat: bool, width: usize) -> Layout {
        let (scheme, n) = self.schemes[plan];
        let topology = groups.topology();
        let members: Vec<usize> = match flat {
            true => (0..topology.ranks()).collect(),
            false => groups.members(n % groups.count()).collect(),
        };
        // Ranks of the pieces of rows of a column, ascending.
        let strip = |rows: usize, column: usize| {
            let first = (n + column) % (members.len() - rows + 1);
            members[first..first + rows].to_vec()
        };
        let rows = |asked: usize| asked.min(self.feature.rows).min(members.len());
        let per_host = topology.ranks_per_host();
        let host = topology.host_of(members[n % members.len()]);
        match scheme {
            Scheme::Rows(asked) => Layout::RowWise { ranks: strip(rows(asked), 0) },
            Scheme::Columns(pieces) => {
                let ranks = (0..pieces.min(width)).map(|i| members[(n + i) % members.len()]);
                Layout::ColumnWise { ranks: ranks.collect() }
            }
            Scheme::Grid(asked, columns) => {
                let (rows, columns) = (rows(asked), columns.min(width));
                let rank = |i: usize| strip(rows, i % columns)[i / columns];
                Layout::Grid { rows, columns, ranks: (0..rows * columns).map(rank).collect() }
            }
            Scheme::HostRows if self.feature.rows >= per_host => {
                Layout::Hierarchical { host, cut: HostCut::Rows }
            }
            Scheme::HostColumns if width >= per_host => Layout::Hierarchical { host, cut: HostCut::Columns },
            Scheme::DataParallel => Layout::DataParallel { ranks: Some(members) },
            Scheme::Replicated if flat => Layout::Replicated,
            _ => Layout::TableWise { rank: members[n % members.len()] },
        }
    }
}

fn any_scheme() -> impl Strategy<Value = Scheme> {
    prop_oneof![
        Just(Scheme::Whole),
        (2usize..=6).prop_map(Scheme::Rows),
        (2usize..=4).prop_map(Scheme::Columns),
        (2usize..=4, 2usize..=3).prop_map(|(rows, columns)| Scheme::Grid(rows, columns)),
        Just(Scheme::HostRows),
        Just(Scheme::HostColumns),
        Just(Scheme::DataParallel),
        Just(Scheme::Replicated),
    ]
}

prop_compose! {
    fn any_table()(
        rows in 1usize..=60,
        many in proptest::option::of(1u32..=4),
        mean in any::<bool>(),
        weighted in any::<bool>(),
        dim in select(vec![None, None, Some(1), Some(3), Some(12), Some(20)]),
        schemes in [(any_scheme(), 0usize..16), (any_scheme(), 0usize..16)],
    ) -> Drawn {
        let hotness = many.map_or(Hotness::One, |mean| Hotness::Many { mean });
        let pooling = if mean { Pooling::Mean } else { Pooling::Sum };
        Drawn { feature: Feature { name: String::new(), rows, pooling, hotness, weighted, dim, format: None, cache: None, tt_rank: None }, schemes }
    }
}

/// A model on a cluster, under any plan.
struct Case {
    config: Config,
    tables: Vec<Drawn>,
    groups: Groups,
}

impl Case {
    fn new(
        tables: Vec<Drawn>,
        (hosts, ranks_per_host): (usize, usize),
        kind: ModelKind,
        rule: UpdateRule,
    ) -> Self {
        let dim = 6;
        let named = |(i, table): (usize, Drawn)| {
            let feature = Feature { name: format!("C{i}"), ..table.feature };
            Drawn { feature, ..table }
        };
        let tables: Vec<Drawn> = tables.into_iter().enumerate().map(named).collect();
        let mut config = Config::default();
        config.model.kind = Some(kind);
        config.model.features = Some(tables.iter().map(|table| table.feature.clone()).collect());
        config.model.dense_features = Some(2);
        config.model.dim = Some(dim);
        if kind == ModelKind::DeepFm {
            config.model.deep = Some(vec![8, 1]);
        } else {
            config.model.bottom = Some(vec![6, dim]);
            config.model.top = Some(vec![8, 1]);
        }
        config.model.cross_layers = Some(2);
        config.model.cross_rank = Some(3);
        config.topology.hosts = Some(hosts);
        config.topology.ranks_per_host = Some(ranks_per_host);
        config.train.batch = Some(24);
        config.train.threads = Some(1);
        config.train.device = common::device_choice();
        config.train.steps = Some(STEPS);
        config.train.epochs = Some(STEPS);
        config.optimizer.dense = Some(optimizer(rule, 0.02));
        config.optimizer.tables = Some(optimizer(rule, 0.02));
        config.data.synthetic = Some(Synthetic {
            samples: 61,
            eval_samples: 7,
            groups: 1,
            within: 0.0,
            across: 0.0,
            main: 0.0,
            dense: 0.0,
            ..Default::default()
        });
        let groups = Groups::new(Topology::new(hosts, ranks_per_host).unwrap(), 1).unwrap();
        Self { config, tables, groups }
    }

    fn run(&self, dataflow: DataflowKind, layout: impl Fn(&Drawn) -> Layout) -> Run {
        let mut config = self.config.clone();
        config.train.dataflow = Some(dataflow);
        config.placement.tables =
            self.tables.iter().map(|table| (table.feature.name.clone(), layout(table))).collect();
        planning::check(&config).unwrap_or_else(|e| panic!("{e}"))
    }

    /// All tables whole, on rank 0.
    fn uncut(&self) -> Run {
        self.run(DataflowKind::Flat, |_| Layout::TableWise { rank: 0 })
    }

    fn planned(&self, plan: usize, dataflow: DataflowKind) -> Run {
        let flat = dataflow == DataflowKind::Flat;
        let linear = usize::from(self.config.model.kind == Some(ModelKind::DeepFm));
        self.run(dataflow, |table| {
            table.layout(plan, self.groups, flat, table.feature.dim.unwrap_or(6) + linear)
        })
    }
}

const STEPS: u64 = 4;

/// Whether a floating-point sum is split: of a bag whose rows lie on several ranks, or of the gradients of a row over copies.
fn splits_sums(run: &Run) -> bool {
    (0..run.model.features().len()).any(|feature| {
        let scheme = run.placement.scheme(feature);
        run.placement.row_pieces(feature) > 1 || scheme == spec::placement::Scheme::DataParallel
    })
}

/// The results of a run against those of tables that are not cut.
fn same_results(run: &Run, outcome: &Outcome, uncut: &Outcome, what: &str) {
    if !splits_sums(run) {
        assert_eq!(outcome.losses, uncut.losses, "{what}");
        assert_eq!(outcome.parameters_sha256, uncut.parameters_sha256, "{what}");
    }
    for (step, (a, b)) in outcome.losses.iter().zip(&uncut.losses).enumerate() {
        assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{what}, step {step}: {a}, uncut {b}");
    }
}

/// The run in two sittings, the second under another plan.
fn moved(first: &Run, second: &Run) -> Outcome {
    let root = tempfile::tempdir().unwrap();
    let mut half = first.clone();
    half.steps = STEPS / 2;
    let saving = Saving { root: root.path().to_owned(), run: serde_json::Value::Null };
    let session = Session { checkpoints: Some(saving), ..Session::default() };
    let begun = common::train_session(&half, &Logs::Synthetic, &session).unwrap_or_else(|e| panic!("{e}"));
    let checkpoint = Checkpoint::open(locate(root.path()).unwrap()).unwrap();
    let session = Session { resume: Some(&checkpoint), ..Session::default() };
    let mut ended =
        common::train_session(second, &Logs::Synthetic, &session).unwrap_or_else(|e| panic!("{e}"));
    ended.losses = [begun.losses, ended.losses].concat();
    ended
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_gives_the_results_of_tables_that_are_not_cut(
        tables in proptest::collection::vec(any_table(), 1..=5),
        cluster in (1usize..=2, 1usize..=3),
        kind in select(ModelKind::ALL.to_vec()),
        rule in select(vec![UpdateRule::Sgd, ADAM, UpdateRule::Adagrad { eps: 1e-8 }]),
    ) {
        let mut case = Case::new(tables, cluster, kind, rule);
        let runs = |case: &Case| [
            case.planned(0, DataflowKind::Flat),
            case.planned(1, DataflowKind::Sptt),
        ];
        if runs(&case).iter().any(splits_sums) {
            // Rules that divide by the size of a gradient make anything of the last bit of one that is nearly zero.
            case.config.optimizer.dense = Some(optimizer(UpdateRule::Sgd, 0.02));
            case.config.optimizer.tables = Some(optimizer(UpdateRule::Sgd, 0.02));
        }
        let uncut = train(&case.uncut());
        let [flat, sptt] = runs(&case);
        for (run, what) in [(&flat, "flat"), (&sptt, "sptt")] {
            same_results(run, &train(run), &uncut, what);
            check_run(run, &Epoch::of(run), what);
        }
        for (first, second, what) in [(&flat, &sptt, "flat, then sptt"), (&sptt, &flat, "sptt, then flat")] {
            let outcome = moved(first, second);
            if splits_sums(first) || splits_sums(second) {
                for (a, b) in outcome.losses.iter().zip(&uncut.losses) {
                    prop_assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{}: {} uncut {}", what, a, b);
                }
            } else {
                same_results(second, &outcome, &uncut, what);
            }
        }
    }
}
