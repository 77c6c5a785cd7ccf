//! `campanile man`: manual pages, made from the command line's own description.

use crate::output::{Force, Inputs, Output};
use anyhow::{Context, Result};
use clap::Command;
use clap_mangen::Man;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `campanile man`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  Read the page of `campanile` now
    campanile man | man -l -
  Install the pages of all commands, and read one
    campanile man --out ~/.local/share/man/man1
    man campanile-train")]
pub struct Args {
    /// Folder for the pages of all commands, such as campanile-train.1; it is made if it is missing [default: the page of
    /// `campanile` is printed]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

/// Prints the page of the program, or writes those of all commands.
pub fn run(args: &Args) -> Result<()> {
    let mut command = crate::commands::command().disable_help_subcommand(true);
    command.build();
    let Some(folder) = &args.out else {
        let (_, page) = page(command)?;
        return Ok(std::io::stdout().write_all(&page)?);
    };
    std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let mut pages = Vec::new();
    for command in visible(&command) {
        let (name, page) = page(command)?;
        let output = Output::check(&folder.join(name), args.force.force, &Inputs::default())?;
        pages.push((output, page));
    }
    for (output, page) in &pages {
        output.write(page)?;
    }
    println!("{} pages in {}", pages.len(), folder.display());
    Ok(())
}

/// The command and those inside it, but for hidden ones.
fn visible(command: &Command) -> Vec<Command> {
    let inside = command.get_subcommands().filter(|command| !command.is_hide_set()).flat_map(visible);
    std::iter::once(command.clone()).chain(inside).collect()
}

/// File name and text of the page of a command.
fn page(command: Command) -> Result<(String, Vec<u8>)> {
    let man =
        Man::new(command).source(format!("campanile {}", env!("CARGO_PKG_VERSION"))).manual("Campanile");
    let mut page = Vec::new();
    man.render(&mut page)?;
    Ok((man.get_filename(), page))
}
