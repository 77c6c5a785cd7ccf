use super::*;

#[test]
fn what_dead_jobs_left_is_removed() {
    let parent = tempfile::tempdir().unwrap();
    let folder = |name: &str| parent.path().join(format!("{PREFIX}{name}"));
    let make = |name: &str, node: &str| StatusFile::create(folder(name), 0, 0, node).unwrap();
    let (alive, elsewhere) = (make("alive", &node_name()), make("elsewhere", "another machine"));
    fs::create_dir(folder("dead")).unwrap();
    fs::create_dir(folder("empty")).unwrap();
    // No process has this number.
    file::tests::write_as(&folder("dead").join("rank-0"), 0x7fff_fff0);
    sweep(alive.folder());
    assert!(!folder("dead").exists());
    assert!(alive.path().exists() && elsewhere.path().exists() && folder("empty").exists());
}
