use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = self.0.path().read_dir().unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn refused(path: &Path, force: bool, inputs: &Inputs) -> String {
    let error = Output::check(path, force, inputs).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: ", path.display())), "{error}");
    error
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_new_file_has_its_name_when_it_is_complete() {
    let folder = Folder::new();
    let path = folder.path("new.txt");
    let output = Output::check(&path, false, &Inputs::default()).unwrap();
    assert!(folder.names().is_empty(), "a check leaves something: {:?}", folder.names());
    let mut writing = output.create().unwrap();
    writing.write_all(b"half of").unwrap();
    assert!(!path.exists());
    drop(writing);
    assert!(folder.names().is_empty(), "what was not finished is left: {:?}", folder.names());
    output.write(b"all of it").unwrap();
    assert_eq!((read(&path).as_str(), folder.names()), ("all of it", vec!["new.txt".into()]));
}

#[test]
fn a_file_is_replaced_by_force_alone() {
    let folder = Folder::new();
    let path = folder.file("old.txt", "old");
    assert!(refused(&path, false, &Inputs::default()).contains("--force"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let output = Output::check(&path, true, &Inputs::default()).unwrap();
    let mut writing = output.create().unwrap();
    writing.write_all(b"half of").unwrap();
    assert_eq!(read(&path), "old");
    drop(writing);
    output.write(b"new").unwrap();
    assert_eq!((read(&path).as_str(), folder.names()), ("new", vec!["old.txt".into()]));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);

    fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
    assert!(refused(&path, true, &Inputs::default()).contains("chmod"));
}

/// Hours may pass between the look and the write.
#[test]
fn a_file_that_appears_meanwhile_stays() {
    let folder = Folder::new();
    let path = folder.path("out.txt");
    let output = Output::check(&path, false, &Inputs::default()).unwrap();
    folder.file("out.txt", "of somebody else");
    let error = output.write(b"ours").unwrap_err().to_string();
    assert_eq!(read(&path), "of somebody else");
    let kept = error.rsplit(' ').next().unwrap();
    assert_eq!(read(Path::new(kept)), "ours", "{error}");
}

#[test]
fn an_input_is_known_by_any_name() {
    let folder = Folder::new();
    let input = folder.file("logs/in.csv", "data");
    symlink("logs/in.csv", folder.path("link.csv")).unwrap();
    symlink(folder.path("link.csv"), folder.path("link-to-link.csv")).unwrap();
    symlink("logs", folder.path("other")).unwrap();
    fs::hard_link(&input, folder.path("hard.csv")).unwrap();
    let pattern = folder.path("logs/*.csv").to_str().unwrap().to_owned();
    let folder_name = folder.path("logs").to_str().unwrap().to_owned();
    for log in [pattern, folder_name, input.to_str().unwrap().to_owned()] {
        let mut inputs = Inputs::default();
        inputs.add_log(&[log]);
        for name in [
            "logs/in.csv",
            "link.csv",
            "link-to-link.csv",
            "other/in.csv",
            "hard.csv",
            "logs/../logs/./in.csv",
        ] {
            for force in [false, true] {
                let error = refused(&folder.path(name), force, &inputs);
                assert!(error.contains("an input of this command"), "{error}");
            }
        }
    }
    assert_eq!(read(&input), "data");
}

#[test]
fn a_link_stays_one() {
    let folder = Folder::new();
    let (target, link, dangling) =
        (folder.file("target.txt", "old"), folder.path("link.txt"), folder.path("dangling.txt"));
    symlink("target.txt", &link).unwrap();
    symlink("later.txt", &dangling).unwrap();
    refused(&link, false, &Inputs::default());
    Output::check(&link, true, &Inputs::default()).unwrap().write(b"new").unwrap();
    assert!(link.is_symlink());
    assert_eq!(read(&target), "new");
    Output::check(&dangling, false, &Inputs::default()).unwrap().write(b"later").unwrap();
    assert!(dangling.is_symlink());
    assert_eq!(read(&folder.path("later.txt")), "later");

    symlink("loop.txt", folder.path("loop.txt")).unwrap();
    assert!(refused(&folder.path("loop.txt"), true, &Inputs::default()).contains("to itself"));
}

#[test]
fn folders_and_what_cannot_be_are_refused() {
    let folder = Folder::new();
    let file = folder.file("file.txt", "");
    let none = Inputs::default();
    assert!(refused(folder.0.path(), true, &none).contains("folder"));
    assert!(refused(Path::new(""), true, &none).contains("folder"));
    assert!(refused(&folder.path("new/"), true, &none).contains("folder"));
    assert!(refused(&folder.path("no/where.txt"), true, &none).contains("mkdir -p"));
    assert!(refused(&file.join("below.txt"), true, &none).contains("a file, not a folder"));
    assert!(refused(Path::new("/proc/new.txt"), true, &none).contains("no file can be made in /proc"));
    let socket = folder.path("socket");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(refused(&socket, true, &none).contains("socket"));
    Output::check(Path::new("/dev/null"), false, &none).unwrap().write(b"gone").unwrap();
}

#[test]
fn checkpoints_and_files_of_runs_are_refused() {
    let folder = Folder::new();
    for name in ["metrics.jsonl", "config.toml", "checkpoints/step-000000000007/rank-0000.safetensors"] {
        folder.file(&format!("run/{name}"), "");
    }
    fs::create_dir(folder.path("run/checkpoints/step-000000000007/deep")).unwrap();
    folder.file("moved/manifest.json", "{\"step\": 7, \"tensors\": []}");
    folder.file("mine/manifest.json", "{\"my\": \"own\"}");
    folder.file("mine/config.toml", "my own");
    for (name, part) in [
        ("run/metrics.jsonl", "belongs to the run"),
        ("run/summary.json", "belongs to the run"),
        ("run/report.html", "belongs to the run"),
        ("run/checkpoints/new.txt", "lies in checkpoints"),
        ("run/checkpoints/step-000000000007/rank-0000.safetensors", "lies in a checkpoint"),
        ("run/checkpoints/step-000000000007/deep/new.txt", "lies in a checkpoint"),
        ("moved/model.safetensors", "lies in a checkpoint"),
    ] {
        let error = refused(&folder.path(name), true, &Inputs::default());
        assert!(error.contains(part), "{error}");
    }
    for name in ["run/predictions.csv", "mine/new.txt", "mine/config.toml"] {
        Output::check(&folder.path(name), true, &Inputs::default()).unwrap();
    }
}

#[test]
fn two_outputs_need_two_files() {
    let folder = Folder::new();
    fs::create_dir(folder.path("a")).unwrap();
    let check = |name: &str| Output::check(&folder.path(name), false, &Inputs::default()).unwrap();
    let (one, same, other) = (check("out.txt"), check("a/../out.txt"), check("other.txt"));
    assert!(Output::distinct([&one, &same]).unwrap_err().to_string().contains("two outputs"));
    Output::distinct([&one, &other]).unwrap();
    let null = Output::check(Path::new("/dev/null"), false, &Inputs::default()).unwrap();
    Output::distinct([&null, &null]).unwrap();
}
