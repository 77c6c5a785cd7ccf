// Tensor trains: rows computed from their cores, and gradients of rows brought to the cores.
//
//     row[a, b, c] = Σ over r, s: first[a, r] · second[r, b, s] · third[c, s]

// A train of a call, as `TrainCall` of `cuda/tensor_train.rs`.
struct TrainCall {
    u64 rows;       // rows of the table
    u64 cores[3];   // first weight of each core
    u32 values[3];  // values of each digit of a row number
    u32 columns[3]; // values of each digit of a column number
    u32 rank;
    u32 width;      // columns of a row
    u32 table;      // number of the table among those of the index
    u32 column;     // first column of the table's vectors
    u32 mean;       // whether bags are averaged
    u32 other;
};

// Floats of core `core` for one value of its digit.
__device__ __forceinline__ u32 slice_len(const TrainCall &of, u32 core) {
    return core == 1 ? of.rank * of.columns[1] * of.rank : of.columns[core] * of.rank;
}

__device__ __forceinline__ u32 digit_of(const TrainCall &of, u32 core, u32 row) {
    return core == 2 ? row % of.values[2] : core == 1 ? row / of.values[2] % of.values[1] : row / of.values[2] / of.values[1];
}

// Slice of core `core` that row `row` needs.
__device__ __forceinline__ const float *slice_of(const TrainCall &of, const float *parameters, u32 core, u32 row) {
    return parameters + of.cores[core] + (u64)digit_of(of, core, row) * slice_len(of, core);
}

// Element `e` of the product of the first two cores of a row, `a·b × rank`.
__device__ __forceinline__ float product_at(const TrainCall &of, const float *first, const float *second, u32 e) {
    u32 wide = of.columns[1] * of.rank, i = e / wide, rest = e - i * wide;
    float sum = 0.0f;
    for (u32 r = 0; r < of.rank; r++) sum = fmaf(first[i * of.rank + r], second[r * wide + rest], sum);
    return sum;
}

// A warp has bag x of train y: for each of its ids the product of the first two cores, then that with the third. Every warp has
// `room` floats of shared memory.
extern "C" __global__ void lookup_tensor_trains(
    const TrainCall *trains, const float *parameters, const u32 *starts, const u32 *lengths, u64 index_samples, u64 samples,
    const u32 *values, u64 value_count, const float *weights, float *out, u64 stride, u64 room, u64 *faults) {
    extern __shared__ float shared[];
    const TrainCall of = trains[blockIdx.y];
    u32 lane = threadIdx.x & (WARP - 1), warp = threadIdx.x / WARP;
    u64 sample = (u64)blockIdx.x * (blockDim.x / WARP) + warp;
    if (sample >= samples) return;
    u64 bag = (u64)of.table * index_samples + sample;
    u32 start = starts[bag], length = lengths[bag];
    if ((u64)start + length > value_count) {
        if (lane == 0) fault_values(faults, (u64)start + length);
        length = 0;
    }
    u32 products = of.columns[0] * of.columns[1] * of.rank, c = of.columns[2];
    float *product = shared + warp * room, *sums = product + products;
    for (u32 e = lane; e < of.width; e += WARP) sums[e] = 0.0f;
    for (u32 j = 0; j < length; j++) {
        u32 row = values[start + j];
        float weight = weights ? weights[start + j] : 1.0f;
        if (row >= of.rows) {
            if (lane == 0) fault_id(faults, of.table, row);
            continue;
        }
        const float *first = slice_of(of, parameters, 0, row), *second = slice_of(of, parameters, 1, row);
        const float *third = slice_of(of, parameters, 2, row);
        for (u32 e = lane; e < products; e += WARP) product[e] = product_at(of, first, second, e);
        __syncwarp();
        for (u32 e = lane; e < of.width; e += WARP) {
            u32 pair = e / c;
            const float *left = product + pair * of.rank, *right = third + (e - pair * c) * of.rank;
            float sum = 0.0f;
            for (u32 s = 0; s < of.rank; s++) sum = fmaf(left[s], right[s], sum);
            sums[e] = fmaf(weight, sum, sums[e]);
        }
        __syncwarp();
    }
    float *to = out + sample * stride + of.column;
    for (u32 e = lane; e < of.width; e += WARP) to[e] = of.mean && length > 1 ? __fdiv_rn(sums[e], (float)length) : sums[e];
}

// Threads of a block, and rows that it looks at at a time.
#define THREADS 256
#define WARPS 8
#define LOOKED 1024
// Weights of a core that a thread adds up, and of the first core that a warp does.
#define EACH 16

