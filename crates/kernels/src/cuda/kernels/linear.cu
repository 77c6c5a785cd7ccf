// What surrounds the products of linear maps: operands, biases, activations, masks and sums. Matrices are row by row; `stride` elements
// lie from row to row. Values are floats or bf16, as their names say.

// What follows a product: y = act(y + b). `bias` may be null. A ReLU keeps NaN.
extern "C" __global__ void bias_activation(u64 rows, u32 width, const float *bias, u32 relu, float *y) {
    u64 len = rows * width;
    auto act = [&](float value) { return relu && value < 0.0f ? 0.0f : value; };
    each(
        len, by_fours(y, bias) && width % 4 == 0,
        [&](u64 i) {
            float4 a = fours_of(y, i);
            float4 b = bias ? fours_of(bias, i % (width / 4)) : make_float4(0, 0, 0, 0);
            ((float4 *)y)[i] = make_float4(act(a.x + b.x), act(a.y + b.y), act(a.z + b.z), act(a.w + b.w));
        },
        [&](u64 i) { y[i] = act(bias ? y[i] + bias[i % width] : y[i]); });
}

extern "C" __global__ void bias_activation_bf16(u64 rows, u32 width, u32 stride, const float *bias, u32 relu, u16 *y) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = thread; i < rows * width; i += threads) {
        u64 at = i / width * stride + i % width;
        float value = float_of(y[at]) + (bias ? bias[i % width] : 0.0f);
        y[at] = bf16_of(relu && value < 0.0f ? 0.0f : value);
    }
}

// Column sums, first stage: parts[p, c] = the sum over rows of part p of weights[r] * x[r, c]. `weights` may be null. Blocks of 256: 32
// columns side by side, 8 rows at a time.
template <class T> __device__ __forceinline__ void sum_columns(
    u64 rows, u32 width, u32 stride, const T *x, const float *weights, u64 part_rows, float *parts) {
    __shared__ float sums[8][33];
    u32 lane = threadIdx.x % 32, line = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
    u64 begin = blockIdx.y * part_rows, end = begin + part_rows < rows ? begin + part_rows : rows;
    float sum = 0.0f;
    if (column < width) {
#pragma unroll 8
        for (u64 r = begin + line; r < end; r += 8) {
            float value = float_of(x[r * stride + column]);
            sum += weights ? weights[r] * value : value;
        }
    }
    sums[line][lane] = sum;
    __syncthreads();
    if (line == 0 && column < width) {
        for (int i = 1; i < 8; i++) sum += sums[i][lane];
        parts[(u64)blockIdx.y * width + column] = sum;
    }
}

extern "C" __global__ void column_sums(u64 rows, u32 width, u32 stride, const float *x, const float *weights, u64 part_rows, float *parts) {
    sum_columns(rows, width, stride, x, weights, part_rows, parts);
}
extern "C" __global__ void column_sums_bf16(u64 rows, u32 width, u32 stride, const u16 *x, const float *weights, u64 part_rows, float *parts) {
    sum_columns(rows, width, stride, x, weights, part_rows, parts);
}

// Parts of the sums of some columns. As `PartsOfSum` of `cuda/operand.rs`.
struct PartsOfSum {
    const float *parts;
    float *out;
    u32 count, width;
};

// Column sums, second stage: adds the parts of sum y. Blocks of 1024: 32 columns side by side; line l of 32 adds the parts l, l + 32 and
// so on, and the sums of lines are added in order.
extern "C" __global__ void __launch_bounds__(1024) add_parts_of_sums(const PartsOfSum *of) {
    __shared__ float sums[32][33];
    const PartsOfSum job = of[blockIdx.y];
    u32 lane = threadIdx.x % 32, line = threadIdx.x / 32, column = blockIdx.x * 32 + lane;
    if (blockIdx.x * 32 >= job.width) return;
    float sum = 0.0f;
    if (column < job.width) {
#pragma unroll 8
        for (u32 p = line; p < job.count; p += 32) sum += job.parts[(u64)p * job.width + column];
    }
    sums[line][lane] = sum;
    __syncthreads();
    if (line == 0 && column < job.width) {
        for (u32 i = 1; i < min(32u, job.count); i++) sum += sums[i][lane];
        job.out[column] = sum;
    }
}

