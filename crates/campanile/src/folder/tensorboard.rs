//! Event files as TensorBoard reads them.
//!
//! ```text
//! file   = record*
//! record = length: u64, mask(crc32c(length)): u32, event, mask(crc32c(event)): u32      all little-endian
//! event  = { wall_time: double = 1, step: int64 = 2, file_version: string = 3, summary = 5, session_log = 7 }
//! summary = { value = 1: { tag: string = 1, simple_value: float = 2 } }*                protocol buffers
//! mask(c) = (c rotated right by 15) + 0xa282ead8
//! ```

use super::clock::since_1970;
use crate::file::FileError;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// One event file of a run. A run that goes on begins another.
#[derive(Debug)]
pub struct EventWriter {
    path: PathBuf,
    file: File,
}

impl EventWriter {
    /// Begins a file in `dir`. After a resume at step `after`, TensorBoard is told to forget what followed that step.
    pub fn create(dir: &Path, now: SystemTime, after: Option<u64>) -> Result<Self, FileError> {
        let mut seconds = since_1970(now).as_secs();
        let (path, file) = loop {
            let path = dir.join(format!("events.out.tfevents.{seconds}.campanile"));
            match File::create_new(&path) {
                // Resumed within a second. TensorBoard reads files in the order of their names.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => seconds += 1,
                file => {
                    let file = file.map_err(FileError::creating(&path))?;
                    break (path, file);
                }
            }
        };
        let mut writer = Self { path, file };
        writer.append(&event(now, 0, |e| e.bytes(3, b"brain.Event:2")))?;
        if let Some(step) = after {
            const START: u64 = 1;
            let restart = event(now, step.saturating_add(1), |e| e.message(7, |log| log.varint(1, START)));
            writer.append(&restart)?;
        }
        Ok(writer)
    }

    /// Appends numbers of a step.
    pub fn write(
        &mut self,
        now: SystemTime,
        step: u64,
        scalars: &[(impl AsRef<str>, f64)],
    ) -> Result<(), FileError> {
        self.append(&scalars_event(now, step, scalars))
    }

    fn append(&mut self, event: &[u8]) -> Result<(), FileError> {
        let written = self.file.write_all(&framed(event));
        written.map_err(FileError::writing(&self.path))
    }
}

fn scalars_event(now: SystemTime, step: u64, scalars: &[(impl AsRef<str>, f64)]) -> Vec<u8> {
    event(now, step, |e| {
        e.message(5, |summary| {
            for (tag, value) in scalars {
                summary.message(1, |entry| {
                    entry.bytes(1, tag.as_ref().as_bytes());
                    entry.fixed(2, FLOAT, &(*value as f32).to_le_bytes());
                });
            }
        })
    })
}

fn event(now: SystemTime, step: u64, fill: impl FnOnce(&mut Message)) -> Vec<u8> {
    let mut event = Message::default();
    event.fixed(1, DOUBLE, &since_1970(now).as_secs_f64().to_le_bytes());
    // Zero is what a missing field means.
    if step > 0 {
        event.varint(2, step);
    }
    fill(&mut event);
    event.0
}

fn framed(event: &[u8]) -> Vec<u8> {
    let masked =
        |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let length = (event.len() as u64).to_le_bytes();
    [&length, &masked(&length)[..], event, &masked(event)].concat()
}

// How a field of a protocol buffer is laid out.
const VARINT: u64 = 0;
const DOUBLE: u64 = 1;
const LENGTH: u64 = 2;
const FLOAT: u64 = 5;

/// A protocol buffer in the making.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn varint(&mut self, field: u64, value: u64) {
        self.raw_varint(field << 3 | VARINT);
        self.raw_varint(value);
    }

    fn fixed(&mut self, field: u64, layout: u64, bytes: &[u8]) {
        self.raw_varint(field << 3 | layout);
        self.0.extend(bytes);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.raw_varint(field << 3 | LENGTH);
        self.raw_varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn message(&mut self, field: u64, fill: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        fill(&mut inner);
        self.bytes(field, &inner.0);
    }
}

#[cfg(test)]
mod tests;
