//! Machine rates: measured speeds of a machine or a cluster, for each class of computation and each collective.
//!
//! Computations are priced by their amounts, `overhead + FLOPs / rate + bytes / rate + items / rate`, with the rates of their
//! [`Class`]. Seconds are those of a core at work while all ranks are; ranks that share cores take longer, and `planning` says
//! by how much.
//!
//! ```
//! use spec::machine_rates::{Amount, Class, OperationModel};
//! let line = OperationModel { bytes_per_s: Some(1e9), ..OperationModel::new(Class::Transpose, 10e-6) };
//! assert!((line.seconds(&Amount { bytes: 1e6, ..Default::default() }) - 1.01e-3).abs() < 1e-9);
//! ```

mod amount;
mod class;

pub use amount::Amount;
pub use class::Class;

use crate::device::DeviceChoice;
use crate::links::{GroupSpan, LinkModel};
use crate::precision::{Precision, Precisions};
use crate::program::Algorithm;
use crate::schedule::CollectiveKind;
use crate::topology::Topology;
use crate::transport::Transport;
use serde::{Deserialize, Serialize};

/// Measured rates of a machine: the section `[measured]` of a system file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineRates {
    /// Description for people: when, where and by which program the rates were measured.
    pub about: String,
    /// Number of hosts that were measured.
    pub hosts: usize,
    /// Number of ranks on each host.
    pub ranks_per_host: usize,
    /// Transport between the ranks.
    pub transport: Transport,
    /// Number of threads of each rank.
    pub threads: usize,
    /// Precision of the operands of matrix products, in all parts of the networks that were measured.
    #[serde(default, skip_serializing_if = "Precision::is_default")]
    pub precision: Precision,
    /// Name of the GPUs that the ranks compute on; `None` for ranks on a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// Number of ranks that share a machine and its cores. One machine may stand for several hosts.
    pub ranks_per_machine: usize,
    /// Number of cores of a machine; of ranks on GPUs, which have one thread each, the number of GPUs.
    pub cores: usize,
    /// Share of the communication that is hidden, of that which could hide behind computation: 0 if no core is left to
    /// advance it.
    pub overlap: f64,
    /// Measured step time over the time that the phases account for; median over the measured runs.
    pub stretch: f64,
    /// Rates of the classes of computation.
    pub operations: Vec<OperationModel>,
    /// Latency and bandwidth of the collectives.
    pub links: Vec<LinkModel>,
}

/// Rates of one class of computation. An amount without a rate costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationModel {
    /// Class of computation.
    pub class: Class,
    /// Overhead: time of a computation whose amount is 0, in seconds.
    pub overhead_s: f64,
    /// Floating-point operations per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flops_per_s: Option<f64>,
    /// Bytes of memory per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
    /// Items per second: ids or samples, as the class counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items_per_s: Option<f64>,
    /// Largest relative error of the fit over the measurements: 0.1 for 10 %.
    #[serde(default)]
    pub worst_error: f64,
}

/// What to do where a class has no rate.
fn remedy(class: Class) -> &'static str {
    match class {
        Class::Storage => "add an operation of this class to the file, with the bytes_per_s of the disk",
        _ => "`campanile calibrate` measures all of them",
    }
}

