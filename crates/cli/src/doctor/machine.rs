//! Cores, vector and matrix instructions, and memory of this machine.

use crate::text::bytes;
use serde_json::{Value, json};
use spec::precision::Precision;
use std::fs;

/// Cores, vector and matrix instructions, and memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Name of the processor, where the system tells it.
    pub processor: Option<String>,
    /// Number of cores that this process may use.
    pub cores: usize,
    /// Vector instructions that kernels use: avx512, avx2 or portable.
    pub instructions: String,
    /// Instructions that products in bf16 are made of: amx-bf16, avx512-bf16, or the vector instructions.
    pub matrix: String,
    /// Whether the processor has AMX with bf16, which the system may still refuse.
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
            instructions: device.as_ref().map_or("portable", |device| device.instructions()).into(),
            matrix: device.as_ref().map_or("portable", |device| device.matrix_instructions()).into(),
            amx: value(&cpuinfo, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "amx_bf16")),
            available: training::available_memory(),
            total: value(&meminfo, "MemTotal").and_then(kilobytes),
        }
    }

    /// Precisions of the CPU, with how the processor computes in them.
    fn precisions(&self) -> [(Precision, &'static str); 3] {
        let (f32x3, bf16) = match self.matrix.as_str() {
            "amx-bf16" => ("native", "native"),
            "avx512-bf16" => ("as f32", "native"),
            _ => ("as f32", "emulated"),
        };
        [(Precision::F32, "native"), (Precision::F32x3, f32x3), (Precision::Bf16, bf16)]
    }

    /// The machine in lines.
    pub fn lines(&self) -> Vec<String> {
        let Self { processor, cores, instructions, matrix, amx, available, total } = self;
        let processor = processor.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
        let refused = match *amx && matrix != "amx-bf16" {
            true => "; AMX is there, but the system does not let programs use it",
            false => "",
        };
        let matrix = if matrix == instructions { "none" } else { matrix };
        let precisions = self.precisions().map(|(precision, how)| format!("{precision} {how}")).join(", ");
        let memory = match (available, total) {
            (Some(available), Some(total)) => format!("{} of {} available", bytes(*available), bytes(*total)),
            (Some(available), None) => format!("{} available", bytes(*available)),
            (None, _) => "not known".into(),
        };
        vec![
            format!("cores: {cores}{processor}"),
            format!("vector instructions: {instructions}"),
            format!("matrix instructions: {matrix}{refused}"),
            format!("--precision: {precisions}"),
            format!("memory: {memory}"),
        ]
    }

    /// The machine as JSON.
    pub fn to_json(&self) -> Value {
        let Self { processor, cores, instructions, matrix, amx, available, total } = self;
        let precisions: Value = self
            .precisions()
            .map(|(precision, how)| (precision.to_string(), json!(how)))
            .into_iter()
            .collect();
        json!({
            "processor": processor,
            "cores": cores,
            "vector_instructions": instructions,
            "matrix_instructions": matrix,
            "amx": amx,
            "precisions": precisions,
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
