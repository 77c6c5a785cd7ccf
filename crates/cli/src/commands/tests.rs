use super::*;
use spec::program::Algorithm;
use spec::wire::Format;
use std::collections::BTreeSet;

/// Names of the commands that `campanile --help` shows.
fn shown() -> BTreeSet<String> {
    let command = command();
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    visible.map(|command| command.get_name().to_owned()).collect()
}

#[test]
fn every_command_is_in_one_group() {
    let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
    let names: BTreeSet<String> = grouped.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(names.len(), grouped.len(), "a command is in two groups: {grouped:?}");
    let with_help: BTreeSet<String> = shown().into_iter().chain(["help".to_owned()]).collect();
    assert_eq!(names, with_help, "commands::GROUPS and the commands differ");
}

#[test]
fn help_lists_each_command_once_under_its_group() {
    let help = command().render_help().to_string();
    for (group, names) in GROUPS {
        let (_, rest) = help.split_once(&format!("\n{group}:\n")).expect("a heading for each group");
        let listed: Vec<&str> = rest.lines().take_while(|line| line.starts_with("  ")).collect();
        assert_eq!(listed.len(), names.len(), "{group}: {listed:#?}");
        for (line, name) in listed.iter().zip(names) {
            assert!(line.starts_with(&format!("  {name} ")), "{line:?} should begin with {name}");
            // Templates are not wrapped: a line must fit the terminal by itself.
            assert!(line.chars().count() <= 100, "the description of {name} is too long: {line}");
        }
    }
}

/// All commands with those inside them.
fn all(command: &Command) -> Vec<Command> {
    let inside = command.get_subcommands().flat_map(all);
    std::iter::once(command.clone()).chain(inside).collect()
}

#[test]
fn every_command_and_flag_says_what_it_is() {
    let mut command = command();
    command.build();
    for command in all(&command) {
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        assert!(command.get_about().is_some(), "{name} has no description");
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(!help.trim().is_empty(), "{name}: {} has no help", argument.get_id());
        }
    }
}

#[test]
fn arguments_are_parsed_as_before() {
    let parse = |words: &[&str]| parse_from(command(), words);
    assert!(parse(&["campanile", "train", "--hosts", "4"]).is_ok());
    let error = parse(&["campanile", "train", "--no-such-flag"]).err().expect("unknown flags are refused");
    assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument);
    assert!(error.to_string().contains("Usage: campanile train"), "{error}");
}

/// Names that help texts list by hand: none is forgotten.
#[test]
fn help_names_every_wire_format_and_all_reduce() {
    let command = command();
    let help = |flag: &str| {
        let train = command.find_subcommand("train").expect("a command");
        let flag = train.get_arguments().find(|argument| argument.get_long() == Some(flag)).expect("a flag");
        let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
        help.split([' ', ',', ';', '(', ')', ':', '=']).map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let formats = Format::ALL.map(Format::name).into_iter().chain([
        "vectors",
        "gradients",
        "dense",
        "towers",
        "+ec",
        "+ec-paper",
    ]);
    let algorithms = Algorithm::ALL.map(Algorithm::name).into_iter().chain(["auto"]);
    for (flag, name) in formats.map(|name| ("wire", name)).chain(algorithms.map(|name| ("all-reduce", name)))
    {
        assert!(help(flag).contains(name), "--{flag} does not mention {name}");
    }
}
