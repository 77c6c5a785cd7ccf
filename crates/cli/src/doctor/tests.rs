use super::*;
use kernels::{CudaReport, Found, GpuReport};

fn present(version: &str) -> Found {
    Found::Present { version: version.into(), path: "libcuda.so.1".into() }
}

fn missing(problem: &str) -> Found {
    Found::Missing { problem: problem.into(), remedy: "install libcuda1" }
}

fn gpu(capability: (u32, u32)) -> GpuReport {
    let (memory_free, memory_total) = (138_000_000_000, 150_000_000_000);
    GpuReport { index: 0, name: "NVIDIA H200".into(), capability, memory_free, memory_total }
}

fn whole() -> CudaReport {
    CudaReport {
        driver: present("13.0"),
        nvrtc: present("13.0"),
        cublaslt: present("13.0"),
        nccl: missing("NCCL was not found"),
        gpus: vec![gpu((9, 0))],
        cache: Some(std::env::temp_dir()),
    }
}

fn report(cuda: CudaReport) -> Report {
    Report { machine: Machine::default(), mpi: MpiParts::here(), cuda: CudaParts::of(cuda) }
}

#[test]
fn a_whole_machine_can_be_required() {
    let report = report(whole());
    report.require(Needed::Cuda).unwrap();
    let text = report.to_text();
    for part in [
        "--device cuda works here",
        "GPU 0: NVIDIA H200, compute capability 9.0, 138.0 GB of 150.0 GB",
        "driver 13.0",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
    let json = report.to_json();
    assert_eq!(json["cuda"]["usable"], true);
    assert_eq!(json["cuda"]["gpus"][0]["compute_capability"], "9.0");
    // No command needs NCCL, but its absence is told.
    assert!(json["missing"].as_array().unwrap().iter().any(|part| part["part"] == "NCCL"));
    assert_eq!(json["cuda"]["nccl"]["remedy"], "install libcuda1");
}

/// Which precisions the processor has instructions for, and what it does where it has none.
#[test]
fn precisions_are_told_by_their_instructions() {
    for (matrix, amx, says) in [
        (
            "amx-bf16",
            true,
            "matrix instructions: amx-bf16\n--precision: f32 native, f32x3 native, bf16 native",
        ),
        ("avx512-bf16", false, "avx512-bf16\n--precision: f32 native, f32x3 as f32, bf16 native"),
        ("avx512", false, "matrix instructions: none\n--precision: f32 native, f32x3 as f32, bf16 emulated"),
        ("avx512", true, "none; AMX is there, but the system does not let programs use it\n"),
    ] {
        let (instructions, matrix) = ("avx512".into(), matrix.into());
        let machine = Machine { instructions, matrix, amx, ..Machine::default() };
        assert!(machine.lines().join("\n").contains(says), "{:?}", machine.lines());
        assert_eq!(machine.to_json()["precisions"]["f32"], "native");
    }
}

#[test]
fn what_is_missing_is_named_with_its_remedy() {
    let cases = [
        (
            CudaReport { driver: missing("libcuda.so.1 was not found"), gpus: vec![], ..whole() },
            "libcuda.so.1 was not found; install libcuda1",
        ),
        (
            CudaReport { nvrtc: missing("libnvrtc.so is of CUDA 11.8; 12.0 is needed"), ..whole() },
            "CUDA 11.8; 12.0 is needed; install",
        ),
        (
            CudaReport { cublaslt: missing("libcublasLt.so was not found"), ..whole() },
            "libcublasLt.so was not found; install",
        ),
        (CudaReport { gpus: vec![], ..whole() }, "finds no GPU; check"),
        (
            CudaReport { gpus: vec![gpu((7, 5))], ..whole() },
            "compute capability 7.5 is too old; 8.0 is needed",
        ),
    ];
    for (cuda, says) in cases {
        let report = report(cuda);
        let error = report.require(Needed::Cuda).unwrap_err().to_string();
        assert!(error.starts_with("--require cuda: ") && error.contains(says), "{error}");
        assert!(report.to_text().contains("--device cuda does not work here"));
        assert_eq!(report.to_json()["cuda"]["usable"], false);
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_told() {
    let file = tempfile::NamedTempFile::new().unwrap();
    // A file is no folder to write to, whoever asks.
    let cuda = CudaReport { cache: Some(file.path().to_owned()), ..whole() };
    let report = report(cuda);
    report.require(Needed::Cuda).unwrap();
    assert!(report.to_text().contains("CAMPANILE_CACHE"), "{}", report.to_text());
    assert_eq!(report.to_json()["cuda"]["cache"]["found"], false);
}

#[test]
fn nccl_can_be_required() {
    let refused = report(whole()).require(Needed::Nccl).unwrap_err().to_string();
    assert_eq!(refused, "--require nccl: NCCL was not found; install libcuda1");
    let with_nccl = CudaReport { nccl: present("2.28"), ..whole() };
    report(with_nccl.clone()).require(Needed::Nccl).unwrap();
    assert!(report(with_nccl).to_text().contains("NCCL 2.28"));
    let without_gpu = CudaReport { nccl: present("2.28"), gpus: Vec::new(), ..whole() };
    let refused = report(without_gpu).require(Needed::Nccl).unwrap_err().to_string();
    assert!(refused.contains("the driver finds no GPU"), "{refused}");
}
