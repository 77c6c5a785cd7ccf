//! What the transport counted is what the bound schedule says, phase by phase, rank by rank.

use crate::common::metered::{Epoch, check_run, metered, sent};
use crate::common::{self, config};
use collectives::SentBytes;
use proptest::prelude::*;
use proptest::sample::select;
use spec::Pooling;
use spec::dataflow::{AllToAll, DataflowKind, PeerPermute};
use spec::feature::{Feature, Hotness};
use spec::placement::{Cut, HostCut, Layout};
use spec::presets::ModelKind;
use spec::program::Algorithm;
use spec::run::{AllReduce, Config};
use spec::schedule::{CopyReduction, PhaseId, Task};
use spec::synthetic::Synthetic;
use spec::towers::Assignment;
use spec::volume::{BatchSizes, LinkBytes};
use spec::wire::{Format, WireConfig};

fn check(kind: ModelKind, multi_hot: bool, hosts: usize, ranks_per_host: usize, replicate: usize) {
    let mut config = config(kind, multi_hot, hosts, ranks_per_host);
    config.placement.replicate_rows = Some(replicate);
    let run = planning::check(&config).unwrap();
    check_run(&run, &Epoch::of(&run), "");
}

#[test]
fn single_hot() {
    for (hosts, ranks) in [(1, 1), (1, 4), (2, 2), (4, 2)] {
        check(ModelKind::Dlrm, false, hosts, ranks, 0);
    }
}

#[test]
fn multi_hot() {
    for (hosts, ranks) in [(1, 3), (2, 2), (4, 2)] {
        check(ModelKind::Dcn, true, hosts, ranks, 0);
        check(ModelKind::DeepFm, true, hosts, ranks, 0);
    }
}

#[test]
fn replicated() {
    check(ModelKind::Dlrm, true, 2, 2, 40);
    check(ModelKind::Dlrm, false, 2, 2, 1000);
}

const CUTS: [Cut; 4] = [Cut::Whole, Cut::Columns, Cut::Rows, Cut::Hotness];
const PERMUTES: [PeerPermute; 3] = [PeerPermute::Vectors, PeerPermute::Ids, PeerPermute::None];

/// A model of `towers` towers under `module`, whose vectors have length `d`, on H × L ranks in groups of K hosts.
fn in_towers(
    (kind, towers, module, d): (ModelKind, usize, &str, usize),
    multi_hot: bool,
    (hosts, ranks, per_group): (usize, usize, usize),
    cut: Cut,
    permute: PeerPermute,
) -> Config {
    let mut config = config(kind, multi_hot, hosts, ranks);
    config.topology.hosts_per_tower = Some(per_group);
    config.model.towers = Some(Assignment::Strided(towers));
    config.model.tower_module = Some(module.parse().unwrap());
    config.model.bottom = Some(vec![16, d]);
    config.placement.cut = Some(cut);
    config.train.peer_permute = Some(permute);
    config
}

const PASS_THROUGH: (ModelKind, usize, &str, usize) = (ModelKind::Dlrm, 4, "none", 8);
const DMT_DLRM: (ModelKind, usize, &str, usize) = (ModelKind::Dlrm, 4, "dlrm:c=1,p=0,d=4", 4);
const DMT_DCN: (ModelKind, usize, &str, usize) = (ModelKind::Dcn, 4, "dcn:d=8", 8);

/// The log of all models of [`in_towers`] with multi-hot features.
fn multi_hot_log() -> Epoch {
    Epoch::of(&planning::check(&config(ModelKind::Dlrm, true, 1, 1)).unwrap())
}

/// Weights, means and bags of any length, a last batch of 5 samples, and every way to cut and to permute.
fn check_sptt(model: (ModelKind, usize, &str, usize)) {
    let log = multi_hot_log();
    for cluster in [(2, 2, 1), (4, 2, 2)] {
        for cut in CUTS {
            for permute in PERMUTES {
                let run = planning::check(&in_towers(model, true, cluster, cut, permute)).unwrap();
                check_run(&run, &log, &format!("of {model:?} on {cluster:?}, {cut:?}, permuting {permute}"));
            }
        }
    }
}

