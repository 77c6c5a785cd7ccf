use super::*;
use crate::Label;
use crate::transport::mpi::status::{node_name, read_all};

fn collective(sequence: u64) -> CollectiveStatus {
    let label = Label::from(if sequence == 7 { "pooled".to_owned() } else { format!("number {sequence}") });
    CollectiveStatus { operation: "all_to_all", label, sequence, size: 8 }
}

/// The file of another process.
pub(in super::super) fn write_as(path: &Path, pid: u32) {
    let mut entry = StatusEntry::new(0, 0, pid, &node_name());
    entry.seal(1);
    let version = VERSION.to_le_bytes();
    fs::write(path, [&MAGIC[..], &version, &[0; LEN], entry.bytes()].concat()).unwrap();
}

#[test]
fn what_was_said_is_read() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("job");
    let mut files: Vec<_> =
        [3, 0].map(|rank| StatusFile::create(folder.clone(), rank, rank / 2, "node").unwrap()).into();
    files[0].enter("lookup");
    files[0].say(Activity::Computing, Some(&collective(7)));
    files[1].enter(&"é".repeat(100));
    let all = read_all(&folder).unwrap();
    assert_eq!(all.iter().map(|process| process.status.rank).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(all[0].status.phase.as_str(), "é".repeat(48));
    let pid = std::process::id();
    assert_eq!(
        all[1].to_string(),
        format!(
            "rank 3 on host 1 (node, pid {pid}) died in phase `lookup`: last started all_to_all #7 of 8 ranks \
             (`pooled`)"
        )
    );
    files[0].say(Activity::Waiting(Default::default()), None);
    assert!(read(files[0].path()).unwrap().to_string().contains("in all_to_all #7"));
    drop(files);
    assert!(!folder.exists());
}

#[test]
fn half_an_entry_leaves_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = StatusFile::create(folder.path().join("job"), 0, 0, "node").unwrap();
    file.enter("first");
    let before = fs::read(file.path()).unwrap();
    file.enter("second");
    let after = fs::read(file.path()).unwrap();
    let copy = folder.path().join("copy");
    // Killed after any of its stores.
    for cut in 0..after.len() {
        fs::write(&copy, [&after[..cut], &before[cut..]].concat()).unwrap();
        let phase = read(&copy).unwrap().status.phase;
        let all = after[cut..] == before[cut..];
        assert_eq!(phase.as_str(), if all { "second" } else { "first" }, "cut at {cut}");
    }
    for bad in [&b""[..], b"campanile status", &[0; 760], &after[..FIRST]] {
        fs::write(&copy, bad).unwrap();
        assert!(read(&copy).unwrap_err().to_string().contains("copy: "));
    }
}

#[test]
fn readers_see_whole_entries() {
    let parent = tempfile::tempdir().unwrap();
    let mut file = StatusFile::create(parent.path().join("job"), 0, 0, "node").unwrap();
    file.say(Activity::Computing, Some(&collective(0)));
    let path = file.path().to_owned();
    let reader = std::thread::spawn(move || {
        let mut seen = 0;
        while seen < 1000 {
            // A writer that never pauses may spoil ten reads in a row.
            let Ok(process) = read(&path) else { continue };
            let found = process.status.collective.unwrap();
            assert_eq!(found.label, collective(found.sequence).label);
            seen += 1;
        }
    });
    let mut sequence = 0;
    while !reader.is_finished() {
        sequence += 1;
        file.say(Activity::Computing, Some(&collective(sequence)));
    }
    reader.join().unwrap();
}
