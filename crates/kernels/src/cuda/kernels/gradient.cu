// Gradients of the inputs of a linear map in bf16, on Hopper's tensor cores: dx = dy*w, in f32, rounded to bf16; 0 where the layer
// below, whose output is y, had none of its ReLU; and sums of the columns of what was rounded, which are gradients of that layer's
// bias, 64 rows at a time.
//
// A block takes tiles of 128 rows and COLUMNS columns in turn. A thread copies tiles of dy and w into a ring in shared memory, two
// warpgroups multiply 64 rows each, and a second thread copies y to where the warpgroup then puts dx. CLUSTER blocks take neighbouring
// rows of the same columns: each copies a part of w, for all of them. The second warpgroup starts a step behind the first, so that one
// multiplies while the other writes.

#define ROWS 128
#define GROUP_ROWS 64
#define TERMS 64
// Bytes of 64 columns of 64 rows: a box of w, y or dx.
#define BOX 8192
#define GROUP_THREADS 128
// Barriers of the block, by number: one for each warpgroup behind 1, and one for their start.
#define BARRIER_GROUP 1
#define BARRIER_START 3

template <u32 COLUMNS, u32 STAGES, u32 CLUSTER, bool MASK>
struct Gradient {
    static constexpr u32 BOXES = COLUMNS / 64;
    static constexpr u32 DY_BYTES = ROWS * TERMS * 2, W_BYTES = BOXES * BOX, STAGE = DY_BYTES + W_BYTES;
    static constexpr u32 OUTPUT = BOXES * BOX; // of a warpgroup

    // Shared memory: the ring, tiles of output for each warpgroup, barriers.
    u32 ring, output, barriers;
    u32 rank, columns, steps, tiles, first, stride;

    __device__ __forceinline__ u32 full(u32 stage) const { return barriers + 8 * stage; }
    __device__ __forceinline__ u32 empty(u32 stage) const { return barriers + 8 * (STAGES + stage); }
    __device__ __forceinline__ u32 mask_full(u32 group) const { return barriers + 8 * (2 * STAGES + group); }
    __device__ __forceinline__ u32 mask_empty(u32 group) const { return barriers + 8 * (2 * STAGES + 2 + group); }

    // `rows`, `inputs` and `outputs` of the linear map.
    __device__ __forceinline__ Gradient(u32 shared, u32 rows, u32 inputs, u32 outputs) {
        ring = (shared + 1023) & ~1023u;
        output = ring + STAGES * STAGE;
        barriers = output + 2 * OUTPUT;
        rank = CLUSTER == 1 ? 0 : rank_in_cluster();
        columns = (inputs + COLUMNS - 1) / COLUMNS;
        steps = (outputs + TERMS - 1) / TERMS;
        tiles = (rows + ROWS * CLUSTER - 1) / (ROWS * CLUSTER) * columns;
        first = blockIdx.x / CLUSTER;
        stride = gridDim.x / CLUSTER;
    }

    __device__ __forceinline__ u32 first_row(u32 tile) const { return (tile / columns * CLUSTER + rank) * ROWS; }
    __device__ __forceinline__ u32 first_column(u32 tile) const { return tile % columns * COLUMNS; }

    __device__ __forceinline__ void init() const {
        for (u32 i = 0; i < STAGES; i++) {
            barrier_init(full(i), 1);
            // Each warp of all warpgroups that read what this block copies.
            barrier_init(empty(i), 8 * CLUSTER);
        }
        for (u32 i = 0; i < 2; i++) {
            barrier_init(mask_full(i), 1);
            // Each warp, which has added up columns, and the thread whose stores have read them.
            barrier_init(mask_empty(i), 5);
        }
        barrier_init_fence();
    }

    // Copies dy and w into the ring. One thread.
    __device__ __forceinline__ void produce(const TensorMap &dy, const TensorMap &w) const {
        Place<STAGES> at;
        prefetch_map(dy);
        prefetch_map(w);
        for (u32 tile = first; tile < tiles; tile += stride) {
            u32 row = first_row(tile), column = first_column(tile);
            for (u32 step = 0; step < steps; step++, at.advance()) {
                u32 to = ring + at.stage * STAGE, barrier = full(at.stage);
                barrier_wait(empty(at.stage), at.parity ^ 1);
                barrier_arrive_and_expect(barrier, STAGE);
                load_box(dy, to, barrier, step * TERMS, row);
                for (u32 i = 0; i < BOXES / CLUSTER; i++) {
                    u32 box = rank * (BOXES / CLUSTER) + i, to_box = to + DY_BYTES + box * BOX;
                    if (CLUSTER == 1) load_box(w, to_box, barrier, column + 64 * box, step * TERMS);
                    else load_box_for(w, to_box, barrier, column + 64 * box, step * TERMS, (1 << CLUSTER) - 1);
                }
            }
        }
    }

