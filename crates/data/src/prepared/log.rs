//! A prepared log, mapped into memory.

use super::block::{BlockLayout, Shape, Starts, computed_checksum, stated_checksum};
use super::bound::BoundLog;
use super::manifest::{Checksummed, Manifest, PreparedFeature, Values, digits};
use super::{ALIGNMENT, INDEX, INDEX_ENTRY, MANIFEST, SAMPLES, header};
use crate::DataError;
use crate::mapped::Mapping;
use spec::feature::{Feature, Hotness};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// A prepared log. All ranks of a process share one: [`bind`](Self::bind) makes a reader for each.
///
/// The files must not change while the log is open. If they are overwritten, readers get wrong samples or errors; if they are
/// cut short, the operating system ends the process. Preparing the log again is harmless: that creates new files.
#[derive(Debug)]
pub struct PreparedLog {
    folder: PathBuf,
    manifest: Manifest,
    shape: Shape,
    samples: Mapping,
    index: Vec<Entry>,
    /// Whether each block has been checked since the log was opened.
    checked: Vec<AtomicBool>,
    /// What a user can do about damage, instead of preparing the log again.
    remedy: Option<String>,
}

/// Location of a block in samples.bin.
#[derive(Debug)]
struct Entry {
    bytes: Range<usize>,
    checksum: u64,
}

impl PreparedLog {
    /// Opens the log in `folder`. Checks the manifest, the index, and that samples.bin is as long as it should be; blocks
    /// are checked when they are read, or all at once by [`verify`](Self::verify).
    pub fn open(folder: &Path) -> Result<Self, DataError> {
        let manifest = Manifest::read(folder)?;
        let index = read_index(folder, &manifest)?;
        let samples = open_file(folder, SAMPLES, &manifest.files.samples)?;
        let shape = Shape::of(&manifest);
        let expected = header(manifest.block_samples, &shape);
        if samples.bytes().get(..ALIGNMENT) != Some(&expected) {
            return Err(damaged(samples.path(), "its header is not the one the manifest calls for"));
        }
        Ok(Self {
            folder: folder.to_owned(),
            shape,
            manifest,
            samples,
            checked: index.iter().map(|_| AtomicBool::new(false)).collect(),
            index,
            remedy: None,
        })
    }

    /// Sets what errors about damage tell users to do.
    pub fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    /// Description of the log.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Folder of the log.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Features of a model for this log. `rows` may give the number of rows of the table of a hashed feature; otherwise the
    /// schema must. Tables of vocabularies and row numbers have the rows that they need.
    pub fn features(&self, rows: impl Fn(&str) -> Option<usize>) -> Result<Vec<Feature>, DataError> {
        let feature = |(feature, column): (&PreparedFeature, &spec::schema::SparseColumn)| {
            let rows = match feature.values {
                Values::Rows(rows) => Some(rows as usize),
                Values::Hashed => rows(&feature.name).or(feature.rows),
            };
            let Some(rows) = rows else {
                return Err(self.refuse(
                    &feature.name,
                    "its ids are hashed, so its table needs a number of rows; set `rows`",
                ));
            };
            let mean = column.mean_ids.unwrap_or(feature.mean_ids.round() as u32);
            Ok(column.feature(rows, mean))
        };
        self.manifest.features.iter().zip(&self.manifest.schema.sparse).map(feature).collect()
    }

