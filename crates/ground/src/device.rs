//! Device of a run, as users name it: `cpu`, `cuda`, `cuda:1` or `auto`.

use crate::text::as_text;
use schemars::JsonSchema;
use std::fmt;
use std::str::FromStr;

/// Kind of device that the ranks of a run compute on.
///
/// ```
/// use ground::device::DeviceChoice;
/// assert_eq!("cuda:1".parse(), Ok(DeviceChoice::Cuda(Some(1))));
/// assert_eq!(DeviceChoice::Cuda(None).to_string(), "cuda");
/// // Eight ranks of a host share its four GPUs.
/// let gpus: Vec<_> = (0..8).map(|rank| DeviceChoice::Cuda(None).gpu(rank, 4)).collect();
/// assert_eq!(gpus, [0, 1, 2, 3, 0, 1, 2, 3].map(Some));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(with = "String")]
pub enum DeviceChoice {
    /// Cores of the machine: `cpu`.
    #[default]
    Cpu,
    /// NVIDIA GPUs: `cuda`, where the ranks of a host take its GPUs in order, or `cuda:1`, where all of them share that one.
    Cuda(Option<usize>),
    /// GPUs where the machine has some that can be used, else the CPU: `auto`.
    Auto,
}

impl DeviceChoice {
    /// Whether GPUs are certainly asked for.
    pub fn is_cuda(self) -> bool {
        matches!(self, Self::Cuda(_))
    }

    /// Index of the GPU that a rank computes on; `None` for the CPU. `rank` counts the ranks of one machine from 0, and `gpus`
    /// are the GPUs of that machine that can be used. Without any, `cuda` gives GPU 0, whose absence is then an error of its own.
    pub fn gpu(self, rank: usize, gpus: usize) -> Option<usize> {
        match self {
            Self::Cpu => None,
            Self::Cuda(Some(index)) => Some(index),
            Self::Auto if gpus == 0 => None,
            Self::Cuda(None) | Self::Auto => Some(rank % gpus.max(1)),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.pad("cpu"),
            Self::Cuda(None) => f.pad("cuda"),
            Self::Cuda(Some(index)) => f.pad(&format!("cuda:{index}")),
            Self::Auto => f.pad("auto"),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown =
            || format!("unknown device {text:?}; use cpu, cuda, cuda:INDEX (such as cuda:1) or auto");
        match text {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(None)),
            "auto" => Ok(Self::Auto),
            _ => {
                let index = text.strip_prefix("cuda:").ok_or_else(unknown)?;
                let digits = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
                let index = index.parse::<u16>().ok().filter(|_| digits).ok_or_else(unknown)?;
                Ok(Self::Cuda(Some(index.into())))
            }
        }
    }
}

as_text!(DeviceChoice);

#[cfg(test)]
mod tests;
