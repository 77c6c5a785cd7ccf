//! NumPy's `.npz`: a zip archive that holds one `.npy` file for each tensor, uncompressed.
//!
//! A log is read sample by sample, while an archive holds one tensor after the other. So blocks of samples go to a temporary file
//! first, and tensors are collected from there:
//!
//! ```text
//! temporary file   block 0: tensor 0, tensor 1, …   block 1: tensor 0, tensor 1, …
//! ```

use super::tensors::{RowBlock, RowTensor};
use crate::output::OutputError;
use crate::{Error, logs::LogError};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Blocks of samples on disk.
pub(super) struct Spool {
    file: BufWriter<File>,
    /// Samples of every block but the last.
    block: u64,
    /// Bytes of a sample.
    bytes: u64,
}

impl Spool {
    /// Room for blocks of `block` samples.
    pub fn new(tensors: &[RowTensor], block: u64) -> Result<Self, Error> {
        let file = tempfile::tempfile().map_err(no_scratch)?;
        let bytes = tensors.iter().map(|tensor| tensor.bytes() as u64).sum();
        Ok(Self { file: BufWriter::with_capacity(1 << 20, file), block, bytes })
    }

    /// Appends the next block.
    pub fn append(&mut self, block: &RowBlock) -> Result<(), Error> {
        block
            .numbers
            .iter()
            .try_for_each(|numbers| self.file.write_all(&numbers.to_bytes()))
            .map_err(no_scratch)
    }

    /// Writes all tensors of `samples` samples as an archive to `out`, which messages call `path`.
    pub fn write(
        self,
        tensors: &[RowTensor],
        samples: u64,
        path: &Path,
        out: impl Write,
    ) -> Result<(), Error> {
        let Self { file, block, bytes } = self;
        let file = file.into_inner().map_err(|error| no_scratch(error.into_error()))?;
        let refuse = |source: io::Error| OutputError::Write { path: path.to_owned(), source };
        let mut archive = ZipWriter::new_stream(out);
        let mut before = 0;
        for tensor in tensors {
            let large = samples * tensor.bytes() as u64 > 1 << 31;
            let options = SimpleFileOptions::default()
                .compression_method(zip::CompressionMethod::Stored)
                .large_file(large);
            archive.start_file(format!("{}.npy", tensor.name), options).map_err(|e| refuse(e.into()))?;
            archive.write_all(&header(tensor, samples)).map_err(refuse)?;
            let mut piece = Vec::new();
            for start in (0..samples).step_by(block as usize) {
                let here = block.min(samples - start);
                piece.resize((here * tensor.bytes() as u64) as usize, 0);
                file.read_exact_at(&mut piece, start * bytes + here * before).map_err(no_scratch)?;
                archive.write_all(&piece).map_err(refuse)?;
            }
            before += tensor.bytes() as u64;
        }
        archive.finish().map_err(|e| refuse(e.into()))?;
        Ok(())
    }
}

/// Head of a `.npy` file, version 1.0: its length is a multiple of 64 bytes.
fn header(tensor: &RowTensor, samples: u64) -> Vec<u8> {
    let kind = if tensor.floats { "<f4" } else { "<i8" };
    let shape = match tensor.width {
        Some(width) => format!("({samples}, {width})"),
        None => format!("({samples},)"),
    };
    let text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    let padded = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let mut head = b"\x93NUMPY\x01\x00".to_vec();
    head.extend((padded as u16).to_le_bytes());
    head.extend(format!("{text:<width$}\n", width = padded - 1).as_bytes());
    head
}

fn no_scratch(source: io::Error) -> Error {
    LogError::NoScratch { path: std::env::temp_dir(), source }.into()
}
