//! A new user's path: a log of one's own, with a header, to a trained, evaluated and reported model and its predictions in three
//! commands, without writing a line of configuration.

use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

fn campanile(folder: &Path, arguments: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_campanile"));
    let output = command.current_dir(folder).args(arguments.split(' ')).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {err}");
    String::from_utf8(output.stdout).unwrap()
}

/// A shop's log: who saw what, when, at which price, and whether it was bought. Some shoppers and some items are better than others.
fn shop(rows: u64, labelled: bool) -> String {
    let mut text = String::from("order_id,seen_at,shopper,item,price,device");
    text += if labelled { ",bought\n" } else { "\n" };
    let mut state = if labelled { 7u64 } else { 77 };
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for row in 0..rows {
        let (shopper, item, cents, device) = (draw(200), draw(50), draw(9000), draw(3));
        let likes = (shopper * 7 + 3) % 10 + (item * 3 + 1) % 10;
        let bought = u8::from(draw(20) < likes);
        let device = ["phone", "\"laptop, large\"", ""][device as usize];
        let (id, time, price) = (100_000 + row, 1_700_000_000 + 13 * row, cents as f64 / 100.0);
        write!(text, "{id},{time},s{shopper},i{item},{price},{device}").unwrap();
        if labelled {
            write!(text, ",{bought}").unwrap();
        }
        text.push('\n');
    }
    text
}

#[test]
fn three_commands_from_a_csv_to_predictions() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("shop.csv"), shop(8000, true)).unwrap();
    std::fs::write(at.join("new.csv"), shop(500, false)).unwrap();

    let found = campanile(at, "data inspect --data shop.csv --write mine");
    for part in ["bought", "shopper", "seen_at", "price"] {
        assert!(found.contains(part), "{part} is missing in\n{found}");
    }
    let result = campanile(at, "train mine/run.toml --out run --json");
    let result: Value = serde_json::from_str(result.lines().last().unwrap()).unwrap();
    let auc = result["auc"].as_f64().expect("run.toml holds a split, so there is an AUC");
    assert!(auc > 0.6, "{auc}: likes of shoppers and items can be learnt");
    assert_eq!(result["eval_samples"], 800, "a tenth");
    assert!(at.join("run/report.html").is_file());

    campanile(at, "predict --checkpoint run --data new.csv --out scores.csv --key order_id");
    let scores = std::fs::read_to_string(at.join("scores.csv")).unwrap();
    let mut lines = scores.lines();
    assert_eq!(lines.next(), Some("order_id,probability"));
    let rows: Vec<(&str, f64)> = lines
        .map(|line| line.split_once(',').unwrap())
        .map(|(key, probability)| (key, probability.parse().unwrap()))
        .collect();
    assert_eq!((rows.len(), rows[0].0, rows[499].0), (500, "100000", "100499"));
    assert!(rows.iter().all(|(_, probability)| (0.0..=1.0).contains(probability)));
}
