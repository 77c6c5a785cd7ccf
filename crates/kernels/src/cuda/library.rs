//! Libraries of CUDA: where they are found, and how old they are. Nothing is loaded before a GPU or a report is asked for.
//!
//! The bindings look libraries up by name and panic where one is missing, so every library is opened here first. One that is
//! found in a folder that the loader does not search is opened by its path; a later search by name finds what is open already.

use crate::KernelError;
use std::path::PathBuf;

/// A library, by the part that it has in a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// The driver.
    Driver,
    /// The compiler of kernels.
    Nvrtc,
    /// Matrix products.
    CublasLt,
    /// Collectives between GPUs.
    Nccl,
}

/// Version of CUDA from which on drivers and libraries are new enough.
const OLDEST: (i32, i32) = (12, 0);
/// Version of NCCL from which on it sends from one rank to another.
const OLDEST_NCCL: (i32, i32) = (2, 7);

/// Whether a part of CUDA was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The part is there.
    Present {
        /// Version, as the library says it.
        version: String,
        /// File that was opened.
        path: String,
    },
    /// The part is missing or too old.
    Missing {
        /// What is wrong.
        problem: String,
        /// What the part is needed for, and what to install.
        remedy: &'static str,
    },
}

impl Found {
    /// Refuses a part that is missing.
    pub(crate) fn need(&self) -> Result<(), KernelError> {
        match self {
            Found::Present { .. } => Ok(()),
            Found::Missing { problem, remedy } => Err(KernelError::Device(format!("{problem}; {remedy}"))),
        }
    }
}

impl Library {
    /// Name in messages.
    fn name(self) -> &'static str {
        match self {
            Library::Driver => "the NVIDIA driver's libcuda.so.1",
            Library::Nvrtc => "CUDA's run-time compiler, libnvrtc.so",
            Library::CublasLt => "cuBLASLt, libcublasLt.so",
            Library::Nccl => "NCCL, libnccl.so.2",
        }
    }

    /// Names of files, the most likely first.
    pub fn files(self) -> &'static [&'static str] {
        match self {
            Library::Driver => &["libcuda.so.1", "libcuda.so"],
            Library::Nvrtc => &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
            Library::CublasLt => &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"],
            Library::Nccl => &["libnccl.so.2", "libnccl.so"],
        }
    }

    /// What the library is needed for, and where it comes from.
    fn remedy(self) -> &'static str {
        match self {
            Library::Driver => {
                "every use of a GPU needs it: install the NVIDIA driver, 525 or newer (Debian: nvidia-driver, libcuda1)"
            }
            Library::Nvrtc => {
                "kernels are compiled by it on their first use: install cuda-nvrtc-13-0 or cuda-nvrtc-12-8, or the wheel nvidia-cuda-nvrtc, and name its folder in CAMPANILE_CUDA_LIBRARIES or LD_LIBRARY_PATH"
            }
            Library::CublasLt => {
                "matrix products need it: install libcublas-13-0 or libcublas-12-8, or the wheel nvidia-cublas, and name its folder in CAMPANILE_CUDA_LIBRARIES or LD_LIBRARY_PATH"
            }
            Library::Nccl => {
                "--transport nccl needs it: install libnccl2, or the wheel nvidia-nccl-cu13 or nvidia-nccl-cu12, and name its folder in CAMPANILE_CUDA_LIBRARIES or LD_LIBRARY_PATH"
            }
        }
    }

    /// Opens the library for as long as the process lives, and gives the file.
    pub(crate) fn open(self) -> Option<String> {
        let by_name = self.files().iter().map(PathBuf::from);
        let in_folders = folders().into_iter();
        let in_folders = in_folders.flat_map(|folder| self.files().iter().map(move |file| folder.join(file)));
        by_name.chain(in_folders).find_map(|path| {
            // SAFETY: NVIDIA's libraries run no code of ours when they are loaded.
            let library = unsafe { libloading::Library::new(&path) }.ok()?;
            // The bindings keep addresses in it, so that it must never be unloaded.
            std::mem::forget(library);
            Some(path.display().to_string())
        })
    }

    /// Looks for the library.
    pub fn find(self) -> Found {
        let missing = |problem: String| Found::Missing { problem, remedy: self.remedy() };
        let Some(path) = self.open() else {
            return missing(format!("{} was not found", self.name()));
        };
        let Some((major, minor)) = self.version() else {
            return missing(format!("{}, found as {path}, does not say its version", self.name()));
        };
        let (what, oldest) = match self {
            Library::Nccl => ("of version", OLDEST_NCCL),
            _ => ("of CUDA", OLDEST),
        };
        if (major, minor) < oldest {
            let (name, (old, older)) = (self.name(), oldest);
            return missing(format!(
                "{name}, found as {path}, is {what} {major}.{minor}; {old}.{older} is needed"
            ));
        }
        Found::Present { version: format!("{major}.{minor}"), path }
    }

    /// Version of CUDA that the library belongs to; of NCCL, its own.
    fn version(self) -> Option<(i32, i32)> {
        let mut number = 0;
        match self {
            Library::Driver => {
                // SAFETY: the library is open; the call writes one integer.
                unsafe { cudarc::driver::sys::cuDriverGetVersion(&mut number) }.result().ok()?;
                Some((number / 1000, number % 1000 / 10))
            }
            Library::Nvrtc => {
                let mut minor = 0;
                // SAFETY: as above, for two integers.
                unsafe { cudarc::nvrtc::sys::nvrtcVersion(&mut number, &mut minor) }.result().ok()?;
                Some((number, minor))
            }
            Library::CublasLt => {
                // SAFETY: as above.
                let number = unsafe { cudarc::cublaslt::sys::cublasLtGetVersion() } as i32;
                // 130002 is 13.0.2, and 120304 is 12.3.4.
                Some((number / 10_000, number / 100 % 100))
            }
            Library::Nccl => {
                let path = self.open()?;
                // SAFETY: the function has had this signature since NCCL 2.0, and writes one integer.
                unsafe {
                    let library = libloading::Library::new(path).ok()?;
                    let version =
                        library.get::<unsafe extern "C" fn(*mut i32) -> i32>(b"ncclGetVersion").ok()?;
                    (version(&mut number) == 0).then_some(())?;
                }
                // 22803 is 2.28.3, and 2708 was 2.7.8.
                let step = if number < 10_000 { 1000 } else { 10_000 };
                Some((number / step, number % step / 100))
            }
        }
    }
}

