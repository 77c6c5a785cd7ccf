use kernels::KernelError;
use kernels::internals::memory::{ALIGN, HUGE, HostMemory};
use std::collections::BTreeSet;

#[test]
fn large_buffers_begin_at_different_lines_and_hold_all_their_bytes() {
    // Of whole huge pages and not: the first kind ends in pages of its own.
    for len in [2 * HUGE, 2 * HUGE - ALIGN, HUGE + 1] {
        let mut buffers: Vec<_> = (0..8).map(|_| HostMemory::zeroed(len).unwrap()).collect();
        let starts: BTreeSet<_> = buffers.iter().map(|memory| memory.address().addr() % 4096).collect();
        // Addresses are the system's choice, so that some may fall together.
        assert!(starts.len() >= 4 && starts.iter().all(|start| start % ALIGN == 0), "{starts:?}");
        for (value, memory) in (1..).zip(&mut buffers) {
            assert!(memory.as_slice().iter().all(|&byte| byte == 0));
            memory.as_mut_slice().fill(value);
        }
        for (value, memory) in (1..).zip(&buffers) {
            assert!(memory.as_slice().iter().all(|&byte| byte == value), "buffers of {len} bytes overlap");
        }
    }
}

#[test]
fn more_than_there_can_be_is_refused() {
    for len in [usize::MAX, usize::MAX - HUGE, isize::MAX as usize] {
        assert!(matches!(HostMemory::zeroed(len), Err(KernelError::OutOfMemory { bytes }) if bytes == len));
    }
}
