use super::*;

const TEXT: &str = r#"
name = "two cores"
[measured]
about = "a test"
hosts = 2
ranks_per_host = 2
transport = "in-process"
threads = 1
ranks_per_machine = 4
cores = 2
overlap = 0.0
stretch = 1.02
[[measured.operations]]
class = "top-forward"
overhead_s = 1e-6
flops_per_s = 9e10
[[measured.links]]
collective = "all_to_all"
group = "world"
ranks = 4
latency_s = 1e-5
bytes_per_s = 5e9
"#;

#[test]
fn a_file_comes_back_as_it_was_and_mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("system.toml");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        SystemFile::read(&path)
    };
    let file = read(TEXT).unwrap();
    file.write(&path).unwrap();
    assert_eq!(SystemFile::read(&path).unwrap(), file);
    let refused = |from: &str, to: &str| format!("{:#}", read(&TEXT.replace(from, to)).unwrap_err());
    let unknown = refused("cores =", "core =");
    assert!(unknown.contains("system.toml") && unknown.contains("unknown field `core`"), "{unknown}");
    let negative = refused("9e10", "-9e10");
    assert!(
        negative.ends_with("flops_per_s of top-forward is -90000000000; expected a number above 0"),
        "{negative}"
    );
}
