//! `campanile bench collectives`: a sweep of sizes, and the replay of a step's collectives.

use crate::support::command::{campanile, json, refusal};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

fn text(args: &[&str]) -> String {
    let output = campanile(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A file with this text, removed at the end of the test.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("campanile-{}-{name}.json", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

const QUICK: &[&str] = &["--rounds", "2", "--warm-up", "1"];

fn bench<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&["bench", "collectives"], args, QUICK].concat()
}

#[test]
fn a_sweep_gives_every_collective_in_every_group() {
    let swept = json(&bench(&["--from", "4KiB", "--to", "64KiB", "--json"]));
    let points = swept["points"].as_array().unwrap();
    assert_eq!(points.len(), 4 * 3 * 3);
    let find = |collective: &str, group: &str, bytes: u64| {
        let is = |p: &&Value| p["collective"] == collective && p["group"] == group && p["bytes"] == bytes;
        points.iter().find(is).unwrap_or_else(|| panic!("no {collective} {group} {bytes} in {swept}"))
    };
    // Of 64 KiB for 4 ranks each gets 16: 2 of 4 destinations are on the other host, of 4 ranks.
    let world = find("all_to_all", "world", 65536);
    assert_eq!((&world["ranks"], &world["messages"]), (&4.into(), &3.into()));
    assert_eq!((&world["message_bytes"], &world["network_bytes"]), (&16384.into(), &(4 * 2 * 16384).into()));
    assert_eq!(find("all_reduce", "world", 65536)["network_bytes"], 2 * 4 * 2 * 16384);
    assert_eq!(find("all_reduce", "host", 65536)["network_bytes"], 0);
    assert_eq!(find("reduce_scatter", "peers", 65536)["network_bytes"], 4 * 32768);
    for point in points {
        let of = |key: &str| point[key].as_f64().unwrap();
        assert!(0.0 < of("min_s") && of("min_s") <= of("median_s"), "{point}");
        let halves = if point["collective"] == "all_reduce" { 2.0 } else { 1.0 };
        let factor = halves * (of("ranks") - 1.0) / of("ranks");
        let bus = of("bytes") / of("median_s") * factor;
        assert!((of("bus_bytes_per_s") / bus - 1.0).abs() < 1e-9, "{point}");
    }
    for line in swept["links"].as_array().unwrap() {
        assert!(serde_json::from_value::<spec::links::LinkModel>(line.clone()).unwrap().bytes_per_s > 0.0);
    }
}

/// Two levels send half as much between hosts of two ranks as the direct algorithm, as the transport counts it.
#[test]
fn an_all_reduce_has_the_algorithm_that_is_asked_for() {
    let only = ["--collectives", "all-reduce", "--groups", "world", "--from", "16KiB", "--to", "64KiB"];
    let swept = json(&bench(&[&only[..], &["--all-reduce", "two-level", "--json"]].concat()));
    let points = swept["points"].as_array().unwrap();
    assert!(points.len() == 2 && points.iter().all(|point| point["algorithm"] == "two-level"), "{swept}");
    assert_eq!(points[1]["network_bytes"], 4 * 2 * 16384);
    assert_eq!((&points[1]["messages"], &points[1]["message_bytes"]), (&4.into(), &32768.into()));
    let table = text(&bench(&[&only[..], &["--all-reduce", "ring"]].concat()));
    assert!(table.contains("ring all-reduce") && table.contains("world of 4"), "{table}");
}

#[test]
fn a_sweep_prints_a_table() {
    let only = ["--collectives", "all-to-all", "--groups", "peers", "--hosts", "3", "--ranks-per-host", "1"];
    let table = text(&bench(&[&only[..], &["--from", "1000", "--to", "4KiB"]].concat()));
    for part in ["all-to-all", "peers of 3", "1000 B", "2 × 336 B", "latency + size / bandwidth"] {
        assert!(table.contains(part), "{part:?} is missing in\n{table}");
    }
    assert!(!table.contains("world") && !table.contains("all-reduce"), "{table}");
}

#[test]
fn mistakes_are_refused_with_what_to_do() {
    let nonsense = File::new("nonsense", "{\"phases\": [");
    let old = File::new("old", "{\"phases\": []}");
    let cases: &[(&[&str], &[&str])] = &[
        (&["--from", "64XiB"], &["64XiB", "KiB"]),
        (&["--from", "many"], &["many", "not a size"]),
        (&["--from", "6"], &["--from 6", "a multiple of 4 bytes"]),
        (&["--from", "1MiB", "--to", "1KiB"], &["--from 1048576", "--to 1024"]),
        (&["--to", "1TiB"], &["--to 1099511627776", "at most"]),
        (&["--collectives", "broadcast"], &["broadcast", "all-to-all"]),
        (&["--groups", "racks"], &["racks", "peers"]),
        (&["--all-reduce", "auto"], &["auto", "two-level"]),
        (
            &["--all-reduce", "ring", "--collectives", "all-to-all"],
            &["--all-reduce", "leave --all-reduce out"],
        ),
        (&["--hosts", "0"], &["0 hosts", "at least 1"]),
        (&["--hosts", "1", "--groups", "peers"], &["1 × 2", "more than one rank"]),
        (&["--hosts", "1025", "--ranks-per-host", "1", "--to", "1KiB"], &["1025", "1024"]),
        (&["--serial"], &["--replay"]),
        (&["--replay", "/nowhere.json"], &["/nowhere.json", "cannot be read"]),
        (&["--replay", nonsense.path()], &["nonsense.json", "campanile schedule"]),
        (&["--replay", old.path()], &["old.json", "config", "campanile schedule"]),
        (&["--replay", old.path(), "--hosts", "2"], &["--hosts", "cannot be used with"]),
    ];
    for (args, expected) in cases {
        let message = refusal(&bench(args));
        for part in *expected {
            assert!(message.contains(part), "{args:?} should say {part:?}, said: {message}");
        }
    }
    assert!(refusal(&["bench", "collectives", "--rounds", "0"]).contains("--rounds 0"));
}

/// Replays the schedule of `args`, and holds what the transport counted against what the schedule says.
fn replay(name: &str, args: &[&str]) -> Value {
    let printed = text(&[&["schedule", "--json", "--batch", "250"], args].concat());
    let file = File::new(name, &printed);
    let replayed = json(&bench(&["--replay", file.path(), "--json"]));
    let schedule: Value = serde_json::from_str(&printed).unwrap();
    let phases = schedule["phases"].as_array().unwrap();
    let scheduled: Vec<&Value> = phases.iter().filter(|p| !p["work"]["collective"].is_null()).collect();
    let collectives = replayed["collectives"].as_array().unwrap();
    assert_eq!(collectives.len(), scheduled.len());
    let mut sent = 0;
    for (ours, phase) in collectives.iter().zip(scheduled) {
        assert_eq!(ours["name"], phase["name"]);
        assert_eq!(ours["collective"], phase["work"]["collective"]["kind"]);
        let before = sent;
        for link in ["host", "network"] {
            let key = format!("sent_{link}_bytes");
            let by_rank: Vec<u64> =
                phase[key].as_array().unwrap().iter().map(|b| b.as_u64().unwrap()).collect();
            let (most, total) = (by_rank.iter().max().unwrap(), by_rank.iter().sum::<u64>());
            assert_eq!(ours[format!("most_{link}_bytes")], *most, "{ours}");
            assert_eq!(ours[format!("total_{link}_bytes")], total, "{ours}");
            sent += total;
        }
        // In a group of one rank nothing is ever in flight.
        assert!(ours["in_flight_s"].as_f64().unwrap() > 0.0 || sent == before, "{ours}");
        assert!(ours["alone_s"].as_f64().unwrap() > 0.0, "{ours}");
    }
    assert!(sent > 0);
    let of = |key: &str| replayed[key].as_f64().unwrap();
    assert!(of("step_s") > 0.0 && of("critical_path_s") > 0.0);
    replayed
}

#[test]
fn a_flat_step_is_replayed() {
    let replayed = replay("flat", &[]);
    assert_eq!((&replayed["dataflow"], &replayed["batch"]), (&"flat".into(), &250.into()));
    replay("evaluation", &["--evaluate"]);
    replay("halves", &["--wire", "bf16"]);
    replay("levels", &["--wire", "f16", "--all-to-all", "hierarchical", "--hosts", "3"]);
    replay("multi-hot", &[concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/multi-hot.toml")]);
}

#[test]
fn steps_of_sptt_are_replayed() {
    replay("sptt", &["--dataflow", "sptt"]);
    replay("peers", &["--dataflow", "sptt", "--peer-permute", "none", "--hosts", "4"]);
    // Groups of one rank: nothing leaves it in step d.
    replay("single", &["--dataflow", "sptt", "--ranks-per-host", "1"]);
}

#[test]
fn steps_of_dmt_are_replayed() {
    let towers = ["--towers", "strided:2", "--tower-module", "dlrm:d=8"];
    let names = |replayed: &Value| -> Vec<String> {
        let named = replayed["collectives"].as_array().unwrap().iter();
        named.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(names(&replay("dmt", &towers)).contains(&"reduce tower gradients".into()));
    // Rows: a reduce-scatter and an all-gather.
    let rows = replay("rows", &[&towers[..], &["--cut", "rows", "--hosts-per-tower", "2"]].concat());
    assert!(names(&rows).contains(&"group sums".into()) && names(&rows).contains(&"group gather".into()));
    replay("half rows", &[&towers[..], &["--cut", "rows", "--wire", "bf16"]].concat());
}

#[test]
fn a_serial_replay_prints_a_table() {
    let file = File::new("serial", &text(&["schedule", "--json", "--batch", "64"]));
    let table = text(&bench(&["--replay", file.path(), "--serial"]));
    for part in ["dlrm on 2 × 2", "typical batch", "pooled exchange", "all-to-all over world", "one by one"]
    {
        assert!(table.contains(part), "{part:?} is missing in\n{table}");
    }
    assert!(!table.contains("as scheduled"), "{table}");
    assert!(text(&bench(&["--replay", file.path()])).contains("as scheduled"));
}

/// The schedule that a run keeps can be replayed.
#[test]
fn the_schedule_of_a_run_folder_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let small = ["--samples", "512", "--eval-samples", "100", "--batch", "128", "--steps", "2"];
    text(&[&["train", "--out", out.to_str().unwrap()], &small[..]].concat());
    let replayed = json(&bench(&["--replay", out.join("schedule.json").to_str().unwrap(), "--json"]));
    assert_eq!(replayed["batch"], 128);
}

#[test]
fn an_edited_file_is_refused() {
    let printed: Value = serde_json::from_str(&text(&["schedule", "--json"])).unwrap();
    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut value = printed.clone();
        edit(&mut value);
        let file = File::new("edited", &value.to_string());
        refusal(&bench(&["--replay", file.path()]))
    };
    let message = edited(&|v| v["config"]["train"]["batch"] = 4096.into());
    assert!(message.contains("phase 0 has") && message.contains("campanile schedule"), "{message}");
    let message = edited(&|v| v["phases"][1]["name"] = "another".into());
    assert!(message.contains("phase 1 has name \"another\"") && message.contains("edited"), "{message}");
    let message = edited(&|v| {
        v["phases"].as_array_mut().unwrap().pop();
    });
    assert!(message.contains("phases where its config gives"), "{message}");
    let message = edited(&|v| v["phases"] = "none".into());
    assert!(message.contains("it has 0 phases"), "{message}");
    let message = edited(&|v| v["config"]["train"]["bach"] = 1.into());
    assert!(message.contains("its config") && message.contains("bach"), "{message}");
    let message = edited(&|v| v["config"]["topology"]["hosts"] = 0.into());
    assert!(message.contains("at least 1"), "{message}");
}
