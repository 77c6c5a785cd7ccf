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
        let error = square(&file(header, &[0; 8])).unwrap_err().to_string();
        assert!(error.contains(problem), "{header}: {error}");
    }
    assert!(square(b"PK").is_err());
    assert!(square(b"\x93NUMPY\x01\x00\xff\xff{").is_err());
}
