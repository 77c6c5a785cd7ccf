//! Launches of kernels: a grid, a block, and arguments in the order of the kernel's parameters.

use super::Cuda;
use super::memory::Pointer;
use super::work::{ARGUMENTS, Kernel};
use crate::{Buffer, Element, KernelError};

/// The most words that the arguments of a kernel have in all: eleven tensor maps and some more.
const WORDS: usize = 192;

/// A kernel to be launched on a rank's queue. Without `grid` nothing is launched; blocks have 256 threads unless told.
#[must_use = "a kernel runs when it is launched"]
pub(crate) struct Launch<'a> {
    cuda: &'a Cuda,
    name: &'static str,
    grid: [u32; 3],
    block: u32,
    shared: usize,
    values: [u64; WORDS],
    /// Words of `values` that are in use.
    used: usize,
    /// First word of each argument.
    starts: [u64; ARGUMENTS],
    count: usize,
}

/// Element `.1` of a buffer and those behind it, as an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a, T>(pub(crate) &'a Buffer<T>, pub(crate) usize);

/// An argument of a kernel: the bits of a parameter of at most eight bytes.
pub(crate) trait Argument {
    fn bits(&self) -> u64;
}

impl Argument for u32 {
    fn bits(&self) -> u64 {
        u64::from(*self)
    }
}

impl Argument for i32 {
    fn bits(&self) -> u64 {
        u64::from(*self as u32)
    }
}

impl Argument for u64 {
    fn bits(&self) -> u64 {
        *self
    }
}

/// A count or an offset: the kernel's parameter is `u64`.
impl Argument for usize {
    fn bits(&self) -> u64 {
        *self as u64
    }
}

impl Argument for f32 {
    fn bits(&self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Argument for f64 {
    fn bits(&self) -> u64 {
        self.to_bits()
    }
}

impl Argument for Pointer {
    fn bits(&self) -> u64 {
        self.0
    }
}

impl<T: Element> Argument for &Buffer<T> {
    fn bits(&self) -> u64 {
        self.card_address().0
    }
}

impl<T: Element> Argument for &mut Buffer<T> {
    fn bits(&self) -> u64 {
        self.card_address().0
    }
}

impl<T: Element> Argument for At<'_, T> {
    fn bits(&self) -> u64 {
        self.0.card_address().plus(self.1 * size_of::<T>()).0
    }
}

/// A pointer that may be absent: null.
impl<A: Argument> Argument for Option<A> {
    fn bits(&self) -> u64 {
        self.as_ref().map_or(0, Argument::bits)
    }
}

impl Cuda {
    /// The kernel `name`, to be given a grid and arguments.
    pub(crate) fn kernel(&self, name: &'static str) -> Launch<'_> {
        Launch {
            cuda: self,
            name,
            grid: [0; 3],
            block: 256,
            shared: 0,
            values: [0; WORDS],
            used: 0,
            starts: [0; ARGUMENTS],
            count: 0,
        }
    }
}

impl Launch<'_> {
    /// Number of blocks, in one dimension.
    pub(crate) fn grid(self, blocks: usize) -> Self {
        self.grid3([blocks, 1, 1])
    }

    /// Number of blocks, in three dimensions.
    pub(crate) fn grid3(mut self, blocks: [usize; 3]) -> Self {
        self.grid = blocks.map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX));
        self
    }

    /// As many blocks as `threads` threads need.
    pub(crate) fn threads(self, threads: usize) -> Self {
        let block = self.block as usize;
        self.grid(threads.div_ceil(block))
    }

    /// Threads of a block; to be said before [`Launch::threads`].
    pub(crate) fn block(mut self, threads: u32) -> Self {
        self.block = threads;
        self
    }

    /// Bytes of dynamic shared memory of a block.
    pub(crate) fn shared(mut self, bytes: usize) -> Self {
        self.shared = bytes;
        self
    }

    /// The next argument.
    pub(crate) fn arg(self, argument: impl Argument) -> Self {
        self.words(&[argument.bits()])
    }

    /// The next argument, a struct by value.
    pub(crate) fn words(mut self, words: &[u64]) -> Self {
        self.values[self.used..][..words.len()].copy_from_slice(words);
        self.starts[self.count] = self.used as u64;
        self.used += words.len();
        self.count += 1;
        self
    }

    /// Puts the kernel into the queue; a grid without blocks is nothing to do.
    pub(crate) fn launch(self) -> Result<(), KernelError> {
        if self.grid.contains(&0) {
            return Ok(());
        }
        let place = self.cuda.place();
        place.of_rank.counters.launched();
        let function = place.gpu.function(self.name)?.0 as usize;
        let queue = self.cuda.stream().queue();
        let kernel = Kernel::new(self.name, function, queue, self.grid, self.block, self.shared as u32);
        place.of_rank.replay.put_kernel(
            &place.gpu,
            kernel,
            &self.values[..self.used],
            &self.starts[..self.count],
        )
    }
}
