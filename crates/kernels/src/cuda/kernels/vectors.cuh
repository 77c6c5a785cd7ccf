// The vectors of samples on their way from tables, or from a buffer, to shared memory. Put before the sources of a module by kernels.rs,
// behind numbers.cuh and tables.cuh.

// The PARTS warps that share a sample meet, at barrier `id` of the block if there are several.
template <u32 PARTS> __device__ __forceinline__ void meet(u32 id) {
    if (PARTS == 1) __syncwarp();
    else asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(PARTS * WARP) : "memory");
}

// Sizes, and where vectors come from. As `Pairs` of `cuda/pairs.rs`.
struct Pairs {
    u64 rows;           // samples
    u32 count;          // vectors of a sample
    u32 dim;            // floats of a vector
    u32 out_stride;     // elements from row to row of the products
    u32 lanes;          // threads that copy a vector: a power of two
    const TableCall *tables; // one for each vector but vector 0; null where vectors lie in a buffer
    const u32 *starts;
    const u32 *lengths;
    u64 samples;        // samples of the index
    const u32 *values;
    u64 value_count;
    const float *weights; // of values, or null
    const void *first;  // vector 0 of each sample
    u32 first_stride;
    u32 first_bf16;     // whether vector 0 is stored as bf16
    const float *vectors; // all vectors of each sample, where there are no tables
    const u8 *once;     // whether the row of a value is of no other value; null where nothing is updated
    u64 *faults;
};

// What a warp knows of the bags of a sample: thread v - 1 has that of vector v.
struct Bag {
    u32 start, length;
    u32 id;           // of a bag of one
    bool once;        // whether no other value has the row
    const float *row; // of a bag of one id without weight; null where the vector is a sum
};

// The bags of coming samples, thread v - 1 having those of vector v. What is loaded for a sample is looked at when the warp comes to the
// sample before, so that no load is waited for.
struct Bags {
    const float *weights; // of the table
    u64 rows;
    u64 bags;             // number of the table's first bag
    float *state;         // of the table's optimizer
    u32 each;             // floats of the state of a row
    bool any;             // whether the thread has a vector
    u32 start[2], length[2], id;
    bool once;

    __device__ __forceinline__ Bags(const Pairs &of, u32 lane)
        : weights(0), rows(0), bags(0), state(0), each(0), any(lane + 1 < of.count) {
        if (!any || !of.tables) return;
        const TableCall &call = of.tables[lane];
        (weights = call.weights), (rows = call.rows), (bags = call.table * of.samples), (state = call.state), (each = call.each);
    }

    // Brings what the optimizer keeps of a row that is going to be updated nearer.
    __device__ __forceinline__ void fetch_state(const Bag &bag) const {
        if (!bag.row || !bag.once) return;
        const float *of_row = state + (u64)bag.id * each;
        for (u32 e = 0; e < each; e += 32) asm volatile("prefetch.global.L2 [%0];" ::"l"(of_row + e));
    }

    // Loads the bounds of the bag of a sample, as number `which`.
    __device__ __forceinline__ void load_bounds(const Pairs &of, u64 sample, u32 which) {
        (start[which] = 0), (length[which] = 0);
        if (!any || !of.tables || sample >= of.rows) return;
        start[which] = of.starts[bags + sample];
        length[which] = of.lengths[bags + sample];
    }

    // Loads the id of a bag of one, whose bounds are number `which`.
    __device__ __forceinline__ void load_id(const Pairs &of, u32 which) {
        if ((u64)start[which] + length[which] > of.value_count) {
            fault_values(of.faults, (u64)start[which] + length[which]);
            length[which] = 0;
        }
        (id = 0), (once = false);
        if (length[which] != 1) return;
        id = of.values[start[which]];
        once = of.once && of.once[start[which]];
    }

    // The bag of a sample whose bounds are number `which`, and whose id was loaded last.
    __device__ __forceinline__ Bag bag(const Pairs &of, u64 sample, u32 lane, u32 which) {
        Bag bag = {start[which], length[which], id, once, 0};
        if (!any || sample >= of.rows) return bag;
        if (!of.tables) {
            bag.row = of.vectors + (sample * of.count + lane + 1) * of.dim;
        } else if (bag.length == 1 && id >= rows) {
            fault_id(of.faults, of.tables[lane].table, id);
            bag.length = 0;
        } else if (bag.length == 1 && !of.weights) {
            bag.row = weights + (u64)id * of.dim;
        }
        return bag;
    }
};

// Shared memory is read and copied to by its own addresses in inner loops: from pointers the compiler works out where shared memory begins
// again and again.
__device__ __forceinline__ u32 address_of(const void *shared) { return (u32)__cvta_generic_to_shared(shared); }

__device__ __forceinline__ float load_shared(u32 at) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(at) : "memory");
    return x;
}
__device__ __forceinline__ float2 load_shared2(u32 at) {
    float2 x;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(at) : "memory");
    return x;
}
__device__ __forceinline__ float4 load_shared4(u32 at) {
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(at) : "memory");
    return x;
}

