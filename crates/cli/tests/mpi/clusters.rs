//! Hosts joined by links: network namespaces that `scripts/cluster` makes.

use crate::command::{SMALL, cluster, digest, has_clusters, has_mpirun, refusal, train};

/// Hosts that are found; links that are slow.
#[test]
fn four_hosts_of_two_ranks_give_the_same_bits() {
    if !has_mpirun() || !has_clusters() {
        return;
    }
    let towers = ["--towers", "strided:4", "--tower-module", "dlrm:d=4"];
    let given = ["--hosts", "4", "--ranks-per-host", "2", "--json"];
    let threads = train(None, &[SMALL, &towers, &given]);
    let processes = train(Some(cluster("4", "2")), &[SMALL, &towers, &["--transport", "mpi", "--json"]]);
    assert_eq!(digest(&threads), digest(&processes));
}

/// What is asked for is held against what MPI finds.
#[test]
fn other_hosts_than_mpi_finds_are_refused() {
    if !has_mpirun() || !has_clusters() {
        return;
    }
    let asked = ["--hosts", "1", "--ranks-per-host", "4", "--transport", "mpi"];
    let said = refusal(&train(Some(cluster("2", "2")), &[SMALL, &asked]));
    assert!(said.contains("according to MPI it shares a host with the ranks"), "{said}");
    let partly = ["--ranks-per-host", "1", "--transport", "mpi"];
    let said = refusal(&train(Some(cluster("2", "2")), &[SMALL, &partly]));
    assert!(said.contains("MPI finds 2 × 2 (hosts × ranks), but 2 × 1"), "{said}");
}
