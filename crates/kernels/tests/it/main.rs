//! Tests of operations as other crates call them, on every device.

mod against_reference;
mod codecs;
mod compile;
mod fm;
mod gpu;
mod idle;
mod input_gradients;
mod nccl;
mod peak;
mod weight_gradients;
mod wire;
