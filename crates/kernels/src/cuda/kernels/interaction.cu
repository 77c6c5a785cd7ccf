// Interactions of the vectors of a sample: pairwise dot products, factorization machines, and the element-wise half of cross layers.
// Formulas are those of reference/interaction.rs and reference/fm.rs.

// Dynamic shared memory of a block.
extern __shared__ float4 shared[];

// Rows and columns of the part of the products that a thread has in registers.
#define TILE 4

// Tile `t` of the lower triangle of a matrix of tiles: its line and column.
__device__ __forceinline__ void tile_of(unsigned t, unsigned &line, unsigned &column) {
    line = (unsigned)((sqrtf(8.0f * t + 1.0f) - 1.0f) * 0.5f);
    while (line * (line + 1) / 2 > t) line--;
    while ((line + 1) * (line + 2) / 2 <= t) line++;
    column = t - line * (line + 1) / 2;
}

// Products of vectors line, line + groups, … with vectors column, column + groups, …: neighbours among threads read neighbouring
// vectors, which lie in different banks.
struct Tile {
    unsigned line, column, groups, count;
    float sums[TILE][TILE];

    __device__ __forceinline__ Tile(unsigned t, unsigned groups, unsigned count) : groups(groups), count(count) {
        tile_of(t, line, column);
#pragma unroll
        for (int a = 0; a < TILE; a++)
#pragma unroll
            for (int b = 0; b < TILE; b++) sums[a][b] = 0.0f;
    }

    // Vector `a` of the group; past the last one the last, whose products nobody reads.
    __device__ __forceinline__ unsigned vector(unsigned group, int a) const {
        unsigned i = group + a * groups;
        return i < count ? i : count - 1;
    }

    // Adds the products of elements in fours.
    __device__ __forceinline__ void run(const float *vectors, unsigned stride, unsigned fours) {
        const float *left[TILE], *right[TILE];
#pragma unroll
        for (int a = 0; a < TILE; a++) {
            left[a] = vectors + (u64)vector(line, a) * stride;
            right[a] = vectors + (u64)vector(column, a) * stride;
        }
        for (unsigned k = 0; k < fours; k++) {
            float4 x[TILE], y[TILE];
#pragma unroll
            for (int a = 0; a < TILE; a++) {
                x[a] = ((const float4 *)left[a])[k];
                y[a] = ((const float4 *)right[a])[k];
            }
#pragma unroll
            for (int a = 0; a < TILE; a++)
#pragma unroll
                for (int b = 0; b < TILE; b++) {
                    float sum = sums[a][b];
                    sum += x[a].x * y[b].x;
                    sum += x[a].y * y[b].y;
                    sum += x[a].z * y[b].z;
                    sum += x[a].w * y[b].w;
                    sums[a][b] = sum;
                }
        }
    }

    // The same one element at a time.
    __device__ __forceinline__ void run_by_one(const float *vectors, unsigned dim) {
        for (unsigned k = 0; k < dim; k++)
#pragma unroll
            for (int a = 0; a < TILE; a++)
#pragma unroll
                for (int b = 0; b < TILE; b++)
                    sums[a][b] += vectors[(u64)vector(line, a) * dim + k] * vectors[(u64)vector(column, b) * dim + k];
    }

    // Stores the products of pairs i > j at i·(i − 1)/2 + j.
    __device__ __forceinline__ void store(float *pairs) const {
#pragma unroll
        for (int a = 0; a < TILE; a++)
#pragma unroll
            for (int b = 0; b < TILE; b++) {
                unsigned i = line + a * groups, j = column + b * groups;
                if (i >= count || j >= count || (line == column && a <= b)) continue;
                unsigned high = i > j ? i : j, low = i > j ? j : i;
                pairs[(u64)high * (high - 1) / 2 + low] = sums[a][b];
            }
    }
};

__device__ __forceinline__ void copy_16(float *to, const float *from) {
#if __CUDA_ARCH__ >= 800
    unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
#else
    *(float4 *)to = *(const float4 *)from;
#endif
}

__device__ __forceinline__ void copies_done() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Barrier among the threads of a team.
__device__ __forceinline__ void team_barrier(bool warp) {
    if (warp) __syncwarp();
    else __syncthreads();
}

