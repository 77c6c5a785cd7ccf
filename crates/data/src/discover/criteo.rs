//! Criteo's logs: a label, 13 counts, 26 ids in hexadecimal digits, tabs between them and no header.

use super::column::Profile;
use super::missing::Missing;
use super::sample::Sample;
use super::{Found, FoundColumn, Request, Role};
use crate::DataError;
use crate::number::integer;
use spec::run::DataFormat;
use spec::schema::Schema;
use std::path::Path;

/// Number of fields of a line.
pub(super) const FIELDS: usize = 40;

/// Whether the fields of a line look like Criteo's.
pub(super) fn is_line<'a>(mut fields: impl Iterator<Item = &'a [u8]>) -> bool {
    let label = matches!(fields.next(), Some(b"0" | b"1"));
    let counts = fields.by_ref().take(13).all(|field| field.is_empty() || integer(field).is_some());
    let hexadecimal = |field: &[u8]| field.len() <= 16 && field.iter().all(u8::is_ascii_hexdigit);
    label && counts && fields.all(hexadecimal)
}

/// Result of discovering one of Criteo's logs.
pub(super) fn found(file: &Path, sample: &Sample, request: &Request) -> Result<Found, DataError> {
    // According to the descriptions of both of Criteo's logs, rows are in the order of time.
    let schema = Schema { in_time_order: true, ..Schema::criteo() };
    let names = schema.columns.clone().unwrap_or_default();
    if let Some(other) = request.time.or(request.label.filter(|&name| name != schema.label.column)) {
        let problem = format!(
            "is one of Criteo's logs, whose label is `label` and which has no column of time; `{other}` was requested"
        );
        return Err(DataError::file(file, problem));
    }
    let columns = names.iter().enumerate().map(|(at, name)| {
        let profile = Profile::of(sample, at, &Missing::default(), Some(b'\t'));
        let (role, kind, why) = match at {
            0 => (Role::Label, "0 or 1", "0 or 1"),
            1..14 => (Role::Number, "integer", "a count, as log(1 + x)"),
            _ => (Role::Id, "hexadecimal id", ""),
        };
        let mut column = FoundColumn {
            name: name.clone(),
            role,
            kind: kind.into(),
            missing: profile.missing_share(),
            distinct: 0,
            reason: format!("{}: {why}", role.name()),
        };
        column.counted(profile.distinct as u64);
        column
    });
    Ok(Found {
        format: DataFormat::CriteoTsv,
        delimiter: Some('\t'),
        header: Some(false),
        columns: columns.collect(),
        rows: sample.rows() as u64,
        warnings: vec![],
        schema,
    })
}
