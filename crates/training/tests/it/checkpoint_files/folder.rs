//! What becomes a checkpoint, what does not, and what is swept and pruned.

use super::{manifest, names_in, opened_and_verified, piece, save, small};
use std::fs;
use std::num::NonZeroUsize;
use training::checkpoint::{
    CheckpointError, Folder, Piece, Values, candidates, locate, set_aside, write_pieces,
};

#[test]
fn pieces_that_do_not_make_a_tensor_are_not_committed() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::open(root.path()).unwrap();
    let says = |ranks: &[Vec<Piece>], expected: &str| {
        let error = save(&folder, 1, ranks).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} does not say {expected:?}");
        assert_eq!(folder.latest().unwrap(), None);
    };
    let of = |rows, columns| piece("t", &[4, 2], rows, columns);
    says(&[vec![of(0..2, 0..2)], vec![of(3..4, 0..2)]], "tensor t hold 6 of its 8 elements");
    says(&[vec![of(0..3, 0..2)], vec![of(2..4, 0..2)]], "overlaps rows 0..3, columns 0..2");
    says(&[vec![of(0..4, 0..2)], vec![of(0..4, 0..2)]], "overlaps");
    says(&[vec![of(0..4, 0..2), of(0..4, 0..2)]], "the same piece twice");
    says(&[vec![of(0..5, 0..2)]], "outside of the tensor's shape [4, 2]");
    says(&[vec![of(2..2, 0..2)]], "empty, or outside");
    says(
        &[vec![Piece { data: Values::F32(vec![0.0; 7]), ..of(0..4, 0..2) }]],
        "28 bytes of f32, expected 32",
    );
    says(&[vec![of(0..2, 0..2)], vec![piece("t", &[4, 3], 2..4, 0..2)]], "its shape is [4, 3] here");
    says(&[vec![Piece::whole("__metadata__", vec![1], vec![0.0])]], "name __metadata__");
    says(&[vec![Piece::whole("t", vec![usize::MAX, 2], vec![])]], "empty, or outside");
    // A rank that has nothing to store, a scalar, and a tensor of three dimensions.
    let whole = |name: &str, shape: Vec<usize>, data: Vec<f32>| Piece::whole(name, shape, data);
    let ranks =
        [vec![], vec![whole("scalar", vec![], vec![5.0]), whole("cube", vec![2, 1, 3], vec![7.0; 6])]];
    let checkpoint = opened_and_verified(&save(&folder, 1, &ranks).unwrap()).unwrap();
    let mut out = [0.0; 3];
    checkpoint.read_rows("scalar", 0..1, 0..1, &mut out[..1]).unwrap();
    assert_eq!(out[0], 5.0);
    checkpoint.read_rows("cube", 1..2, 0..3, &mut out).unwrap();
    assert_eq!(out, [7.0; 3]);
}

#[test]
fn a_kill_before_the_commit_leaves_the_earlier_checkpoint_the_latest() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::open(root.path().join("runs/1/checkpoints")).unwrap();
    let first = small(&folder, 100);
    let writing = folder.begin(200).unwrap();
    let written = write_pieces(&writing, 0, &[piece("t", &[2, 2], 0..2, 0..2)]).unwrap();
    // Killed here, or a moment later, with the manifest written.
    fs::copy(first.join("manifest.json"), writing.join("manifest.json")).unwrap();
    assert_eq!(folder.latest().unwrap(), Some((100, first.clone())));
    assert_eq!(locate(root.path().join("runs/1")).unwrap(), first);
    let folder = Folder::open(folder.root()).unwrap();
    assert_eq!(names_in(folder.root()), ["step-000000000100"]);
    opened_and_verified(&first).unwrap();
    // Without its folder, nothing is committed.
    assert!(
        folder
            .commit(&manifest(200, vec![written]))
            .unwrap_err()
            .to_string()
            .contains("rank-0000.safetensors")
    );
    // The next attempt begins anew.
    let writing = folder.begin(200).unwrap();
    fs::write(writing.join("rank-0000.safetensors"), "half a file").unwrap();
    small(&folder, 200);
    assert_eq!(folder.latest().unwrap().unwrap().0, 200);
    let error = folder.begin(200).unwrap_err().to_string();
    assert!(error.contains("step 200 has a checkpoint already"), "{error}");
}