// Dot products of samples whose vectors fit shared memory. A team of `team` threads has a sample: a warp of its own, or (with team =
// blockDim.x) the block. Rows of vectors lie `stride` floats apart, an odd number of fours; a team has `room` floats.
extern "C" __global__ void dot_forward(u64 rows, unsigned count, unsigned dim, unsigned team, unsigned stride, unsigned room,
                                       const float *vectors, float *out) {
    unsigned lane = threadIdx.x % team, fours = (dim + 3) / 4, groups = (count + TILE - 1) / TILE;
    unsigned teams = blockDim.x / team, pairs = count * (count - 1) / 2;
    float *mine = (float *)shared + (u64)(threadIdx.x / team) * room, *products = mine + stride;
    u64 r = (u64)blockIdx.x * teams + threadIdx.x / team, width = (u64)dim + pairs;
    // All threads of a block share a sample, or a warp does: nobody waits for those who leave.
    if (r >= rows) return;
    const float *from = vectors + r * count * dim;
    if (dim % 4 == 0 && ((u64)vectors & 15) == 0) {
        for (unsigned i = lane; i < count * fours; i += team) {
            unsigned v = i / fours, k = i % fours;
            copy_16(mine + v * stride + 4 * k, from + 4 * i);
        }
        copies_done();
    } else {
        for (unsigned i = lane; i < count * 4 * fours; i += team) {
            unsigned v = i / (4 * fours), k = i % (4 * fours);
            mine[v * stride + k] = k < dim ? from[v * dim + k] : 0.0f;
        }
    }
    team_barrier(team == 32);
    // A thread has one tile at a time, and its products wait in registers until nobody reads vectors any more; where there are more
    // tiles than threads, products go to `out` at once.
    unsigned tiles = groups * (groups + 1) / 2;
    float *to = out + r * width;
    for (unsigned i = lane; i < dim; i += team) to[i] = mine[i];
    if (tiles <= team) {
        Tile tile(lane < tiles ? lane : 0, groups, count);
        tile.run(mine, stride, fours);
        team_barrier(team == 32);
        if (lane < tiles) tile.store(products);
        team_barrier(team == 32);
        for (unsigned i = lane; i < pairs; i += team) to[dim + i] = products[i];
    } else {
        for (unsigned t = lane; t < tiles; t += team) {
            Tile tile(t, groups, count);
            tile.run(mine, stride, fours);
            tile.store(to + dim);
        }
    }
}

// Dot products of any shape, out of global memory: a block has a sample.
extern "C" __global__ void dot_forward_any(u64 rows, unsigned count, unsigned dim, const float *vectors, float *out) {
    unsigned groups = (count + TILE - 1) / TILE, tiles = groups * (groups + 1) / 2;
    u64 width = dim + (u64)count * (count - 1) / 2;
    bool fours = dim % 4 == 0 && ((u64)vectors & 15) == 0;
    for (u64 r = blockIdx.x; r < rows; r += gridDim.x) {
        const float *from = vectors + r * count * dim;
        float *to = out + r * width;
        for (unsigned i = threadIdx.x; i < dim; i += blockDim.x) to[i] = from[i];
        for (unsigned t = threadIdx.x; t < tiles; t += blockDim.x) {
            Tile tile(t, groups, count);
            if (fours) tile.run(from, dim, dim / 4);
            else tile.run_by_one(from, dim);
            tile.store(to + dim);
        }
    }
}

__device__ __forceinline__ float4 load_four(const float *from, unsigned at, unsigned dim, bool fours) {
    if (fours) return *(const float4 *)(from + at);
    float4 value;
    value.x = from[at];
    value.y = at + 1 < dim ? from[at + 1] : 0.0f;
    value.z = at + 2 < dim ? from[at + 2] : 0.0f;
    value.w = at + 3 < dim ? from[at + 3] : 0.0f;
    return value;
}

