//! Locks that still work after a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, poisoned or not. A rank that panics fails the whole run anyway, and the other ranks need these locks to
/// learn of it. No value behind a lock of this crate is left half-changed in a way that another rank would misread.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
