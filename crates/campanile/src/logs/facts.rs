//! Facts about a prepared log.

use data::prepared::{Manifest, Values};
use pages::text::{bytes, si};
use spec::run::{DataFormat, LogFacts, LogFeature, LogRows};

/// Whether the samples of a log lie in the order of time. Those that were made from Criteo's logs do, whatever they say.
fn in_time_order(manifest: &Manifest) -> bool {
    manifest.schema.in_time_order || manifest.source.format == DataFormat::CriteoTsv.name()
}

/// Facts about a log that are needed to check a config.
pub fn facts(manifest: &Manifest) -> LogFacts {
    let features = manifest.features.iter().map(|feature| LogFeature {
        name: feature.name.clone(),
        rows: match feature.values {
            Values::Hashed => LogRows::Hashed(feature.rows),
            Values::Rows(rows) => LogRows::Fixed(rows as usize),
        },
        mean_ids: feature.many.then(|| (feature.mean_ids.round() as u32).max(1)),
        pooling: feature.pooling,
        weighted: feature.weighted,
    });
    LogFacts {
        samples: manifest.samples,
        eval_samples: 0,
        in_time_order: in_time_order(manifest),
        dense_features: manifest.dense.len(),
        features: features.collect(),
        labels: LogFacts::labels_of(&manifest.schema),
        sample_weights: manifest.schema.weight.is_some(),
    }
}

/// A log in a line, for people.
pub fn described(manifest: &Manifest) -> String {
    let files = &manifest.source.files;
    let size: u64 = files.iter().map(|file| file.bytes).sum();
    let what = match files.as_slice() {
        [file] => file.path.clone(),
        files => format!("{} files", files.len()),
    };
    format!("{what} ({}, {}), {} samples", manifest.source.format, bytes(size), si(manifest.samples as f64))
}
