//! Bytes at an address that direct I/O accepts.

/// What addresses, offsets and lengths of direct I/O are at most multiples of.
pub(super) const ALIGN: usize = 4096;

/// Bytes whose first lies at a multiple of [`ALIGN`]. They keep their capacity, so that steps allocate nothing.
#[derive(Debug, Default)]
pub(super) struct AlignedBytes {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBytes {
    /// So many bytes, of any value.
    pub fn of(len: usize) -> Self {
        let mut bytes = Self::default();
        bytes.resize(len);
        bytes
    }

    /// Sets the number of bytes; their values are of no meaning then.
    pub fn resize(&mut self, len: usize) {
        if self.start + len > self.bytes.len() {
            // Some slack, so that batches of varying sizes settle quickly.
            self.bytes = vec![0; len + len / 4 + ALIGN];
            self.start = self.bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        }
        self.len = len;
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}
