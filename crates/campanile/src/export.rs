//! Exports a model for other programs: its parameters, and beside them what its inputs are.
//!
//! ```text
//! model.safetensors      parameters; or model.onnx, the model with its operations
//! model.inputs.json      schema, transforms with their learnt values, and how ids have rows
//! model.brand.csv        for each feature with a vocabulary: row, id, count
//! ```

use crate::Error;
use crate::checkpoint::{Chosen, Use, Used, folder_of, locate_to_use, open_to_use};
use crate::control::Control;
use crate::error::chain;
use crate::folder::VOCABULARIES;
use crate::inputs::{IdRows, ModelInputs, write_ids};
use crate::onnx::{self, OnnxFiles};
use crate::output::{Inputs, Output};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use training::checkpoint::{Checkpoint, Contents, export};

/// An export whose files may be written.
pub struct Export {
    from: PathBuf,
    which: Option<Use>,
    model: Output,
    format: Format,
    described: Option<Described>,
    unknown: Option<String>,
}

/// What is written as the model.
enum Format {
    Safetensors,
    /// An ONNX model, with the file for its weights where they lie apart.
    Onnx(Option<Output>),
}

/// Files that describe the inputs of the model.
struct Described {
    inputs: ModelInputs,
    json: Output,
    /// File with the ids of each feature that has a vocabulary with texts.
    ids: Vec<Option<Output>>,
}

/// Result of an export.
#[derive(Clone, Debug)]
pub struct Exported {
    /// Checkpoint that was exported.
    pub checkpoint: PathBuf,
    /// Whether the checkpoint is the best or the last of its run, or was named by the user.
    pub used: Used,
    /// Steps done in the checkpoint.
    pub step: u64,
    /// File with the weights of an ONNX model, where they are not in the file of the model.
    pub data: Option<PathBuf>,
    /// File that describes the inputs; `None` where they are not known or the log is generated.
    pub inputs: Option<PathBuf>,
    /// Files with the ids of vocabularies.
    pub ids: Vec<PathBuf>,
    /// Features whose ids are not written because their texts were not kept when the log was prepared.
    pub without_texts: Vec<String>,
    /// Why the inputs are not described, if they should be.
    pub unknown: Option<String>,
}

impl Export {
    /// Looks whether the model of the checkpoint at `from`, or of the run at `from`, may be written to `out`. Of a run, `which`
    /// checkpoint is taken: by default the best where the run keeps it, else the last. Nothing is changed.
    pub fn check(from: &Path, which: Option<Use>, out: &Path, force: bool) -> Result<Self, Error> {
        Self::check_as(from, which, out, force, |_, _| Ok(Format::Safetensors))
    }

    /// Looks whether the model may be written to `out` as an [ONNX model](crate::onnx). Its weights lie in a file `OUT.data` beside it
    /// if they are `apart`, or more than one file can hold.
    pub fn check_onnx(
        from: &Path,
        which: Option<Use>,
        out: &Path,
        force: bool,
        apart: bool,
    ) -> Result<Self, Error> {
        Self::check_as(from, which, out, force, |taken, read| {
            let data = onnx::data_file(&Checkpoint::open(taken)?, out, apart)?;
            Ok(Format::Onnx(Output::check_if_any(data.as_deref(), force, read)?))
        })
    }

    fn check_as(
        from: &Path,
        which: Option<Use>,
        out: &Path,
        force: bool,
        format: impl FnOnce(&Path, &Inputs) -> Result<Format, Error>,
    ) -> Result<Self, Error> {
        let (taken, _) = locate_to_use(from, which)?;
        let mut read = Inputs::default();
        read.add(&taken).add(folder_of(&taken).join(VOCABULARIES));
        let model = Output::check(out, force, &read)?;
        let format = format(&taken, &read)?;
        let mut export = Self { from: from.to_owned(), which, model, format, described: None, unknown: None };
        // A pipe takes the model alone. A checkpoint that cannot be opened is reported when it is read.
        let Ok(checkpoint) = Checkpoint::open(&taken) else { return Ok(export) };
        if !export.model.is_file() {
            return Ok(export);
        }
        match ModelInputs::of(&checkpoint) {
            Ok(None) => {}
            Err(error) => export.unknown = Some(chain(&error)),
            Ok(Some(inputs)) => export.described = Some(Described::check(inputs, out, force, &read)?),
        }
        let described = export.described.iter().flat_map(Described::outputs);
        Output::distinct([&export.model].into_iter().chain(export.data()).chain(described))?;
        Ok(export)
    }

