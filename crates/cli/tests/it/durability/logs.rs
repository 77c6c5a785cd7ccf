//! Logs that are written in no time. Their labels follow their ids, so that there is something to learn.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// A well-mixed number for each counter (SplitMix64).
pub fn mixed(counter: u64) -> u64 {
    let mut z = counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Writes `lines` lines of a Criteo log: label, 13 numbers, 26 ids, about 300 bytes a line.
pub fn criteo(path: &Path, lines: u64, seed: u64) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    for line in 0..lines {
        let at = mixed(seed ^ line << 8);
        write!(file, "{}", u8::from(mixed(at % 100).is_multiple_of(3))).unwrap();
        for column in 0..13u64 {
            // Some are missing.
            match mixed(at ^ column) % 50 {
                0 => write!(file, "\t").unwrap(),
                number => write!(file, "\t{number}").unwrap(),
            }
        }
        for column in 0..26u64 {
            let distinct = if column == 0 { 100 } else { 1000 };
            write!(file, "\t{:08x}", mixed(at % distinct + 1000 * column) as u32).unwrap();
        }
        writeln!(file).unwrap();
    }
    file.flush().unwrap();
}

/// Writes `lines` lines of CSV with a header: label, price, and as many distinct ids as there are lines.
pub fn distinct_ids(path: &Path, lines: u64) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    writeln!(file, "clicked,price,user").unwrap();
    for line in 0..lines {
        let at = mixed(line);
        writeln!(file, "{},{}.5,user-{at:016x}", at & 1, at % 90).unwrap();
    }
    file.flush().unwrap();
}
