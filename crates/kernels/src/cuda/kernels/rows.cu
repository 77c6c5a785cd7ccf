// Rows that a step touches: found in sorted ids or in a vector with a place for every row, spread over one, and updated by sums of
// several copies of a table.

// Elements that a block of 256 threads looks at.
#define LOOKED 1024

// Whether key `i` of `of` is the first of a row.
__device__ __forceinline__ bool is_head(const u64 *of, u32 i) {
    u32 row = row_of(of[i]);
    return row != NO_ROW && (i == 0 || row_of(of[i - 1]) != row);
}

// Number of elements in this thread's four of block (x, y) that `is(i)` holds of; bit k for the element k.
template <class F> __device__ __forceinline__ u32 found_of(u32 count, const F &is) {
    u32 first = blockIdx.x * LOOKED + threadIdx.x * 4, found = 0;
    for (u32 k = 0; k < 4; k++) {
        if (first + k < count && is(first + k)) found |= 1u << k;
    }
    return found;
}

__device__ __forceinline__ void count_found(const Span &span, u32 found, u32 *counts) {
    __shared__ u32 room[8];
    u32 total;
    block_scan(__popc(found), 8, room, &total);
    if (threadIdx.x == 0) counts[span.tile + blockIdx.x] = total;
}

// First keys of rows in each 1024 keys of table y.
extern "C" __global__ void __launch_bounds__(256) count_heads(const Span *spans, const u64 *keys, u32 *counts) {
    Span span = spans[blockIdx.y];
    if (blockIdx.x * LOOKED >= span.count) return;
    const u64 *of = keys + span.first;
    count_found(span, found_of(span.count, [&](u32 i) { return is_head(of, i); }), counts);
}

// First keys and rows, in order.
extern "C" __global__ void __launch_bounds__(256) write_heads(
    const Span *spans, const u64 *keys, const u32 *places, u32 *firsts, u32 *rows) {
    __shared__ u32 room[8];
    Span span = spans[blockIdx.y];
    if (blockIdx.x * LOOKED >= span.count) return;
    const u64 *of = keys + span.first;
    u32 found = found_of(span.count, [&](u32 i) { return is_head(of, i); }), total;
    u32 place = places[span.tile + blockIdx.x] + block_scan(__popc(found), 8, room, &total);
    for (u32 k = 0; k < 4; k++) {
        if (found >> k & 1) {
            u32 i = blockIdx.x * LOOKED + threadIdx.x * 4 + k;
            firsts[place] = span.first + i;
            rows[place] = row_of(of[i]);
            place++;
        }
    }
}

// Rows that were touched among each 1024 rows of table y, whose numbers begin at `offsets[y]`, behind the sums.
extern "C" __global__ void __launch_bounds__(256) count_touched(
    const Span *spans, const u64 *offsets, const float *vector, u32 *counts) {
    Span span = spans[blockIdx.y];
    if (blockIdx.x * LOOKED >= span.count) return;
    const float *of = vector + offsets[blockIdx.y];
    count_found(span, found_of(span.count, [&](u32 i) { return of[i] > 0.0f; }), counts);
}

// Rows that were touched, in order.
extern "C" __global__ void __launch_bounds__(256) write_touched(
    const Span *spans, const u64 *offsets, const float *vector, const u32 *places, u32 *rows) {
    __shared__ u32 room[8];
    Span span = spans[blockIdx.y];
    if (blockIdx.x * LOOKED >= span.count) return;
    const float *of = vector + offsets[blockIdx.y];
    u32 found = found_of(span.count, [&](u32 i) { return of[i] > 0.0f; }), total;
    u32 place = places[span.tile + blockIdx.x] + block_scan(__popc(found), 8, room, &total);
    for (u32 k = 0; k < 4; k++) {
        if (found >> k & 1) rows[place++] = blockIdx.x * LOOKED + threadIdx.x * 4 + k;
    }
}

// Running sums of `count` counts, in place, by one block of 1024 threads; then `bounds[k]` is what lies before the tiles of table k.
extern "C" __global__ void __launch_bounds__(1024) add_up_counts(u32 *counts, u32 count, const Span *spans, u32 tables, u32 *bounds) {
    __shared__ u32 room[32];
    u32 next = 0;
    for (u32 chunk = 0; chunk < count; chunk += 1024) {
        u32 i = chunk + threadIdx.x, total, here = i < count ? counts[i] : 0;
        u32 before = next + block_scan(here, 32, room, &total);
        if (i < count) counts[i] = before;
        next += total;
    }
    __syncthreads();
    for (u32 k = threadIdx.x; k < tables; k += 1024) bounds[k] = spans[k].tile < count ? counts[spans[k].tile] : next;
    if (threadIdx.x == 0) bounds[tables] = next;
}

