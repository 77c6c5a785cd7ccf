//! Tables larger than memory: all rows lie in files, and those that batches need in memory.
//!
//! ```text
//! find cached rows   ahead: ids become slots; rows that are missing get one, and changed rows that leave are copied out
//! fetch rows         ahead, beside the computation: missing rows are read
//! write back rows    ahead, beside the computation: rows that left are written
//! place rows         before the lookup: what was read goes into its slots
//! ```
//!
//! Lookups and updates see slots as if they were rows. Rows are summed by sample and changed one by one, so that every bit is that of
//! a table in memory. Rows of the batch that computes and of the one that is fetched never leave memory; where their sets have no slot left,
//! they lie in scratch, which two batches bound.

mod bytes;
mod directory;
mod initial;
mod record;
mod row_file;
mod rows;
mod table;
mod transfers;

pub(crate) use rows::{TableRows, TableRowsMut};
pub use table::CachedTable;

use crate::Error;
use collectives::{Communicator, Label};
use directory::Directory;
use initial::InitialRows;
use kernels::{Device, KernelError, RowCopies, Table};
use record::RecordShape;
use row_file::RowFile;
use serde::Serialize;
use spec::model::Model;
use spec::placement::Shard;
use spec::random::RandomSequence;
use spec::run::Run;
use spec::table_cache::TableCache;
use std::fs::File;
use std::ops::Range;
use std::time::{Duration, Instant};
use transfers::{Below, Direction, Done, Records, Transfers};

/// The tables of a rank that are larger than its memory.
#[derive(Debug)]
pub struct RowCache {
    /// By table of the rank; `None` for those that are in memory whole.
    tables: Vec<Option<CachedTable>>,
    transfers: Transfers,
    /// Rows to be fetched, and to be written back, that were not set out yet.
    waiting: [Vec<(Below, Records)>; 2],
    /// Rows that were fetched, but not placed.
    fetched: Vec<Records>,
    /// Ids of a batch, and those of one table.
    ids: [Vec<u32>; 2],
    copies: RowCopies,
    counts: CacheCounts,
}

/// Ids of a batch, of all tables of the rank.
pub trait BatchIds {
    /// Reads all ids.
    fn read(&self, ids: &mut Vec<u32>) -> Result<(), Error>;

    /// Ranges of the ids of a table among all.
    fn ranges(&self, table: usize) -> impl Iterator<Item = Range<usize>>;

    /// Puts as many others in the place of all ids.
    fn replace(&mut self, ids: &[u32]) -> Result<(), Error>;
}

/// What cached tables did, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CacheCounts {
    /// Different rows that batches needed, added up over batches and tables.
    pub rows: u64,
    /// Those that were not in memory.
    pub missing: u64,
    /// Bytes that were read from files.
    pub bytes_read: u64,
    /// Bytes that were written to files.
    pub bytes_written: u64,
    /// Time for which the computation waited for rows, in seconds.
    pub stall_s: f64,
    /// Time for which rows were read and written, in seconds.
    pub io_s: f64,
}

impl CacheCounts {
    /// Share of the rows that were in memory; 1 where no row was needed.
    pub fn hit_rate(&self) -> f64 {
        if self.rows == 0 { 1.0 } else { 1.0 - self.missing as f64 / self.rows as f64 }
    }

