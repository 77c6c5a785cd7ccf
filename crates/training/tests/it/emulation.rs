//! A rank that emulates many nodes has the bits of that many ranks.

use crate::common::{config, train};
use spec::codec::Rounding;
use spec::dataflow::DataflowKind;
use spec::emulation::{EmulatedLayers, EmulationConfig};
use spec::placement::Layout;
use spec::presets::ModelKind;
use spec::program::Algorithm;
use spec::run::{AllReduce, Config};

/// The digest of the parameters of `config` after a few steps, one of them with fewer samples than nodes.
fn digest(mut config: Config) -> Option<String> {
    config.train.steps = Some(19);
    train(&planning::check(&config).unwrap()).parameters_sha256
}

/// A run on `hosts` × `ranks_per_host` ranks, with tables that are not cut: a vector is a row of a codec.
fn on(hosts: usize, ranks_per_host: usize, kind: ModelKind, wire: &str, algorithm: Algorithm) -> Config {
    let mut config = config(kind, true, hosts, ranks_per_host);
    config.wire = wire.parse().unwrap();
    config.train.all_reduce = Some(AllReduce::By(algorithm));
    let table = |f: usize| (format!("C{f}"), Layout::TableWise { rank: f % (hosts * ranks_per_host) });
    config.placement.tables = (0..6).map(table).collect();
    config
}

/// Eight emulated nodes and eight ranks have the same parameters.
fn same(hosts: usize, kind: ModelKind, wire: &str, algorithm: Algorithm, rounding: Rounding) {
    let nodes_per_host = 8 / hosts;
    let mut real = on(hosts, nodes_per_host, kind, wire, algorithm);
    let mut emulated = on(1, 1, kind, wire, algorithm);
    emulated.emulation.nodes = Some(8);
    emulated.emulation.nodes_per_host = Some(nodes_per_host);
    (real.wire.rounding, emulated.wire.rounding) = (Some(rounding), Some(rounding));
    let case = format!("{kind:?} on {hosts} × {nodes_per_host}, {wire} {algorithm:?} {rounding:?}");
    assert_eq!(digest(real), digest(emulated), "{case}");
}

#[test]
fn eight_emulated_nodes_are_eight_ranks_in_f32() {
    same(1, ModelKind::Dcn, "f32", Algorithm::Direct, Rounding::Nearest);
    same(1, ModelKind::Dlrm, "f32", Algorithm::Ring, Rounding::Nearest);
    same(2, ModelKind::Dlrm, "f32", Algorithm::TwoLevel, Rounding::Nearest);
}

#[test]
fn eight_emulated_nodes_are_eight_ranks_in_four_bits() {
    for wire in ["dense=u4", "dense=u4+ec", "dense=u4+ec-paper"] {
        same(1, ModelKind::Dlrm, wire, Algorithm::Ring, Rounding::Nearest);
        same(2, ModelKind::Dlrm, wire, Algorithm::RecursiveDoubling, Rounding::Nearest);
    }
    same(1, ModelKind::Dlrm, "dense=bf16", Algorithm::Direct, Rounding::Nearest);
    same(2, ModelKind::Dlrm, "dense=u4", Algorithm::RecursiveDoubling, Rounding::Stochastic);
}

/// Vectors and their gradients are rounded on one rank as on many, although they do not travel.
#[test]
fn vectors_are_rounded_on_one_rank() {
    same(1, ModelKind::Dlrm, "vectors=u4,gradients=u2,dense=u8", Algorithm::Ring, Rounding::Nearest);
}

#[test]
fn layers_that_nodes_do_not_divide_are_not_rounded() {
    let mut emulated = on(1, 1, ModelKind::Dlrm, "dense=u2", Algorithm::Ring);
    emulated.emulation =
        EmulationConfig { nodes: Some(3), layers: Some(EmulatedLayers::Divisible), ..Default::default() };
    // No layer has a multiple of three outputs, so that nothing is emulated.
    let alone = digest(on(1, 1, ModelKind::Dlrm, "f32", Algorithm::Direct));
    assert_eq!(digest(emulated.clone()), alone);
    emulated.emulation.nodes = Some(4);
    assert_ne!(digest(emulated), alone);
}

#[test]
fn nodes_that_cannot_be_emulated_are_refused() {
    let refused = |change: fn(&mut Config)| {
        let mut config = on(1, 1, ModelKind::Dlrm, "f32", Algorithm::Ring);
        config.emulation.nodes = Some(8);
        change(&mut config);
        planning::check(&config).unwrap_err().to_string()
    };
    let several = refused(|config| config.topology.hosts = Some(2));
    assert!(
        several.contains("emulation.nodes: one rank emulates all 8 nodes, but the run has 2"),
        "{several}"
    );
    let sptt = refused(|config| config.train.dataflow = Some(DataflowKind::Sptt));
    assert!(sptt.starts_with("emulation.nodes: nodes are emulated with the flat dataflow only"), "{sptt}");
    let none = refused(|config| config.emulation.nodes = Some(0));
    assert_eq!(none, "emulation.nodes: 0 nodes train nothing; use 1 for no emulation");
}
