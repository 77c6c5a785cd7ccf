//! Cores, vector instructions and memory of this machine.

use crate::text::bytes;
use serde_json::{Value, json};
use std::fs;

/// Cores, vector instructions and memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Name of the processor, where the system tells it.
    pub processor: Option<String>,
    /// Number of cores that this process may use.
    pub cores: usize,
    /// Vector instructions that kernels use: avx512, avx2 or portable.
    pub instructions: String,
    /// Whether the processor has AMX with bf16, matrix instructions that no kernel uses yet.
    pub amx: bool,
    /// Bytes of memory that a run may take, where they are known.
    pub available: Option<u64>,
    /// Bytes of memory in all, where they are known.
    pub total: Option<u64>,
}

/// Name of the processor, where the system tells it.
pub fn processor() -> Option<String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    value(&cpuinfo, "model name").map(str::to_owned)
}

impl Machine {
    /// The machine that this process runs on.
    pub fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let device = kernels::Cpu::new(1);
        Self {
            processor: processor(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            instructions: device.map_or("portable", |device| device.instructions()).into(),
            amx: value(&cpuinfo, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "amx_bf16")),
            available: training::available_memory(),
            total: value(&meminfo, "MemTotal").and_then(kilobytes),
        }
    }

    /// The machine in lines.
    pub fn lines(&self) -> Vec<String> {
        let Self { processor, cores, instructions, amx, available, total } = self;
        let processor = processor.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let amx = if *amx { "; AMX is there, but not used" } else { "" };
        let memory = match (available, total) {
            (Some(available), Some(total)) => format!("{} of {} available", bytes(*available), bytes(*total)),
            (Some(available), None) => format!("{} available", bytes(*available)),
            (None, _) => "not known".into(),
        };
        vec![
            format!("cores: {cores}{processor}"),
            format!("vector instructions: {instructions}{amx}"),
            format!("memory: {memory}"),
        ]
    }

    /// The machine as JSON.
    pub fn to_json(&self) -> Value {
        let Self { processor, cores, instructions, amx, available, total } = self;
        json!({
            "processor": processor,
            "cores": cores,
            "vector_instructions": instructions,
            "amx": amx,
            "memory_available_bytes": available,
            "memory_total_bytes": total,
        })
    }
}

/// Value of the first line `name: value` of a file of `/proc`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let of_line = |line: &'a str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    };
    text.lines().find_map(of_line)
}

/// Bytes of a value `123 kB`.
fn kilobytes(value: &str) -> Option<u64> {
    value.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
