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
    // Between two hosts, shares go there and back in two exchanges, and in three by recursive doubling.
    assert_eq!((auto(2, 2, 1000), auto(2, 2, 1 << 40)), (Algorithm::TwoLevel, Algorithm::TwoLevel));
    // In units of 64 KiB, on 64 hosts: 6·(3·5 + 2·n) against 2·4 + 126·(1 + n/64), equal at n = 44 / 10.03.
    let equal = 44 * 64 * MESSAGE_COST / 642;
    let (below, above) = (auto(64, 1, equal - 1000), auto(64, 1, equal + 1000));
    assert_eq!((below, above), (Algorithm::RecursiveDoubling, Algorithm::Direct));
    let (below, above) = (auto(64, 4, 4 * (equal - 1000)), auto(64, 4, 4 * (equal + 1000)));
    assert_eq!((below, above), (Algorithm::RecursiveDoubling, Algorithm::TwoLevel));
    // On 48 hosts two more exchanges, before and behind the rounds: 5·(15 + 2·n) + 2·(5 + n) against 8 + 94·(1 + n/48).
    assert_eq!(
        (auto(48, 1, 100_000), auto(48, 1, 120_000)),
        (Algorithm::RecursiveDoubling, Algorithm::Direct)
    );
    assert_eq!((auto(32, 1, 0), auto(1024, 1, 4 * MB)), (Algorithm::Direct, Algorithm::RecursiveDoubling));
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
        "unknown all-reduce \"fastest\"; use auto, direct, ring, recursive-doubling, two-level or nccl"
    );
}
