// Ids grouped by row: keys `row << 32 | value`, sorted table by table by a stable radix sort of ten bits a pass.
//
// Keys are laid out in the order of their values, so that passes over the bits of rows are enough. A tile of 4096 keys lies inside
// one table; blocks (…, y) have the tiles of table y. The digits of all passes are counted at once, and a pass is one launch that reads
// and writes every key once: a tile learns from the tiles before it, while they run, where its keys go. A stable sort has one result,
// whatever the order in which tiles run.

#define TILE_KEYS 4096
// Bits and values of a digit.
#define DIGIT 10
#define DIGITS (1 << DIGIT)
#define SORT_THREADS 512
#define SORT_WARPS (SORT_THREADS / WARP)
// Keys of a thread.
#define KEYS (TILE_KEYS / SORT_THREADS)
// The most passes.
#define PASSES 8
// A thread has two digits of a tile. What is known of them is one word: how often they occur in the tile, or in the tile and all
// before it, in 31 bits each below the kind; zero where nothing is known yet.
#define OF_TILE (1ull << 62)
#define WITH_ALL_BEFORE (2ull << 62)
static_assert(DIGITS == 2 * SORT_THREADS, "a thread has two digits");

// Keys of all bags: `lanes` threads for each bag of table y. Overlapping bags leave the last of their samples.
extern "C" __global__ void __launch_bounds__(256) emit_keys(
    const TableCall *tables, const u32 *starts, const u32 *lengths, const u32 *places, u64 samples, u32 lanes,
    const u32 *values, u64 value_count, u64 *keys, u64 key_count, u32 *sample_of, u32 overlap, u64 *faults) {
    u32 t = blockIdx.y, lane = threadIdx.x & (lanes - 1);
    u64 sample = (u64)blockIdx.x * (256 / lanes) + threadIdx.x / lanes;
    if (sample >= samples) return;
    u64 bag = t * samples + sample, rows = tables[t].rows;
    u32 start = starts[bag], length = lengths[bag];
    u64 place = places[bag];
    for (u32 j = lane; j < length; j += lanes) {
        u64 value = (u64)start + j;
        u32 row = NO_ROW;
        if (value >= value_count) {
            fault_values(faults, (u64)start + length);
        } else {
            u32 id = values[value];
            if (id < rows) row = id;
            else fault_id(faults, t, id);
            if (overlap) atomicMax(sample_of + value, (u32)sample);
            else sample_of[value] = (u32)sample;
        }
        if (place + j < key_count) keys[place + j] = (u64)row << 32 | (u32)value;
    }
}

// Digits of all passes: `totals[(pass * tables + table) * DIGITS + digit]`. Byte `pass` of `shifts` is the first bit of its digits.
extern "C" __global__ void __launch_bounds__(SORT_THREADS) sort_count(
    const Span *spans, const u64 *keys, u64 shifts, u32 passes, u32 *totals) {
    __shared__ u32 found[PASSES * DIGITS];
    Span span = spans[blockIdx.y];
    u32 begin = blockIdx.x * TILE_KEYS;
    if (begin >= span.count) return;
    for (u32 d = threadIdx.x; d < passes * DIGITS; d += SORT_THREADS) found[d] = 0;
    __syncthreads();
    const u64 *from = keys + span.first;
    u32 end = min(span.count, begin + TILE_KEYS);
#pragma unroll 4
    for (u32 i = begin + threadIdx.x; i < end; i += SORT_THREADS) {
        u64 key = from[i];
        for (u32 p = 0; p < passes; p++) atomicAdd(found + p * DIGITS + (u32)(key >> (shifts >> 8 * p & 63)) % DIGITS, 1);
    }
    __syncthreads();
    for (u32 d = threadIdx.x; d < passes * DIGITS; d += SORT_THREADS) {
        if (found[d] > 0) atomicAdd(totals + ((u64)(d / DIGITS) * gridDim.y + blockIdx.y) * DIGITS + d % DIGITS, found[d]);
    }
}

// Both numbers of a word.
__device__ __forceinline__ uint2 pair_of(u64 word) { return make_uint2((u32)word & 0x7fffffff, (u32)(word >> 31) & 0x7fffffff); }

__device__ __forceinline__ u64 word_of(u64 kind, u32 x, u32 y) { return kind | (u64)y << 31 | x; }

// Threads of the warp that have the same digit, of one bit more than those of a pass. On an H200 this
// is faster than `__match_any_sync`.
__device__ __forceinline__ u32 match_digit(u32 digit) {
    u32 alike = FULL;
#pragma unroll
    for (u32 bit = 0; bit <= DIGIT; bit++) {
        bool one = digit >> bit & 1;
        u32 ones = __ballot_sync(FULL, one);
        alike &= one ? ones : ~ones;
    }
    return alike;
}

