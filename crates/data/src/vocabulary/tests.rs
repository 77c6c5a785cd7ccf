use super::*;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::HashMap;
use tempfile::tempdir;

/// Slow and obvious.
fn reference(keys: &[u64], min_count: u64, rows: Option<usize>) -> Vec<u64> {
    let mut counts = HashMap::new();
    for &key in keys.iter().filter(|&&key| key != id::MISSING) {
        *counts.entry(key).or_insert(0u64) += 1;
    }
    let mut kept: Vec<_> = counts.into_iter().filter(|&(_, count)| count >= min_count).collect();
    kept.sort_by_key(|&(key, count)| (Reverse(count), key));
    kept.truncate(rows.map_or(usize::MAX, |rows| rows - 1));
    kept.into_iter().map(|(key, _)| key).collect()
}

fn bytes(vocabulary: &Vocabulary) -> Vec<u8> {
    let folder = tempdir().unwrap();
    let path = folder.path().join("v");
    vocabulary.save(&path).unwrap();
    std::fs::read(path).unwrap()
}

fn read(bytes: &[u8]) -> Result<Vocabulary, VocabularyError> {
    Vocabulary::read(bytes, bytes.len() as u64)
}

#[test]
fn files_hold_what_was_saved() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("city.vocabulary");
    for count in [0, 1, 1000] {
        let keys: Vec<u64> = (0..count).map(|i: u64| id::key(i.to_string().as_bytes())).collect();
        let vocabulary = Vocabulary::new(keys.clone()).unwrap();
        vocabulary.save(&path).unwrap();
        let loaded = Vocabulary::load(&path).unwrap();
        assert_eq!(loaded, vocabulary);
        assert!(keys.iter().zip(1..).all(|(&key, row)| loaded.row(key) == row));
    }
    std::fs::write(&path, b"campvoc\0 and nonsense, of some length").unwrap();
    let error = Vocabulary::load(&path).unwrap_err().to_string();
    assert!(error.contains("city.vocabulary: not a vocabulary"), "{error}");
}

#[test]
fn hostile_files_are_refused() {
    // A count of 2⁶¹ would be 16 exabytes of keys, and 8 · 2⁶¹ overflows.
    for count in [1, 1 << 31, 1 << 61, u64::MAX] {
        let error = read(&[&header(MAGIC, count)[..], &[0; 24]].concat()).unwrap_err();
        assert!(matches!(error, VocabularyError::Length { .. }), "{error}");
    }
    assert!(matches!(Vocabulary::new(vec![1, 2, 1]), Err(VocabularyError::Twice(1))));
    assert!(matches!(Vocabulary::new(vec![id::MISSING]), Err(VocabularyError::Missing)));
    // Keys whose products all begin with the same bits, by the inverse of the multiplier.
    let inverse =
        (0..6).fold(1u64, |x, _| x.wrapping_mul(2u64.wrapping_sub(x.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
    let alike = (0..10_000u64).map(|i| i.wrapping_mul(inverse)).collect();
    assert!(matches!(Vocabulary::new(alike), Err(VocabularyError::Clustered)));
}

#[test]
fn a_vocabulary_beyond_the_memory_is_an_error() {
    let folder = tempdir().unwrap();
    let mut counter = Counter::new("user", folder.path(), 64 * 100);
    let keys: Vec<u64> = (0..1000).collect();
    counter.add(&keys).unwrap();
    let error = counter.finish(1, None).unwrap_err();
    assert_eq!(error, DataError::VocabularySize { column: "user".into(), most: 100, memory: 6400 });
    let mut counter = Counter::new("user", folder.path(), 64 * 100);
    counter.add(&keys).unwrap();
    assert_eq!(counter.finish(1, Some(51)).unwrap().rows(), 51);
    let mut counter = Counter::new("user", "/nowhere".as_ref(), 64);
    assert!(counter.add(&keys).unwrap_err().to_string().starts_with("/nowhere: "));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn counting_equals_the_reference(
        keys in prop::collection::vec(prop_oneof![0u64..40, any::<u64>(), Just(id::MISSING)], 0..600),
        part in 1usize..100,
        memory in prop_oneof![Just(1u64 << 20), 64 * 600u64..64 * 2000],
        min_count in 1u64..4,
        rows in prop::option::of(1usize..30),
    ) {
        let folder = tempdir().unwrap();
        let mut counter = Counter::new("c", folder.path(), memory);
        for part in keys.chunks(part) {
            counter.add(part).unwrap();
        }
        let vocabulary = counter.finish(min_count, rows).unwrap();
        let expected = reference(&keys, min_count, rows);
        prop_assert_eq!(&vocabulary.keys, &expected);
        for (&key, row) in expected.iter().zip(1..) {
            prop_assert_eq!(vocabulary.row(key), row);
        }
        for &key in keys.iter().filter(|key| !expected.contains(key)) {
            prop_assert_eq!(vocabulary.row(key), 0);
        }
        prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files are left");
    }

    /// With room for so few keys that there are many runs, merged several times.
    #[test]
    fn spilling_equals_the_reference(
        keys in prop::collection::vec(prop_oneof![0u64..40, 0u64..1000], 0..600),
        memory in 0u64..64 * 40,
        min_count in 1u64..4,
    ) {
        let folder = tempdir().unwrap();
        let mut counter = Counter::new("c", folder.path(), memory);
        counter.add(&keys).unwrap();
        let expected = reference(&keys, min_count, None);
        match counter.finish(min_count, None) {
            Ok(vocabulary) => prop_assert_eq!(&vocabulary.keys, &expected),
            Err(error) => {
                prop_assert!(matches!(error, DataError::VocabularySize { .. }), "{}", error);
                prop_assert!(expected.len() as u64 > memory / 64);
            }
        }
    }

    #[test]
    fn damaged_files_are_refused(count in 0usize..20, place in 0.0..1.0f64, bit in 0u8..8) {
        let vocabulary = Vocabulary::new((1..=count as u64).collect()).unwrap();
        let whole = bytes(&vocabulary);
        prop_assert_eq!(read(&whole).unwrap(), vocabulary);
        let at = (place * whole.len() as f64) as usize;
        prop_assert!(read(&whole[..at]).is_err());
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << bit;
        prop_assert!(read(&flipped).is_err());
    }
}
