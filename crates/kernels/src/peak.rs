//! What the machine can do, by bare loops: the measure of kernels that do the same work for a purpose.

mod memory;

pub use crate::cpu::peak::products;
pub use memory::{Memory, Stream, gather, stream, update};
