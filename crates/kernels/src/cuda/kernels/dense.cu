// Passes over memory: activations, sums, losses, blocks of columns and of bytes. Formulas are those of reference/elementwise.rs and
// reference/linear.rs; every operation whose order they fix is rounded by itself.

// dy = 0 where y <= 0.
extern "C" __global__ void relu_backward(u64 len, const float *y, float *dy) {
    each(
        len, by_fours(y, dy),
        [&](u64 i) {
            float4 a = fours_of(y, i), d = fours_of(dy, i);
            d.x = a.x <= 0.0f ? 0.0f : d.x;
            d.y = a.y <= 0.0f ? 0.0f : d.y;
            d.z = a.z <= 0.0f ? 0.0f : d.z;
            d.w = a.w <= 0.0f ? 0.0f : d.w;
            ((float4 *)dy)[i] = d;
        },
        [&](u64 i) { dy[i] = y[i] <= 0.0f ? 0.0f : dy[i]; });
}

// y += x.
extern "C" __global__ void add(u64 len, const float *x, float *y) {
    each(
        len, by_fours(x, y),
        [&](u64 i) {
            float4 a = fours_of(x, i), b = fours_of(y, i);
            ((float4 *)y)[i] = make_float4(b.x + a.x, b.y + a.y, b.z + a.z, b.w + a.w);
        },
        [&](u64 i) { y[i] += x[i]; });
}

// y *= factor.
extern "C" __global__ void scale(u64 len, float factor, float *y) {
    each(
        len, by_fours(y),
        [&](u64 i) {
            float4 b = fours_of(y, i);
            ((float4 *)y)[i] = make_float4(b.x * factor, b.y * factor, b.z * factor, b.w * factor);
        },
        [&](u64 i) { y[i] *= factor; });
}

// y = value, for all elements.
extern "C" __global__ void fill_floats(u64 len, float value, float *y) {
    each(
        len, by_fours(y), [&](u64 i) { ((float4 *)y)[i] = make_float4(value, value, value, value); },
        [&](u64 i) { y[i] = value; });
}

__device__ __forceinline__ unsigned dropout_word(u64 row, unsigned unit) {
    unsigned x = (unsigned)row + unit * 0x9e3779b9u;
    x = ((x ^ (x >> 16)) * 0x7feb352du) ^ (unsigned)(row >> 32);
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

// Inverted dropout with the random numbers of spec::random: a block takes a row at a time.
extern "C" __global__ void dropout(u64 rows, unsigned width, u64 first, u64 key, unsigned below, float factor, float *y) {
    for (u64 r = blockIdx.x; r < rows; r += gridDim.x) {
        u64 row = mix(key + (first + r) * 0x9e3779b97f4a7c15ull);
        float *of_row = y + r * width;
        for (unsigned u = threadIdx.x; u < width; u += blockDim.x)
            of_row[u] = dropout_word(row, u) < below ? 0.0f : of_row[u] * factor;
    }
}

__device__ __forceinline__ double sigma(double x) { return 1.0 / (1.0 + exp(-x)); }

extern "C" __global__ void sigmoid(u64 rows, const float *logits, float *out) {
    each(rows, false, [](u64) {}, [&](u64 i) { out[i] = (float)sigma(logits[i]); });
}

// Sum over the threads of a block of 256, in an order that its size fixes; thread 0 has the sum.
__device__ __forceinline__ double sum_of_block(double value) {
    __shared__ double sums[8];
    for (int distance = 16; distance; distance /= 2) value += __shfl_down_sync(0xffffffff, value, distance);
    __syncthreads();
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 1; i < 8; i++) value += sums[i];
    return value;
}

// Second stage of every sum: adds `count` parts. One block of 256.
extern "C" __global__ void sum_parts(unsigned count, const double *parts, double *sum) {
    double value = 0.0;
    for (unsigned i = threadIdx.x; i < count; i += 256) value += parts[i];
    value = sum_of_block(value);
    if (threadIdx.x == 0) *sum = value;
}

