//! The command line over logs from files: real ones, generated ones in every format, and hostile ones.

#[path = "data/bad_lines.rs"]
mod bad_lines;
#[path = "data/categories.rs"]
mod categories;
#[path = "data/command.rs"]
mod command;
#[path = "data/criteo.rs"]
mod criteo;
#[path = "data/discovered.rs"]
mod discovered;
#[path = "data/evaluation.rs"]
mod evaluation;
#[path = "data/formats.rs"]
mod formats;
#[path = "data/hostile.rs"]
mod hostile;
#[path = "data/inspect.rs"]
mod inspect;
#[path = "data/labels.rs"]
mod labels;
#[path = "data/oddities.rs"]
mod oddities;
#[path = "data/onnx.rs"]
mod onnx;
#[path = "data/prediction.rs"]
mod prediction;
#[path = "data/prepare.rs"]
mod prepare;
#[path = "support/python.rs"]
mod python;
#[path = "data/refusals.rs"]
mod refusals;
#[path = "data/shop.rs"]
mod shop;
#[path = "data/shop_parquet.rs"]
mod shop_parquet;
#[path = "support/skipped.rs"]
mod skipped;
#[path = "data/split.rs"]
mod split;
#[path = "data/transforms.rs"]
mod transforms;
