//! Assigns a role to each column, and builds the schema.

use super::column::Profile;
use super::label::{self, Label};
use super::list::List;
use super::missing::Missing;
use super::name::{Hint, hint};
use super::sample::{Sample, Stored};
use super::time::{self, Form};
use super::{Found, FoundColumn, Request, Role, integer};
use crate::DataError;
use crate::number::finite;
use spec::run::DataFormat;
use spec::schema::{DenseColumn, LabelColumn, Schema, SparseColumn, Transform};
use std::path::Path;

/// Number of rows below which no column is taken for a key or a constant.
const ENOUGH_ROWS: usize = 20;

/// Dialect of a text log: delimiter and header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    pub delimiter: u8,
    pub header: bool,
}

/// Use of a column by the schema.
enum Use {
    LeftOut(String),
    Number { why: String, transform: Transform },
    Id { kind: String, column: Box<SparseColumn> },
    Weight,
}

/// Assigns a role to every column.
pub(super) fn assign(
    file: &Path,
    sample: &Sample,
    dialect: Option<Dialect>,
    request: &Request,
) -> Result<Found, DataError> {
    if sample.rows() == 0 {
        return Err(DataError::file(file, "has columns, but no rows to look at"));
    }
    let missing = Missing::find(sample);
    let delimiter = dialect.map(|dialect| dialect.delimiter);
    let profiles: Vec<Profile> =
        (0..sample.names.len()).map(|at| Profile::of(sample, at, &missing, delimiter)).collect();
    let named = dialect.is_none_or(|dialect| dialect.header);
    let refuse = |problem: String| {
        let columns = described(sample, &profiles);
        DataError::file(file, format!("{problem}. The columns are\n{columns}"))
    };
    let label = label::find(sample, &profiles, &missing, request.label, named).map_err(|problem| {
        refuse(format!("no label was found: {problem}. Say which column it is with --label COLUMN"))
    })?;
    let mut warnings = vec![];
    let time = find_time(sample, &profiles, label.column, request.time).map_err(&refuse)?;
    let mut uses: Vec<Option<Use>> = vec![];
    for (at, profile) in profiles.iter().enumerate() {
        let taken = at == label.column || time.is_some_and(|(time, _)| at == time);
        let purpose = if taken {
            None
        } else if equals_label(sample, at, &label, &missing) {
            let name = &sample.names[at];
            warnings.push(format!(
                "column `{name}` equals the label in every row that was looked at; it is left out, because a model that \
                 reads the answer learns nothing"
            ));
            Some(Use::LeftOut("equals the label in every row".into()))
        } else {
            let weight_found = uses.iter().any(|purpose| matches!(purpose, Some(Use::Weight)));
            match !weight_found && is_weight(sample, at, profile) {
                true => Some(Use::Weight),
                false => Some(purpose(sample, at, profile)),
            }
        };
        uses.push(purpose);
    }
    let has_ids =
        |uses: &[Option<Use>]| uses.iter().flatten().any(|purpose| matches!(purpose, Use::Id { .. }));
    if !has_ids(&uses) {
        promote(sample, &profiles, &mut uses);
    }
    if !has_ids(&uses) {
        return Err(refuse("no column holds ids, and the models here need at least one".into()));
    }
    let order = time_order(sample, &profiles, time.as_ref(), &mut warnings);
    let schema = schema(sample, dialect, &missing, &label, order, &uses);
    schema.check()?;
    let columns = profiles.iter().enumerate().map(|(at, profile)| {
        let time = time.filter(|(time, _)| *time == at).map(|(_, form)| form);
        found_column(sample, at, profile, &label, time, uses[at].as_ref())
    });
    Ok(Found {
        format: if dialect.is_some() { DataFormat::Csv } else { DataFormat::Parquet },
        delimiter: dialect.map(|dialect| char::from(dialect.delimiter)),
        header: dialect.map(|dialect| dialect.header),
        columns: columns.collect(),
        rows: sample.rows() as u64,
        warnings,
        schema,
    })
}

