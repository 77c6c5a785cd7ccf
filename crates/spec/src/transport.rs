//! Transports: how the ranks of a cluster communicate.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Transport between ranks, as it is named on the command line, in system files and in programs.
///
/// ```
/// use spec::transport::Transport;
/// assert_eq!("mpi".parse(), Ok(Transport::Mpi));
/// assert_eq!(Transport::default().name(), "in-process");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Ranks are threads of one process, which communicate by copying on their own cores.
    #[default]
    InProcess,
    /// Ranks are the processes of an MPI job.
    Mpi,
    /// NCCL moves the memory of GPUs between ranks with a GPU each: threads of one process, or the processes of an MPI job.
    Nccl,
}

impl Transport {
    /// Name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::InProcess => "in-process",
            Self::Mpi => "mpi",
            Self::Nccl => "nccl",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "in-process" => Ok(Self::InProcess),
            "mpi" => Ok(Self::Mpi),
            "nccl" => Ok(Self::Nccl),
            _ => Err(format!("unknown transport {text:?}; use in-process, mpi or nccl")),
        }
    }
}
