//! A list of work as one CUDA graph, which the card carries out without the host in between.

use super::gpu::{Gpu, failed};
use super::work::{Kernel, Point, Queue, Work, WorkList, record, wait};
use crate::KernelError;
use cudarc::driver::{result, sys};
use std::collections::HashMap;
use std::ptr::null_mut;

/// Version of the driver from which on a capture tells its nodes, with the data of edges that graphs have since.
const CAPTURE_INFO: i32 = 12_030;

/// A graph that can be launched.
#[derive(Debug)]
pub(crate) struct Graph {
    gpu: Gpu,
    /// What the executable was made of, which owns the nodes.
    template: sys::CUgraph,
    executable: sys::CUgraphExec,
    /// The node of each kernel, by its place in the list.
    nodes: HashMap<usize, sys::CUgraphNode>,
}

// SAFETY: graphs are handles; the replay that owns one uses it from one thread at a time.
unsafe impl Send for Graph {}

impl Graph {
    /// Makes a graph of `list`, whose work goes to `queues`. It begins where the first queue is, and everything in it has ended when
    /// that queue goes on; so points of earlier work need not be waited for.
    pub(crate) fn of(gpu: &Gpu, queues: &[Queue], list: &WorkList) -> Result<Self, KernelError> {
        let origin = queues[0];
        // Points of a capture cannot be looked at by the host: the capture has its own.
        let mut points = Points { gpu, own: HashMap::new() };
        // SAFETY: the stream is alive; the capture ends below in every case.
        unsafe {
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
            result::stream::begin_capture(origin.raw(), mode)
        }
        .map_err(|error| failed("cuStreamBeginCapture", error))?;
        let mut nodes = HashMap::new();
        let captured = capture(gpu, queues, list, &mut points, &mut nodes);
        // SAFETY: the stream is capturing.
        let ended = unsafe { result::stream::end_capture(origin.raw()) };
        let graph = ended.map_err(|error| failed("cuStreamEndCapture", error));
        if let (Err(_), Ok(half)) = (&captured, &graph) {
            // SAFETY: nothing else has the graph.
            let _ = unsafe { result::graph::destroy(*half) };
        }
        captured?;
        let template = graph?;
        // SAFETY: the graph was just made, and is destroyed here if it is of no use.
        let executable = unsafe {
            result::graph::instantiate(template, sys::CUgraphInstantiate_flags(0)).map_err(|error| {
                let _ = result::graph::destroy(template);
                failed("cuGraphInstantiate", error)
            })?
        };
        Ok(Self { gpu: gpu.clone(), template, executable, nodes })
    }

    /// Whether the kernel at place `at` of the list can be given other arguments.
    pub(crate) fn knows(&self, at: usize) -> bool {
        self.nodes.contains_key(&at)
    }

    /// Gives the kernel at place `at` of the list other arguments, for launches from now on.
    pub(crate) fn set_arguments(
        &mut self,
        at: usize,
        kernel: &Kernel,
        words: &[u64],
    ) -> Result<(), KernelError> {
        let unknown = || KernelError::Device(format!("the node of kernel {} is not known", kernel.name));
        let &node = self.nodes.get(&at).ok_or_else(unknown)?;
        let mut pointers = Kernel::pointers(&words[kernel.values.clone()], &words[kernel.starts.clone()]);
        let [x, y, z] = kernel.grid;
        let parameters = sys::CUDA_KERNEL_NODE_PARAMS {
            func: kernel.function as sys::CUfunction,
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: kernel.block,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: kernel.shared,
            kernelParams: pointers.as_mut_ptr(),
            extra: null_mut(),
            kern: null_mut(),
            ctx: null_mut(),
        };
        // SAFETY: the node is a kernel of the graph that the executable was made of, which is alive; the driver copies the arguments
        // before it returns. Launches before keep theirs.
        unsafe { sys::cuGraphExecKernelNodeSetParams_v2(self.executable, node, &parameters) }
            .result()
            .map_err(|error| failed(kernel.name, error))
    }

    /// Puts the graph into a queue.
    pub(crate) fn launch(&self, queue: Queue) -> Result<(), KernelError> {
        // SAFETY: both are alive, and so is all memory that the graph uses: the list that is replayed was just made again, from
        // buffers that exist.
        unsafe { result::graph::launch(self.executable, queue.raw()) }
            .map_err(|error| failed("cuGraphLaunch", error))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.gpu.synchronise().is_ok() {
            // SAFETY: the graph is not running and not used any more.
            unsafe {
                let _ = result::graph::exec_destroy(self.executable);
                let _ = result::graph::destroy(self.template);
            }
        }
    }
}

