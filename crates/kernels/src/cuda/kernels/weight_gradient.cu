// Gradients of the weights of a linear map in tf32, on Hopper's tensor cores: dw = dyᵀ*x, in f32. The copy
// engine rounds operands to tf32 on their way.
//
// The sum goes over the rows of both operands, and tensor cores take 32-bit operands along the sum alone. So the tile of dy, whose
// columns are the rows of the product, goes through registers, where any order can be had, and a warpgroup turns the tile of x on its
// way from one place in shared memory to another.
//
// A block takes tiles of 256 outputs and 128 inputs, over a share of the rows. Two threads copy tiles of dy and x into rings in shared
// memory, a warpgroup turns x, and two warpgroups multiply 128 outputs each. Two blocks of a cluster take neighbouring inputs of the
// same outputs: each copies half of dy, for both. Sums over shares of the rows go to scratch memory, in the order in which threads hold
// them, and a second kernel adds them up.
//
// Terms of a sum can be in any order that is the same for both operands. Of eight rows, the first four terms are the even ones and the
// last four the odd ones: then no two threads want the same bank of shared memory.

#define OUTPUTS 256
#define INPUTS 128
#define CLUSTER 2
// Rows of a step, and bytes of 32 columns of them: a box of dy or x.
#define TERMS 32
#define BOX 4096
#define DY_BYTES (OUTPUTS / 32 * BOX)
#define X_BYTES (INPUTS / 32 * BOX)
#define GROUP_THREADS 128
// Floats of a tile.
#define PART (OUTPUTS * INPUTS)
#define DY_STAGES 4
#define X_STAGES 3
#define TURNED_STAGES 3

// How the product is shared out to clusters: an item is a tile of 256 outputs and 256 inputs over one of `splits` shares of the rows.
// Tiles of the same rows come one behind the other, so that clusters at work at the same time read the same rows.
struct Shares {
    u32 columns, tiles, items, splits, steps;

    __device__ __forceinline__ Shares(u32 rows, u32 inputs, u32 outputs, u32 splits) : splits(splits) {
        columns = (inputs + CLUSTER * INPUTS - 1) / (CLUSTER * INPUTS);
        tiles = (outputs + OUTPUTS - 1) / OUTPUTS * columns;
        items = tiles * splits;
        steps = (rows + TERMS - 1) / TERMS;
    }

    __device__ __forceinline__ u32 first_output(u32 item) const { return item % tiles / columns * OUTPUTS; }
    __device__ __forceinline__ u32 first_input(u32 item, u32 rank) const { return (item % columns * CLUSTER + rank) * INPUTS; }
    __device__ __forceinline__ u32 first_step(u32 item) const { return (u64)steps * (item / tiles) / splits; }
    __device__ __forceinline__ u32 last_step(u32 item) const { return (u64)steps * (item / tiles + 1) / splits; }
};

struct WeightGradient {
    // Shared memory: the rings of dy, of x and of x turned, barriers.
    u32 dy_ring, x_ring, turned_ring, barriers;
    u32 rank, first, stride;
    Shares shares;

    __device__ __forceinline__ u32 dy_full(u32 stage) const { return barriers + 8 * stage; }
    __device__ __forceinline__ u32 dy_empty(u32 stage) const { return barriers + 8 * (DY_STAGES + stage); }
    __device__ __forceinline__ u32 x_full(u32 stage) const { return barriers + 8 * (2 * DY_STAGES + stage); }
    __device__ __forceinline__ u32 x_empty(u32 stage) const { return barriers + 8 * (2 * DY_STAGES + X_STAGES + stage); }
    __device__ __forceinline__ u32 turned_full(u32 stage) const { return barriers + 8 * (2 * (DY_STAGES + X_STAGES) + stage); }
    __device__ __forceinline__ u32 turned_empty(u32 stage) const {
        return barriers + 8 * (2 * (DY_STAGES + X_STAGES) + TURNED_STAGES + stage);
    }

