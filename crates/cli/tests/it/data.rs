//! The command line over logs from files: real ones, generated ones in every format, and hostile ones.

mod bad_lines;
mod categories;
mod criteo;
mod discovered;
mod evaluation;
mod formats;
mod hostile;
mod inspect;
mod labels;
mod oddities;
mod onnx;
mod prediction;
mod prepare;
mod refusals;
mod shop;
mod shop_parquet;
mod split;
mod transforms;