// Gradients of dot products: dV = S·V, where S is the symmetric matrix of the pairs' gradients, in shared memory. A thread has four
// columns of a sample and ROWS rows at a time; a block has `samples` samples. S has `lines` = a multiple of ROWS columns. Where
// `staged` says so, all vectors of the block are copied to shared memory first, so that many loads are under way at once.
template <int ROWS>
__device__ __forceinline__ void dot_backward_by(u64 rows, unsigned count, unsigned dim, unsigned samples, unsigned lines,
                                                unsigned staged, const float *vectors, const float *dout, float *dvectors) {
    float *all = (float *)shared;
    u64 first = (u64)blockIdx.x * samples, width = dim + (u64)count * (count - 1) / 2;
    unsigned each = count * lines, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    float *kept = all + (u64)samples * each;
    if (staged) {
        u64 here = rows - first < samples ? rows - first : samples;
        const float4 *from = (const float4 *)(vectors + first * count * dim);
        for (unsigned item = threadIdx.x; item < here * count * dim / 4; item += blockDim.x) {
            copy_16(kept + 4 * item, (const float *)(from + item));
        }
    }
    for (unsigned s = threadIdx.x / 32; s < samples && first + s < rows; s += warps) {
        const float *pairs = dout + (first + s) * width + dim;
        float *symmetric = all + (u64)s * each;
        for (unsigned i = 0; i < count; i++) {
            for (unsigned j = lane; j < i; j += 32) {
                float value = pairs[j];
                symmetric[i * lines + j] = value;
                symmetric[j * lines + i] = value;
            }
            pairs += i;
            if (lane == 0) symmetric[i * lines + i] = 0.0f;
            for (unsigned j = count + lane; j < lines; j += 32) symmetric[i * lines + j] = 0.0f;
        }
    }
    if (staged) copies_done();
    __syncthreads();
    unsigned fours = (dim + 3) / 4;
    bool whole = dim % 4 == 0 && (((u64)vectors | (u64)dvectors) & 15) == 0;
    for (unsigned item = threadIdx.x; item < samples * fours; item += blockDim.x) {
        unsigned s = item / fours, at = item % fours * 4;
        u64 r = first + s;
        if (r >= rows) break;
        const float *from = staged ? kept + (u64)s * count * dim : vectors + r * count * dim;
        const float *symmetric = all + (u64)s * each;
        for (unsigned top = 0; top < count; top += ROWS) {
            float4 sums[ROWS];
#pragma unroll
            for (int i = 0; i < ROWS; i++) sums[i] = make_float4(0, 0, 0, 0);
            if (top == 0) {
                const float *copy = dout + r * width;
                sums[0] = load_four(copy, at, dim, false);
            }
#pragma unroll 1
            for (unsigned j = 0; j < count; j++) {
                float4 v = load_four(from + (u64)j * dim, at, dim, whole);
                const float4 *line = (const float4 *)(symmetric + j * lines + top);
#pragma unroll
                for (int i = 0; i < ROWS / 4; i++) {
                    float4 p = line[i];
                    const float factors[4] = {p.x, p.y, p.z, p.w};
#pragma unroll
                    for (int q = 0; q < 4; q++) {
                        float4 &sum = sums[4 * i + q];
                        sum.x += factors[q] * v.x;
                        sum.y += factors[q] * v.y;
                        sum.z += factors[q] * v.z;
                        sum.w += factors[q] * v.w;
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                if (top + i >= count) continue;
                float *to = dvectors + (r * count + top + i) * dim + at;
                if (whole) {
                    *(float4 *)to = sums[i];
                } else {
                    to[0] = sums[i].x;
                    if (at + 1 < dim) to[1] = sums[i].y;
                    if (at + 2 < dim) to[2] = sums[i].z;
                    if (at + 3 < dim) to[3] = sums[i].w;
                }
            }
        }
    }
}

#define DOT_BACKWARD(name, ROWS)                                                                                             \
    extern "C" __global__ void __launch_bounds__(128, 3)                                                                     \
        name(u64 rows, unsigned count, unsigned dim, unsigned samples, unsigned lines, unsigned staged, const float *vectors, \
             const float *dout, float *dvectors) {                                                                           \
        dot_backward_by<ROWS>(rows, count, dim, samples, lines, staged, vectors, dout, dvectors);                            \
    }
DOT_BACKWARD(dot_backward_8, 8)
DOT_BACKWARD(dot_backward_16, 16)
DOT_BACKWARD(dot_backward_28, 28)

// Gradients of dot products of any shape: a block has a sample, a thread an element at a time.
extern "C" __global__ void dot_backward_any(u64 rows, unsigned count, unsigned dim, const float *vectors, const float *dout,
                                            float *dvectors) {
    u64 width = dim + (u64)count * (count - 1) / 2;
    for (u64 r = blockIdx.x; r < rows; r += gridDim.x) {
        const float *from = vectors + r * count * dim, *pairs = dout + r * width + dim;
        for (u64 e = threadIdx.x; e < (u64)count * dim; e += blockDim.x) {
            unsigned i = (unsigned)(e / dim), d = (unsigned)(e % dim);
            float sum = i == 0 ? dout[r * width + d] : 0.0f;
            for (u64 j = 0; j < i; j++) sum += pairs[(u64)i * (i - 1) / 2 + j] * from[j * dim + d];
            for (u64 j = i + 1; j < count; j++) sum += pairs[j * (j - 1) / 2 + i] * from[j * dim + d];
            dvectors[r * count * dim + e] = sum;
        }
    }
}

// out = x0 * z + x.
extern "C" __global__ void cross_forward(u64 len, const float *x0, const float *z, const float *x, float *out) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    u64 fours = (((u64)x0 | (u64)z | (u64)x | (u64)out) & 15) == 0 ? len / 4 : 0;
    auto one = [](float a, float b, float c) { return __fadd_rn(__fmul_rn(a, b), c); };
    for (u64 i = thread; i < fours; i += threads) {
        float4 a = ((const float4 *)x0)[i], b = ((const float4 *)z)[i], c = ((const float4 *)x)[i];
        ((float4 *)out)[i] = make_float4(one(a.x, b.x, c.x), one(a.y, b.y, c.y), one(a.z, b.z, c.z), one(a.w, b.w, c.w));
    }
    for (u64 i = 4 * fours + thread; i < len; i += threads) out[i] = one(x0[i], z[i], x[i]);
}

// dz = dout * x0; dx0 (+)= dout * z. `dz` may be `z`, and `dx0` `x0`, as neither is read behind its write.
extern "C" __global__ void cross_backward(u64 len, const float *x0, const float *z, const float *dout, unsigned accumulate, float *dz,
                                          float *dx0) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    u64 fours = (((u64)x0 | (u64)z | (u64)dout | (u64)dz | (u64)dx0) & 15) == 0 ? len / 4 : 0;
    auto one = [](float d, float z, float old) { return __fadd_rn(__fmul_rn(d, z), old); };
    for (u64 i = thread; i < fours; i += threads) {
        float4 a = ((const float4 *)x0)[i], b = ((const float4 *)z)[i], d = ((const float4 *)dout)[i];
        float4 old = accumulate ? ((const float4 *)dx0)[i] : make_float4(0, 0, 0, 0);
        ((float4 *)dz)[i] = make_float4(d.x * a.x, d.y * a.y, d.z * a.z, d.w * a.w);
        ((float4 *)dx0)[i] = make_float4(one(d.x, b.x, old.x), one(d.y, b.y, old.y), one(d.z, b.z, old.z), one(d.w, b.w, old.w));
    }
    for (u64 i = 4 * fours + thread; i < len; i += threads) {
        float a = x0[i], b = z[i], d = dout[i], old = accumulate ? dx0[i] : 0.0f;
        dz[i] = d * a;
        dx0[i] = one(d, b, old);
    }
}

