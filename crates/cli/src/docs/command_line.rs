//! docs/reference/command-line.md: every command and flag, as clap knows them.

use super::GENERATED;
use crate::args::RunArgs;
use crate::commands::{self, GROUPS};
use clap::{Arg, Args, Command};
use pages::markdown::table;
use std::fmt::Write;

/// Text of the page.
pub fn page() -> String {
    let mut root = commands::command();
    root.build();
    let shared = run_flags();
    let mut page = format!(
        "# Command line\n\n{GENERATED}\n\
         All commands and flags of `campanile`, with their defaults. `campanile help COMMAND` prints the same in a terminal, \
         `campanile man` and `campanile completions` make manual pages and shell completions of it. Every command also has \
         `--quiet` (`-q`), which prints no progress and no notes, and `--help` (`-h`). Words are explained in the \
         [glossary](../design/glossary.md).\n\n"
    );
    for (group, names) in GROUPS {
        let listed = commands::members(&root, names).filter(|(name, _)| *name != "help");
        let links: Vec<String> = listed.map(|(name, _)| format!("[`{name}`](#campanile-{name})")).collect();
        let _ = writeln!(page, "- **{group}**: {}", links.join(", "));
    }
    page += "\n## Flags that describe a run\n\n\
             Commands that train, describe or measure a run take these flags, over an optional TOML file \
             ([its keys](config.md)). Flags override the file, the file overrides defaults.\n";
    page += &flag_tables(&shared);
    for (group, names) in GROUPS {
        let _ = writeln!(page, "\n## {group}");
        for name in names {
            if let Some(command) = root.find_subcommand(name).filter(|_| *name != "help") {
                describe(command, &format!("campanile {name}"), &shared, &mut page);
            }
        }
    }
    page
}

/// Flags of [`RunArgs`], which several commands share.
fn run_flags() -> Vec<Arg> {
    let command = RunArgs::augment_args(Command::new("run"));
    command.get_arguments().cloned().collect()
}

/// Appends a command and those inside it.
fn describe(command: &Command, name: &str, shared: &[Arg], page: &mut String) {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(page, "\n### `{name}`\n\n{}.", about.trim_end_matches('.'));
    let usage = command.clone().render_usage().to_string();
    let _ = writeln!(page, "\n```text\n{}\n```", usage.trim_start_matches("Usage: "));
    let is_shared = |arg: &&Arg| shared.iter().any(|other| same(arg, other));
    let (common, own): (Vec<&Arg>, Vec<&Arg>) = command.get_arguments().partition(is_shared);
    if common.len() > 5 {
        *page += "\nTakes the [flags that describe a run](#flags-that-describe-a-run).\n";
        let differ: Vec<Arg> = own.into_iter().cloned().collect();
        *page += &flag_tables(&differ);
    } else {
        let all: Vec<Arg> = command.get_arguments().cloned().collect();
        *page += &flag_tables(&all);
    }
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        let _ = writeln!(page, "\n```text\n{}\n```", after.to_string().trim_end());
    }
    for inner in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        describe(inner, &format!("{name} {}", inner.get_name()), shared, page);
    }
}

/// Whether two flags are the same, with the same words.
fn same(one: &Arg, other: &Arg) -> bool {
    let help = |arg: &Arg| arg.get_help().map(ToString::to_string);
    one.get_id() == other.get_id() && help(one) == help(other)
}

/// Tables of flags, one for each heading that help texts have.
fn flag_tables(flags: &[Arg]) -> String {
    let everywhere = ["quiet", "help", "version"];
    let own = |arg: &&Arg| !arg.is_hide_set() && !everywhere.contains(&arg.get_id().as_str());
    let flags: Vec<&Arg> = flags.iter().filter(own).collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for flag in &flags {
        if !headings.contains(&flag.get_help_heading()) {
            headings.push(flag.get_help_heading());
        }
    }
    let mut text = String::new();
    for heading in headings {
        let of_heading = flags.iter().filter(|flag| flag.get_help_heading() == heading);
        let rows: Vec<Vec<String>> = of_heading.map(|flag| row(flag)).collect();
        let title = heading.map(|heading| format!("\n**{heading}**\n")).unwrap_or_default();
        let _ = write!(text, "{title}\n{}", table(3, &["flag", "meaning", "default"], &rows));
    }
    text
}

fn row(arg: &Arg) -> Vec<String> {
    let (mut meaning, mut default) = split_default(&help(arg));
    let values = arg.get_possible_values();
    let takes = arg.get_action().takes_values();
    let values: Vec<_> = values.iter().filter(|value| takes && !value.is_hide_set()).collect();
    if !values.is_empty() {
        let listed = values.iter().map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({help})", value.get_name()),
            None => format!("`{}`", value.get_name()),
        });
        let _ = write!(meaning, ". Values: {}", listed.collect::<Vec<_>>().join(", "));
    }
    let given: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if default.is_none() && !given.is_empty() && takes {
        default = Some(format!("`{}`", given.join(",")));
    }
    if arg.is_required_set() {
        default = Some("required".into());
    }
    vec![format!("`{}`", name(arg)), meaning, default.unwrap_or_default()]
}

/// Help of a flag, the longer one where there are two.
pub fn help(arg: &Arg) -> String {
    arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default()
}

/// A help text without the default that it states at its end, and that default.
pub fn split_default(help: &str) -> (String, Option<String>) {
    let text = help.trim();
    let stated = text.strip_suffix(']').and_then(|text| text.rsplit_once("[default: "));
    match stated {
        Some((meaning, default)) => (meaning.trim_end().into(), Some(default.into())),
        None => (text.into(), None),
    }
}

/// A flag with its value, as usage texts write it.
fn name(arg: &Arg) -> String {
    let values: Vec<&str> =
        arg.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
    let many = arg.get_num_args().is_some_and(|range| range.max_values() > 1);
    let value = if arg.get_action().takes_values() { values.join(" ") } else { String::new() };
    let dots = if many && !value.is_empty() { "…" } else { "" };
    match arg.get_long() {
        None => format!("{value}{dots}"),
        Some(long) if value.is_empty() => format!("--{long}"),
        Some(long) => format!("--{long} {value}{dots}"),
    }
}
