// What surrounds the products of cross layers. Rows are of floats or of bf16; `stride` elements lie from row to row. Every operation is
// rounded by itself, in the order of reference/interaction.rs.
//
// Passes begin at the last rows, which the product before wrote last: they may still lie in the cache. The next product begins at the
// first rows, which the pass wrote last.

// Rows in either form.
struct View {
    void *at;
    u32 stride;
    u32 bf16;
};

__device__ __forceinline__ float value_of(const View &of, u64 r, u32 c) {
    u64 i = r * of.stride + c;
    return of.bf16 ? float_of(((const u16 *)of.at)[i]) : ((const float *)of.at)[i];
}

__device__ __forceinline__ void put(const View &to, u64 r, u32 c, float value) {
    u64 i = r * to.stride + c;
    if (to.bf16) ((u16 *)to.at)[i] = bf16_of(value);
    else ((float *)to.at)[i] = value;
}

__device__ __forceinline__ float product_and(float a, float b, float c) { return __fadd_rn(__fmul_rn(a, b), c); }

__device__ __forceinline__ void store_eight(u16 *to, const Eight &v) { store16(to, v); }
__device__ __forceinline__ void store_eight(float *to, const Eight &v) {
    ((float4 *)to)[0] = make_float4(v.of[0], v.of[1], v.of[2], v.of[3]);
    ((float4 *)to)[1] = make_float4(v.of[4], v.of[5], v.of[6], v.of[7]);
}

// out = x0 * z + x, in pieces of eight without gaps between rows.
template <class T> __device__ __forceinline__ void cross_output(
    u64 pieces, const u16 *__restrict__ x0, const u16 *__restrict__ z, const u16 *__restrict__ x, T *__restrict__ out) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
#pragma unroll 2
    for (u64 i = thread; i < pieces; i += threads) {
        u64 at = (pieces - 1 - i) * 8;
        Eight a = load16(x0 + at), b = load16(z + at), c = load16(x + at);
#pragma unroll
        for (u32 k = 0; k < 8; k++) c.of[k] = product_and(a.of[k], b.of[k], c.of[k]);
        store_eight(out + at, c);
    }
}

extern "C" __global__ void __launch_bounds__(256) cross_output_bf16(u64 pieces, const u16 *x0, const u16 *z, const u16 *x, u16 *out) {
    cross_output(pieces, x0, z, x, out);
}
extern "C" __global__ void __launch_bounds__(256) cross_output_to_f32(u64 pieces, const u16 *x0, const u16 *z, const u16 *x, float *out) {
    cross_output(pieces, x0, z, x, out);
}

extern "C" __global__ void cross_output_of_any(u64 rows, u32 width, View x0, View z, View x, View out) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = thread; i < rows * width; i += threads) {
        u64 r = i / width;
        u32 c = i % width;
        put(out, r, c, product_and(value_of(x0, r, c), value_of(z, r, c), value_of(x, r, c)));
    }
}

// dz = g * x0, and the first stage of the column sums of dz, unless `parts` is null, as `column_sums` of linear.cu has it. Where `dx0` is
// not null (then all are floats), dx0 (+)= g * z. Blocks of 256: 32 pieces of 16 bytes side by side, 8 rows at a time.
template <class T> __device__ __forceinline__ void cross_gradients(
    u64 rows, u32 width, u32 stride, const T *__restrict__ x0, const T *__restrict__ g, T *__restrict__ dz, const T *__restrict__ z,
    u32 accumulate, T *__restrict__ dx0, u64 part_rows, float *__restrict__ parts) {
    typedef decltype(load16(dz)) Piece;
    const u32 N = Piece::COUNT;
    __shared__ float sums[8][32 * N + 4];
    u32 lane = threadIdx.x % 32, line = threadIdx.x / 32, column = (blockIdx.x * 32 + lane) * N;
    u64 part = gridDim.y - 1 - blockIdx.y;
    u64 begin = part * part_rows, end = begin + part_rows < rows ? begin + part_rows : rows;
    Piece sum = {};
    if (column < width) {
#pragma unroll 4
        for (u64 r = begin + line; r < end; r += 8) {
            u64 at = r * stride + column;
            Piece d = load16(g + at), a = load16(x0 + at);
            if (dx0) {
                Piece b = load16(z + at), old = {};
                if (accumulate) old = load16(dx0 + at);
#pragma unroll
                for (u32 k = 0; k < N; k++) old.of[k] = product_and(d.of[k], b.of[k], old.of[k]);
                store16(dx0 + at, old);
            }
#pragma unroll
            for (u32 k = 0; k < N; k++) {
                d.of[k] = __fmul_rn(d.of[k], a.of[k]);
                sum.of[k] = __fadd_rn(sum.of[k], d.of[k]);
            }
            store16(dz + at, d);
        }
    }
    if (!parts) return;
#pragma unroll
    for (u32 k = 0; k < N; k++) sums[line][lane * N + k] = sum.of[k];
    __syncthreads();
    for (u32 c = threadIdx.x; c < 32 * N; c += 256) {
        u32 to = blockIdx.x * 32 * N + c;
        if (to >= width) continue;
        float all = sums[0][c];
        for (u32 i = 1; i < 8; i++) all = __fadd_rn(all, sums[i][c]);
        parts[part * width + to] = all;
    }
}

