use super::*;

#[test]
fn chunks_are_large_where_there_is_memory() {
    let shares = Shares::new(&Schema::criteo(), 256 << 20, 4, &Reading::default()).unwrap();
    assert_eq!(shares, Shares { decompressor: 64 << 20, jobs: 10, chunk: CHUNK });
}

#[test]
fn little_memory_makes_chunks_small_and_jobs_few() {
    let mut schema = Schema::criteo();
    schema.sparse[0].separator = Some('|');
    schema.sparse[0].weight_separator = Some(':');
    for memory in [1u64 << 26, 1 << 28, 1 << 30] {
        let shares = Shares::new(&schema, memory, 16, &Reading::default()).unwrap();
        let worst = shares.jobs * shares.chunk * (1 + 24 + 7);
        assert!(worst as u64 <= memory / 2, "{shares:?}");
    }
    assert!(matches!(
        Shares::new(&schema, 1 << 20, 1, &Reading::default()),
        Err(DataError::Memory { allowed: 1048576, .. })
    ));
}
