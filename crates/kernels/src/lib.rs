//! Arithmetic on a device.
//!
//! [`Device`] is the only entry: its methods are the operations of a training step, each checked for shapes once and
//! then carried out by one of the implementations below it. What a method computes is defined by [`mod@reference`], slow
//! and obvious; the fast implementations are held against it by property tests.
#![deny(unsafe_code)]

mod buffer;
mod cpu;
mod device;
mod embedding;
mod error;
mod fm;
pub mod reference;
mod wire;

pub use buffer::{Buffer, Bytes, Element};
pub use cpu::Cpu;
pub use cpu::linear::linear_scratch;
pub use cpu::memory::resident;
pub use device::{ColumnCopy, Device, InputGradient, LinearAt, LinearShape};
pub use embedding::{BagIndex, Segment, SortedIds, Table};
pub use error::KernelError;
pub use fm::FmShape;
pub use wire::BlockCopy;
