//! Rows on their way between files and memory, beside the computation.
//!
//! One thread takes jobs in order, and several work on each: rows that a job writes are in their files when a later job reads them.

use super::bytes::AlignedBytes;
use super::initial::InitialRows;
use super::row_file::RowFile;
use crate::Error;
use rayon::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Requests to the file system that are under way at a time.
const REQUESTS: usize = 16;

/// Records of one table, one behind another, and the rows that they are of, in ascending order.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Index of the table among those of the rank.
    pub table: usize,
    pub rows: Vec<u32>,
    /// Slot of each row.
    pub slots: Vec<u32>,
    /// Whether each row is in the file; the others have their initial weights. Of rows to be written it is empty.
    pub stored: Vec<bool>,
    pub bytes: Vec<u8>,
}

/// Where the rows of a table are.
#[derive(Clone, Debug)]
pub(super) struct Below {
    pub file: Arc<RowFile>,
    pub initial: Arc<InitialRows>,
}

/// What is to be done with records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Rows come into memory.
    Fetch,
    /// Rows go back into their files.
    WriteBack,
}

#[derive(Debug)]
struct Job {
    direction: Direction,
    tables: Vec<(Below, Records)>,
}

/// Records of a job that was done.
#[derive(Debug)]
pub(super) struct Done {
    pub direction: Direction,
    pub records: Vec<Records>,
    /// When the job was done.
    pub at: Instant,
    /// Time that the job took.
    pub took: Duration,
    /// Bytes that were read from files, or written to them.
    pub bytes: u64,
}

/// The threads that move rows of one rank.
#[derive(Debug)]
pub(super) struct Transfers {
    jobs: Option<Sender<Job>>,
    done: Receiver<Result<Done, Error>>,
    /// Jobs under way, in order.
    under_way: VecDeque<Direction>,
    /// Jobs that were done, but not asked for.
    arrived: VecDeque<Done>,
    thread: Option<JoinHandle<()>>,
}

impl Transfers {
    /// Starts the threads.
    pub fn new() -> Result<Self, Error> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(REQUESTS).thread_name(|i| format!("rows {i}"));
        let pool = pool.build().map_err(|error| Error::TableStore {
            path: std::path::PathBuf::new(),
            problem: format!("no threads that move rows: {error}"),
        })?;
        let (jobs, to_do) = channel::<Job>();
        let (finished, done) = channel();
        let work = move || {
            while let Ok(job) = to_do.recv() {
                if finished.send(pool.install(|| job.run())).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("rows".into()).spawn(work);
        let thread = thread.map_err(|error| Error::TableStore {
            path: std::path::PathBuf::new(),
            problem: format!("no thread that moves rows: {error}"),
        })?;
        Ok(Self {
            jobs: Some(jobs),
            done,
            under_way: VecDeque::new(),
            arrived: VecDeque::new(),
            thread: Some(thread),
        })
    }

    /// Sets rows out.
    pub fn start(&mut self, direction: Direction, tables: Vec<(Below, Records)>) -> Result<(), Error> {
        self.under_way.push_back(direction);
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send(Job { direction, tables }).map_err(|_| gone())
    }

    /// Waits for the oldest job in a direction; `None` where there is none.
    pub fn finish(&mut self, direction: Direction) -> Result<Option<Done>, Error> {
        if let Some(at) = self.arrived.iter().position(|done| done.direction == direction) {
            return Ok(self.arrived.remove(at));
        }
        while self.under_way.contains(&direction) {
            let done = self.done.recv().map_err(|_| gone())?;
            self.under_way.pop_front();
            let done = done?;
            if done.direction == direction {
                return Ok(Some(done));
            }
            self.arrived.push_back(done);
        }
        Ok(None)
    }
}

impl Drop for Transfers {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn gone() -> Error {
    Error::TableStore {
        path: std::path::PathBuf::new(),
        problem: "the thread that moves rows has ended; please report this".into(),
    }
}

impl Job {
    fn run(self) -> Result<Done, Error> {
        let began = Instant::now();
        let Self { direction, mut tables } = self;
        let bytes = tables.par_iter_mut().map(|(below, records)| match direction {
            Direction::Fetch => records.fetch(below),
            Direction::WriteBack => records.write_back(below),
        });
        let bytes = bytes.try_reduce(|| 0, |a, b| Ok(a + b))?;
        let at = Instant::now();
        let records = tables.into_iter().map(|(_, records)| records).collect();
        Ok(Done { direction, records, at, took: at - began, bytes })
    }
}

impl Records {
    /// Reads the rows, and gives those that are in no file their initial weights. Returns the bytes that were read.
    fn fetch(&mut self, below: &Below) -> Result<u64, Error> {
        let Below { file, initial } = below;
        self.bytes.resize(self.rows.len() * file.record, 0);
        let records = self.bytes.par_chunks_exact_mut(file.record);
        let rows = records.zip(&self.rows).zip(&self.stored);
        rows.try_for_each_init(AlignedBytes::default, |buffer, ((record, &row), &stored)| {
            if !stored {
                initial.write(row as usize, record);
                return Ok(());
            }
            file.read_unit(&[row], buffer, |_, bytes| record.copy_from_slice(bytes))
        })?;
        let read = self.stored.iter().filter(|&&stored| stored).count();
        Ok((read * file.stride) as u64)
    }

    /// Writes the rows. Returns the bytes that were written.
    fn write_back(&mut self, below: &Below) -> Result<u64, Error> {
        let file = &below.file;
        // Rows of one block are written together, by one thread.
        let (rows, per_unit) = (&self.rows, file.rows_per_unit() as u32);
        let mut starts: Vec<usize> =
            (0..rows.len()).filter(|&i| i == 0 || rows[i] / per_unit != rows[i - 1] / per_unit).collect();
        starts.push(rows.len());
        let units = starts.par_windows(2);
        units.try_for_each_init(AlignedBytes::default, |buffer, pair| {
            let records = &self.bytes[pair[0] * file.record..pair[1] * file.record];
            file.write_unit(&rows[pair[0]..pair[1]], records, buffer)
        })?;
        Ok((rows.len() * file.stride) as u64)
    }
}
