//! cuBLASLt: one handle for each card, and descriptors that are kept as long as they are used.

use super::algorithms::{Algorithm, Algorithms};
use super::product::{Epilogue, Form, Product};
use super::work::Queue;
use crate::KernelError;
use cudarc::cublaslt::{result, sys};
use ground::precision::Precision;
use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;
use std::path::Path;

/// Bytes of workspace that an algorithm may use.
pub(crate) const WORKSPACE: usize = 32 << 20;
/// Algorithms that are tried for a product.
const CANDIDATES: usize = 8;

/// cuBLASLt on a card, with the pinned algorithms of its products.
pub(crate) struct Blas {
    handle: sys::cublasLtHandle_t,
    version: usize,
    pub(crate) algorithms: Algorithms,
}

// SAFETY: cuBLASLt lets all threads use a handle at the same time.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

impl Blas {
    /// cuBLASLt on the card that is current.
    pub(crate) fn new(cache: Option<&Path>) -> Result<Self, KernelError> {
        let handle = result::create_handle().map_err(|error| failed("cublasLtCreate", error))?;
        // SAFETY: the library is loaded, since a handle was made.
        let version = unsafe { sys::cublasLtGetVersion() };
        Ok(Self { handle, version, algorithms: Algorithms::open(cache) })
    }

    /// Number of the library's version, as 130002 for 13.0.2.
    pub(crate) fn version(&self) -> usize {
        self.version
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: the handle was made by this value, and nothing uses it any more.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

impl fmt::Debug for Blas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blas({})", self.version)
    }
}

/// Addresses of the operands of a product, the workspace and the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) a: u64,
    pub(crate) b: u64,
    /// What the product is added to, where it is added: the output or something else that is stored alike.
    pub(crate) c: u64,
    pub(crate) d: u64,
    pub(crate) workspace: u64,
    pub(crate) queue: Queue,
}

/// A product as cuBLASLt knows it.
pub(crate) struct Descriptors {
    product: sys::cublasLtMatmulDesc_t,
    a: sys::cublasLtMatrixLayout_t,
    b: sys::cublasLtMatrixLayout_t,
    d: sys::cublasLtMatrixLayout_t,
    add: bool,
}

// SAFETY: descriptors are plain memory of the library, without a thread of their own.
unsafe impl Send for Descriptors {}

