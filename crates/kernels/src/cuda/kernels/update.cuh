// Updates of rows by the gradients of sorted ids. Put before the sources of a module by kernels.rs, behind runs.cuh.
//
// A row of at most TILE values belongs to one group of threads. The others are listed; groups sum their tiles, and a block adds up the
// tiles of a row: eight warps take turns, and their sums are added in order.

// Keys of a block of `update_short_…`, one for each thread.
#define BLOCK_KEYS 128

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

// Lists a row of more than TILE values that begins at key `first`, where the table has `left` keys left. `counter` gets the number of
// rows in its upper half and the number of tiles in its lower half. A tile is its first key, and `call << 8 | values`. All threads of a
// group of `lanes` call this.
__device__ __forceinline__ void list_long_run(
    const u64 *keys, u32 first, u32 left, u32 call, u32 lanes, u64 *counter, LongRun *runs, uint2 *tiles) {
    u32 lane = threadIdx.x & (lanes - 1), mask = group_mask(lanes);
    u32 count = TILE + run_length(keys + first + TILE, left - TILE), needed = (count + TILE - 1) / TILE;
    u64 before = 0;
    if (lane == 0) {
        before = atomicAdd(counter, 1ull << 32 | needed);
        LongRun run = {call, first, (u32)before, needed};
        runs[before >> 32] = run;
    }
    u32 slot = __shfl_sync(mask, (u32)before, 0, lanes);
    for (u32 t = lane; t < needed; t += lanes) {
        tiles[slot + t] = make_uint2(first + t * TILE, call << 8 | min((u32)TILE, count - t * TILE));
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

// Keys of a block, and behind them those that a row of at most TILE values may have there.
struct Staged {
    u32 row[BLOCK_KEYS + TILE];
    u32 sample[BLOCK_KEYS + TILE];
    float scale[BLOCK_KEYS + TILE];
};

// Puts a key into its place; `looked_up` where its gradient may be needed.
__device__ __forceinline__ void stage(
    const Gradients &of, const TableCall &table, Staged &staged, u32 at, u64 key, bool looked_up) {
    Value value = {NO_ROW, 0.0f};
    if (looked_up && row_of(key) < table.rows) value = value_of(of, table, (u32)key, true);
    staged.row[at] = row_of(key);
    staged.sample[at] = value.sample;
    staged.scale[at] = value.scale;
}

// Sum of the gradients of `count` keys from key `first` on.
template <u32 AHEAD> __device__ __forceinline__ float4 sum_staged(
    const Gradients &of, const TableCall &table, const Staged &staged, u32 first, u32 count, u32 e, u32 n) {
    bool whole = table.dim % 4 == 0 && (of.width | table.column) % 4 == 0;
    float4 sum = zero4();
    for (u32 j = first; j < first + count; j += AHEAD) {
        float4 g[AHEAD];
        u32 sample[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) {
            sample[k] = j + k < first + count ? staged.sample[j + k] : NO_ROW;
            if (sample[k] != NO_ROW) g[k] = load4(of.dout + (u64)sample[k] * of.width + table.column + e, n, whole);
        }
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) {
            if (sample[k] != NO_ROW) sum = add_scaled4(sum, staged.scale[j + k], g[k]);
        }
    }
    return sum;
}

// Updates the rows of keys `first` to `end`, AHEAD keys at a time: their gradients, and the rows that end among them, are on their
// way together. A thread has CHUNKS times four floats of a row, `table.lanes` times four floats apart; row-wise Adagrad needs the
// whole row at once, and AHEAD threads of a group; a RANGED number format F needs the whole row at once. WHOLE where all rows are aligned
// to four weights.
template <u32 KIND, class F, u32 AHEAD, u32 CHUNKS, bool WHOLE> __device__ __forceinline__ void update_keys(
    const Rule &rule, const TableCall &table, const Gradients &of, const Staged &staged, u32 first, u32 end, u32 lane) {
    constexpr bool row_wise = KIND == RULE_ROW_WISE_ADAGRAD, moments = KIND == RULE_ADAM, moment = moments || KIND == RULE_ADAGRAD;
    const u32 lanes = table.lanes, mask = group_mask(lanes), step = lanes * 4, dim = table.dim;
    constexpr bool at_once = row_wise || F::RANGED;
    const float *dout = of.dout + table.column;
    for (u32 from = lane * 4; at_once ? from == lane * 4 : from < dim; from += CHUNKS * step) {
        float4 sum[CHUNKS];
#pragma unroll
        for (u32 c = 0; c < CHUNKS; c++) sum[c] = zero4();
        for (u32 j = first; j < end; j += AHEAD) {
            // Gradients of keys; then, of keys that are the last of their row, the row's sums.
            float4 g[AHEAD][CHUNKS];
            float4 w[AHEAD][CHUNKS], m[AHEAD][CHUNKS], v[AHEAD][CHUNKS];
            u32 sample[AHEAD], row[AHEAD];
            bool last[AHEAD];
            // Row-wise Adagrad: thread k of a group has the state of row k, and finds its rate. Roots and quotients cost more than all
            // else that is done to a row.
            float squares[AHEAD], state = 0.0f, rate = 0.0f;
            float *own = nullptr;
#pragma unroll
            for (u32 k = 0; k < AHEAD; k++) {
                bool here = j + k < end;
                u32 at = here ? j + k : first;
                sample[k] = here ? staged.sample[at] : NO_ROW;
                row[k] = staged.row[at];
                last[k] = here && (at + 1 == end || staged.row[at + 1] != row[k]) && row[k] < table.rows;
                const typename F::Number *weights = F::of(table, row[k]);
                const float *states = table.state + (u64)row[k] * table.each;
#pragma unroll
                for (u32 c = 0; c < CHUNKS; c++) {
                    u32 e = from + c * step, n = WHOLE ? 4 : min(4u, dim - e);
                    g[k][c] = w[k][c] = m[k][c] = v[k][c] = zero4();
                    if (e >= dim) continue;
                    if (sample[k] != NO_ROW) g[k][c] = load4(dout + (u64)sample[k] * of.width + e, n, WHOLE);
                    if (!last[k]) continue;
                    w[k][c] = F::load(weights, dim, e, n, WHOLE);
                    if (moment) m[k][c] = load4(states + e, n, WHOLE);
                    if (moments) v[k][c] = load4(states + dim + e, n, WHOLE);
                }
                if (row_wise) own = k == lane && last[k] ? (float *)states : own;
            }
            if (row_wise && own) state = *own;
            auto update = [&](u32 k) {
                float *states = table.state + (u64)row[k] * table.each;
                float of_row = row_wise ? __shfl_sync(mask, rate, k, lanes) : 0.0f;
                F to(table, row[k], rule.step);
#pragma unroll
                for (u32 c = 0; c < CHUNKS; c++) {
                    u32 e = from + c * step, n = WHOLE ? 4 : min(4u, dim - e);
                    if (e >= dim) break;
                    float4 x = w[k][c];
                    if (row_wise) {
                        x = row_wise_step4(rule, x, of_row, g[k][c]);
                    } else {
                        x.x = rule_element(rule, x.x, g[k][c].x, m[k][c].x, v[k][c].x);
                        x.y = rule_element(rule, x.y, g[k][c].y, m[k][c].y, v[k][c].y);
                        x.z = rule_element(rule, x.z, g[k][c].z, m[k][c].z, v[k][c].z);
                        x.w = rule_element(rule, x.w, g[k][c].w, m[k][c].w, v[k][c].w);
                    }
                    if (F::RANGED) to.cover(w[k][c] = x, n);
                    else to.store(e, x, n, WHOLE);
                    if (moment) store4(states + e, m[k][c], n, WHOLE);
                    if (moments) store4(states + dim + e, v[k][c], n, WHOLE);
                }
                if constexpr (F::RANGED) {
                    to.agree(lanes);
#pragma unroll
                    for (u32 c = 0; c < CHUNKS; c++) {
                        u32 e = from + c * step;
                        if (e < dim) to.store(e, w[k][c], WHOLE ? 4 : min(4u, dim - e), WHOLE);
                    }
                    to.finish(lane, lanes);
                }
            };
#pragma unroll
            for (u32 k = 0; k < AHEAD; k++) {
                squares[k] = 0.0f;
                if (sample[k] != NO_ROW) {
                    float scale = staged.scale[j + k];
#pragma unroll
                    for (u32 c = 0; c < CHUNKS; c++) sum[c] = add_scaled4(sum[c], scale, g[k][c]);
                }
                if (!last[k]) continue;
#pragma unroll
                for (u32 c = 0; c < CHUNKS; c++) {
                    g[k][c] = sum[c];
                    sum[c] = zero4();
                    if (!row_wise || from + c * step >= dim) continue;
                    g[k][c] = rule_gradient4(rule, g[k][c]);
                    squares[k] += squares4(g[k][c]);
                }
                if (!row_wise) update(k);
            }
            if constexpr (row_wise) {
                // As `group_sum`, of all rows at once.
                for (u32 apart = lanes / 2; apart > 0; apart /= 2) {
#pragma unroll
                    for (u32 k = 0; k < AHEAD; k++) squares[k] += __shfl_xor_sync(mask, squares[k], apart);
                }
                float of_own = squares[0];
#pragma unroll
                for (u32 k = 1; k < AHEAD; k++) of_own = k == lane ? squares[k] : of_own;
                state = rule_row_wise_state(state, of_own, dim);
                rate = rule_row_wise_rate(rule, state);
                if (own) *own = state;
#pragma unroll
                for (u32 k = 0; k < AHEAD; k++) {
                    if (last[k]) update(k);
                }
            }
        }
    }
}

// Updates rows one after another: for rules and rows that `update_keys` has no way for.
template <class F> __device__ __forceinline__ void update_rows(
    const Rule &rule, const TableCall &table, const Gradients &of, const Staged &staged, u32 first, u32 end, u32 lane) {
    for (u32 j = first, count; j < end; j += count) {
        u32 row = staged.row[j];
        for (count = 1; j + count < end && staged.row[j + count] == row;) count++;
        if (row >= table.rows) continue;
        update_row<F>(rule, table, row, lane, [&](u32 e, u32 n) { return sum_staged<2>(of, table, staged, j, count, e, n); });
    }
}

// Updates rows of at most TILE values and lists the others. A block has BLOCK_KEYS keys of table y, and a group of `lanes` threads as
// many of them: the group updates the rows whose first key it has, and follows the last of them into the keys behind.
//
// What leads to a gradient (key, sample, scale) is found for all keys of the block at once. A group that did it row by row would wait
// for memory three times before it asks for the gradient, with little on its way meanwhile.
template <u32 KIND, class F> __device__ __forceinline__ void update_short_runs(
    const TableCall &table, const Span &span, Rule rule, const u64 *keys, u64 *counter, LongRun *runs, uint2 *tiles,
    const Gradients &of) {
    __shared__ Staged staged;
    rule.kind = KIND;
    u32 at = threadIdx.x, begin = blockIdx.x * BLOCK_KEYS;
    if (begin >= span.count) return;
    u32 here = min(span.count - begin, (u32)(BLOCK_KEYS + TILE));
    const u64 *from = keys + span.first + begin;
    u32 row = NO_ROW, before = NO_ROW;
    if (at < here) {
        u64 key = from[at];
        row = row_of(key);
        if (begin + at > 0) before = row_of(from[(int)at - 1]);
        stage(of, table, staged, at, key, true);
    }
    // Keys of the next block that belong to the last row of this one.
    if (at < TILE && BLOCK_KEYS + at < here) {
        u64 key = from[BLOCK_KEYS + at];
        stage(of, table, staged, BLOCK_KEYS + at, key, row_of(key) == row_of(from[BLOCK_KEYS - 1]));
    }
    bool head = at < min(here, (u32)BLOCK_KEYS) && (begin + at == 0 || before != row);
    if (head && row >= table.rows && row != NO_ROW) fault_row(of.faults, table.table, row);
    u32 lanes = table.lanes, lane = at & (lanes - 1), group = at - lane;
    u32 heads = (__ballot_sync(FULL, head) & group_mask(lanes)) >> (group & (WARP - 1));
    __syncthreads();
    if (heads == 0) return;
    u32 first = group + __ffs(heads) - 1, last = group + WARP - 1 - __clz(heads), end = last;
    bool is_long = last + TILE < here && staged.row[last + TILE] == staged.row[last];
    if (!is_long) {
        u32 most = min(here - last, (u32)TILE), row = staged.row[last];
        for (end = max(last + 1, min(group + lanes, here)); end < last + most && staged.row[end] == row;) end++;
    }
    bool whole = table.dim % 4 == 0 && (of.width | table.column) % 4 == 0;
    // A thread has eight vectors of four floats on their way: more would take the registers of other warps.
    constexpr bool moment = KIND == RULE_ADAGRAD || KIND == RULE_ADAM;
    constexpr u32 ahead = moment ? 2 : 4;
#define KEYS(AHEAD, CHUNKS, WHOLE) update_keys<KIND, F, AHEAD, CHUNKS, WHOLE>(rule, table, of, staged, first, end, lane)
    if constexpr (KIND == RULE_LAMB) {
        update_rows<F>(rule, table, of, staged, first, end, lane);
    } else if constexpr (KIND == RULE_ROW_WISE_ADAGRAD) {
        if (!whole || table.dim > 512) update_rows<F>(rule, table, of, staged, first, end, lane);
        else if (lanes < ahead) KEYS(1, 1, true);
        else if (table.dim <= 128) KEYS(ahead, 1, true);
        else if (table.dim <= 256) KEYS(2, 2, true);
        else KEYS(1, 4, true);
    } else if constexpr (F::RANGED) {
        if (!whole || table.dim > 128) update_rows<F>(rule, table, of, staged, first, end, lane);
        else KEYS(ahead, 1, true);
    } else {
        if (!whole) KEYS(1, 1, false);
        else KEYS(ahead, 1, true);
    }
#undef KEYS
    if (is_long && staged.row[last] != NO_ROW) {
        list_long_run(keys, span.first + begin + last, span.count - begin - last, blockIdx.y, lanes, counter, runs, tiles);
    }
}

// A kernel for a rule and a number format of tables: what a rule does not need takes no registers.
#define UPDATE_SHORT(NAME, KIND, F, BLOCKS)                                                                                   \
    extern "C" __global__ void __launch_bounds__(BLOCK_KEYS, BLOCKS)                                                          \
        NAME(const TableCall *calls, const Span *spans, const Rule rule, const u64 *keys, u64 *counter, LongRun *runs,        \
             uint2 *tiles, GRADIENTS) {                                                                                       \
        Gradients gradients = GRADIENTS_OF;                                                                                   \
        update_short_runs<KIND, F>(calls[blockIdx.y], spans[blockIdx.y], rule, keys, counter, runs, tiles, gradients);        \
    }

// Updates rows of more than TILE values, whose tiles are summed: a block each.
template <class F> __device__ __forceinline__ void update_by_tiles(
    const TableCall *calls, const Rule &rule, const u64 *keys, const u64 *counter, const LongRun *runs, float *sums, u64 stride,
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
            update_row<F>(rule, table, row, lane, [&](u32 e, u32) { return *(const float4 *)(sums + run.slot * stride + e); });
        }
    }
}

#define UPDATE_LONG(NAME, F)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(256)                                                                         \
        NAME(const TableCall *calls, const Rule rule, const u64 *keys, const u64 *counter, const LongRun *runs, float *sums,  \
             u64 stride, u64 *faults) {                                                                                       \
        update_by_tiles<F>(calls, rule, keys, counter, runs, sums, stride, faults);                                           \
    }
