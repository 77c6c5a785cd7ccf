//! Matrices as NumPy writes them: `.npy` files of floats.
//!
//! ```text
//! \x93NUMPY  major minor  length of the header  {'descr': '<f8', 'fortran_order': False, 'shape': (26, 26), }  values
//! ```

use anyhow::{Context, Result, bail, ensure};

/// The rows of a square matrix.
pub fn square(bytes: &[u8]) -> Result<Vec<Vec<f64>>> {
    let rest = bytes.strip_prefix(b"\x93NUMPY").context("it does not begin as a .npy file does")?;
    let (length, rest) = match rest {
        [1, _, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        _ => bail!("its version is not 1, 2 or 3"),
    };
    ensure!(length <= rest.len(), "its header of {length} bytes reaches past its end");
    let (header, values) = rest.split_at(length);
    let header = std::str::from_utf8(header).context("its header is no text")?;
    let field = |name: &str| {
        let after = header.split_once(&format!("'{name}':")).map(|(_, after)| after.trim_start());
        after.with_context(|| format!("its header has no {name}: {header:?}"))
    };
    let by_columns = field("fortran_order")?.starts_with("True");
    let shape = field("shape")?.strip_prefix('(').and_then(|shape| shape.split_once(')'));
    let (shape, _) = shape.context("its shape is no tuple")?;
    let numbers = shape.split(',').map(str::trim).filter(|number| !number.is_empty()).map(str::parse);
    let shape = numbers.collect::<Result<Vec<usize>, _>>().context("its shape is no tuple of numbers")?;
    let [rows, columns] = shape[..] else { bail!("its shape is {shape:?}, not that of a matrix") };
    ensure!(rows == columns, "it is a matrix of {rows} × {columns}; an affinity is square");
    let descr = field("descr")?;
    let width = if descr.starts_with("'<f4'") { 4 } else { 8 };
    ensure!(
        values.len().is_multiple_of(width),
        "its {} bytes of values are no whole number of floats",
        values.len()
    );
    let values: Vec<f64> = if descr.starts_with("'<f8'") {
        values.as_chunks().0.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect()
    } else if descr.starts_with("'<f4'") {
        values.as_chunks().0.iter().map(|chunk| f64::from(f32::from_le_bytes(*chunk))).collect()
    } else {
        bail!("its values are not little-endian floats ('<f4' or '<f8'): {header:?}");
    };
    let expected = rows.checked_mul(columns).filter(|&count| count == values.len());
    ensure!(expected.is_some(), "it has {} values for a shape of {rows} × {columns}", values.len());
    let at =
        |row: usize, column: usize| if by_columns { column * rows + row } else { row * columns + column };
    Ok((0..rows).map(|row| (0..columns).map(|column| values[at(row, column)]).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, values: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(values);
        bytes
    }

    #[test]
    fn floats_of_both_sizes_and_orders_are_read() {
        let doubles: Vec<u8> = [1.0f64, 0.25, 0.5, 1.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }";
        assert_eq!(square(&file(header, &doubles)).unwrap(), [[1.0, 0.25], [0.5, 1.0]]);
        let header = "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2), }";
        assert_eq!(square(&file(header, &doubles)).unwrap(), [[1.0, 0.5], [0.25, 1.0]]);
        let floats: Vec<u8> = [0.5f32].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(
            square(&file("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)}", &floats)).unwrap(),
            [[0.5]]
        );
    }

    #[test]
    fn what_is_no_square_matrix_is_refused() {
        for (header, problem) in [
            ("{'descr': '<i8', 'fortran_order': False, 'shape': (1, 1)}", "little-endian floats"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2)}", "1 × 2"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}", "[3]"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (9, 9)}", "1 values for a shape of 9 × 9"),
            ("{'descr': '<f8', 'fortran_order': False}", "no shape"),
        ] {
            let error = format!("{:#}", square(&file(header, &[0; 8])).unwrap_err());
            assert!(error.contains(problem), "{header}: {error}");
        }
        assert!(square(b"PK").is_err());
        assert!(square(b"\x93NUMPY\x01\x00\xff\xff{").is_err());
    }
}
