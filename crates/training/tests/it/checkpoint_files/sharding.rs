//! What goes in comes out, however it is cut; and as other programs see it.

use super::{manifest, opened_and_verified, piece, save, small, value};
use proptest::prelude::*;
use safetensors::SafeTensors;
use spec::table_format::TableFormat;
use std::fs;
use std::ops::Range;
use std::path::Path;
use training::checkpoint::{Checkpoint, Contents, Folder, Piece, RankFile, Values, export, write_pieces};

/// Every rectangle of a tensor of `value`s, cut at `rows` and `columns`.
fn assert_reads(checkpoint: &Checkpoint, name: &str, rows: &[Range<usize>], columns: &[Range<usize>]) {
    for rows in rows {
        for columns in columns {
            let mut out = vec![f32::NAN; rows.len() * columns.len()];
            checkpoint.read_rows(name, rows.clone(), columns.clone(), &mut out).unwrap();
            assert_eq!(
                Values::F32(out),
                piece(name, &[], rows.clone(), columns.clone()).data,
                "{name} {rows:?} {columns:?}"
            );
        }
    }
}

/// Ways to cut `0..len`.
fn cuts(len: usize) -> impl Strategy<Value = Vec<Range<usize>>> {
    prop::collection::vec(any::<bool>(), len - 1).prop_map(move |cut| {
        let mut bounds = vec![0];
        bounds.extend((1..len).filter(|&at| cut[at - 1]));
        bounds.push(len);
        bounds.windows(2).map(|pair| pair[0]..pair[1]).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_sharding_in_any_sharding_out(
        (rows_in, columns_in, rows_out, columns_out) in (1usize..9, 1usize..7)
            .prop_flat_map(|(rows, columns)| (cuts(rows), cuts(columns), cuts(rows), cuts(columns))),
        ranks in 1usize..5,
        holders in prop::collection::vec(0usize..5, 8 * 6),
    ) {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path()).unwrap();
        let shape = [rows_in.last().unwrap().end, columns_in.last().unwrap().end];
        let mut held = vec![Vec::new(); ranks];
        let mut holder = holders.into_iter().map(|holder| holder % ranks);
        for rows in &rows_in {
            for columns in &columns_in {
                let piece = piece("t", &shape, rows.clone(), columns.clone());
                held[holder.next().unwrap()].push(piece);
            }
            // A vector may be cut too.
            held[0].push(piece("v", &shape[..1], rows.clone(), 0..1));
        }
        let checkpoint = opened_and_verified(&save(&folder, 1, &held).unwrap()).unwrap();
        prop_assert_eq!(checkpoint.tensors().collect::<Vec<_>>(), [("t", &shape[..]), ("v", &shape[..1])]);
        assert_reads(&checkpoint, "t", &rows_out, &columns_out);
        assert_reads(&checkpoint, "v", &rows_out, std::slice::from_ref(&(0..1)));
    }
}

#[test]
fn tensors_larger_than_a_block() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder::open(root.path()).unwrap();
    let (tall, wide) = ([300_000, 3], [2, 600_000]);
    let ranks = [
        vec![piece("tall", &tall, 0..300_000, 0..1), piece("wide", &wide, 0..2, 0..250_000)],
        vec![piece("tall", &tall, 0..300_000, 1..3), piece("wide", &wide, 0..2, 250_000..600_000)],
    ];
    let checkpoint = opened_and_verified(&save(&folder, 1, &ranks).unwrap()).unwrap();
    assert_reads(&checkpoint, "tall", &[0..100_001, 100_001..300_000], &[0..2, 2..3]);
    assert_reads(&checkpoint, "wide", &[0..2, 1..2], &[0..600_000, 249_999..250_001, 7..8]);

    let mut bytes = Vec::new();
    export(&checkpoint, Path::new("model.safetensors"), &mut bytes, Contents::Parameters).unwrap();
    let exported = SafeTensors::deserialize(&bytes).unwrap();
    for (name, shape) in [("tall", tall), ("wide", wide)] {
        let tensor = exported.tensor(name).unwrap();
        assert_eq!(tensor.shape(), shape);
        assert!(tensor.data() == piece(name, &shape, 0..shape[0], 0..shape[1]).data.bytes(), "{name}");
    }
}

