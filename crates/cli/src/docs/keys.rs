//! Keys of a TOML file as its type describes them: a JSON schema, turned into tables.

use pages::markdown::table;
use serde_json::Value;
use std::fmt::Write;

/// A key of a file, in words.
pub struct Key {
    /// Name of the key.
    pub name: String,
    /// Type of the value, in words.
    pub kind: String,
    /// Value where the key is left out, if the type or its comment states one.
    pub default: Option<String>,
    /// Meaning of the key: the comment on the field.
    pub meaning: String,
}

/// Types of a JSON schema, and those of them that a page has linked to and must describe.
pub struct Types<'a> {
    schema: &'a Value,
    /// Types that have a page of their own, by name.
    elsewhere: &'a [(&'a str, &'a str)],
    linked: Vec<String>,
    described: usize,
}

impl<'a> Types<'a> {
    /// Types of a schema as `schemars` writes it. Those in `elsewhere` have a page of their own, which is linked to instead.
    pub fn new(schema: &'a Value, elsewhere: &'a [(&'a str, &'a str)]) -> Self {
        Self { schema, elsewhere, linked: Vec::new(), described: 0 }
    }

    /// Follows a reference to a type.
    pub fn resolve(&self, value: &'a Value) -> &'a Value {
        name_of(value).map_or(value, |name| &self.schema["$defs"][name])
    }

    /// Keys of an object, in the order of the alphabet.
    pub fn keys(&mut self, object: &'a Value) -> Vec<Key> {
        let required = object["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(properties) = object["properties"].as_object() else { return Vec::new() };
        let key = |(name, property): (&'a String, &'a Value)| {
            let (meaning, stated) = stated_default(&description(property));
            let is_required = required.iter().any(|required| required == name.as_str());
            let default = match &property["default"] {
                Value::Null => stated,
                Value::Object(empty) if empty.is_empty() => stated,
                value => Some(format!("`{value}`")),
            };
            let kind = self.kind(property);
            let default = match is_required {
                true => Some("required".into()),
                // What a key means that nobody wrote.
                false if kind.starts_with("`true`") => default.or(Some("`false`".into())),
                false if kind.starts_with("list of") => default.or(Some("empty".into())),
                false => default,
            };
            Key { name: name.clone(), kind, default, meaning }
        };
        properties.iter().map(key).collect()
    }

    /// Type of a value in words; types with a name of their own are linked to.
    pub fn kind(&mut self, value: &'a Value) -> String {
        if let Some(name) = name_of(value) {
            let of_type = self.resolve(value);
            if of_type["type"] == "string" && of_type["enum"].is_null() {
                return "text".into();
            }
            if let Some((_, page)) = self.elsewhere.iter().find(|(other, _)| *other == name) {
                return format!("[{}]({page})", spaced(name));
            }
            if !self.linked.iter().any(|known| known == name) {
                self.linked.push(name.into());
            }
            return format!("[{}](#{})", spaced(name), anchor(name));
        }
        if let Some(choices) = choices(value) {
            let kinds: Vec<String> = choices
                .iter()
                .filter(|choice| choice["type"] != "null")
                .map(|choice| self.kind(choice))
                .collect();
            return kinds.join(" or ");
        }
        let kind = match &value["type"] {
            Value::Array(kinds) => kinds.iter().find(|kind| **kind != "null").and_then(Value::as_str),
            kind => kind.as_str(),
        };
        match kind {
            Some("integer") => "whole number".into(),
            Some("number") => "number".into(),
            Some("boolean") => "`true` or `false`".into(),
            Some("string") if value["maxLength"] == 1 => "one character".into(),
            Some("string") => value["const"].as_str().map_or("text".into(), |word| format!("`\"{word}\"`")),
            Some("array") => match &value["items"] {
                Value::Null => "list".into(),
                items => format!("list of {}", plural(&self.kind(items))),
            },
            Some("object") => match &value["additionalProperties"] {
                Value::Object(_) => format!("table: name = {}", self.kind(&value["additionalProperties"])),
                _ => self.shape(value),
            },
            _ => "any".into(),
        }
    }

    /// An object as inline TOML, with types in place of values.
    fn shape(&mut self, object: &'a Value) -> String {
        let Some(properties) = object["properties"].as_object() else { return "table".into() };
        let mut fields: Vec<(&String, &Value)> = properties.iter().collect();
        // The key that tells variants apart stands first.
        fields.sort_by_key(|(_, property)| property["const"].is_null());
        let fields = fields.into_iter().map(|(name, property)| match property["const"].as_str() {
            Some(word) => format!("{name} = \"{word}\""),
            None => format!("{name} = {}", self.kind(property).trim_matches('`')),
        });
        format!("`{{ {} }}`", fields.collect::<Vec<_>>().join(", "))
    }

    /// Sections on all types that were linked to, with those that they link to in turn.
    pub fn sections(&mut self) -> String {
        let mut text = String::new();
        while let Some(name) = self.linked.get(self.described).cloned() {
            self.described += 1;
            let of_type = &self.schema["$defs"][&name];
            let _ = writeln!(text, "\n### {}\n\n{}", spaced(&name), description(of_type));
            if of_type["properties"].is_object() {
                let rows = self.keys(of_type).into_iter().map(Key::cells).collect::<Vec<_>>();
                let _ = write!(text, "\n{}", table(4, &["key", "type", "default", "meaning"], &rows));
            } else if let Some(choices) = choices(of_type) {
                let rows: Vec<Vec<String>> = choices.iter().flat_map(|choice| self.variant(choice)).collect();
                let _ = write!(text, "\n{}", table(2, &["value", "meaning"], &rows));
            }
        }
        text
    }

    /// Rows on a variant of a type: one, or one for each of the words that mean nothing more.
    fn variant(&mut self, variant: &'a Value) -> Vec<Vec<String>> {
        if let Some(words) = variant["enum"].as_array() {
            return words.iter().map(|word| vec![format!("`{word}`"), String::new()]).collect();
        }
        let mut meaning = description(variant);
        for (name, comment) in comments(variant) {
            let _ = write!(meaning, " `{name}`: {comment}");
        }
        vec![vec![self.kind(variant), meaning]]
    }
}

impl Key {
    /// Cells of the key: name, type, default and meaning.
    pub fn cells(self) -> Vec<String> {
        vec![format!("`{}`", self.name), self.kind, self.default.unwrap_or("none".into()), self.meaning]
    }
}

/// Comments on the fields of a variant, also of those in a table inside it.
fn comments(variant: &Value) -> Vec<(String, String)> {
    let Some(properties) = variant["properties"].as_object() else { return Vec::new() };
    let of_field = |(name, property): (&String, &Value)| match description(property) {
        comment if comment.is_empty() => comments(property),
        comment => vec![(name.clone(), comment)],
    };
    properties.iter().flat_map(of_field).collect()
}

/// Forms that a value may have.
fn choices(value: &Value) -> Option<&Vec<Value>> {
    value["oneOf"].as_array().or(value["anyOf"].as_array())
}

/// Name of the type that a value refers to.
fn name_of(value: &Value) -> Option<&str> {
    value["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// Comment on a type or field, without its examples, in one line.
pub fn description(value: &Value) -> String {
    let text = value["description"].as_str().unwrap_or_default();
    let text = text.split("```").next().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A comment without the sentence that states the default, and that default.
fn stated_default(comment: &str) -> (String, Option<String>) {
    let Some((before, after)) = comment.split_once("Default: ") else {
        let stated = comment.contains("y default").then(|| "as described".to_owned());
        return (comment.into(), stated);
    };
    let (default, rest) = after.split_once(". ").unwrap_or((after.trim_end_matches('.'), ""));
    (format!("{before}{rest}").trim().into(), Some(default.into()))
}

/// Name of a type in words: `DataFormat` is `data format`.
fn spaced(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// Anchor of the section on a type.
fn anchor(name: &str) -> String {
    spaced(name).replace(' ', "-")
}

fn plural(kind: &str) -> String {
    match kind {
        "text" => "texts".into(),
        "number" | "whole number" => format!("{kind}s"),
        other => other.into(),
    }
}
