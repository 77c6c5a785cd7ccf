//! What was written is read, in any pieces and any order.

use super::*;
use crate::Shuffle;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_range(
        log in log(80),
        block_samples in 1..20u32,
        at_a_time in 1..90usize,
        ranges in prop::collection::vec((0..=80usize, 0..=80usize), 8),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let manifest = log.write(folder.path(), block_samples, at_a_time);
        let n = log.samples.len();
        prop_assert_eq!(manifest.samples, n as u64);
        prop_assert_eq!(manifest.clicks, log.samples.iter().filter(|s| s.label == 1.0).count() as u64);
        for (f, feature) in manifest.features.iter().enumerate() {
            let lengths = log.samples.iter().map(|s| s.bags[f].len());
            prop_assert_eq!(feature.max_ids as usize, lengths.clone().max().unwrap_or(0));
            prop_assert!((feature.mean_ids * n as f64 - lengths.sum::<usize>() as f64).abs() < 1e-6);
        }

        let mut reader = bound(folder.path()).unwrap();
        prop_assert_eq!(reader.log().manifest(), &manifest);
        let features = reader.log().features(|_| Some(HASHED_ROWS)).unwrap();
        reader.log().verify(&|_| ()).unwrap();
        let mut batch = Batch::default();
        for (a, b) in ranges {
            let range = a.min(b).min(n)..a.max(b).min(n);
            let numbers: Vec<u64> = range.clone().map(|i| i as u64).collect();
            reader.fill(range.start as u64..range.end as u64, &mut batch).unwrap();
            prop_assert_eq!(&batch, &log.batch(&numbers));
            batch.check(&features, log.schema.dense.len()).unwrap();
        }
        prop_assert!(reader.fill(0..n as u64 + 1, &mut batch).is_err());
        prop_assert!(reader.fill(u64::MAX - 1..u64::MAX, &mut batch).is_err());
    }

    #[test]
    fn any_positions_of_an_epoch(
        log in log(80),
        block_samples in 1..20u32,
        seed: u64,
        epoch in 0..3u64,
        window in 1..100u64,
        step in 1..30u64,
    ) {
        let folder = tempfile::tempdir().unwrap();
        log.write(folder.path(), block_samples, 1000);
        let n = log.samples.len() as u64;
        let mut reader = bound(folder.path()).unwrap();
        let shuffle = Shuffle { seed, epoch, window };
        let mut order = crate::shuffle::WindowOrder::default();
        let numbers: Vec<u64> = (0..n).map(|position| order.sample(&shuffle, position, n)).collect();
        let (mut batch, mut alone) = (Batch::default(), Batch::default());
        for start in (0..n).step_by(step as usize) {
            let range = start..n.min(start + step);
            reader.fill_shuffled(range.clone(), &shuffle, &mut batch).unwrap();
            prop_assert_eq!(&batch, &log.batch(&numbers[range.start as usize..range.end as usize]));
            // A reader that begins here finds the same.
            bound(folder.path()).unwrap().fill_shuffled(range, &shuffle, &mut alone).unwrap();
            prop_assert_eq!(&batch, &alone);
        }
    }
}

#[test]
fn a_window_of_one_is_the_order_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    Log::example(30).write(folder.path(), 7, 30);
    let mut reader = bound(folder.path()).unwrap();
    let (mut plain, mut shuffled) = (Batch::default(), Batch::default());
    reader.fill(3..28, &mut plain).unwrap();
    reader.fill_shuffled(3..28, &Shuffle { seed: 1, epoch: 2, window: 1 }, &mut shuffled).unwrap();
    assert_eq!(plain, shuffled);
    reader.fill_shuffled(3..28, &Shuffle { seed: 1, epoch: 2, window: 5 }, &mut shuffled).unwrap();
    assert_ne!(plain, shuffled);
    for window in [0, 1 << 32] {
        let refusal = reader.fill_shuffled(0..1, &Shuffle { seed: 1, epoch: 2, window }, &mut shuffled);
        assert!(refusal.unwrap_err().to_string().contains(&format!("windows of {window} samples")));
    }
}

/// A part of a log is read, and shuffled, as a log that has nothing else.
#[test]
fn a_part_of_a_log_is_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::example(100);
    log.write(folder.path(), 8, 33);
    let mut part = bound(folder.path()).unwrap().part(90..100);
    let mut batch = Batch::default();
    assert_eq!(part.len(), 10);
    part.fill(2..9, &mut batch).unwrap();
    assert_eq!(batch, log.batch(&(92..99).collect::<Vec<_>>()));
    assert!(part.fill(9..11, &mut batch).is_err(), "a sample beyond the part");
    let mut rest = bound(folder.path()).unwrap().part(0..90);
    for (reader, first, len) in [(&mut part, 90, 10), (&mut rest, 0, 90)] {
        let shuffle = Shuffle { seed: 1, epoch: 0, window: 64 };
        let mut order = crate::shuffle::WindowOrder::default();
        let numbers: Vec<u64> = (0..len).map(|at| first + order.sample(&shuffle, at, len)).collect();
        reader.fill_shuffled(0..len, &shuffle, &mut batch).unwrap();
        assert_eq!(batch, log.batch(&numbers));
    }
    assert_eq!(bound(folder.path()).unwrap().part(95..200).len(), 5);
    assert!(bound(folder.path()).unwrap().part(200..300).is_empty());
}

