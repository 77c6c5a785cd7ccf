//! CUDA: driver, libraries, GPUs, and the folder of compiled kernels.

use super::part::Part;
use crate::text::bytes;
use kernels::{CudaReport, Found, GpuReport, cuda_report};
use serde_json::{Value, json};
use std::path::Path;

/// Compute capability from which on a GPU can be used.
const OLDEST_GPU: (u32, u32) = (8, 0);

/// What there is of CUDA.
pub struct CudaParts {
    driver: Part,
    nvrtc: Part,
    cublaslt: Part,
    nccl: Part,
    /// Folder of compiled kernels and pinned algorithms.
    cache: Part,
    gpus: Vec<GpuReport>,
}

impl CudaParts {
    /// What this machine has.
    pub fn here() -> Self {
        Self::of(cuda_report())
    }

    /// What a report says.
    pub fn of(report: CudaReport) -> Self {
        let CudaReport { driver, nvrtc, cublaslt, nccl, gpus, cache } = report;
        Self {
            driver: part("driver", driver),
            nvrtc: part("NVRTC", nvrtc),
            cublaslt: part("cuBLASLt", cublaslt),
            nccl: part("NCCL", nccl),
            cache: cache_part(cache.as_deref()),
            gpus,
        }
    }

    /// Why `--device cuda` cannot be used, with what to do; `None` where it can.
    pub fn problem(&self) -> Option<String> {
        let needed = [&self.driver, &self.nvrtc, &self.cublaslt].into_iter().find_map(Part::missing);
        if let Some((_, problem, remedy)) = needed {
            return Some(format!("{problem}; {remedy}"));
        }
        match self.gpus.first() {
            None => Some(
                "the driver finds no GPU; check that the machine has one, that CUDA_VISIBLE_DEVICES does not hide it, and that \
                 a container was started with its GPUs"
                    .into(),
            ),
            Some(_) if self.gpus.iter().any(|gpu| gpu.capability >= OLDEST_GPU) => None,
            Some(gpu) => Some(format!("GPU {}, {}: {}", gpu.index, gpu.name, too_old(gpu.capability))),
        }
    }

    /// Why NCCL cannot join ranks on GPUs, with what to do; `None` where it can.
    pub fn nccl_problem(&self) -> Option<String> {
        self.nccl.missing().map(|(_, problem, remedy)| format!("{problem}; {remedy}"))
    }

    /// Parts that were looked for.
    pub fn parts(&self) -> [&Part; 5] {
        [&self.driver, &self.nvrtc, &self.cublaslt, &self.nccl, &self.cache]
    }

    /// CUDA in lines.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = match self.problem() {
            None => vec!["--device cuda works here".to_owned()],
            Some(_) if self.driver.missing().is_some() => {
                vec!["--device cuda does not work here: there is no driver of NVIDIA GPUs".to_owned()]
            }
            Some(problem) => vec![format!("--device cuda does not work here: {problem}")],
        };
        lines.extend(self.parts().map(Part::line));
        lines.extend(self.gpus.iter().map(gpu_line));
        lines
    }

    /// CUDA as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "usable": self.problem().is_none(),
            "problem": self.problem(),
            "driver": self.driver.to_json(),
            "nvrtc": self.nvrtc.to_json(),
            "cublaslt": self.cublaslt.to_json(),
            "nccl": self.nccl.to_json(),
            "cache": self.cache.to_json(),
            "gpus": self.gpus.iter().map(gpu_json).collect::<Vec<_>>(),
        })
    }
}

/// A library as a part.
fn part(name: &'static str, found: Found) -> Part {
    match found {
        Found::Present { version, path } => Part::present(name, version, Some(path)),
        Found::Missing { problem, remedy } => Part::absent(name, problem, remedy),
    }
}

/// The folder of compiled kernels as a part, which is there if files can be written to it.
fn cache_part(folder: Option<&Path>) -> Part {
    let remedy = "without it kernels are compiled at every start, and algorithms of products are chosen anew, so that the last \
                  bits of results may differ from run to run: name a folder that can be written in CAMPANILE_CACHE";
    let Some(folder) = folder else {
        return Part::absent(
            "kernel cache",
            "the environment names no folder, since HOME is not set",
            remedy,
        );
    };
    // The folder is made when it is first used: until then, the one in which it will be made must be writable.
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    match tempfile::tempfile_in(there) {
        Ok(_) => Part::present("kernel cache", "can be written", Some(folder.display().to_string())),
        Err(error) => {
            Part::absent("kernel cache", format!("{} cannot be written ({error})", there.display()), remedy)
        }
    }
}

fn too_old((major, minor): (u32, u32)) -> String {
    let (needed, point) = OLDEST_GPU;
    format!(
        "compute capability {major}.{minor} is too old; {needed}.{point} is needed (A100, RTX 30 or newer)"
    )
}

fn gpu_line(gpu: &GpuReport) -> String {
    let GpuReport { index, name, capability, memory_free, memory_total } = gpu;
    let capability = match *capability >= OLDEST_GPU {
        true => format!("compute capability {}.{}", capability.0, capability.1),
        false => too_old(*capability),
    };
    format!(
        "GPU {index}: {name}, {capability}, {} of {} memory free",
        bytes(*memory_free),
        bytes(*memory_total)
    )
}

fn gpu_json(gpu: &GpuReport) -> Value {
    let GpuReport { index, name, capability, memory_free, memory_total } = gpu;
    json!({
        "index": index,
        "name": name,
        "compute_capability": format!("{}.{}", capability.0, capability.1),
        "usable": *capability >= OLDEST_GPU,
        "memory_free_bytes": memory_free,
        "memory_total_bytes": memory_total,
    })
}
