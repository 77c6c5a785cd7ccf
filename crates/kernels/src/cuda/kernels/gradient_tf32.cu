// Gradients of the inputs of a linear map in tf32, on Hopper's tensor cores: dx = dy*w, in f32; 0 where the layer below, whose output is
// y, had none of its ReLU; and sums of the columns of dx, which are gradients of that layer's bias, 64 rows at a time. The twin of
// gradient.cu for floats.
//
// The copy engine rounds operands to tf32 on their way. Tensor cores take 32-bit operands along the sum alone, so w comes turned: wt has a
// row for each input, along the outputs.
//
// A block takes tiles of 128 rows and COLUMNS columns in turn. A thread copies tiles of dy and wt into a ring in shared memory, and two
// warpgroups multiply 64 rows each. The second starts a step behind the first, so that one multiplies while the other writes.
//
// The ring takes all of the shared memory, so y and dx do not go through it: dx is written from registers, and of y only a bit for each
// element is kept, in registers too.

#define ROWS 128
#define GROUP_ROWS 64
#define WARP_ROWS 16
// Terms of a step: 128 bytes of a row.
#define TERMS 32
#define GROUP_THREADS 128
// Barriers of the block, by number: one for each warpgroup behind 1, and one for their start.
#define BARRIER_GROUP 1
#define BARRIER_START 3

// Four floats that nobody reads again, or zeros.
__device__ __forceinline__ float4 load_once(const float *at, bool is) {
    float4 four;
    asm volatile("{\n.reg .pred is;\nsetp.ne.u32 is, %5, 0;\nmov.f32 %0, 0f00000000;\nmov.f32 %1, 0f00000000;\n"
                 "mov.f32 %2, 0f00000000;\nmov.f32 %3, 0f00000000;\n"
                 "@is ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
                 : "=&f"(four.x), "=&f"(four.y), "=&f"(four.z), "=&f"(four.w)
                 : "l"(at), "r"((u32)is));
    return four;
}

template <u32 COLUMNS, u32 STAGES>
struct Gradient {
    static constexpr u32 DY_BYTES = ROWS * TERMS * 4, W_BYTES = COLUMNS * TERMS * 4, STAGE = DY_BYTES + W_BYTES;
    // Sums of the columns of each warp of a warpgroup.
    static constexpr u32 SUM_BYTES = 4 * COLUMNS * 4;
    // A warp loads y in so many parts of its rows, 128 columns with one instruction.
    static constexpr u32 PARTS = 4, PART_ROWS = WARP_ROWS / PARTS, PIECES = (COLUMNS + 127) / 128;
    // Of a thread's two rows, words with a bit for each fourth column, for even and odd columns.
    typedef u32 Bits[2][PIECES][2];
    typedef float Products[COLUMNS / 2];

    // Shared memory: the ring, two places for sums of each warpgroup, barriers.
    u32 ring, sums, barriers;
    u32 columns, steps, tiles, first, stride;
    u32 rows, inputs;

    __device__ __forceinline__ u32 full(u32 stage) const { return barriers + 8 * stage; }
    __device__ __forceinline__ u32 empty(u32 stage) const { return barriers + 8 * (STAGES + stage); }

    // `rows`, `inputs` and `outputs` of the linear map.
    __device__ __forceinline__ Gradient(u32 shared, u32 rows, u32 inputs, u32 outputs) : rows(rows), inputs(inputs) {
        ring = (shared + 1023) & ~1023u;
        sums = ring + STAGES * STAGE;
        barriers = sums + 4 * SUM_BYTES;
        columns = (inputs + COLUMNS - 1) / COLUMNS;
        steps = (outputs + TERMS - 1) / TERMS;
        tiles = (rows + ROWS - 1) / ROWS * columns;
        first = blockIdx.x;
        stride = gridDim.x;
    }

    __device__ __forceinline__ u32 first_row(u32 tile) const { return tile / columns * ROWS; }
    __device__ __forceinline__ u32 first_column(u32 tile) const { return tile % columns * COLUMNS; }

    __device__ __forceinline__ void init() const {
        for (u32 i = 0; i < STAGES; i++) {
            barrier_init(full(i), 1);
            // Each warp that reads a stage.
            barrier_init(empty(i), 8);
        }
        barrier_init_fence();
    }

    // Copies dy and wt into the ring. One thread.
    __device__ __forceinline__ void produce(const TensorMap &dy, const TensorMap &wt) const {
        Place<STAGES> at;
        prefetch_map(dy);
        prefetch_map(wt);
        for (u32 tile = first; tile < tiles; tile += stride) {
            u32 row = first_row(tile), column = first_column(tile);
            for (u32 step = 0; step < steps; step++, at.advance()) {
                u32 to = ring + at.stage * STAGE, barrier = full(at.stage);
                barrier_wait(empty(at.stage), at.parity ^ 1);
                barrier_arrive_and_expect(barrier, STAGE);
                load_box(dy, to, barrier, step * TERMS, row);
                load_box(wt, to + DY_BYTES, barrier, step * TERMS, column);
            }
        }
    }