    __device__ __forceinline__ WeightGradient(u32 shared, const Shares &shares) : shares(shares) {
        dy_ring = (shared + 1023) & ~1023u;
        x_ring = dy_ring + DY_STAGES * DY_BYTES;
        turned_ring = x_ring + X_STAGES * X_BYTES;
        barriers = turned_ring + TURNED_STAGES * X_BYTES;
        rank = rank_in_cluster();
        first = blockIdx.x / CLUSTER;
        stride = gridDim.x / CLUSTER;
    }

    __device__ __forceinline__ void init() const {
        for (u32 i = 0; i < DY_STAGES; i++) {
            barrier_init(dy_full(i), 1);
            // Each warp that multiplies, of both blocks.
            barrier_init(dy_empty(i), 8 * CLUSTER);
        }
        for (u32 i = 0; i < X_STAGES; i++) {
            barrier_init(x_full(i), 1);
            barrier_init(x_empty(i), 4);
        }
        for (u32 i = 0; i < TURNED_STAGES; i++) {
            barrier_init(turned_full(i), 4);
            barrier_init(turned_empty(i), 8);
        }
        barrier_init_fence();
    }

    // Copies half of the tiles of dy to both blocks. One thread.
    __device__ __forceinline__ void produce_dy(const TensorMap &dy) const {
        const u32 boxes = OUTPUTS / 32 / CLUSTER;
        Place<DY_STAGES> at;
        prefetch_map(dy);
        for (u32 item = first; item < shares.items; item += stride) {
            u32 output = shares.first_output(item), last = shares.last_step(item);
            for (u32 step = shares.first_step(item); step < last; step++, at.advance()) {
                barrier_wait(dy_empty(at.stage), at.parity ^ 1);
                barrier_arrive_and_expect(dy_full(at.stage), DY_BYTES);
                for (u32 i = 0; i < boxes; i++) {
                    u32 box = rank * boxes + i;
                    load_box_for(dy, dy_ring + at.stage * DY_BYTES + box * BOX, dy_full(at.stage), output + 32 * box, step * TERMS,
                                 (1 << CLUSTER) - 1);
                }
            }
        }
    }

    // Copies the tiles of x. One thread.
    __device__ __forceinline__ void produce_x(const TensorMap &x) const {
        Place<X_STAGES> at;
        prefetch_map(x);
        for (u32 item = first; item < shares.items; item += stride) {
            u32 input = shares.first_input(item, rank), last = shares.last_step(item);
            for (u32 step = shares.first_step(item); step < last; step++, at.advance()) {
                barrier_wait(x_empty(at.stage), at.parity ^ 1);
                barrier_arrive_and_expect(x_full(at.stage), X_BYTES);
                for (u32 box = 0; box < INPUTS / 32; box++)
                    load_box(x, x_ring + at.stage * X_BYTES + box * BOX, x_full(at.stage), input + 32 * box, step * TERMS);
            }
        }
    }

