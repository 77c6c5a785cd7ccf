use super::*;

#[test]
fn what_the_system_has_is_read() {
    assert_eq!(free("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
    assert_eq!(free("MemTotal: 9 kB\n"), None);
    assert!(available_memory().is_some_and(|bytes| bytes > 0));
}

#[test]
fn limits_of_groups_and_of_those_above_count() {
    let root = tempfile::tempdir().unwrap();
    let inner = root.path().join("a/b");
    fs::create_dir_all(&inner).unwrap();
    let two = folders(root.path(), "0::/a/b");
    assert_eq!(two, [inner.clone(), root.path().join("a"), root.path().to_owned()]);
    assert_eq!(folders(root.path(), "4:memory:/a")[0], root.path().join("memory/a"));
    assert!(folders(root.path(), "3:cpuset:/a").is_empty() && folders(root.path(), "").is_empty());
    fs::write(inner.join("memory.max"), "max\n").unwrap();
    assert_eq!(left(&inner), None);
    fs::write(root.path().join("a/memory.max"), "1000\n").unwrap();
    fs::write(root.path().join("a/memory.current"), "700\n").unwrap();
    fs::write(root.path().join("a/memory.stat"), "anon 500\ninactive_file 100\n").unwrap();
    assert_eq!(two.iter().filter_map(|folder| left(folder)).min(), Some(400));
    let old = root.path().join("old");
    fs::create_dir(&old).unwrap();
    fs::write(old.join("memory.limit_in_bytes"), "500\n").unwrap();
    fs::write(old.join("memory.usage_in_bytes"), "900\n").unwrap();
    assert_eq!(left(&old), Some(0));
}
