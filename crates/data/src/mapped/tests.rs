use super::*;

#[test]
fn contents_and_refusals() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some");
    std::fs::write(&path, b"thing").unwrap();
    assert_eq!(Mapping::open(path.clone()).unwrap().bytes(), b"thing");
    std::fs::write(&path, b"").unwrap();
    assert!(Mapping::open(path).unwrap().bytes().is_empty());
    let refusal = |path: PathBuf| Mapping::open(path).unwrap_err().to_string();
    assert!(refusal(folder.path().to_owned()).contains("is not a regular file"));
    assert!(refusal(folder.path().join("none")).contains("none: cannot be read"));
}
