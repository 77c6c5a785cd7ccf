//! Algorithms of matrix products, pinned in a file: the same product is computed in the same way in every run on the same
//! kind of card, so that the same run gives the same bits.
//!
//! The file `products.json` of the cache folder maps a product, in words, to the 64 bytes by which cuBLASLt knows an algorithm. It
//! may be copied to other machines, or deleted: algorithms are then chosen anew.

use super::cache::replace;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Words that an algorithm of cuBLASLt consists of.
pub type Algorithm = [u64; 8];

/// Algorithms of a card's products, by product.
#[derive(Debug)]
pub struct Algorithms {
    file: Option<PathBuf>,
    known: Mutex<BTreeMap<String, Algorithm>>,
}

impl Algorithms {
    /// Algorithms that the cache folder pins. A file that cannot be read pins none.
    pub fn open(cache: Option<&Path>) -> Self {
        let file = cache.map(|folder| folder.join("products.json"));
        let known = file.as_deref().map(read).unwrap_or_default();
        Self { file, known: Mutex::new(known) }
    }

    /// Algorithm of `product`: the pinned one if it is `usable`, else the one that `choose` gives, which is pinned then. Ranks that
    /// share the card wait for each other, so that a product is measured once, and alone.
    pub fn pick<E>(
        &self,
        product: &str,
        usable: impl Fn(&Algorithm) -> bool,
        choose: impl FnOnce() -> Result<Algorithm, E>,
    ) -> Result<Algorithm, E> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(algorithm) = known.get(product).filter(|algorithm| usable(algorithm)) {
            return Ok(*algorithm);
        }
        // Another process may have chosen meanwhile.
        let written = self.written(product);
        if let Some(algorithm) = written.filter(&usable) {
            known.insert(product.to_owned(), algorithm);
            return Ok(algorithm);
        }
        let mut algorithm = choose()?;
        if let Some(file) = &self.file {
            // Two processes that write at once would each lose what the other has chosen, and choose anew the next time.
            let _lock = locked(file);
            let mut all = read(file);
            // What another process has written in this moment holds for all.
            match all.get(product).filter(|written| usable(written)) {
                Some(written) => algorithm = *written,
                None => {
                    all.insert(product.to_owned(), algorithm);
                    // A folder that cannot be written costs a choice per run, and nothing else.
                    let _ = replace(file, text(&all).as_bytes());
                }
            }
        }
        known.insert(product.to_owned(), algorithm);
        Ok(algorithm)
    }

    fn written(&self, product: &str) -> Option<Algorithm> {
        self.file.as_deref().and_then(|file| read(file).get(product).copied())
    }
}

/// The lock of a file that several processes write, until it is dropped; `None` where there can be none.
fn locked(file: &Path) -> Option<File> {
    let lock = File::create(file.with_extension("lock")).ok()?;
    lock.lock().ok()?;
    Some(lock)
}

/// Algorithms of a file; entries that are none are left out.
fn read(file: &Path) -> BTreeMap<String, Algorithm> {
    let text = std::fs::read(file).unwrap_or_default();
    let entries: BTreeMap<String, String> = serde_json::from_slice(&text).unwrap_or_default();
    entries.into_iter().filter_map(|(product, digits)| Some((product, parse(&digits)?))).collect()
}

fn text(algorithms: &BTreeMap<String, Algorithm>) -> String {
    let digits = |words: &Algorithm| words.iter().map(|word| format!("{word:016x}")).collect::<String>();
    let entries: BTreeMap<&String, String> =
        algorithms.iter().map(|(product, words)| (product, digits(words))).collect();
    serde_json::to_string_pretty(&entries).unwrap_or_default() + "\n"
}

fn parse(digits: &str) -> Option<Algorithm> {
    let mut algorithm = Algorithm::default();
    if digits.len() != 16 * algorithm.len() || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (i, word) in algorithm.iter_mut().enumerate() {
        *word = u64::from_str_radix(&digits[16 * i..16 * (i + 1)], 16).ok()?;
    }
    Some(algorithm)
}