// Factorization machine: a warp for each sample.
extern "C" __global__ void fm_forward(u64 rows, unsigned count, unsigned dim, const float *vectors, float *out) {
    unsigned lane = threadIdx.x % 32, warps = blockDim.x / 32, step = dim + 1;
    for (u64 r = (u64)blockIdx.x * warps + threadIdx.x / 32; r < rows; r += (u64)gridDim.x * warps) {
        const float *from = vectors + r * count * step;
        float linear = 0.0f, pairs = 0.0f;
        for (unsigned f = lane; f < count; f += 32) linear += from[(u64)f * step + dim];
        for (unsigned d = lane; d < dim; d += 32) {
            float sum = 0.0f, squares = 0.0f;
            for (unsigned f = 0; f < count; f++) {
                float v = from[(u64)f * step + d];
                sum += v;
                squares += v * v;
            }
            pairs += sum * sum - squares;
        }
        float total = linear + 0.5f * pairs;
        for (int distance = 16; distance; distance /= 2) total += __shfl_down_sync(0xffffffff, total, distance);
        if (lane == 0) out[r] = total;
    }
}

// Gradients of a factorization machine: a warp for each sample.
extern "C" __global__ void fm_backward(u64 rows, unsigned count, unsigned dim, const float *vectors, const float *dout,
                                       float *dvectors) {
    unsigned lane = threadIdx.x % 32, warps = blockDim.x / 32, step = dim + 1;
    for (u64 r = (u64)blockIdx.x * warps + threadIdx.x / 32; r < rows; r += (u64)gridDim.x * warps) {
        const float *from = vectors + r * count * step;
        float *to = dvectors + r * count * step, d_out = dout[r];
        for (unsigned d = lane; d < dim; d += 32) {
            float sum = 0.0f;
            for (unsigned f = 0; f < count; f++) sum += from[(u64)f * step + d];
            for (unsigned f = 0; f < count; f++) to[(u64)f * step + d] = d_out * (sum - from[(u64)f * step + d]);
        }
        for (unsigned f = lane; f < count; f += 32) to[(u64)f * step + dim] = d_out;
    }
}