// dy = 0 where y <= 0, then the first stage of the column sums of dy, as `column_sums` has it. `y` is null where nothing is masked. Blocks
// of 256: 32 pieces of 16 bytes side by side, 8 rows at a time.
template <class T> __device__ __forceinline__ void mask_and_sum(
    u64 rows, u32 width, u32 stride, const T *y, T *dy, u64 part_rows, float *parts) {
    typedef decltype(load16(dy)) Piece;
    const u32 N = Piece::COUNT;
    __shared__ float sums[8][32 * N + 4];
    u32 lane = threadIdx.x % 32, line = threadIdx.x / 32, column = (blockIdx.x * 32 + lane) * N;
    u64 begin = blockIdx.y * part_rows, end = begin + part_rows < rows ? begin + part_rows : rows;
    Piece sum = {};
    if (column < width) {
#pragma unroll 4
        for (u64 r = begin + line; r < end; r += 8) {
            u64 at = r * stride + column;
            Piece d = load16(dy + at);
            if (y) {
                Piece a = load16(y + at);
#pragma unroll
                for (u32 k = 0; k < N; k++) d.of[k] = a.of[k] <= 0.0f ? 0.0f : d.of[k];
                store16(dy + at, d);
            }
#pragma unroll
            for (u32 k = 0; k < N; k++) sum.of[k] += d.of[k];
        }
    }
#pragma unroll
    for (u32 k = 0; k < N; k++) sums[line][lane * N + k] = sum.of[k];
    __syncthreads();
    for (u32 c = threadIdx.x; c < 32 * N; c += 256) {
        u32 to = blockIdx.x * 32 * N + c;
        if (to >= width) continue;
        float all = sums[0][c];
        for (u32 i = 1; i < 8; i++) all += sums[i][c];
        parts[(u64)blockIdx.y * width + to] = all;
    }
}

extern "C" __global__ void __launch_bounds__(256) mask_and_sum_f32(u64 rows, u32 width, u32 stride, const float *y, float *dy, u64 part_rows, float *parts) {
    mask_and_sum(rows, width, stride, y, dy, part_rows, parts);
}
extern "C" __global__ void __launch_bounds__(256) mask_and_sum_bf16(u64 rows, u32 width, u32 stride, const u16 *y, u16 *dy, u64 part_rows, float *parts) {
    mask_and_sum(rows, width, stride, y, dy, part_rows, parts);
}

// dy = 0 where y <= 0, for rows of bf16.
extern "C" __global__ void relu_backward_bf16(u64 pieces, const u16 *y, u16 *dy) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = thread; i < pieces; i += threads) {
        Eight a = load16(y + 8 * i), d = load16(dy + 8 * i);
#pragma unroll
        for (u32 k = 0; k < 8; k++) d.of[k] = a.of[k] <= 0.0f ? 0.0f : d.of[k];
        store16(dy + 8 * i, d);
    }
}

// A linear map with one output: a warp for each row.
template <class T> __device__ __forceinline__ void one_output(
    u64 rows, u32 inputs, u32 stride, const T *x, const float *w, const float *bias, u32 relu, float *y) {
    const u32 N = decltype(load16(x))::COUNT;
    u32 lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (u64 r = (u64)blockIdx.x * warps + threadIdx.x / 32; r < rows; r += (u64)gridDim.x * warps) {
        const T *row = x + r * stride;
        float sum = 0.0f;
        if (inputs % N == 0 && stride % N == 0 && by_fours(x, w)) {
            for (u32 i = lane * N; i < inputs; i += 32 * N) {
                auto a = load16(row + i);
                float terms = 0.0f;
#pragma unroll
                for (u32 k = 0; k < N; k += 4) {
                    float4 b = *(const float4 *)(w + i + k);
                    terms += (a.of[k] * b.x + a.of[k + 1] * b.y) + (a.of[k + 2] * b.z + a.of[k + 3] * b.w);
                }
                sum += terms;
            }
        } else {
            for (u32 i = lane; i < inputs; i += 32) sum += float_of(row[i]) * w[i];
        }
        for (int distance = 16; distance; distance /= 2) sum += __shfl_down_sync(FULL, sum, distance);
        if (lane == 0) {
            if (bias) sum += *bias;
            y[r] = relu && sum < 0.0f ? 0.0f : sum;
        }
    }
}

extern "C" __global__ void linear_one(u64 rows, u32 inputs, u32 stride, const float *x, const float *w, const float *bias, u32 relu, float *y) {
    one_output(rows, inputs, stride, x, w, bias, relu, y);
}
extern "C" __global__ void linear_one_bf16(u64 rows, u32 inputs, u32 stride, const u16 *x, const float *w, const float *bias, u32 relu, float *y) {
    one_output(rows, inputs, stride, x, w, bias, relu, y);
}

