// Rows of a table and their optimizer state, between the table and records that stand one behind another: a row as it is stored, then its
// state. A warp copies a record, in words where rows are whole words and in bytes elsewhere.

template <class Word, bool TAKE>
__device__ __forceinline__ void copy(u8 *table, u8 *record, u64 bytes) {
    Word *in_table = (Word *)table, *in_record = (Word *)record;
    for (u64 i = threadIdx.x & (WARP - 1); i < bytes / sizeof(Word); i += WARP) {
        if (TAKE) in_record[i] = in_table[i];
        else in_table[i] = in_record[i];
    }
}

template <bool TAKE>
__device__ __forceinline__ void copy_rows(
    u8 *weights, u8 *state, const u32 *slots, u64 count, u64 row_bytes, u64 state_bytes, u8 *records) {
    u64 i = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    if (i >= count) return;
    u64 slot = slots[i];
    u8 *record = records + i * (row_bytes + state_bytes);
    // Tables and records begin at multiples of 16 bytes, and state is floats.
    if (row_bytes % sizeof(u32) == 0) {
        copy<u32, TAKE>(weights + slot * row_bytes, record, row_bytes);
        copy<u32, TAKE>(state + slot * state_bytes, record + row_bytes, state_bytes);
    } else {
        copy<u8, TAKE>(weights + slot * row_bytes, record, row_bytes);
        copy<u8, TAKE>(state + slot * state_bytes, record + row_bytes, state_bytes);
    }
}

extern "C" __global__ void take_rows(
    u8 *weights, u8 *state, const u32 *slots, u64 count, u64 row_bytes, u64 state_bytes, u8 *records, u32 *) {
    copy_rows<true>(weights, state, slots, count, row_bytes, state_bytes, records);
}

// Behind the slots are numbers of the rows in the whole table, for tables whose updates round by them.
extern "C" __global__ void put_rows(
    u8 *weights, u8 *state, const u32 *slots, u64 count, u64 row_bytes, u64 state_bytes, u8 *records, u32 *names) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (names && i % WARP == 0 && i / WARP < count) names[slots[i / WARP]] = slots[count + i / WARP];
    copy_rows<false>(weights, state, slots, count, row_bytes, state_bytes, records);
}