// Gradients of one core at one value of its digit: block (x, y, z) has value x, counted over all cores, of train y, and part z of the weights.
// It goes through the rows of the train that have the digit, in order, `together` at a time, and writes every weight, 0 where there is no row.
extern "C" __global__ void __launch_bounds__(THREADS) tensor_train_gradients(
    const TrainCall *trains, const Span *spans, const u64 *firsts, const float *parameters, const u32 *rows, const float *sums,
    float *gradient, u64 *faults) {
    extern __shared__ float shared[];
    __shared__ u32 found[LOOKED], places[WARPS];
    const TrainCall of = trains[blockIdx.y];
    const Span span = spans[blockIdx.y];
    u32 core = 0, digit = blockIdx.x;
    while (core < 3 && digit >= of.values[core]) digit -= of.values[core++];
    if (core == 3) return;
    u32 len = slice_len(of, core), part = core == 0 ? WARPS * EACH : THREADS * EACH, first_weight = blockIdx.z * part;
    if (first_weight >= len) return;
    u32 tid = threadIdx.x, lane = tid & (WARP - 1), warp = tid / WARP;
    u32 rank = of.rank, b = of.columns[1], c = of.columns[2], pairs = of.columns[0] * b, wide = b * rank;
    u32 products = pairs * rank, columns = pairs * c, together = max(1u, min(16u, 4096u / max(products, columns)));
    float *product = shared, *d = shared + together * products;
    float sum[EACH];
#pragma unroll
    for (u32 k = 0; k < EACH; k++) sum[k] = 0.0f;
    const u32 *of_train = rows + span.first;
    u32 begin = 0, end = span.count;
    if (core == 0) {
        // Rows of a value of the first digit lie together.
        u64 each = (u64)of.values[1] * of.values[2];
        for (u32 bound = 0; bound < 2; bound++) {
            u32 low = 0, high = span.count;
            while (low < high) {
                u32 middle = (low + high) / 2;
                if (of_train[middle] < (digit + bound) * each) low = middle + 1;
                else high = middle;
            }
            if (bound == 0) begin = low;
            else end = low;
        }
    }
    for (u32 chunk = begin; chunk < end; chunk += LOOKED) {
        u32 here = 0, total;
        bool mine[4];
        for (u32 k = 0; k < 4; k++) {
            u32 i = chunk + tid * 4 + k;
            mine[k] = i < end && digit_of(of, core, of_train[i]) == digit;
            if (mine[k] && of_train[i] >= of.rows) {
                fault_id(faults, of.table, of_train[i]);
                mine[k] = false;
            }
            here += mine[k];
        }
        if (!__syncthreads_or(here)) continue;
        u32 place = block_scan(here, WARPS, places, &total);
        for (u32 k = 0; k < 4; k++) {
            if (mine[k]) found[place++] = chunk + tid * 4 + k;
        }
        __syncthreads();
        for (u32 group = 0; group < total; group += together) {
            u32 count = min(together, total - group);
            for (u32 e = tid; e < count * columns; e += THREADS) {
                u32 t = e / columns, column = e - t * columns;
                d[e] = column < of.width ? sums[firsts[blockIdx.y] + (u64)found[group + t] * of.width + column] : 0.0f;
            }
            __syncthreads();
            for (u32 e = tid; e < count * products; e += THREADS) {
                u32 t = e / products, at = e - t * products, row = of_train[found[group + t]];
                const float *third = slice_of(of, parameters, 2, row);
                if (core == 2) {
                    product[e] = product_at(of, slice_of(of, parameters, 0, row), slice_of(of, parameters, 1, row), at);
                    continue;
                }
                u32 pair = at / rank, s = at - pair * rank;
                float x = 0.0f;
                for (u32 k = 0; k < c; k++) x = fmaf(d[t * columns + pair * c + k], third[k * rank + s], x);
                product[e] = x;
            }
            __syncthreads();
            for (u32 t = 0; t < count; t++) {
                u32 row = of_train[found[group + t]];
                const float *left = product + t * products;
                if (core == 0) {
                    // A warp has a weight, its threads the terms.
                    const float *second = slice_of(of, parameters, 1, row);
#pragma unroll
                    for (u32 k = 0; k < EACH; k++) {
                        u32 weight = first_weight + warp + k * WARPS;
                        if (weight >= len) break;
                        u32 i = weight / rank, r = weight - i * rank;
                        for (u32 x = lane; x < wide; x += WARP) sum[k] = fmaf(left[i * wide + x], second[r * wide + x], sum[k]);
                    }
                } else if (core == 1) {
                    const float *first = slice_of(of, parameters, 0, row);
#pragma unroll
                    for (u32 k = 0; k < EACH; k++) {
                        u32 weight = first_weight + tid + k * THREADS;
                        if (weight >= len) break;
                        u32 r = weight / wide, rest = weight - r * wide;
                        for (u32 i = 0; i < of.columns[0]; i++) sum[k] = fmaf(first[i * rank + r], left[i * wide + rest], sum[k]);
                    }
                } else {
#pragma unroll
                    for (u32 k = 0; k < EACH; k++) {
                        u32 weight = first_weight + tid + k * THREADS;
                        if (weight >= len) break;
                        u32 column = weight / rank, s = weight - column * rank;
                        for (u32 pair = 0; pair < pairs; pair++) {
                            sum[k] = fmaf(d[t * columns + pair * c + column], left[pair * rank + s], sum[k]);
                        }
                    }
                }
            }
            __syncthreads();
        }
    }
    float *to = gradient + of.cores[core] + (u64)digit * len;
#pragma unroll
    for (u32 k = 0; k < EACH; k++) {
        if (core == 0) {
            float all = group_sum(sum[k], WARP);
            u32 weight = first_weight + warp + k * WARPS;
            if (lane == 0 && weight < len) to[weight] = all;
        } else {
            u32 weight = first_weight + tid + k * THREADS;
            if (weight < len) to[weight] = sum[k];
        }
    }
}
