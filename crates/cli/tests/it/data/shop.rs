//! A log for `examples/schemas/multi-hot.toml`, as values and as text.

use crate::support::command::repository;
use spec::random::RandomSequence;
use std::ops::Range;

/// The schema's text, for CSV.
pub fn schema() -> String {
    std::fs::read_to_string(repository("examples/schemas/multi-hot.toml")).unwrap()
}

/// The schema for the same lines with tabs.
pub fn schema_with_tabs() -> String {
    format!("delimiter = \"\\t\"\n{}", schema())
}

/// The schema for the same rows in Parquet: lists instead of separators.
pub fn schema_with_lists() -> String {
    let schema = schema();
    let lists = schema.replace("\nseparator = \"|\"", "\nlist = true");
    assert_eq!(lists.matches("list = true").count(), 3);
    lists
}

/// A sample.
pub struct Row {
    pub clicked: bool,
    pub price: Option<f64>,
    pub age: Option<f64>,
    pub user: Option<String>,
    pub brand: String,
    pub tags: Vec<String>,
    /// An id, and its weight where one is written.
    pub visited: Vec<(u64, Option<f64>)>,
    pub bought: Vec<(u64, f64)>,
    pub hour: u64,
}

/// The rows `samples` of the log.
pub fn rows(samples: Range<u64>) -> Vec<Row> {
    samples.map(Row::draw).collect()
}

impl Row {
    fn draw(sample: u64) -> Self {
        let unit = |what: &str| RandomSequence::new(5, what).unit_f64(sample);
        let below = |what: &str, count: u64| (unit(what).powi(2) * count as f64) as u64;
        let effect = |what: &str, id: u64| f64::from(RandomSequence::new(6, what).symmetric(id, 1.2));
        let draws = |what: &str, most: u64, count: u64| -> Vec<u64> {
            let length = (RandomSequence::new(7, what).unit_f64(sample) * (most + 1) as f64) as u64;
            (0..length).map(|i| RandomSequence::new(8, what).bits(8 * sample + i) % count).collect()
        };
        let (user, brand, hour) = (below("user", 300), below("brand", 90), below("hour", 24));
        let (tags, visited, bought) =
            (draws("tags", 3, 40), draws("visited", 4, 250), draws("bought", 2, 150));
        let price = (unit("price") * 1e4).round() / 100.0;
        let logit = effect("user", user)
            + effect("brand", brand)
            + tags.iter().map(|&tag| effect("tags", tag)).sum::<f64>()
            + bought.iter().map(|&id| effect("bought", id)).sum::<f64>()
            - (1.0 + price).ln()
            + 3.0;
        let weight = |id: u64| (id % 7) as f64 / 4.0 - 0.5;
        Self {
            clicked: unit("click") < 1.0 / (1.0 + (-logit).exp()),
            price: (!sample.is_multiple_of(11)).then_some(price),
            age: (!sample.is_multiple_of(5)).then_some(18.0 + below("age", 60) as f64),
            user: (!sample.is_multiple_of(17)).then(|| format!("u{user}")),
            brand: format!("Smith, \"{brand}\" & Söhne"),
            tags: tags.iter().map(|tag| format!("tag {tag}")).collect(),
            visited: visited.iter().map(|&id| (id, (id % 3 != 0).then(|| weight(id)))).collect(),
            bought: bought.iter().map(|&id| (id, weight(id))).collect(),
            hour,
        }
    }

    /// The items of `visited` as they are written.
    pub fn visited_text(&self) -> Vec<String> {
        let item = |&(id, weight): &(u64, Option<f64>)| match weight {
            Some(weight) => format!("{id}:{weight}"),
            None => id.to_string(),
        };
        self.visited.iter().map(item).collect()
    }
}

/// The rows as text with a header. A missing field is empty in every other line, and `NA` in the rest.
pub fn text(rows: &[Row], delimiter: char) -> String {
    let header = "clicked,price,age,user,brand,tags,visited,bought,amounts,hour,session";
    let mut text = format!("{}\n", header.replace(',', &delimiter.to_string()));
    for (number, row) in rows.iter().enumerate() {
        let missing = if number % 2 == 0 { "" } else { "NA" };
        let or_missing = |field: Option<String>| field.unwrap_or_else(|| missing.into());
        let joined = |items: Vec<String>| or_missing((!items.is_empty()).then(|| items.join("|")));
        let fields = [
            u8::from(row.clicked).to_string(),
            or_missing(row.price.map(|price| price.to_string())),
            or_missing(row.age.map(|age| age.to_string())),
            or_missing(row.user.clone()),
            format!("\"{}\"", row.brand.replace('"', "\"\"")),
            joined(row.tags.clone()),
            joined(row.visited_text()),
            joined(row.bought.iter().map(|(id, _)| id.to_string()).collect()),
            joined(row.bought.iter().map(|(_, amount)| amount.to_string()).collect()),
            row.hour.to_string(),
            number.to_string(),
        ];
        text.push_str(&fields.join(&delimiter.to_string()));
        text.push('\n');
    }
    text
}