#[test]
fn readers_share_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::example(100);
    log.write(folder.path(), 8, 33);
    let prepared = std::sync::Arc::new(PreparedLog::open(folder.path()).unwrap());
    let features = prepared.features(|_| Some(HASHED_ROWS)).unwrap();
    std::thread::scope(|scope| {
        for rank in 0..4u64 {
            let mut reader = prepared.clone().bind(&features, 2).unwrap();
            let log = &log;
            scope.spawn(move || {
                let mut batch = Batch::default();
                for start in (rank * 5..100).step_by(20) {
                    reader.fill(start..start + 5, &mut batch).unwrap();
                    assert_eq!(batch, log.batch(&(start..start + 5).collect::<Vec<_>>()));
                }
            });
        }
    });
}

#[test]
fn filling_again_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    Log::example(90).write(folder.path(), 8, 90);
    let mut reader = bound(folder.path()).unwrap();
    let mut batch = Batch::default();
    let shuffle = |epoch| Shuffle { seed: 3, epoch, window: 90 };
    let memory = |b: &Batch| (b.labels.as_ptr(), b.dense.as_ptr(), b.lengths.as_ptr(), b.values.as_ptr());
    reader.fill(0..90, &mut batch).unwrap();
    let before = memory(&batch);
    for start in 0..60 {
        reader.fill(start..start + 30, &mut batch).unwrap();
        reader.fill_shuffled(start..start + 30, &shuffle(start), &mut batch).unwrap();
    }
    reader.fill_shuffled(0..90, &shuffle(0), &mut batch).unwrap();
    assert_eq!(memory(&batch), before);
}

#[test]
fn blocks_are_read_as_they_were_appended() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::example(21);
    log.write(folder.path(), 8, 21);
    let prepared = PreparedLog::open(folder.path()).unwrap();
    let mut samples = Samples::new(40);
    for (block, range) in [0..8, 8..16, 16..21].into_iter().enumerate() {
        prepared.read_block(block as u64, &mut samples).unwrap();
        let mut expected = log.samples(range);
        for (bags, column) in expected.bags.iter_mut().zip(&log.schema.sparse) {
            let hashed = column.ids == IdRule::Hash;
            bags.ids.iter_mut().filter(|_| hashed).for_each(|key| *key &= !u64::from(u32::MAX));
        }
        assert_eq!(samples, expected);
    }
    assert!(prepared.read_block(3, &mut samples).unwrap_err().to_string().contains("has 3 blocks"));
}

#[test]
fn another_model_is_refused_by_feature() {
    let folder = tempfile::tempdir().unwrap();
    Log::example(10).write(folder.path(), 8, 10);
    let log = std::sync::Arc::new(PreparedLog::open(folder.path()).unwrap());
    let refusal = |change: fn(&mut Vec<spec::feature::Feature>)| {
        let mut features = log.features(|_| Some(HASHED_ROWS)).unwrap();
        change(&mut features);
        log.clone().bind(&features, 2).unwrap_err().to_string()
    };
    assert!(refusal(|f| f[1].name = "x".into()).contains("feature C1: the model has x in its place"));
    assert!(
        refusal(|f| f[1].rows = 49).contains("feature C1: it needs a table of 50 rows, the model's has 49")
    );
    assert!(
        refusal(|f| f[0].rows = (1 << 32) + 1).contains("feature C0: the model's table has 4294967297 rows")
    );
    assert!(refusal(|f| f[0].rows = 0).contains("feature C0: the model's table has 0 rows"));
    assert!(refusal(|f| f[3].hotness = Default::default()).contains("feature C3: many ids"));
    assert!(refusal(|f| f[0].weighted = true).contains("feature C0: weights"));
    assert!(
        refusal(|f| f.truncate(3)).contains("the model has 3 features and 2 dense inputs, the log 12 and 2")
    );
    let unknown = log.features(|name| (name != "C3").then_some(7)).unwrap_err().to_string();
    assert!(unknown.contains("feature C3: its ids are hashed"), "{unknown}");
    let mut features = log.features(|_| Some(HASHED_ROWS)).unwrap();
    features[0].rows = 1 << 32;
    log.bind(&features, 2).unwrap();
}
