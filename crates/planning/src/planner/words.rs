//! Numbers as people read them.

/// Seconds with a unit and three digits.
pub(super) fn seconds(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 1.0 => (v, "s"),
        v if v >= 1e-3 => (v * 1e3, "ms"),
        v => (v * 1e6, "µs"),
    };
    format!("{} {unit}", digits(value))
}

/// Bytes with a binary unit and three digits.
pub(super) fn bytes(value: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (value as f64, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", digits(value), units[unit])
}

/// How much more a number is than another, such as `20.9 % more` or `26 times as much`.
pub(super) fn more(value: f64, than: f64) -> String {
    match (value / than - 1.0) * 100.0 {
        more if !more.is_finite() => "much more".into(),
        more if more >= 1000.0 => format!("{:.0} times as much", value / than),
        more => format!("{} % more", digits(more)),
    }
}

fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
