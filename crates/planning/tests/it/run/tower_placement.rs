//! Towers on a cluster: how groups number their ranks, and where the tables of towers go.

use super::common::{features, lists};
use proptest::prelude::*;
use spec::dataflow::{PeerPermute, Sptt};
use spec::model::{Architecture, Model};
use spec::placement::{Cut, Placement, Scheme};
use spec::topology::{Groups, LinkClass, Numbering, Topology};
use spec::towers::{Assignment, DcnOutput, Module};

/// (hosts, ranks per host, hosts per group) and ranks by (g mod S, g div S), as the slides have it.
#[test]
fn peer_order_of_several_clusters() {
    let cases: [(usize, usize, usize, &[usize]); 7] = [
        (2, 2, 1, &[0, 2, 1, 3]),
        (2, 4, 1, &[0, 4, 1, 5, 2, 6, 3, 7]),
        (4, 2, 1, &[0, 2, 4, 6, 1, 3, 5, 7]),
        (4, 2, 2, &[0, 4, 1, 5, 2, 6, 3, 7]),
        (4, 2, 4, &[0, 1, 2, 3, 4, 5, 6, 7]),
        (3, 1, 1, &[0, 1, 2]),
        (1, 3, 1, &[0, 1, 2]),
    ];
    for (hosts, ranks, per_group, order) in cases {
        let groups = Groups::new(Topology::new(hosts, ranks).unwrap(), per_group).unwrap();
        assert_eq!(groups.peer_order(), order, "{hosts} × {ranks}, K = {per_group}");
    }
}

/// Every column of every table is held once, whatever is cut: rows of a column add up to the table's.
fn held_once(model: &Model, placement: &Placement) {
    let mut held =
        (0..model.features().len()).map(|feature| vec![0; model.row_width(feature)]).collect::<Vec<_>>();
    for rank in 0..placement.topology().ranks() {
        for shard in placement.held_by(rank) {
            shard.columns.clone().for_each(|column| held[shard.feature][column] += shard.rows.len());
        }
    }
    for (feature, columns) in model.features().iter().zip(held) {
        assert!(columns.iter().all(|&rows| rows == feature.rows), "{}: {columns:?}", feature.name);
    }
}

fn placed(model: &Model, groups: Groups, cut: Cut) -> (Placement, Sptt) {
    let placement = planning::placement::in_towers(model, groups, cut);
    let permute = match groups.topology().numbering() {
        Numbering::ByHost => PeerPermute::Ids,
        Numbering::ByPeer { .. } => PeerPermute::None,
    };
    let sptt = Sptt::new(model, &placement, groups, permute).unwrap();
    held_once(model, &placement);
    // What the groups give is all that the interaction sees, besides the dense vector; each column once.
    let dense = model.network().leading_width();
    let mut outputs: Vec<(usize, usize)> = (0..groups.count())
        .flat_map(|group| sptt.plan(group).outputs.iter().map(|output| (output.offset, output.width)))
        .collect();
    outputs.sort_unstable();
    let end = outputs.iter().fold(dense, |at, (offset, width)| {
        assert_eq!(*offset, at);
        at + width
    });
    assert_eq!(end, model.network().features_width());
    // A module has all its members on its group.
    for (t, tower) in model.towers().iter().enumerate().filter(|(_, tower)| !tower.passes_through()) {
        let home = sptt.group_of_tower(t).expect("a tower with a module has a group");
        for rank in 0..groups.topology().ranks() {
            for shard in placement.held_by(rank) {
                let inside = |m: &spec::model::Member| {
                    m.feature == shard.feature
                        && m.columns.start < shard.columns.end
                        && shard.columns.start < m.columns.end
                };
                assert!(groups.group_of(rank) == home || !tower.members.iter().any(inside));
            }
        }
    }
    (placement, sptt)
}

const CUTS: [Cut; 4] = [Cut::Whole, Cut::Columns, Cut::Rows, Cut::Hotness];

fn model(count: usize, dim: usize, assignment: Option<&Assignment>, module: Module) -> Model {
    let architecture =
        Architecture::Dcn { bottom: vec![dim], cross_layers: 1, cross_rank: None, top: vec![4, 1] };
    Model::with_towers(features(count), 2, dim, architecture, assignment, module).unwrap()
}