    // Copies y to where dx goes. One thread.
    __device__ __forceinline__ void produce_mask(const TensorMap &y) const {
        u32 parity = 0;
        for (u32 tile = first; tile < tiles; tile += stride, parity ^= 1) {
            for (u32 group = 0; group < 2; group++) {
                u32 barrier = mask_full(group), row = first_row(tile) + group * GROUP_ROWS;
                barrier_wait(mask_empty(group), parity ^ 1);
                barrier_arrive_and_expect(barrier, OUTPUT);
                for (u32 box = 0; box < BOXES; box++)
                    load_box(y, output + group * OUTPUT + box * BOX, barrier, first_column(tile) + 64 * box, row);
            }
        }
    }

    // Multiplies 64 rows of each tile, and stores them. `parts` may be null. One warpgroup.
    __device__ __forceinline__ void consume(u32 group, const TensorMap &dx, u32 rows, u32 inputs, float *parts) const {
        u32 thread = threadIdx.x % GROUP_THREADS, lane = thread % WARP;
        u32 buffer = output + group * OUTPUT, parity = 0;
        float d[COLUMNS / 2];
        Place<STAGES> at;
        if (group == 1 && first < tiles) group_sync(BARRIER_START, 2 * GROUP_THREADS);
        for (u32 tile = first; tile < tiles; tile += stride, parity ^= 1) {
            u32 before = 0;
            for (u32 step = 0; step < steps; step++) {
                u32 stage = ring + at.stage * STAGE;
                u64 a = operand(stage + group * GROUP_ROWS * 128, 16, 1024), b = operand(stage + DY_BYTES, BOX, 1024);
                barrier_wait(full(at.stage), at.parity);
                products_begin();
#pragma unroll
                for (u32 i = 0; i < TERMS / 16; i++)
                    // Sixteen terms further: 32 bytes in a row of dy, 16 rows of w.
                    Warpgroup<COLUMNS>::multiply(d, a + i * (32 >> 4), b + i * (2048 >> 4), i > 0 || step > 0);
                products_end();
                products_wait<1>();
                if (step > 0) release(before, lane);
                before = at.stage;
                at.advance();
                u32 second = steps > 1 ? 1 : 0;
                if (step == second && tile == first && group == 0) group_arrive(BARRIER_START, 2 * GROUP_THREADS);
                if (MASK && step == second && tile != first && thread == 0) {
                    stores_have_read();
                    barrier_arrive(mask_empty(group));
                }
            }
            products_wait<0>();
            products_are_done(d);
            release(before, lane);
            u32 row = first_row(tile) + group * GROUP_ROWS, column = first_column(tile);
            if (MASK) {
                barrier_wait(mask_full(group), parity);
            } else {
                if (thread == 0) stores_have_read();
                group_sync(BARRIER_GROUP + group, GROUP_THREADS);
            }
            write(d, buffer, thread);
            writes_for_copies();
            group_sync(BARRIER_GROUP + group, GROUP_THREADS);
            if (thread == 0) {
                for (u32 box = 0; box < BOXES; box++) store_box(dx, buffer + box * BOX, column + 64 * box, row);
                stores_end();
            }
            if (parts && row < rows) sum(buffer, thread, inputs, column, parts + (u64)(row / GROUP_ROWS) * inputs);
            if (MASK) {
                __syncwarp();
                if (lane == 0) barrier_arrive(mask_empty(group));
            } else if (parts) {
                // Nobody writes the tile before all have read it.
                group_sync(BARRIER_GROUP + group, GROUP_THREADS);
            }
        }
        if (thread == 0) stores_have_read();
    }

    // A warp is done with a stage, for all blocks that copied to it.
    __device__ __forceinline__ void release(u32 stage, u32 lane) const {
        if (CLUSTER == 1) {
            if (lane == 0) barrier_arrive(empty(stage));
        } else if (lane < CLUSTER) {
            barrier_arrive_at(empty(stage), lane);
        }
    }