// Gradients of binary cross-entropy on logits, probabilities, and the losses summed by block. `weights` and `probabilities` may be
// null. Blocks of 256.
extern "C" __global__ void bce(u64 rows, const float *logits, const float *labels, const float *weights, float smoothing,
                               float factor, float *dlogits, float *probabilities, double *parts) {
    double sum = 0.0;
    for (u64 i = (u64)blockIdx.x * 256 + threadIdx.x; i < rows; i += (u64)gridDim.x * 256) {
        double x = logits[i], w = weights ? weights[i] : 1.0f;
        double y = __fadd_rn(__fmul_rn(labels[i], __fsub_rn(1.0f, smoothing)), __fmul_rn(0.5f, smoothing));
        double p = sigma(x);
        dlogits[i] = (float)__dmul_rn(__dmul_rn(__dsub_rn(p, y), (double)factor), w);
        if (probabilities) probabilities[i] = (float)p;
        double loss = __dadd_rn(__dsub_rn(fmax(x, 0.0), __dmul_rn(x, y)), log1p(exp(-fabs(x))));
        sum = __dadd_rn(sum, __dmul_rn(w, loss));
    }
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// Sums of elements by block. Blocks of 256.
extern "C" __global__ void sum(u64 len, const float *x, double *parts) {
    double sum = 0.0;
    each(
        len, by_fours(x),
        [&](u64 i) {
            float4 a = fours_of(x, i);
            sum += ((double)a.x + a.y) + ((double)a.z + a.w);
        },
        [&](u64 i) { sum += x[i]; });
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// Sums of squares of elements cut to ±limit, by block; a NaN stays one. Blocks of 256.
extern "C" __global__ void sum_of_squares(u64 len, float limit, const float *x, double *parts) {
    double sum = 0.0;
    auto square = [&](float g) {
        double cut = g > limit ? limit : g < -limit ? -limit : g;
        return cut * cut;
    };
    each(
        len, by_fours(x),
        [&](u64 i) {
            float4 a = fours_of(x, i);
            sum += (square(a.x) + square(a.y)) + (square(a.z) + square(a.w));
        },
        [&](u64 i) { sum += square(x[i]); });
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// A block of columns: first column in the source and in the destination, and the number of columns of all blocks before it.
struct Columns {
    unsigned from, to, before;
};

// Copies or adds blocks of columns that do not overlap in the destination. Elements are of type F, and become such of type T: widths,
// offsets and columns count them. A thread has one column, which it finds once, and takes every so many rows.
template <class F, class T, class Work>
__device__ __forceinline__ void each_column(u64 rows, const Columns *copies, unsigned count, unsigned total, unsigned lanes,
                                            const F *from, unsigned from_width, T *to, unsigned to_width, Work work) {
    unsigned column = blockIdx.x * lanes + threadIdx.x % lanes;
    if (column >= total) return;
    unsigned low = 0, high = count;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (copies[middle].before <= column) low = middle;
        else high = middle;
    }
    from += copies[low].from + column - copies[low].before;
    to += copies[low].to + column - copies[low].before;
    unsigned at_once = blockDim.x / lanes;
    u64 step = (u64)at_once * gridDim.y;
    for (u64 r = (u64)blockIdx.y * at_once + threadIdx.x / lanes; r < rows; r += step)
        work(to[r * to_width], from[r * from_width]);
}

#define COLUMNS                                                                                                              \
    u64 rows, const Columns *copies, unsigned count, unsigned total, unsigned lanes, const float *from, unsigned from_width, \
        float *to, unsigned to_width

extern "C" __global__ void copy_columns(COLUMNS) {
    each_column(rows, copies, count, total, lanes, from, from_width, to, to_width, [](float &t, float f) { t = f; });
}

extern "C" __global__ void copy_columns_by_four(COLUMNS) {
    each_column(rows, copies, count, total, lanes, (const float4 *)from, from_width, (float4 *)to, to_width,
                [](float4 &t, float4 f) { t = f; });
}

// Copies into rows of bf16.
extern "C" __global__ void copy_columns_to_bf16(COLUMNS) {
    each_column(rows, copies, count, total, lanes, from, from_width, (u16 *)to, to_width, [](u16 &t, float f) { put(&t, f); });
}

extern "C" __global__ void copy_columns_to_bf16_by_four(COLUMNS) {
    each_column(rows, copies, count, total, lanes, (const float4 *)from, from_width, (uint2 *)to, to_width,
                [](uint2 &t, float4 f) { t = make_uint2(bf16_pair(f.x, f.y), bf16_pair(f.z, f.w)); });
}

extern "C" __global__ void add_columns(COLUMNS) {
    each_column(rows, copies, count, total, lanes, from, from_width, to, to_width, [](float &t, float f) { t += f; });
}

extern "C" __global__ void add_columns_by_four(COLUMNS) {
    each_column(rows, copies, count, total, lanes, (const float4 *)from, from_width, (float4 *)to, to_width,
                [](float4 &t, float4 f) { t = make_float4(t.x + f.x, t.y + f.y, t.z + f.z, t.w + f.w); });
}

// A block of units: its first unit in source and destination, and the number of units of all blocks before it.
struct Block {
    u64 from, to, before;
};

// Copies blocks of units of type T, behind each other in the destination. `blocks` has one entry more, whose `before` is the total.
// A CUDA block takes 1024 units at a time.
template <class T>
__device__ __forceinline__ void copy_units(const Block *blocks, unsigned count, const T *from, T *to) {
    u64 total = blocks[count].before;
    for (u64 first = (u64)blockIdx.x * 1024; first < total; first += (u64)gridDim.x * 1024) {
        unsigned low = 0, high = count;
        while (high - low > 1) {
            unsigned middle = (low + high) / 2;
            if (blocks[middle].before <= first) low = middle;
            else high = middle;
        }
        for (unsigned i = 0; i < 4; i++) {
            u64 unit = first + i * 256 + threadIdx.x;
            if (unit >= total) break;
            while (blocks[low + 1].before <= unit) low++;
            u64 at = unit - blocks[low].before;
            to[blocks[low].to + at] = from[blocks[low].from + at];
        }
    }
}

#define COPY_BLOCKS(name, T) \
    extern "C" __global__ void name(const Block *blocks, unsigned count, const T *from, T *to) { \
        copy_units(blocks, count, from, to); \
    }
COPY_BLOCKS(copy_blocks_1, unsigned char)
COPY_BLOCKS(copy_blocks_2, unsigned short)
COPY_BLOCKS(copy_blocks_4, unsigned)
COPY_BLOCKS(copy_blocks_8, uint2)
COPY_BLOCKS(copy_blocks_16, uint4)
