//! NVIDIA GPUs. Libraries are loaded at run time, so that the program starts on machines without any.
//!
//! A [`Gpu`] is a card of this process; a [`Cuda`] is one rank's use of it, with queues of its own. An operation puts kernels
//! into the rank's queue and returns: what it computes is there for the later work of the queue, and for whatever waits for an
//! event behind it. Kernels are CUDA C in `kernels/`, products are cuBLASLt's. Nothing is added up in an order that may change
//! from run to run.
#![allow(unsafe_code)]

pub(crate) mod algorithms;
mod arrays;
mod backend;
mod beside;
mod blas;
mod cache;
mod chain;
mod codec;
pub(crate) mod columns;
mod compile;
mod counters;
mod cross;
pub(crate) mod cross_product;
mod draw;
mod elementwise;
pub(crate) mod fault;
mod gpu;
pub(crate) mod gradient;
mod gradient_tf32;
mod graph;
pub(crate) mod index;
mod interaction;
mod kernels;
mod launch;
pub(crate) mod library;
mod linear;
mod lookup;
mod marks;
pub(crate) mod memory;
mod nccl;
mod operand;
mod optimizer;
mod pack;
mod pairs;
pub(crate) mod peak;
pub(crate) mod product;
mod replay;
mod row_copies;
mod rows;
mod rule;
mod sort;
pub(crate) mod stream;
mod tables;
mod tensor_map;
mod tensor_train;
mod update;
pub(crate) mod weight_gradient;
pub(crate) mod wire;
pub(crate) mod work;

pub use compile::compile_kernels;
pub use counters::Counts;
pub use gpu::{Gpu, GpuOptions};
#[doc(hidden)]
pub use gradient::probe::GradientProbe;
pub use library::{CudaReport, Found, GpuReport, cuda_report};
pub use nccl::{NCCL_ID_BYTES, Nccl, NcclCommunicator, NcclId};
pub use pack::packed_bytes_on_card;

use crate::KernelError;
use arrays::Arrays;
use counters::Counters;
pub(crate) use fault::FAULTS as FAULT_WORDS;
use fault::{FAULTS, Operands};
use ground::precision::Precision;
use memory::{CardMemory, Place, Pointer};
use product::Products;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stream::{CardEvent, Stream};

/// Queues of a rank: computations, exchanges, gradients, inputs, what no computation of a step waits for, and what operations do beside.
pub(crate) const QUEUES: usize = 6;
/// The queue of the last kind.
const BESIDE: usize = QUEUES - 1;

/// One rank's use of a card. Clones share everything but the queue that their operations go to
/// and the precision of their products.
#[derive(Clone, Debug)]
pub struct Cuda {
    rank: Arc<Rank>,
    queue: usize,
    precision: Precision,
}

#[derive(Debug)]
struct Rank {
    place: Place,
    streams: Vec<Stream>,
    /// Where an operation goes on in another queue too, and where both meet again.
    forks: (CardEvent, CardEvent),
    faults: CardMemory,
    operands: Mutex<Operands>,
    arrays: Mutex<Arrays>,
    products: Mutex<Products>,
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.place.of_rank.replay.close();
    }
}

impl Cuda {
    /// A rank's use of `gpu`, computing products in `precision`.
    pub(crate) fn new(gpu: &Gpu, precision: Precision) -> Result<Self, KernelError> {
        let place = Place::new(gpu);
        let streams = (0..QUEUES).map(|_| Stream::new(&place)).collect::<Result<Vec<_>, _>>()?;
        place.of_rank.replay.set_queues(streams.iter().map(Stream::queue).collect());
        let forks = (CardEvent::between_queues(&place)?, CardEvent::between_queues(&place)?);
        let faults = CardMemory::zeroed(&place, FAULTS * size_of::<u64>())?;
        faults.fill(u8::MAX)?;
        let arrays = Mutex::new(Arrays::new(&place));
        let rank = Rank {
            place,
            streams,
            forks,
            faults,
            operands: Mutex::default(),
            arrays,
            products: Mutex::default(),
        };
        Ok(Self { rank: Arc::new(rank), queue: 0, precision })
    }

    /// The device with operations on another queue.
    pub(crate) fn on(&self, queue: usize) -> Self {
        Self { queue: queue.min(BESIDE - 1), ..self.clone() }
    }

    /// The device with operations on the queue beside all others.
    fn beside(&self) -> Self {
        Self { queue: BESIDE, ..self.clone() }
    }

    /// Events where an operation goes on in another queue too, and where both meet again.
    fn forks(&self) -> (&CardEvent, &CardEvent) {
        (&self.rank.forks.0, &self.rank.forks.1)
    }

    /// Card that the rank uses.
    pub fn gpu(&self) -> &Gpu {
        &self.rank.place.gpu
    }

    /// Precision of products.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// The device with products in another precision.
    pub(crate) fn in_precision(&self, precision: Precision) -> Self {
        Self { precision, ..self.clone() }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.rank.place
    }

    pub(crate) fn queue(&self) -> usize {
        self.queue
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.rank.streams[self.queue]
    }

    pub(crate) fn streams(&self) -> &[Stream] {
        &self.rank.streams
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.rank.place.of_rank.counters
    }

    /// Address of the rank's fault record.
    pub(crate) fn faults(&self) -> Pointer {
        self.rank.faults.address()
    }

    pub(crate) fn multiprocessors(&self) -> u32 {
        self.gpu().multiprocessors()
    }

    /// Waits for all work of the rank's queues, and gives the first fault that an operation met, if any.
    pub(crate) fn check(&self) -> Result<(), KernelError> {
        self.synchronise()?;
        let mut words = [0u64; FAULTS];
        self.rank.faults.read(0, bytemuck::bytes_of_mut(&mut words))?;
        match self.fault(&words) {
            Some(error) => {
                self.rank.faults.fill(u8::MAX)?;
                Err(error)
            }
            None => Ok(()),
        }
    }

    /// The error that a copy of the fault record stands for.
    pub(crate) fn fault(&self, words: &[u64; FAULTS]) -> Option<KernelError> {
        fault::error_of(words, &self.operands())
    }

    /// Copies what the queue has computed so far at `from` to the host, which waits for it.
    pub(crate) fn read_back<T: bytemuck::Pod>(&self, from: Pointer, to: &mut [T]) -> Result<(), KernelError> {
        self.stream().synchronise()?;
        // SAFETY: callers pass memory of the card that holds as much, and nothing writes it any more.
        unsafe { cudarc::driver::result::memcpy_dtoh_sync(to, from.0) }
            .map_err(|error| gpu::failed("cuMemcpyDtoH", error))
    }

    /// Waits for all work of the rank's queues.
    pub(crate) fn synchronise(&self) -> Result<(), KernelError> {
        self.streams().iter().try_for_each(Stream::synchronise)
    }

    fn operands(&self) -> MutexGuard<'_, Operands> {
        self.rank.operands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn products(&self) -> MutexGuard<'_, Products> {
        self.rank.products.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrays(&self) -> MutexGuard<'_, Arrays> {
        self.rank.arrays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