    /// The numbers without those of `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            rows: self.rows - before.rows,
            missing: self.missing - before.missing,
            bytes_read: self.bytes_read - before.bytes_read,
            bytes_written: self.bytes_written - before.bytes_written,
            stall_s: self.stall_s - before.stall_s,
            io_s: self.io_s - before.io_s,
        }
    }

    /// The numbers and those of `other`.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            missing: self.missing + other.missing,
            bytes_read: self.bytes_read + other.bytes_read,
            bytes_written: self.bytes_written + other.bytes_written,
            stall_s: self.stall_s + other.stall_s,
            io_s: self.io_s + other.io_s,
        }
    }

    /// Numbers of all ranks of a run, of which this one has `mine`: means of times, and sums of all else. `None` where all tables are in
    /// memory.
    pub(crate) fn of_world(world: &Communicator, run: &Run, mine: Self) -> Result<Option<Self>, Error> {
        if run.table_cache.as_ref().and_then(TableCache::fetched).is_none() {
            return Ok(None);
        }
        let Self { rows, missing, bytes_read, bytes_written, stall_s, io_s } = mine;
        let mut sums = [rows as f64, missing as f64, bytes_read as f64, bytes_written as f64, stall_s, io_s];
        world.all_reduce_f64(&Label::from("report"), &mut sums)?;
        let [rows, missing, bytes_read, bytes_written, stall_s, io_s] = sums;
        let mean = |seconds: f64| seconds / world.size() as f64;
        Ok(Some(Self {
            rows: rows as u64,
            missing: missing as u64,
            bytes_read: bytes_read as u64,
            bytes_written: bytes_written as u64,
            stall_s: mean(stall_s),
            io_s: mean(io_s),
        }))
    }
}

impl RowCache {
    /// A cache of these tables of a rank on `device`, with its threads.
    pub fn new(device: &Device, tables: Vec<Option<CachedTable>>) -> Result<Self, Error> {
        Ok(Self {
            tables,
            transfers: Transfers::new()?,
            waiting: Default::default(),
            fetched: Vec::new(),
            ids: Default::default(),
            copies: RowCopies::new(device),
            counts: CacheCounts::default(),
        })
    }

    /// The files and the directory of one shard, with `slots` slots in sets and `scratch` beside them. Rows that were never changed are
    /// drawn by `seed` when they are needed.
    pub fn table(
        (device, cache): (&Device, &TableCache),
        (model, shard): (&Model, &Shard),
        state: usize,
        [slots, scratch]: [usize; 2],
        (seed, rank): (u64, usize),
    ) -> Result<CachedTable, Error> {
        let feature = &model.features()[shard.feature];
        let (rows, columns) = (shard.rows.len(), shard.columns.clone());
        let shape = RecordShape { dim: columns.len(), format: model.table_format(shard.feature), state };
        let name = format!("{}.{rank}.{}.{}", shard.feature, shard.rows.start, columns.start);
        let file = RowFile::create(&cache.store, &name, rows, shape.bytes())?;
        let initial = InitialRows {
            sequence: RandomSequence::new(seed, &format!("table.{}", feature.name)),
            bound: 1.0 / (feature.rows as f32).sqrt(),
            width: model.row_width(shard.feature),
            first_row: shard.rows.start,
            columns,
            shape,
        };
        let directory = Directory::new(slots, scratch, cache.policy);
        Ok(CachedTable::new(device, rows, shape, directory, file, initial))
    }

    /// Files for weights and optimizer state of a shard that is mapped.
    pub fn mapped_files(cache: &TableCache, (shard, rank): (&Shard, usize)) -> Result<[File; 2], Error> {
        let name = |what: &str| {
            format!("{}.{rank}.{}.{}.{what}", shard.feature, shard.rows.start, shard.columns.start)
        };
        let new = |what| row_file::create(&cache.store, &name(what), false).map(|made| made.file);
        Ok([new("weights")?, new("state")?])
    }

    /// One table of the rank, if it is not in memory whole.
    pub fn of(&self, table: usize) -> Option<&CachedTable> {
        self.tables.get(table)?.as_ref()
    }

    /// One table of the rank, to be changed, if it is not in memory whole.
    pub fn of_mut(&mut self, table: usize) -> Option<&mut CachedTable> {
        self.tables.get_mut(table)?.as_mut()
    }

