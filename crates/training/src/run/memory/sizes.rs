//! Sizes of buffers.

use kernels::resident;

/// Bytes of a buffer that grew to `elements` floats.
pub(super) fn floats(elements: f64) -> f64 {
    grown(4.0 * elements)
}

/// Bytes of a buffer that grew to `bytes`.
pub(super) fn grown(bytes: f64) -> f64 {
    resident(bytes as u64, true) as f64
}

/// Bytes of a buffer that was made for `elements` floats.
pub(super) fn exactly(elements: f64) -> f64 {
    resident((4.0 * elements) as u64, false) as f64
}