/// Reason why machine rates are invalid, or cannot price a step.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MachineRatesError {
    /// A number is outside of its range.
    #[error("{what} is {value}; expected {expected}")]
    Number {
        /// Quantity that was measured.
        what: String,
        /// Value of the quantity.
        value: f64,
        /// Values that the quantity may have.
        expected: &'static str,
    },
    /// A rate is given twice.
    #[error("{what} is given twice")]
    Twice {
        /// Rate or link model that is given twice.
        what: String,
    },
    /// No rate was measured for a class of computation.
    #[error("no rate was measured for {class} (phase {phase:?}); {}", remedy(*class))]
    Class {
        /// Class without a rate.
        class: Class,
        /// Name of a phase of the step that has this class.
        phase: String,
    },
    /// The step runs on another number of ranks than was measured.
    #[error(
        "measured on {hosts} × {ranks_per_host} ranks, but the step has {step}; run `campanile calibrate` on that cluster"
    )]
    Ranks {
        /// Number of hosts that were measured.
        hosts: usize,
        /// Number of ranks on each measured host.
        ranks_per_host: usize,
        /// Topology of the step.
        step: Topology,
    },
    /// Products of the step are in another precision than those that were measured.
    #[error(
        "products were measured in {measured}, but the run computes them in {run}; choose --precision {measured} for the run, or run \
         `campanile calibrate --precision` with that of the run"
    )]
    Precision {
        /// Precision that was measured.
        measured: Precision,
        /// Precisions of the run.
        run: Precisions,
    },
    /// The run computes on another kind of device than was measured.
    #[error(
        "rates were measured on {measured}, but the run computes on {run}; choose --device {remedy} for the run, or run `campanile \
         calibrate --device {run}`"
    )]
    Device {
        /// Device that was measured: the name of a GPU, or the CPU.
        measured: String,
        /// Device of the run.
        run: DeviceChoice,
        /// Device that the rates are for.
        remedy: DeviceChoice,
    },
    /// No speed was measured for a collective.
    #[error(
        "no speed was measured for {collective} over {span} (phase {phase:?}); run `campanile calibrate` to measure it"
    )]
    Collective {
        /// Collective that was not measured.
        collective: CollectiveKind,
        /// Ranks that take part in the collective together.
        span: GroupSpan,
        /// Name of a phase of the step that is such a collective.
        phase: String,
    },
    /// No speed was measured for the algorithm of an all-reduce.
    #[error(
        "no speed was measured for {algorithm} all-reduce over {span} (phase {phase:?}); run `campanile calibrate --all-reduce \
         {algorithm}` to measure it"
    )]
    Algorithm {
        /// Algorithm that was not measured.
        algorithm: Algorithm,
        /// Ranks that take part in the all-reduce together.
        span: GroupSpan,
        /// Name of a phase of the step that is such an all-reduce.
        phase: String,
    },
    /// An algorithm is given for a collective that is no all-reduce.
    #[error("the line of {what} has the algorithm {algorithm}; only an all-reduce has one, so leave it out")]
    NoAlgorithms {
        /// Collective and group of the line.
        what: String,
        /// Algorithm that is given.
        algorithm: Algorithm,
    },
    /// A collective was measured among another number of ranks.
    #[error(
        "the speed of {collective} over {span} was measured among {measured} ranks, but the step has {members}; run \
         `campanile calibrate` on that cluster"
    )]
    Members {
        /// Collective that was measured.
        collective: CollectiveKind,
        /// Ranks that took part in the collective together.
        span: GroupSpan,
        /// Number of ranks of the group when it was measured.
        measured: usize,
        /// Number of ranks of the group in the step.
        members: usize,
    },
    /// The tower groups span some of the hosts: neither one host nor all hosts.
    #[error(
        "collectives inside tower groups of {hosts_per_group} of {hosts} hosts were not measured; `campanile calibrate` \
         measures groups of one host, and of all hosts"
    )]
    Groups {
        /// Number of hosts of a tower group.
        hosts_per_group: usize,
        /// Number of hosts of the step.
        hosts: usize,
    },
}

impl OperationModel {
    /// Makes rates for a class whose computations take `overhead_s`, whatever the amount.
    pub fn new(class: Class, overhead_s: f64) -> Self {
        let (flops_per_s, bytes_per_s, items_per_s) = (None, None, None);
        Self { class, overhead_s, flops_per_s, bytes_per_s, items_per_s, worst_error: 0.0 }
    }

    /// Time of a computation of `amount`, in seconds.
    pub fn seconds(&self, amount: &Amount) -> f64 {
        let over = |amount: f64, rate: Option<f64>| rate.map_or(0.0, |rate| amount / rate);
        self.overhead_s
            + over(amount.flops, self.flops_per_s)
            + over(amount.bytes, self.bytes_per_s)
            + over(amount.items, self.items_per_s)
    }

