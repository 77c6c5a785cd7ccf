//! A list of work as one CUDA graph, which the card carries out without the host in between.

use super::gpu::{Gpu, failed};
use super::work::{Point, Queue, Work, WorkList, record, wait};
use crate::KernelError;
use cudarc::driver::{result, sys};
use std::collections::HashMap;

/// A graph that can be launched.
#[derive(Debug)]
pub(crate) struct Graph {
    gpu: Gpu,
    executable: sys::CUgraphExec,
}

// SAFETY: executable graphs are handles; the replay that owns one uses it from one thread at a time.
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
        let captured = capture(gpu, queues, list, &mut points);
        // SAFETY: the stream is capturing.
        let ended = unsafe { result::stream::end_capture(origin.raw()) };
        let graph = ended.map_err(|error| failed("cuStreamEndCapture", error));
        if let (Err(_), Ok(half)) = (&captured, &graph) {
            // SAFETY: nothing else has the graph.
            let _ = unsafe { result::graph::destroy(*half) };
        }
        captured?;
        let graph = graph?;
        // SAFETY: the graph was just made, and is not needed once it is instantiated.
        let executable = unsafe {
            let made = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0));
            let _ = result::graph::destroy(graph);
            made.map_err(|error| failed("cuGraphInstantiate", error))?
        };
        Ok(Self { gpu: gpu.clone(), executable })
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
            let _ = unsafe { result::graph::exec_destroy(self.executable) };
        }
    }
}

/// Puts all work into queues that are captured from the first one on.
fn capture(gpu: &Gpu, queues: &[Queue], list: &WorkList, points: &mut Points) -> Result<(), KernelError> {
    let (origin, others) = (queues[0], &queues[1..]);
    // The capture's own points, under names that no event has: 0, and the handles of queues.
    let begin = points.own(Point(0))?;
    record(origin, begin)?;
    others.iter().try_for_each(|&queue| wait(queue, begin))?;
    for work in &list.work {
        match *work {
            Work::Record { queue, point, .. } => record(queue, points.own(point)?)?,
            // What is not of this list ended before it.
            Work::Wait { queue, point } => {
                if let Some(&own) = points.own.get(&point) {
                    wait(queue, own)?;
                }
            }
            // A library need not expect that another part of the program has spoiled the capture.
            Work::Product { .. } if !is_captured(origin)? => return Err(spoiled()),
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
