// The vectors of samples on their way from tables, or from a buffer, to shared memory. Put before the sources of a module by kernels.rs,
// behind numbers.cuh and tables.cuh.

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
    bool once;        // whether no other value has the row
    const float *row; // of a bag of one id without weight; null where the vector is a sum
};

// The bags of coming samples, thread v - 1 having those of vector v. What is loaded for a sample is looked at when the warp comes to the
// sample before, so that no load is waited for.
struct Bags {
    const float *weights; // of the table
    u64 rows;
    u32 table;
    const float *state;   // of the table's optimizer
    u32 dim, each;        // floats of a row, and of the state of a row
    bool any;             // whether the thread has a vector
    u32 start[2], length[2], id;
    bool once;

    __device__ __forceinline__ Bags(const Pairs &of, u32 lane)
        : weights(0), rows(0), table(0), state(0), dim(of.dim), each(0), any(lane + 1 < of.count) {
        if (!any || !of.tables) return;
        const TableCall &call = of.tables[lane];
        (weights = call.weights), (rows = call.rows), (table = call.table), (state = call.state), (each = call.each);
    }

    // Brings what the optimizer keeps of a row that is going to be updated nearer.
    __device__ __forceinline__ void fetch_state(const Bag &bag) const {
        if (!bag.row || !bag.once) return;
        const float *of_row = state + (u64)(bag.row - weights) / dim * each;
        for (u32 e = 0; e < each; e += 32) asm volatile("prefetch.global.L2 [%0];" ::"l"(of_row + e));
    }

    // Loads the bounds of the bag of a sample, as number `which`.
    __device__ __forceinline__ void load_bounds(const Pairs &of, u64 sample, u32 which) {
        (start[which] = 0), (length[which] = 0);
        if (!any || !of.tables || sample >= of.rows) return;
        u64 at = (u64)table * of.samples + sample;
        start[which] = of.starts[at];
        length[which] = of.lengths[at];
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
        Bag bag = {start[which], length[which], once, 0};
        if (!any || sample >= of.rows) return bag;
        if (!of.tables) {
            bag.row = of.vectors + (sample * of.count + lane + 1) * of.dim;
        } else if (bag.length == 1 && id >= rows) {
            fault_id(of.faults, table, id);
            bag.length = 0;
        } else if (bag.length == 1 && !of.weights) {
            bag.row = weights + (u64)id * of.dim;
        }
        return bag;
    }
};

__device__ __forceinline__ void copy_async_one(float *to, const float *from) {
    u32 shared = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_async(float *to, const float *from) {
    u32 shared = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
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

// Brings the vectors of a sample to shared memory, `stride` floats from vector to vector; they are there once the copies are waited for.
__device__ __forceinline__ void fetch(const Pairs &of, u64 sample, const Bag &bag, float *v, u32 stride) {
    u32 lane = threadIdx.x & (WARP - 1), lanes = of.lanes, at_once = WARP / lanes, within = lane & (lanes - 1);
    bool rows_alone = __all_sync(FULL, bag.row || lane + 1 >= of.count);
    if (rows_alone && of.dim == 4 * WARP) {
        float *to = v + stride + lane * 4;
#pragma unroll 4
        for (u32 from = 0; from + 1 < of.count; from++, to += stride)
            copy_async(to, (const float *)__shfl_sync(FULL, (u64)bag.row, from) + lane * 4);
    } else {
        for (u32 base = 1; base < of.count; base += at_once) {
            u32 vector = base + lane / lanes, from = min(vector, of.count - 1) - 1;
            const float *row = (const float *)__shfl_sync(FULL, (u64)bag.row, from);
            u32 start = __shfl_sync(FULL, bag.start, from), length = __shfl_sync(FULL, bag.length, from);
            if (vector >= of.count) continue;
            float *to = v + vector * stride;
            for (u32 e = within * 4; e < of.dim; e += lanes * 4) {
                if (row) copy_async(to + e, row + e);
                else *(float4 *)(to + e) = pooled(of, of.tables[from], start, length, e);
            }
        }
    }
    if (of.first_bf16) {
        // As it is stored, in the first half of its place: `widen_first` makes it floats.
        const u16 *first = (const u16 *)of.first + sample * of.first_stride;
        for (u32 e = lane * 8; e < of.dim; e += WARP * 8) copy_async(v + e / 2, (const float *)(first + e));
    } else {
        const float *first = (const float *)of.first + sample * of.first_stride;
        for (u32 e = lane * 4; e < of.dim; e += WARP * 4) copy_async(v + e, first + e);
    }
}

// Makes vector 0, which arrived as bf16, floats.
__device__ __forceinline__ void widen_first(const Pairs &of, float *v) {
    if (!of.first_bf16) return;
    u32 lane = threadIdx.x & (WARP - 1);
    float first[8];
#pragma unroll
    for (u32 i = 0; i < 8; i++) first[i] = lane + WARP * i < of.dim ? float_of(((const u16 *)v)[lane + WARP * i]) : 0.0f;
    __syncwarp();
#pragma unroll
    for (u32 i = 0; i < 8; i++)
        if (lane + WARP * i < of.dim) v[lane + WARP * i] = first[i];
    __syncwarp();
}
