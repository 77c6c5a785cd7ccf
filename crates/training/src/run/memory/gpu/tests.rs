use super::*;
use spec::presets::Preset;
use spec::run::Config;

/// MLPerf's model on `ranks` ranks of GPU 0: 12 GB and more of tables.
fn run(ranks: usize, rows_cap: u64) -> Run {
    let mut config = Config::default();
    (config.model.preset, config.model.rows_cap) = (Some(Preset::Mlperf), Some(rows_cap as usize));
    (config.topology.hosts, config.topology.ranks_per_host) = (Some(1), Some(ranks));
    planning::check(&config).unwrap()
}

fn short(run: &Run, free: u64) -> Option<GpuNeed> {
    let gpu_of = (0..run.topology().ranks()).map(|rank| (rank, 0)).collect();
    shortage(run, &Cluster::Threads, MemoryUse::TRAINING, &gpu_of, &BTreeMap::from([(0, free)]))
}

#[test]
fn what_would_fit_does() {
    for ranks in [1, 4] {
        let free = 20_000_000_000;
        let need = short(&run(ranks, 40_000_000), free).expect("40 M rows do not fit into 20 GB");
        assert!(need.need.total() > free && need.ranks == ranks);
        let cap = need.rows_cap.expect("fewer rows fit");
        assert_eq!(short(&run(ranks, cap), free), None, "{cap} rows, as it was said");
        assert!(short(&run(ranks, cap + cap / 20), free).is_some(), "{cap} rows are about the most");
        let said = need.to_string();
        assert!(said.contains("on GPU 0 need ") && said.contains("20.0 GB are free"), "{said}");
        assert!(said.contains("the largest table there is C") && said.contains("--rows-cap"), "{said}");
    }
}

#[test]
fn every_gpu_has_to_hold_its_own_ranks_only() {
    let run = run(2, 1_000_000);
    let (of_one, free) = (BTreeMap::from([(0, 0), (1, 0)]), |bytes| BTreeMap::from([(0, bytes), (1, bytes)]));
    let of = |gpu_of: &BTreeMap<usize, usize>, bytes| {
        shortage(&run, &Cluster::Threads, MemoryUse::EVALUATION, gpu_of, &free(bytes))
    };
    let together = of(&of_one, 1).unwrap().need.total();
    let apart = BTreeMap::from([(0, 0), (1, 1)]);
    assert!(of(&of_one, together - 1).is_some() && of(&of_one, together).is_none());
    assert!(of(&apart, together * 2 / 3).is_none(), "two GPUs hold half of it each");
}

#[test]
fn nothing_of_a_batch_that_is_too_large_is_mended_by_fewer_rows() {
    let mut config = Config::default();
    config.train.batch = Some(1 << 24);
    let run = planning::check(&config).unwrap();
    let need = short(&run, 1_000_000).unwrap();
    assert_eq!(need.rows_cap, None);
    assert!(need.to_string().contains("lower train.batch"), "{need}");
}

#[test]
fn tables_on_a_gpu_take_no_memory_of_the_host() {
    let need = MemoryNeed::of(&run(1, 1_000_000), &Cluster::Threads, MemoryUse::TRAINING);
    let host = of_host(&need);
    assert!(need.total() > 5_000_000_000 && host.total() < 1_000_000_000, "{host}");
}
