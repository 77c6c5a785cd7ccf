// Products of cross layers in bf16, on Hopper's tensor cores, with what surrounds them: values are read once, while the
// tensor cores multiply, and the product itself is written only where something else needs it. Products are in f32 and rounded to bf16;
// every other operation is rounded by itself, in the order of reference/interaction.rs.
//
// A block takes tiles of 128 rows and COLUMNS columns in turn. A thread copies tiles of the product's operands into a ring in shared
// memory, and two warpgroups multiply 64 rows each. What a warpgroup's rows meet besides comes in pieces of 64 columns, two matrices at a
// time, into slots of its own: a thread copies coming pieces to slots that are free, the warpgroup puts what it computes where it has read,
// and that thread stores it and then has the slot for a later piece. So pieces of the next tile are on their way while this one is
// multiplied. The second warpgroup starts a step behind the first, so that one multiplies while the other writes.

#define ROWS 128
#define GROUP_ROWS 64
#define TERMS 64
// Bytes of 64 columns of 64 rows of bf16.
#define BOX 8192
#define SLOT (2 * BOX)
#define GROUP_THREADS 128
// Words of bf16 that a thread has of a box.
#define WORDS 16
// Barriers of the block, by number: one for each warpgroup behind 1, and one for their start.
#define BARRIER_GROUP 1
#define BARRIER_START 3
#define MOST_LAYERS 4

// What is computed of the product p, and the two halves of a slot before and after:
enum Kind {
    FORWARD,  // x0, x: z = p + b, x0 * z + x
    BACKWARD, // g, x0: dx = p + g, dx * x0
    LAST,     // g, z of each layer: the first 32 columns of the sum of g * z + (p + the last g) in floats, and its last 32
};

// Where pieces come from and go to; where layers are added up, one of the first two for each.
struct Pieces {
    const TensorMap *first, *second, *to_first, *to_second;
    u32 layers;
};

// What else a warpgroup needs.
struct Whole {
    u32 rows, width, layers;
    const u32 *bias; // pairs of bf16, or null
    float *parts;    // or null
};

