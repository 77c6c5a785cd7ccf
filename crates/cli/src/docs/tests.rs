use super::config::{flag_of, sections};
use super::keys::Types;
use super::*;
use crate::args::RunArgs;
use crate::commands;
use spec::run::Config;

/// Root folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn generated_pages_are_as_their_sources_say() {
    for page in pages(&root(), Console::new(true)).unwrap() {
        let text = std::fs::read_to_string(root().join(&page.path)).unwrap_or_default();
        let differs = text.lines().zip(page.text.lines()).find(|(is, should)| is != should);
        assert!(
            text == page.text,
            "{} differs from its sources, first at {differs:#?}; `cargo run -- docs` writes it again",
            page.path
        );
    }
}

#[test]
fn every_table_of_results_is_on_one_page() {
    let mut shown = Vec::new();
    for page in marked::pages(&root(), Console::new(true)).unwrap() {
        shown.extend(marked::markers(&page.text).into_iter().map(str::to_owned));
    }
    for (name, _) in reproduce::results::TABLES {
        let marker = format!("table: {name}");
        assert_eq!(shown.iter().filter(|shown| **shown == marker).count(), 1, "pages with the {marker}");
    }
}

#[test]
fn a_table_between_markers_is_replaced_and_the_prose_stays() {
    let page = "before\n<!-- made from table: a -->\nold\n<!-- end -->\nafter\n";
    let made = marked::replaced(page, &|name| Ok(format!("new {name}\n"))).unwrap();
    assert_eq!(made, "before\n<!-- made from table: a -->\nnew table: a\n<!-- end -->\nafter\n");
    assert!(marked::replaced("<!-- made from table: a -->\nold\n", &|_| Ok(String::new())).is_err());
}

/// Paths of all keys of a config, with what the page says of each.
fn config_keys() -> Vec<(String, super::keys::Key)> {
    let schema = schemars::schema_for!(Config).to_value();
    let mut types = Types::new(&schema, &[]);
    let keys = sections(&schema, &mut types).into_iter();
    keys.flat_map(|(section, keys)| keys.into_iter().map(move |key| (format!("{section}.{}", key.name), key)))
        .collect()
}

#[test]
fn every_key_of_a_config_has_a_meaning_and_a_default() {
    let keys = config_keys();
    assert!(keys.len() > 40, "only {} keys: the schema was not understood", keys.len());
    for (path, key) in keys {
        assert!(!key.meaning.is_empty(), "{path} has no comment");
        let of_flag =
            flag_of(&path).and_then(|flag| command_line::split_default(&command_line::help(&flag)).1);
        assert!(
            key.default.is_some() || of_flag.is_some() || path == "data.schema",
            "{path} names no default: write `Default: …` into its comment, or [default: …] into the help of its flag"
        );
    }
}

/// Values of which each flag of a run accepts one that is not its default.
const VALUES: [&str; 23] = [
    "3",
    "0.5",
    "0.25",
    "dcn",
    "kaggle",
    "sptt",
    "hierarchical",
    "bf16",
    "stochastic",
    "ring",
    "vectors",
    "rows",
    "csv",
    "strided:2",
    "dlrm:d=8",
    "adagrad",
    "logloss",
    "clicks.tsv",
    "../../examples/schemas/multi-hot.toml",
    "none",
    "auc",
    "auto",
    "true",
];

/// The flags that the page names set the keys that they stand beside.
#[test]
fn flags_set_the_keys_that_they_are_named_for() {
    let table = |config: &Config| toml::Table::try_from(config).unwrap();
    let at = |table: &toml::Table, path: &str| {
        let (section, key) = path.split_once('.').unwrap();
        table.get(section).and_then(|section| section.get(key)).cloned()
    };
    let usual = table(&Config::default());
    let mut set = 0;
    for (path, _) in config_keys() {
        let Some(flag) = flag_of(&path) else { continue };
        let long = format!("--{}", flag.get_long().unwrap());
        let words = |value: &'static str| match flag.get_action().takes_values() {
            true => vec![long.clone(), value.into()],
            false => vec![long.clone()],
        };
        let configs = VALUES.iter().filter_map(|value| {
            let words = words(value);
            RunArgs::from_words(words.iter().map(String::as_str)).ok()?.config().ok()
        });
        let tables: Vec<toml::Table> = configs.map(|config| table(&config)).collect();
        // Flags of `train` alone are not parsed here.
        if !tables.is_empty() {
            let changed = tables.iter().any(|table| at(table, &path) != at(&usual, &path));
            assert!(changed, "{long} does not set {path}, beside which docs/reference/config.md names it");
            set += 1;
        }
    }
    assert!(set > 25, "only {set} flags were tried");
}

