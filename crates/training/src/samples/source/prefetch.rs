//! Reads batches ahead of the training step, on a thread of its own.
//!
//! The thread fills batches in the order in which they will be asked for, checks them, and stays [`DEPTH`] ahead. Empty
//! batches come back to it, so that nothing is allocated once they have grown.

use super::Source;
use crate::cpu_clock;
use collectives::Communicator;
use data::{Batch, DataError};
use spec::model::Model;
use spec::placement::share;
use spec::run::{Batches, Run};
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Batches read ahead.
const DEPTH: usize = 3;

/// A batch and its positions, or why it could not be read.
type Read = Result<(Range<u64>, Batch), DataError>;

/// A source that is read ahead.
#[derive(Debug)]
pub struct Prefetch {
    ready: Option<Receiver<Read>>,
    empty: Option<SyncSender<Batch>>,
    thread: Option<JoinHandle<(Source, Duration)>>,
}

impl Prefetch {
    /// Begins to read `portions` of `source`, one after another.
    pub fn start(
        mut source: Source,
        model: &Model,
        portions: impl Iterator<Item = Range<u64>> + Send + 'static,
    ) -> Self {
        let (ready_from, ready) = sync_channel(DEPTH);
        let (empty, empty_from) = sync_channel(DEPTH + 1);
        for _ in 0..DEPTH {
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
        Self::start(source, &run.model, portions)
    }

    /// The next batch, which must be the one at `positions`.
    pub(crate) fn take(&mut self, positions: Range<u64>, batch: &mut Batch) -> Result<(), DataError> {
        let next = self.ready.as_ref().and_then(|ready| ready.recv().ok());
        let Some(next) = next else {
            self.close()?;
            return Err(DataError::Order { asked: positions, next: None });
        };
        let (portion, mut filled) = next?;
        if portion != positions {
            return Err(DataError::Order { asked: positions, next: Some(portion) });
        }
        std::mem::swap(batch, &mut filled);
        if let Some(empty) = &self.empty {
            // The thread may have ended: then nobody needs the batch any more.
            let _ = empty.try_send(filled);
        }
        Ok(())
    }

    /// Stops reading ahead and gives the source back, with the CPU time that reading took.
    pub fn stop(mut self) -> Result<(Source, Duration), DataError> {
        self.close()
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

impl Drop for Prefetch {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
