//! Questions of the command line that another program asks: what a step costs elsewhere, which plan or strategy is best, which features
//! share a tower.

use crate::{Command, commands, explore, partition, plan, simulate};
use anyhow::{Result, bail};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The answer to a question.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What the command prints with `--json`.
    pub json: serde_json::Value,
    /// What the command draws with `--html` or `--picture`.
    pub html: String,
}

/// Answers what `arguments` ask, the first of which is one of `simulate`, `explore`, `plan` and `partition`, and the others its flags.
/// Nothing is printed. Errors have the texts of the command line. `stop` ends long work early.
pub fn answer(arguments: &[String], stop: Arc<AtomicBool>) -> Result<Answer> {
    let name = "campanile".to_owned();
    let cli = commands::parse_from(commands::command(), [name].iter().chain(arguments)).map_err(plain)?;
    match cli.command {
        Command::Simulate(args) => simulate::answer(&args),
        Command::Explore(args) => explore::answer(&args, &stop),
        Command::Plan(args) => plan::answer(&args),
        Command::Partition(args) => partition::answer(&args, stop),
        _ => bail!("only simulate, explore, plan and partition give an answer"),
    }
}

/// An error of clap without colours, its own `error:` and how to ask for help.
fn plain(error: clap::Error) -> anyhow::Error {
    let text = error.render().to_string();
    let told = text.strip_prefix("error: ").unwrap_or(&text);
    anyhow::anyhow!("{}", told.split("\n\nUsage:").next().unwrap_or(told).trim())
}
