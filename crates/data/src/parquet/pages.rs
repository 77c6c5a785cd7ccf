//! Pages whose headers do not promise the impossible.
//!
//! The decoders make room for as many values as a page's header announces, before they find that the page has fewer. So a
//! page is looked at before it goes to them: the values of all pages are at most those of the column chunk, a page has a
//! bounded number, and a dictionary has no more values than bytes.

use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::{ParquetError, Result};

/// The most values of one page. Writers limit the bytes of a page, and a million rows of long lists that are all alike
/// take few; beyond this, though, it is no click log.
const MAX_PAGE_VALUES: u32 = 1 << 27;

/// The pages of a column chunk.
pub(super) struct CheckedPages {
    pages: Box<dyn PageReader>,
    /// Values that are still to come, says the file's footer.
    left: u64,
}

impl CheckedPages {
    /// Pages that should hold `values` values, nulls and empty lists included.
    pub fn new(pages: Box<dyn PageReader>, values: u64) -> Self {
        Self { pages, left: values }
    }

    fn check(&mut self, page: &Page) -> Result<()> {
        let (values, bytes) = (page.num_values(), page.buffer().len());
        if page.is_dictionary_page() {
            if values as usize > bytes {
                return Err(refusal(format!("a dictionary of {values} values in {bytes} bytes")));
            }
            return Ok(());
        }
        if values > MAX_PAGE_VALUES {
            return Err(refusal(format!(
                "a page of {values} values, more than {MAX_PAGE_VALUES}; write smaller pages"
            )));
        }
        match self.left.checked_sub(values.into()) {
            Some(left) => self.left = left,
            None => {
                return Err(refusal(format!("a page of {values} values where {} are left", self.left)));
            }
        }
        Ok(())
    }
}

fn refusal(problem: String) -> ParquetError {
    ParquetError::General(problem)
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
