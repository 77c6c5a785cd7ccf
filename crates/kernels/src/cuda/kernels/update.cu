// Gradients of rows: for each row of sorted ids `Σ scale·dout[sample]` in the order of its keys, then an update or a stored sum. Tables
// that are updated are of f32; update_formats.cu has the updates of all others.

// Gradients of a tile that are on their way together.
#define AHEAD_TILES 8

// Lists the rows of more than TILE values.
extern "C" __global__ void find_long_runs(const Span *spans, const u64 *keys, u64 *counter, LongRun *runs, uint2 *tiles) {
    Span span = spans[blockIdx.y];
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= span.count || span.count - i <= TILE) return;
    const u64 *of = keys + span.first + i;
    u32 row = row_of(of[0]);
    if (row == NO_ROW || row_of(of[TILE]) != row || (i > 0 && row_of(of[-1]) == row)) return;
    list_long_run(keys, span.first + i, span.count - i, blockIdx.y, 1, counter, runs, tiles);
}

// Sum of each tile, by a group of `lanes` threads; `stride` floats lie between the sums of tiles. The threads of a group find the
// samples of as many keys at a time, and hand them round.
extern "C" __global__ void __launch_bounds__(256) sum_tiles(
    const TableCall *calls, const u64 *keys, const u64 *counter, const uint2 *tiles, float *sums, u64 stride, u32 lanes,
    GRADIENTS) {
    Gradients gradients = GRADIENTS_OF;
    u32 lane = threadIdx.x & (lanes - 1), mask = group_mask(lanes), groups = 256 / lanes, all = (u32)*counter;
    for (u32 t = blockIdx.x * groups + threadIdx.x / lanes; t < all; t += gridDim.x * groups) {
        uint2 tile = tiles[t];
        const TableCall table = calls[tile.y >> 8];
        u32 count = tile.y & 255;
        bool whole = table.dim % 4 == 0 && (width | table.column) % 4 == 0;
        for (u32 chunk = 0; chunk < table.dim; chunk += lanes * 4) {
            u32 e = chunk + lane * 4, n = e < table.dim ? min(4u, table.dim - e) : 0;
            float4 sum = zero4();
            for (u32 first = 0; first < count; first += lanes) {
                u32 here = min(lanes, count - first);
                Value of = {NO_ROW, 0.0f};
                if (lane < here) of = value_of(gradients, table, (u32)keys[tile.x + first + lane], chunk == 0);
                for (u32 j = 0; j < here; j += AHEAD_TILES) {
                    Value value[AHEAD_TILES];
                    float4 g[AHEAD_TILES];
#pragma unroll
                    for (u32 k = 0; k < AHEAD_TILES; k++) {
                        u32 from = min(j + k, lanes - 1);
                        value[k].sample = __shfl_sync(mask, of.sample, from, lanes);
                        value[k].scale = __shfl_sync(mask, of.scale, from, lanes);
                        if (j + k >= here || n == 0) value[k].sample = NO_ROW;
                        if (value[k].sample != NO_ROW) {
                            g[k] = load4(dout + (u64)value[k].sample * width + table.column + e, n, whole);
                        }
                    }
#pragma unroll
                    for (u32 k = 0; k < AHEAD_TILES; k++) {
                        if (value[k].sample != NO_ROW) sum = add_scaled4(sum, value[k].scale, g[k]);
                    }
                }
            }
            if (n > 0) *(float4 *)(sums + t * stride + e) = sum;
        }
    }
}

UPDATE_SHORT(update_short_sgd, RULE_SGD, RowF32, 7)
UPDATE_SHORT(update_short_adagrad, RULE_ADAGRAD, RowF32, 7)
UPDATE_SHORT(update_short_row_wise, RULE_ROW_WISE_ADAGRAD, RowF32, 6)
UPDATE_SHORT(update_short_adam, RULE_ADAM, RowF32, 7)
UPDATE_SHORT(update_short_lamb, RULE_LAMB, RowF32, 8)

UPDATE_LONG(update_long_runs, RowF32)

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
