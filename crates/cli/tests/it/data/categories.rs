//! A log for `examples/schemas/nineteen-categories.toml`: no number, 19 ids a line, clicks that depend on them.

use crate::support::command::repository;
use spec::random::RandomSequence;
use spec::schema::Schema;
use std::fmt::Write;
use std::ops::Range;

/// The schema's text.
pub fn schema() -> String {
    std::fs::read_to_string(repository("examples/schemas/nineteen-categories.toml")).unwrap()
}

/// The lines `samples` of the log, below a header.
///
/// Id 0 of a column comes most often. The logit of a click is the sum of effects that every id has.
pub fn log(samples: Range<u64>) -> String {
    let schema: Schema = toml::from_str(&schema()).unwrap();
    let columns: Vec<&str> = schema.sparse.iter().map(|column| column.column.as_str()).collect();
    assert_eq!((columns.len(), schema.dense.len()), (19, 0));
    let mut text = format!("click,{}\n", columns.join(","));
    let clicks = RandomSequence::new(1, "clicks");
    for sample in samples {
        let mut logit = -0.5;
        let mut line = String::new();
        for column in &schema.sparse {
            let draw = RandomSequence::new(2, &column.column).unit_f64(sample);
            let id = (draw * draw * column.rows.unwrap() as f64) as u64;
            logit += f64::from(RandomSequence::new(3, &column.column).symmetric(id, 0.7));
            write!(line, ",{:x}", RandomSequence::new(4, &column.column).bits(id) >> 32).unwrap();
        }
        let click = clicks.unit_f64(sample) < 1.0 / (1.0 + (-logit).exp());
        writeln!(text, "{}{line}", u8::from(click)).unwrap();
    }
    text
}
