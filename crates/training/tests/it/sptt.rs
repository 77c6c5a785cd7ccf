//! DMT §3.1: SPTT moves vectors another way and changes nothing. With pass-through towers its bits are those of the flat
//! dataflow: the loss of every step, all parameters in the end, and what an evaluation finds.

use crate::common::{ADAM, config, feature, features, optimizer, train};
use spec::dataflow::{DataflowKind, PeerPermute};
use spec::optimizer::UpdateRule;
use spec::placement::{Cut, Scheme};
use spec::presets::ModelKind;
use spec::run::{Config, Run};
use spec::towers::Assignment;

const ROW_WISE: UpdateRule = UpdateRule::RowWiseAdagrad { eps: 1e-8 };
const PERMUTES: [PeerPermute; 3] = [PeerPermute::Vectors, PeerPermute::Ids, PeerPermute::None];

/// Hosts, ranks per host, hosts per group.
type Cluster = (usize, usize, usize);
const CLUSTERS: [Cluster; 6] = [(1, 2, 1), (2, 2, 1), (4, 2, 1), (2, 4, 1), (8, 1, 1), (4, 2, 2)];

/// Past the short batch, which is the 17th.
const SHORT: u64 = 19;

fn on(kind: ModelKind, multi_hot: bool, (hosts, ranks, per_group): Cluster) -> Config {
    let mut config = config(kind, multi_hot, hosts, ranks);
    config.topology.hosts_per_tower = Some(per_group);
    config.placement.cut = Some(Cut::Whole);
    config.train.steps = Some(SHORT);
    config
}

/// Clicks that follow from single ids and dense features: a log for few features, or for constant ones.
fn without_interactions(config: &mut Config) {
    let log = config.data.synthetic.as_mut().unwrap();
    (log.groups, log.within, log.across) = (1, 0.0, 0.0);
}

/// Trains a config on both dataflows, with everything else equal. Gives the last of the SPTT runs.
fn same_bits(mut config: Config, permutes: &[PeerPermute], what: &str) -> Run {
    config.train.dataflow = Some(DataflowKind::Flat);
    let mut run = planning::check(&config).unwrap();
    let flat = train(&run);
    assert_eq!(flat.losses.len() as u64, config.train.steps.unwrap(), "{what}");
    config.train.dataflow = Some(DataflowKind::Sptt);
    for &permute in permutes {
        config.train.peer_permute = Some(permute);
        run = planning::check(&config).unwrap();
        assert_eq!(run.dataflow.sptt().map(|sptt| sptt.permute()), Some(permute));
        let sptt = train(&run);
        let what = format!("{what}, permuting {permute}");
        assert_eq!(flat.losses, sptt.losses, "{what}");
        assert_eq!(flat.parameters_sha256, sptt.parameters_sha256, "{what}");
        let evaluation = |outcome: &training::Outcome| outcome.scores.as_ref().map(|s| s.evaluation);
        assert_eq!(evaluation(&flat), evaluation(&sptt), "{what}");
    }
    run
}

/// All clusters, 50 steps. `turn` deals out the permutes, so that among three tests every cluster has each.
fn same_bits_everywhere(kind: ModelKind, multi_hot: bool, rule: UpdateRule, turn: usize) {
    let (dense, rate) = match rule {
        UpdateRule::RowWiseAdagrad { eps } => (UpdateRule::Adagrad { eps }, 0.01),
        UpdateRule::Sgd => (rule, 0.05),
        _ => (rule, 0.002),
    };
    for (i, cluster) in CLUSTERS.into_iter().enumerate() {
        let mut config = on(kind, multi_hot, cluster);
        config.model.towers = Some(Assignment::Each);
        config.train.steps = Some(50);
        config.placement.cut = Some(if multi_hot { Cut::Hotness } else { Cut::Whole });
        config.optimizer.dense = Some(optimizer(dense, rate));
        config.optimizer.tables = Some(optimizer(rule, rate));
        let permute = PERMUTES[(i + turn) % 3];
        same_bits(config, &[permute], &format!("{kind:?} on {cluster:?}"));
    }
}

#[test]
fn dlrm_by_sgd() {
    same_bits_everywhere(ModelKind::Dlrm, false, UpdateRule::Sgd, 0);
}

#[test]
fn dlrm_by_adam() {
    same_bits_everywhere(ModelKind::Dlrm, false, ADAM, 1);
}