    /// Makes a reader for a model with these features and `dense` dense inputs, which must be those of the log, in its order.
    pub fn bind(self: Arc<Self>, features: &[Feature], dense: usize) -> Result<BoundLog, DataError> {
        let (got, expected) = ((features.len(), dense), (self.shape.sparse.len(), self.shape.dense));
        if got != expected {
            let problem = format!(
                "the model has {} features and {} dense inputs, the log {} and {}",
                got.0, got.1, expected.0, expected.1
            );
            return Err(DataError::file(self.folder.join(MANIFEST), problem));
        }
        for (theirs, ours) in features.iter().zip(&self.manifest.features) {
            let say = |flag| if flag { "" } else { "not " };
            let many = matches!(theirs.hotness, Hotness::Many { .. });
            let refuse = |problem: String| Err(self.refuse(&ours.name, &problem));
            if theirs.name != ours.name {
                return refuse(format!("the model has {} in its place", theirs.name));
            }
            if many != ours.many {
                return refuse(format!("many ids in a sample are {}what the model expects", say(many)));
            }
            if theirs.weighted != ours.weighted {
                return refuse(format!("weights are {}what the model expects", say(theirs.weighted)));
            }
            match ours.values {
                Values::Rows(rows) if theirs.rows as u64 != rows => {
                    return refuse(format!(
                        "it needs a table of {rows} rows, the model's has {}",
                        theirs.rows
                    ));
                }
                Values::Hashed if theirs.rows == 0 || theirs.rows as u64 > super::MAX_ROWS => {
                    return refuse(format!("the model's table has {} rows (1 to 2³²)", theirs.rows));
                }
                _ => (),
            }
        }
        Ok(BoundLog::new(self, features))
    }

    /// Reads and checks all blocks. `progress` is called with the number of blocks checked so far.
    pub fn verify(&self, progress: &dyn Fn(u64)) -> Result<(), DataError> {
        let (mut layout, mut starts) = (BlockLayout::default(), Starts::default());
        let mut hash = Xxh3::new();
        hash.update(&self.samples.bytes()[..ALIGNMENT]);
        for (number, entry) in self.index.iter().enumerate() {
            self.check_contents(number)?;
            self.locate(number, &mut layout, &mut starts)?;
            self.check_rows(number, &layout)?;
            hash.update(&self.samples.bytes()[entry.bytes.clone()]);
            progress(number as u64 + 1);
        }
        if digits(hash.digest()) != self.manifest.files.samples.xxh3 {
            return Err(self.damaged("its checksum does not match the manifest"));
        }
        Ok(())
    }

    /// Words of a block. Panics if there is no block of that number.
    pub(super) fn words(&self, number: usize) -> &[u32] {
        let bytes = &self.samples.bytes()[self.index[number].bytes.clone()];
        // Blocks begin at multiples of 64 bytes in a page-aligned mapping, so this always fits.
        bytemuck::try_cast_slice(bytes).unwrap_or_default()
    }

