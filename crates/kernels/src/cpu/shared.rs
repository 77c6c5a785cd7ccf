//! One slice, written by several threads at once, each in places of its own.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;

/// An exclusive borrow of a slice that can be handed out piecewise.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: a Shared is an exclusive borrow of a slice; who takes pieces of it promises that they do not overlap.
unsafe impl<T: Send> Send for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), borrow: PhantomData }
    }

    /// A piece of the slice. Panics past its end.
    ///
    /// # Safety
    /// No element of `range` may be reachable through another piece while this one lives.
    #[inline(always)]
    pub(crate) unsafe fn piece(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {} elements", self.len);
        // SAFETY: inside the slice, as just checked, and by the caller's promise the only reference to it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// Number of elements.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of the element at `index`, which lies in the slice or just behind it.
    pub(crate) fn address(&self, index: usize) -> *mut T {
        assert!(index <= self.len, "{index} of {} elements", self.len);
        self.start.wrapping_add(index)
    }
}