#[test]
fn dlrm_by_row_wise_adagrad() {
    same_bits_everywhere(ModelKind::Dlrm, false, ROW_WISE, 2);
}

#[test]
fn dlrm_by_sgd_multi_hot() {
    same_bits_everywhere(ModelKind::Dlrm, true, UpdateRule::Sgd, 1);
}

#[test]
fn dlrm_by_adam_multi_hot() {
    same_bits_everywhere(ModelKind::Dlrm, true, ADAM, 2);
}

#[test]
fn dlrm_by_row_wise_adagrad_multi_hot() {
    same_bits_everywhere(ModelKind::Dlrm, true, ROW_WISE, 0);
}

/// The linear weight of an id travels with its vector, or apart from it where columns are cut.
#[test]
fn deepfm_by_adam() {
    same_bits_everywhere(ModelKind::DeepFm, false, ADAM, 0);
}

#[test]
fn deepfm_by_row_wise_adagrad_multi_hot() {
    same_bits_everywhere(ModelKind::DeepFm, true, ROW_WISE, 1);
}

#[test]
fn dcn_by_sgd() {
    same_bits_everywhere(ModelKind::Dcn, false, UpdateRule::Sgd, 2);
}

#[test]
fn dcn_by_adam() {
    same_bits_everywhere(ModelKind::Dcn, false, ADAM, 0);
}

#[test]
fn dcn_by_row_wise_adagrad() {
    same_bits_everywhere(ModelKind::Dcn, false, ROW_WISE, 1);
}

#[test]
fn dcn_by_sgd_multi_hot() {
    same_bits_everywhere(ModelKind::Dcn, true, UpdateRule::Sgd, 0);
}

#[test]
fn dcn_by_adam_multi_hot() {
    same_bits_everywhere(ModelKind::Dcn, true, ADAM, 1);
}

#[test]
fn dcn_by_row_wise_adagrad_multi_hot() {
    same_bits_everywhere(ModelKind::Dcn, true, ROW_WISE, 2);
}

/// One rank is its own group and its own peer.
#[test]
fn alone() {
    same_bits(on(ModelKind::Dlrm, true, (1, 1, 1)), &PERMUTES, "1 × 1");
}

/// §3.1.3: tables cut by columns or by rows inside their group.
#[test]
fn every_cut() {
    for cut in [Cut::Whole, Cut::Columns, Cut::Rows, Cut::Hotness] {
        for cluster in [(2, 2, 1), (4, 2, 2)] {
            let mut config = on(ModelKind::Dcn, true, cluster);
            config.placement.cut = Some(cut);
            let run = same_bits(config, &PERMUTES, &format!("{cut:?} on {cluster:?}"));
            let tables = 0..run.model.features().len();
            let columns = tables.clone().filter(|&table| run.placement.column_pieces(table) > 1).count();
            let rows = tables.filter(|&table| run.placement.row_pieces(table) > 1).count();
            // C1, C2 and C4 have bags.
            let expected = match cut {
                Cut::Whole => (0, 0),
                Cut::Columns => (6, 0),
                Cut::Rows => (0, 6),
                Cut::Hotness => (3, 3),
            };
            assert_eq!((columns, rows), expected, "{cut:?} on {cluster:?}");
        }
    }
}

/// Towers decide where tables are; without modules they decide nothing else.
#[test]
fn towers_of_several_features() {
    for towers in 1..=6 {
        let cluster = CLUSTERS[towers % 6];
        let mut config = on(ModelKind::Dlrm, true, cluster);
        config.model.towers = Some(Assignment::Strided(towers));
        let run =
            same_bits(config, &PERMUTES[towers % 3..][..1], &format!("strided:{towers} on {cluster:?}"));
        assert_eq!(run.model.towers().len(), towers);
    }
}

/// Slices of one table in several towers, on several groups.
#[test]
fn towers_of_slices() {
    let lists = [
        vec!["C3[3..6]", "C0"],
        vec!["C1[4..8]", "C5", "C3[0..3]"],
        vec!["C2", "C3[6..8]"],
        vec!["C4", "C1[0..4]"],
    ];
    let mut config = on(ModelKind::Dcn, true, (4, 2, 1));
    let names = lists.map(|tower| tower.into_iter().map(String::from).collect());
    config.model.towers = Some(Assignment::Lists(names.into()));
    config.placement.cut = Some(Cut::Hotness);
    let run = same_bits(config, &PERMUTES, "slices");
    assert_eq!((run.placement.row_pieces(3), run.placement.column_pieces(3)), (1, 3));
}

