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

#[test]
fn nccl_needs_gpus_and_one_for_each_rank() {
    let refused = check_transport(&Cluster::NcclThreads, DeviceChoice::Cpu).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "--transport: nccl moves memory of GPUs, but the ranks compute on the CPU; use --device cuda, or --transport in-process or mpi"
    );
    assert_eq!(check_transport(&Cluster::Threads, DeviceChoice::Cpu), Ok(()));
    let gpu_of = gpu_by_rank(DeviceChoice::Cuda(None), 2, &[4, 5, 6]);
    let shared = shared_gpu(&gpu_of).map(|shared| shared.to_string()).unwrap_or_default();
    assert!(shared.starts_with("ranks 4 and 6 both use GPU 0 of their host, but NCCL needs"), "{shared}");
    assert!(shared_gpu(&gpu_by_rank(DeviceChoice::Cuda(None), 3, &[4, 5, 6])).is_none());
    let all = gpu_by_rank(DeviceChoice::Cuda(Some(1)), 4, &[0, 1]);
    assert!(matches!(shared_gpu(&all), Some(CollectiveError::SharedGpu { first: 0, second: 1, gpu: 1 })));
}

#[test]
fn nccl_adds_only_where_it_joins_the_ranks() {
    let refused = check_all_reduce(&Cluster::Threads, Algorithm::Nccl).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "train.all_reduce (--all-reduce): nccl adds gradients only where NCCL joins the ranks; use --transport nccl, or another \
         all-reduce, such as direct"
    );
    assert_eq!(check_all_reduce(&Cluster::NcclThreads, Algorithm::Nccl), Ok(()));
    for algorithm in Algorithm::ORDERED {
        assert_eq!(check_all_reduce(&Cluster::Threads, algorithm), Ok(()));
    }
}
