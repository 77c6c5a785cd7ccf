//! Texts of ids, one after the other in one allocation.

/// Texts of consecutive ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// End of each text in `bytes`.
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

impl Texts {
    /// Appends a text.
    #[inline]
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        // Texts come in chunks of a few megabytes at most.
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
    }

    /// Keeps the first `count` texts.
    pub fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        self.bytes.truncate(self.ends.last().map_or(0, |&end| end as usize));
    }

    /// Removes all texts and keeps the memory.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Iterates over the texts.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let text = self.bytes.get(start..end as usize).unwrap_or_default();
            start = end as usize;
            text
        })
    }
}