    /// Finds the offsets in a block, after checking the block if that has not been done yet.
    pub(super) fn enter(
        &self,
        number: usize,
        layout: &mut BlockLayout,
        starts: &mut Starts,
    ) -> Result<(), DataError> {
        // Two readers may check the same block at once, which is wasteful but harmless.
        let checked = self.checked[number].load(Ordering::Relaxed);
        if !checked {
            self.check_contents(number)?;
        }
        self.locate(number, layout, starts)?;
        if !checked {
            self.check_rows(number, layout)?;
            self.checked[number].store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Error about a feature that changed after its block was checked.
    pub(super) fn changed(&self, feature: &str) -> DataError {
        self.damaged(&format!("feature {feature} was changed while it was read"))
    }

    /// Error about a damaged block.
    fn damaged_block(&self, number: usize, what: &str) -> DataError {
        let first = number as u64 * u64::from(self.manifest.block_samples);
        self.damaged(&format!("block {number}, from sample {first} on: {what}"))
    }

    /// Error about a damaged file of samples.
    fn damaged(&self, what: &str) -> DataError {
        match &self.remedy {
            None => damaged(self.samples.path(), what),
            Some(remedy) => DataError::file(self.samples.path(), format!("is damaged ({what}); {remedy}")),
        }
    }

    fn check_contents(&self, number: usize) -> Result<(), DataError> {
        let words = self.words(number);
        let (expected, computed) = (self.index[number].checksum, computed_checksum(words));
        if computed != expected || stated_checksum(words) != Some(expected) {
            let problem = format!("its checksum is {}, expected {}", digits(computed), digits(expected));
            return Err(self.damaged_block(number, &problem));
        }
        Ok(())
    }

    fn locate(&self, number: usize, layout: &mut BlockLayout, starts: &mut Starts) -> Result<(), DataError> {
        let size = u64::from(self.manifest.block_samples);
        let samples = size.min(self.manifest.samples - number as u64 * size) as usize;
        let words = self.words(number);
        let found =
            layout.read(&self.shape, samples, words).and_then(|()| starts.set(&self.shape, layout, words));
        found.map_err(|problem| self.damaged_block(number, &problem))
    }

    fn check_rows(&self, number: usize, layout: &BlockLayout) -> Result<(), DataError> {
        let words = self.words(number);
        if self.shape.weighted {
            let weights: &[f32] = bytemuck::cast_slice(&words[layout.sample_weights..layout.dense]);
            if let Some(weight) = weights.iter().find(|weight| !(weight.is_finite() && **weight >= 0.0)) {
                return Err(self.damaged_block(number, &format!("a sample weight is {weight}")));
            }
        }
        for (feature, sections) in self.manifest.features.iter().zip(&layout.sparse) {
            let largest = words[sections.values..][..sections.count].iter().max();
            if let (Values::Rows(rows), Some(&row)) = (feature.values, largest)
                && u64::from(row) >= rows
            {
                let problem = format!("feature {} has row {row} of a table of {rows}", feature.name);
                return Err(self.damaged_block(number, &problem));
            }
        }
        Ok(())
    }

    /// Error about a feature that does not match the model.
    fn refuse(&self, feature: &str, problem: &str) -> DataError {
        DataError::file(self.folder.join(MANIFEST), format!("feature {feature}: {problem}"))
    }
}

fn damaged(path: &Path, what: &str) -> DataError {
    DataError::file(path, format!("is damaged ({what}); prepare the log again"))
}

/// Maps a file of the log and checks its size.
fn open_file(folder: &Path, name: &str, expected: &Checksummed) -> Result<Mapping, DataError> {
    let file = Mapping::open(folder.join(name))?;
    let bytes = file.bytes().len() as u64;
    if bytes != expected.bytes {
        return Err(damaged(file.path(), &format!("it has {bytes} bytes, expected {}", expected.bytes)));
    }
    Ok(file)
}

/// Reads the locations of the blocks, which must fill samples.bin without a gap.
fn read_index(folder: &Path, manifest: &Manifest) -> Result<Vec<Entry>, DataError> {
    let file = open_file(folder, INDEX, &manifest.files.index)?;
    let refuse = |what: &str| damaged(file.path(), what);
    if digits(xxh3_64(file.bytes())) != manifest.files.index.xxh3 {
        return Err(refuse("its checksum does not match the manifest"));
    }
    let (entries, rest) = file.bytes().as_chunks::<INDEX_ENTRY>();
    if entries.len() as u64 != manifest.blocks() || !rest.is_empty() {
        let problem = format!("{} bytes for {} blocks", file.bytes().len(), manifest.blocks());
        return Err(refuse(&problem));
    }
    let mut at = ALIGNMENT as u64;
    let mut index = Vec::with_capacity(entries.len());
    for (number, entry) in entries.iter().enumerate() {
        let [offset, bytes, checksum]: [u64; 3] = bytemuck::pod_read_unaligned(entry);
        let end = offset.checked_add(bytes).filter(|&end| end <= manifest.files.samples.bytes);
        let (true, Some(end)) = (offset == at && bytes % ALIGNMENT as u64 == 0, end) else {
            return Err(refuse(&format!("block {number} has {bytes} bytes at {offset}, expected at {at}")));
        };
        index.push(Entry { bytes: offset as usize..end as usize, checksum });
        at = end;
    }
    if at != manifest.files.samples.bytes {
        return Err(refuse(&format!("blocks end at {at}, samples at {}", manifest.files.samples.bytes)));
    }
    Ok(index)
}
