//! What travels in a step and how it is laid out. No layer mathematics.

mod flat;
mod input;

pub use flat::Flat;
pub use input::Input;