#[test]
fn only_leftovers_are_swept() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let leftovers =
        [".writing-step-000000000001", ".deleting-step-000000000002", ".writing-step-1234567890123"];
    let others = [
        ".writing-step-1",
        ".writing-step-00000000000x",
        ".writing-step-+00000000001",
        ".writing-step-000000000001.old",
        ".writing-",
        ".deleting-notes",
        "step-000000000001",
        "writing-step-000000000001",
        "notes",
    ];
    for name in leftovers.iter().chain(&others) {
        fs::create_dir(root.path().join(name)).unwrap();
        fs::write(root.path().join(name).join("file"), "x").unwrap();
    }
    fs::write(root.path().join(".writing-step-000000000003"), "a file").unwrap();
    fs::write(elsewhere.path().join("file"), "x").unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), root.path().join(".writing-step-000000000004")).unwrap();
    Folder::open(root.path()).unwrap();
    let mut expected: Vec<_> = others.to_vec();
    expected.extend([".writing-step-000000000003", ".writing-step-000000000004"]);
    expected.sort();
    assert_eq!(names_in(root.path()), expected);
    assert!(elsewhere.path().join("file").exists());
}

#[test]
fn pruning_keeps_the_latest() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::open(root.path()).unwrap();
    for step in [5, 1_000_000_000_000, 20, 1] {
        small(&folder, step);
    }
    fs::create_dir(root.path().join("step-7")).unwrap();
    assert_eq!(folder.prune(NonZeroUsize::new(4).unwrap(), None).unwrap(), [0; 0]);
    assert_eq!(folder.prune(NonZeroUsize::new(2).unwrap(), None).unwrap(), [1, 5]);
    assert_eq!(names_in(root.path()), ["step-000000000020", "step-1000000000000", "step-7"]);
    let steps = || folder.list().unwrap().into_iter().map(|(step, _)| step).collect::<Vec<u64>>();
    assert_eq!(steps(), [20, 1_000_000_000_000]);
    // The best stays, until another is the best.
    assert_eq!(folder.prune(NonZeroUsize::MIN, Some(20)).unwrap(), [0; 0]);
    let before = opened_and_verified(&folder.latest().unwrap().unwrap().1).unwrap().manifest().clone();
    folder.amend(1_000_000_000_000, |extra| *extra = serde_json::json!({ "best": 1 })).unwrap();
    let after = opened_and_verified(&folder.latest().unwrap().unwrap().1).unwrap().manifest().clone();
    assert_eq!((after.extra["best"].as_u64(), &after.files), (Some(1), &before.files));
    assert_eq!(folder.prune(NonZeroUsize::MIN, None).unwrap(), [20]);
    assert_eq!(steps(), [1_000_000_000_000]);
    opened_and_verified(&folder.latest().unwrap().unwrap().1).unwrap();
}

#[test]
fn a_damaged_checkpoint_is_set_aside_and_kept() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::open(root.path()).unwrap();
    for name in ["damaged-step-000000000020", "damaged-step-000000000020.2"] {
        let (early, late) = (small(&folder, 10), small(&folder, 20));
        assert_eq!(candidates(root.path()).unwrap(), [late.clone(), early.clone()]);
        let aside = set_aside(&late).unwrap();
        assert_eq!(aside, root.path().join(name));
        opened_and_verified(&aside).unwrap();
        assert_eq!(candidates(root.path()).unwrap(), [early]);
        folder.remove(10).unwrap();
    }
    // Not swept, not pruned, and not taken for a checkpoint.
    let folder = Folder::open(root.path()).unwrap();
    assert_eq!(folder.prune(NonZeroUsize::MIN, None).unwrap(), [0; 0]);
    assert_eq!(names_in(root.path()), ["damaged-step-000000000020", "damaged-step-000000000020.2"]);
    assert!(matches!(locate(root.path()), Err(CheckpointError::NotFound { .. })));
}

#[test]
fn a_checkpoint_is_located_from_its_folder_its_root_or_its_run() {
    let run = tempfile::tempdir().unwrap();
    let error = locate(run.path()).unwrap_err().to_string();
    assert!(error.contains("looked for manifest.json") && error.contains("under checkpoints"), "{error}");
    let root = run.path().join("checkpoints");
    let folder = Folder::open(&root).unwrap();
    assert!(matches!(locate(run.path()), Err(CheckpointError::NotFound { .. })));
    let (early, late) = (small(&folder, 9), small(&folder, 10));
    assert_eq!(locate(&early).unwrap(), early);
    assert_eq!(locate(&root).unwrap(), late);
    assert_eq!(locate(run.path()).unwrap(), late);
    let error = locate(run.path().join("nowhere")).unwrap_err().to_string();
    assert!(error.contains("nowhere"), "{error}");
}