    // Multiplies 64 rows of each tile, and stores them. `parts` may be null. One warpgroup.
    __device__ __forceinline__ void consume(u32 group, const float *y, u32 y_stride, float *dx, u32 dx_stride, float *parts) const {
        u32 thread = threadIdx.x % GROUP_THREADS, lane = thread % WARP, warp = thread / WARP;
        u32 parity = 0, position = 0, second = 1 < steps ? 1 : steps - 1;
        if (group == 1 && first < tiles) group_sync(BARRIER_START, 2 * GROUP_THREADS);
        for (u32 tile = first; tile < tiles; tile += stride) {
            u32 row = first_row(tile) + group * GROUP_ROWS, column = first_column(tile), warp_row = row + warp * WARP_ROWS;
            u32 before = 0, step = 0;
            // Zeros, rather than a first product that does not add: masking changes these registers, and what they held must not
            // seem to reach the next tile's products, or the compiler would move all of them.
            Products d = {};
            Bits bits = {};
            // One loop for all parts: as a loop for each of them, products would not be under way at the same time.
#pragma unroll 1
            for (u32 part = 0; part < PARTS; part++) {
                // Under way during a quarter of the products.
                float4 values[PART_ROWS * PIECES];
                load_mask(values, y, y_stride, warp_row + part * PART_ROWS, column, lane);
                u32 end = steps * (part + 1) / PARTS;
                for (; step < end; step++) {
                    u32 stage = position % STAGES, at = ring + stage * STAGE;
                    u64 a = operand(at + group * GROUP_ROWS * 128, 16, 1024), b = operand(at + DY_BYTES, 16, 1024);
                    barrier_wait(full(stage), position / STAGES & 1);
                    products_begin();
#pragma unroll
                    for (u32 i = 0; i < TERMS / 8; i++)
                        // Eight terms further: 32 bytes in a row.
                        WarpgroupTf32<COLUMNS>::multiply(d, a + i * (32 >> 4), b + i * (32 >> 4), 1);
                    products_end();
                    products_wait<1>();
                    if (step > 0) release(before, lane);
                    before = stage;
                    position++;
                    if (step == second && tile == first && group == 0) group_arrive(BARRIER_START, 2 * GROUP_THREADS);
                }
                keep_mask(bits, values, part * PART_ROWS, lane);
            }
            products_wait<0>();
            products_are_done(d);
            release(before, lane);
            mask(d, bits, lane);
            store(d, dx, dx_stride, warp_row, column, lane);
            if (parts && row < rows) {
                sum(d, sums + (group * 2 + parity) * SUM_BYTES, group, column, parts + (u64)(row / GROUP_ROWS) * inputs);
                parity ^= 1;
            }
        }
    }

    // A warp is done with a stage.
    __device__ __forceinline__ void release(u32 stage, u32 lane) const {
        if (lane == 0) barrier_arrive(empty(stage));
    }

    // Loads a part of a warp's rows of y; what lies outside is 0. Threads have four neighbouring columns each.
    __device__ __forceinline__ void load_mask(float4 (&values)[PART_ROWS * PIECES], const float *y, u32 y_stride, u32 row, u32 column,
                                              u32 lane) const {
        column += 4 * lane;
#pragma unroll
        for (u32 i = 0; i < PART_ROWS; i++)
#pragma unroll
            for (u32 piece = 0; piece < PIECES; piece++)
                values[i * PIECES + piece] = load_once(y + (u64)(row + i) * y_stride + column + piece * 128,
                                                       row + i < rows && column + piece * 128 < inputs);
    }

    // Bits that are set where y is above 0 or not a number, as ReLU lets gradients through, from the threads that loaded y to those that
    // have the products. Bit l of a vote is of column 4*l and the vote's number; products of a thread are in columns 8*j + 2*(t%4) and
    // the next, so two of four votes are its own. `first` is the first of the rows among those of the warp.
    __device__ static __forceinline__ void keep_mask(Bits &bits, const float4 (&values)[PART_ROWS * PIECES], u32 first, u32 lane) {
#pragma unroll
        for (u32 i = 0; i < PART_ROWS; i++)
#pragma unroll
            for (u32 piece = 0; piece < PIECES; piece++) {
                float4 four = values[i * PIECES + piece];
                u32 x = __ballot_sync(FULL, !(four.x <= 0.0f)), y = __ballot_sync(FULL, !(four.y <= 0.0f));
                u32 z = __ballot_sync(FULL, !(four.z <= 0.0f)), w = __ballot_sync(FULL, !(four.w <= 0.0f));
                u32 even = lane % 2 ? z : x, odd = lane % 2 ? w : y;
#pragma unroll
                for (u32 h = 0; h < 2; h++) {
                    bool own = lane / 4 + 8 * h == first + i;
                    bits[h][piece][0] = own ? even : bits[h][piece][0];
                    bits[h][piece][1] = own ? odd : bits[h][piece][1];
                }
            }
    }

