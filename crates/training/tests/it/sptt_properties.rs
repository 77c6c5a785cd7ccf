//! Whatever the cluster, the tables and where they are: SPTT has the bits of the flat dataflow.

use crate::common::{ADAM, optimizer, train};
use proptest::prelude::*;
use spec::Pooling;
use spec::dataflow::{DataflowKind, PeerPermute};
use spec::feature::{Feature, Hotness};
use spec::optimizer::UpdateRule;
use spec::placement::{HostCut, Layout, share};
use spec::presets::ModelKind;
use spec::run::Config;
use spec::synthetic::Synthetic;
use spec::topology::{Groups, Topology};
use spec::towers::Assignment;

/// A table, and where it is to be.
#[derive(Clone, Debug)]
struct Drawn {
    feature: Feature,
    place: Place,
}

/// Numbers that a cluster makes ranks or groups of.
#[derive(Clone, Debug)]
enum Place {
    Whole(usize),
    Columns(Vec<usize>),
    Rows(usize),
    Host(usize),
    /// Pieces of rows and of columns, and the group whose first ranks hold them.
    Grid(usize, usize, usize),
}

impl Drawn {
    /// A layout that SPTT can serve.
    fn layout(&self, groups: Groups, width: impl Fn(&Feature) -> usize) -> Layout {
        let dim = width(&self.feature);
        let ranks = groups.topology().ranks();
        match &self.place {
            Place::Whole(n) => Layout::TableWise { rank: n % ranks },
            Place::Columns(n) => {
                let pieces = n.len().min(dim);
                Layout::ColumnWise { ranks: n[..pieces].iter().map(|n| n % ranks).collect() }
            }
            Place::Rows(n) | Place::Host(n) if self.feature.rows < groups.size() => {
                Layout::TableWise { rank: n % ranks }
            }
            // A group of one host is that host.
            Place::Host(n) if groups.hosts_per_group() == 1 => {
                let cut = if n % 2 == 0 { HostCut::Rows } else { HostCut::Columns };
                let fits = groups.size() <= dim || cut == HostCut::Rows;
                Layout::Hierarchical { host: n % groups.count(), cut: if fits { cut } else { HostCut::Rows } }
            }
            Place::Rows(n) | Place::Host(n) => {
                Layout::RowWise { ranks: groups.members(n % groups.count()).collect() }
            }
            // Fewer pieces of rows than there are members: partial sums come from some of them.
            Place::Grid(rows, columns, n) => {
                let rows = rows.min(&self.feature.rows).min(&groups.size()).to_owned();
                let columns = *columns.min(&dim);
                let members: Vec<usize> = groups.members(n % groups.count()).collect();
                let first = |column: usize| column % (members.len() - rows + 1);
                let rank = |i: usize| members[first(i % columns) + i / columns];
                Layout::Grid { rows, columns, ranks: (0..rows * columns).map(rank).collect() }
            }
        }
    }
}

/// Pass-through towers, which change nothing: none, some features each, or a slice of a table each.
#[derive(Clone, Copy, Debug)]
enum Towers {
    None,
    Strided(usize),
    Slices(usize),
}

impl Towers {
    fn assignment(self, features: &[Feature], width: impl Fn(&Feature) -> usize) -> Option<Assignment> {
        match self {
            Towers::None => None,
            Towers::Strided(n) => Some(Assignment::Strided(1 + n % features.len())),
            Towers::Slices(n) => {
                let slices = |feature: &Feature| 1 + n % width(feature);
                let slice = |feature: &Feature, i| match share(width(feature), slices(feature), i) {
                    whole if whole.len() == width(feature) => vec![feature.name.clone()],
                    part => vec![format!("{}[{}..{}]", feature.name, part.start, part.end)],
                };
                let most = features.iter().map(slices).max().unwrap_or(0);
                let of_slice = |i| features.iter().filter(move |f| i < slices(f)).map(move |f| slice(f, i));
                Some(Assignment::Lists((0..most).flat_map(of_slice).collect()))
            }
        }
    }
}

prop_compose! {
    fn any_feature()(
        rows in 1usize..=60,
        many in proptest::option::of(1u32..=4),
        mean in any::<bool>(),
        weighted in any::<bool>(),
        dim in proptest::option::of(1usize..=12),
    ) -> Feature {
        let hotness = many.map_or(Hotness::One, |mean| Hotness::Many { mean });
        let pooling = if mean { Pooling::Mean } else { Pooling::Sum };
        Feature { name: String::new(), rows, pooling, hotness, weighted, dim, format: None, cache: None, tt_rank: None }
    }
}

fn any_place() -> impl Strategy<Value = Place> {
    prop_oneof![
        (0usize..16).prop_map(Place::Whole),
        proptest::collection::vec(0usize..16, 1..=5).prop_map(Place::Columns),
        (0usize..16).prop_map(Place::Rows),
        (0usize..16).prop_map(Place::Host),
        (1usize..=4, 1usize..=3, 0usize..16).prop_map(|(rows, columns, n)| Place::Grid(rows, columns, n)),
    ]
}

