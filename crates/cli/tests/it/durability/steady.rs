//! A day of steps in miniature: memory does not grow.

use super::command::start;
use super::resident::Samples;

#[test]
fn a_thousand_steps_of_eight_ranks_need_no_more_memory() {
    flat_memory("1000");
}

#[test]
#[ignore = "long: scripts/test --long"]
fn ten_thousand_steps_of_eight_ranks_need_no_more_memory() {
    flat_memory("10000");
}

fn flat_memory(steps: &str) {
    let run =
        ["train", "--json", "--hosts", "4", "--ranks-per-host", "2", "--dim", "4", "--rows-cap", "2000"];
    let length = ["--batch", "32", "--samples", "100000", "--eval-samples", "64", "--steps", steps];
    let mut child = start(&[&run[..], &length[..]].concat());
    let mut samples = Samples::default();
    while child.try_wait().unwrap().is_none() {
        samples.take(&[child.id()]);
    }
    assert!(child.wait().unwrap().success());
    samples.assert_flat();
}