/// Finds the time column by the requested name, or else by what the columns look like.
fn find_time(
    sample: &Sample,
    profiles: &[Profile],
    label: usize,
    requested: Option<&str>,
) -> Result<Option<(usize, Form)>, String> {
    let form = |at: usize| time::of_column(&sample.names[at], &sample.stored[at], &profiles[at]);
    if let Some(name) = requested {
        let found = sample.names.iter().position(|other| other == name);
        let Some(at) = found else { return Err(format!("there is no column `{name}` for --time")) };
        if at == label {
            return Err(format!("column `{name}` is the label; --time needs another"));
        }
        return Ok(Some((at, form(at).map_or(Form::Counter, |(form, _)| form))));
    }
    let candidates = (0..profiles.len()).filter(|&at| at != label && !is_twice(sample, at));
    let scored = candidates.filter_map(|at| form(at).map(|(form, score)| (score, at, form)));
    // The most likely column, and the first of equally likely ones.
    let best = scored.max_by_key(|&(score, at, _)| (score, std::cmp::Reverse(at)));
    Ok(best.map(|(_, at, form)| (at, form)))
}

fn is_twice(sample: &Sample, at: usize) -> bool {
    sample.names.iter().filter(|name| **name == sample.names[at]).count() > 1
}

/// Whether a column equals the label in every row.
fn equals_label(sample: &Sample, at: usize, label: &Label, missing: &Missing) -> bool {
    let value = |cell: &[u8]| match cell {
        _ if missing.is(cell) => None,
        _ if cell.eq_ignore_ascii_case(b"true") => Some(1.0),
        _ if cell.eq_ignore_ascii_case(b"false") => Some(0.0),
        _ => finite(cell),
    };
    let mut labels = std::collections::HashSet::new();
    let same = sample.column(label.column).zip(sample.column(at)).all(|(label, cell)| {
        let label = value(label);
        labels.insert(label.map(f64::to_bits));
        label.is_none() || label == value(cell)
    });
    same && labels.len() > 1 && sample.rows() >= ENOUGH_ROWS
}

/// Use of a column that is neither the label nor the time.
fn purpose(sample: &Sample, at: usize, profile: &Profile) -> Use {
    let (name, stored) = (&sample.names[at], &sample.stored[at]);
    let left_out = |why: &str| Use::LeftOut(why.into());
    let plain = || Box::new(SparseColumn::hashed(name.clone()));
    let id = |kind: &str| Use::Id { kind: kind.into(), column: plain() };
    if let Stored::Other(what) = stored {
        return Use::LeftOut(format!("holds {what}"));
    }
    if is_twice(sample, at) {
        return left_out("two columns have this name");
    }
    if *stored == Stored::IdList {
        let column = SparseColumn { list: true, ..*plain() };
        return Use::Id { kind: "lists of ids".into(), column: Box::new(column) };
    }
    if profile.values() == 0 {
        return left_out("empty");
    }
    if profile.distinct == 1 && profile.missing == 0 {
        return left_out("constant");
    }
    if time::of_column(name, stored, profile).is_some() {
        return left_out("another time");
    }
    match profile.list {
        Some(List::Ids { separator, weight }) => {
            let column = SparseColumn { separator: Some(separator), weight_separator: weight, ..*plain() };
            let weights = if weight.is_some() { " with weights" } else { "" };
            return Use::Id {
                kind: format!("lists of ids, {separator:?} between{weights}"),
                column: Box::new(column),
            };
        }
        Some(List::Numbers) => {
            return left_out("lists of numbers (weights of another column? see `weights`)");
        }
        Some(List::Brackets) => return left_out("lists in brackets are not read; write them as 3|17|4"),
        None => {}
    }
    // Ids of users and items may repeat beyond the rows that were examined.
    let all_seen = sample.whole || !known_id(name);
    let every_row_differs =
        profile.distinct == profile.values() && profile.values() >= ENOUGH_ROWS && all_seen;
    const KEY: &str = "a different value in every row (a key: use it with `predict --key`)";
    if profile.is_numeric() && stored.as_number() {
        let whole = profile.is_whole() || (profile.fractions == 0 && hint(name) == Hint::Id);
        let ids = whole && stored.as_id() && integer::are_ids(name, profile);
        if whole && every_row_differs && (profile.falls == 0 || ids) {
            return left_out(KEY);
        }
        return match ids || (profile.is_flag() && stored.as_id()) {
            true => id(if profile.is_flag() { "0 or 1" } else { "integer" }),
            false => number(profile, stored),
        };
    }
    if every_row_differs {
        return left_out(KEY);
    }
    if profile.sentences * 2 > profile.values() && profile.distinct * 5 > profile.values() * 4 {
        return left_out("sentences that hardly ever come again");
    }
    id(match () {
        _ if profile.words == profile.values() => "true or false",
        _ if profile.is_numeric() => "numbers stored as text",
        _ => "text",
    })
}

