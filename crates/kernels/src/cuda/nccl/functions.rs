//! Functions of NCCL, found by name in the library that is installed.
//!
//! They are looked up here rather than by the CUDA bindings, which know the library as `libnccl.so` only, while packages install
//! `libnccl.so.2`. Only functions that every version since 2.7 has are needed.

use crate::KernelError;
use crate::cuda::library::Library;
use cudarc::driver::sys::CUstream;
use std::ffi::{CStr, c_char, c_int, c_void};

/// Handle of a communicator.
pub(super) type Comm = *mut c_void;

/// What joins the ranks of a communicator, as NCCL passes it by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct UniqueId(pub(super) [u8; 128]);

/// Outcomes of calls that are no errors: done, and under way.
const SUCCESS: c_int = 0;
const IN_PROGRESS: c_int = 7;
/// Types of elements, and the one operation.
pub(super) const BYTES: c_int = 1;
pub(super) const FLOATS: c_int = 7;
pub(super) const SUM: c_int = 0;

/// The functions that are used, with the signatures that they have had since NCCL 2.7.
pub(super) struct Functions {
    pub(super) get_unique_id: unsafe extern "C" fn(*mut UniqueId) -> c_int,
    pub(super) init_rank: unsafe extern "C" fn(*mut Comm, c_int, UniqueId, c_int) -> c_int,
    pub(super) destroy: unsafe extern "C" fn(Comm) -> c_int,
    pub(super) abort: unsafe extern "C" fn(Comm) -> c_int,
    pub(super) async_error: unsafe extern "C" fn(Comm, *mut c_int) -> c_int,
    pub(super) group_start: unsafe extern "C" fn() -> c_int,
    pub(super) group_end: unsafe extern "C" fn() -> c_int,
    pub(super) send: unsafe extern "C" fn(*const c_void, usize, c_int, c_int, Comm, CUstream) -> c_int,
    pub(super) recv: unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, Comm, CUstream) -> c_int,
    pub(super) all_reduce:
        unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, CUstream) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    /// Details of the last error; since NCCL 2.13.
    last_error: Option<unsafe extern "C" fn(Comm) -> *const c_char>,
}

impl Functions {
    /// Opens the library and looks its functions up. Fails with one sentence where it is missing or too old.
    pub(super) fn load() -> Result<Self, KernelError> {
        Library::Nccl.find().need()?;
        let path = Library::Nccl.open().unwrap_or_default();
        let missing =
            |problem: libloading::Error| KernelError::Device(format!("NCCL, found as {path}: {problem}"));
        // SAFETY: the library is open for as long as the process lives, and these are the signatures of its functions.
        unsafe {
            let library = libloading::Library::new(&path).map_err(missing)?;
            macro_rules! function {
                ($name:literal) => {
                    *library.get($name).map_err(missing)?
                };
            }
            Ok(Self {
                get_unique_id: function!(b"ncclGetUniqueId"),
                init_rank: function!(b"ncclCommInitRank"),
                destroy: function!(b"ncclCommDestroy"),
                abort: function!(b"ncclCommAbort"),
                async_error: function!(b"ncclCommGetAsyncError"),
                group_start: function!(b"ncclGroupStart"),
                group_end: function!(b"ncclGroupEnd"),
                send: function!(b"ncclSend"),
                recv: function!(b"ncclRecv"),
                all_reduce: function!(b"ncclAllReduce"),
                error_string: function!(b"ncclGetErrorString"),
                last_error: library.get(b"ncclGetLastError").ok().map(|found| *found),
            })
        }
    }

    /// Refuses the outcome of a call that has failed.
    pub(super) fn check(&self, call: &str, outcome: c_int) -> Result<(), KernelError> {
        if outcome == SUCCESS || outcome == IN_PROGRESS {
            return Ok(());
        }
        // SAFETY: the function gives a text for every number, which is never freed.
        let mut text = unsafe { said((self.error_string)(outcome)) };
        // SAFETY: without a communicator the text of the last error of the process is given, which stays where it is.
        let detail = self.last_error.map(|last_error| unsafe { said(last_error(std::ptr::null_mut())) });
        if let Some(detail) = detail.filter(|detail| !detail.is_empty()) {
            text = format!("{text} ({detail})");
        }
        Err(KernelError::Device(format!("{call}: {text}")))
    }
}

/// A text of NCCL, on one line.
///
/// # Safety
/// `text` must be null or point to a text that ends with a zero and is not changed meanwhile.
unsafe fn said(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller guarantees.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