    /// File for the weights of an ONNX model, where they lie apart.
    fn data(&self) -> Option<&Output> {
        match &self.format {
            Format::Safetensors => None,
            Format::Onnx(data) => data.as_ref(),
        }
    }

    /// Writes the files. An ONNX model has no optimizer state, whatever the `contents`.
    pub fn write(self, contents: Contents, control: &Control) -> Result<Exported, Error> {
        let Chosen { checkpoint, used } = open_to_use(&self.from, self.which, control)?;
        match &self.format {
            Format::Safetensors => {
                let mut out = self.model.create()?;
                export(&checkpoint, self.model.path(), &mut out, contents)?;
                out.finish()?;
            }
            Format::Onnx(data) => {
                onnx::write(&checkpoint, &OnnxFiles { model: &self.model, data: data.as_ref() })?;
            }
        }
        let mut exported = Exported {
            checkpoint: checkpoint.path().to_owned(),
            used,
            step: checkpoint.manifest().step,
            data: self.data().map(|data| data.path().to_owned()),
            inputs: None,
            ids: vec![],
            without_texts: vec![],
            unknown: self.unknown,
        };
        if let Some(described) = self.described {
            described.write(&mut exported)?;
        }
        Ok(exported)
    }
}

impl Described {
    fn check(inputs: ModelInputs, out: &Path, force: bool, read: &Inputs) -> Result<Self, Error> {
        let json = Output::check(&out.with_extension("inputs.json"), force, read)?;
        let (mut ids, mut taken) = (vec![], HashSet::new());
        for (index, feature) in inputs.features.iter().enumerate() {
            let mut name = plain(&feature.name);
            if !taken.insert(name.clone()) {
                name = format!("{name}-{index}");
                taken.insert(name.clone());
            }
            let has_texts = matches!(feature.ids, IdRows::Vocabulary { texts: Some(_), .. });
            let file = has_texts.then(|| out.with_extension(format!("{name}.csv")));
            ids.push(Output::check_if_any(file.as_deref(), force, read)?);
        }
        Ok(Self { inputs, json, ids })
    }

    fn outputs(&self) -> impl Iterator<Item = &Output> {
        std::iter::once(&self.json).chain(self.ids.iter().flatten())
    }

    fn write(&self, exported: &mut Exported) -> Result<(), Error> {
        for (feature, output) in self.inputs.features.iter().zip(&self.ids) {
            match (&feature.ids, output) {
                (IdRows::Vocabulary { vocabulary, texts: Some(texts) }, Some(output)) => {
                    let mut out = output.create()?;
                    write_ids(texts, vocabulary, output.path(), &mut out)?;
                    out.finish()?;
                    exported.ids.push(output.path().to_owned());
                }
                (IdRows::Vocabulary { .. }, _) => exported.without_texts.push(feature.name.clone()),
                _ => {}
            }
        }
        let name = |output: &Output| Some(output.path().file_name()?.to_string_lossy().into_owned());
        let file_of = |index: usize| self.ids.get(index)?.as_ref().and_then(name);
        let text = format!("{:#}\n", self.inputs.to_json(file_of));
        self.json.write(text.as_bytes())?;
        exported.inputs = Some(self.json.path().to_owned());
        Ok(())
    }
}

/// Name of a feature as a part of the name of a file.
fn plain(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
    name.chars().take(60).map(keep).collect()
}