#[test]
fn groups_without_towers_and_towers_that_share_a_group() {
    let groups = |hosts| Groups::new(Topology::new(hosts, 2).unwrap(), 1).unwrap();
    let module = Module::Dlrm { c: 1, p: 1, d: 3 };
    for cut in CUTS {
        // Two towers on four groups: two have nothing.
        let few = model(5, 4, Some(&Assignment::Strided(2)), module);
        let (_, sptt) = placed(&few, groups(4), cut);
        assert_eq!((0..4).filter(|&group| sptt.plan(group).input_width == 0).count(), 2);
        // Five towers on two groups: both have some, and none is far behind.
        let many = model(5, 4, Some(&Assignment::Each), module);
        let (_, sptt) = placed(&many, groups(2), cut);
        assert!((0..2).all(|group| sptt.plan(group).towers.len() >= 2));
        // Vectors that only pass through are sliced until every group has some.
        for assignment in [None, Some(Assignment::Strided(2))] {
            let passing = model(3, 4, assignment.as_ref(), Module::None);
            let (placement, sptt) = placed(&passing, groups(8), cut);
            assert!((0..8).all(|group| sptt.plan(group).input_width > 0));
            assert!((0..3).all(|feature| placement.column_pieces(feature) == 3));
        }
        // More groups than there are columns.
        let (_, sptt) = placed(&model(1, 2, None, Module::None), groups(5), cut);
        assert_eq!((0..5).filter(|&group| sptt.plan(group).input_width == 1).count(), 2);
    }
}

#[test]
fn slices_go_where_their_towers_go() {
    let names = lists(&[&["C0[0..4]", "C1"], &["C0[4..8]"], &["C2[4..8]", "C3"], &["C2[0..4]"]]);
    let groups = Groups::new(Topology::new(4, 2).unwrap(), 1).unwrap();
    for (module, cut) in CUTS.map(|cut| (Module::Dlrm { c: 0, p: 1, d: 4 }, cut)) {
        let sliced = model(4, 8, Some(&names), module);
        let (placement, sptt) = placed(&sliced, groups, cut);
        let holders = |feature: usize| -> Vec<usize> {
            assert_eq!((placement.row_pieces(feature), placement.column_pieces(feature)), (1, 2));
            placement.shards_of(feature).iter().map(|shard| shard.holders.ranks()[0]).collect()
        };
        // The slice that stands first in the table is in tower 0 for C0 and in tower 3 for C2.
        assert_eq!(sptt.group_of_tower(0), Some(groups.group_of(holders(0)[0])));
        assert_eq!(sptt.group_of_tower(2), Some(groups.group_of(holders(2)[1])));
    }
}

/// Towers of one slice each, as long as what they should give, pass through: the dense vector is a slice long too.
#[test]
fn slices_that_pass_through_stand_behind_a_dense_vector_of_their_length() {
    let names = lists(&[&["C0[0..4]"], &["C0[4..8]"], &["C1[0..4]"], &["C1[4..8]"]]);
    let architecture = Architecture::Dlrm { bottom: vec![4], top: vec![4, 1] };
    let module = Module::Dlrm { c: 0, p: 1, d: 4 };
    let model = Model::with_towers(features(2), 2, 8, architecture, Some(&names), module).unwrap();
    assert!(!model.has_tower_modules());
    assert_eq!(model.network().features_width(), 4 + 2 * 8);
    placed(&model, Groups::new(Topology::new(2, 2).unwrap(), 1).unwrap(), Cut::Whole);
}

