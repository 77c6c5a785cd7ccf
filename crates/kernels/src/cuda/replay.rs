//! Steps that repeat, as graphs.
//!
//! While a rank collects, its operations put no work into queues: they are checked, and what they would have queued goes into a list.
//! When the list is submitted, the card gets it as one graph if the same list was seen before; otherwise piece by piece. Lists are
//! compared down to the last argument, so that a graph is never stale and operations need not know of graphs. Where a few kernels have
//! other arguments than before (a step's number, a rate, a seed), they are set in the graph. Whatever needs the device in between
//! (reading memory, freeing it, waiting for a point of the list) has the list put into the queues first.

use super::counters::Counters;
use super::gpu::Gpu;
use super::graph::{Graph, destroy_point, new_point};
use super::work::{Fingerprints, Kernel, Point, Queue, Work, WorkList, record, wait};
use crate::KernelError;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most graphs that are kept. Buffers that change places give as many lists as there are places.
const GRAPHS: usize = 8;
/// Captures that may fail before no more is tried.
const SPOILED: usize = 16;
/// Lists that are remembered by their fingerprints, to see that one repeats.
const SEEN: usize = 16;
/// The most kernels whose arguments are set in a graph: more take the host longer than the kernels take the card.
const CHANGED: usize = 32;

/// What a rank collects, and the graphs of what it collected before.
#[derive(Debug, Default)]
pub(crate) struct Replay(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    collecting: bool,
    list: WorkList,
    /// Fingerprints of the last lists that were queued piece by piece.
    seen: VecDeque<Fingerprints>,
    /// The graph used last is the last.
    graphs: Vec<Kept>,
    /// All queues of the rank; the first gets the graphs.
    queues: Vec<Queue>,
    /// Lists that could not be captured. A library that waits for the whole card meanwhile, on another thread, spoils a capture; after
    /// many there is another reason, and no more is tried.
    spoiled: usize,
    /// Whether the last work was a graph, which only the first queue knows of.
    behind_graph: bool,
    /// A point for each queue, with the card that they are of.
    joints: Option<Joints>,
}

/// A graph and the list that it was made of.
#[derive(Debug)]
struct Kept {
    fingerprints: Fingerprints,
    list: WorkList,
    graph: Graph,
}

impl Replay {
    /// Says which queues the rank has, before there is work.
    pub(crate) fn set_queues(&self, queues: Vec<Queue>) {
        self.state().queues = queues;
    }

    /// Begins to collect.
    pub(crate) fn collect(&self) {
        let mut state = self.state();
        state.collecting = true;
        state.list.clear();
    }

    /// Collects a piece of work that is no kernel, or puts it into its queue at once.
    pub(crate) fn put(&self, gpu: &Gpu, work: Work) -> Result<(), KernelError> {
        let mut state = self.state();
        if state.collecting {
            state.list.work.push(work);
            return Ok(());
        }
        gpu.bind()?;
        state.leave_graph(gpu)?;
        work.put(gpu, &[])
    }

    /// Collects a kernel with its arguments, or launches it at once.
    pub(crate) fn put_kernel(
        &self,
        gpu: &Gpu,
        kernel: Kernel,
        values: &[u64],
        starts: &[u64],
    ) -> Result<(), KernelError> {
        let mut state = self.state();
        if state.collecting {
            state.list.push_kernel(kernel, values, starts);
            return Ok(());
        }
        gpu.bind()?;
        state.leave_graph(gpu)?;
        kernel.launch(values, starts)
    }

    /// Puts what was collected into the queues, and collects no more: the host needs the device.
    pub(crate) fn flush(&self, gpu: &Gpu) -> Result<(), KernelError> {
        let mut state = self.state();
        gpu.bind()?;
        state.leave_graph(gpu)?;
        if std::mem::take(&mut state.collecting) { state.put_list(gpu) } else { Ok(()) }
    }

    /// As [`Replay::flush`], if `point` is among what was collected.
    pub(crate) fn flush_point(&self, gpu: &Gpu, point: Point) -> Result<(), KernelError> {
        let needed = {
            let state = self.state();
            state.collecting && state.list.records(point)
        };
        if needed { self.flush(gpu) } else { Ok(()) }
    }

    /// Ends all, before the queues end: memory that lives longer finds nothing to put into them.
    pub(crate) fn close(&self) {
        *self.state() = State::default();
    }

    /// Ends the collection without its work.
    pub(crate) fn discard(&self) {
        let mut state = self.state();
        state.collecting = false;
        state.list.clear();
    }

