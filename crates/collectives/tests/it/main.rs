//! Tests of collectives as other crates use them, on ranks that are threads.

mod conformance;
mod failures;
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "../../../kernels/tests/it/gpu.rs"]
mod gpu;
mod nccl;
mod suite;
