//! Where commands write: never over what they read, never into what a run keeps, over nothing without being asked to.

use crate::support::command::{Folder, campanile, json, refused_with};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// Samples as Criteo writes them.
fn criteo(lines: usize) -> String {
    let line = |at: usize| {
        let numbers: Vec<String> = (0..13).map(|column| ((at * 7 + column) % 50).to_string()).collect();
        let ids: Vec<String> =
            (0..26).map(|column| format!("{:08x}", (at * 31 + column * 17) % 97)).collect();
        format!("{}\t{}\t{}\n", usize::from(at.is_multiple_of(3)), numbers.join("\t"), ids.join("\t"))
    };
    (0..lines).map(line).collect()
}

/// A run on a log, and whatever else commands read.
struct World {
    folder: Folder,
    log: String,
    run: String,
    rank_file: String,
    affinity: String,
    config: String,
}

impl World {
    fn new() -> Self {
        let folder = Folder::new();
        let log = folder.write("log.tsv", criteo(200));
        let run = folder.path("run");
        let size = "--rows-cap 50 --dim 4 --batch 100 --hosts 1 --ranks-per-host 1 --threads 1";
        let size: Vec<&str> = size.split(' ').collect();
        let train = ["train", "--data", &log, "--eval", &log, "--out", &run, "--json"];
        json(&[&train[..], &size].concat());
        let step = fs::read_dir(folder.path("run/checkpoints")).unwrap().next().unwrap().unwrap().path();
        let rank_file = step.join("rank-0000.safetensors").to_str().unwrap().to_owned();
        let affinity = r#"{"features": ["C1", "C2"], "affinity": [[1, 0.5], [0.5, 1]]}"#;
        let affinity = folder.write("affinity.json", affinity);
        let config = folder.write("run.toml", "[train]\nbatch = 256\nsteps = 1\n[topology]\nhosts = 1\n");
        Self { folder, log, run, rank_file, affinity, config }
    }

    /// Commands up to the name of their output, and the input that each must not lose.
    fn commands(&self) -> Vec<(Vec<&str>, &str)> {
        let Self { log, run, affinity, config, rank_file, .. } = self;
        vec![
            (vec!["eval", "--checkpoint", run, "--data", log, "--predictions"], log),
            // What the run was evaluated on.
            (vec!["eval", "--checkpoint", run, "--predictions"], log),
            (vec!["checkpoint", "export", run, "--out"], rank_file),
            (vec!["affinity", "--checkpoint", run, "--data", log, "--out"], log),
            (vec!["partition", "--affinity", affinity, "--towers", "2", "--out"], affinity),
            (vec!["simulate", "--model", config, "--system", "h100:8", "--html"], config),
            (vec!["simulate", "--model", config, "--system", "h100:8", "--trace"], config),
            (vec!["pace", config, "--out"], config),
            (vec!["data", "groups", config, "--out"], config),
            (vec!["train", config, "--trace"], config),
        ]
    }

    /// Every file, with its bytes.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.folder.path("")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let path = entry.path().to_str().unwrap().to_owned();
                match entry.file_type().unwrap() {
                    kind if kind.is_dir() => folders.push(path),
                    kind if kind.is_file() => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
                    _ => drop(found.insert(path, Vec::new())),
                }
            }
        }
        found
    }
}