    /// Ends the collection: its work goes to the card, as a graph where it `may` and the same was queued before. Gives true for a graph.
    pub(crate) fn submit(&self, gpu: &Gpu, counters: &Counters, may: bool) -> Result<bool, KernelError> {
        let mut state = self.state();
        if !std::mem::take(&mut state.collecting) {
            return Ok(false);
        }
        gpu.bind()?;
        let fingerprints = state.list.fingerprints();
        if !may || !state.find(gpu, counters, fingerprints) {
            state.remember(fingerprints);
            state.leave_graph(gpu)?;
            state.put_list(gpu)?;
            return Ok(false);
        }
        state.launch(gpu)?;
        counters.replayed();
        Ok(true)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Puts the list into the queues, piece by piece.
    fn put_list(&mut self, gpu: &Gpu) -> Result<(), KernelError> {
        let Self { list, .. } = self;
        let put = list.work.iter().try_for_each(|work| work.put(gpu, &list.words));
        list.clear();
        put
    }

    fn remember(&mut self, fingerprints: Fingerprints) {
        if self.seen.contains(&fingerprints) {
            return;
        }
        if self.seen.len() == SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(fingerprints);
    }

    /// Makes a graph of the list the last one: the graph that there is, one that differs in arguments alone, which are set, or a new
    /// one, if such a list was seen before. Gives false where there is none.
    fn find(&mut self, gpu: &Gpu, counters: &Counters, fingerprints: Fingerprints) -> bool {
        let known = |kept: &Kept| kept.fingerprints == fingerprints && kept.list == self.list;
        if let Some(at) = self.graphs.iter().position(known) {
            let kept = self.graphs.remove(at);
            self.graphs.push(kept);
            return true;
        }
        // A list that comes back as it was has a graph of its own.
        let comes_back = self.seen.contains(&fingerprints);
        if !comes_back && self.set_arguments(fingerprints) {
            self.remember(fingerprints);
            return true;
        }
        let of_shape = |other: Fingerprints| other.shape == fingerprints.shape;
        let seen = self.seen.iter().any(|&seen| of_shape(seen));
        // A graph whose arguments cannot be set is of no use to a list that never comes back, nor would another be.
        let in_vain = !comes_back && self.graphs.iter().any(|kept| of_shape(kept.fingerprints));
        if self.spoiled >= SPOILED || !seen || in_vain {
            return false;
        }
        let made = {
            // Whoever waits for the card waits until its queues are captured.
            let _others = gpu.queues();
            Graph::of(gpu, &self.queues, &self.list)
        };
        let Ok(graph) = made else {
            self.spoiled += 1;
            counters.spoiled();
            return false;
        };
        if self.graphs.len() == GRAPHS {
            self.graphs.remove(0);
        }
        self.graphs.push(Kept { fingerprints, list: self.list.clone(), graph });
        true
    }

    /// Sets the list's arguments in a graph that differs in a few of them alone, and makes it the last one. False where there is none.
    fn set_arguments(&mut self, fingerprints: Fingerprints) -> bool {
        let Self { graphs, list, spoiled, .. } = self;
        let of_shape =
            graphs.iter().enumerate().filter(|(_, kept)| kept.fingerprints.shape == fingerprints.shape);
        let mut changed = of_shape.filter_map(|(at, kept)| Some((at, kept.list.changed(list)?)));
        let few = |(at, changed): &(usize, Vec<usize>)| {
            changed.len() <= CHANGED && changed.iter().all(|&kernel| graphs[*at].graph.knows(kernel))
        };
        let Some((at, changed)) = changed.find(few) else { return false };
        let mut kept = graphs.remove(at);
        let set = changed.into_iter().try_for_each(|at| match &list.work[at] {
            Work::Kernel(kernel) => kept.graph.set_arguments(at, kernel, &list.words),
            _ => Ok(()),
        });
        if set.is_err() {
            // Some are set and some are not: the graph is of no use any more.
            *spoiled += 1;
            return false;
        }
        kept.fingerprints = fingerprints;
        kept.list.words.clone_from(&list.words);
        graphs.push(kept);
        true
    }

    /// Launches the last graph, behind all work of all queues.
    fn launch(&mut self, gpu: &Gpu) -> Result<(), KernelError> {
        let first = self.queues[0];
        if !self.behind_graph {
            let joints = joints(&mut self.joints, gpu, self.queues.len())?;
            for (&queue, &joint) in self.queues.iter().zip(joints).skip(1) {
                record(queue, joint)?;
                wait(first, joint)?;
            }
        }
        if let Some(kept) = self.graphs.last() {
            kept.graph.launch(first)?;
        }
        self.behind_graph = true;
        for work in &self.list.work {
            if let &Work::Record { point, for_host: true, .. } = work {
                record(first, point)?;
            }
        }
        self.list.clear();
        Ok(())
    }

    /// Lets all queues go on behind the graph, if there was one.
    fn leave_graph(&mut self, gpu: &Gpu) -> Result<(), KernelError> {
        if !self.behind_graph {
            return Ok(());
        }
        let joints = joints(&mut self.joints, gpu, self.queues.len())?;
        record(self.queues[0], joints[0])?;
        self.queues[1..].iter().try_for_each(|&queue| wait(queue, joints[0]))?;
        self.behind_graph = false;
        Ok(())
    }
}

/// Points where queues meet, ended with the rank.
#[derive(Debug)]
struct Joints {
    gpu: Gpu,
    points: Vec<Point>,
}

impl Drop for Joints {
    fn drop(&mut self) {
        if self.gpu.bind().is_ok() {
            self.points.iter().for_each(|&point| destroy_point(point));
        }
    }
}

/// One joint for each queue, made at the first need.
fn joints<'a>(made: &'a mut Option<Joints>, gpu: &Gpu, queues: usize) -> Result<&'a [Point], KernelError> {
    let joints = made.get_or_insert_with(|| Joints { gpu: gpu.clone(), points: Vec::new() });
    while joints.points.len() < queues {
        joints.points.push(new_point()?);
    }
    Ok(&joints.points)
}