/// The norm of towers' gradients is one float among peers.
#[test]
fn norms_of_gradients() {
    let log = multi_hot_log();
    for (model, cluster) in
        [(DMT_DLRM, (2, 2, 1)), (DMT_DLRM, (4, 2, 2)), (DMT_DCN, (3, 2, 1)), (PASS_THROUGH, (2, 2, 1))]
    {
        let mut config = in_towers(model, true, cluster, Cut::Whole, PeerPermute::Ids);
        config.train.clip_norm = Some(0.1);
        let run = planning::check(&config).unwrap();
        check_run(&run, &log, &format!("of {model:?} on {cluster:?}"));
        let schedule = run.schedule(Task::Train);
        let norm = schedule.phases().iter().position(|phase| phase.name == "reduce tower norm");
        assert_eq!(norm.is_some(), model != PASS_THROUGH);
        if let Some(norm) = norm {
            // Peers reduce on the first of them, which tells all others.
            let sizes = BatchSizes::typical(&run.model, &run.placement, run.batch);
            let sent: u64 =
                (0..run.topology().ranks()).map(|r| schedule.sent(PhaseId(norm), &sizes, r).network).sum();
            let (groups, size) = (cluster.0 / cluster.2, cluster.1 * cluster.2);
            assert_eq!(sent, 2 * 4 * ((groups - 1) * size) as u64);
        }
    }
}

#[test]
fn sptt_with_pass_through_towers() {
    check_sptt(PASS_THROUGH);
}

#[test]
fn sptt_with_dlrm_modules() {
    check_sptt((ModelKind::Dlrm, 3, "dlrm:c=1,p=2,d=4", 4));
}

#[test]
fn sptt_with_dcn_modules() {
    check_sptt(DMT_DCN);
}

/// One rank, one group, one rank a group, more groups than towers, and towers without features of a multi-hot kind.
#[test]
fn sptt_on_other_clusters() {
    let log = multi_hot_log();
    for cluster in [(1, 1, 1), (1, 3, 1), (3, 1, 1), (2, 2, 2), (8, 1, 1), (6, 1, 2)] {
        for model in [PASS_THROUGH, (ModelKind::Dlrm, 2, "dlrm:c=0,p=1,d=4", 4)] {
            let run =
                planning::check(&in_towers(model, true, cluster, Cut::Rows, PeerPermute::Vectors)).unwrap();
            check_run(&run, &log, &format!("of {model:?} on {cluster:?}"));
        }
    }
}

#[test]
fn flat_with_cut_tables() {
    let log = multi_hot_log();
    for cluster in [(2, 2, 1), (4, 2, 2)] {
        for cut in CUTS {
            let mut config = in_towers(PASS_THROUGH, true, cluster, cut, PeerPermute::Ids);
            (config.train.dataflow, config.train.peer_permute) = (Some(DataflowKind::Flat), None);
            check_run(&planning::check(&config).unwrap(), &log, &format!("of flat on {cluster:?}, {cut:?}"));
        }
    }
}

/// Layouts of single tables: pieces of rows on some ranks of several hosts, on one host, and columns twice on a rank.
#[test]
fn layouts_by_table() {
    let log = multi_hot_log();
    let hierarchical = Layout::Hierarchical { host: 1, cut: HostCut::Rows };
    let columns = Layout::ColumnWise { ranks: vec![3, 0, 3] };
    let mut flat = config(ModelKind::Dlrm, true, 2, 2);
    flat.placement.tables.insert("C1".into(), Layout::RowWise { ranks: vec![0, 1, 3] });
    flat.placement.tables.insert("C2".into(), hierarchical.clone());
    flat.placement.tables.insert("C3".into(), columns.clone());
    flat.placement.tables.insert("C4".into(), Layout::Replicated);
    check_run(&planning::check(&flat).unwrap(), &log, "of flat");
    for permute in PERMUTES {
        let mut sptt = in_towers(PASS_THROUGH, true, (2, 2, 1), Cut::Whole, permute);
        sptt.placement.tables.insert("C2".into(), hierarchical.clone());
        sptt.placement.tables.insert("C3".into(), columns.clone());
        check_run(&planning::check(&sptt).unwrap(), &log, &format!("of sptt, permuting {permute}"));
    }
}