fn any_tables() -> impl Strategy<Value = Vec<Drawn>> {
    let table = (any_feature(), any_place()).prop_map(|(feature, place)| Drawn { feature, place });
    proptest::collection::vec(table, 1..=7).prop_map(|mut tables| {
        tables.iter_mut().enumerate().for_each(|(i, table)| table.feature.name = format!("C{i}"));
        tables
    })
}

/// Hosts, ranks per host, hosts per group.
fn any_cluster() -> impl Strategy<Value = (usize, usize, usize)> {
    (1usize..=4, 1usize..=4).prop_flat_map(|(hosts, ranks)| {
        let divisors: Vec<usize> = (1..=hosts).filter(|k| hosts.is_multiple_of(*k)).collect();
        proptest::sample::select(divisors).prop_map(move |per_group| (hosts, ranks, per_group))
    })
}

fn any_towers() -> impl Strategy<Value = Towers> {
    prop_oneof![
        Just(Towers::None),
        (0usize..7).prop_map(Towers::Strided),
        (0usize..9).prop_map(Towers::Slices),
    ]
}

fn any_rule() -> impl Strategy<Value = (UpdateRule, UpdateRule)> {
    let adagrad = UpdateRule::Adagrad { eps: 1e-8 };
    let row_wise = UpdateRule::RowWiseAdagrad { eps: 1e-8 };
    proptest::sample::select(vec![
        (UpdateRule::Sgd, UpdateRule::Sgd),
        (ADAM, ADAM),
        (adagrad, adagrad),
        (adagrad, row_wise),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sptt_has_the_bits_of_flat(
        (hosts, ranks_per_host, hosts_per_group) in any_cluster(),
        tables in any_tables(),
        towers in any_towers(),
        dim in 1usize..=9,
        dense_features in 0usize..=3,
        batch in 1usize..=40,
        samples in 1u64..=90,
        permute in proptest::sample::select(vec![PeerPermute::Vectors, PeerPermute::Ids, PeerPermute::None]),
        (dense, sparse) in any_rule(),
        kind in proptest::sample::select(ModelKind::ALL.to_vec()),
    ) {
        let features: Vec<Feature> = tables.iter().map(|table| table.feature.clone()).collect();
        let mut config = Config::default();
        config.model.kind = Some(kind);
        let linear = usize::from(kind == ModelKind::DeepFm);
        let row_width = |feature: &Feature| feature.dim.unwrap_or(dim) + linear;
        config.model.towers = towers.assignment(&features, row_width);
        config.model.features = Some(features);
        config.model.dense_features = Some(dense_features);
        config.model.dim = Some(dim);
        if kind == ModelKind::DeepFm {
            config.model.deep = Some(vec![8, 1]);
        } else {
            config.model.bottom = Some(if dense_features > 0 { vec![6, dim] } else { vec![] });
            config.model.top = Some(vec![8, 1]);
        }
        config.model.cross_layers = Some(2);
        config.model.cross_rank = Some(3);
        config.topology.hosts = Some(hosts);
        config.topology.ranks_per_host = Some(ranks_per_host);
        config.topology.hosts_per_tower = Some(hosts_per_group);
        config.train.batch = Some(batch);
        config.train.threads = Some(1);
        config.train.bucket_bytes = Some(256);
        config.train.steps = Some(5);
        config.train.epochs = Some(5);
        config.optimizer.dense = Some(optimizer(dense, 0.05));
        config.optimizer.tables = Some(optimizer(sparse, 0.05));
        // Clicks at random: bits ask for no truth.
        config.data.synthetic = Some(Synthetic {
            samples, eval_samples: 7, groups: 1, within: 0.0, across: 0.0, main: 0.0, dense: 0.0, ..Default::default()
        });
        let groups = Groups::new(Topology::new(hosts, ranks_per_host).unwrap(), hosts_per_group).unwrap();
        let place = |config: &mut Config, groups| {
            let layout = |table: &Drawn| (table.feature.name.clone(), table.layout(groups, row_width));
            config.placement.tables = tables.iter().map(layout).collect();
        };

        place(&mut config, groups);
        config.train.dataflow = Some(DataflowKind::Flat);
        let flat = train(&planning::check(&config).unwrap());

        // The same pieces on the same members of the same groups; only what the members are called may differ.
        place(&mut config, if permute == PeerPermute::None { groups.in_peer_order() } else { groups });
        config.train.dataflow = Some(DataflowKind::Sptt);
        config.train.peer_permute = Some(permute);
        let sptt = train(&planning::check(&config).unwrap());

        prop_assert_eq!(&flat.losses, &sptt.losses);
        prop_assert_eq!(&flat.parameters_sha256, &sptt.parameters_sha256);
        let evaluation = |outcome: &training::Outcome| outcome.scores.as_ref().map(|s| s.evaluation);
        prop_assert_eq!(evaluation(&flat), evaluation(&sptt));
    }
}
