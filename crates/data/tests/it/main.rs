//! Tests of logs as other crates read them.

mod parquet_golden;
mod transforms;