/// Asserts that a command is refused with exit code 1 and a message that begins with the path.
fn refuse(command: &[&str], out: &str, more: &[&str], part: &str) {
    let args = [command, &[out], more].concat();
    let output = campanile(&args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    assert!(said.starts_with(&format!("error: {out}: ")) && said.contains(part), "{args:?}: {said}");
}

#[test]
fn hostile_destinations_are_refused_and_nothing_is_lost() {
    let world = World::new();
    let folder = &world.folder;
    let step = Path::new(&world.rank_file).parent().unwrap().to_str().unwrap().to_owned();
    let existing = folder.write("existing.txt", "kept");
    fs::create_dir(folder.path("sub")).unwrap();
    for (at, (command, input)) in world.commands().iter().enumerate() {
        let (link, hard) = (folder.path(&format!("link-{at}")), folder.path(&format!("hard-{at}")));
        symlink(input, &link).unwrap();
        fs::hard_link(input, &hard).unwrap();
        let name = Path::new(input).strip_prefix(folder.path("")).unwrap();
        let spelled = folder.path(&format!("sub/../{}", name.display()));
        let before = world.files();
        for out in [*input, &link, &hard, &spelled] {
            refuse(command, out, &["--force"], "an input of this command");
        }
        refuse(command, input, &[], "an input of this command");
        if *input != world.rank_file {
            refuse(command, &world.rank_file, &["--force"], "not even with --force");
        }
        refuse(command, &format!("{step}/new.html"), &["--force"], "lies in a checkpoint");
        refuse(command, &format!("{}/metrics.jsonl", world.run), &["--force"], "belongs to the run");
        refuse(command, &format!("{}/config.toml", world.run), &["--force"], "belongs to the run");
        refuse(command, &folder.path("sub"), &["--force"], "folder");
        refuse(command, &folder.path("none/out.html"), &["--force"], "mkdir -p");
        refuse(command, &existing, &[], "--force");
        assert!(world.files() == before, "{command:?} changed something");
    }
    // Commands that read nothing that a user could lose.
    for command in [
        vec!["explore", "--html"],
        vec!["calibrate", "--out"],
        vec!["reproduce", "dmt-fig12", "--html"],
        vec!["report", &world.run, "--out"],
    ] {
        let before = world.files();
        refuse(&command, &world.rank_file, &["--force"], "lies in a checkpoint");
        refuse(&command, &folder.path("none/out.html"), &["--force"], "mkdir -p");
        refuse(&command, &existing, &[], "--force");
        assert!(world.files() == before, "{command:?} changed something");
    }
    refuse(
        &["report", &world.run, "--out"],
        &format!("{}/summary.json", world.run),
        &["--force"],
        "not even with --force",
    );
    let one = folder.path("one.json");
    let twice = ["simulate", "--html", &one, "--trace", &folder.path("sub/../one.json")];
    refused_with(&twice, &["one.json", "two outputs"]);
}

#[test]
fn files_are_replaced_by_force_and_links_stay() {
    let world = World::new();
    let (target, link) = (world.folder.write("target.csv", "old"), world.folder.path("link.csv"));
    symlink("target.csv", &link).unwrap();
    let eval = ["eval", "--checkpoint", &world.run, "--predictions"];
    let before = fs::read(&world.log).unwrap();
    json(&[&eval[..], &[&link, "--force", "--json"]].concat());
    let text = fs::read_to_string(&target).unwrap();
    assert!(Path::new(&link).is_symlink() && text.starts_with("label,probability\n"), "{text}");
    assert_eq!(text.lines().count(), 201);
    assert_eq!(fs::read(&world.log).unwrap(), before);

    // What fails leaves what was there.
    let model = world.folder.write("model.safetensors", "old");
    let limited =
        format!("ulimit -f 1; exec \"$0\" checkpoint export '{}' --out '{model}' --force", world.run);
    let output = Command::new("sh").args(["-c", &limited, env!("CARGO_BIN_EXE_campanile")]).output().unwrap();
    assert!(!output.status.success());
    assert_eq!(fs::read_to_string(&model).unwrap(), "old");
    json(&["checkpoint", "export", &world.run, "--out", &model, "--force", "--json"]);
    assert!(fs::metadata(&model).unwrap().len() > 1000);

    // A run's page is its own.
    let page = format!("{}/report.html", world.run);
    for args in [&["report", &world.run][..], &["report", &world.run, "--out", &page]] {
        assert!(campanile(args).status.success());
    }
    // Predictions may lie beside what the run keeps.
    let beside = format!("{}/predictions.csv", world.run);
    json(&[&eval[..], &[&beside, "--json"]].concat());
}

#[test]
fn pipes_and_devices_are_written_through() {
    let world = World::new();
    let eval = ["eval", "--checkpoint", &world.run, "--json", "--predictions"];
    let through = |name: &str, args: &[&str]| {
        let pipe = world.folder.path(name);
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reading = pipe.clone();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            File::open(reading).unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        });
        let output = campanile(&[args, &[&pipe]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!fs::metadata(&pipe).unwrap().is_file(), "{pipe} is a pipe no more");
        reader.join().unwrap()
    };
    let csv = through("pipe.csv", &eval);
    assert_eq!(String::from_utf8(csv.clone()).unwrap().lines().count(), 201);
    let parquet = through("pipe.parquet", &eval);
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let exported = world.folder.path("model.safetensors");
    json(&["checkpoint", "export", &world.run, "--out", &exported, "--json"]);
    let model = through("pipe.safetensors", &["checkpoint", "export", &world.run, "--out"]);
    // Notes in the header are in any order.
    let floats = |file: &[u8]| {
        let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        file[8 + header..].to_vec()
    };
    assert!(floats(&model) == floats(&fs::read(&exported).unwrap()), "a pipe gets other bytes than a file");

    json(&[&eval[..], &["/dev/null"]].concat());
    refused_with(&[&eval[..], &["/dev/full"]].concat(), &["/dev/full"]);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    // Standard output, whatever it is: the table first, then what is told.
    let out = world.folder.path("stdout.txt");
    let piped = campanile(&[&eval[..], &["/dev/stdout"]].concat()).stdout;
    let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
    let file = File::create(&out).unwrap();
    assert!(command.args(eval).arg("/dev/stdout").stdout(Stdio::from(file)).status().unwrap().success());
    for told in [piped, fs::read(&out).unwrap()] {
        assert!(told.starts_with(&csv), "{}", String::from_utf8_lossy(&told));
        assert!(told[csv.len()..].starts_with(b"{\"accuracy\""), "{}", String::from_utf8_lossy(&told));
    }
    let text = campanile(&["eval", "--checkpoint", &world.run, "--predictions", "/dev/stdout"]);
    assert_eq!(text.stdout, csv);
    assert!(String::from_utf8_lossy(&text.stderr).contains("after step"));
    // A log that standard output is appended to is an input all the same.
    let before = fs::read(&world.log).unwrap();
    let log = File::options().append(true).open(&world.log).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
    assert!(!command.args(eval).arg("/dev/stdout").stdout(Stdio::from(log)).status().unwrap().success());
    assert_eq!(fs::read(&world.log).unwrap(), before);
}