/// Puts all work into queues that are captured from the first one on. `nodes` gets the node of each kernel.
fn capture(
    gpu: &Gpu,
    queues: &[Queue],
    list: &WorkList,
    points: &mut Points,
    nodes: &mut HashMap<usize, sys::CUgraphNode>,
) -> Result<(), KernelError> {
    let (origin, others) = (queues[0], &queues[1..]);
    // The capture's own points, under names that no event has: 0, and the handles of queues.
    let begin = points.own(Point(0))?;
    record(origin, begin)?;
    others.iter().try_for_each(|&queue| wait(queue, begin))?;
    let knows_nodes = knows_nodes();
    for (at, work) in list.work.iter().enumerate() {
        match work {
            &Work::Record { queue, point, .. } => record(queue, points.own(point)?)?,
            // What is not of this list ended before it.
            &Work::Wait { queue, point } => {
                if let Some(&own) = points.own.get(&point) {
                    wait(queue, own)?;
                }
            }
            // A library need not expect that another part of the program has spoiled the capture.
            Work::Product { .. } if !is_captured(origin)? => return Err(spoiled()),
            Work::Kernel(kernel) => {
                work.put(gpu, &list.words)?;
                if let Some(node) = if knows_nodes { last_node(kernel.queue)? } else { None } {
                    nodes.insert(at, node);
                }
            }
            _ => work.put(gpu, &list.words)?,
        }
    }
    for &queue in others {
        let end = points.own(Point(queue.0))?;
        record(queue, end)?;
        wait(origin, end)?;
    }
    Ok(())
}

/// Whether the driver tells which node a capture made last.
fn knows_nodes() -> bool {
    let mut version = 0;
    // SAFETY: the driver writes the number.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().is_ok() && version >= CAPTURE_INFO
}

/// The node that was captured last from a queue.
fn last_node(queue: Queue) -> Result<Option<sys::CUgraphNode>, KernelError> {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let (mut last, mut count) = (std::ptr::null(), 0);
    // SAFETY: the stream is alive. The driver writes the status, and where the nodes are that the next one of the stream depends on.
    unsafe {
        sys::cuStreamGetCaptureInfo_v3(
            queue.raw(),
            &mut status,
            null_mut(),
            null_mut(),
            &mut last,
            null_mut(),
            &mut count,
        )
        .result()
        .map_err(|error| failed("cuStreamGetCaptureInfo", error))?;
        let active = status == sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE;
        // Behind a kernel the next node depends on that kernel alone. The driver keeps the array until the capture goes on.
        Ok((active && count == 1).then(|| *last))
    }
}

/// Whether what goes to a queue is still captured.
fn is_captured(queue: Queue) -> Result<bool, KernelError> {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the stream is alive, and the driver writes the status.
    unsafe { sys::cuStreamIsCapturing(queue.raw(), &mut status) }
        .result()
        .map_err(|error| failed("cuStreamIsCapturing", error))?;
    Ok(status == sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE)
}

fn spoiled() -> KernelError {
    KernelError::Device("the capture of a step was spoiled by another part of the program".to_owned())
}

/// Points that stand for those of a list while it is captured.
struct Points<'a> {
    gpu: &'a Gpu,
    own: HashMap<Point, Point>,
}

impl Points<'_> {
    fn own(&mut self, point: Point) -> Result<Point, KernelError> {
        if let Some(&own) = self.own.get(&point) {
            return Ok(own);
        }
        let own = new_point()?;
        self.own.insert(point, own);
        Ok(own)
    }
}

impl Drop for Points<'_> {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            self.own.values().for_each(|&point| destroy_point(point));
        }
    }
}

/// Makes a point that only queues wait for, on the card that is current.
pub(super) fn new_point() -> Result<Point, KernelError> {
    result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
        .map(Point::of)
        .map_err(|error| failed("cuEventCreate", error))
}

/// Ends a point of [`new_point`].
pub(super) fn destroy_point(point: Point) {
    // SAFETY: callers own the point, and do not use it any more; the driver keeps what a queue still waits for.
    let _ = unsafe { result::event::destroy(point.raw()) };
}