// Gradient of the input of a linear map with one output: dx[r, i] (+)= dy[r] * w[i]; 0 where `relu` and x[r, i] <= 0. A thread has two
// neighbouring columns.
template <class X, class T> __device__ __forceinline__ void one_output_gradient(
    u64 rows, u32 inputs, u32 x_stride, u32 stride, const X *x, const float *w, const float *dy, u32 accumulate, u32 relu, T *dx) {
    u32 i = (blockIdx.x * 32 + threadIdx.x % 32) * 2, line = threadIdx.x / 32;
    if (i >= inputs) return;
    bool two = i + 1 < inputs;
    float w0 = w[i], w1 = two ? w[i + 1] : 0.0f;
    for (u64 r = (u64)blockIdx.y * 8 + line; r < rows; r += (u64)gridDim.y * 8) {
        const X *of_x = x + r * x_stride + i;
        T *to = dx + r * stride + i;
        float d = dy[r], first = d * w0, second = d * w1;
        if (accumulate) {
            first += float_of(to[0]);
            if (two) second += float_of(to[1]);
        }
        if (relu && float_of(of_x[0]) <= 0.0f) first = 0.0f;
        if (relu && two && float_of(of_x[1]) <= 0.0f) second = 0.0f;
        put(to, first);
        if (two) put(to + 1, second);
    }
}

// All gradients of a linear map with one output in one pass over its input: dx[r, i] = dy[r] * w[i], 0 where `relu` and x[r, i] <= 0;
// parts of the sums of dy[r] * x[r, i], of dx[r, i] if `dx_parts` is there, and of dy[r] if `dy_parts` is there. Blocks of 256: 32 pieces of
// 16 bytes side by side, 8 rows at a time.
template <class T> __device__ __forceinline__ void one_output_gradients(
    u64 rows, u32 inputs, u32 stride, const T *x, const float *w, const float *dy, u32 relu, T *dx, u64 part_rows, float *w_parts,
    float *dx_parts, float *dy_parts) {
    typedef decltype(load16(dx)) Piece;
    const u32 N = Piece::COUNT;
    __shared__ float sums[8][32 * N + 4];
    u32 lane = threadIdx.x % 32, line = threadIdx.x / 32, column = (blockIdx.x * 32 + lane) * N;
    u64 begin = blockIdx.y * part_rows, end = begin + part_rows < rows ? begin + part_rows : rows;
    Piece of_w = {}, of_dx = {}, weights = {};
    float of_dy = 0.0f;
#pragma unroll
    for (u32 k = 0; k < N; k++) weights.of[k] = column + k < inputs ? w[column + k] : 0.0f;
    if (column < inputs) {
#pragma unroll 4
        for (u64 r = begin + line; r < end; r += 8) {
            u64 at = r * stride + column;
            float d = dy[r];
            Piece a = load16(x + at), g;
#pragma unroll
            for (u32 k = 0; k < N; k++) {
                g.of[k] = relu && a.of[k] <= 0.0f ? 0.0f : d * weights.of[k];
                of_w.of[k] += d * a.of[k];
                of_dx.of[k] += rounded_as(dx, g.of[k]);
            }
            of_dy += d;
            store16(dx + at, g);
        }
    }
    auto write = [&](const Piece &piece, float *parts) {
#pragma unroll
        for (u32 k = 0; k < N; k++) sums[line][lane * N + k] = piece.of[k];
        __syncthreads();
        for (u32 c = threadIdx.x; c < 32 * N; c += 256) {
            u32 to = blockIdx.x * 32 * N + c;
            float all = sums[0][c];
            for (u32 i = 1; i < 8; i++) all += sums[i][c];
            if (to < inputs) parts[(u64)blockIdx.y * inputs + to] = all;
        }
        __syncthreads();
    };
    write(of_w, w_parts);
    if (dx_parts) write(of_dx, dx_parts);
    if (!dy_parts || blockIdx.x) return;
    if (lane == 0) sums[line][0] = of_dy;
    __syncthreads();
    if (threadIdx.x == 0) {
        float all = sums[0][0];
        for (u32 i = 1; i < 8; i++) all += sums[i][0];
        dy_parts[blockIdx.y] = all;
    }
}

#define GRADIENTS_ONE(NAME, T)                                                                                                \
    extern "C" __global__ void __launch_bounds__(256)                                                                         \
        NAME(u64 rows, u32 inputs, u32 stride, const T *x, const float *w, const float *dy, u32 relu, T *dx, u64 part_rows,   \
             float *w_parts, float *dx_parts, float *dy_parts) {                                                              \
        one_output_gradients(rows, inputs, stride, x, w, dy, relu, dx, part_rows, w_parts, dx_parts, dy_parts);               \
    }
GRADIENTS_ONE(gradients_one_f32, float)
GRADIENTS_ONE(gradients_one_bf16, u16)

#define INPUT_GRADIENT_ONE(NAME, X, T)                                                                                        \
    extern "C" __global__ void NAME(u64 rows, u32 inputs, u32 x_stride, u32 stride, const X *x, const float *w,               \
                                    const float *dy, u32 accumulate, u32 relu, T *dx) {                                       \
        one_output_gradient(rows, inputs, x_stride, stride, x, w, dy, accumulate, relu, dx);                                  \
    }
