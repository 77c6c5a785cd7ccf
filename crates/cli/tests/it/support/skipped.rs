//! Tests that this machine cannot run.

/// Says that something is not tested, and why. Fails where `CAMPANILE_NO_SKIPS` names it, as `scripts/fresh` does for what
/// this machine could test.
pub fn skipped(what: &str, why: &str) {
    let demanded = std::env::var("CAMPANILE_NO_SKIPS").unwrap_or_default();
    assert!(!demanded.split(' ').any(|name| name == what), "CAMPANILE_NO_SKIPS names {what}, but {why}");
    eprintln!("SKIPPED: {why}");
}
