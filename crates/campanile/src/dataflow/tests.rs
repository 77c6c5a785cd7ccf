use super::*;
use spec::run::Config;
use spec::towers::Assignment;

#[test]
fn a_dataflow_reads_well() {
    let mut config = Config::default();
    assert_eq!(of_run(&planning::check(&config).unwrap()), "flat");
    config.model.towers = Some(Assignment::Each);
    let text = "sptt in 2 groups × 2 ranks, ids permuted; 26 towers that vectors pass through";
    assert_eq!(of_run(&planning::check(&config).unwrap()), text);
    config.wire = "vectors=u4,gradients=u4,dense=u4+ec,towers=bf16".parse().unwrap();
    config.train.all_reduce = Some("two-level".parse().unwrap());
    let wire = "; vectors=u4,gradients=u4,dense=u4+ec,towers=bf16 on the wire";
    assert_eq!(of_run(&planning::check(&config).unwrap()), format!("{text}{wire}; two-level all-reduce"));
    config.wire.rounding = Some(Rounding::Stochastic);
    let rounded = ", rounded stochastically; two-level all-reduce";
    assert_eq!(of_run(&planning::check(&config).unwrap()), format!("{text}{wire}{rounded}"));
    // Nothing is rounded in f32.
    (config.wire, config.train.all_reduce) = ("f32".parse().unwrap(), None);
    config.wire.rounding = Some(Rounding::Stochastic);
    assert_eq!(of_run(&planning::check(&config).unwrap()), text);
    config.model.towers = Some(Assignment::Strided(1));
    config.model.tower_module = Some("dlrm:d=8".parse().unwrap());
    config.topology.hosts_per_tower = Some(2);
    config.train.peer_permute = Some(PeerPermute::None);
    let text = "sptt in 1 group × 4 ranks, nothing permuted: ranks are in peer order; 1 tower of dlrm:c=1,p=0,d=8, \
                    compression ratio 2.00";
    assert_eq!(of_run(&planning::check(&config).unwrap()), text);
}
