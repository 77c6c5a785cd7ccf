//! Checkpoints with a flipped bit.

use crate::command::{campanile, names, resume, text};
use std::fs;

#[test]
fn a_flipped_bit_is_found_and_its_file_named() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let args = "--samples 640 --eval-samples 100 --batch 64 --rows-cap 100";
    campanile(
        &[&["train", "--json", "--out", text(&run)], &args.split(' ').collect::<Vec<_>>()[..]].concat(),
    )
    .json();
    let checkpoint = run.join("checkpoints/step-000000000010");
    let files = names(&checkpoint);
    assert_eq!(files.len(), 5, "a manifest, and a file of each rank: {files:?}");
    for file in files {
        let path = checkpoint.join(&file);
        let whole = fs::read(&path).unwrap();
        let last = whole.len() - 1;
        // The first 8 bytes of a tensor file are the length of its header, which follows.
        for at in [0, 3, 7, 8, 9, 60, last / 4, last / 2, last - 1, last] {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            fs::write(&path, &damaged).unwrap();
            campanile(&["checkpoint", "verify", text(&run)]).refused(&[&file]);
            resume(&run, &[]).refused(&[&file]);
        }
        for length in [0, 1, last / 2, last] {
            fs::write(&path, &whole[..length]).unwrap();
            campanile(&["checkpoint", "verify", text(&run)]).refused(&[&file]);
            resume(&run, &[]).refused(&[&file]);
        }
        fs::write(&path, &whole).unwrap();
    }
    resume(&run, &[]).json();
}
