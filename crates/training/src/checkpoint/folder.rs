//! The folder in which a run keeps its checkpoints.

use super::manifest::{self, Manifest};
use super::names::{folder_name, step_of};
use super::read::read_manifest;
use super::whole::write_whole;
use super::{Checkpoint, CheckpointError, RankFile};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

const WRITING: &str = ".writing-";
const DELETING: &str = ".deleting-";
/// Before the name of a checkpoint that was found damaged and is in nobody's way.
const DAMAGED: &str = "damaged-";
/// Name of the folder of checkpoints in the folder of a run.
const IN_RUN: &str = "checkpoints";

/// A folder of checkpoints. One run at a time has it open, in the rank that begins and commits. Readers need not open
/// it.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
    /// Held by whoever replaces the manifest of a complete checkpoint, which a compaction beside the training does too.
    replacing: Arc<Mutex<()>>,
}

impl Folder {
    /// Makes the folder if need be, and sweeps away what a killed run left half written or half deleted.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, CheckpointError> {
        let root = root.into();
        let missing = root.ancestors().take_while(|folder| !folder.exists()).count();
        fs::create_dir_all(&root).map_err(CheckpointError::io("create", &root))?;
        root.ancestors().skip(1).take(missing).try_for_each(sync_folder)?;
        for entry in fs::read_dir(&root).map_err(CheckpointError::io("list", &root))? {
            let entry = entry.map_err(CheckpointError::io("list", &root))?;
            let name = entry.file_name();
            let leftover = [WRITING, DELETING].iter().any(|prefix| {
                name.to_str().and_then(|name| name.strip_prefix(prefix)).and_then(step_of).is_some()
            });
            let path = entry.path();
            // Of the entry itself: a link to a folder is not ours.
            if leftover && entry.file_type().map_err(CheckpointError::io("look at", &path))?.is_dir() {
                remove_all(&path)?;
            }
        }
        let folder = Self { root, replacing: Arc::default() };
        for (_, path) in folder.list()? {
            // What is damaged is left as it is, for whoever reads it to say so.
            if let Ok(manifest) = read_manifest(&path.join(manifest::NAME)) {
                folder.sweep_files(&path, &manifest)?;
            }
        }
        Ok(folder)
    }

    /// Removes files of ranks in the complete checkpoint of `step`, if it is there, that its manifest does not name: those that a compaction
    /// replaced, or left when it was stopped.
    pub fn sweep(&self, step: u64) -> Result<(), CheckpointError> {
        let path = self.of_step(step);
        if !path.exists() {
            return Ok(());
        }
        let manifest = read_manifest(&path.join(manifest::NAME))?;
        self.sweep_files(&path, &manifest)
    }

    fn sweep_files(&self, path: &Path, manifest: &Manifest) -> Result<(), CheckpointError> {
        if manifest.identity.is_none() {
            return Ok(());
        }
        for entry in fs::read_dir(path).map_err(CheckpointError::io("list", path))? {
            let entry = entry.map_err(CheckpointError::io("list", path))?;
            let (name, at) = (entry.file_name(), entry.path());
            let of_rank = name.to_str().is_some_and(|name| manifest::rank_of(name).is_some());
            if of_rank && manifest.files.iter().all(|file| *file.name != *name) {
                fs::remove_file(&at).map_err(CheckpointError::io("remove", &at))?;
            }
        }
        Ok(())
    }

    /// Replaces the files of the complete checkpoint of `step` by `written`, which stand beside them and hold everything. Who reads the old
    /// ones may go on until [`Folder::sweep`].
    pub(super) fn replace_files(&self, step: u64, written: Vec<RankFile>) -> Result<(), CheckpointError> {
        let complete = self.of_step(step);
        sync_folder(&complete)?;
        self.change_manifest(step, |manifest| manifest.hold_everything(written)).map(drop)
    }

    /// Changes the manifest of the complete checkpoint of `step`, which is replaced at once, if there is any change.
    fn change_manifest(
        &self,
        step: u64,
        change: impl FnOnce(&mut Manifest),
    ) -> Result<Manifest, CheckpointError> {
        let _one_at_a_time = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let complete = self.of_step(step);
        let path = complete.join(manifest::NAME);
        let mut manifest = read_manifest(&path)?;
        let before = manifest.clone();
        change(&mut manifest);
        if manifest != before {
            let text = manifest.to_text(&path)?;
            let partial = complete.join(format!(".{}.partial", manifest::NAME));
            write_synced(&partial, &text)?;
            fs::rename(&partial, &path).map_err(CheckpointError::io("replace", &path))?;
            sync_folder(&complete)?;
        }
        Ok(manifest)
    }

    /// The folder's path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Complete checkpoints, by step.
    pub fn list(&self) -> Result<Vec<(u64, PathBuf)>, CheckpointError> {
        list(&self.root)
    }

    /// Complete checkpoint of the highest step.
    pub fn latest(&self) -> Result<Option<(u64, PathBuf)>, CheckpointError> {
        Ok(self.list()?.pop())
    }

    /// Makes an empty folder for the files of `step`. They become a checkpoint by [`Folder::commit`].
    pub fn begin(&self, step: u64) -> Result<PathBuf, CheckpointError> {
        let path = self.of_step(step);
        if fs::symlink_metadata(&path).is_ok() {
            return Err(CheckpointError::Exists { path, step });
        }
        self.abandon(step)?;
        let writing = self.writing(step);
        fs::create_dir(&writing).map_err(CheckpointError::io("create", &writing))?;
        Ok(writing)
    }

    /// Removes what was written for `step` without a commit, if anything.
    pub fn abandon(&self, step: u64) -> Result<(), CheckpointError> {
        remove_all(&self.writing(step))
    }

    /// Completes the checkpoint of `manifest.step`, all of whose files are written. Refuses a manifest whose pieces do
    /// not make up their tensors.
    pub fn commit(&self, manifest: &Manifest) -> Result<PathBuf, CheckpointError> {
        let (writing, complete) = (self.writing(manifest.step), self.of_step(manifest.step));
        let path = writing.join(manifest::NAME);
        let text = manifest.to_text(&path)?;
        for file in &manifest.files {
            let path = writing.join(&file.name);
            let got = fs::metadata(&path).map_err(CheckpointError::io("find", &path))?.len();
            if got != file.bytes {
                return Err(CheckpointError::Size { path, got, expected: file.bytes });
            }
        }
        write_synced(&path, &text)?;
        sync_folder(&writing)?;
        fs::rename(&writing, &complete).map_err(CheckpointError::io("complete", &complete))?;
        sync_folder(&self.root)?;
        Ok(complete)
    }

    /// Deletes the checkpoint of `step`.
    pub fn remove(&self, step: u64) -> Result<(), CheckpointError> {
        let complete = self.of_step(step);
        let deleting = self.root.join(format!("{DELETING}{}", folder_name(step)));
        remove_all(&deleting)?;
        // The name goes first: a half deleted folder must not look complete.
        fs::rename(&complete, &deleting).map_err(CheckpointError::io("delete", &complete))?;
        sync_folder(&self.root)?;
        remove_all(&deleting)
    }

    /// Changes the small state of the complete checkpoint of `step`: its manifest is replaced at once.
    pub fn amend(
        &self,
        step: u64,
        change: impl FnOnce(&mut serde_json::Value),
    ) -> Result<(), CheckpointError> {
        self.change_manifest(step, |manifest| change(&mut manifest.extra)).map(drop)
    }

    /// Copies the complete checkpoint at `from`, of `step`, into this folder, unless it has one of that step.
    pub fn adopt(&self, step: u64, from: &Path) -> Result<(), CheckpointError> {
        if self.of_step(step).exists() {
            return Ok(());
        }
        let mut manifest = read_manifest(&from.join(manifest::NAME))?;
        let writing = self.begin(step)?;
        if manifest.base.is_some() {
            // What an increment builds on stays where it is.
            let written = write_whole(
                &Checkpoint::open(from)?,
                &writing,
                manifest::file_name,
                &AtomicBool::new(false),
            )?;
            manifest.hold_everything(written);
            return self.commit(&manifest).map(drop);
        }
        for file in &manifest.files {
            let to = writing.join(&file.name);
            fs::copy(from.join(&file.name), &to).map_err(CheckpointError::io("copy", &to))?;
            File::open(&to).and_then(|file| file.sync_all()).map_err(CheckpointError::io("sync", &to))?;
        }
        self.commit(&manifest).map(drop)
    }

    /// Deletes all but the `keep` latest checkpoints, that of step `best` and what these build on, the newest first. Returns the steps of
    /// those that were deleted.
    pub fn prune(&self, keep: NonZeroUsize, best: Option<u64>) -> Result<Vec<u64>, CheckpointError> {
        let mut steps: Vec<u64> = self.list()?.into_iter().map(|(step, _)| step).collect();
        let latest = steps.split_off(steps.len().saturating_sub(keep.get()));
        let mut needed = HashSet::new();
        let no_manifest_changes = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        for step in latest.into_iter().chain(best) {
            let mut next = Some(step);
            while let Some(step) = next.filter(|&step| needed.insert(step)) {
                let path = self.of_step(step);
                if !path.exists() {
                    break;
                }
                // What one that cannot be read builds on is not known, and what is older may be all that is whole.
                let Ok(manifest) = read_manifest(&path.join(manifest::NAME)) else { return Ok(Vec::new()) };
                next = manifest.base.map(|base| base.step);
            }
        }
        drop(no_manifest_changes);
        steps.retain(|step| !needed.contains(step));
        // Increments before what they build on: whoever is killed between the two leaves no increment without its base.
        steps.iter().rev().try_for_each(|&step| self.remove(step))?;
        Ok(steps)
    }

    /// Folder of the checkpoint of `step`, complete or not there.
    pub(super) fn of_step(&self, step: u64) -> PathBuf {
        self.root.join(folder_name(step))
    }

    fn writing(&self, step: u64) -> PathBuf {
        writing(&self.root, step)
    }
}

