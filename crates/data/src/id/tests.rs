use super::*;

#[test]
fn keys_are_those_of_the_published_hash() {
    // XXH3 of the reference implementation, seed 0; prepared logs hold keys, so they must never change.
    assert_eq!(key(b""), MISSING);
    assert_eq!(key(b"a"), 0xe6c6_32b6_1e96_4e1f);
    assert_eq!(key(b"abc"), 0x78af_5f94_892f_3950);
}