/// More groups than features: tables are sliced by columns. Where columns run out, some groups have nothing.
#[test]
fn more_groups_than_features() {
    let (dlrm, dcn) = (ModelKind::Dlrm, ModelKind::Dcn);
    for (kind, count, dim, slices, idle) in
        [(dlrm, 3, 8, 3, 0), (dcn, 3, 2, 2, 2), (dlrm, 1, 1, 1, 7), (dcn, 1, 5, 5, 3)]
    {
        let mut config = on(kind, true, (8, 1, 1));
        config.model.features = Some(features(true)[1..=count].to_vec());
        config.model.dim = Some(dim);
        config.model.bottom = Some(vec![16, dim]);
        without_interactions(&mut config);
        let what = format!("{count} features of {dim} columns");
        let run = same_bits(config, &PERMUTES, &what);
        for table in 0..count {
            assert_eq!(run.placement.column_pieces(table), slices, "{what}");
        }
        let without = (0..8).filter(|&rank| run.placement.held_by(rank).is_empty()).count();
        assert_eq!(without, idle, "{what}");
    }
}

#[test]
fn without_dense_features() {
    for kind in [ModelKind::Dlrm, ModelKind::Dcn] {
        let mut config = on(kind, true, (2, 2, 1));
        config.model.dense_features = Some(0);
        config.model.bottom = Some(Vec::new());
        config.data.synthetic.as_mut().unwrap().dense = 0.0;
        same_bits(config, &PERMUTES, &format!("{kind:?} without dense features"));
    }
}

/// Every id with a weight: of single-hot features too, and under a mean.
#[test]
fn weights() {
    for cut in [Cut::Whole, Cut::Rows] {
        let mut config = on(ModelKind::Dlrm, true, (2, 2, 1));
        config.model.features.as_mut().unwrap().iter_mut().for_each(|f| f.weighted = true);
        config.placement.cut = Some(cut);
        same_bits(config, &PERMUTES, &format!("weights, {cut:?}"));
    }
}

/// Fewer samples than ranks: some have none, and some groups have none.
#[test]
fn ranks_without_samples() {
    for batch in [1, 3, 7] {
        let mut config = on(ModelKind::Dcn, true, (4, 2, 1));
        config.train.batch = Some(batch);
        config.data.synthetic.as_mut().unwrap().eval_samples = 20;
        config.placement.cut = Some(Cut::Hotness);
        same_bits(config, &PERMUTES, &format!("batches of {batch}"));
    }
}

/// A table of one row, where rows cannot be cut.
#[test]
fn tables_of_one_row() {
    let mut config = on(ModelKind::Dlrm, false, (2, 2, 1));
    config.model.features = Some(vec![feature("A", 1), feature("B", 30), feature("C", 2)]);
    config.placement.cut = Some(Cut::Rows);
    without_interactions(&mut config);
    let run = same_bits(config, &PERMUTES, "a table of one row");
    assert_eq!(run.placement.scheme(0), Scheme::TableWise);
}

/// Whether communication overlaps changes no bit: flat, SPTT, and towers with modules.
#[test]
fn overlap_changes_no_bit() {
    let flat = on(ModelKind::Dlrm, true, (2, 2, 1));
    let mut sptt = flat.clone();
    sptt.model.towers = Some(Assignment::Each);
    sptt.placement.cut = Some(Cut::Hotness);
    let mut towers = flat.clone();
    towers.model.towers = Some(Assignment::Strided(4));
    towers.model.tower_module = Some("dlrm:c=1,p=1,d=8".parse().unwrap());
    for (what, mut config) in [("flat", flat), ("sptt", sptt), ("towers", towers)] {
        let overlapped = train(&planning::check(&config).unwrap());
        config.train.overlap = Some(false);
        let run = planning::check(&config).unwrap();
        assert!(!run.overlap && config.explicit(&run).train.overlap == Some(false));
        let serial = train(&run);
        assert_eq!(overlapped.losses, serial.losses, "{what}");
        assert_eq!(overlapped.parameters_sha256, serial.parameters_sha256, "{what}");
    }
}