/// Whether a column holds sample weights: its name says so, and every row has a number of at least 0.
fn is_weight(sample: &Sample, at: usize, profile: &Profile) -> bool {
    let kinds = ["sample", "example", "instance", "importance", "row"];
    let words = super::name::words(&sample.names[at]);
    let named = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [kind, "weight"] => kinds.contains(&kind),
        [word] => word.strip_suffix("weight").is_some_and(|kind| kinds.contains(&kind)),
        _ => false,
    };
    let numbers = profile.is_numeric() && sample.stored[at].as_number() && profile.missing == 0;
    named && numbers && profile.min >= 0.0 && profile.distinct > 1 && !is_twice(sample, at)
}

/// Whether a name is that of a column of users or items.
fn known_id(name: &str) -> bool {
    let known = ["user", "item", "product", "ad", "customer", "movie", "device", "ip"];
    super::name::words(name).iter().any(|word| known.contains(&word.as_str()))
}

/// Use of a column of numbers. Numbers that are never negative and have a wide range are transformed by their logarithm.
fn number(profile: &Profile, stored: &Stored) -> Use {
    let (min, max) = (profile.min, profile.max);
    let far = min >= 0.0 && (max >= 100.0 || (max >= 16.0 && profile.median * 8.0 <= max));
    let transform = if far { Transform::Log } else { Transform::None };
    let how = if far { ", as log(1 + x)" } else { "" };
    let kind = number_kind(profile, stored);
    Use::Number { why: format!("{kind}, {} to {}{how}", shown(min), shown(max)), transform }
}

fn number_kind(profile: &Profile, stored: &Stored) -> &'static str {
    match stored {
        Stored::Boolean => "true or false",
        Stored::Float => "float",
        _ if profile.is_flag() => "0 or 1",
        _ if profile.is_whole() => "integer",
        _ => "float",
    }
}

fn shown(number: f64) -> String {
    let digits = if number.fract() == 0.0 || number.abs() >= 1000.0 { 0 } else { 3 };
    format!("{number:.digits$}")
}

/// Turns columns of numbers with few values into ids, for logs without other ids.
fn promote(sample: &Sample, profiles: &[Profile], uses: &mut [Option<Use>]) {
    for (at, purpose) in uses.iter_mut().enumerate() {
        let few = profiles[at].distinct <= 100 && profiles[at].is_whole() && sample.stored[at].as_id();
        if few && matches!(purpose, Some(Use::Number { .. })) {
            let column = Box::new(SparseColumn::hashed(sample.names[at].clone()));
            *purpose = Some(Use::Id { kind: "integer".into(), column });
        }
    }
}

/// Time column of a schema, and whether the rows are in its order.
struct TimeOrder {
    column: Option<String>,
    in_time_order: bool,
}

/// Time column that the schema names, if its values sort as time does. Warns of one whose values do not.
fn time_order(
    sample: &Sample,
    profiles: &[Profile],
    time: Option<&(usize, Form)>,
    warnings: &mut Vec<String>,
) -> TimeOrder {
    let in_time_order = time.is_some_and(|&(at, _)| is_ordered(&profiles[at]));
    // Text that does not sort as time does orders nothing.
    let sorts = time.filter(|(_, form)| form.sorts() || in_time_order);
    if let (Some((at, form)), None) = (time, sorts) {
        warnings.push(format!(
            "column `{}` is a time ({}) that does not sort as text; write dates as 2024-03-01 to split by it",
            sample.names[*at],
            form.describe()
        ));
    }
    TimeOrder { column: sorts.map(|&(at, _)| sample.names[at].clone()), in_time_order }
}

