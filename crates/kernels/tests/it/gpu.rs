//! GPU that tests run on too: the one that the environment variable CAMPANILE_TEST_DEVICE names, `cuda` or `cuda:N`.
//!
//! Without the variable tests run on host devices alone. With it, a GPU that cannot be opened fails them.

use ground::precision::Precision;
use kernels::{Buffer, Device, Element, Gpu, GpuOptions, KernelError};
use std::sync::OnceLock;

/// Number of the GPU that the environment names.
pub fn index() -> Option<usize> {
    let name = std::env::var("CAMPANILE_TEST_DEVICE").ok().filter(|name| !name.is_empty())?;
    let index =
        if name == "cuda" { Some(0) } else { name.strip_prefix("cuda:").and_then(|n| n.parse().ok()) };
    Some(index.unwrap_or_else(|| panic!("CAMPANILE_TEST_DEVICE is {name:?}; use cuda or cuda:N")))
}

/// GPU of the environment, opened once per process.
fn gpu() -> Option<&'static Gpu> {
    static GPU: OnceLock<Option<Gpu>> = OnceLock::new();
    let open = |index| {
        // Shapes are many here: to measure algorithms for each would take longer than the tests.
        let opened = Gpu::open(index, &GpuOptions { tune: false, ..Default::default() });
        opened.unwrap_or_else(|error| panic!("CAMPANILE_TEST_DEVICE names GPU {index}: {error}"))
    };
    GPU.get_or_init(|| index().map(open)).as_ref()
}

/// Whether tests run on a GPU too.
pub fn is_there() -> bool {
    index().is_some()
}

/// A new device on the GPU, with queues, scratch memory and faults of its own: what a rank has.
pub fn of_a_rank() -> Option<Result<Device, KernelError>> {
    gpu().map(|gpu| Device::cuda(gpu, Precision::F32))
}

/// A new device on the GPU whose products are in `precision`.
pub fn in_precision(precision: Precision) -> Option<Device> {
    gpu().map(|gpu| Device::cuda(gpu, precision).unwrap())
}

/// The device on the GPU of this thread: tests, each on a thread, never see each other's faults.
pub fn device() -> Option<Device> {
    thread_local! {
        static DEVICE: Option<Device> = of_a_rank().map(|made| made.unwrap_or_else(|error| panic!("{error}")));
    }
    DEVICE.with(Clone::clone)
}

/// The host devices, and behind them the GPU if there is one.
pub fn and_gpu(host: Vec<Device>) -> Vec<Device> {
    host.into_iter().chain(device()).collect()
}

/// A copy of an operand in the memory of the device that it is for.
pub fn on<T: Element>(device: &Device, operand: &Buffer<T>) -> Buffer<T> {
    Buffer::from_slice(device, &operand.to_vec().unwrap()).unwrap()
}

/// What an operation gave, or the fault that it met after it had returned.
pub fn checked<T>(device: &Device, result: Result<T, KernelError>) -> Result<T, KernelError> {
    // The check takes the fault away, also behind a refusal.
    let met = device.check();
    result.and_then(|value| met.map(|()| value))
}