// One stable pass. A warp has a part of the tile's keys, 32 at a time: the rank of a key among those of its digit counts the keys of the
// warp before it, then come the warps before, then the tiles before. Keys are put in order within the tile first, so that keys of a digit
// are written together.
//
// Tiles are numbered in the order in which blocks begin, by `tickets`, so that whatever a tile waits for is running already. `known` has
// DIGITS / 2 words for each tile; both are zeros at first.
extern "C" __global__ void __launch_bounds__(SORT_THREADS, 2) sort_pass(
    const Span *spans, const u64 *from, u64 *to, u32 shift, const u32 *totals, u32 *tickets, u64 *known) {
    // How often digits occur in the keys of each warp, two digits in a word; then the keys in order.
    __shared__ union {
        u32 counts[SORT_WARPS][DIGITS / 2];
        u64 keys[TILE_KEYS];
    } shared;
    // Where keys of a digit go, less their places within the tile.
    __shared__ u32 offsets[DIGITS], room[SORT_WARPS], ticket;
    Span span = spans[blockIdx.y];
    if (blockIdx.x >= (span.count + TILE_KEYS - 1) / TILE_KEYS) return;
    u32 thread = threadIdx.x, lane = thread & (WARP - 1), warp = thread / WARP;
    if (thread == 0) ticket = atomicAdd(tickets + blockIdx.y, 1);
#pragma unroll
    for (u32 w = 0; w < SORT_WARPS; w++) shared.counts[w][thread] = 0;
    __syncthreads();
    u32 tile = ticket, here = min(span.count - tile * TILE_KEYS, (u32)TILE_KEYS), first = warp * (TILE_KEYS / SORT_WARPS) + lane;
    u16 *of_warp = (u16 *)shared.counts[warp];
    const u64 *of_table = from + span.first + tile * TILE_KEYS;
    u64 key[KEYS];
    u32 rank[KEYS];
#pragma unroll
    for (u32 r = 0; r < KEYS; r++) key[r] = first + r * WARP < here ? of_table[first + r * WARP] : 0;
    // How often the thread's digits occur in the whole table.
    uint2 total = *(const uint2 *)(totals + (u64)blockIdx.y * DIGITS + thread * 2);
#pragma unroll
    for (u32 r = 0; r < KEYS; r++) {
        bool is_key = first + r * WARP < here;
        u32 digit = is_key ? (u32)(key[r] >> shift) % DIGITS : DIGITS;
        u32 alike = match_digit(digit), before = alike & ((1u << lane) - 1);
        rank[r] = is_key ? of_warp[digit] + __popc(before) : 0;
        __syncwarp();
        if (is_key && before == 0) of_warp[digit] += __popc(alike);
        __syncwarp();
    }
    __syncthreads();
    // Both halves of a word count at once: a tile has fewer than 2^16 keys.
    u32 sum = 0;
#pragma unroll
    for (u32 w = 0; w < SORT_WARPS; w++) sum += shared.counts[w][thread];
    uint2 own = make_uint2(sum & 0xffff, sum >> 16), before = make_uint2(0, 0);
    volatile u64 *of_tile = known + ((u64)span.tile + tile) * (DIGITS / 2) + thread;
    if (tile > 0) *of_tile = word_of(OF_TILE, own.x, own.y);
    u32 all, place = block_scan(own.x + own.y, SORT_WARPS, room, &all), smaller = block_scan(total.x + total.y, SORT_WARPS, room, &all);
    // Places of keys within the tile.
    u32 next = place | (place + own.x) << 16;
#pragma unroll
    for (u32 w = 0; w < SORT_WARPS; w++) {
        u32 count = shared.counts[w][thread];
        shared.counts[w][thread] = next;
        next += count;
    }
    __syncthreads();
#pragma unroll
    for (u32 r = 0; r < KEYS; r++) rank[r] += of_warp[(u32)(key[r] >> shift) % DIGITS];
    __syncthreads();
#pragma unroll
    for (u32 r = 0; r < KEYS; r++) {
        if (first + r * WARP < here) shared.keys[rank[r]] = key[r];
    }
    for (u32 back = 1; back <= tile; back++) {
        u64 word;
        do word = *(of_tile - (u64)back * (DIGITS / 2));
        while (word == 0);
        uint2 more = pair_of(word);
        before.x += more.x;
        before.y += more.y;
        if (word >= WITH_ALL_BEFORE) break;
    }
    *of_tile = word_of(WITH_ALL_BEFORE, before.x + own.x, before.y + own.y);
    offsets[thread * 2] = span.first + smaller + before.x - place;
    offsets[thread * 2 + 1] = span.first + smaller + total.x + before.y - place - own.x;
    __syncthreads();
#pragma unroll
    for (u32 i = thread; i < TILE_KEYS; i += SORT_THREADS) {
        if (i >= here) break;
        u64 own_key = shared.keys[i];
        to[i + offsets[(u32)(own_key >> shift) % DIGITS]] = own_key;
    }
}
