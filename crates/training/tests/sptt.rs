//! SPTT moves vectors another way and changes nothing: with pass-through towers its bits are those of the flat dataflow.

mod common;

use common::{ADAM, config, optimizer, train};
use spec::dataflow::{DataflowKind, PeerPermute};
use spec::optimizer::UpdateRule;
use spec::placement::Cut;
use spec::presets::ModelKind;
use spec::run::Config;
use spec::towers::Assignment;

const ROW_WISE: UpdateRule = UpdateRule::RowWiseAdagrad { eps: 1e-8 };

/// (hosts, ranks per host, hosts per group).
const CLUSTERS: [(usize, usize, usize); 7] =
    [(1, 2, 1), (2, 2, 1), (4, 2, 1), (2, 4, 1), (8, 1, 1), (4, 2, 2), (1, 1, 1)];

fn with_rule(config: &mut Config, rule: UpdateRule, rate: f32) {
    let dense = if matches!(rule, UpdateRule::RowWiseAdagrad { .. }) {
        UpdateRule::Adagrad { eps: 1e-8 }
    } else {
        rule
    };
    config.optimizer.dense = Some(optimizer(dense, rate));
    config.optimizer.tables = Some(optimizer(rule, rate));
}

/// Trains a config on both dataflows, with everything else equal.
fn same_bits(mut config: Config, what: &str) {
    config.train.dataflow = Some(DataflowKind::Flat);
    let flat = train(&config.check().unwrap());
    config.train.dataflow = Some(DataflowKind::Sptt);
    for permute in [PeerPermute::Vectors, PeerPermute::Ids, PeerPermute::None] {
        config.train.peer_permute = Some(permute);
        let sptt = train(&config.check().unwrap());
        assert_eq!(flat.losses, sptt.losses, "{what}, permuting {permute}");
        assert_eq!(flat.parameters_sha256, sptt.parameters_sha256, "{what}, permuting {permute}");
    }
}

fn same_bits_everywhere(kind: ModelKind, multi_hot: bool, rule: UpdateRule, rate: f32) {
    for (hosts, ranks, per_group) in CLUSTERS {
        let mut config = config(kind, multi_hot, hosts, ranks);
        config.topology.hosts_per_tower = Some(per_group);
        config.model.towers = Some(Assignment::Each);
        config.train.steps = Some(50);
        config.placement.cut = Some(if multi_hot { Cut::Hotness } else { Cut::Whole });
        with_rule(&mut config, rule, rate);
        same_bits(config, &format!("{kind:?} on {hosts} × {ranks}, K = {per_group}"));
    }
}

#[test]
fn dlrm_by_sgd() {
    same_bits_everywhere(ModelKind::Dlrm, false, UpdateRule::Sgd, 0.05);
}

#[test]
fn dlrm_by_adam_multi_hot() {
    same_bits_everywhere(ModelKind::Dlrm, true, ADAM, 0.002);
}

#[test]
fn dlrm_by_row_wise_adagrad_multi_hot() {
    same_bits_everywhere(ModelKind::Dlrm, true, ROW_WISE, 0.01);
}

#[test]
fn dcn_by_sgd_multi_hot() {
    same_bits_everywhere(ModelKind::Dcn, true, UpdateRule::Sgd, 0.05);
}

#[test]
fn dcn_by_adam() {
    same_bits_everywhere(ModelKind::Dcn, false, ADAM, 0.002);
}

#[test]
fn dcn_by_row_wise_adagrad() {
    same_bits_everywhere(ModelKind::Dcn, false, ROW_WISE, 0.01);
}