fn any_module() -> impl Strategy<Value = Module> {
    prop_oneof![
        Just(Module::None),
        (0..3usize, 0..3usize, 1..5usize)
            .prop_filter("gives something", |(c, p, _)| c + p > 0)
            .prop_map(|(c, p, d)| Module::Dlrm { c, p, d }),
        (1..5usize, any::<bool>()).prop_map(|(d, all)| Module::Dcn {
            d,
            rank: Some(2),
            out: if all { DcnOutput::Features } else { DcnOutput::Tower }
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn groups_number_every_rank_once(count in 1..5usize, per_group in 1..4usize, ranks in 1..5usize) {
        let by_host = Groups::new(Topology::new(count * per_group, ranks).unwrap(), per_group).unwrap();
        let order = by_host.peer_order();
        let by_peer = by_host.in_peer_order();
        prop_assert_eq!(by_peer.peer_order(), (0..order.len()).collect::<Vec<_>>());
        for groups in [by_host, by_peer] {
            prop_assert_eq!((groups.count(), groups.size()), (count, per_group * ranks));
            let topology = groups.topology();
            for rank in 0..topology.ranks() {
                let (group, index) = (groups.group_of(rank), groups.index_of(rank));
                prop_assert!(group < groups.count() && index < groups.size());
                prop_assert_eq!(groups.rank(group, index), rank);
                prop_assert_eq!(groups.members(group).nth(index), Some(rank));
                prop_assert_eq!(groups.peers(index).nth(group), Some(rank));
                // Groups are consecutive hosts.
                prop_assert_eq!(topology.host_of(rank) / per_group, group);
                prop_assert!(topology.ranks_of(topology.host_of(rank)).any(|other| other == rank));
                // With one host a group, what leaves a group crosses the network, and what stays does not.
                for other in (0..topology.ranks()).filter(|&other| other != rank && per_group == 1) {
                    let across = topology.link(rank, other) == LinkClass::Network;
                    prop_assert_eq!(across, groups.group_of(other) != group);
                }
            }
            for host in 0..topology.hosts() {
                let of_host: Vec<usize> = topology.ranks_of(host).collect();
                prop_assert!(of_host.len() == ranks && of_host.is_sorted());
            }
        }
        // Both numberings are of the same machines: rank i of the one is rank order[i] of the other.
        for (new, &old) in order.iter().enumerate() {
            prop_assert_eq!(by_peer.topology().host_of(new), by_host.topology().host_of(old));
            prop_assert_eq!(by_peer.group_of(new), by_host.group_of(old));
            prop_assert_eq!(by_peer.index_of(new), by_host.index_of(old));
        }
        // The peer order of other groups is not theirs.
        if per_group > 1 {
            prop_assert!(Groups::new(by_peer.topology(), 1).is_err());
        }
        prop_assert!(Groups::new(by_peer.topology(), per_group).is_ok());
    }

    #[test]
    fn tables_are_placed_once_and_towers_stay_together(
        (count, towers) in (1..9usize).prop_flat_map(|count| (Just(count), 1..=count)),
        dim in 1..7usize,
        module in any_module(),
        (groups, per_group, ranks) in (1..5usize, 1..3usize, 1..4usize),
        peer_order in any::<bool>(),
        cut in proptest::sample::select(CUTS.to_vec()),
    ) {
        let model = model(count, dim, Some(&Assignment::Strided(towers)), module);
        let topology = Topology::new(groups * per_group, ranks).unwrap();
        let groups = Groups::new(topology, per_group).unwrap();
        let groups = if peer_order { groups.in_peer_order() } else { groups };
        let (_, sptt) = placed(&model, groups, cut);
        // No group is idle while another has two towers.
        let loads: Vec<usize> = (0..groups.count()).map(|g| sptt.plan(g).towers.len()).collect();
        if model.towers().iter().all(|tower| !tower.passes_through()) && towers >= groups.count() {
            prop_assert!(loads.iter().all(|&towers| towers > 0), "{:?}", loads);
        }
    }
}

/// More ranks than tables: the largest are cut by columns until every rank has some, and none has much more than another.
#[test]
fn every_rank_holds_something() {
    use spec::placement::width;
    use spec::presets::{ModelKind, Preset};
    let model = Preset::Mlperf.model(ModelKind::Dlrm, None, Some(1000)).unwrap();
    for (hosts, columns) in [(3, model.row_width(0)), (4, model.row_width(0)), (8, model.row_width(0) / 2)] {
        let placement = planning::placement::balanced(&model, Topology::new(hosts, 8).unwrap(), 0);
        held_once(&model, &placement);
        let widths: Vec<usize> = (0..hosts * 8).map(|rank| width(placement.held_by(rank))).collect();
        let (least, most) = (*widths.iter().min().unwrap(), *widths.iter().max().unwrap());
        assert!(
            least > 0 && most <= 2 * least && (hosts == 3 || most == columns),
            "{hosts} hosts: {widths:?}"
        );
        let whole = (0..26).all(|feature| placement.scheme(feature) == Scheme::TableWise);
        assert_eq!(whole, hosts == 3, "tables are cut only where there are more ranks");
    }
    // Pieces of fewer than 4 columns are not made: some ranks of many have nothing.
    let placement = planning::placement::balanced(&model, Topology::new(128, 8).unwrap(), 0);
    held_once(&model, &placement);
    let narrowest = (0..1024).flat_map(|rank| placement.held_by(rank)).map(|shard| shard.columns.len()).min();
    assert_eq!(narrowest, Some(4));
}