__device__ __forceinline__ float low_of(u32 pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_of(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }
__device__ __forceinline__ float product_and(float a, float b, float c) { return __fadd_rn(__fmul_rn(a, b), c); }

template <Kind KIND, u32 COLUMNS, u32 STAGES, u32 SLOTS>
struct CrossProduct {
    // Whether rows of the second operand run along the sum.
    static constexpr bool ALONG = KIND == FORWARD;
    static constexpr bool LAYERS = KIND == LAST, SUMS = KIND == BACKWARD;
    static constexpr u32 BOXES = COLUMNS / 64;
    static constexpr u32 LEFT = ROWS * TERMS * 2, RIGHT = BOXES * BOX, STAGE = LEFT + RIGHT;

    // Shared memory: the ring, slots of each warpgroup, sums of columns by warps of each warpgroup, barriers.
    u32 ring, slots, sums, barriers;
    u32 columns, steps, tiles, first, stride;

    __device__ __forceinline__ u32 full(u32 stage) const { return barriers + 8 * stage; }
    __device__ __forceinline__ u32 empty(u32 stage) const { return barriers + 8 * (STAGES + stage); }
    __device__ __forceinline__ u32 slot(u32 group, u32 i) const { return slots + (group * SLOTS + i) * SLOT; }
    __device__ __forceinline__ u32 loaded(u32 group, u32 i) const { return barriers + 8 * (2 * STAGES + group * SLOTS + i); }
    __device__ __forceinline__ u32 done(u32 group, u32 i) const { return barriers + 8 * (2 * STAGES + (2 + group) * SLOTS + i); }

    // Rows and columns of the result, and terms of each sum.
    __device__ __forceinline__ CrossProduct(u32 shared, u32 rows, u32 width, u32 terms) {
        ring = (shared + 1023) & ~1023u;
        slots = ring + STAGES * STAGE;
        sums = slots + 2 * SLOTS * SLOT;
        barriers = sums + (SUMS ? 2 * 4 * COLUMNS * 4 : 0);
        columns = (width + COLUMNS - 1) / COLUMNS;
        steps = (terms + TERMS - 1) / TERMS;
        tiles = (rows + ROWS - 1) / ROWS * columns;
        first = blockIdx.x;
        stride = gridDim.x;
    }

    __device__ __forceinline__ u32 first_row(u32 tile) const { return tile / columns * ROWS; }
    __device__ __forceinline__ u32 first_column(u32 tile) const { return tile % columns * COLUMNS; }

    __device__ __forceinline__ void init() const {
        for (u32 i = 0; i < STAGES; i++) {
            barrier_init(full(i), 1);
            // Each warp of both warpgroups.
            barrier_init(empty(i), 8);
        }
        for (u32 i = 0; i < 2 * SLOTS; i++) {
            barrier_init(loaded(0, i), 1);
            // Each warp of the warpgroup.
            barrier_init(done(0, i), 4);
        }
        barrier_init_fence();
    }

    // Copies the product's operands into the ring. One thread.
    __device__ __forceinline__ void produce(const TensorMap &left, const TensorMap &right) const {
        Place<STAGES> at;
        prefetch_map(left);
        prefetch_map(right);
        for (u32 tile = first; tile < tiles; tile += stride) {
            u32 row = first_row(tile), column = first_column(tile);
            for (u32 step = 0; step < steps; step++, at.advance()) {
                u32 to = ring + at.stage * STAGE, barrier = full(at.stage), term = step * TERMS;
                barrier_wait(empty(at.stage), at.parity ^ 1);
                barrier_arrive_and_expect(barrier, STAGE);
                load_box(left, to, barrier, term, row);
                to += LEFT;
                if (ALONG) load_box(right, to, barrier, term, column);
                else
                    for (u32 box = 0; box < BOXES; box++) load_box(right, to + box * BOX, barrier, column + 64 * box, term);
            }
        }
    }

    // One of the pieces of a warpgroup, in order.
    struct Piece {
        u32 tile, box = 0, layer = 0;

        __device__ __forceinline__ Piece(u32 tile) : tile(tile) {}

        __device__ __forceinline__ void advance(u32 layers, u32 stride) {
            if (LAYERS && ++layer < layers) return;
            layer = 0;
            if (++box == BOXES) box = 0, tile += stride;
        }
    };

    // Loads pieces to slots of a warpgroup, and stores what it made of them. One thread.
    __device__ __forceinline__ void serve(u32 group, const Pieces &of) const {
        Place<SLOTS> at;
        Piece load(first), store(first);
        // Nothing is in the slots at first.
        for (u32 i = 0; store.tile < tiles; i++, at.advance()) {
            u32 box = slot(group, at.stage);
            if (i >= SLOTS) {
                barrier_wait(done(group, at.stage), at.parity ^ 1);
                if (!LAYERS || store.layer + 1 == of.layers) {
                    u32 row = first_row(store.tile) + group * GROUP_ROWS, column = first_column(store.tile) + 64 * store.box;
                    store_box(*of.to_first, box, column, row);
                    store_box(*of.to_second, box + BOX, column + (LAYERS ? 32 : 0), row);
                    stores_end();
                    stores_have_read();
                }
                store.advance(of.layers, stride);
            }
            if (load.tile < tiles) {
                u32 row = first_row(load.tile) + group * GROUP_ROWS, column = first_column(load.tile) + 64 * load.box;
                u32 barrier = loaded(group, at.stage);
                barrier_arrive_and_expect(barrier, SLOT);
                load_box(of.first[load.layer], box, barrier, column, row);
                load_box(of.second[load.layer], box + BOX, barrier, column, row);
                load.advance(of.layers, stride);
            }
        }
    }

    // Multiplies 64 rows of each tile, and computes what is made of them. One warpgroup.
    __device__ __forceinline__ void consume(u32 group, const Whole &of) const {
        u32 thread = threadIdx.x % GROUP_THREADS, lane = thread % WARP;
        float d[COLUMNS / 2];
        Place<STAGES> at;
        Place<SLOTS> piece;
        if (group == 1 && first < tiles) group_sync(BARRIER_START, 2 * GROUP_THREADS);
        for (u32 tile = first; tile < tiles; tile += stride) {
            u32 before = 0;
            for (u32 step = 0; step < steps; step++) {
                u32 stage = ring + at.stage * STAGE;
                u64 a = operand(stage + group * GROUP_ROWS * 128, 16, 1024), b = operand(stage + LEFT, ALONG ? 16 : BOX, 1024);
                barrier_wait(full(at.stage), at.parity);
                products_begin();
#pragma unroll
                for (u32 i = 0; i < TERMS / 16; i++)
                    // Sixteen terms further: 32 bytes in a row along the sum, 16 rows across it.
                    Warpgroup<COLUMNS, ALONG>::multiply(d, a + i * (32 >> 4), b + i * ((ALONG ? 32 : 2048) >> 4), i > 0 || step > 0);
                products_end();
                products_wait<1>();
                if (step > 0) release(before, lane);
                before = at.stage;
                at.advance();
                if (step == (steps > 1 ? 1 : 0) && tile == first && group == 0) group_arrive(BARRIER_START, 2 * GROUP_THREADS);
            }
            u32 row = first_row(tile) + group * GROUP_ROWS, column = first_column(tile);
            u32 bias[COLUMNS / 8];
            if (KIND == FORWARD) load_bias(bias, column, lane, of);
            products_wait<0>();
            products_are_done(d);
            release(before, lane);
#pragma unroll
            for (u32 box = 0; box < BOXES; box++) {
                if (LAYERS) add_layers(d, box, group, thread, of.layers, piece);
                else surround(d, bias, box, group, thread, of.parts, piece);
            }
            if (SUMS && of.parts) {
                group_sync(BARRIER_GROUP + group, GROUP_THREADS);
                if (row < of.rows) add_warps(group, thread, of.width, column, of.parts + (u64)(row / GROUP_ROWS) * of.width);
                // Nobody writes sums before all have read them.
                group_sync(BARRIER_GROUP + group, GROUP_THREADS);
            }
        }
    }

    // A warp is done with a stage.
    __device__ __forceinline__ void release(u32 stage, u32 lane) const {
        if (lane == 0) barrier_arrive(empty(stage));
    }

    // A warp is done with a slot.
    __device__ __forceinline__ void release_slot(u32 group, u32 i, u32 lane) const {
        writes_for_copies();
        __syncwarp();
        if (lane == 0) barrier_arrive(done(group, i));
    }

    // Loads what is added to the columns of a thread: a pair for every eight columns of the tile.
    __device__ static __forceinline__ void load_bias(u32 (&bias)[COLUMNS / 8], u32 column, u32 lane, const Whole &of) {
#pragma unroll
        for (u32 i = 0; i < COLUMNS / 8; i++) {
            u32 at = column + 8 * i;
            bias[i] = of.bias && at < of.width ? __ldg(of.bias + at / 2 + lane % 4) : 0;
        }
    }

    // Words of a box as products have them: word i of a thread is of chunk i/2, of 16 bytes, and line i%2 * 8 + lane/4 of the warp's 16.
    __device__ static __forceinline__ u32 place(u32 box, u32 thread, u32 i) {
        u32 lane = thread % WARP, line = lane % 8;
        return box + thread / WARP * 2048 + lane / 8 % 2 * 1024 + line * 128 + ((i / 2 + lane / 16 ^ line) << 4);
    }

    __device__ static __forceinline__ void load_words(u32 (&words)[WORDS], u32 box, u32 thread) {
#pragma unroll
        for (u32 i = 0; i < WORDS; i += 4) load_squares(words, i, place(box, thread, i));
    }

    __device__ static __forceinline__ void store_words(const u32 (&words)[WORDS], u32 box, u32 thread) {
#pragma unroll
        for (u32 i = 0; i < WORDS; i += 4) store_squares(words, i, place(box, thread, i));
    }

    // Computes a piece of the tile.
    __device__ __forceinline__ void surround(const float (&d)[COLUMNS / 2], const u32 (&bias)[COLUMNS / 8], u32 box, u32 group,
                                             u32 thread, const float *parts, Place<SLOTS> &piece) const {
        u32 at = slot(group, piece.stage), one[WORDS], two[WORDS];
        barrier_wait(loaded(group, piece.stage), piece.parity);
        load_words(one, at, thread);
        load_words(two, at + BOX, thread);
#pragma unroll
        for (u32 i = 0; i < WORDS; i++) {
            float low = d[32 * box + 2 * i], high = d[32 * box + 2 * i + 1];
            if (KIND == FORWARD) {
                u32 b = bias[8 * box + i / 2], x0 = one[i];
                u32 z = pack_bf16(__fadd_rn(low, low_of(b)), __fadd_rn(high, high_of(b)));
                one[i] = z;
                two[i] = pack_bf16(product_and(low_of(x0), low_of(z), low_of(two[i])),
                                   product_and(high_of(x0), high_of(z), high_of(two[i])));
            } else {
                low = __fadd_rn(low, low_of(one[i])), high = __fadd_rn(high, high_of(one[i]));
                one[i] = pack_bf16(low, high);
                two[i] = pack_bf16(__fmul_rn(low_of(one[i]), low_of(two[i])), __fmul_rn(high_of(one[i]), high_of(two[i])));
            }
        }
        store_words(one, at, thread);
        store_words(two, at + BOX, thread);
        release_slot(group, piece.stage, thread % WARP);
        piece.advance();
        if (SUMS && parts) sum(two, box, group, thread);
    }

    // Computes a piece of the tile from those of all layers.
    __device__ __forceinline__ void add_layers(const float (&d)[COLUMNS / 2], u32 box, u32 group, u32 thread, u32 layers,
                                               Place<SLOTS> &piece) const {
        float total[2 * WORDS] = {};
#pragma unroll 1
        for (u32 layer = 0; layer < layers; layer++, piece.advance()) {
            u32 at = slot(group, piece.stage), g[WORDS], z[WORDS];
            barrier_wait(loaded(group, piece.stage), piece.parity);
            load_words(g, at, thread);
            load_words(z, at + BOX, thread);
#pragma unroll
            for (u32 i = 0; i < WORDS; i++) {
                total[2 * i] = product_and(low_of(g[i]), low_of(z[i]), total[2 * i]);
                total[2 * i + 1] = product_and(high_of(g[i]), high_of(z[i]), total[2 * i + 1]);
            }
            if (layer + 1 == layers) {
#pragma unroll
                for (u32 i = 0; i < WORDS; i++) {
                    float low = d[32 * box + 2 * i], high = d[32 * box + 2 * i + 1];
                    u32 dx = pack_bf16(__fadd_rn(low, low_of(g[i])), __fadd_rn(high, high_of(g[i])));
                    total[2 * i] = __fadd_rn(total[2 * i], low_of(dx));
                    total[2 * i + 1] = __fadd_rn(total[2 * i + 1], high_of(dx));
                }
                write(total, at, thread);
            }
            release_slot(group, piece.stage, thread % WARP);
        }
    }

    // Writes a piece of floats, which go over two boxes: over what other threads of the warp have read by now.
    __device__ static __forceinline__ void write(const float (&total)[2 * WORDS], u32 at, u32 thread) {
        __syncwarp();
        u32 lane = thread % WARP, line = lane / 4, to = at + (thread / WARP * 16 + line) * 128 + lane % 2 * 8;
#pragma unroll
        for (u32 i = 0; i < WORDS; i++) {
            u32 chunk = 2 * (i / 2 % 4) + lane % 4 / 2;
            store_shared_pair(to + i / 8 * BOX + i % 2 * 1024 + ((chunk ^ line) << 4), total[2 * i], total[2 * i + 1]);
        }
    }

    // Where a warp's sums of the columns of the tile begin.
    __device__ __forceinline__ u32 sums_of(u32 group, u32 warp) const { return sums + (group * 4 + warp) * COLUMNS * 4; }

    // Sums of the columns of a piece over the 16 rows of a warp: each half of the threads that have the same columns hands half of those
    // to the other, three times. Thread t ends with columns 2*t and 2*t + 1.
    __device__ __forceinline__ void sum(const u32 (&words)[WORDS], u32 box, u32 group, u32 thread) const {
        u32 lane = thread % WARP;
        float of[WORDS];
#pragma unroll
        for (u32 i = 0; i < WORDS; i += 2) {
            of[i] = low_of(words[i]) + low_of(words[i + 1]);
            of[i + 1] = high_of(words[i]) + high_of(words[i + 1]);
        }
        exchange<8>(of, lane);
        exchange<4>(of, lane);
        exchange<2>(of, lane);
        store_shared_pair(sums_of(group, thread / WARP) + (64 * box + 2 * lane) * 4, of[0], of[1]);
    }

    // Threads whose numbers differ by 2 * HALF hand one another half of their sums.
    template <u32 HALF>
    __device__ static __forceinline__ void exchange(float (&of)[WORDS], u32 lane) {
        bool upper = lane & 2 * HALF;
#pragma unroll
        for (u32 i = 0; i < HALF; i++) {
            float mine = upper ? of[i + HALF] : of[i], other = upper ? of[i] : of[i + HALF];
            of[i] = mine + __shfl_xor_sync(FULL, other, 2 * HALF);
        }
    }

    // Adds up what the four warps have of each column.
    __device__ __forceinline__ void add_warps(u32 group, u32 thread, u32 width, u32 column, float *parts) const {
        for (u32 i = thread; i < COLUMNS && column + i < width; i += GROUP_THREADS) {
            float of[4];
#pragma unroll
            for (u32 warp = 0; warp < 4; warp++) of[warp] = __uint_as_float(load_shared(sums_of(group, warp) + i * 4));
            parts[column + i] = (of[0] + of[1]) + (of[2] + of[3]);
        }
    }
};

// Blocks of three warpgroups: copies, then products.
template <Kind KIND, u32 COLUMNS, u32 STAGES, u32 SLOTS>
__device__ __forceinline__ void cross_product(const TensorMap &left, const TensorMap &right, const Pieces &pieces, const Whole &whole,
                                              u32 terms) {
    extern __shared__ char shared[];
    CrossProduct<KIND, COLUMNS, STAGES, SLOTS> product(shared_address(shared), whole.rows, whole.width, terms);
    if (threadIdx.x == 0) product.init();
    __syncthreads();
    u32 group = threadIdx.x / GROUP_THREADS;
    if (group == 0) {
        fewer_registers<40>();
        if (threadIdx.x == 0) product.produce(left, right);
        else if (threadIdx.x == WARP) product.serve(0, pieces);
        else if (threadIdx.x == 2 * WARP) product.serve(1, pieces);
    } else {
        more_registers<232>();
        product.consume(group - 1, whole);
    }
}

// The tile, the stages of the ring and the slots of a warpgroup that were fastest for all: cuda/cross_product.rs has the same.
#define SHAPE 192, 3, 3
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(3 * GROUP_THREADS, 1) __cluster_dims__(1, 1, 1) name
#define MAP const __grid_constant__ TensorMap

// z = h*wᵀ + b, out = x0 * z + x. `b` may be null.
KERNEL(cross_product_forward)(MAP h, MAP w, MAP x0, MAP x, MAP z, MAP out, u32 rows, u32 width, u32 rank, const u32 *b) {
    cross_product<FORWARD, SHAPE>(h, w, {&x0, &x, &z, &out, 1}, {rows, width, 1, b, 0}, rank);
}

// dx = dh*v + g, dz = dx * x0, and sums of the columns of dz over each 64 rows, unless `parts` is null.
KERNEL(cross_product_backward)(MAP dh, MAP v, MAP g, MAP x0, MAP dx, MAP dz, u32 rows, u32 width, u32 rank, float *parts) {
    cross_product<BACKWARD, SHAPE>(dh, v, {&g, &x0, &dx, &dz, 1}, {rows, width, 1, 0, parts}, rank);
}

// dx0 = sum of g * z over `count` layers in the order given, plus dx = dh*v + g of the last of them.
struct Layers {
    TensorMap g[MOST_LAYERS], z[MOST_LAYERS];
};
KERNEL(cross_product_last)
(MAP dh, MAP v, const __grid_constant__ Layers layers, MAP dx0, u32 rows, u32 width, u32 rank, u32 count) {
    cross_product<LAST, SHAPE>(dh, v, {layers.g, layers.z, &dx0, &dx0, count}, {rows, width, count, 0, 0}, rank);
}
