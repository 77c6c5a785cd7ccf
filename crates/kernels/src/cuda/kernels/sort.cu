// Ids grouped by row: keys `row << 32 | value`, sorted table by table by a stable radix sort of ten bits a pass.
//
// Keys are laid out in the order of their values, so that passes over the bits of rows are enough. A tile of 2048 keys lies inside
// one table; block (x, y) has tile x of table y.

#define TILE_KEYS 2048
#define DIGITS 1024
// Keys of a thread.
#define KEYS (TILE_KEYS / 256)

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

// Digits of each tile: `counts[DIGITS * tiles before + digit * tiles of the table + tile]`.
extern "C" __global__ void __launch_bounds__(256) sort_count(const Span *spans, const u64 *keys, u32 shift, u32 *counts) {
    __shared__ u32 found[DIGITS];
    Span span = spans[blockIdx.y];
    u32 tiles = (span.count + TILE_KEYS - 1) / TILE_KEYS, tile = blockIdx.x;
    if (tile >= tiles) return;
    for (u32 d = threadIdx.x; d < DIGITS; d += 256) found[d] = 0;
    __syncthreads();
    const u64 *from = keys + span.first;
    u32 end = min(span.count, (tile + 1) * TILE_KEYS);
    for (u32 i = tile * TILE_KEYS + threadIdx.x; i < end; i += 256) {
        atomicAdd(found + (u32)(from[i] >> shift) % DIGITS, 1);
    }
    __syncthreads();
    u32 *to = counts + (u64)DIGITS * span.tile + tile;
    for (u32 d = threadIdx.x; d < DIGITS; d += 256) to[d * tiles] = found[d];
}

// Place of the first key of each digit of each tile: a block of 1024 threads for each table.
extern "C" __global__ void __launch_bounds__(1024) sort_places(const Span *spans, u32 *counts) {
    __shared__ u32 room[32];
    Span span = spans[blockIdx.x];
    u32 total = DIGITS * ((span.count + TILE_KEYS - 1) / TILE_KEYS), next = span.first;
    u32 *of = counts + (u64)DIGITS * span.tile;
    for (u32 chunk = 0; chunk < total; chunk += 4096) {
        u32 first = chunk + threadIdx.x * 4, count[4], sum = 0, all;
        for (u32 k = 0; k < 4; k++) {
            count[k] = first + k < total ? of[first + k] : 0;
            sum += count[k];
        }
        u32 before = next + block_scan(sum, 32, room, &all);
        for (u32 k = 0; k < 4 && first + k < total; k++) {
            of[first + k] = before;
            before += count[k];
        }
        next += all;
    }
}

// One stable pass. A warp has 256 keys of the tile, 32 at a time: the rank of a key among those of its digit counts the keys of the
// warp before it, then come the warps before.
extern "C" __global__ void __launch_bounds__(256) sort_scatter(
    const Span *spans, const u64 *from, u64 *to, u32 shift, const u32 *places) {
    __shared__ u32 counts[8][DIGITS];
    Span span = spans[blockIdx.y];
    u32 tiles = (span.count + TILE_KEYS - 1) / TILE_KEYS, tile = blockIdx.x;
    if (tile >= tiles) return;
    u32 lane = threadIdx.x & (WARP - 1), warp = threadIdx.x / WARP;
    for (u32 d = threadIdx.x; d < 8 * DIGITS; d += 256) (&counts[0][0])[d] = 0;
    __syncthreads();
    u32 first = tile * TILE_KEYS + warp * (TILE_KEYS / 8) + lane;
    u64 key[KEYS];
    u32 rank[KEYS];
#pragma unroll
    for (u32 r = 0; r < KEYS; r++) {
        u32 i = first + r * WARP;
        key[r] = i < span.count ? from[span.first + i] : 0;
    }
#pragma unroll
    for (u32 r = 0; r < KEYS; r++) {
        bool here = first + r * WARP < span.count;
        u32 digit = here ? (u32)(key[r] >> shift) % DIGITS : DIGITS;
        u32 alike = __match_any_sync(FULL, digit), before = alike & ((1u << lane) - 1);
        rank[r] = here ? counts[warp][digit] + __popc(before) : 0;
        __syncwarp();
        if (here && before == 0) counts[warp][digit] += __popc(alike);
        __syncwarp();
    }
    __syncthreads();
    const u32 *of_tile = places + (u64)DIGITS * span.tile + tile;
    for (u32 d = threadIdx.x; d < DIGITS; d += 256) {
        u32 place = of_tile[d * tiles];
        for (u32 w = 0; w < 8; w++) {
            u32 count = counts[w][d];
            counts[w][d] = place;
            place += count;
        }
    }
    __syncthreads();
#pragma unroll
    for (u32 r = 0; r < KEYS; r++) {
        if (first + r * WARP < span.count) to[counts[warp][(u32)(key[r] >> shift) % DIGITS] + rank[r]] = key[r];
    }
}