// Sums of the rows that were touched: run `i` of table y is row `rows[spans.first + i]`; the table's part of the vector begins at
// `offsets[y]`, its part of the sums at `to[y]`.
extern "C" __global__ void __launch_bounds__(256) take_sums(
    const TableCall *calls, const Span *spans, const u64 *offsets, const u64 *to, const u32 *rows, const float *vector, float *sums) {
    const TableCall table = calls[blockIdx.y];
    Span span = spans[blockIdx.y];
    u32 lane = threadIdx.x & (table.lanes - 1);
    u32 i = blockIdx.x * (256 / table.lanes) + threadIdx.x / table.lanes;
    if (i >= span.count) return;
    const float *from = vector + offsets[blockIdx.y] + (u64)rows[span.first + i] * table.dim;
    float *sum = sums + to[blockIdx.y] + (u64)i * table.dim;
    for (u32 d = lane; d < table.dim; d += table.lanes) sum[d] = from[d];
}

// Sums of runs, each at the place of its row in a vector of zeros, and 1 behind all sums of the table: the inverse of `take_sums`.
extern "C" __global__ void __launch_bounds__(256) put_sums(
    const TableCall *calls, const Span *spans, const u64 *offsets, const u64 *from, const u32 *rows, const float *sums,
    float *vector, u64 *faults) {
    const TableCall table = calls[blockIdx.y];
    Span span = spans[blockIdx.y];
    u32 lane = threadIdx.x & (table.lanes - 1);
    u32 i = blockIdx.x * (256 / table.lanes) + threadIdx.x / table.lanes;
    if (i >= span.count) return;
    u32 row = rows[span.first + i];
    if (row >= table.rows) {
        if (lane == 0) fault_id(faults, table.table, row);
        return;
    }
    const float *sum = sums + from[blockIdx.y] + (u64)i * table.dim;
    float *to = vector + offsets[blockIdx.y];
    for (u32 d = lane; d < table.dim; d += table.lanes) to[(u64)row * table.dim + d] = sum[d];
    if (lane == 0) to[table.rows * table.dim + row] = 1.0f;
}

// As `PartCall` of `cuda/rows.rs`.
struct PartCall {
    u32 call;  // table of the call
    u32 first; // first row number
    u32 count; // number of rows
    u32 place; // place of the first key
    u32 sums;  // first float of the first sum
};

// Keys of the rows of parts: `row << 32 | place of the sum`. Block (x, y) has 1024 rows of part x.
extern "C" __global__ void emit_parts(
    const TableCall *calls, const PartCall *parts, const u32 *rows, u64 *keys, u64 *faults) {
    PartCall part = parts[blockIdx.x];
    const TableCall table = calls[part.call];
    for (u32 i = blockIdx.y * 1024 + threadIdx.x; i < min(part.count, (blockIdx.y + 1) * 1024); i += blockDim.x) {
        u32 row = rows[part.first + i];
        if (row >= table.rows) {
            fault_id(faults, table.table, row);
            row = NO_ROW;
        }
        keys[part.place + i] = (u64)row << 32 | (part.sums + i * table.dim);
    }
}

// One update of each row by the sums that its keys name, added in order: a group of threads for each key of table y; those of a row's
// first key do the work. Rows are of number format F.
template <u32 KIND, class F> __device__ __forceinline__ void update_by_sums(
    const TableCall &table, const Span &span, Rule rule, const u64 *keys, const float *sums) {
    rule.kind = KIND;
    u32 lane = threadIdx.x & (table.lanes - 1);
    u32 i = blockIdx.x * (256 / table.lanes) + threadIdx.x / table.lanes;
    if (i >= span.count) return;
    const u64 *of = keys + span.first + i;
    u32 row = row_of(of[0]), left = span.count - i;
    if (row >= table.rows || (i > 0 && row_of(of[-1]) == row)) return;
    update_row<F>(rule, table, row, lane, [&](u32 e, u32 n) {
        float4 sum = zero4();
        for (u32 j = 0; j < left && row_of(of[j]) == row; j++) {
            u32 at = (u32)of[j];
            sum = add4(sum, load4(sums + at + e, n, table.dim % 4 == 0 && at % 4 == 0));
        }
        return sum;
    });
}

#define UPDATE_BY_SUMS(NAME, KIND, F)                                                                                         \
    extern "C" __global__ void __launch_bounds__(256)                                                                         \
        NAME(const TableCall *calls, const Span *spans, const Rule rule, const u64 *keys, const float *sums) {                \
        update_by_sums<KIND, F>(calls[blockIdx.y], spans[blockIdx.y], rule, keys, sums);                                      \
    }

// A kernel for each rule and each number format of tables, as in update.cu.
#define UPDATES_BY_SUMS(FORMAT, F)                                                                                            \
    UPDATE_BY_SUMS(update_by_sums_sgd##FORMAT, RULE_SGD, F)                                                                   \
    UPDATE_BY_SUMS(update_by_sums_adagrad##FORMAT, RULE_ADAGRAD, F)                                                           \
    UPDATE_BY_SUMS(update_by_sums_row_wise##FORMAT, RULE_ROW_WISE_ADAGRAD, F)                                                 \
    UPDATE_BY_SUMS(update_by_sums_adam##FORMAT, RULE_ADAM, F)                                                                 \
    UPDATE_BY_SUMS(update_by_sums_lamb##FORMAT, RULE_LAMB, F)

UPDATES_BY_SUMS(, RowF32)
UPDATES_BY_SUMS(_f16, RowF16)
UPDATES_BY_SUMS(_bf16, RowBf16)
UPDATES_BY_SUMS(_int8, RowInt8)
