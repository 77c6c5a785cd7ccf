//! Work of a rank's queues as values, which can be collected, compared, and put into the queues later.

use super::blas::Run;
use super::gpu::{Gpu, failed};
use super::product::Plan;
use crate::KernelError;
use cudarc::driver::{result, sys};
use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

/// The most arguments that a kernel has.
pub(crate) const ARGUMENTS: usize = 32;

/// A queue, by its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue(pub usize);

impl Queue {
    pub(crate) fn of(stream: sys::CUstream) -> Self {
        Self(stream as usize)
    }

    pub(crate) fn raw(self) -> sys::CUstream {
        self.0 as sys::CUstream
    }
}

/// A point in the work of a queue, by its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Point(pub(crate) usize);

impl Point {
    pub(crate) fn of(event: sys::CUevent) -> Self {
        Self(event as usize)
    }

    pub(crate) fn raw(self) -> sys::CUevent {
        self.0 as sys::CUevent
    }
}

/// A piece of work for a queue.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// A kernel, with its arguments in the words of the list.
    Kernel(Kernel),
    /// A copy of bytes.
    Copy { queue: Queue, to: u64, from: u64, len: usize },
    /// Bytes that are set.
    Fill { queue: Queue, to: u64, value: u8, len: usize },
    /// A product of matrices.
    Product { plan: Arc<Plan>, run: Run, bias: Option<u64> },
    /// A point behind all work so far of the queue. The host waits for it, or other queues alone.
    Record { queue: Queue, point: Point, for_host: bool },
    /// The queue goes on after a point.
    Wait { queue: Queue, point: Point },
}

/// A launch of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) function: usize,
    pub(crate) queue: Queue,
    pub(crate) grid: [u32; 3],
    pub(crate) block: u32,
    pub(crate) shared: u32,
    /// Words of its arguments, and then the first word of each argument, in the words of a list.
    pub(crate) values: Range<usize>,
    pub(crate) starts: Range<usize>,
}

impl PartialEq for Work {
    fn eq(&self, other: &Self) -> bool {
        use Work::{Copy, Fill, Kernel, Product, Record, Wait};
        match (self, other) {
            (Kernel(a), Kernel(b)) => a == b,
            (Copy { queue, to, from, len }, Copy { queue: q, to: t, from: f, len: l }) => {
                (queue, to, from, len) == (q, t, f, l)
            }
            (Fill { queue, to, value, len }, Fill { queue: q, to: t, value: v, len: l }) => {
                (queue, to, value, len) == (q, t, v, l)
            }
            (Product { plan, run, bias }, Product { plan: p, run: r, bias: b }) => {
                Arc::ptr_eq(plan, p) && (run, bias) == (r, b)
            }
            (Record { queue, point, for_host }, Record { queue: q, point: p, for_host: h }) => {
                (queue, point, for_host) == (q, p, h)
            }
            (Wait { queue, point }, Wait { queue: q, point: p }) => (queue, point) == (q, p),
            _ => false,
        }
    }
}

impl Kernel {
    /// A launch without arguments, which [`WorkList::push_kernel`] adds: of a function by its handle, in a grid of
    /// blocks; `shared` is the shared memory of a block in bytes.
    pub fn new(
        name: &'static str,
        function: usize,
        queue: Queue,
        grid: [u32; 3],
        block: u32,
        shared: u32,
    ) -> Self {
        Self { name, function, queue, grid, block, shared, values: 0..0, starts: 0..0 }
    }

    /// Where each argument lies in `values`; `starts` is the first word of each.
    pub(super) fn pointers(values: &[u64], starts: &[u64]) -> [*mut c_void; ARGUMENTS] {
        let mut pointers = [std::ptr::null_mut(); ARGUMENTS];
        for (pointer, &start) in pointers.iter_mut().zip(starts) {
            *pointer = std::ptr::from_ref(&values[start as usize]).cast_mut().cast();
        }
        pointers
    }

    /// Puts the kernel into its queue, with the given words and the first word of each argument.
    pub(crate) fn launch(&self, values: &[u64], starts: &[u64]) -> Result<(), KernelError> {
        let mut pointers = Self::pointers(values, starts);
        let [x, y, z] = self.grid;
        // SAFETY: the driver copies the arguments before it returns, and does not write them. The operation that launches the
        // kernel has checked its buffers; they stay alive until the queue is done, because freeing memory of a card puts what was
        // collected into the queues, and waits for all work.
        let launched = unsafe {
            result::launch_kernel(
                self.function as sys::CUfunction,
                (x, y, z),
                (self.block, 1, 1),
                self.shared,
                self.queue.raw(),
                &mut pointers[..starts.len()],
            )
        };
        launched.map_err(|error| failed(self.name, error))
    }
}

