//! Tensor maps: how Hopper's copy engine finds a box of a matrix.

use super::gpu::failed;
use super::memory::Pointer;
use crate::op::Result;
use cudarc::driver::sys;
use std::mem::MaybeUninit;

/// A matrix on the card, row by row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix {
    pub(super) at: Pointer,
    /// Elements from row to row.
    pub(super) stride: usize,
    pub(super) element: Element,
}

/// Elements of a matrix, as the copy engine brings them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Bf16,
    F32,
    /// Floats, rounded to nearest tf32 on their way.
    Tf32,
}

impl Element {
    fn bytes(self) -> usize {
        match self {
            Self::Bf16 => 2,
            Self::F32 | Self::Tf32 => 4,
        }
    }
}

impl Matrix {
    /// A matrix of bf16, with `stride` elements from row to row.
    pub(super) fn bf16(at: Pointer, stride: usize) -> Self {
        Self { at, stride, element: Element::Bf16 }
    }

    /// Whether the copy engine can read and write the matrix.
    pub(super) fn is_aligned(self) -> bool {
        self.at.0.is_multiple_of(16) && (self.stride * self.element.bytes()).is_multiple_of(16)
    }
}

/// A matrix and the box that one copy moves, for a kernel's parameter.
#[derive(Clone, Copy)]
pub(super) struct TensorMap(sys::CUtensorMap);

impl TensorMap {
    /// Boxes of `box_sizes` of a matrix of `sizes`; columns come first in both. Columns of a box fill 128 bytes, which are swizzled
    /// in shared memory. What a box has outside the matrix is read as 0, and not written.
    pub(super) fn new(matrix: Matrix, sizes: [usize; 2], box_sizes: [usize; 2]) -> Result<Self> {
        let mut map = MaybeUninit::uninit();
        let sizes = sizes.map(|size| size as u64);
        let stride = (matrix.stride * matrix.element.bytes()) as u64;
        let element = match matrix.element {
            Element::Bf16 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            Element::F32 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
            Element::Tf32 => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        };
        let box_sizes = box_sizes.map(|size| size as u32);
        // SAFETY: the driver reads as many sizes as the rank says, and one stride less, and writes the map. The address is not
        // followed here: the kernel that gets the map does.
        unsafe {
            sys::cuTensorMapEncodeTiled(
                map.as_mut_ptr(),
                element,
                2,
                matrix.at.0 as *mut std::ffi::c_void,
                sizes.as_ptr(),
                &stride,
                box_sizes.as_ptr(),
                [1u32, 1].as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
            .result()
            .map_err(|error| failed("cuTensorMapEncodeTiled", error))?;
            Ok(Self(map.assume_init()))
        }
    }

    /// The map as the words of an argument.
    pub(super) fn words(&self) -> &[u64] {
        &self.0.opaque
    }
}