    // Rounds the products, masks them by what is at their place in shared memory, and puts them there.
    __device__ __forceinline__ void write(const float (&d)[COLUMNS / 2], u32 buffer, u32 thread) const {
        u32 line = thread % WARP / 4, at = buffer + (thread / WARP * 16 + line) * 128 + thread % 4 * 4;
        // Words at a time: all are read before the first is written, so that reads wait for one another no more.
        const u32 words = 4 * 2 * BOXES;
#pragma unroll
        for (u32 first = 0; first < 8; first += 4) {
            u32 pairs[words];
#pragma unroll
            for (u32 i = 0; i < words; i++)
                if (MASK) pairs[i] = load_shared(place(at, line, first, i));
#pragma unroll
            for (u32 i = 0; i < words; i++) {
                u32 chunk = first + i / (2 * BOXES), box = i / 2 % BOXES, from = 4 * (box * 8 + chunk) + i % 2 * 2;
                u32 pair = pack_bf16(d[from], d[from + 1]);
                store_shared(place(at, line, first, i), MASK ? pair & above_zero(pairs[i]) : pair);
            }
        }
    }

    // Address of word i of a thread, whose first row begins at `at`: sixteen bytes of a row are where the swizzle puts them.
    __device__ static __forceinline__ u32 place(u32 at, u32 line, u32 first, u32 i) {
        u32 chunk = first + i / (2 * BOXES), box = i / 2 % BOXES, half = i % 2;
        return at + ((chunk ^ line) << 4) + box * BOX + half * 1024;
    }

    // Sums of two columns for each thread over the 64 rows: of every fourth row in order, then those four.
    __device__ __forceinline__ void sum(u32 buffer, u32 thread, u32 inputs, u32 column, float *parts) const {
        if (thread >= COLUMNS / 2) return;
        u32 pair = thread % 32, at = buffer + thread / 32 * BOX + pair % 4 * 4;
        float low[4] = {}, high[4] = {};
#pragma unroll
        for (u32 first = 0; first < GROUP_ROWS; first += 32) {
            u32 values[32];
#pragma unroll
            for (u32 i = 0; i < 32; i++) values[i] = load_shared(at + (first + i) * 128 + ((pair / 4 ^ i % 8) << 4));
#pragma unroll
            for (u32 i = 0; i < 32; i++) {
                low[i % 4] += __uint_as_float(values[i] << 16);
                high[i % 4] += __uint_as_float(values[i] & 0xffff0000u);
            }
        }
        column += 2 * thread;
        if (column < inputs) parts[column] = (low[0] + low[1]) + (low[2] + low[3]);
        if (column + 1 < inputs) parts[column + 1] = (high[0] + high[1]) + (high[2] + high[3]);
    }
};

// Blocks of three warpgroups: copies, then products.
template <u32 COLUMNS, u32 STAGES, u32 CLUSTER, bool MASK>
__device__ __forceinline__ void input_gradient(const TensorMap &dy, const TensorMap &w, const TensorMap &y, const TensorMap &dx,
                                               u32 rows, u32 inputs, u32 outputs, float *parts) {
    extern __shared__ char shared[];
    Gradient<COLUMNS, STAGES, CLUSTER, MASK> gradient(shared_address(shared), rows, inputs, outputs);
    if (threadIdx.x == 0) gradient.init();
    if (CLUSTER == 1) __syncthreads();
    else cluster_sync();
    u32 group = threadIdx.x / GROUP_THREADS;
    if (group == 0) {
        fewer_registers<40>();
        if (threadIdx.x == 0) gradient.produce(dy, w);
        else if (MASK && threadIdx.x == WARP) gradient.produce_mask(y);
    } else {
        more_registers<232>();
        gradient.consume(group - 1, dx, rows, inputs, parts);
    }
    // Blocks still arrive at barriers of the others.
    if (CLUSTER > 1) cluster_sync();
}

#define INPUT_GRADIENT(name, columns, stages, cluster, mask)                                                                \
    extern "C" __global__ void __launch_bounds__(3 * GROUP_THREADS, 1) __cluster_dims__(cluster, 1, 1)                      \
        name(const __grid_constant__ TensorMap dy, const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap y, \
             const __grid_constant__ TensorMap dx, u32 rows, u32 inputs, u32 outputs, float *parts) {                      \
        input_gradient<columns, stages, cluster, mask>(dy, w, y, dx, rows, inputs, outputs, parts);                         \
    }
INPUT_GRADIENT(input_gradient_256, 256, 3, 1, false)
INPUT_GRADIENT(input_gradient_256_masked, 256, 3, 1, true)
INPUT_GRADIENT(input_gradient_128, 128, 5, 1, false)
INPUT_GRADIENT(input_gradient_128_masked, 128, 5, 1, true)