/// Folder in which all ranks write the files of `step` until they are complete, in the folder of checkpoints at `root`.
pub fn writing(root: &Path, step: u64) -> PathBuf {
    root.join(format!("{WRITING}{}", folder_name(step)))
}

/// Finds the checkpoint that `path` means: itself, the latest in it, or the latest in its sub-folder `checkpoints`.
pub fn locate(path: impl AsRef<Path>) -> Result<PathBuf, CheckpointError> {
    let path = path.as_ref();
    let not_found = || CheckpointError::NotFound { path: path.to_owned() };
    if is_checkpoint(path) {
        return Ok(path.to_owned());
    }
    candidates(path)?.into_iter().next().ok_or_else(not_found)
}

/// Whether `path` names a checkpoint, not a folder that holds some.
pub fn is_checkpoint(path: &Path) -> bool {
    path.join(manifest::NAME).is_file()
}

/// The checkpoints of the run or folder at `path`, the latest first, whole or not: those in it, or else those in its
/// sub-folder `checkpoints`.
pub fn candidates(path: &Path) -> Result<Vec<PathBuf>, CheckpointError> {
    let mut found = list(path)?;
    let inside = path.join(IN_RUN);
    if found.is_empty() && inside.is_dir() {
        found = list(&inside)?;
    }
    Ok(found.into_iter().rev().map(|(_, path)| path).collect())
}

