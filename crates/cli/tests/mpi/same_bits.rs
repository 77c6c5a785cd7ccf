//! Threads or processes: the same parameters in the end.

use crate::command::{SMALL, digest, has_mpirun, mpirun, train};

fn same_on(hosts: &str, ranks_per_host: &str, more: &[&str]) {
    if !has_mpirun() {
        return;
    }
    let cluster = ["--hosts", hosts, "--ranks-per-host", ranks_per_host, "--json"];
    let ranks = hosts.parse::<usize>().unwrap() * ranks_per_host.parse::<usize>().unwrap();
    let threads = train(None, &[SMALL, &cluster, more]);
    let over_mpi: &[&str] = &["--transport", "mpi", "--assume-hosts"];
    let processes = train(Some(mpirun(ranks)), &[SMALL, &cluster, more, over_mpi]);
    assert_eq!(digest(&threads), digest(&processes));
}

#[test]
fn flat() {
    same_on("1", "4", &[]);
}

#[test]
fn sptt() {
    same_on("2", "2", &["--dataflow", "sptt"]);
}

#[test]
fn dmt_with_rows_cut_and_uneven_batch() {
    let towers = &["--towers", "strided:4", "--tower-module", "dlrm:d=4", "--cut", "rows"];
    same_on("4", "2", towers);
}

#[test]
fn dcn_on_three_ranks() {
    same_on("3", "1", &["--model", "dcn"]);
}

/// Copies on all ranks, some reduced by the rows touched and some densely: C2 has many rows, C6 few.
#[test]
fn data_parallel_tables() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("copies.toml");
    let copies = |name: &str| format!("[placement.tables.{name}]\nkind = \"data_parallel\"\n");
    std::fs::write(&config, ["C2", "C6"].map(copies).concat()).unwrap();
    same_on("1", "3", &[config.to_str().unwrap()]);
}

/// The cluster may be left out: MPI says what it is.
#[test]
fn topology_is_found() {
    if !has_mpirun() {
        return;
    }
    let found = train(Some(mpirun(2)), &[SMALL, &["--transport", "mpi", "--json"]]);
    let given = train(None, &[SMALL, &["--hosts", "1", "--ranks-per-host", "2", "--json"]]);
    assert_eq!(digest(&found), digest(&given));
}