    fn check(&self) -> Result<(), MachineRatesError> {
        not_negative(|| format!("overhead_s of {}", self.class), self.overhead_s)?;
        not_negative(|| format!("worst_error of {}", self.class), self.worst_error)?;
        let rates = [
            ("flops_per_s", self.flops_per_s),
            ("bytes_per_s", self.bytes_per_s),
            ("items_per_s", self.items_per_s),
        ];
        rates.iter().try_for_each(|(name, rate)| {
            rate.map_or(Ok(()), |rate| positive(|| format!("{name} of {}", self.class), rate))
        })
    }
}

impl MachineRates {
    /// Fails if the rates were measured in another precision than that of a run.
    pub fn check_precision(&self, run: &Precisions) -> Result<(), MachineRatesError> {
        match *run == Precisions::from(self.precision) {
            true => Ok(()),
            false => Err(MachineRatesError::Precision { measured: self.precision, run: run.clone() }),
        }
    }

    /// Fails if the rates were measured on another kind of device than that of a run.
    pub fn check_device(&self, run: DeviceChoice) -> Result<(), MachineRatesError> {
        let (measured, remedy) = match &self.gpu {
            Some(gpu) => (gpu.clone(), DeviceChoice::Cuda(None)),
            None => ("the CPU".into(), DeviceChoice::Cpu),
        };
        match run == DeviceChoice::Auto || run.is_cuda() == remedy.is_cuda() {
            true => Ok(()),
            false => Err(MachineRatesError::Device { measured, run, remedy }),
        }
    }

    /// Fails if a number is outside of its range or a rate is given twice.
    pub fn check(&self) -> Result<(), MachineRatesError> {
        let counts = [
            ("hosts", self.hosts),
            ("ranks_per_host", self.ranks_per_host),
            ("threads", self.threads),
            ("ranks_per_machine", self.ranks_per_machine),
            ("cores", self.cores),
        ];
        for (what, count) in counts {
            if count == 0 {
                let (value, expected) = (count as f64, "at least 1");
                return Err(MachineRatesError::Number { what: what.into(), value, expected });
            }
        }
        positive(|| "stretch".into(), self.stretch)?;
        if !(0.0..=1.0).contains(&self.overlap) {
            let (what, value, expected) = ("overlap".into(), self.overlap, "a share from 0 to 1");
            return Err(MachineRatesError::Number { what, value, expected });
        }
        for (i, operation) in self.operations.iter().enumerate() {
            operation.check()?;
            if self.operations[..i].iter().any(|other| other.class == operation.class) {
                return Err(MachineRatesError::Twice { what: format!("the rate of {}", operation.class) });
            }
        }
        for (i, link) in self.links.iter().enumerate() {
            let LinkModel { collective: kind, algorithm, group, ranks, latency_s, bytes_per_s } = link;
            let collective = link.described();
            let of = |link: &LinkModel| (link.collective, link.algorithm, link.group);
            if self.links[..i].iter().any(|other| of(other) == of(link)) {
                return Err(MachineRatesError::Twice {
                    what: format!("the line of {collective} over {group}"),
                });
            }
            if *kind != CollectiveKind::AllReduce && *algorithm != Algorithm::Direct {
                let what = format!("{kind} over {group}");
                return Err(MachineRatesError::NoAlgorithms { what, algorithm: *algorithm });
            }
            not_negative(|| format!("latency_s of {collective} over {group} of {ranks}"), *latency_s)?;
            positive(|| format!("bytes_per_s of {collective} over {group} of {ranks}"), *bytes_per_s)?;
        }
        Ok(())
    }

    /// Rates of a class; `None` if it was not measured.
    pub fn operation(&self, class: Class) -> Option<&OperationModel> {
        self.operations.iter().find(|operation| operation.class == class)
    }
}

fn positive(what: impl Fn() -> String, value: f64) -> Result<(), MachineRatesError> {
    let expected = "a number above 0";
    let fits = value > 0.0 && value.is_finite();
    if fits { Ok(()) } else { Err(MachineRatesError::Number { what: what(), value, expected }) }
}

fn not_negative(what: impl Fn() -> String, value: f64) -> Result<(), MachineRatesError> {
    let expected = "0, or a number above it";
    let fits = value >= 0.0 && value.is_finite();
    if fits { Ok(()) } else { Err(MachineRatesError::Number { what: what(), value, expected }) }
}

#[cfg(test)]
mod tests;
