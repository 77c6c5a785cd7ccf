// Pooled rows of all tables: out[s, t] = Σᵢ weightᵢ·row(idᵢ), divided by the number of ids for a mean.

// Bags of one group at a time: their rows are on their way together.
#define BAGS 4

// Up to four floats as bf16; `whole` where there are four, aligned to 8 bytes.
__device__ __forceinline__ void store4(u16 *to, float4 v, u32 n, bool whole) {
    if (whole) {
        *(uint2 *)to = make_uint2(bf16_pair(v.x, v.y), bf16_pair(v.z, v.w));
        return;
    }
    put(to, v.x);
    if (n > 1) put(to + 1, v.y);
    if (n > 2) put(to + 2, v.z);
    if (n > 3) put(to + 3, v.w);
}

// Block (x, y) has bags of table y, whose rows are of number format F. Ids that are no row add nothing. Rows of `out` are `stride` elements
// of type T apart.
template <class F, class T>
__device__ __forceinline__ void pool(
    const TableCall *tables, const u32 *starts, const u32 *lengths, u64 index_samples, u64 first_sample, u64 samples,
    const u32 *values, u64 value_count, const float *weights, T *out, u64 stride, u64 *faults) {
    const TableCall table = tables[blockIdx.y];
    u32 lane = threadIdx.x & (table.lanes - 1);
    u64 first = ((u64)blockIdx.x * (256 / table.lanes) + threadIdx.x / table.lanes) * BAGS;
    if (first >= samples) return;
    u32 start[BAGS], length[BAGS], longest = 0;
#pragma unroll
    for (u32 k = 0; k < BAGS; k++) {
        u64 bag = (u64)table.table * index_samples + first_sample + first + k;
        start[k] = first + k < samples ? starts[bag] : 0;
        length[k] = first + k < samples ? lengths[bag] : 0;
        if ((u64)start[k] + length[k] > value_count) {
            if (lane == 0) fault_values(faults, (u64)start[k] + length[k]);
            length[k] = 0;
        }
        longest = max(longest, length[k]);
    }
    bool whole = table.dim % 4 == 0, out_whole = whole && (stride | table.column) % 4 == 0;
    for (u32 e = lane * 4; e < table.dim; e += table.lanes * 4) {
        u32 n = min(4u, table.dim - e);
        float4 sum[BAGS];
#pragma unroll
        for (u32 k = 0; k < BAGS; k++) sum[k] = zero4();
        for (u32 j = 0; j < longest; j++) {
            u32 id[BAGS];
            float weight[BAGS];
            float4 row[BAGS];
#pragma unroll
            for (u32 k = 0; k < BAGS; k++) {
                id[k] = j < length[k] ? values[start[k] + j] : 0;
                weight[k] = weights && j < length[k] ? weights[start[k] + j] : 1.0f;
            }
#pragma unroll
            for (u32 k = 0; k < BAGS; k++) {
                bool found = j < length[k] && id[k] < table.rows;
                row[k] = found ? F::load(F::of(table, id[k]), table.dim, e, n, whole) : zero4();
                if (j < length[k] && !found && e == 0) fault_id(faults, table.table, id[k]);
            }
#pragma unroll
            for (u32 k = 0; k < BAGS; k++) {
                if (j < length[k] && id[k] < table.rows) sum[k] = add_scaled4(sum[k], weight[k], row[k]);
            }
        }
#pragma unroll
        for (u32 k = 0; k < BAGS; k++) {
            if (first + k >= samples) break;
            if (table.mean && length[k] > 1) {
                float by = (float)length[k];
                sum[k] = make_float4(__fdiv_rn(sum[k].x, by), __fdiv_rn(sum[k].y, by), __fdiv_rn(sum[k].z, by), __fdiv_rn(sum[k].w, by));
            }
            store4(out + (first + k) * stride + table.column + e, sum[k], n, out_whole);
        }
    }
}

#define LOOKUP(NAME, F, T)                                                                                                          \
    extern "C" __global__ void __launch_bounds__(256) NAME(                                                                         \
        const TableCall *tables, const u32 *starts, const u32 *lengths, u64 index_samples, u64 first_sample, u64 samples,           \
        const u32 *values, u64 value_count, const float *weights, T *out, u64 stride, u64 *faults) {                                \
        pool<F>(tables, starts, lengths, index_samples, first_sample, samples, values, value_count, weights, out, stride, faults);  \
    }

// A kernel for each number format of tables: the format costs nothing at run time.
LOOKUP(lookup, RowF32, float)
LOOKUP(lookup_f16, RowF16, float)
LOOKUP(lookup_bf16, RowBf16, float)
LOOKUP(lookup_int8, RowInt8, float)
LOOKUP(lookup_to_bf16, RowF32, u16)
LOOKUP(lookup_to_bf16_f16, RowF16, u16)
LOOKUP(lookup_to_bf16_bf16, RowBf16, u16)
LOOKUP(lookup_to_bf16_int8, RowInt8, u16)