/// Little-endian bytes.
fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn an_export_is_a_plain_safetensors_file() {
    let root = tempfile::tempdir().unwrap();
    let checkpoint = Checkpoint::open(small(&Folder::open(root.path()).unwrap(), 9)).unwrap();
    let file = Path::new("exports/model.safetensors");
    for (contents, names) in [
        (Contents::Parameters, &["bottom.0.bias", "tables.C1.weight", "tables.C2.weight"][..]),
        (
            Contents::ParametersAndOptimizer,
            &["bottom.0.bias", "optimizer.bottom.0.bias", "tables.C1.weight", "tables.C2.weight"],
        ),
    ] {
        let mut bytes = Vec::new();
        let record = export(&checkpoint, file, &mut bytes, contents).unwrap();
        assert_eq!((record.name.as_str(), record.bytes), ("model.safetensors", bytes.len() as u64));
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        assert_eq!(header.offset_keys(), names);
        assert_eq!(header.metadata().as_ref().unwrap()["step"], "9");
        let exported = SafeTensors::deserialize(&bytes).unwrap();
        let table = exported.tensor("tables.C2.weight").unwrap();
        assert_eq!(table.shape(), [2, 2]);
        assert_eq!(table.data(), floats(&[value(0, 0), value(0, 1), value(1, 0), value(1, 1)]));
        assert_eq!(exported.tensor("bottom.0.bias").unwrap().shape(), [3]);
    }
    let error = export(&checkpoint, file, &mut [0; 100][..], Contents::Parameters).unwrap_err();
    assert!(error.to_string().contains("exports/model.safetensors"), "{error}");
}

#[test]
fn requests_that_do_not_fit_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let checkpoint = Checkpoint::open(small(&Folder::open(root.path()).unwrap(), 1)).unwrap();
    let read = |name: &str, rows, columns, room: usize| {
        checkpoint.read_rows(name, rows, columns, &mut vec![0.0; room]).unwrap_err().to_string()
    };
    assert!(read("tables.C9.weight", 0..1, 0..1, 1).contains("no tensor tables.C9.weight"));
    let error = read("tables.C1.weight", 0..4, 0..2, 8);
    assert!(error.contains("rows 0..4, columns 0..2 of tensor tables.C1.weight of shape [3, 2]"), "{error}");
    assert!(read("tables.C1.weight", 0..3, 0..2, 5).contains("into 5 floats"));
    assert!(read("tables.C1.weight", 1..1, 0..2, 0).contains("rows 1..1"));
    assert!(
        read("tables.C1.weight", 0..usize::MAX, 0..usize::MAX, 0).contains("rows 0..18446744073709551615")
    );
}

/// `golden/python.safetensors` was written by Python's safetensors 0.8.0, with PyTorch 2.14:
///
/// ```python
/// table = torch.arange(6, dtype=torch.float32).reshape(3, 2) / 4
/// save_file({"tables.C1.weight": table, "bottom.0.bias": torch.tensor([-1.5, 3.0e-5])}, "python.safetensors")
/// ```
#[test]
fn files_are_those_that_python_writes() {
    let golden =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/python.safetensors")).unwrap();
    let table = Piece::whole("tables.C1.weight", vec![3, 2], vec![0.0, 0.25, 0.5, 0.75, 1.0, 1.25]);
    let bias = Piece::whole("bottom.0.bias", vec![2], vec![-1.5, 3.0e-5]);

    let root = tempfile::tempdir().unwrap();
    let folder = Folder::open(root.path()).unwrap();
    let writing = folder.begin(1).unwrap();
    let written = write_pieces(&writing, 0, &[table.clone(), bias.clone()]).unwrap();
    let file = writing.join(&written.file.name);
    assert_eq!(fs::read(&file).unwrap(), golden);

    fs::write(&file, &golden).unwrap();
    let path = folder.commit(&manifest(1, vec![written])).unwrap();
    let checkpoint = opened_and_verified(&path).unwrap();
    for Piece { name, rows, columns, data, .. } in [table, bias] {
        let mut out = vec![0.0; data.bytes().len() / 4];
        checkpoint.read_rows(&name, rows, columns, &mut out).unwrap();
        assert_eq!(Values::F32(out), data);
    }
}

