// Gradients of rows: for each row of sorted ids `Σ scale·dout[sample]` in the order of its keys, then an update or a stored sum.
//
// Rows of at most TILE values belong to a group of threads each. The others are found first; warps sum their tiles, and a block
// adds up the tiles of a row: eight warps take turns, and their sums are added in order.

// A row of more than TILE values.
struct LongRun {
    u32 call;  // table of the call
    u32 first; // first key
    u32 slot;  // first tile
    u32 tiles;
};

// Arguments that all kernels here have, in order.
#define GRADIENTS                                                                                                             \
    const u32 *sample_of, u64 value_count, const u32 *lengths, u64 samples, const float *weights, const float *dout,          \
        u64 dout_rows, u64 width, u64 *faults
#define GRADIENTS_OF {sample_of, value_count, lengths, samples, weights, dout, dout_rows, width, faults}

// Rows of more than TILE values: `counter` gets their number in its upper half and the number of tiles in its lower half. A tile is
// its first key, and `call << 8 | values`.
extern "C" __global__ void find_long_runs(const Span *spans, const u64 *keys, u64 *counter, LongRun *runs, uint2 *tiles) {
    Span span = spans[blockIdx.y];
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= span.count || span.count - i <= TILE) return;
    const u64 *of = keys + span.first + i;
    u32 row = row_of(of[0]);
    if (row == NO_ROW || row_of(of[TILE]) != row || (i > 0 && row_of(of[-1]) == row)) return;
    u32 count = TILE + run_length(of + TILE, span.count - i - TILE), needed = (count + TILE - 1) / TILE;
    u64 before = atomicAdd(counter, 1ull << 32 | needed);
    u32 slot = (u32)before, first = span.first + i;
    LongRun run = {blockIdx.y, first, slot, needed};
    runs[before >> 32] = run;
    for (u32 t = 0; t < needed; t++) {
        tiles[slot + t] = make_uint2(first + t * TILE, blockIdx.y << 8 | min((u32)TILE, count - t * TILE));
    }
}

// Sum of each tile, a warp each; `stride` floats lie between the sums of tiles.
extern "C" __global__ void __launch_bounds__(256) sum_tiles(
    const TableCall *calls, const u64 *keys, const u64 *counter, const uint2 *tiles, float *sums, u64 stride, GRADIENTS) {
    Gradients gradients = GRADIENTS_OF;
    u32 lane = threadIdx.x & (WARP - 1), count = (u32)*counter;
    for (u32 t = blockIdx.x * 8 + threadIdx.x / WARP; t < count; t += gridDim.x * 8) {
        uint2 tile = tiles[t];
        const TableCall table = calls[tile.y >> 8];
        for (u32 e = lane * 4; e < table.dim; e += WARP * 4) {
            float4 sum = sum_keys<8>(gradients, table, keys + tile.x, tile.y & 255, e, min(4u, table.dim - e));
            *(float4 *)(sums + t * stride + e) = sum;
        }
    }
}

// Adds up the tiles of a run, and leaves the sum in the place of the first. All threads of a block of eight warps call this; then
// thread `lane` of the first warp has the floats 4·lane and so on.
__device__ __forceinline__ void add_tiles(const LongRun &run, u32 dim, float *sums, u64 stride) {
    __shared__ float4 of_warps[8][WARP];
    u32 lane = threadIdx.x & (WARP - 1), warp = threadIdx.x / WARP;
    for (u32 chunk = 0; chunk < dim; chunk += WARP * 4) {
        u32 e = chunk + lane * 4;
        float4 sum = zero4();
        if (e < dim) {
#pragma unroll 4
            for (u32 t = warp; t < run.tiles; t += 8) sum = add4(sum, *(const float4 *)(sums + (run.slot + t) * stride + e));
        }
        of_warps[warp][lane] = sum;
        __syncthreads();
        if (warp == 0 && e < dim) {
            for (u32 w = 1; w < min(8u, run.tiles); w++) sum = add4(sum, of_warps[w][lane]);
            *(float4 *)(sums + run.slot * stride + e) = sum;
        }
        __syncthreads();
    }
}