/// Gives a damaged checkpoint another name, `damaged-step-…`, so that its step can be saved again. Nothing is deleted.
/// The new path is returned.
pub fn set_aside(checkpoint: &Path) -> Result<PathBuf, CheckpointError> {
    let name = checkpoint.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let free = |path: &PathBuf| fs::symlink_metadata(path).is_err();
    let first = checkpoint.with_file_name(format!("{DAMAGED}{name}"));
    let numbered = |i| checkpoint.with_file_name(format!("{DAMAGED}{name}.{i}"));
    let to = std::iter::once(first.clone()).chain((2..1000).map(numbered)).find(free).unwrap_or(first);
    fs::rename(checkpoint, &to).map_err(CheckpointError::io("set aside", checkpoint))?;
    checkpoint.parent().map_or(Ok(()), sync_folder)?;
    Ok(to)
}

/// The complete checkpoints in `root`, by step.
fn list(root: &Path) -> Result<Vec<(u64, PathBuf)>, CheckpointError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).map_err(CheckpointError::io("list", root))? {
        let entry = entry.map_err(CheckpointError::io("list", root))?;
        if let Some(step) = entry.file_name().to_str().and_then(step_of)
            && entry.path().is_dir()
        {
            found.push((step, entry.path()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Writes a file and brings it to the disk.
fn write_synced(path: &Path, text: &str) -> Result<(), CheckpointError> {
    let mut file = File::create(path).map_err(CheckpointError::io("create", path))?;
    file.write_all(text.as_bytes()).map_err(CheckpointError::io("write", path))?;
    file.sync_all().map_err(CheckpointError::io("sync", path))
}

/// Brings the names in a folder to the disk. No path at all is the current folder.
fn sync_folder(path: &Path) -> Result<(), CheckpointError> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path).and_then(|folder| folder.sync_all()).map_err(CheckpointError::io("sync", path))
}

/// Removes a folder, if it is there.
fn remove_all(path: &Path) -> Result<(), CheckpointError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(CheckpointError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