/// Tables with copies, whose ids stay with the copy that serves the sample: in the flat dataflow on every rank, in SPTT on the ranks
/// of a group; some of their gradients are reduced by rows, some densely.
#[test]
fn data_parallel_tables() {
    let log = multi_hot_log();
    let copies = |ranks: Option<Vec<usize>>| Layout::DataParallel { ranks };
    for cluster in [(1, 1, 1), (1, 3, 1), (2, 2, 1)] {
        let mut config = config(ModelKind::Dlrm, true, cluster.0, cluster.1);
        for name in ["C0", "C1", "C2", "C3", "C4"] {
            config.placement.tables.insert(name.into(), copies(None));
        }
        config.placement.tables.insert("C5".into(), Layout::Replicated);
        if cluster == (2, 2, 1) {
            config.train.all_to_all = Some(AllToAll::Hierarchical);
        }
        let run = planning::check(&config).unwrap();
        check_run(&run, &log, &format!("of flat on {cluster:?}"));
        if cluster.1 > 1 {
            let reductions =
                run.schedule(Task::Train).copies().iter().map(|of| of.reduction).collect::<Vec<_>>();
            assert!(reductions.contains(&CopyReduction::Dense) && reductions.contains(&CopyReduction::Rows));
        }
    }
    for permute in PERMUTES {
        for cluster in [(2, 2, 1), (4, 1, 2)] {
            let mut config = in_towers(PASS_THROUGH, true, cluster, Cut::Whole, permute);
            // The second group: ranks 2 and 3 by host, 1 and 3 by peer.
            let group = if permute == PeerPermute::None { [1, 3] } else { [2, 3] };
            for name in ["C1", "C2", "C3", "C4"] {
                config.placement.tables.insert(name.into(), copies(Some(group.to_vec())));
            }
            let what = format!("of sptt on {cluster:?}, permuting {permute}");
            check_run(&planning::check(&config).unwrap(), &log, &what);
        }
    }
}

/// Towers of slices of tables: with modules, and as long as what they give, so that they pass through.
#[test]
fn slices_of_tables() {
    let log = multi_hot_log();
    let slices = |i: usize| [format!("C{i}[0..4]"), format!("C{i}[4..8]")];
    let each: Vec<Vec<String>> = (0..6).flat_map(|i| slices(i).map(|slice| vec![slice])).collect();
    let mut mixed: Vec<Vec<String>> = (0..4).map(|i| vec![slices(i)[0].clone()]).collect();
    (0..4).for_each(|i| mixed[(i + 1) % 4].push(slices(i)[1].clone()));
    mixed[1].extend(slices(4));
    mixed[2].extend(slices(5));
    for (names, module) in [(&each, "dlrm:c=0,p=1,d=4"), (&mixed, "dlrm:c=1,p=1,d=4"), (&mixed, "none")] {
        for permute in PERMUTES {
            let d = if module == "none" { 8 } else { 4 };
            let model = (ModelKind::Dlrm, 1, module, d);
            let mut config = in_towers(model, true, (4, 2, 2), Cut::Hotness, permute);
            config.model.towers = Some(Assignment::Lists(names.clone()));
            check_run(&planning::check(&config).unwrap(), &log, &format!("of {module}, permuting {permute}"));
        }
    }
}

/// Wires of all codecs, by payload too.
const WIRES: [&str; 10] = [
    "f32",
    "bf16",
    "f16",
    "vectors=f16,dense=bf16",
    "gradients=bf16",
    "fp8",
    "u8",
    "u4+ec",
    "vectors=u4,gradients=u2,dense=u4+ec-paper,towers=u8",
    "u2",
];

/// Every algorithm of an all-reduce sends what its program says, on hosts of equal and of single ranks.
#[test]
fn algorithms_of_reductions() {
    let log = Epoch::of(&planning::check(&config(ModelKind::Dlrm, false, 1, 1)).unwrap());
    for algorithm in Algorithm::ORDERED {
        for (hosts, ranks) in [(1, 3), (2, 2), (3, 1), (3, 2)] {
            let mut config = config(ModelKind::Dlrm, false, hosts, ranks);
            config.train.all_reduce = Some(AllReduce::By(algorithm));
            for wire in ["f32", "dense=u4+ec"] {
                config.wire = wire.parse().unwrap();
                let what = format!("of {algorithm} on {hosts} × {ranks}, {wire}");
                check_run(&planning::check(&config).unwrap(), &log, &what);
            }
        }
    }
}

