//! Figures of papers that a simulator computes, as tables. Nothing is measured: they are computed again for each page.

use crate::error::Result;
use crate::figures::{Figure, Row, names, number};
use pages::markdown::table;
use std::collections::BTreeMap;

/// All numbers of a figure.
pub fn figure(name: &str) -> Result<String> {
    let figure = Figure::by_name(name)?;
    let noted = figure.rows.iter().any(|row| row.note.is_some());
    let mut head = vec!["case", "quantity", "ours", "paper", "ours / paper"];
    head.extend(noted.then_some("what ours is"));
    let rows = figure.rows.iter().map(|row| {
        let mut cells = cells(row);
        cells.extend(noted.then(|| row.note.unwrap_or_default().to_owned()));
        cells
    });
    let rows: Vec<Vec<String>> = rows.collect();
    Ok(format!("{}\n{}", table(2, &head, &rows), computed(name)))
}

fn cells(row: &Row) -> Vec<String> {
    let ratio = row.paper.map_or(String::new(), |paper| format!("{:.3}", row.ours / paper));
    let paper = row.paper.map_or(String::new(), number);
    vec![row.case.clone(), row.quantity.clone(), number(row.ours), paper, ratio]
}

/// Note on where a figure comes from.
fn computed(name: &str) -> String {
    format!("Computed by `campanile reproduce {name}`; nothing is measured.\n")
}

/// A figure whose cases are `MODEL on COUNT GPU`, with a column for each count.
pub fn by_scale(name: &str) -> Result<String> {
    let figure = Figure::by_name(name)?;
    let mut scales: Vec<u32> = Vec::new();
    let mut order: Vec<String> = Vec::new();
    let mut found: BTreeMap<(String, u32), f64> = BTreeMap::new();
    for row in &figure.rows {
        let Some((model, rest)) = row.case.split_once(" on ") else { continue };
        let Some((count, gpu)) = rest.split_once(' ') else { continue };
        let Ok(count) = count.parse() else { continue };
        let line = format!("{model}, {gpu}");
        if !scales.contains(&count) {
            scales.push(count);
        }
        if !order.contains(&line) {
            order.push(line.clone());
        }
        found.insert((line, count), row.ours);
    }
    scales.sort_unstable();
    order.sort_by_key(|line| line.split_once(',').map(|(model, _)| model != "DLRM"));
    let head: Vec<String> = std::iter::once("GPUs".into()).chain(scales.iter().map(u32::to_string)).collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let rows = order.iter().map(|line| {
        let value = |scale: &u32| {
            found.get(&(line.clone(), *scale)).map_or(String::new(), |times| format!("{times:.2}"))
        };
        std::iter::once(line.clone()).chain(scales.iter().map(value)).collect()
    });
    let rows: Vec<Vec<String>> = rows.collect();
    Ok(format!("{}\n{}", table(1, &head, &rows), computed(name)))
}

/// A figure with a line for each case, and a column for each quantity.
pub fn by_quantity(name: &str) -> Result<String> {
    let figure = Figure::by_name(name)?;
    let mut head = vec![""];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for row in &figure.rows {
        if !head.contains(&row.quantity.as_str()) {
            head.push(&row.quantity);
        }
        match rows.last_mut().filter(|cells| cells[0] == row.case) {
            Some(cells) => cells.push(number(row.ours)),
            None => rows.push(vec![row.case.clone(), number(row.ours)]),
        }
    }
    Ok(format!("{}\n{}", table(1, &head, &rows), computed(name)))
}

/// All numbers of all figures beside which the text of a paper states one.
pub fn stated() -> Result<String> {
    let mut rows = Vec::new();
    for name in names() {
        let figure = Figure::by_name(&name)?;
        for row in figure.rows.iter().filter(|row| row.paper.is_some() && name != "madmax-table1") {
            let note = row.note.unwrap_or_default().to_owned();
            rows.push(std::iter::once(format!("`{name}`")).chain(cells(row)).chain([note]).collect());
        }
    }
    let head = ["figure", "case", "quantity", "ours", "paper", "ours / paper", "what ours is"];
    Ok(format!(
        "{}\nComputed by `campanile reproduce` with the name in the first column, which also prints the numbers that have none \
         beside them; nothing is measured.\n",
        table(3, &head, &rows)
    ))
}