// Updates rows of at most TILE values: a group of threads for each key of table y; those of a row's first key do the work.
template <u32 KIND> __device__ __forceinline__ void update_short_runs(
    const TableCall &table, const Span &span, Rule rule, const u64 *keys, const Gradients &gradients) {
    rule.kind = KIND;
    u32 lane = threadIdx.x & (table.lanes - 1);
    u32 i = blockIdx.x * (256 / table.lanes) + threadIdx.x / table.lanes;
    if (i >= span.count) return;
    const u64 *of = keys + span.first + i;
    u32 row = row_of(of[0]), left = span.count - i;
    if ((i > 0 && row_of(of[-1]) == row) || (left > TILE && row_of(of[TILE]) == row)) return;
    if (row >= table.rows) {
        if (row != NO_ROW && lane == 0) fault_row(gradients.faults, table.table, row);
        return;
    }
    u32 count = run_length(of, min(left, (u32)TILE));
    update_row(rule, table, row, lane, [&](u32 e, u32 n) { return sum_keys<2>(gradients, table, of, count, e, n); });
}

// A kernel for each rule: what a rule does not need takes no registers.
#define UPDATE_SHORT(NAME, KIND)                                                                                              \
    extern "C" __global__ void __launch_bounds__(256, 3)                                                                         \
        NAME(const TableCall *calls, const Span *spans, const Rule rule, const u64 *keys, GRADIENTS) {                      \
        Gradients gradients = GRADIENTS_OF;                                                                                   \
        update_short_runs<KIND>(calls[blockIdx.y], spans[blockIdx.y], rule, keys, gradients);                               \
    }

UPDATE_SHORT(update_short_sgd, RULE_SGD)
UPDATE_SHORT(update_short_adagrad, RULE_ADAGRAD)
UPDATE_SHORT(update_short_row_wise, RULE_ROW_WISE_ADAGRAD)
UPDATE_SHORT(update_short_adam, RULE_ADAM)
UPDATE_SHORT(update_short_lamb, RULE_LAMB)

// Updates rows of more than TILE values, whose tiles are summed: a block each.
extern "C" __global__ void __launch_bounds__(256) update_long_runs(
    const TableCall *calls, const Rule rule, const u64 *keys, const u64 *counter, const LongRun *runs, float *sums, u64 stride,
    u64 *faults) {
    u32 lane = threadIdx.x & (WARP - 1), count = (u32)(*counter >> 32);
    for (u32 r = blockIdx.x; r < count; r += gridDim.x) {
        LongRun run = runs[r];
        TableCall table = calls[run.call];
        table.lanes = WARP;
        add_tiles(run, table.dim, sums, stride);
        u32 row = row_of(keys[run.first]);
        if (row >= table.rows) {
            if (threadIdx.x == 0) fault_row(faults, table.table, row);
        } else if (threadIdx.x < WARP) {
            update_row(rule, table, row, lane, [&](u32 e, u32) { return *(const float4 *)(sums + run.slot * stride + e); });
        }
    }
}

// Sums of runs that were found before, as `find_runs` does: run `i` of table y begins at key `firsts[runs.first + i]`, and its sum
// goes to `out` from `offsets[y] + i * dim` on.
extern "C" __global__ void __launch_bounds__(256) sum_short_runs(
    const TableCall *calls, const Span *spans, const Span *runs, const u64 *offsets, const u32 *firsts, const u64 *keys, float *out,
    GRADIENTS) {
    const TableCall table = calls[blockIdx.y];
    Gradients gradients = GRADIENTS_OF;
    Span span = spans[blockIdx.y], of_table = runs[blockIdx.y];
    u32 lane = threadIdx.x & (table.lanes - 1);
    u32 i = blockIdx.x * (256 / table.lanes) + threadIdx.x / table.lanes;
    if (i >= of_table.count) return;
    u32 first = firsts[of_table.first + i], end = span.first + span.count, count = 0;
    const u64 *of = keys + first;
    if (first >= span.first && first < end) {
        u32 left = end - first;
        if (left > TILE && row_of(of[TILE]) == row_of(of[0])) return;
        count = run_length(of, min(left, (u32)TILE));
    }
    u64 at = offsets[blockIdx.y] + (u64)i * table.dim;
    bool whole = table.dim % 4 == 0 && at % 4 == 0;
    for (u32 e = lane * 4; e < table.dim; e += table.lanes * 4) {
        u32 n = min(4u, table.dim - e);
        store4(out + at + e, sum_keys<2>(gradients, table, of, count, e, n), n, whole);
    }
}

