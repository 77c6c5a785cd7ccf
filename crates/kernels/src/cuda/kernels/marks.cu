// Marks of updated rows: a bit for each row of a table.

// Rows of one table to be marked, as `Marked` of `cuda/marks.rs`.
struct Marked {
    u32 *bits;
    u64 rows;  // number of rows of the table
    u32 first; // first of the keys or row numbers
    u32 count; // number of them
};

// Most rows of hot tables are marked already: reading is cheaper than an atomic operation.
__device__ __forceinline__ void mark(const Marked &of, u32 row) {
    if (row >= of.rows) return;
    u32 *word = of.bits + (row >> 5), bit = 1u << (row & 31);
    if (!(*word & bit)) atomicOr(word, bit);
}

// Rows of sorted keys, of which the first of a row marks it.
extern "C" __global__ void __launch_bounds__(256) mark_sorted(const Marked *tables, const u64 *keys) {
    Marked of = tables[blockIdx.y];
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i >= of.count) return;
    const u64 *key = keys + of.first + i;
    u32 row = row_of(*key);
    if (i == 0 || row_of(key[-1]) != row) mark(of, row);
}

// Rows by their numbers.
extern "C" __global__ void __launch_bounds__(256) mark_parts(const Marked *parts, const u32 *rows) {
    Marked of = parts[blockIdx.y];
    u32 i = blockIdx.x * 256 + threadIdx.x;
    if (i < of.count) mark(of, rows[of.first + i]);
}
