use super::*;

fn report(driver: bool) -> CudaReport {
    let present = || Found::Present { version: "13.0".into(), path: "libcuda.so.1".into() };
    let absent =
        || Found::Missing { problem: "libcuda.so.1 was not found".into(), remedy: "install libcuda1" };
    CudaReport {
        driver: if driver { present() } else { absent() },
        nvrtc: present(),
        cublaslt: present(),
        nccl: absent(),
        gpus: Vec::new(),
        cache: None,
    }
}

#[test]
fn what_is_missing_is_said_once() {
    assert_eq!(missing(&report(false)).unwrap(), "libcuda.so.1 was not found; install libcuda1");
    assert!(missing(&report(true)).unwrap().starts_with("the driver finds no GPU"));
    let gpu = kernels::GpuReport {
        index: 0,
        name: "H200".into(),
        capability: (9, 0),
        memory_free: 1,
        memory_total: 1,
    };
    // NCCL is missing too, but nothing needs it.
    assert_eq!(missing(&CudaReport { gpus: vec![gpu], ..report(true) }), None);
}

#[test]
fn the_cpu_is_always_there_and_has_no_tf32() {
    for precision in [Precision::F32, Precision::F32x3, Precision::Bf16] {
        assert_eq!(resolve_device(DeviceChoice::Cpu, &precision.into()), Ok(DeviceChoice::Cpu));
    }
    let refused = resolve_device(DeviceChoice::Cpu, &Precision::Tf32.into()).unwrap_err();
    assert_eq!(refused.field, "train.precision (--precision)");
    assert!(resolve_device(DeviceChoice::Auto, &Precision::F32.into()).is_ok());
}

/// What a machine without GPUs says; one with GPUs has nothing to refuse.
#[test]
fn a_machine_without_gpus_refuses_what_only_they_have() {
    if missing(&cuda_report()).is_none() {
        return;
    }
    let refused =
        resolve_device(DeviceChoice::Cuda(Some(1)), &Precision::F32.into()).unwrap_err().to_string();
    assert!(refused.starts_with("train.device (--device): cuda:1 cannot be used here: "), "{refused}");
    assert_eq!(resolve_device(DeviceChoice::Auto, &Precision::F32.into()), Ok(DeviceChoice::Cpu));
    let refused = resolve_device(DeviceChoice::Auto, &Precision::Tf32.into()).unwrap_err().to_string();
    assert!(
        refused.contains("--device auto is the CPU here (") && refused.contains("not in tf32"),
        "{refused}"
    );
}