impl Work {
    /// Puts the work into its queue, on a card that is current; `words` hold the arguments of kernels.
    pub(crate) fn put(&self, gpu: &Gpu, words: &[u64]) -> Result<(), KernelError> {
        match self {
            Work::Kernel(kernel) => {
                kernel.launch(&words[kernel.values.clone()], &words[kernel.starts.clone()])
            }
            &Work::Copy { queue, to, from, len } => {
                // SAFETY: callers of `Stream::copy` checked both ranges, and keep the memory until the copy is done.
                unsafe { sys::cuMemcpyAsync(to, from, len, queue.raw()) }
                    .result()
                    .map_err(|error| failed("cuMemcpyAsync", error))
            }
            &Work::Fill { queue, to, value, len } => {
                // SAFETY: as above.
                unsafe { result::memset_d8_async(to, value, len, queue.raw()) }
                    .map_err(|error| failed("cuMemsetD8Async", error))
            }
            Work::Product { plan, run, bias } => plan.run(gpu.blas(), *run, *bias),
            &Work::Record { queue, point, .. } => record(queue, point),
            &Work::Wait { queue, point } => wait(queue, point),
        }
    }
}

/// Records a point behind all work so far of a queue.
pub(crate) fn record(queue: Queue, point: Point) -> Result<(), KernelError> {
    // SAFETY: both handles are alive.
    unsafe { result::event::record(point.raw(), queue.raw()) }.map_err(|error| failed("cuEventRecord", error))
}

/// Lets a queue go on after a point.
pub(crate) fn wait(queue: Queue, point: Point) -> Result<(), KernelError> {
    let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
    // SAFETY: both handles are alive.
    unsafe { result::stream::wait_event(queue.raw(), point.raw(), flags) }
        .map_err(|error| failed("cuStreamWaitEvent", error))
}

/// Work of all queues of a rank, in the order in which it was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkList {
    pub(crate) work: Vec<Work>,
    /// Arguments of kernels.
    pub(crate) words: Vec<u64>,
}

impl WorkList {
    /// Adds a kernel with its arguments.
    pub fn push_kernel(&mut self, mut kernel: Kernel, values: &[u64], starts: &[u64]) {
        let at = self.words.len();
        self.words.extend_from_slice(values);
        self.words.extend_from_slice(starts);
        kernel.values = at..at + values.len();
        kernel.starts = kernel.values.end..self.words.len();
        self.work.push(Work::Kernel(kernel));
    }

    /// Adds a copy of bytes, for tests alone.
    pub fn push_copy(&mut self, queue: Queue, to: u64, from: u64, len: usize) {
        self.work.push(Work::Copy { queue, to, from, len });
    }

    pub(crate) fn clear(&mut self) {
        self.work.clear();
        self.words.clear();
    }

    /// Whether a point is recorded in it.
    pub(crate) fn records(&self, of: Point) -> bool {
        self.work.iter().any(|work| matches!(work, Work::Record { point, .. } if *point == of))
    }

    /// Numbers that equal lists share, and others hardly ever.
    pub fn fingerprints(&self) -> Fingerprints {
        let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // What tells lists apart is enough: those that may be equal are compared in full.
        let shape = self.work.iter().fold(self.work.len() as u64, |hash, work| match work {
            Work::Kernel(kernel) => mix(mix(hash, kernel.function as u64), kernel.grid[0].into()),
            Work::Copy { to, from, .. } => mix(mix(hash, *to), *from),
            Work::Fill { to, .. } => mix(hash, *to),
            Work::Product { run, .. } => mix(mix(mix(hash, run.a), run.b), run.d),
            Work::Record { point, .. } | Work::Wait { point, .. } => mix(hash, point.0 as u64),
        });
        Fingerprints { shape, whole: self.words.iter().fold(shape, |hash, &word| mix(hash, word)) }
    }

    /// The places of kernels whose arguments differ in `other`, where nothing else does.
    pub fn changed(&self, other: &Self) -> Option<Vec<usize>> {
        if self.work != other.work || self.words.len() != other.words.len() {
            return None;
        }
        let mut changed = Vec::new();
        for (at, work) in self.work.iter().enumerate() {
            let Work::Kernel(kernel) = work else { continue };
            let differ = |of: &Range<usize>| self.words[of.clone()] != other.words[of.clone()];
            if differ(&kernel.starts) {
                return None;
            }
            if differ(&kernel.values) {
                changed.push(at);
            }
        }
        Some(changed)
    }
}

/// Numbers by which lists are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprints {
    /// Of everything but the arguments of kernels.
    pub shape: u64,
    /// Of everything.
    pub whole: u64,
}
