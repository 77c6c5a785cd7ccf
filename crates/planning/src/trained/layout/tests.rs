use super::hosts_per_tower;

#[test]
fn every_tower_has_a_group_or_every_host_one() {
    let cases =
        [((8, 8), 1), ((16, 8), 2), ((64, 26), 2), ((2, 8), 1), ((12, 8), 1), ((6, 2), 3), ((7, 2), 1)];
    for ((hosts, towers), k) in cases {
        assert_eq!(hosts_per_tower(hosts, towers), k, "{towers} towers on {hosts} hosts");
    }
}
