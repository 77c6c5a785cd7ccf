//! Tests of the library as programs use it.

mod examples;
mod library;
mod warm_start;