extern "C" __global__ void __launch_bounds__(256) cross_gradients_f32(
    u64 rows, u32 width, u32 stride, const float *x0, const float *g, float *dz, const float *z, u32 accumulate, float *dx0, u64 part_rows,
    float *parts) {
    cross_gradients(rows, width, stride, x0, g, dz, z, accumulate, dx0, part_rows, parts);
}
extern "C" __global__ void __launch_bounds__(256) cross_gradients_bf16(
    u64 rows, u32 width, u32 stride, const u16 *x0, const u16 *g, u16 *dz, u64 part_rows, float *parts) {
    cross_gradients<u16>(rows, width, stride, x0, g, dz, 0, 0, 0, part_rows, parts);
}

// As above, of rows in any form; without sums.
extern "C" __global__ void cross_gradients_of_any(u64 rows, u32 width, View x0, View g, View dz, View z, u32 accumulate, float *dx0) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = thread; i < rows * width; i += threads) {
        u64 r = i / width;
        u32 c = i % width;
        float d = value_of(g, r, c);
        if (dx0) dx0[i] = product_and(d, value_of(z, r, c), accumulate ? dx0[i] : 0.0f);
        put(dz, r, c, __fmul_rn(d, value_of(x0, r, c)));
    }
}

// Some layers of dx0 (+)= sum of g * z, then plus dx, unless that is null. Layers are added in the order given.
#define MOST_LAYERS 4
struct Layers {
    View g[MOST_LAYERS], z[MOST_LAYERS];
};

template <u32 COUNT> __device__ __forceinline__ void x0_gradient(
    u64 pieces, const Layers &layers, u32 accumulate, const u16 *__restrict__ dx, float *__restrict__ dx0) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = thread; i < pieces; i += threads) {
        u64 at = (pieces - 1 - i) * 8;
        Eight g[COUNT], z[COUNT], sum = {}, last = {};
#pragma unroll
        for (u32 l = 0; l < COUNT; l++) {
            g[l] = load16((const u16 *)layers.g[l].at + at);
            z[l] = load16((const u16 *)layers.z[l].at + at);
        }
        if (dx) last = load16(dx + at);
        if (accumulate) {
            Four low = load16(dx0 + at), high = load16(dx0 + at + 4);
#pragma unroll
            for (u32 k = 0; k < 4; k++) sum.of[k] = low.of[k], sum.of[4 + k] = high.of[k];
        }
#pragma unroll
        for (u32 k = 0; k < 8; k++) {
#pragma unroll
            for (u32 l = 0; l < COUNT; l++) sum.of[k] = product_and(g[l].of[k], z[l].of[k], sum.of[k]);
            sum.of[k] = __fadd_rn(sum.of[k], last.of[k]);
        }
        store_eight(dx0 + at, sum);
    }
}

// Rows of bf16 in pieces of eight without gaps between rows.
extern "C" __global__ void __launch_bounds__(256) cross_x0_gradient_bf16(
    u64 pieces, Layers layers, u32 count, u32 accumulate, const u16 *dx, float *dx0) {
    if (count == 1) x0_gradient<1>(pieces, layers, accumulate, dx, dx0);
    else if (count == 2) x0_gradient<2>(pieces, layers, accumulate, dx, dx0);
    else if (count == 3) x0_gradient<3>(pieces, layers, accumulate, dx, dx0);
    else x0_gradient<4>(pieces, layers, accumulate, dx, dx0);
}

extern "C" __global__ void cross_x0_gradient_of_any(u64 rows, u32 width, Layers layers, u32 count, u32 accumulate, View dx, float *dx0) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = thread; i < rows * width; i += threads) {
        u64 r = i / width;
        u32 c = i % width;
        float sum = accumulate ? dx0[i] : 0.0f;
#pragma unroll
        for (u32 l = 0; l < MOST_LAYERS; l++)
            if (l < count) sum = product_and(value_of(layers.g[l], r, c), value_of(layers.z[l], r, c), sum);
        if (dx.at) sum = __fadd_rn(sum, value_of(dx, r, c));
        dx0[i] = sum;
    }
}
