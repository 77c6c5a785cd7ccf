use super::*;

fn cut(line: &str, quotes: bool) -> Result<Vec<String>, String> {
    let mut scratch = Scratch::default();
    let fields = Fields::cut(line.as_bytes(), b',', quotes, None, &mut scratch);
    let fields = fields.map_err(|fault| fault.problem.to_string())?;
    Ok((0..fields.len()).map(|at| String::from_utf8(fields.get(at).to_vec()).unwrap()).collect())
}

#[test]
fn fields_lie_between_delimiters() {
    assert_eq!(cut("", true).unwrap(), [""]);
    assert_eq!(cut("a,,b,", true).unwrap(), ["a", "", "b", ""]);
    assert_eq!(cut(r#""a",b"#, false).unwrap(), [r#""a""#, "b"]);
}

#[test]
fn quotes_are_those_of_the_rfc() {
    assert_eq!(cut(r#"a,"b,c","d""e","x"#, true).unwrap_err(), Problem::OpenQuote.to_string());
    assert_eq!(cut(r#"a,"b,c","d""e","",f"g"#, true).unwrap(), ["a", "b,c", "d\"e", "", "f\"g"]);
    assert_eq!(cut(r#""""",x"#, true).unwrap(), ["\"", "x"]);
    assert!(cut(r#""a"b,c"#, true).unwrap_err().contains(r#"got "b,c""#));
}

#[test]
fn every_byte_is_compared() {
    for place in 0..BLOCK {
        for byte in [0, b'\t', b',', 0x7f, 0x80, 0xff] {
            let mut block = [byte.wrapping_add(1); BLOCK];
            block[place] = byte;
            assert_eq!(equal_bytes(&block, byte), 1 << place, "{byte:#x}");
            assert_eq!(equal_bytes(&block, byte ^ 0x80), 0, "{byte:#x}");
        }
    }
    for length in [0, 1, 63, 64, 65, 127, 128, 200] {
        assert_eq!(cut(&"a,".repeat(length), false).unwrap().len(), length + 1);
    }
}

#[test]
fn the_number_of_fields_is_checked() {
    let mut scratch = Scratch::default();
    for (line, got) in [("a,b", 2), ("a,b,c,d,e", 5), (r#""a",b,c,"d,e""#, 4)] {
        let fault = Fields::cut(line.as_bytes(), b',', true, Some(3), &mut scratch).unwrap_err();
        assert_eq!(fault.problem.to_string(), format!("expected 3 fields, got {got}"));
    }
}
