// Index of bags: where the bags of segments start, how long they are, and where their keys go among sorted ids.

// As `SegmentCall` of `cuda/index.rs`.
struct SegmentCall {
    u32 bag;     // first bag: table * samples + first sample
    u32 samples; // number of bags
    u32 value;   // first value
    u32 place;   // place of the first key
    u32 lengths; // where the bags' lengths begin; all ones where every bag has one id
};

#define SINGLE 0xffffffffu

// Bags of one id each: block (x, y) has 1024 bags of segment x.
extern "C" __global__ void index_single(const SegmentCall *segments, u32 *starts, u32 *lengths, u32 *places) {
    SegmentCall s = segments[blockIdx.x];
    if (s.lengths != SINGLE) return;
    for (u32 i = blockIdx.y * 1024 + threadIdx.x; i < min(s.samples, (blockIdx.y + 1) * 1024); i += blockDim.x) {
        starts[s.bag + i] = s.value + i;
        lengths[s.bag + i] = 1;
        places[s.bag + i] = s.place + i;
    }
}

// Bags of varying lengths: a block of 1024 threads for each segment.
extern "C" __global__ void __launch_bounds__(1024) index_lengths(
    const SegmentCall *segments, const u32 *given, u32 *starts, u32 *lengths, u32 *places) {
    __shared__ u32 room[32];
    SegmentCall s = segments[blockIdx.x];
    if (s.lengths == SINGLE) return;
    const u32 *from = given + s.lengths;
    u32 next = 0;
    for (u32 chunk = 0; chunk < s.samples; chunk += 4096) {
        u32 first = chunk + threadIdx.x * 4, length[4], sum = 0, total;
        for (u32 k = 0; k < 4; k++) {
            length[k] = first + k < s.samples ? from[first + k] : 0;
            sum += length[k];
        }
        u32 before = next + block_scan(sum, 32, room, &total);
        for (u32 k = 0; k < 4 && first + k < s.samples; k++) {
            u32 bag = s.bag + first + k;
            starts[bag] = s.value + before;
            lengths[bag] = length[k];
            places[bag] = s.place + before;
            before += length[k];
        }
        next += total;
    }
}
