//! Devices of the ranks of a run, once it is known what the machine has.

use crate::Error;
use crate::run::cluster::{Cluster, threads};
use collectives::CollectiveError;
use kernels::{CudaReport, Device, Found, Gpu, GpuOptions, KernelError, cuda_report};
use spec::device::DeviceChoice;
use spec::precision::{Precision, Precisions};
use spec::program::Algorithm;
use spec::run::{Run, RunError};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Devices of the ranks of a run that live in this process. Ranks on the same GPU share what it has compiled.
#[derive(Debug)]
pub struct Devices {
    threads: usize,
    /// Precision that devices are made with; a step computes each part of its network in the precision of that part.
    precision: Precision,
    /// GPU of each rank of this machine, by world rank; empty on the CPU.
    gpu_of: BTreeMap<usize, usize>,
    gpus: BTreeMap<usize, Gpu>,
}

impl Devices {
    /// Finds the devices of `run` on `cluster`, and opens the GPUs that ranks of this process use. Fails with one sentence where
    /// the run asks for what the machine does not have.
    pub fn new(run: &Run, cluster: &Cluster) -> Result<Self, Error> {
        let device = resolve_device(run.device, &run.precision)?;
        check_transport(cluster, device)?;
        let mut devices = Self {
            threads: threads(run, cluster),
            precision: run.precision.all,
            gpu_of: BTreeMap::new(),
            gpus: BTreeMap::new(),
        };
        if device == DeviceChoice::Cpu {
            return Ok(devices);
        }
        let count = Gpu::count().map_err(|error| refused(device, error))?;
        devices.gpu_of = gpu_by_rank(device, count, &cluster.ranks_here(run.topology()));
        if let Some(shared) = shared_gpu(&devices.gpu_of).filter(|_| cluster.uses_nccl()) {
            return Err(RunError::new("train.device (--device)", shared.to_string()).into());
        }
        let in_process = |rank: &usize| cluster.own_rank().is_none_or(|own| own == *rank);
        for (_, &index) in devices.gpu_of.iter().filter(|(rank, _)| in_process(rank)) {
            if let Entry::Vacant(entry) = devices.gpus.entry(index) {
                let gpu = Gpu::open(index, &GpuOptions::default()).map_err(|error| refused(device, error))?;
                entry.insert(gpu);
            }
        }
        Ok(devices)
    }

    /// Makes the device of a rank of this process.
    pub fn of(&self, rank: usize) -> Result<Device, KernelError> {
        let gpu = self.gpu_of.get(&rank).and_then(|index| self.gpus.get(index));
        match gpu {
            Some(gpu) => Device::cuda(gpu, self.precision),
            None => Ok(Device::cpu(self.threads)?.in_precision(self.precision)),
        }
    }

    /// Whether ranks compute on GPUs.
    pub fn are_gpus(&self) -> bool {
        !self.gpu_of.is_empty()
    }

    /// Name of the device of the first rank of this process: `cpu`, or what the driver calls the GPU.
    pub fn name(&self) -> String {
        self.gpus.values().next().map_or("cpu".into(), |gpu| gpu.name().to_owned())
    }
}

/// GPU of each rank of this machine, by world rank; empty where ranks compute on the CPU, or on GPUs that are not here.
pub(crate) fn gpus_of(run: &Run, cluster: &Cluster) -> BTreeMap<usize, usize> {
    match (run.device, resolve_device(run.device, &run.precision)) {
        (DeviceChoice::Cpu, _) | (_, Err(_)) => BTreeMap::new(),
        (_, Ok(device)) => {
            let count = Gpu::count().unwrap_or(0);
            gpu_by_rank(device, count, &cluster.ranks_here(run.topology()))
        }
    }
}

/// Bytes that are free on each GPU of this machine.
pub(crate) fn free_memory() -> BTreeMap<usize, u64> {
    cuda_report().gpus.into_iter().map(|gpu| (gpu.index, gpu.memory_free)).collect()
}

