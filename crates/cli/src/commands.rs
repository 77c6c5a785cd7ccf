//! Commands by what people do with them: the groups of `campanile --help`, and the command line that has them.

use crate::Cli;
use clap::builder::{StyledStr, Styles};
use clap::{Command, CommandFactory, FromArgMatches};
use std::fmt::Write;

/// Groups of commands in the order of `campanile --help`. Every command is in exactly one of them, which a test checks.
pub const GROUPS: [(&str, &[&str]); 7] = [
    ("Train", &["train", "sweep", "eval", "predict", "checkpoint", "embeddings", "report"]),
    ("Data", &["data"]),
    ("Towers", &["towers", "affinity", "partition"]),
    ("Plan and simulate", &["describe", "plan", "schedule", "simulate", "explore"]),
    ("Measure", &["doctor", "bench", "calibrate", "pace"]),
    ("Reproduce", &["reproduce"]),
    ("Shell", &["completions", "man", "help"]),
];

/// Commands of a group that this program has, with their descriptions. `help` is added by clap when it parses.
pub fn members<'a>(command: &'a Command, names: &'a [&str]) -> impl Iterator<Item = (&'a str, String)> {
    names.iter().filter_map(|&name| match (command.find_subcommand(name), name) {
        (Some(found), _) => Some((name, found.get_about().map(ToString::to_string).unwrap_or_default())),
        (None, "help") => Some((name, "Print the help of a command".into())),
        (None, _) => None,
    })
}

/// The whole command line, whose help lists the commands by [`GROUPS`].
pub fn command() -> Command {
    let command = Cli::command();
    let template = template(&command);
    command.help_template(template)
}

/// Parses the arguments of this process.
pub fn parse() -> Result<Cli, clap::Error> {
    parse_from(command(), std::env::args_os())
}

/// Parses arguments, the first of which is the name of the program.
pub fn parse_from<T: Into<std::ffi::OsString> + Clone>(
    mut command: Command,
    arguments: impl IntoIterator<Item = T>,
) -> Result<Cli, clap::Error> {
    let mut matches = command.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Template of clap for `campanile --help`, with the groups in place of one long list.
fn template(command: &Command) -> StyledStr {
    let styles = Styles::styled();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::from("{before-help}{about-with-newline}\n{usage-heading} {usage}\n");
    for (group, names) in GROUPS {
        let _ = writeln!(text, "\n{header}{group}:{header:#}");
        for (name, about) in members(command, names) {
            let gap = " ".repeat(width - name.len());
            let _ = writeln!(text, "  {literal}{name}{literal:#}{gap}  {about}");
        }
    }
    let _ = write!(text, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    text.into()
}

#[cfg(test)]
mod tests;
