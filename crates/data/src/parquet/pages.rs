//! Checks the headers of pages before they are decoded.
//!
//! The decoders allocate memory for as many values as a header announces before they find that there are fewer. So a page is
//! checked first: all pages together have at most as many values as the column chunk, the number of values of a page is
//! bounded, a dictionary has enough bytes for its values, and delta-encoded strings have no more lengths than values.

use super::delta;
use ::parquet::basic::{Encoding, Type as Physical};
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::schema::types::ColumnDescPtr;

/// Largest number of values of one page. Writers limit the bytes of a page, and a million rows of equal long lists take few
/// bytes; a page with more values than this does not belong to a click log.
const MAX_PAGE_VALUES: u32 = 1 << 27;

/// Pages of a column chunk, checked as they are read.
pub(super) struct CheckedPages {
    pages: Box<dyn PageReader>,
    column: ColumnDescPtr,
    /// Number of values that remain, according to the footer of the file.
    left: u64,
}

impl CheckedPages {
    /// Checks the pages of `column`, which should hold `values` values, including nulls and empty lists.
    pub fn new(pages: Box<dyn PageReader>, column: ColumnDescPtr, values: u64) -> Self {
        Self { pages, column, left: values }
    }

    fn check(&mut self, page: &Page) -> Result<()> {
        let (values, bytes) = (page.num_values(), page.buffer().len());
        if page.is_dictionary_page() {
            if u64::from(values) * self.least_bytes() > bytes as u64 {
                return refuse(format!("a dictionary of {values} values in {bytes} bytes"));
            }
            return Ok(());
        }
        if values > MAX_PAGE_VALUES {
            return refuse(format!(
                "a page of {values} values, more than {MAX_PAGE_VALUES}; write smaller pages"
            ));
        }
        let Some(left) = self.left.checked_sub(values.into()) else {
            return refuse(format!("a page of {values} values where {} are left", self.left));
        };
        self.left = left;
        let shared = match page.encoding() {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => false,
            Encoding::DELTA_BYTE_ARRAY => true,
            _ => return Ok(()),
        };
        let strings = self.values_start(page).and_then(|start| page.buffer().get(start..));
        match strings.is_some_and(|strings| delta::counts_fit(strings, values.into(), shared)) {
            true => Ok(()),
            false => refuse(format!("the lengths of {values} strings make no sense")),
        }
    }

    /// Smallest number of bytes of a value in a dictionary.
    fn least_bytes(&self) -> u64 {
        match self.column.physical_type() {
            Physical::BOOLEAN | Physical::FIXED_LEN_BYTE_ARRAY => 1,
            Physical::INT32 | Physical::FLOAT | Physical::BYTE_ARRAY => 4,
            Physical::INT64 | Physical::DOUBLE => 8,
            Physical::INT96 => 12,
        }
    }

    /// Offset of the values of a data page, after its levels.
    fn values_start(&self, page: &Page) -> Option<usize> {
        match page {
            Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
                usize::try_from(u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len)).ok()
            }
            Page::DataPage { buf, .. } => {
                let mut start = 0usize;
                for level in [self.column.max_rep_level(), self.column.max_def_level()] {
                    if level > 0 {
                        let end = start.checked_add(4)?;
                        let length = u32::from_le_bytes(buf.get(start..end)?.try_into().ok()?);
                        start = end.checked_add(usize::try_from(length).ok()?)?;
                    }
                }
                Some(start)
            }
            Page::DictionaryPage { .. } => None,
        }
    }
}

fn refuse(problem: String) -> Result<()> {
    Err(ParquetError::General(problem))
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            self.check(page)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