/// GPU of each of the ranks `here`, which share a machine with `count` GPUs.
fn gpu_by_rank(device: DeviceChoice, count: usize, here: &[usize]) -> BTreeMap<usize, usize> {
    here.iter().enumerate().filter_map(|(i, &rank)| Some((rank, device.gpu(i, count)?))).collect()
}

/// Refuses NCCL between ranks of `cluster` that compute on `device` (never `auto`) where there is nothing for it to move, or where
/// this machine has no NCCL.
pub fn check_transport(cluster: &Cluster, device: DeviceChoice) -> Result<(), RunError> {
    if !cluster.uses_nccl() {
        return Ok(());
    }
    if device == DeviceChoice::Cpu {
        let problem = "nccl moves memory of GPUs, but the ranks compute on the CPU; use --device cuda, or --transport in-process or mpi";
        return Err(RunError::new("--transport", problem));
    }
    match cuda_report().nccl {
        Found::Present { .. } => Ok(()),
        Found::Missing { problem, remedy } => {
            Err(RunError::new("--transport", format!("nccl cannot be used here: {problem}; {remedy}")))
        }
    }
}

/// Refuses a run whose gradients NCCL shall add up, if NCCL does not join the ranks.
pub fn check_all_reduce(cluster: &Cluster, all_reduce: Algorithm) -> Result<(), RunError> {
    if all_reduce == Algorithm::Nccl && !cluster.uses_nccl() {
        let problem = "nccl adds gradients only where NCCL joins the ranks; use --transport nccl, or another all-reduce, such as direct";
        return Err(RunError::new("train.all_reduce (--all-reduce)", problem));
    }
    Ok(())
}

/// Two ranks that use one GPU, if any do: the lowest, and the next on its GPU.
fn shared_gpu(gpu_of: &BTreeMap<usize, usize>) -> Option<CollectiveError> {
    let mut first_on: BTreeMap<usize, usize> = BTreeMap::new();
    gpu_of.iter().find_map(|(&second, &gpu)| {
        let first = *first_on.entry(gpu).or_insert(second);
        (first != second).then_some(CollectiveError::SharedGpu { first, second, gpu })
    })
}

/// What `device` is on this machine: never `auto`. Refuses a device that the machine does not have, and a precision that the
/// device does not have.
pub fn resolve_device(device: DeviceChoice, precision: &Precisions) -> Result<DeviceChoice, RunError> {
    let refused = |problem| Err(RunError::new("train.precision (--precision)", problem));
    let (found, why) = match device {
        DeviceChoice::Cpu => (device, None),
        DeviceChoice::Cuda(_) => match missing(&cuda_report()) {
            Some(problem) => return Err(unusable(device, &problem)),
            None => (device, None),
        },
        DeviceChoice::Auto => match missing(&cuda_report()) {
            Some(problem) => (DeviceChoice::Cpu, Some(format!("--device auto is the CPU here ({problem})"))),
            None => (DeviceChoice::Cuda(None), Some("--device auto is a GPU here".into())),
        },
    };
    match (precision.problem_on(found), why) {
        (None, _) => Ok(found),
        (Some(problem), None) => refused(problem),
        (Some(problem), Some(why)) => refused(format!("{why}, and {problem}")),
    }
}

/// What `--device cuda` needs and a machine does not have, with what to do; `None` where all is there.
fn missing(report: &CudaReport) -> Option<String> {
    let parts = [&report.driver, &report.nvrtc, &report.cublaslt];
    let part = parts.into_iter().find_map(|part| match part {
        Found::Present { .. } => None,
        Found::Missing { problem, remedy } => Some(format!("{problem}; {remedy}")),
    });
    let no_gpu = || "the driver finds no GPU; `campanile doctor` tells more".to_owned();
    part.or_else(|| report.gpus.is_empty().then(no_gpu))
}

fn refused(device: DeviceChoice, error: KernelError) -> RunError {
    match error {
        KernelError::Device(problem) => unusable(device, &problem),
        error => unusable(device, &error.to_string()),
    }
}

fn unusable(device: DeviceChoice, problem: &str) -> RunError {
    RunError::new("train.device (--device)", format!("{device} cannot be used here: {problem}"))
}

#[cfg(test)]
mod tests;
