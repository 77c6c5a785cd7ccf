//! Pages and pictures: escaped text, one style sheet, charts in SVG, tables in plain text.
//!
//! A page is one file that opens in any browser, without a network.
#![forbid(unsafe_code)]

pub mod chart;
mod html;
pub mod markdown;
pub mod picture;
pub mod text;

pub use html::{Escaped, document, document_with, four};