// Sums of runs of more than TILE values, whose tiles are summed: a block each.
extern "C" __global__ void __launch_bounds__(256) sum_long_runs(
    const TableCall *calls, const Span *runs, const u64 *offsets, const u32 *firsts, const u64 *counter, const LongRun *found,
    float *sums, u64 stride, float *out) {
    u32 lane = threadIdx.x & (WARP - 1), count = (u32)(*counter >> 32);
    for (u32 r = blockIdx.x; r < count; r += gridDim.x) {
        LongRun run = found[r];
        const TableCall table = calls[run.call];
        Span of_table = runs[run.call];
        add_tiles(run, table.dim, sums, stride);
        if (threadIdx.x >= WARP || of_table.count == 0) continue;
        // The run among those of its table: their first keys ascend.
        u32 low = 0, high = of_table.count;
        while (high - low > 1) {
            u32 middle = low + (high - low) / 2;
            if (firsts[of_table.first + middle] <= run.first) low = middle;
            else high = middle;
        }
        if (firsts[of_table.first + low] != run.first) continue;
        u64 at = offsets[run.call] + (u64)low * table.dim;
        bool whole = table.dim % 4 == 0 && at % 4 == 0;
        for (u32 e = lane * 4; e < table.dim; e += WARP * 4) {
            float4 sum = *(const float4 *)(sums + run.slot * stride + e);
            store4(out + at + e, sum, min(4u, table.dim - e), whole);
        }
    }
}

// Marks each value whose row no other value has, and lists the first keys of rows of several values, in any order.
extern "C" __global__ void __launch_bounds__(256) mark_repeats(
    const Span *spans, const u64 *keys, u64 value_count, u8 *once, u32 *count, uint2 *repeats) {
    Span span = spans[blockIdx.y];
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= span.count) return;
    const u64 *of = keys + span.first + i;
    u32 row = row_of(of[0]), value = (u32)of[0];
    bool before = i > 0 && row_of(of[-1]) == row, after = i + 1 < span.count && row_of(of[1]) == row;
    if (value < value_count) once[value] = !before && !after;
    if (row != NO_ROW && !before && after) repeats[atomicAdd(count, 1)] = make_uint2(blockIdx.y, span.first + i);
}

// Updates rows of several values, at most TILE: a group of threads for each row of the list. Calls are in the order of `numbers`, by table.
template <u32 KIND> __device__ __forceinline__ void update_listed(
    const TableCall *calls, const u32 *numbers, const Span *spans, Rule rule, const u64 *keys, const u32 *count,
    const uint2 *repeats, const Gradients &gradients) {
    rule.kind = KIND;
    u32 lanes = calls[0].lanes, lane = threadIdx.x & (lanes - 1), groups = 256 / lanes, all = *count;
    for (u32 r = blockIdx.x * groups + threadIdx.x / lanes; r < all; r += gridDim.x * groups) {
        u32 call = numbers[repeats[r].x], first = repeats[r].y;
        const TableCall table = calls[call];
        Span span = spans[call];
        const u64 *of = keys + first;
        u32 row = row_of(of[0]), left = span.first + span.count - first;
        if (left > TILE && row_of(of[TILE]) == row) continue;
        if (row >= table.rows) {
            if (lane == 0) fault_row(gradients.faults, table.table, row);
            continue;
        }
        u32 length = run_length(of, min(left, (u32)TILE));
        update_row(rule, table, row, lane, [&](u32 e, u32 n) { return sum_keys<2>(gradients, table, of, length, e, n); });
    }
}

#define UPDATE_LISTED(NAME, KIND)                                                                                             \
    extern "C" __global__ void __launch_bounds__(256, 3)                                                                      \
        NAME(const TableCall *calls, const u32 *numbers, const Span *spans, const Rule rule, const u64 *keys,                 \
             const u32 *count, const uint2 *repeats, GRADIENTS) {                                                             \
        Gradients gradients = GRADIENTS_OF;                                                                                   \
        update_listed<KIND>(calls, numbers, spans, rule, keys, count, repeats, gradients);                                    \
    }

UPDATE_LISTED(update_listed_sgd, RULE_SGD)
UPDATE_LISTED(update_listed_adagrad, RULE_ADAGRAD)
UPDATE_LISTED(update_listed_row_wise, RULE_ROW_WISE_ADAGRAD)
UPDATE_LISTED(update_listed_adam, RULE_ADAM)
UPDATE_LISTED(update_listed_lamb, RULE_LAMB)
