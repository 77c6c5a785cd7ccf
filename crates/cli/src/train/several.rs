//! One run of several: those of a recipe, or of a table.

use crate::logs::OpenLogs;
use crate::progress::Console;
use crate::signals::Stop;
use anyhow::Result;
use campanile::Training;
use spec::run::{Config, Run};
use std::path::Path;
use training::Outcome;

/// Trains what `config` describes, one run of several, and keeps it in `out` where that is given. An error where it is
/// stopped on the way.
pub fn one_of_several(
    config: &Config,
    logs: &OpenLogs,
    out: Option<&Path>,
    title: &str,
    stop: &Stop,
    console: Console,
) -> Result<(Run, Outcome)> {
    let mut training =
        Training::new(config.clone()).logs(logs.clone()).titled(title).control(console.control(stop));
    if let Some(out) = out {
        training = training.out(out);
    }
    let trained = match training.run() {
        // Without a folder, or with half of one, it is no run of several.
        Err(campanile::Error::NotKept { source, .. }) => return Err((*source).into()),
        trained => trained?,
    };
    let (run, outcome) = (trained.run, trained.outcome);
    if outcome.interrupted {
        let said = format!("{title}: stopped after step {} of {}", outcome.steps, run.steps);
        return Err(stop.interrupted(said).into());
    }
    Ok((run, outcome))
}