/// Folders of CUDA's libraries that the loader may not search.
fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::env::var_os("CAMPANILE_CUDA_LIBRARIES")
        .map(|list| std::env::split_paths(&list).collect())
        .unwrap_or_default();
    let roots = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let roots = roots.chain([PathBuf::from("/usr/local/cuda")]);
    folders.extend(roots.flat_map(|root| [root.join("lib64"), root.join("lib")]));
    folders
}

/// What a machine has of CUDA.
#[derive(Clone, Debug)]
pub struct CudaReport {
    /// The driver.
    pub driver: Found,
    /// The compiler of kernels.
    pub nvrtc: Found,
    /// Matrix products.
    pub cublaslt: Found,
    /// Collectives between GPUs.
    pub nccl: Found,
    /// GPUs, in the driver's order.
    pub gpus: Vec<GpuReport>,
    /// Folder of compiled kernels and pinned algorithms; `None` where the environment names no home.
    pub cache: Option<PathBuf>,
}

/// One GPU of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuReport {
    /// Number of the GPU, as in `cuda:1`.
    pub index: usize,
    /// Name that the driver gives.
    pub name: String,
    /// Compute capability: 9.0 for an H200.
    pub capability: (u32, u32),
    /// Bytes of memory that are free.
    pub memory_free: u64,
    /// Bytes of memory in all.
    pub memory_total: u64,
}

/// Finds out what this machine has of CUDA. Libraries are opened; of each GPU a context is made for a moment.
pub fn cuda_report() -> CudaReport {
    let driver = Library::Driver.find();
    let gpus = if driver.need().is_ok() { super::gpu::reports().unwrap_or_default() } else { Vec::new() };
    CudaReport {
        driver,
        nvrtc: Library::Nvrtc.find(),
        cublaslt: Library::CublasLt.find(),
        nccl: Library::Nccl.find(),
        gpus,
        cache: super::gpu::default_cache(),
    }
}
