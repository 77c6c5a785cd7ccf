// Passes over memory, 16 bytes at a time where addresses allow. Put before the sources of a module by kernels.rs.

// Whether all addresses allow accesses of 16 bytes.
__device__ __forceinline__ bool by_fours(const void *a, const void *b = 0, const void *c = 0, const void *d = 0) {
    return (((u64)a | (u64)b | (u64)c | (u64)d) & 15) == 0;
}

// Runs `four(i)` for each whole four of `len` elements, counted in fours, where `fours` holds, and `one(i)` for the other elements.
template <class Four, class One>
__device__ __forceinline__ void each(u64 len, bool fours, Four four, One one) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    u64 whole = fours ? len / 4 : 0;
    for (u64 i = thread; i < whole; i += threads) four(i);
    for (u64 i = 4 * whole + thread; i < len; i += threads) one(i);
}

__device__ __forceinline__ float4 fours_of(const float *x, u64 i) { return ((const float4 *)x)[i]; }