/// Schema that reads the log.
fn schema(
    sample: &Sample,
    dialect: Option<Dialect>,
    missing: &Missing,
    label: &Label,
    time: TimeOrder,
    uses: &[Option<Use>],
) -> Schema {
    let (mut dense, mut sparse, mut weight) = (vec![], vec![], None);
    for (name, purpose) in sample.names.iter().zip(uses) {
        match purpose {
            Some(Use::Weight) => weight = Some(name.clone()),
            Some(Use::Number { transform, .. }) => {
                dense.push(DenseColumn { column: name.clone(), transform: transform.clone(), missing: 0.0 });
            }
            Some(Use::Id { column, .. }) => sparse.push((**column).clone()),
            _ => {}
        }
    }
    Schema {
        delimiter: dialect.map_or(',', |dialect| char::from(dialect.delimiter)),
        columns: dialect.is_some_and(|dialect| !dialect.header).then(|| sample.names.clone()),
        missing: missing.0.iter().cloned().collect(),
        time: time.column,
        in_time_order: time.in_time_order,
        label: LabelColumn { column: sample.names[label.column].clone(), positive_from: label.positive_from },
        labels: vec![],
        weight,
        keep: vec![],
        dense,
        sparse,
    }
}

/// Whether the rows are in the order of a time column.
fn is_ordered(profile: &Profile) -> bool {
    profile.falls == 0 && profile.distinct > 1 && profile.missing == 0
}

fn found_column(
    sample: &Sample,
    at: usize,
    profile: &Profile,
    label: &Label,
    time: Option<Form>,
    purpose: Option<&Use>,
) -> FoundColumn {
    let kind = match (&sample.stored[at], profile) {
        (Stored::Other(_), _) => "unread",
        (Stored::IdList, _) => "list",
        (Stored::Time, _) => "timestamp",
        _ if profile.values() == 0 => "empty",
        _ if profile.date.is_some() => "date",
        _ if profile.list.is_some() => "list",
        (stored, _) if profile.is_numeric() && stored.as_number() => number_kind(profile, stored),
        _ => "text",
    };
    let (role, kind, why) = match (purpose, time) {
        (Some(Use::LeftOut(why)), _) => (Role::LeftOut, kind.to_owned(), why.clone()),
        (Some(Use::Number { why, .. }), _) => (Role::Number, kind.to_owned(), why.clone()),
        (Some(Use::Id { kind, .. }), _) => (Role::Id, kind.clone(), String::new()),
        (Some(Use::Weight), _) => {
            let range = format!("{} to {}", shown(profile.min), shown(profile.max));
            (Role::Weight, kind.to_owned(), format!("a sample weight by its name, {range}"))
        }
        (None, Some(form)) => {
            let order = if is_ordered(profile) { "increasing" } else { "not in order" };
            (Role::Time, kind.to_owned(), format!("{}, {order}", form.describe()))
        }
        (None, None) => (Role::Label, kind.to_owned(), label.reason.clone()),
    };
    let reason = format!("{}: {why}", role.name());
    let mut found = FoundColumn {
        name: sample.names[at].clone(),
        role,
        kind,
        missing: profile.missing_share(),
        distinct: 0,
        reason,
    };
    found.counted(profile.distinct as u64);
    found
}

impl FoundColumn {
    /// Sets the number of different values in the whole log.
    pub fn counted(&mut self, distinct: u64) {
        self.distinct = distinct;
        if self.role == Role::Id {
            let count = match distinct {
                0..10_000 => distinct.to_string(),
                10_000..10_000_000 => format!("{} k", distinct / 1000),
                _ => format!("{} M", distinct / 1_000_000),
            };
            self.reason = format!("id: {}, {count} distinct", self.kind);
        }
    }
}

/// List of the columns, one per line, from which a user can choose.
fn described(sample: &Sample, profiles: &[Profile]) -> String {
    const MOST: usize = 40;
    let line = |(at, profile): (usize, &Profile)| {
        let stored = &sample.stored[at];
        let kind = match profile.is_numeric() {
            _ if profile.values() == 0 => "empty",
            true => number_kind(profile, stored),
            false => "text",
        };
        let name: String = sample.names[at].chars().take(40).collect();
        format!("  {} ({kind}, {} distinct)", name.escape_debug(), profile.distinct)
    };
    let mut lines: Vec<String> = profiles.iter().enumerate().take(MOST).map(line).collect();
    if profiles.len() > MOST {
        lines.push(format!("  and {} more", profiles.len() - MOST));
    }
    lines.join("\n")
}
