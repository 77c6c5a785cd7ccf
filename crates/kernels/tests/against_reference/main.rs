//! Every operation on `Cpu` with 1, 2 and 3 threads, and without vector instructions, against `Device::Reference`.
//!
//! Tolerance: a sum of n products is held to `(1e-6 + n·1e-7)·(1 + |expected| + magnitude)` where the magnitude is that of
//! its terms, all of which lie in [-1, 1]; element-wise results to 1e-6 of their size. Across thread counts bits are equal.

mod dense;
mod refusals;
mod rows;
mod support;
mod tables;
