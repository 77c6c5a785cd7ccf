//! Sizes of tiles, and how the columns of a product are cut into them.

use crate::cpu::level::Level;
use std::ops::Range;

/// The most rows of any level's tile.
pub(super) const MOST_ROWS: usize = 14;
/// A tile of three vectors, which reads packed operands alone.
pub const WIDE: TileSize = TileSize { rows: 8, columns: 48 };

/// Rows and columns of a full tile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TileSize {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
}

impl Level {
    /// Floats of a vector.
    pub(crate) fn lanes(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => 16,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => 8,
            Level::Portable => 4,
        }
    }

    /// Tiles of products with so many columns.
    ///
    /// Wide tiles load less for every multiplication than tall ones: 11 loads for 24 against 16 for 28. A core that works for two threads
    /// is short of loads before it is short of multiplications.
    pub(crate) fn tile(self, columns: usize) -> TileSize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 if columns > self.tall_tile().columns => WIDE,
            _ => {
                let _ = columns; // Other processors have one size.
                self.tall_tile()
            }
        }
    }

    /// Tiles of products that are two vectors wide.
    pub fn tall_tile(self) -> TileSize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => TileSize { rows: 14, columns: 32 },
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => TileSize { rows: 6, columns: 16 },
            Level::Portable => TileSize { rows: 4, columns: 8 },
        }
    }
}

impl TileSize {
    /// Whether tiles read packed operands alone.
    pub(crate) fn needs_packing(self) -> bool {
        self == WIDE
    }

    /// Number of panels that [`TileSize::cut`] makes of `columns` columns.
    pub fn panels(self, columns: usize) -> usize {
        columns.div_ceil(self.columns)
    }

    /// First column of a panel among those of `columns` columns; `columns` for the panel behind the last.
    pub fn start(self, panel: usize, columns: usize) -> usize {
        self.cut(0..columns).nth(panel).map_or(columns, |some| some.start)
    }

    /// Number of the panel that begins with `column`.
    pub fn panel(self, column: usize) -> usize {
        // The second of two panels that share four thirds of a panel's columns begins early.
        column.div_ceil(self.columns)
    }

    /// Cuts `columns` into those of tiles. Where the last tile would have one vector of three, the last two have two each: one vector is
    /// not enough to do for what a tile loads.
    pub fn cut(self, columns: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let pair = if self == WIDE { WIDE.columns / 3 * 4 } else { self.columns };
        let mut left = columns.start;
        std::iter::from_fn(move || {
            let (start, rest) = (left, columns.end - left);
            let both = rest > self.columns && rest <= pair;
            left += if both { pair / 2 } else { rest.min(self.columns) };
            (rest > 0).then_some(start..left)
        })
    }
}
