//! Arithmetic on a device.
//!
//! [`Device`] is the only entry: its methods are the operations of a training step, each checked for devices and shapes once
//! and then carried out by one of the backends below it. What a method computes is defined by [`mod@reference`], slow
//! and obvious; the fast backend is held against it by property tests. A [`Buffer`] is memory made on a device.
#![deny(unsafe_code)]

mod backend;
mod buffer;
mod bytes;
mod collected;
mod cpu;
mod cuda;
mod device;
mod embedding;
mod error;
mod event;
mod half_float;
mod idle;
mod int8_row;
mod memory;
mod op;
pub mod peak;
pub mod reference;
mod row_marks;
mod row_store;
mod stopwatch;
mod transfer;

pub use buffer::{Buffer, Element, Stored};
pub use bytes::Bytes;
pub use collected::Collected;
pub use cpu::Cpu;
pub use cpu::linear::{linear_scratch, packed_bytes};
pub use cpu::team::offer_core;
#[doc(hidden)]
pub use cuda::GradientProbe;
pub use cuda::packed_bytes_on_card;
pub use cuda::{Counts, Cuda, CudaReport, Found, Gpu, GpuOptions, GpuReport, compile_kernels, cuda_report};
pub use cuda::{NCCL_ID_BYTES, Nccl, NcclCommunicator, NcclId};
pub use device::Device;
pub use embedding::{BagIndex, Repeats, RowPart, RowRuns, Segment, SortedIds, Table};
pub use error::KernelError;
pub use event::Event;
pub use memory::Space;
pub use memory::host::resident;
pub use op::chain::{CHAIN_LAYERS, ChainBackward, ChainForward, ChainLayer};
pub use op::codec::{CarriedError, Decode, Encode, Round, Rows};
pub use op::cross::{
    CrossInputs, CrossKept, CrossLayerBackward, CrossLayersBackward, CrossLayersForward, CrossMaps,
    CrossX0Gradient,
};
pub use op::elementwise::{Bce, ColumnCopy, Dropout, Matrix, MatrixMut};
pub use op::embedding::{DrawTable, IndexBags, Lookup, UpdateTables};
pub use op::fm::FmShape;
pub use op::interaction::{CrossBackward, DotShape};
pub use op::linear::{
    InputGradient, LinearAt, LinearBackward, LinearCrossForward, LinearForward, LinearShape,
};
pub use op::optimizer::{Update, UpdateDense};
pub use op::packed::{PackLinear, PackedLinear};
pub use op::pairs::{DotUpdate, LookupDot, PairVectors};
pub use op::row_copies::{PutRows, RowCopies, TakeRows};
pub use op::rows::{CollectRows, SpreadRows, SumRows, UpdateRows};
pub use op::tensor_train::{LookupTensorTrains, TensorTrainAt, TensorTrainGradients};
pub use op::wire::BlockCopy;
pub use row_marks::RowMarks;
pub use row_store::{RandomRounding, RowRounding, RowStore, store_row, stored_row};
pub use stopwatch::Stopwatch;
pub use transfer::{Download, Part, Upload};

/// Items that tests of this crate look at, and nobody else: not part of the interface. Compiled once, instead of the
/// whole crate a second time as a harness of unit tests.
#[doc(hidden)]
pub mod internals {
    pub mod cpu {
        pub use crate::cpu::level::Level;

        pub mod halves {
            pub use crate::cpu::halves::{add_row, decode_row};
        }
        pub mod optimizer {
            pub use crate::cpu::optimizer::row::change;
        }
        pub mod peak {
            pub use crate::cpu::peak::memory::{
                Kind, Way, change_rows, first_half, sum_rows, sum_rows_together,
            };
        }
        pub mod products {
            pub use crate::cpu::gemm::right::{RightPanels, longest};
            pub use crate::cpu::pack::Operand;
            pub use crate::cpu::tile::size::WIDE;
            pub use crate::cpu::values::Values;
        }
        pub mod stream {
            pub use crate::cpu::stream::{copy, fence, pays};
        }
        pub mod team {
            pub use crate::cpu::team::{PATIENCE, Team};
        }
    }

    pub mod cuda {
        pub use crate::cuda::memory::Pointer;

        pub mod algorithms {
            pub use crate::cuda::algorithms::{Algorithm, Algorithms};
        }
        pub mod columns {
            pub use crate::cuda::columns::groups;
        }
        pub mod cross_product {
            pub use crate::cuda::cross_product::shared_memory;
        }
        pub mod fault {
            pub use crate::cuda::fault::{FAULTS, Operands, error_of};
        }
        pub mod gradient {
            pub use crate::cuda::gradient::Kernel;
        }
        pub mod index {
            pub use crate::cuda::index::places;
        }
        pub mod library {
            pub use crate::cuda::library::Library;
        }
        pub mod product {
            pub use crate::cuda::product::{Epilogue, Form, Product, alignment};
        }
        pub mod weight_gradient {
            pub use crate::cuda::weight_gradient::{SHARED, Shares};
        }
        pub mod wire {
            pub use crate::cuda::wire::unit;
        }
        pub mod work {
            pub use crate::cuda::work::{Kernel, Queue, WorkList};
        }
    }

    pub mod half_float {
        pub use crate::half_float::{Half, bf16_at_random, decode, f16_at_random};
    }
    pub mod memory {
        pub use crate::memory::host::{ALIGN, HUGE, HostMemory};
    }
}
