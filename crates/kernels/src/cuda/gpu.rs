//! One card of this process: its context, its kernels, and what ranks that share it have in common.

use super::blas::Blas;
use super::compile::{Source, sources};
use super::library::{GpuReport, Library};
use super::work::Queue;
use crate::KernelError;
use cudarc::driver::{result, sys};
use std::collections::HashMap;
use std::ffi::CString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Options of a card.
#[derive(Clone, Debug)]
pub struct GpuOptions {
    /// Folder of compiled kernels and pinned algorithms; `None` to keep none.
    pub cache: Option<PathBuf>,
    /// Whether algorithms of matrix products that no file pins are chosen by measurement, or by cuBLASLt's own guess.
    pub tune: bool,
}

impl Default for GpuOptions {
    /// Cache in `CAMPANILE_CACHE`, or in `campanile` of the user's cache folder; algorithms by measurement, if they can be kept:
    /// another measurement may choose others, and other bits.
    fn default() -> Self {
        let cache = default_cache();
        Self { tune: cache.is_some(), cache }
    }
}

/// Folder of the cache by the environment.
pub(crate) fn default_cache() -> Option<PathBuf> {
    let named =
        |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("CAMPANILE_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|folder| folder.join("campanile")))
        .or_else(|| named("HOME").map(|home| home.join(".cache/campanile")))
}

/// One card of this process. Clones share it.
#[derive(Clone)]
pub struct Gpu(Arc<Card>);

struct Card {
    index: usize,
    device: sys::CUdevice,
    context: sys::CUcontext,
    name: String,
    capability: (u32, u32),
    multiprocessors: u32,
    /// Bytes of shared memory that a block may have.
    shared_memory: u32,
    options: GpuOptions,
    modules: Vec<sys::CUmodule>,
    /// Products; gone before the context is.
    blas: Option<Blas>,
    functions: Mutex<HashMap<&'static str, Function>>,
    queues: Mutex<Vec<Queue>>,
}

/// A kernel that can be launched.
#[derive(Clone, Copy)]
pub(crate) struct Function(pub(crate) sys::CUfunction);

// SAFETY: contexts, modules and functions are handles that the driver lets every thread use.
unsafe impl Send for Card {}
// SAFETY: as above.
unsafe impl Sync for Card {}
// SAFETY: as above.
unsafe impl Send for Function {}

impl Gpu {
    /// Opens card `index`, compiling its kernels if the cache has none. Fails with one sentence where CUDA is missing.
    pub fn open(index: usize, options: &GpuOptions) -> Result<Self, KernelError> {
        Library::Driver.find().need()?;
        Library::CublasLt.find().need()?;
        result::init().map_err(|error| failed("cuInit", error))?;
        let count = result::device::get_count().map_err(|error| failed("cuDeviceGetCount", error))?;
        if index >= count as usize {
            let problem = match count {
                0 => "the driver finds no GPU".to_owned(),
                1 => format!("GPU {index} does not exist: the machine has one, 0"),
                count => format!("GPU {index} does not exist: the machine has {count}, from 0"),
            };
            return Err(KernelError::Device(problem));
        }
        let device = result::device::get(index as i32).map_err(|error| failed("cuDeviceGet", error))?;
        let name = result::device::get_name(device).map_err(|error| failed("cuDeviceGetName", error))?;
        let attribute = |which| attribute(device, which);
        use sys::CUdevice_attribute as A;
        let capability = (
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        if capability < (8, 0) {
            let (major, minor) = capability;
            return Err(KernelError::Device(format!(
                "GPU {index}, {name}, has compute capability {major}.{minor}; 8.0 is needed (A100, RTX 30 or newer)"
            )));
        }
        // SAFETY: the device exists; the context is released when the card is dropped.
        let context = unsafe { result::primary_ctx::retain(device) }
            .map_err(|error| failed("cuDevicePrimaryCtxRetain", error))?;
        let mut card = Card {
            index,
            device,
            context,
            name,
            capability,
            multiprocessors: attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared_memory: attribute(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            options: options.clone(),
            modules: Vec::new(),
            blas: None,
            functions: Mutex::default(),
            queues: Mutex::default(),
        };
        card.bind()?;
        let (architecture, cache) =
            (format!("sm_{}{}", capability.0, capability.1), options.cache.as_deref());
        for (source, architecture) in sources(&architecture) {
            card.modules.push(load(source, &architecture, cache)?);
        }
        card.blas = Some(Blas::new(cache)?);
        Ok(Self(Arc::new(card)))
    }

    /// Number of cards that the driver finds; an error where there is no driver.
    pub fn count() -> Result<usize, KernelError> {
        Library::Driver.find().need()?;
        result::init().map_err(|error| failed("cuInit", error))?;
        Ok(result::device::get_count().map_err(|error| failed("cuDeviceGetCount", error))? as usize)
    }

    /// Number of the card, as in `cuda:1`.
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// Name that the driver gives.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Identity of the card, which no other card has, on any machine.
    pub fn identity(&self) -> Result<[u8; 16], KernelError> {
        let id = result::device::get_uuid(self.0.device).map_err(|error| failed("cuDeviceGetUuid", error))?;
        Ok(id.bytes.map(|byte| byte as u8))
    }

    /// Compute capability: 9.0 for an H200.
    pub fn capability(&self) -> (u32, u32) {
        self.0.capability
    }

    /// Bytes of memory: free, and in all.
    pub fn memory(&self) -> Result<(u64, u64), KernelError> {
        self.bind()?;
        let (free, total) = result::mem_get_info().map_err(|error| failed("cuMemGetInfo", error))?;
        Ok((free as u64, total as u64))
    }

    /// Makes the card the one that calls of this thread mean.
    pub(crate) fn bind(&self) -> Result<(), KernelError> {
        self.0.bind()
    }

    /// Waits for all work of the card's ranks, queue by queue: the driver refuses to wait for the context while any of its queues is
    /// captured, and spoils the capture. Whoever captures holds the list of queues, because waiting for a captured queue fails too.
    pub(crate) fn synchronise(&self) -> Result<(), KernelError> {
        self.bind()?;
        // No rank ends a queue meanwhile.
        let queues = self.queues();
        // The first is the queue of copies and fills that the host waits for.
        std::iter::once(Queue(0)).chain(queues.iter().copied()).try_for_each(|queue| {
            // SAFETY: ranks take their streams off the list before they end them.
            unsafe { result::stream::synchronize(queue.raw()) }
                .map_err(|error| failed("cuStreamSynchronize", error))
        })
    }

    /// Queues of all ranks that use the card.
    pub(crate) fn queues(&self) -> MutexGuard<'_, Vec<Queue>> {
        self.0.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn multiprocessors(&self) -> u32 {
        self.0.multiprocessors
    }

    /// Products of the card.
    pub(crate) fn blas(&self) -> &Blas {
        self.0.blas.as_ref().expect("a card that is open has its products")
    }

    pub(crate) fn options(&self) -> &GpuOptions {
        &self.0.options
    }

    /// Whether both are the same card.
    pub(crate) fn is(&self, other: &Gpu) -> bool {
        self.0.index == other.0.index
    }

    /// The kernel `name`, which may use as much shared memory as a block can have.
    pub(crate) fn function(&self, name: &'static str) -> Result<Function, KernelError> {
        let mut functions = self.functions();
        if let Some(&function) = functions.get(name) {
            return Ok(function);
        }
        self.bind()?;
        let c_name = CString::new(name).map_err(|_| KernelError::Device(format!("{name}: no kernel")))?;
        let found = self.0.modules.iter().find_map(|&module| {
            // SAFETY: the module is loaded for as long as the card lives.
            unsafe { result::module::get_function(module, c_name.clone()) }.ok()
        });
        let function = found.ok_or_else(|| KernelError::Device(format!("no kernel is named {name}")))?;
        use sys::CUfunction_attribute_enum as A;
        // SAFETY: the function is of a loaded module.
        unsafe {
            let fixed =
                result::function::get_function_attribute(function, A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
                    .map_err(|error| failed("cuFuncGetAttribute", error))?;
            let most = self.0.shared_memory as i32 - fixed;
            result::function::set_function_attribute(
                function,
                A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                most,
            )
            .map_err(|error| failed("cuFuncSetAttribute", error))?;
        }
        functions.insert(name, Function(function));
        Ok(Function(function))
    }

    /// Bytes of shared memory that a block may have.
    pub(crate) fn shared_memory(&self) -> usize {
        self.0.shared_memory as usize
    }

    fn functions(&self) -> MutexGuard<'_, HashMap<&'static str, Function>> {
        self.0.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Card {
    fn bind(&self) -> Result<(), KernelError> {
        // SAFETY: the context lives as long as the card.
        unsafe { result::ctx::set_current(self.context) }.map_err(|error| failed("cuCtxSetCurrent", error))
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        if self.bind().is_err() {
            return;
        }
        self.blas = None;
        // SAFETY: nothing of the card is used any more: whatever lives on it holds a clone of the card.
        unsafe {
            for &module in &self.modules {
                let _ = result::module::unload(module);
            }
            let _ = result::primary_ctx::release(self.device);
        }
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gpu({}, {})", self.0.index, self.0.name)
    }
}

fn load(source: &Source, architecture: &str, cache: Option<&Path>) -> Result<sys::CUmodule, KernelError> {
    let cubin = source.cubin(architecture, cache)?;
    // SAFETY: the driver checks the image, and copies it.
    unsafe { result::module::load_data(cubin.as_ptr().cast()) }
        .map_err(|error| failed("cuModuleLoadData", error))
}

fn attribute(device: sys::CUdevice, which: sys::CUdevice_attribute) -> Result<u32, KernelError> {
    // SAFETY: the device exists.
    let value = unsafe { result::device::get_attribute(device, which) };
    value.map(|value| value as u32).map_err(|error| failed("cuDeviceGetAttribute", error))
}

/// The error of a call of the driver.
pub(crate) fn failed(call: &str, error: result::DriverError) -> KernelError {
    let name = error.error_name().ok().and_then(|name| name.to_str().ok()).unwrap_or("unknown error");
    let text = error.error_string().ok().and_then(|text| text.to_str().ok()).unwrap_or("no description");
    KernelError::Device(format!("{call}: {name}: {text}"))
}

/// All cards of the machine.
pub(crate) fn reports() -> Result<Vec<GpuReport>, KernelError> {
    use sys::CUdevice_attribute as A;
    let report = |index: usize| {
        let device = result::device::get(index as i32).map_err(|error| failed("cuDeviceGet", error))?;
        // SAFETY: the device exists; the context is released below.
        let (free, total) = unsafe {
            let context = result::primary_ctx::retain(device)
                .map_err(|error| failed("cuDevicePrimaryCtxRetain", error))?;
            result::ctx::set_current(context).map_err(|error| failed("cuCtxSetCurrent", error))?;
            let memory = result::mem_get_info();
            let _ = result::primary_ctx::release(device);
            memory.map_err(|error| failed("cuMemGetInfo", error))?
        };
        Ok(GpuReport {
            index,
            name: result::device::get_name(device).map_err(|error| failed("cuDeviceGetName", error))?,
            capability: (
                attribute(device, A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(device, A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            memory_free: free as u64,
            memory_total: total as u64,
        })
    };
    (0..Gpu::count()?).map(report).collect()
}
