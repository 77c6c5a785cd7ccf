//! Files that a user names for a command to write: [`campanile::output`], and the flag that all commands have.

pub use campanile::output::{Inputs, Output};

/// What every command has that writes files.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct Force {
    /// Replace output files that exist; inputs, checkpoints and files of runs are never replaced
    #[arg(long)]
    pub force: bool,
}