/// What a rank wrote travels to the one that commits.
#[test]
fn records_travel_as_bytes() {
    let root = tempfile::tempdir().unwrap();
    let writing = Folder::open(root.path()).unwrap().begin(1).unwrap();
    let written = write_pieces(&writing, 3, &[piece("t", &[4, 2], 1..3, 0..2)]).unwrap();
    assert_eq!(written.file.name, "rank-0003.safetensors");
    assert_eq!(written.tensors[0].key, "t[1:3,0:2]");
    let bytes = serde_json::to_vec(&written).unwrap();
    assert_eq!(serde_json::from_slice::<RankFile>(&bytes).unwrap(), written);
    // A second writer of the same file is a mistake.
    assert!(write_pieces(&writing, 3, &[]).unwrap_err().to_string().contains("rank-0003.safetensors"));
}

/// Numbers of 16 bits are written as they are, read as floats, and exported as they are; pieces of one tensor may differ.
#[test]
fn numbers_of_16_bits() {
    let half = |name: &str, rows: Range<usize>, format: TableFormat, bits: &[u16]| {
        let data = Values::Half(format, bits.to_vec());
        Piece { name: name.into(), shape: vec![4, 2], rows, columns: 0..2, data }
    };
    let (one, two, third, large) = (0x3c00, 0xc000, 0x3555, 0x7bff);
    let pieces = [
        half("tables.C1.weight", 0..2, TableFormat::F16, &[one, two, third, large]),
        half("tables.C1.weight", 2..4, TableFormat::F16, &[0, 1, 0x8000, 0x0400]),
        half("tables.C2.weight", 0..2, TableFormat::Bf16, &[0x3f80, 0xc000, 0x3eab, 0x7f7f]),
        piece("tables.C2.weight", &[4, 2], 2..4, 0..2),
    ];
    let root = tempfile::tempdir().unwrap();
    let path = save(&Folder::open(root.path()).unwrap(), 1, &[pieces.to_vec()]).unwrap();
    let checkpoint = opened_and_verified(&path).unwrap();
    let read = |name: &str, rows: Range<usize>, columns: Range<usize>| {
        let mut out = vec![f32::NAN; rows.len() * columns.len()];
        checkpoint.read_rows(name, rows, columns, &mut out).unwrap();
        out
    };
    let smallest = 2f32.powi(-24);
    let all = [1.0, -2.0, 0.33325195, 65504.0, 0.0, smallest, -0.0, 2f32.powi(-14)];
    assert_eq!(read("tables.C1.weight", 0..4, 0..2), all);
    assert_eq!(read("tables.C1.weight", 1..3, 1..2), [65504.0, smallest]);
    assert_eq!(
        read("tables.C2.weight", 1..3, 0..2),
        [0.33398438, f32::from_bits(0x7f7f_0000), value(2, 0), value(2, 1)]
    );
    assert_eq!(checkpoint.format("tables.C1.weight"), TableFormat::F16);
    assert_eq!(checkpoint.format("tables.C2.weight"), TableFormat::F32);
    let mut file = Vec::new();
    export(&checkpoint, Path::new("model.safetensors"), &mut file, Contents::Parameters).unwrap();
    let exported = SafeTensors::deserialize(&file).unwrap();
    let table = exported.tensor("tables.C1.weight").unwrap();
    assert_eq!((table.dtype(), table.shape()), (safetensors::Dtype::F16, &[4, 2][..]));
    let bits: Vec<u16> =
        table.data().chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
    assert_eq!(bits, [one, two, third, large, 0, 1, 0x8000, 0x0400]);
    assert_eq!(exported.tensor("tables.C2.weight").unwrap().dtype(), safetensors::Dtype::F32);
}
