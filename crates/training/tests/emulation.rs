//! A rank that emulates many nodes has the bits of that many ranks.

mod common;

use common::{config, train};
use spec::emulation::EmulatedLayers;
use spec::presets::ModelKind;
use spec::run::Config;

/// The digest of the parameters of `config` after a few steps, one of them with fewer samples than nodes.
fn digest(mut config: Config) -> Option<String> {
    config.train.steps = Some(19);
    train(&planning::check(&config).unwrap()).parameters_sha256
}

#[test]
fn eight_emulated_nodes_are_eight_ranks() {
    for (kind, wire) in [(ModelKind::Dlrm, "f32"), (ModelKind::Dcn, "f32")] {
        for (hosts, ranks_per_host) in [(1, 8), (2, 4)] {
            let set = |mut config: Config| {
                config.wire = wire.parse().unwrap();
                config
            };
            let real = digest(set(config(kind, true, hosts, ranks_per_host)));
            let mut emulated = set(config(kind, true, 1, 1));
            emulated.emulation.nodes = Some(8);
            emulated.emulation.nodes_per_host = Some(ranks_per_host);
            assert_eq!(real, digest(emulated.clone()), "{kind:?} on {hosts} × {ranks_per_host}, {wire}");
            emulated.emulation.layers = Some(EmulatedLayers::Divisible);
            assert_ne!(real, digest(emulated));
        }
    }
}