/// Rows of 128 floats: 8, 4 and 2 bits send at most 1/3.75, 1/7 and 1/12 of what single precision sends.
#[test]
fn few_bits_send_few_bytes() {
    let log = Epoch::of(&planning::check(&config(ModelKind::Dlrm, false, 1, 1)).unwrap());
    let sent = |wire: &str| {
        let mut config = config(ModelKind::Dlrm, false, 2, 2);
        (config.model.dim, config.model.bottom) = (Some(128), Some(vec![16, 128]));
        config.wire = wire.parse().unwrap();
        let run = planning::check(&config).unwrap();
        let metered = metered(&run, &log, 3);
        let exchanges = ["pooled exchange", "gradient exchange"].map(|phase| {
            let of_rank = metered.iter().map(|rank| sent(rank, phase));
            of_rank.fold(0, |sum, bytes| sum + bytes.host + bytes.network) as f64
        });
        assert!(exchanges.iter().all(|&bytes| bytes > 0.0));
        exchanges
    };
    let whole = sent("f32");
    for (wire, factor) in [("u8", 3.75), ("u4", 7.0), ("u2", 12.0)] {
        for (bytes, whole) in sent(wire).into_iter().zip(whole) {
            assert!(bytes * factor <= whole, "{wire}: {bytes} of {whole} bytes");
        }
    }
}

/// Every format, with every reduction and exchange that knows one, and in two levels.
#[test]
fn formats_of_the_wire() {
    let log = multi_hot_log();
    for text in WIRES {
        let wire: WireConfig = text.parse().unwrap();
        let mut sptt = in_towers(DMT_DLRM, true, (4, 2, 2), Cut::Hotness, PeerPermute::Vectors);
        sptt.wire = wire;
        check_run(&planning::check(&sptt).unwrap(), &log, &format!("of sptt, {text}"));
        for all_to_all in [AllToAll::Flat, AllToAll::Hierarchical] {
            let mut flat = config(ModelKind::Dlrm, true, 2, 2);
            (flat.wire, flat.train.all_to_all) = (wire, Some(all_to_all));
            check_run(&planning::check(&flat).unwrap(), &log, &format!("of flat, {text}, {all_to_all}"));
        }
    }
}

/// Two levels send the same between hosts, and more inside them: what is relayed.
#[test]
fn a_hierarchical_all_to_all() {
    let log = multi_hot_log();
    for (hosts, ranks) in [(2, 2), (4, 2), (2, 3), (3, 1), (1, 3)] {
        let mut direct = config(ModelKind::Dlrm, true, hosts, ranks);
        direct.placement.replicate_rows = Some(20);
        let mut levels = direct.clone();
        levels.train.all_to_all = Some(AllToAll::Hierarchical);
        let levels = planning::check(&levels).unwrap();
        check_run(&levels, &log, &format!("on {hosts} × {ranks}"));
        let (direct, levels) =
            (metered(&planning::check(&direct).unwrap(), &log, 17), metered(&levels, &log, 17));
        for leg in ["pooled", "gradient"] {
            let all = in_all(&direct, &format!("{leg} exchange"));
            let inside = in_all(&levels, &format!("{leg} exchange in host"));
            let between = in_all(&levels, &format!("{leg} exchange between hosts"));
            assert_eq!((between.network, between.host, inside.network), (all.network, 0, 0));
            assert_eq!(inside.host > all.host, hosts > 1 && ranks > 1, "{leg} on {hosts} × {ranks}");
        }
    }
}

/// Two bytes a float are half of four, in every phase that carries floats.
#[test]
fn two_bytes_are_half_of_four() {
    let (log, config) = (multi_hot_log(), config(ModelKind::Dlrm, true, 2, 2));
    let with = |format: Format| {
        let config = Config { wire: format.name().parse().unwrap(), ..config.clone() };
        metered(&planning::check(&config).unwrap(), &log, EVEN)
    };
    let (whole, half) = (with(Format::F32), with(Format::Bf16));
    for phase in ["pooled exchange", "gradient exchange", "reduce bucket 0"] {
        let (whole, half) = (in_all(&whole, phase), in_all(&half, phase));
        assert_eq!((whole.host, whole.network), (2 * half.host, 2 * half.network), "{phase}");
        assert!(half.network > 0);
    }
    assert_eq!(in_all(&whole, "ids exchange"), in_all(&half, "ids exchange"));
}

