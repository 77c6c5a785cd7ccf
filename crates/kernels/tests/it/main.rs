//! Tests of operations as other crates call them, on every device, and of what they are made of (`units`).

mod against_reference;
mod codecs;
mod compile;
mod fm;
mod gpu;
mod idle;
mod input_gradients;
mod nccl;
mod peak;
mod units;
mod weight_gradients;
mod wire;
