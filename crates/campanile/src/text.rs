//! Numbers as people read them.

/// `12.3 M`: a count with a prefix.
pub fn si(value: f64) -> String {
    const PREFIXES: [&str; 6] = ["", " k", " M", " G", " T", " P"];
    let mut scaled = value;
    let mut prefix = 0;
    while scaled.abs() >= 999.95 && prefix + 1 < PREFIXES.len() {
        scaled /= 1000.0;
        prefix += 1;
    }
    let digits = if prefix == 0 && scaled.fract() == 0.0 { 0 } else { 1 };
    format!("{scaled:.digits$}{}", PREFIXES[prefix])
}

/// `17,600`: a count with all of its digits.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `12.3 MB`.
pub fn bytes(value: u64) -> String {
    let text = si(value as f64);
    if text.ends_with(|c: char| c.is_ascii_digit()) { format!("{text} B") } else { format!("{text}B") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(si(12.0), "12");
        assert_eq!(si(1234.0), "1.2 k");
        assert_eq!(si(999_960.0), "1.0 M");
        assert_eq!([0, 999, 17_600, 1_234_567].map(grouped), ["0", "999", "17,600", "1,234,567"]);
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(7_300_000), "7.3 MB");
    }
}
