//! A disk that is full.

use super::{manifest, names_in, opened_and_verified, piece, save, small};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;
use training::checkpoint::{
    Checkpoint, CheckpointError, Contents, Folder, Manifest, export, locate, write_pieces,
};

/// The limit on the size of files stands for the full disk: a write beyond it fails, as on a full disk.
#[test]
fn a_full_disk_names_the_path_and_leaves_earlier_checkpoints_whole() {
    const ROOT: &str = "CAMPANILE_TEST_FULL_DISK";
    const NAME: &str =
        "checkpoint_files::full_disk::a_full_disk_names_the_path_and_leaves_earlier_checkpoints_whole";
    if let Some(root) = std::env::var_os(ROOT) {
        return fill_the_disk(Path::new(&root));
    }
    let root = tempfile::tempdir().unwrap();
    let first = small(&Folder::open(root.path()).unwrap(), 9);
    fs::write(root.path().join("model.safetensors"), "an older export").unwrap();
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact --nocapture \"$1\""])
        .arg(std::env::current_exe().unwrap())
        .arg(NAME)
        .env(ROOT, root.path())
        .output()
        .unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{said}");

    assert_eq!(locate(root.path()).unwrap(), first);
    opened_and_verified(&first).unwrap();
    let folder = Folder::open(root.path()).unwrap();
    assert_eq!(names_in(root.path()), ["model.safetensors", "step-000000000001", "step-000000000009"]);
    assert_eq!(fs::read(root.path().join("model.safetensors")).unwrap(), b"an older export");
    // There is room again.
    save(&folder, 2, &[vec![piece("t", &[1024, 256], 0..1024, 0..256)]]).unwrap();
}

/// Runs in a process whose files can have 32 kB, or 64 kB where the shell counts in larger blocks.
fn fill_the_disk(root: &Path) {
    let folder = Folder::open(root).unwrap();
    let assert_full = |error: CheckpointError, name: &str| {
        let CheckpointError::Io { action: "write", path, source } = &error else { panic!("{error}") };
        assert!(path.ends_with(name), "{error}");
        assert_eq!(source.kind(), std::io::ErrorKind::FileTooLarge);
    };
    let large = vec![piece("t", &[1024, 256], 0..1024, 0..256)];
    let error = save(&folder, 2, &[vec![], large]).unwrap_err();
    assert_full(error, "rank-0001.safetensors");

    let writing = folder.begin(3).unwrap();
    let written = write_pieces(&writing, 0, &[piece("t", &[2, 2], 0..2, 0..2)]).unwrap();
    let manifest = Manifest { extra: json!("x".repeat(100_000)), ..manifest(3, vec![written]) };
    assert_full(folder.commit(&manifest).unwrap_err(), "manifest.json");

    // Three files that fit, and an export of all that does not.
    let third = |index: usize| vec![piece("t", &[336, 64], index * 112..(index + 1) * 112, 0..64)];
    let path = save(&folder, 1, &[third(0), third(1), third(2)]).unwrap();
    let file = root.join("model.safetensors");
    let out = tempfile::tempfile().unwrap();
    let error = export(&Checkpoint::open(path).unwrap(), &file, out, Contents::Parameters).unwrap_err();
    assert_full(error, "model.safetensors");
}