    /// What was done so far.
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Finds the rows of a batch: its ids become slots. Says what is to be fetched, and copies out what leaves. `changes` says whether
    /// the batch will change its rows, and `step` how many steps were made: rows that leave are rounded by it, where they are.
    pub fn find(
        &mut self,
        device: &Device,
        batch: &mut impl BatchIds,
        tables: &mut [Table],
        (changes, step): (bool, u64),
    ) -> Result<(), Error> {
        // A run that ended early may have left rows on their way.
        self.settle(device, tables)?;
        let Self { tables: cached, waiting, ids: [all, ids], copies, counts, .. } = self;
        batch.read(all)?;
        for (index, (cached, table)) in cached.iter_mut().zip(tables).enumerate() {
            let Some(cached) = cached else { continue };
            let rows = cached.rows();
            ids.clear();
            batch.ranges(index).for_each(|range| ids.extend_from_slice(&all[range]));
            if let Some(&id) = ids.iter().find(|&&id| id as usize >= rows) {
                return Err(KernelError::IdOutOfRange { table: index, id, rows }.into());
            }
            let directory = cached.directory();
            directory.find(ids, changes)?;
            let mut found = ids.as_slice();
            for range in batch.ranges(index) {
                let (here, rest) = found.split_at(range.len());
                all[range].copy_from_slice(here);
                found = rest;
            }
            counts.rows += directory.distinct;
            counts.missing += directory.missing.len() as u64;
            if directory.slots() > table.rows {
                table.grow(directory.slots())?;
            }
            let [fetch, write_back] = &mut *waiting;
            write_back.extend(cached.evicted_records(copies, (index, table), step)?);
            fetch.extend(cached.missing_records(index));
        }
        batch.replace(all)
    }

    /// Sets out what [`RowCache::find`] found missing.
    pub fn start_fetch(&mut self) -> Result<(), Error> {
        self.transfers.start(Direction::Fetch, std::mem::take(&mut self.waiting[0]))
    }

    /// Sets out the rows that left memory.
    pub fn start_write_back(&mut self) -> Result<(), Error> {
        self.transfers.start(Direction::WriteBack, std::mem::take(&mut self.waiting[1]))
    }

    /// Waits for rows to arrive, and says when they had; `None` where none are on their way.
    pub fn finish_fetch(&mut self) -> Result<Option<Instant>, Error> {
        let Some(done) = self.finish(Direction::Fetch)? else { return Ok(None) };
        self.counts.bytes_read += done.bytes;
        self.fetched.extend(done.records);
        Ok(Some(done.at))
    }

    /// Waits for rows to be written, and says when they were; `None` where none are on their way.
    pub fn finish_write_back(&mut self) -> Result<Option<Instant>, Error> {
        let Some(done) = self.finish(Direction::WriteBack)? else { return Ok(None) };
        self.counts.bytes_written += done.bytes;
        let at = done.at;
        done.records.into_iter().for_each(|records| self.give_back(records));
        Ok(Some(at))
    }

    fn finish(&mut self, direction: Direction) -> Result<Option<Done>, Error> {
        let began = Instant::now();
        let done = self.transfers.finish(direction)?;
        if let Some(done) = &done {
            self.counts.stall_s += began.elapsed().as_secs_f64();
            self.counts.io_s += Duration::as_secs_f64(&done.took);
        }
        Ok(done)
    }

    /// Puts the rows that arrived into their slots.
    pub fn place(&mut self, device: &Device, tables: &mut [Table]) -> Result<(), Error> {
        for records in std::mem::take(&mut self.fetched) {
            if let Some(cached) = &self.tables[records.table] {
                cached.place(device, &mut self.copies, &records, &mut tables[records.table])?;
            }
            self.give_back(records);
        }
        Ok(())
    }

    /// Waits for everything under way, and places what arrived: then memory and files hold all rows.
    pub fn settle(&mut self, device: &Device, tables: &mut [Table]) -> Result<(), Error> {
        if !self.waiting.iter().all(Vec::is_empty) {
            self.start_fetch()?;
            self.start_write_back()?;
        }
        while self.finish_fetch()?.is_some() {}
        while self.finish_write_back()?.is_some() {}
        self.place(device, tables)
    }

    fn give_back(&mut self, records: Records) {
        if let Some(cached) = &mut self.tables[records.table] {
            cached.give_back(records);
        }
    }
}