impl Descriptors {
    /// Describes `product` with an epilogue. What could be made before an error is given back by `drop`.
    pub(crate) fn new(product: &Product, epilogue: Epilogue) -> Result<Self, KernelError> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let (compute, operands) = match product.precision {
            // Runs on GPUs have no f32x3: nothing is lost by computing it in f32.
            Precision::F32 | Precision::F32x3 => {
                (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, sys::cudaDataType::CUDA_R_32F)
            }
            Precision::Tf32 => {
                (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32, sys::cudaDataType::CUDA_R_32F)
            }
            Precision::Bf16 => (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, sys::cudaDataType::CUDA_R_16BF),
        };
        let mut made = Self {
            product: result::create_matmul_desc(compute, sys::cudaDataType::CUDA_R_32F)
                .map_err(|error| failed("cublasLtMatmulDescCreate", error))?,
            a: std::ptr::null_mut(),
            b: std::ptr::null_mut(),
            d: std::ptr::null_mut(),
            add: product.add,
        };
        // CUBLAS_OP_N is 0, CUBLAS_OP_T is 1.
        let operation = |transposed: bool| i32::from(transposed);
        made.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &operation(product.transposed[0]))?;
        made.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &operation(product.transposed[1]))?;
        let which = match epilogue {
            Epilogue::None => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DEFAULT,
            Epilogue::Bias => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS,
            Epilogue::ReluBias => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_RELU_BIAS,
        };
        made.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &(which as u32))?;
        let [m, n, k] = product.sizes;
        let layout = |data, rows: usize, columns: usize, stride: usize| {
            result::create_matrix_layout(data, rows as u64, columns as u64, stride as i64)
                .map_err(|error| failed("cublasLtMatrixLayoutCreate", error))
        };
        let turned = |transposed: bool, [rows, columns]: [usize; 2]| {
            if transposed { [columns, rows] } else { [rows, columns] }
        };
        let ([a_rows, a_columns], [b_rows, b_columns]) =
            (turned(product.transposed[0], [m, k]), turned(product.transposed[1], [k, n]));
        made.a = layout(operands, a_rows, a_columns, product.strides[0])?;
        made.b = layout(operands, b_rows, b_columns, product.strides[1])?;
        let output = match product.output {
            Form::F32 => sys::cudaDataType::CUDA_R_32F,
            Form::Bf16 => sys::cudaDataType::CUDA_R_16BF,
        };
        made.d = layout(output, m, n, product.strides[2])?;
        Ok(made)
    }

    /// Address of the bias that the epilogue adds.
    pub(crate) fn set_bias(&mut self, bias: u64) -> Result<(), KernelError> {
        self.set(sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)
    }

    fn set<T>(
        &mut self,
        attribute: sys::cublasLtMatmulDescAttributes_t,
        value: &T,
    ) -> Result<(), KernelError> {
        // SAFETY: the descriptor is alive, and the library copies as many bytes as the value has.
        unsafe {
            result::set_matmul_desc_attribute(
                self.product,
                attribute,
                std::ptr::from_ref(value).cast(),
                size_of::<T>(),
            )
        }
        .map_err(|error| failed("cublasLtMatmulDescSetAttribute", error))
    }

    /// Algorithms that cuBLASLt thinks best, the best first; none where it has no algorithm.
    pub(crate) fn candidates(
        &self,
        blas: &Blas,
        alignments: [u32; 3],
    ) -> Result<Vec<Algorithm>, KernelError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        let preference = Preference::new()?;
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &(WORKSPACE as u64))?;
        let [a, b, d] = alignments;
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a)?;
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b)?;
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &d)?;
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &d)?;
        let mut found = [const { MaybeUninit::<sys::cublasLtMatmulHeuristicResult_t>::uninit() }; CANDIDATES];
        let mut count = 0;
        // SAFETY: all descriptors are alive; the library writes at most as many results as the array holds.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                blas.handle,
                self.product,
                self.a,
                self.b,
                self.d,
                self.d,
                preference.0,
                CANDIDATES as i32,
                found.as_mut_ptr().cast(),
                &mut count,
            )
        };
        match status {
            sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS => {}
            sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED => return Ok(Vec::new()),
            other => return Err(failed("cublasLtMatmulAlgoGetHeuristic", result::CublasError(other))),
        }
        let found = found.iter().take(count.max(0) as usize);
        // SAFETY: the library has written the first `count` results.
        let found = found.map(|found| unsafe { found.assume_init_ref() });
        Ok(found
            .filter(|found| {
                found.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS && found.workspaceSize <= WORKSPACE
            })
            .map(|found| found.algo.data)
            .collect())
    }

    /// Whether the algorithm computes this product on this card.
    pub(crate) fn allows(&self, blas: &Blas, algorithm: &Algorithm) -> bool {
        let algorithm = sys::cublasLtMatmulAlgo_t { data: *algorithm };
        let mut found = MaybeUninit::<sys::cublasLtMatmulHeuristicResult_t>::uninit();
        // SAFETY: all descriptors are alive; the result is read only where the library has written it.
        unsafe {
            let status = sys::cublasLtMatmulAlgoCheck(
                blas.handle,
                self.product,
                self.a,
                self.b,
                self.d,
                self.d,
                &algorithm,
                found.as_mut_ptr(),
            );
            status == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS
                && found.assume_init_ref().workspaceSize <= WORKSPACE
        }
    }

    /// Puts the product into the queue.
    pub(crate) fn run(&self, blas: &Blas, algorithm: &Algorithm, run: Run) -> Result<(), KernelError> {
        let algorithm = sys::cublasLtMatmulAlgo_t { data: *algorithm };
        let (alpha, beta) = (1f32, if self.add { 1f32 } else { 0.0 });
        // SAFETY: all descriptors are alive, and the operation has checked its buffers; factors are copied before the call returns.
        unsafe {
            result::matmul(
                blas.handle,
                self.product,
                std::ptr::from_ref(&alpha).cast(),
                std::ptr::from_ref(&beta).cast(),
                run.a as *const c_void,
                self.a,
                run.b as *const c_void,
                self.b,
                run.c as *const c_void,
                self.d,
                run.d as *mut c_void,
                self.d,
                &algorithm,
                run.workspace as *mut c_void,
                WORKSPACE,
                run.queue.raw().cast(),
            )
        }
        .map_err(|error| failed("cublasLtMatmul", error))
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: each was made by this value, if it is there, and nothing uses it any more.
        unsafe {
            let _ = result::destroy_matmul_desc(self.product);
            for layout in [self.a, self.b, self.d].into_iter().filter(|layout| !layout.is_null()) {
                let _ = result::destroy_matrix_layout(layout);
            }
        }
    }
}

/// What an algorithm may assume.
struct Preference(sys::cublasLtMatmulPreference_t);

impl Preference {
    fn new() -> Result<Self, KernelError> {
        result::create_matmul_pref()
            .map(Self)
            .map_err(|error| failed("cublasLtMatmulPreferenceCreate", error))
    }

    fn set<T>(
        &self,
        attribute: sys::cublasLtMatmulPreferenceAttributes_t,
        value: &T,
    ) -> Result<(), KernelError> {
        // SAFETY: the preference is alive, and the library copies as many bytes as the value has.
        unsafe {
            result::set_matmul_pref_attribute(
                self.0,
                attribute,
                std::ptr::from_ref(value).cast(),
                size_of::<T>(),
            )
        }
        .map_err(|error| failed("cublasLtMatmulPreferenceSetAttribute", error))
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: the preference was made by this value.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}

/// The error of a call of cuBLASLt.
fn failed(call: &str, error: result::CublasError) -> KernelError {
    KernelError::Device(format!("{call}: {:?}", error.0))
}
