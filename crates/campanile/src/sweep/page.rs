//! The page of a sweep: its table, and the metric against each setting.

use super::space::Setting;
use super::swept::{Swept, cell};
use pages::picture::{Bars, Page, Picture, Point, Scatter, Series, Table};
use toml::Value;
use training::metrics::Better;

/// The page of a sweep.
pub fn of(swept: &Swept) -> Page {
    let keys: Vec<&str> = swept.space.settings().iter().map(Setting::key).collect();
    let mut table = swept.table();
    let head = table.remove(0);
    let mut pictures = vec![Picture::Table(Table {
        caption: format!("Trials, best first; {}", swept.compared_on),
        head,
        rows: table,
    })];
    if let Some(judged) = &swept.judged {
        pictures.push(Picture::Table(Table {
            caption: "The best setting, trained on all training rows, on rows that no choice has seen".into(),
            head: ["trial", "metric", "value"].map(String::from).to_vec(),
            rows: judged
                .record
                .metrics
                .iter()
                .map(|(field, value)| {
                    vec![judged.record.trial.to_string(), field.clone(), pages::four(*value)]
                })
                .collect(),
        }));
    }
    pictures
        .extend(swept.space.settings().iter().enumerate().map(|(at, setting)| against(swept, at, setting)));
    let failed = swept.failures();
    if !failed.is_empty() {
        let rows = failed.into_iter().map(|line| vec![line]).collect();
        pictures.push(Picture::Table(Table {
            caption: "Failed trials".into(),
            head: vec!["cause".into()],
            rows,
        }));
    }
    let subtitle = format!(
        "{} trials in {} rung(s), compared by {} on {}",
        swept.tried.len(),
        swept.rungs,
        swept.metric.label,
        swept.compared_on
    );
    Page { title: format!("Sweep of {}", keys.join(", ")), subtitle, pictures }
}

/// The metric against one setting: points for numbers, bars for other values.
fn against(swept: &Swept, at: usize, setting: &Setting) -> Picture {
    let caption = format!("{} against {}", swept.metric.label, setting.key());
    let number = |value: &Value| match value {
        Value::Float(number) => Some(*number),
        Value::Integer(number) => Some(*number as f64),
        _ => None,
    };
    let found = || swept.tried.iter().filter_map(|tried| Some((tried, tried.value(swept.metric)?)));
    if swept.tried.iter().all(|tried| number(&tried.settings[at].1).is_some()) {
        let points = found().filter_map(|(tried, y)| {
            let x = number(&tried.settings[at].1)?;
            let x = if setting.is_log() { x.log10() } else { x };
            let settings = tried.settings.iter().map(|(key, value)| format!("{key} = {}", cell(value)));
            let name = format!("trial {}: {}", tried.number, settings.collect::<Vec<_>>().join(", "));
            Some(Point { x, y, name, class: format!("after rung {}", tried.last().rung), on_front: false })
        });
        let scale = if setting.is_log() { "log10 of " } else { "" };
        return Picture::Scatter(Scatter {
            caption,
            x_label: format!("{scale}{}", setting.key()),
            y_label: swept.metric.label.into(),
            points: points.collect(),
            limit_x: None,
        });
    }
    let mut groups: Vec<String> = Vec::new();
    let mut values: Vec<Option<f64>> = Vec::new();
    for (tried, value) in found() {
        let name = cell(&tried.settings[at].1);
        let group = groups.iter().position(|known| *known == name).unwrap_or_else(|| {
            groups.push(name);
            values.push(None);
            groups.len() - 1
        });
        let better = |best: f64| match swept.metric.better {
            Better::Lower => best.min(value),
            Better::Higher | Better::Neither => best.max(value),
        };
        values[group] = Some(values[group].map_or(value, better));
    }
    let series = vec![Series { name: "best trial".into(), values, reference: Vec::new() }];
    Picture::Bars(Bars { caption, unit: swept.metric.label.into(), groups, series })
}
