//! Every operation on `Cpu` with 1, 2 and 3 threads, without vector instructions, and on a GPU if the environment variable
//! CAMPANILE_TEST_DEVICE names one, against `Device::Reference`.
//!
//! Tolerance: a sum of n products is held to `(1e-6 + n·1e-7)·(1 + |expected| + magnitude)` where the magnitude is that of
//! its terms, all of which lie in [-1, 1]; element-wise results to 1e-6 of their size. Across thread counts bits are equal.

mod chains;
mod cross;
mod dense;
mod ids;
mod in_place;
mod interaction;
mod large;
mod long_runs;
mod marks;
mod on_gpu;
mod pairs;
mod precisions;
mod refusals;
mod rows;
mod slots;
mod support;
mod tables;
mod tensor_trains;