    // Turns the tiles of x: from rows of 32 inputs to rows of 32 terms, swizzled both. A warp has a box, a thread 4 x 4 floats of it,
    // twice. Threads are spread such that the eight whose words go at once meet eight banks of 16 bytes, when they read and when they
    // write.
    __device__ __forceinline__ void turn() const {
        u32 lane = threadIdx.x % WARP, box = threadIdx.x % GROUP_THREADS / WARP * BOX;
        // Terms 4*chunk to 4*chunk + 3, which are rows 8*eight + odd and every second one behind it.
        u32 chunk = lane % 8, eight = chunk / 2, odd = chunk % 2;
        // Inputs 4*four to 4*four + 3, and the four behind them.
        u32 four = 2 * ((eight + lane / 8) % 4);
        u32 from = x_ring + box + (8 * eight + odd) * 128, to = turned_ring + box + 4 * four * 128;
        u32 steps = 0;
        for (u32 item = first; item < shares.items; item += stride) steps += shares.last_step(item) - shares.first_step(item);
        Place<X_STAGES> at;
        Place<TURNED_STAGES> into;
        for (; steps > 0; steps--, at.advance(), into.advance()) {
            Words words[2][4];
            barrier_wait(x_full(at.stage), at.parity);
#pragma unroll
            for (u32 half = 0; half < 2; half++)
#pragma unroll
                for (u32 i = 0; i < 4; i++)
                    words[half][i] =
                        load_shared_words(from + at.stage * X_BYTES + 2 * i * 128 + ((four + half ^ 2 * i + odd) << 4));
            barrier_wait(turned_empty(into.stage), into.parity ^ 1);
#pragma unroll
            for (u32 half = 0; half < 2; half++)
#pragma unroll
                for (u32 i = 0; i < 4; i++) {
                    u32 row = 4 * half + i;
                    store_shared_words(to + into.stage * X_BYTES + row * 128 + ((chunk ^ row) << 4), words[half][0].at[i],
                                       words[half][1].at[i], words[half][2].at[i], words[half][3].at[i]);
                }
            writes_for_copies();
            __syncwarp();
            if (lane == 0) {
                barrier_arrive(turned_full(into.stage));
                barrier_arrive(x_empty(at.stage));
            }
        }
    }

    // Multiplies 128 outputs of each tile: a warp has 32 neighbouring ones, 16 of each product. One warpgroup.
    __device__ __forceinline__ void consume(u32 group, u32 inputs, u32 outputs, float *parts) const {
        u32 thread = threadIdx.x % GROUP_THREADS, warp = thread / WARP, lane = thread % WARP;
        // Where a thread's pairs of dy are in eight rows: of the even and of the odd row, each for both products.
        u32 row = lane % 4 * 2, box = dy_ring + (group * 4 + warp) * BOX + lane / 4 % 2 * 8;
        u32 from[2][2];
#pragma unroll
        for (u32 i = 0; i < 4; i++) from[i / 2][i % 2] = box + (row + i % 2) * 128 + ((i / 2 * 4 + lane / 8 ^ row + i % 2) << 4);
        float low[64], high[64];
        Place<DY_STAGES> at;
        Place<TURNED_STAGES> with;
        for (u32 item = first; item < shares.items; item += stride) {
            u32 before = 0, steps = shares.last_step(item) - shares.first_step(item);
            for (u32 step = 0; step < steps; step++) {
                u64 b = operand(turned_ring + with.stage * X_BYTES, 16, 1024);
                barrier_wait(dy_full(at.stage), at.parity);
                barrier_wait(turned_full(with.stage), with.parity);
#pragma unroll
                for (u32 half = 0; half < 2; half++) {
                    // While the products of the half before are under way.
                    u32 a[2][2][4];
#pragma unroll
                    for (u32 i = 0; i < 2; i++) load(a[i], from, at.stage, 2 * half + i);
                    products_begin();
#pragma unroll
                    for (u32 i = 0; i < 2; i++) {
                        // Eight terms further: 32 bytes in a row of x turned.
                        u64 terms = b + (2 * half + i) * (32 >> 4);
                        multiply_tf32(low, a[i][0], terms, step > 0 || half > 0 || i > 0);
                        multiply_tf32(high, a[i][1], terms, step > 0 || half > 0 || i > 0);
                    }
                    products_end();
                    products_wait<1>();
                    if (half == 0 && step > 0 && lane == 0) barrier_arrive(turned_empty(before));
                }
                if (lane < CLUSTER) barrier_arrive_at(dy_empty(at.stage), lane);
                before = with.stage;
                at.advance();
                with.advance();
            }
            products_wait<0>();
            products_are_done(low);
            products_are_done(high);
            if (lane == 0) barrier_arrive(turned_empty(before));
            u32 output = shares.first_output(item) + group * 128 + warp * 32, input = shares.first_input(item, rank);
            float4 *to = (float4 *)parts + ((u64)item * CLUSTER + rank) * (PART / 4) + group * (PART / 8) + thread;
            store(low, to, output < outputs, input, inputs);
            store(high, to + 16 * GROUP_THREADS, output + 16 < outputs, input, inputs);
        }
    }

