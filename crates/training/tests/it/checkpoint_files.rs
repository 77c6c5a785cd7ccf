//! Checkpoints as files: any sharding in and out, and what becomes of damage, kills and full disks.

mod damage;
mod folder;
mod full_disk;
mod sharding;

use serde_json::json;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use training::checkpoint::{
    Checkpoint, CheckpointError, Folder, Manifest, Piece, RankFile, TopologyEntry, Values, write_pieces,
};

/// The value that stands everywhere at (row, column) of a tensor.
fn value(row: usize, column: usize) -> f32 {
    row as f32 + column as f32 / 1024.0
}

/// A rectangle of a tensor of `value`s.
fn piece(name: &str, shape: &[usize], rows: Range<usize>, columns: Range<usize>) -> Piece {
    let data = rows.clone().flat_map(|row| columns.clone().map(move |column| value(row, column)));
    Piece { name: name.into(), shape: shape.into(), data: Values::F32(data.collect()), rows, columns }
}

fn manifest(step: u64, written: Vec<RankFile>) -> Manifest {
    let topology = TopologyEntry { hosts: 1, ranks_per_host: written.len() };
    Manifest { run: json!({ "seed": 1 }), ..Manifest::new(step, topology, written) }
}

/// Writes and commits what each rank holds.
fn save(folder: &Folder, step: u64, ranks: &[Vec<Piece>]) -> Result<PathBuf, CheckpointError> {
    let writing = folder.begin(step)?;
    let written = ranks.iter().enumerate().map(|(rank, pieces)| write_pieces(&writing, rank, pieces));
    folder.commit(&manifest(step, written.collect::<Result<_, _>>()?))
}

/// Two ranks, one tensor cut by rows, one by columns, one vector, and optimizer state.
fn small(folder: &Folder, step: u64) -> PathBuf {
    let ranks = [
        vec![
            piece("tables.C1.weight", &[3, 2], 0..1, 0..2),
            piece("tables.C2.weight", &[2, 2], 0..2, 0..1),
            piece("bottom.0.bias", &[3], 0..3, 0..1),
        ],
        vec![
            piece("tables.C1.weight", &[3, 2], 1..3, 0..2),
            piece("tables.C2.weight", &[2, 2], 0..2, 1..2),
            piece("optimizer.bottom.0.bias", &[3], 0..3, 0..1),
        ],
    ];
    save(folder, step, &ranks).unwrap()
}

fn opened_and_verified(path: &Path) -> Result<Checkpoint, CheckpointError> {
    let checkpoint = Checkpoint::open(path)?;
    checkpoint.verify(&|_, _| ())?;
    Ok(checkpoint)
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
