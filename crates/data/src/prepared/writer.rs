//! Writes a prepared log.

use super::block::Shape;
use super::filling::Filling;
use super::manifest::{
    BadLineSummary, Checksummed, Files, KeptTexts, LabelClicks, LogSource, Manifest, PreparedFeature, Values,
    WeightSummary, digits,
};
use super::{INDEX, MANIFEST, MAX_BLOCK_SAMPLES, MAX_ROWS, SAMPLES, VERSION, header};
use crate::samples::Names;
use crate::warnings::SampleObserver;
use crate::{DataError, Samples};
use bytemuck::cast_slice;
use spec::schema::{IdRule, LearntTransform, Schema, SparseColumn};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

/// Options of writing a prepared log.
#[derive(Clone, Copy, Debug)]
pub struct WriterOptions {
    /// Number of samples of a block, at least 1.
    pub block_samples: u32,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self { block_samples: 8192 }
    }
}

/// Fields of a manifest that do not follow from the samples.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Files from which the log was prepared.
    pub source: LogSource,
    /// Bad lines, which were left out.
    pub bad_lines: BadLineSummary,
    /// Names of the files with vocabularies in the folder, by feature.
    pub vocabularies: BTreeMap<String, String>,
    /// Transforms of the dense columns with their learnt values; `None` if nothing is learnt.
    pub transforms: Option<Vec<LearntTransform>>,
}

/// Writer of a prepared log, one block after the other.
///
/// The writer holds two blocks in memory, one that is being filled and one that is being written. A writer that is dropped
/// before [`finish`](Self::finish) removes its files.
pub struct Writer {
    folder: PathBuf,
    manifest: Manifest,
    filling: Filling,
    observer: SampleObserver,
    /// Texts of each kept column.
    names: Vec<Names>,
    pub(super) samples: Output,
    index: Output,
    /// Whether writing a block failed, so that the files are not the beginning of a log.
    broken: bool,
}

/// A file that is being written, and the checksum of its contents so far.
pub(super) struct Output {
    path: PathBuf,
    file: BufWriter<File>,
    hash: Box<Xxh3>,
    bytes: u64,
    /// Whether the file is kept when this value is dropped.
    keep: bool,
}