    __device__ static __forceinline__ void mask(Products &d, const Bits &bits, u32 lane) {
#pragma unroll
        for (u32 i = 0; i < COLUMNS / 2; i++) {
            u32 j = i / 4, word = bits[i / 2 % 2][j / 16][i % 2] >> (lane / 2 % 2);
            d[i] = word & 1u << 2 * (j % 16) ? d[i] : 0.0f;
        }
    }

    // Writes a warp's rows. Neighbouring threads exchange pairs first: each then has four columns side by side, and a row gets 64 bytes.
    __device__ __forceinline__ void store(const Products &d, float *dx, u32 dx_stride, u32 row, u32 column, u32 lane) const {
        bool odd = lane % 2;
        row += lane / 4;
        column += lane % 4 / 2 * 4 + (odd ? 8 : 0);
        float *to = dx + (u64)row * dx_stride + column;
#pragma unroll
        for (u32 h = 0; h < 2; h++) {
            bool is = row + 8 * h < rows;
#pragma unroll
            for (u32 j = 0; j < COLUMNS / 8; j += 2) {
                const float *a = d + 4 * j + 2 * h, *b = a + 4;
                float first = __shfl_xor_sync(FULL, odd ? a[0] : b[0], 1), second = __shfl_xor_sync(FULL, odd ? a[1] : b[1], 1);
                float4 four = make_float4(odd ? first : a[0], odd ? second : a[1], odd ? b[0] : first, odd ? b[1] : second);
                if (is && column + 8 * j < inputs) *(float4 *)(to + (u64)(8 * h) * dx_stride + 8 * j) = four;
            }
        }
    }

    // Sums of the columns over the 64 rows of a warpgroup: of the two rows of a thread, of the eight threads that have the same columns,
    // then of the warps. `room` is not the one of the sum before, whose readers may not be done.
    __device__ __forceinline__ void sum(const Products &d, u32 room, u32 group, u32 column, float *parts) const {
        u32 thread = threadIdx.x % GROUP_THREADS;
        sum_of_warp(d, room + thread / WARP * COLUMNS * 4, thread % WARP);
        group_sync(BARRIER_GROUP + group, GROUP_THREADS);
        if (thread < COLUMNS / 2 && column + 2 * thread < inputs) {
            float low[4], high[4];
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                u32 first, second;
                load_shared_pair(room + i * COLUMNS * 4 + thread * 8, first, second);
                low[i] = __uint_as_float(first);
                high[i] = __uint_as_float(second);
            }
            *(float2 *)(parts + column + 2 * thread) =
                make_float2((low[0] + low[1]) + (low[2] + low[3]), (high[0] + high[1]) + (high[2] + high[3]));
        }
    }

    // Eight threads that have the same columns halve them three times: each gives one half to another thread and adds up the other.
    __device__ static __forceinline__ void sum_of_warp(const Products &d, u32 to, u32 lane) {
        float columns[COLUMNS / 4];
#pragma unroll
        for (u32 i = 0; i < COLUMNS / 4; i++) columns[i] = d[4 * (i / 2) + i % 2] + d[4 * (i / 2) + 2 + i % 2];
        halve<COLUMNS / 8>(columns, lane & 16, 16);
        halve<COLUMNS / 16>(columns, lane & 8, 8);
        halve<COLUMNS / 32>(columns, lane & 4, 4);
        to += (COLUMNS / 64 * 8 * (lane / 4) + 2 * (lane % 4)) * 4;
#pragma unroll
        for (u32 i = 0; i < COLUMNS / 64; i++) store_shared_pair(to + i * 32, columns[2 * i], columns[2 * i + 1]);
    }

    template <u32 LEFT>
    __device__ static __forceinline__ void halve(float (&columns)[COLUMNS / 4], bool upper, u32 distance) {
#pragma unroll
        for (u32 i = 0; i < LEFT; i++) {
            float kept = upper ? columns[i + LEFT] : columns[i], given = upper ? columns[i] : columns[i + LEFT];
            columns[i] = kept + __shfl_xor_sync(FULL, given, distance);
        }
    }
};

// Blocks of three warpgroups: copies, then products.
extern "C" __global__ void __launch_bounds__(3 * GROUP_THREADS, 1) __cluster_dims__(1, 1, 1)
    input_gradient_tf32(const __grid_constant__ TensorMap dy, const __grid_constant__ TensorMap wt, const float *y, u32 y_stride, float *dx,
                        u32 dx_stride, u32 rows, u32 inputs, u32 outputs, float *parts) {
    extern __shared__ char shared[];
    Gradient<256, 4> gradient(shared_address(shared), rows, inputs, outputs);
    if (threadIdx.x == 0) gradient.init();
    __syncthreads();
    u32 group = threadIdx.x / GROUP_THREADS;
    if (group == 0) {
        fewer_registers<40>();
        if (threadIdx.x == 0) gradient.produce(dy, wt);
    } else {
        more_registers<232>();
        gradient.consume(group - 1, y, y_stride, dx, dx_stride, parts);
    }
}
