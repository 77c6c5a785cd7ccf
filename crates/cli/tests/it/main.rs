//! Tests of the binary as users run it, and of the documents.

mod architecture;
mod bench_collectives;
mod calibrate;
mod commands;
mod data;
mod device;
mod durability;
mod explore;
mod figures;
mod first_hour;
mod guide;
mod outputs;
mod pages;
mod partitioner;
mod plan;
mod report;
mod simulate;
mod support;
mod sweep;
mod towers;