__device__ __forceinline__ void store_shared(u32 at, float x) { asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(x) : "memory"); }
__device__ __forceinline__ void store_shared(u32 at, u16 x) { asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(x) : "memory"); }

__device__ __forceinline__ void copy_async_one(u32 to, const void *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_async(u32 to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
// Ends a group of copies; all groups but the last are waited for.
__device__ __forceinline__ void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__device__ __forceinline__ void wait_for_all_but_last() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }

// The sum of a bag, as `lookup` computes it, of four floats from `e` on.
__device__ __forceinline__ float4 pooled(const Pairs &of, const TableCall &table, u32 start, u32 length, u32 e) {
    float4 sum = zero4();
    for (u32 j = 0; j < length; j++) {
        u32 id = of.values[start + j];
        if (id >= table.rows) {
            if (e == 0) fault_id(of.faults, table.table, id);
            continue;
        }
        float weight = of.weights ? of.weights[start + j] : 1.0f;
        sum = add_scaled4(sum, weight, *(const float4 *)(table.weights + (u64)id * of.dim + e));
    }
    if (table.mean && length > 1) {
        float by = (float)length;
        sum = make_float4(__fdiv_rn(sum.x, by), __fdiv_rn(sum.y, by), __fdiv_rn(sum.z, by), __fdiv_rn(sum.w, by));
    }
    return sum;
}

// Brings `bytes` bytes, a multiple of 16, to shared memory.
__device__ __forceinline__ void fetch_bytes(u32 to, const void *from, u32 bytes) {
#pragma unroll 1
    for (u32 at = (threadIdx.x & (WARP - 1)) * 16; at < bytes; at += WARP * 16) copy_async(to + at, (const u8 *)from + at);
}

// Brings the vectors of a sample to shared memory, `stride` floats from vector to vector: of the PARTS warps that share the sample, warp
// `part` its part, and the first of them vector 0. They are there once the copies are waited for.
template <u32 PARTS> __device__ __forceinline__ void fetch(const Pairs &of, u64 sample, const Bag &bag, float *v, u32 stride, u32 part) {
    u32 lane = threadIdx.x & (WARP - 1), lanes = of.lanes, at_once = WARP / lanes, within = lane & (lanes - 1);
    bool rows_alone = __all_sync(FULL, bag.row || lane + 1 >= of.count);
    if (rows_alone && of.dim == 4 * WARP) {
        u32 to = address_of(v + (1 + part) * stride) + lane * 16;
#pragma unroll 4
        for (u32 from = part; from + 1 < of.count; from += PARTS, to += stride * (4 * PARTS))
            copy_async(to, (const float *)__shfl_sync(FULL, (u64)bag.row, from) + lane * 4);
    } else {
#pragma unroll 1
        for (u32 base = 1 + part * at_once; base < of.count; base += PARTS * at_once) {
            u32 vector = base + lane / lanes, from = min(vector, of.count - 1) - 1;
            const float *row = (const float *)__shfl_sync(FULL, (u64)bag.row, from);
            u32 start = __shfl_sync(FULL, bag.start, from), length = __shfl_sync(FULL, bag.length, from);
            if (vector >= of.count) continue;
            float *to = v + vector * stride;
            for (u32 e = within * 4; e < of.dim; e += lanes * 4) {
                if (row) copy_async(address_of(to + e), row + e);
                else *(float4 *)(to + e) = pooled(of, of.tables[from], start, length, e);
            }
        }
    }
    if (part > 0) return;
    // Vector 0 comes as it is stored: bf16 take the first half of its place, until `widen_first` makes it floats.
    u32 size = of.first_bf16 ? 2 : 4;
    fetch_bytes(address_of(v), (const u8 *)of.first + sample * of.first_stride * size, of.dim * size);
}

// Makes vector 0, which arrived as bf16, floats: four for each thread at a time, all read before anything is written. The warp that
// brought it calls this.
__device__ __forceinline__ void widen_first(const Pairs &of, float *v) {
    if (!of.first_bf16) return;
    u32 e = (threadIdx.x & (WARP - 1)) * 4;
    uint2 first[2] = {};
#pragma unroll
    for (u32 i = 0; i < 2; i++)
        if (e + WARP * 4 * i < of.dim) first[i] = *(const uint2 *)((const u16 *)v + e + WARP * 4 * i);
    __syncwarp();
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        uint2 f = first[i];
        if (e + WARP * 4 * i < of.dim)
            *(float4 *)(v + e + WARP * 4 * i) = make_float4(
                __uint_as_float(f.x << 16), __uint_as_float(f.x & 0xffff0000u), __uint_as_float(f.y << 16), __uint_as_float(f.y & 0xffff0000u));
    }
    __syncwarp();
}
