use super::*;
use spec::run::Config;

fn run(change: impl FnOnce(&mut Config)) -> Run {
    let mut config = Config::default();
    change(&mut config);
    planning::check(&config).unwrap()
}

fn need(run: &Run) -> MemoryNeed {
    MemoryNeed::of(run, &Cluster::Threads, MemoryUse::TRAINING)
}

#[test]
fn parts_are_sorted_and_add_up() {
    let need = need(&run(|config| config.train.batch = Some(65536)));
    let parts = need.parts();
    assert!(parts.is_sorted_by(|a, b| a.bytes >= b.bytes));
    assert_eq!(parts[0].name, "activations");
    assert_eq!(parts.iter().map(|part| part.bytes).sum::<u64>(), need.total());
    assert!(need.to_string().starts_with("activations "), "{need}");
}

#[test]
fn what_is_not_done_needs_no_memory() {
    let run = run(|config| config.topology.hosts = Some(4));
    let of = |purpose| MemoryNeed::of(&run, &Cluster::Threads, purpose);
    let trained = of(MemoryUse::TRAINING);
    assert_eq!(trained.checkpoint, 0);
    assert!(of(MemoryUse { saves: true, ..MemoryUse::TRAINING }).checkpoint > 0);
    assert!(of(MemoryUse::EVALUATION).activations < trained.activations);
    assert_eq!(of(MemoryUse { computing: 0, ..MemoryUse::TRAINING }).tables, 0);
    assert!(MemoryNeed::of_largest_rank(&run) < trained.total());
}

#[test]
fn pairs_of_ranks_grow_with_their_square() {
    let on = |hosts| need(&run(|config| config.topology.hosts = Some(hosts))).pairs as f64;
    assert!((12.0..20.0).contains(&(on(512) / on(128))));
}

/// Whatever a config may say is counted, and nothing overflows.
#[test]
fn nothing_is_too_large_to_be_counted() {
    let huge = run(|config| {
        config.train.batch = Some(1 << 26);
        config.model.dim = Some(4096);
        config.topology.hosts = Some(1024);
        config.data.synthetic.get_or_insert_default().eval_samples = u64::MAX / 2;
    });
    assert!(need(&huge).total() > 1 << 50);
}
