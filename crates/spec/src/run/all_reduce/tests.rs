use super::*;

const MB: u64 = 1_000_000;

fn auto(hosts: usize, ranks: usize, bytes: u64) -> Algorithm {
    AllReduce::Auto.algorithm(Topology::new(hosts, ranks).unwrap(), bytes)
}

#[test]
fn auto_follows_from_the_cluster_and_the_size() {
    // Inside one host there is one level, whatever the size.
    for bytes in [0, 1000, 4 * MB, u64::MAX] {
        assert_eq!((auto(1, 1, bytes), auto(1, 8, bytes)), (Algorithm::Direct, Algorithm::Direct));
    }
    // Several hosts: two levels where hosts have several ranks.
    assert_eq!((auto(8, 1, 4 * MB), auto(8, 2, 4 * MB)), (Algorithm::Direct, Algorithm::TwoLevel));
    assert_eq!((auto(6, 1, 4 * MB), auto(6, 8, 4 * MB)), (Algorithm::Direct, Algorithm::TwoLevel));
    // Between two hosts an exchange of whole shares is one message less, at the same number of bytes.
    assert_eq!(auto(2, 2, 1 << 40), Algorithm::RecursiveDoubling);
    // Short vectors: 3·(64 KiB + n) against 14·(64 KiB + n/8), equal at n = 8.8 · 64 KiB.
    let equal = 44 * MESSAGE_COST / 5;
    assert_eq!(
        (auto(8, 1, equal - 8), auto(8, 1, equal + 8)),
        (Algorithm::RecursiveDoubling, Algorithm::Direct)
    );
    let (below, above) = (auto(8, 4, 4 * (equal - 8)), auto(8, 4, 4 * (equal + 8)));
    assert_eq!((below, above), (Algorithm::RecursiveDoubling, Algorithm::TwoLevel));
    // Many hosts make messages of a bucket short; a number of hosts beyond a power of two costs two rounds.
    assert_eq!(
        (auto(128, 1, 4 * MB), auto(1024, 1, 4 * MB)),
        (Algorithm::Direct, Algorithm::RecursiveDoubling)
    );
    assert_eq!((auto(4, 1, 500_000), auto(5, 1, 500_000)), (Algorithm::RecursiveDoubling, Algorithm::Direct));
    assert_eq!(auto(3, 1, u64::MAX), Algorithm::Direct, "no overflow");
}

#[test]
fn names_are_read_as_they_are_written() {
    let all = Algorithm::ALL.map(AllReduce::By).into_iter().chain([AllReduce::Auto]);
    for all_reduce in all {
        assert_eq!(all_reduce.to_string().parse(), Ok(all_reduce));
        assert_eq!(serde_json::to_value(all_reduce).unwrap(), all_reduce.to_string());
        if let AllReduce::By(algorithm) = all_reduce {
            assert_eq!(
                all_reduce.algorithm(Topology::new(1, 1).unwrap(), 0),
                algorithm,
                "what is named, runs"
            );
        }
    }
    assert_eq!(AllReduce::default().to_string(), "direct");
    let refused = "fastest".parse::<AllReduce>().unwrap_err();
    assert_eq!(
        refused,
        "unknown all-reduce \"fastest\"; use auto, direct, ring, recursive-doubling or two-level"
    );
}