/// All Markdown files of the repository whose commands people copy.
fn documents() -> Vec<PathBuf> {
    let mut found =
        vec![root().join("README.md"), root().join("CHANGELOG.md"), root().join("ARCHITECTURE.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// Commands in the `sh` blocks of a text: whole lines, without comments.
fn shell_lines(text: &str) -> Vec<String> {
    let blocks =
        text.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```")).map(|(block, _)| block);
    let whole = blocks.map(|block| block.replace("\\\n", " "));
    let lines = whole.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>());
    lines.map(|line| line.split(" #").next().unwrap_or_default().trim().to_owned()).collect()
}

/// Words of a command as a shell splits them, as far as documents need it.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut quote) = (vec![String::new()], None);
    for letter in command.chars() {
        match (quote, letter) {
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), close) if open == close => quote = None,
            (None, ' ') => words.push(String::new()),
            _ => words.last_mut().unwrap().push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Arguments of `campanile` in a line of a shell, for each time that it is called.
fn calls(line: &str) -> Vec<Vec<String>> {
    let parts = line.split("&&").flat_map(|part| part.split(" | ")).flat_map(|part| part.split(';'));
    let call = |part: &str| {
        // Redirections end the arguments.
        let redirects =
            |word: &String| word.trim_start_matches(char::is_numeric).starts_with(['>', '<', '&']);
        let words: Vec<String> = words(part).into_iter().take_while(|word| !redirects(word)).collect();
        let is_program = |word: &String| word == "campanile" || word.ends_with("/campanile");
        let at = words.iter().position(is_program).or_else(|| {
            let cargo =
                words.first().is_some_and(|word| word == "cargo") && words.get(1).is_some_and(|w| w == "run");
            words
                .iter()
                .position(|word| word == "--")
                .filter(|_| cargo && !words.contains(&"--example".into()))
        })?;
        Some(words[at + 1..].to_vec()).filter(|arguments| !arguments.is_empty())
    };
    parts.filter_map(call).collect()
}

/// Parses every call of `campanile` in a line, and executes nothing. Returns their number.
fn understood(line: &str, place: &str) -> usize {
    let calls = calls(line);
    for call in &calls {
        let arguments = std::iter::once("campanile".to_owned()).chain(call.iter().cloned());
        // Help and versions are errors too, which go to standard output.
        if let Err(error) = commands::parse_from(commands::command(), arguments)
            && error.use_stderr()
        {
            panic!("{place}: `{line}` is not understood:\n{error}");
        }
    }
    calls.len()
}

#[test]
fn commands_in_documents_are_understood() {
    assert_eq!(calls("mpirun -np 2 campanile train 'a b' && x"), [["train", "a b"]]);
    assert_eq!(calls("cargo run --release -- train 2>&1 | grep x > y"), [["train"]]);
    let mut parsed = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        let lines = shell_lines(&text);
        parsed += lines.iter().map(|line| understood(line, &document.display().to_string())).sum::<usize>();
    }
    assert!(parsed > 30, "only {parsed} commands found: the documents were not understood");
}

/// Examples in help texts: lines that begin with a command, which a comment may follow after several spaces.
#[test]
fn examples_in_help_texts_are_understood() {
    let (mut parsed, mut commands) = (0, vec![commands::command()]);
    while let Some(command) = commands.pop() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = help.lines().map(str::trim).filter(|line| !line.contains('…'));
        for line in
            lines.filter(|line| ["campanile ", "sudo ", "mpirun "].iter().any(|word| line.starts_with(word)))
        {
            let example = line.split("   ").next().unwrap_or_default();
            parsed += understood(example, command.get_name());
        }
        commands.extend(command.get_subcommands().cloned());
    }
    assert!(parsed > 30, "only {parsed} examples found: the help texts were not understood");
}

#[test]
fn comments_become_pages() {
    let text = "//! About [`Thing`](super::Thing).\n//!\n//! ```text\n//! a  b\n//! ```\n//!\n//! ```\n//! run();\n//! ```\n\nuse x;\n";
    assert_eq!(source::module(text), "About `Thing`.\n\n```text\na  b\n```\n");
    let text = "pub struct Thing {\n    /// Size of\n    /// the thing.\n    #[serde(default)]\n    pub size: u64,\n}\n";
    assert_eq!(source::fields(text, "Thing").unwrap(), [("size".into(), "Size of the thing.".into())]);
    assert!(source::fields(text, "Other").is_none());
}