impl Writer {
    /// Begins a log in `folder`, which is created if necessary. `rows` gives the number of rows of each table, by sparse column:
    /// required for vocabularies, and for row numbers unless the schema has it. An existing log in the folder is removed;
    /// processes that have it mapped can still read it.
    pub fn create(
        folder: &Path,
        schema: &Schema,
        rows: &[Option<usize>],
        options: WriterOptions,
    ) -> Result<Self, DataError> {
        let refuse = |problem: String| DataError::file(folder, problem);
        schema.check().map_err(|e| refuse(format!("cannot be written: {e}")))?;
        if rows.len() != schema.sparse.len() {
            let problem = format!("rows of {} columns for {}", rows.len(), schema.sparse.len());
            return Err(refuse(problem));
        }
        if !(1..=MAX_BLOCK_SAMPLES).contains(&options.block_samples) {
            let problem = format!("blocks of {} samples (1 to {MAX_BLOCK_SAMPLES})", options.block_samples);
            return Err(refuse(problem));
        }
        let features: Result<_, _> =
            schema.sparse.iter().zip(rows).map(|(column, &rows)| feature(column, rows)).collect();
        let manifest = Manifest {
            version: VERSION,
            samples: 0,
            clicks: 0,
            labels: schema
                .labels
                .iter()
                .map(|label| LabelClicks { column: label.column.clone(), clicks: 0 })
                .collect(),
            sample_weights: schema.weight.as_ref().map(|_| WeightSummary::default()),
            kept: schema.keep.iter().map(|name| KeptTexts { column: name.clone(), texts: vec![] }).collect(),
            block_samples: options.block_samples,
            dense: schema.dense.iter().map(|dense| dense.column.clone()).collect(),
            features: features.map_err(refuse)?,
            schema: schema.clone(),
            source: LogSource::default(),
            bad_lines: BadLineSummary::default(),
            noticed: None,
            vocabularies: BTreeMap::new(),
            transforms: None,
            files: Files { samples: Checksummed::none(), index: Checksummed::none() },
            checksum: String::new(),
        };
        let shape = Shape::of(&manifest);
        fs::create_dir_all(folder).map_err(|e| refuse(format!("cannot be created: {e}")))?;
        // The manifest is removed first: from here on the folder is not a prepared log.
        for name in [MANIFEST, SAMPLES, INDEX] {
            let path = folder.join(name);
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(DataError::file(path, format!("cannot be removed: {e}")));
                }
                _ => (),
            }
        }
        let mut samples = Output::create(folder.join(SAMPLES))?;
        samples.write(&header(options.block_samples, &shape))?;
        Ok(Self {
            folder: folder.to_owned(),
            filling: Filling::new(shape, &manifest.features),
            observer: SampleObserver::new(schema),
            names: vec![Names::default(); schema.keep.len()],
            manifest,
            samples,
            index: Output::create(folder.join(INDEX))?,
            broken: false,
        })
    }

    /// Appends samples, which must have the columns of the schema. If they do not, none of them is appended. After an error of
    /// writing a block, nothing more can be appended.
    pub fn append(&mut self, samples: &Samples) -> Result<(), DataError> {
        self.check_whole()?;
        self.filling.check(samples).map_err(|problem| {
            let number = self.manifest.samples;
            DataError::file(&self.folder, format!("cannot append behind sample {number}: {problem}"))
        })?;
        let mut ids = vec![0; samples.bags.len()];
        let mut start = 0;
        while start < samples.len() {
            let room = self.manifest.block_samples as usize - self.filling.len();
            let end = samples.len().min(start + room);
            self.filling.append(samples, start..end, &mut ids);
            if self.filling.len() == self.manifest.block_samples as usize {
                self.write_block()?;
            }
            start = end;
        }
        self.observer.add(samples);
        self.count(samples);
        Ok(())
    }

    /// Counts appended samples in the manifest.
    fn count(&mut self, samples: &Samples) {
        let manifest = &mut self.manifest;
        if let Some(summary) = &mut manifest.sample_weights
            && let Some(&first) = samples.weights.first()
        {
            if manifest.samples == 0 {
                (summary.min, summary.max) = (first, first);
            }
            for &weight in &samples.weights {
                summary.min = summary.min.min(weight);
                summary.max = summary.max.max(weight);
                summary.sum += f64::from(weight);
            }
        }
        manifest.samples += samples.len() as u64;
        manifest.clicks += samples.first_labels().filter(|&label| label == 1.0).count() as u64;
        for (at, label) in manifest.labels.iter_mut().enumerate() {
            let labels = samples.labels.iter().skip(at).step_by(samples.label_count());
            label.clicks += labels.filter(|&&label| label == 1.0).count() as u64;
        }
        for (names, kept) in self.names.iter_mut().zip(&samples.kept) {
            names.add_all(&kept.names);
        }
    }

    /// Writes the remaining samples and then the manifest, which makes the folder a prepared log.
    pub fn finish(mut self, about: About) -> Result<Manifest, DataError> {
        self.check_whole()?;
        if self.filling.len() > 0 {
            self.write_block()?;
        }
        self.filling.count(self.manifest.samples, &mut self.manifest.features);
        self.manifest.noticed = Some(self.observer.noticed());
        for (kept, names) in self.manifest.kept.iter_mut().zip(&self.names) {
            kept.texts = names.texts().to_vec();
        }
        self.manifest.source = about.source;
        self.manifest.bad_lines = about.bad_lines;
        self.manifest.vocabularies = about.vocabularies;
        self.manifest.transforms = about.transforms;
        self.manifest.files = Files { samples: self.samples.finish()?, index: self.index.finish()? };
        self.manifest.write(&self.folder)?;
        self.samples.keep = true;
        self.index.keep = true;
        Ok(self.manifest)
    }

    fn write_block(&mut self) -> Result<(), DataError> {
        self.broken = true;
        let (words, checksum) =
            self.filling.encode().map_err(|problem| DataError::file(&self.samples.path, problem))?;
        let entry = [self.samples.bytes, size_of_val(words) as u64, checksum];
        self.samples.write(cast_slice(words))?;
        self.index.write(cast_slice(&entry))?;
        self.broken = false;
        Ok(())
    }

    fn check_whole(&self) -> Result<(), DataError> {
        if self.broken {
            return Err(DataError::file(
                &self.samples.path,
                "an earlier block could not be written; begin again",
            ));
        }
        Ok(())
    }
}

/// Feature of a column, without its counts.
fn feature(column: &SparseColumn, rows: Option<usize>) -> Result<PreparedFeature, String> {
    let values = match (column.ids, rows.or(column.rows)) {
        (IdRule::Hash, _) => Values::Hashed,
        (_, Some(rows)) if (1..=MAX_ROWS).contains(&(rows as u64)) => Values::Rows(rows as u64),
        (_, rows) => {
            let rows = rows.map_or("an unknown number of".into(), |rows| rows.to_string());
            return Err(format!("column {}: a table of {rows} rows (1 to 2³²)", column.column));
        }
    };
    Ok(PreparedFeature {
        name: column.column.clone(),
        values,
        many: column.many(),
        weighted: column.weighted(),
        pooling: column.pooling,
        rows: column.rows,
        mean_ids: 0.0,
        max_ids: 0,
    })
}

impl Checksummed {
    fn none() -> Self {
        Self { bytes: 0, xxh3: String::new() }
    }
}

impl Output {
    fn create(path: PathBuf) -> Result<Self, DataError> {
        let file =
            File::create_new(&path).map_err(|e| DataError::file(&path, format!("cannot be written: {e}")))?;
        Ok(Self::to(path, file))
    }

    pub(super) fn to(path: PathBuf, file: File) -> Self {
        Self { path, file: BufWriter::new(file), hash: Box::new(Xxh3::new()), bytes: 0, keep: false }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        let written = self.file.write_all(bytes);
        written.map_err(|e| DataError::file(&self.path, format!("cannot be written: {e}")))
    }

    /// Synchronizes the file to disk, and returns its size and checksum.
    fn finish(&mut self) -> Result<Checksummed, DataError> {
        let written = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        written.map_err(|e| DataError::file(&self.path, format!("cannot be written: {e}")))?;
        Ok(Checksummed { bytes: self.bytes, xxh3: digits(self.hash.digest()) })
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.keep {
            // The caller already has a more important error than a file that cannot be removed.
            let _ = fs::remove_file(&self.path);
        }
    }
}