#[test]
fn a_log_is_never_prepared_over_itself() {
    let folder = Folder::new();
    for name in ["samples.bin", "index.bin", "manifest.json", "vocabulary-C1"] {
        let own = folder.path(name.trim_end_matches(".bin"));
        fs::create_dir(&own).unwrap();
        let log = format!("{own}/{name}");
        fs::write(&log, criteo(10)).unwrap();
        refused_with(&["data", "prepare", "--data", &log, "--out", &own], &[&own, "holds an input"]);
        assert_eq!(fs::read_to_string(&log).unwrap(), criteo(10));
    }
    // A run prepares its logs in its folder.
    let (run, log) = (folder.path("run"), folder.path("run/prepared/train/samples.bin"));
    fs::create_dir_all(folder.path("run/prepared/train")).unwrap();
    fs::write(&log, criteo(10)).unwrap();
    refused_with(&["train", "--data", &log, "--rows-cap", "50", "--out", &run], &["samples.bin", "lies in"]);
    assert_eq!(fs::read_to_string(&log).unwrap(), criteo(10));
    // Folders have no place in what a run keeps.
    fs::create_dir_all(folder.path("kept/checkpoints/step-000000000001")).unwrap();
    let inside = folder.path("kept/checkpoints/step-000000000001/new");
    let log = folder.write("log.tsv", criteo(10));
    for args in [&["data", "prepare", "--data", &log, "--out", &inside][..], &["train", "--out", &inside]] {
        refused_with(args, &[&inside, "lies in a checkpoint"]);
        assert!(!Path::new(&inside).exists());
    }
    // Vocabularies of the log that would be replaced.
    let own = folder.path("own");
    assert!(campanile(&["data", "prepare", "--data", &log, "--out", &own]).status.success());
    let same = ["data", "prepare", "--data", &log, "--out", &own, "--vocabularies-of", &own];
    refused_with(&same, &["own", "holds an input"]);
}