    // Operands of both products from a step's rows of dy, the eight of them with number `eight`.
    __device__ static __forceinline__ void load(u32 (&a)[2][4], const u32 (&from)[2][2], u32 stage, u32 eight) {
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            load_shared_pair(from[i / 2][i % 2] + stage * DY_BYTES + eight * 1024, a[i / 2][i % 2 * 2], a[i / 2][i % 2 * 2 + 1]);
    }

    // Writes 16 outputs of each warp, where there are such.
    __device__ static __forceinline__ void store(const float (&d)[64], float4 *to, bool is, u32 input, u32 inputs) {
#pragma unroll
        for (u32 j = 0; j < 16; j++)
            if (is && input + 8 * j < inputs)
                to[j * GROUP_THREADS] = make_float4(d[4 * j], d[4 * j + 1], d[4 * j + 2], d[4 * j + 3]);
    }
};

// Blocks of four warpgroups: copies, turning, then products.
extern "C" __global__ void __launch_bounds__(4 * GROUP_THREADS, 1) __cluster_dims__(CLUSTER, 1, 1)
    weight_gradient(const __grid_constant__ TensorMap dy, const __grid_constant__ TensorMap x, u32 rows, u32 inputs, u32 outputs,
                    u32 splits, float *parts) {
    extern __shared__ char shared[];
    WeightGradient gradient(shared_address(shared), Shares(rows, inputs, outputs, splits));
    if (threadIdx.x == 0) gradient.init();
    cluster_sync();
    u32 group = threadIdx.x / GROUP_THREADS;
    if (group == 0) {
        fewer_registers<24>();
        if (threadIdx.x == 0) gradient.produce_dy(dy);
        else if (threadIdx.x == WARP) gradient.produce_x(x);
    } else if (group == 1) {
        fewer_registers<72>();
        gradient.turn();
    } else {
        more_registers<208>();
        gradient.consume(group - 2, inputs, outputs, parts);
    }
    // Blocks still arrive at barriers of the others.
    cluster_sync();
}

// Adds up the shares of the rows, in order. A thread has four floats of a tile: two neighbouring inputs of two neighbouring outputs.
extern "C" __global__ void weight_gradient_sums(const float *parts, u32 inputs, u32 outputs, u32 splits, float *dw) {
    Shares shares(0, inputs, outputs, splits);
    u32 tile = blockIdx.x / (PART / 4 / GROUP_THREADS), line = blockIdx.x % (PART / 4 / GROUP_THREADS), lane = threadIdx.x % WARP;
    u32 output = shares.first_output(tile / CLUSTER) + line / 32 * 128 + threadIdx.x / WARP * 32 + line / 16 % 2 * 16 + lane / 4 * 2;
    u32 input = shares.first_input(tile / CLUSTER, tile % CLUSTER) + line % 16 * 8 + lane % 4 * 2;
    if (output >= outputs || input >= inputs) return;
    const float4 *from = (const float4 *)parts + (u64)blockIdx.x * GROUP_THREADS + threadIdx.x;
    u64 next = (u64)shares.tiles * CLUSTER * (PART / 4);
    float4 sum = make_float4(0, 0, 0, 0);
    // Eight at a time are under way.
    for (u32 first = 0; first < splits; first += 8) {
        float4 values[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++) values[i] = first + i < splits ? from[(first + i) * next] : make_float4(0, 0, 0, 0);
#pragma unroll
        for (u32 i = 0; i < 8; i++) sum.x += values[i].x, sum.y += values[i].y, sum.z += values[i].z, sum.w += values[i].w;
    }
    float *to = dw + (u64)output * inputs + input;
    bool second = input + 1 < inputs;
    to[0] = sum.x;
    if (second) to[1] = sum.y;
    if (output + 1 >= outputs) return;
    to[inputs] = sum.z;
    if (second) to[inputs + 1] = sum.w;
}