fn any_feature() -> impl Strategy<Value = Feature> {
    let (rows, means, pooling) = ([1, 2, 5, 20], [0u32, 0, 1, 3], [Pooling::Sum, Pooling::Mean]);
    let numbers = (select(rows.to_vec()), select(means.to_vec()), proptest::option::of(1..8usize));
    (numbers, select(pooling.to_vec()), any::<bool>()).prop_map(|((rows, mean, dim), pooling, weighted)| {
        let hotness = if mean == 0 { Hotness::One } else { Hotness::Many { mean } };
        Feature { pooling, hotness, weighted, dim, ..common::feature("", rows) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

    /// Small models of any kind, on any small cluster: they train, and send what their schedules say.
    #[test]
    fn any_towers(
        mut features in proptest::collection::vec(any_feature(), 1..6),
        (dim, dense, kind) in (1..6usize, 0..2usize, select(vec![ModelKind::Dlrm, ModelKind::Dcn])),
        towers in 1..6usize,
        (module, d) in (select(vec!["none", "dlrm:c=1,p=0", "dlrm:c=0,p=1", "dlrm:c=2,p=1", "dcn:out=tower"]), 1..5usize),
        (groups, per_group, ranks) in (1..4usize, 1..3usize, 1..4usize),
        cut in select(CUTS.to_vec()),
        permute in select(PERMUTES.to_vec()),
        batch in 1..12usize,
        wire in select(WIRES.to_vec()),
        all_reduce in select(Algorithm::ORDERED.to_vec()),
    ) {
        features.iter_mut().enumerate().for_each(|(i, feature)| feature.name = format!("C{i}"));
        let towers = towers.min(features.len());
        let meets = if kind == ModelKind::Dlrm && module != "none" { d } else { dim };
        let module = if module == "none" { module.into() } else { format!("{module},d={d}") };
        let model = (kind, towers, module.as_str(), meets);
        let mut config = in_towers(model, true, (groups * per_group, ranks, per_group), cut, permute);
        config.model.bottom = Some(if dense == 0 { vec![] } else { vec![3, meets] });
        (config.model.features, config.model.dim) = (Some(features), Some(dim));
        config.model.dense_features = Some(dense);
        config.train.batch = Some(batch);
        (config.wire, config.train.all_reduce) = (wire.parse().unwrap(), Some(AllReduce::By(all_reduce)));
        // Sums over tables of one row are large enough to make crossed models diverge at the usual rate.
        config.optimizer.peak = Some(1e-4);
        let samples = 2 * batch as u64 + 1;
        // Tables of one row have no effects of their own to plant.
        let plain = Synthetic { within: 0.0, across: 0.0, main: 0.0, dense: 0.0, ..Default::default() };
        config.data.synthetic = Some(Synthetic { samples, groups: 1, ..plain });
        let run = planning::check(&config).unwrap();
        check_run(&run, &Epoch::of(&run), "");
    }
}

/// Bytes of all ranks in a phase.
fn in_all(metered: &[Vec<SentBytes>], phase: &str) -> LinkBytes {
    metered.iter().fold(LinkBytes::default(), |mut sum, rank| {
        sum += sent(rank, phase);
        sum
    })
}

/// Steps of an epoch before its last batch: every batch is shared out evenly.
const EVEN: u64 = 16;
const EPOCH: u64 = 17;

/// With one host a group, SPTT's peer exchange sends between hosts what the flat exchange sends between them (DMT §3.1.2).
#[test]
fn peer_exchange_sends_what_the_flat_exchange_sends_between_hosts() {
    let log = multi_hot_log();
    for cluster in [(2, 2, 1), (4, 2, 1)] {
        for cut in [Cut::Whole, Cut::Columns] {
            let mut config = in_towers(PASS_THROUGH, true, cluster, cut, PeerPermute::Ids);
            (config.train.dataflow, config.train.peer_permute) = (Some(DataflowKind::Flat), None);
            let flat = planning::check(&config).unwrap();
            for permute in PERMUTES {
                let sptt = planning::check(&in_towers(PASS_THROUGH, true, cluster, cut, permute)).unwrap();
                // In peer order other samples are on a host: those of an uneven batch are not as many.
                let same_ranks = permute != PeerPermute::None;
                assert_eq!(sptt.placement == flat.placement, same_ranks);
                let steps = if same_ranks { EPOCH } else { EVEN };
                let (flat, sptt) = (metered(&flat, &log, steps), metered(&sptt, &log, steps));
                for (of_flat, of_sptt) in
                    [("pooled exchange", "peer exchange"), ("gradient exchange", "peer gradient exchange")]
                {
                    let (of_flat, of_sptt) = (in_all(&flat, of_flat), in_all(&sptt, of_sptt));
                    assert!(of_flat.network > 0);
                    assert_eq!(of_flat.network, of_sptt.network, "{cluster:?}, {cut:?}, {permute}");
                    assert_eq!(of_sptt.host, 0, "peers are on different hosts");
                }
                for phase in ["group exchange", "group gradient exchange"] {
                    assert_eq!(in_all(&sptt, phase).network, 0, "a group is a host");
                }
            }
        }
    }
}

/// Tower modules send 1/CR of it, and their gradients stay on their hosts (DMT §3.2).
#[test]
fn tower_modules_compress_what_peers_exchange() {
    let log = multi_hot_log();
    for (model, ratio) in [(DMT_DLRM, 2.0), (DMT_DCN, 1.5)] {
        for cut in [Cut::Whole, Cut::Columns] {
            let passing = (model.0, model.1, "none", 8);
            let passing =
                planning::check(&in_towers(passing, true, (4, 2, 1), cut, PeerPermute::Ids)).unwrap();
            let dmt = planning::check(&in_towers(model, true, (4, 2, 1), cut, PeerPermute::Ids)).unwrap();
            assert_eq!(passing.placement, dmt.placement);
            assert_eq!(dmt.model.compression_ratio(), ratio);
            let (passing, dmt) = (metered(&passing, &log, EVEN), metered(&dmt, &log, EVEN));
            for phase in ["peer exchange", "peer gradient exchange"] {
                let (passing, dmt) = (in_all(&passing, phase).network, in_all(&dmt, phase).network);
                assert!(dmt > 0);
                assert_eq!(passing as f64, dmt as f64 * ratio, "{phase} of {model:?}, {cut:?}");
            }
            let reduced = in_all(&dmt, "reduce tower gradients");
            assert!(reduced.host > 0);
            assert_eq!(reduced.network, 0);
        }
    }
}

/// 4 × 2 ranks in groups of two hosts, one table on each: half of the pooled volume crosses hosts in the group, half among
/// peers; three quarters of it in the flat exchange.
#[test]
fn groups_of_two_hosts_send_a_half_and_a_half() {
    let mut config = in_towers(PASS_THROUGH, false, (4, 2, 2), Cut::Whole, PeerPermute::Ids);
    config.model.features = Some((0..8).map(|i| common::feature(&format!("C{i}"), 16)).collect());
    let log = Epoch::of(&planning::check(&config).unwrap());
    let pooled = EVEN * 96 * 8 * 8 * 4;
    for permute in PERMUTES {
        config.train.peer_permute = Some(permute);
        let run = planning::check(&config).unwrap();
        assert!((0..8).all(|rank| run.placement.held_by(rank).len() == 1));
        let metered = metered(&run, &log, EVEN);
        for phase in ["group exchange", "peer exchange", "group gradient exchange", "peer gradient exchange"]
        {
            assert_eq!(in_all(&metered, phase).network, pooled / 2, "{phase}, permuting {permute}");
        }
    }
    (config.train.dataflow, config.train.peer_permute) = (Some(DataflowKind::Flat), None);
    let metered = metered(&planning::check(&config).unwrap(), &log, EVEN);
    for phase in ["pooled exchange", "gradient exchange"] {
        assert_eq!(in_all(&metered, phase).network, pooled * 3 / 4, "{phase}");
    }
}
