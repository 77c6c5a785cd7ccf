//! `campanile completions`: completion of commands and flags in a shell.

use anyhow::Result;
use clap_complete::Shell;
use std::io::Write;

/// Arguments of `campanile completions`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  campanile completions bash > ~/.local/share/bash-completion/completions/campanile
  campanile completions zsh > ~/.zfunc/_campanile
  campanile completions fish > ~/.config/fish/completions/campanile.fish
For zsh, ~/.zshrc needs `fpath+=~/.zfunc` before `compinit`.")]
pub struct Args {
    /// Shell that reads the script
    shell: Shell,
}

/// Prints the script for the shell.
pub fn run(args: &Args) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::commands::command(), "campanile", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}