INPUT_GRADIENT_ONE(input_gradient_one, float, float)
INPUT_GRADIENT_ONE(input_gradient_one_from_bf16, u16, float)
INPUT_GRADIENT_ONE(input_gradient_one_bf16, u16, u16)
INPUT_GRADIENT_ONE(input_gradient_one_to_bf16, float, u16)

// Copies of operands for tensor cores: rows of `width` become rows of `padded` (a multiple of 8), zeros behind them.
template <class T, class Four, class Convert>
__device__ __forceinline__ void pad_rows(u64 rows, u32 width, u32 padded, const float *from, T *to,
                                         Convert convert) {
    u64 fours = rows * (padded / 4);
    bool whole = width % 4 == 0 && by_fours(from);
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = thread; i < fours; i += threads) {
        u64 r = i / (padded / 4);
        u32 c = (unsigned)(i % (padded / 4)) * 4;
        const float *at = from + r * width + c;
        float4 value;
        if (whole && c < width) {
            value = *(const float4 *)at;
        } else {
            value.x = c < width ? at[0] : 0.0f;
            value.y = c + 1 < width ? at[1] : 0.0f;
            value.z = c + 2 < width ? at[2] : 0.0f;
            value.w = c + 3 < width ? at[3] : 0.0f;
        }
        ((Four *)to)[i] = convert(value);
    }
}

// Rows as bf16, rounded to nearest even.
extern "C" __global__ void padded_bf16(u64 rows, u32 width, u32 padded, const float *from, u16 *to) {
    pad_rows<u16, ushort4>(rows, width, padded, from, to, [](float4 v) {
        return make_ushort4(bf16_of(v.x), bf16_of(v.y), bf16_of(v.z), bf16_of(v.w));
    });
}

// Rows as they are.
extern "C" __global__ void padded_f32(u64 rows, u32 width, u32 padded, const float *from, float *to) {
    pad_rows<float, float4>(rows, width, padded, from, to, [](float4 v) { return v; });
}

// Rows of bf16 as floats, zeros behind them.
extern "C" __global__ void widened(u64 rows, u32 width, u32 stride, u32 padded, const u16 *from, float *to) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = thread; i < rows * padded; i += threads) {
        u64 r = i / padded, c = i % padded;
        to[i] = c < width ? float_of(from[r * stride + c]) : 0.0f;
    }
}

// A matrix to be packed, and its bias, which may be null. As `Pack` of `cuda/pack.rs`.
struct Pack {
    const float *w, *bias;
    u16 *to;
    u32 outputs, inputs, stride, unused;
};

// Matrices of linear maps as bf16, each in rows of `stride` with zeros behind them, and behind it the bias: matrix y of the list.
extern "C" __global__ void packed_bf16(const Pack *list) {
    const Pack of = list[blockIdx.y];
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    u64 matrix = (u64)of.outputs * of.stride, all = matrix + (of.bias ? of.outputs : 0);
    for (u64 i = thread * 2; i < all; i += threads * 2) {
        float v[2];
        u32 r = (u32)(i / of.stride), c = (u32)(i % of.stride);
#pragma unroll
        for (u32 k = 0; k < 2; k++) {
            if (i < matrix) v[k] = c + k < of.inputs ? of.w[(u64)r * of.inputs + c + k] : 0.0f;
            else v[k] = i + k < all ? of.bias[i + k - matrix] : 0.0f;
        }
        *(u32 *)(of.to + i) = bf16_pair(v[0], v[1]);
    }
}

// Matrices of linear maps turned: for each input a row of `stride` floats, one for each output and zeros behind them. Blocks of 256 take
// squares of 32 x 32; matrix y of the list.
extern "C" __global__ void turned_f32(const Pack *list) {
    __shared__ float square[32][33];
    const Pack of = list[blockIdx.y];
    u32 lane = threadIdx.x % 32, line = threadIdx.x / 32;
    u32 across = (of.stride + 31) / 32, squares = across * ((of.inputs + 31) / 32);
    float *to = (float *)of.to;
    for (u32 i = blockIdx.x; i < squares; i += gridDim.x) {
        u32 first_output = i % across * 32, first_input = i / across * 32;
        for (u32 r = line; r < 32; r += 8) {
            u32 output = first_output + r, input = first_input + lane;
            square[r][lane] = output < of.outputs && input < of.inputs ? of.w[(u64)output * of.inputs + input] : 0.0f;
        }
        __syncthreads();
        for (u32 r = line; r < 32; r += 8) {
            u32 output = first_output + lane, input = first_input + r;
            if (output < of.stride && input < of.inputs) to[(u64)input * of.stride + output] = square[lane][r];
        }
        __syncthreads();
    }
}

// Rows of `padded` floats without what is behind `width`.
extern "C" __global__ void unpadded(u64 rows, u32 width, u32 padded, const float *from, float *to) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = thread; i < rows * width; i += threads) to[i] = from[i / width * padded + i % width];
}
