//! Device that something is measured on, and what records say of it.

use crate::text::median;
use anyhow::{Context, Result, ensure};
use kernels::{Device, Gpu, GpuOptions, Stopwatch};
use serde_json::{Value, json};
use spec::device::DeviceChoice;
use spec::precision::{Precision, Precisions};
use training::resolve_device;

/// Seconds that a lap on a GPU should last at least: shorter work is repeated in it.
const LAP: f64 = 500e-6;
/// The most repetitions of a lap.
const REPETITIONS: f64 = 32.0;

/// Device that something is measured on.
pub struct Target {
    pub device: Device,
    /// Name of the device: `cpu`, or what the driver calls the GPU.
    pub name: String,
    /// Threads of a CPU.
    pub threads: usize,
}

impl Target {
    /// The device that `--device` names, for one rank: `threads` threads on a CPU. Fails with one sentence where the machine does
    /// not have it, or where it does not have the precisions.
    pub fn new(choice: DeviceChoice, precisions: &Precisions, threads: usize) -> Result<Self> {
        let choice = resolve_device(choice, precisions)?;
        let gpus = if choice == DeviceChoice::Cpu { 0 } else { Gpu::count()? };
        let Some(index) = choice.gpu(0, gpus) else {
            let device = Device::cpu(threads)?.in_precision(precisions.all);
            return Ok(Self { device, name: "cpu".into(), threads });
        };
        let gpu = Gpu::open(index, &GpuOptions::default()).with_context(|| format!("--device {choice}"))?;
        let device = Device::cuda(&gpu, precisions.all)?;
        Ok(Self { device, name: gpu.name().to_owned(), threads })
    }

    /// The target with products in another precision.
    pub fn in_precision(&self, precision: Precision) -> Device {
        self.device.in_precision(precision)
    }

    /// Whether the device is a GPU.
    pub fn is_gpu(&self) -> bool {
        self.device.is_queued()
    }

    /// The device in a heading: its name, or threads.
    pub fn described(&self) -> String {
        if self.is_gpu() { self.name.clone() } else { format!("{} threads", self.threads) }
    }

    /// Adds the device to a record.
    pub fn record(&self, mut record: Value) -> Value {
        record["device"] = json!(if self.is_gpu() { "cuda" } else { "cpu" });
        record["device_name"] = json!(self.name);
        record["threads"] = json!(self.threads);
        record
    }

    /// Refuses what needs more than the free memory of the device; `remedy` says what to lower.
    pub fn check_memory(&self, needed: f64, remedy: &str) -> Result<()> {
        let (free, of) = match &self.device {
            Device::Cuda(cuda) => (Some(cuda.gpu().memory()?.0), "of the GPU's memory "),
            _ => (training::available_memory(), ""),
        };
        if let Some(free) = free {
            ensure!(
                needed < free as f64,
                "{:.1} GB are needed, which do not fit into the {:.1} GB {of}that are free; lower {remedy}",
                needed / 1e9,
                free as f64 / 1e9
            );
        }
        Ok(())
    }
}

/// Seconds of `work` on a device, the median of `rounds` laps. What comes before is to warm up. On a GPU short work is repeated in a
/// lap, and laps are timed by events.
pub fn time(device: &Device, rounds: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    work()?;
    let mut watch = Stopwatch::new(device);
    let mut repetitions = 1;
    if device.is_queued() {
        for _ in 0..2 {
            watch.lap(&mut work)?;
        }
        let taken = watch.read()?.pop().unwrap_or(LAP);
        repetitions = (LAP / taken.max(1e-9)).ceil().clamp(1.0, REPETITIONS) as usize;
    }
    for _ in 0..rounds.max(1) {
        watch.lap(|| (0..repetitions).try_for_each(|_| work()))?;
    }
    Ok(median(&mut watch.read()?) / repetitions as f64)
}

/// Speed in units that suit the device: giga on a CPU, tera on a GPU.
pub fn speed(device: &Device, giga: f64) -> String {
    if device.is_queued() { format!("{:.1}", giga / 1e3) } else { format!("{giga:.0}") }
}

/// Name of the unit of [`speed`].
pub fn unit(device: &Device) -> &'static str {
    if device.is_queued() { "TFLOP/s" } else { "GFLOP/s" }
}

/// Share in percent.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}
