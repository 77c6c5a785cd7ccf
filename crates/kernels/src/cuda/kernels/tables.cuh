// What kernels of embedding tables share. Put before the sources of a module by kernels.rs, behind common.cuh.
//
// A row, or its part in a bag, belongs to a group of `lanes` threads of one warp. Thread `lane` of the group has the floats
// 4·lane to 4·lane + 3, then those 4·lanes further on, and so on: 16 bytes at a time where rows are aligned so.

// Row of a key that names no row: of an id past the end of its table. Sorts behind all others.
#define NO_ROW 0xffffffffu

// Word of the fault record of sorted keys that do not fit the tables and the index: `table << 34 | kind << 32 | what was found`.
#define FAULT_KEYS 3

// A row that is not below the number of rows of its table.
__device__ __forceinline__ void fault_row(u64 *faults, u32 table, u32 row) {
    atomicMin(faults + FAULT_KEYS, (u64)table << 34 | row);
}

// A value that has no sample (kind 1), or a sample that is not in the index (2) or has no gradient (3).
__device__ __forceinline__ void fault_key(u64 *faults, u32 table, u32 value, u32 sample, u64 values, u64 samples) {
    u64 kind = value >= values ? 1 : sample >= samples ? 2 : 3;
    atomicMin(faults + FAULT_KEYS, (u64)table << 34 | kind << 32 | (kind == 1 ? value : sample));
}

// A table of a call, as `TableCall` of `cuda/tables.rs`.
struct TableCall {
    float *weights; // in the number format of the table, whatever it is: formats.cuh
    float *state;
    u64 rows;
    const u32 *names; // numbers of the rows in the whole table, where slots hold some of them; null elsewhere
    u64 key;       // of the random numbers by which rows are rounded
    u64 first_row; // number of row 0 in the whole table, which random numbers go by
    u32 dim;    // floats of a row
    u32 each;   // floats of state of a row
    u32 mean;   // whether bags are averaged
    u32 column; // first column of the table's vectors
    u32 table;  // number of the table among those of the index
    u32 lanes;  // threads of a group: a power of two
    u32 random; // whether rows are rounded at random
    u32 first_column; // number of column 0 in the whole table
};

// Part of an array that belongs to one table, as `Span` of `cuda/tables.rs`.
struct Span {
    u32 first; // first element
    u32 count; // number of elements
    u32 tile;  // number of tiles before those of the part
    u32 other; // where the part goes
};

__device__ __forceinline__ u32 row_of(u64 key) { return (u32)(key >> 32); }

// Up to four floats, zeros behind `n`; `whole` where there are four, aligned to 16 bytes.
__device__ __forceinline__ float4 load4(const float *from, u32 n, bool whole) {
    if (whole) return *(const float4 *)from;
    float4 v = make_float4(from[0], 0.0f, 0.0f, 0.0f);
    if (n > 1) v.y = from[1];
    if (n > 2) v.z = from[2];
    if (n > 3) v.w = from[3];
    return v;
}

__device__ __forceinline__ void store4(float *to, float4 v, u32 n, bool whole) {
    if (whole) {
        *(float4 *)to = v;
        return;
    }
    to[0] = v.x;
    if (n > 1) to[1] = v.y;
    if (n > 2) to[2] = v.z;
    if (n > 3) to[3] = v.w;
}

__device__ __forceinline__ float4 zero4() { return make_float4(0.0f, 0.0f, 0.0f, 0.0f); }

__device__ __forceinline__ float4 add4(float4 a, float4 b) {
    return make_float4(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y), __fadd_rn(a.z, b.z), __fadd_rn(a.w, b.w));
}

// a + scale * b, each operation rounded by itself.
__device__ __forceinline__ float4 add_scaled4(float4 a, float scale, float4 b) {
    return add4(a, make_float4(__fmul_rn(scale, b.x), __fmul_rn(scale, b.y), __fmul_rn(scale, b.z), __fmul_rn(scale, b.w)));
}

// Threads of the warp that are in the group of thread `threadIdx.x`.
__device__ __forceinline__ u32 group_mask(u32 lanes) {
    return lanes == WARP ? FULL : ((1u << lanes) - 1) << (threadIdx.x & (WARP - 1) & ~(lanes - 1));
}

// Sum over the group, the same bits in all of its threads.
template <class T> __device__ __forceinline__ T group_sum(T x, u32 lanes) {
    u32 mask = group_mask(lanes);
    for (u32 step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(mask, x, step);
    return x;
}

// Sum of `x` over the threads before this one, and of all threads, of a block of `warps` warps. `room` has a word for each warp.
__device__ __forceinline__ u32 block_scan(u32 x, u32 warps, u32 *room, u32 *total) {
    u32 lane = threadIdx.x & (WARP - 1), warp = threadIdx.x / WARP, sum = x;
    for (u32 step = 1; step < WARP; step *= 2) {
        u32 before = __shfl_up_sync(FULL, sum, step);
        if (lane >= step) sum += before;
    }
    if (lane == WARP - 1) room[warp] = sum;
    __syncthreads();
    u32 base = 0, all = 0;
    for (u32 w = 0; w < warps; w++) {
        if (w == warp) base = all;
        all += room[w];
    }
    __syncthreads();
    *total = all;
    return base + sum - x;
}
