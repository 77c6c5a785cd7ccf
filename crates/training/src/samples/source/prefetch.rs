//! Reads batches ahead of the training step, on a thread of its own, or on several that take turns.
//!
//! A thread fills its batches in the order in which they will be asked for, checks them, and stays a few of them ahead. Empty
//! batches come back to it, so that nothing is allocated once they have grown.

use super::Source;
use crate::cpu_clock;
use collectives::Communicator;
use data::{Batch, DataError};
use spec::device::DeviceChoice;
use spec::model::Model;
use spec::placement::share;
use spec::run::{Batches, Run};
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Batches that the only thread reads ahead, or each of several.
const DEPTH: usize = 3;
const DEPTH_OF_EACH: usize = 2;

/// The most threads that read for a GPU, which leaves the cores of the host to them. A core reads six to seven million
/// samples of Criteo's shape a second from memory, and an H200 trains on more than twenty.
const READERS: usize = 8;

/// A batch and its positions, or why it could not be read.
type Read = Result<(Range<u64>, Batch), DataError>;

/// A source that is read ahead.
#[derive(Debug)]
pub struct Prefetch {
    /// Threads that take turns.
    readers: Vec<Reader>,
    /// Thread that has the next batch.
    next: usize,
}

/// A thread that reads some of the batches ahead.
#[derive(Debug)]
struct Reader {
    ready: Option<Receiver<Read>>,
    empty: Option<SyncSender<Batch>>,
    thread: Option<JoinHandle<(Source, Duration)>>,
}

impl Reader {
    fn start(
        mut source: Source,
        model: &Model,
        depth: usize,
        portions: impl Iterator<Item = Range<u64>> + Send + 'static,
    ) -> Self {
        let (ready_from, ready) = sync_channel(depth);
        let (empty, empty_from) = sync_channel(depth + 1);
        for _ in 0..depth {
            // There is room for all of them.
            let _ = empty.try_send(Batch::default());
        }
        let model = model.clone();
        let thread = std::thread::spawn(move || {
            for portion in portions {
                let Ok(mut batch) = empty_from.recv() else { break };
                let read = source.read(portion.clone(), &model, &mut batch).map(|()| (portion, batch));
                let failed = read.is_err();
                if ready_from.send(read).is_err() || failed {
                    break;
                }
            }
            (source, cpu_clock::of_this_thread())
        });
        Self { ready: Some(ready), empty: Some(empty), thread: Some(thread) }
    }

    fn close(&mut self) -> Result<(Source, Duration), DataError> {
        // Without its channels the thread ends.
        (self.ready, self.empty) = (None, None);
        let panicked = |message: String| DataError::Panic { thread: "thread that reads ahead", message };
        let Some(thread) = self.thread.take() else { return Err(panicked("it has ended already".into())) };
        thread.join().map_err(|cause| {
            let text = cause.downcast_ref::<String>().cloned();
            panicked(text.or(cause.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default())
        })
    }
}

impl Prefetch {
    /// Begins to read `portions` of `source`, one after another, by one thread or, for a GPU, by as many as there are cores for.
    pub fn start(
        source: Source,
        run: &Run,
        portions: impl Iterator<Item = Range<u64>> + Clone + Send + 'static,
    ) -> Self {
        let wanted = match run.device {
            DeviceChoice::Cpu => 1,
            _ => (cores() / run.topology().ranks_per_host()).clamp(1, READERS),
        };
        let others: Vec<Source> = (1..wanted).map_while(|_| source.another()).collect();
        let count = others.len() + 1;
        let depth = if count == 1 { DEPTH } else { DEPTH_OF_EACH };
        let all = std::iter::once(source).chain(others).enumerate();
        let readers = all.map(|(i, source)| {
            Reader::start(source, &run.model, depth, portions.clone().skip(i).step_by(count))
        });
        Self { readers: readers.collect(), next: 0 }
    }

    /// Begins to read a rank's shares of the batches of `steps`.
    pub(crate) fn of_rank(
        world: &Communicator,
        source: Source,
        run: &Run,
        batches: Batches,
        steps: Range<u64>,
    ) -> Self {
        let (rank, ranks) = (world.rank(), world.size());
        let portions = steps.map(move |step| {
            let positions = batches.at(step);
            let own = share((positions.end - positions.start) as usize, ranks, rank);
            positions.start + own.start as u64..positions.start + own.end as u64
        });
        Self::start(source, run, portions)
    }

    /// The next batch, which must be the one at `positions`.
    pub(crate) fn take(&mut self, positions: Range<u64>, batch: &mut Batch) -> Result<(), DataError> {
        let which = self.next;
        self.next = (which + 1) % self.readers.len();
        let reader = &mut self.readers[which];
        let next = reader.ready.as_ref().and_then(|ready| ready.recv().ok());
        let Some(next) = next else {
            reader.close()?;
            return Err(DataError::Order { asked: positions, next: None });
        };
        let (portion, mut filled) = next?;
        if portion != positions {
            return Err(DataError::Order { asked: positions, next: Some(portion) });
        }
        std::mem::swap(batch, &mut filled);
        if let Some(empty) = &reader.empty {
            // The thread may have ended: then nobody needs the batch any more.
            let _ = empty.try_send(filled);
        }
        Ok(())
    }

    /// Stops reading ahead and gives the source back, with the CPU time that reading took.
    pub fn stop(mut self) -> Result<(Source, Duration), DataError> {
        let mut closed = self.readers.iter_mut().map(Reader::close);
        let (source, mut time) = closed.next().unwrap_or_else(|| Ok((Source::none(), Duration::ZERO)))?;
        for other in closed {
            time += other?.1;
        }
        Ok((source, time))
    }
}

impl Drop for Prefetch {
    fn drop(&mut self) {
        for reader in &mut self.readers {
            let _ = reader.close();
        }
    }
}

/// Cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
