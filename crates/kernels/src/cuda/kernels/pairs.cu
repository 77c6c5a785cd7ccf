// Pairwise dot products of the vectors of a sample on tensor cores, and their gradients. Vectors are rows of tables, pooled by bag and
// never written out, or lie in a buffer; vector 0 comes from the network. A sample belongs to a warp, its vectors to a part of shared
// memory. At most 32 vectors, of a multiple of 16 floats.
//
// With g = lane / 4 and t = lane % 4, thread `lane` has of a tile of 8 rows and K columns the elements of row g that an operand of
// `mma` wants from it. Two tiles one above the other make the left operand, and one tile the right one: products of vectors with each
// other need every element once.

#define VECTORS 32

// Operands as bf16: K is 16.
struct OfBf16 {
    static const u32 K = 16;
    // Elements 2t, 2t + 1, 2t + 8 and 2t + 9 of a row.
    static __device__ __forceinline__ void along(const float *row, u32 t, u32 *f) {
        float2 low = *(const float2 *)(row + 2 * t), high = *(const float2 *)(row + 8 + 2 * t);
        f[0] = bf16_pair(low.x, low.y);
        f[1] = bf16_pair(high.x, high.y);
    }
    template <class F> static __device__ __forceinline__ void each(u32 t, const F &element, u32 *f) {
        f[0] = bf16_pair(element(2 * t), element(2 * t + 1));
        f[1] = bf16_pair(element(2 * t + 8), element(2 * t + 9));
    }
    // As `each`, of elements that are stored in an array, at `place(i)`.
    template <class F> static __device__ __forceinline__ void stored(u32 t, const u16 *from, const F &place, u32 *f) {
        f[0] = from[place(2 * t)] | (u32)from[place(2 * t + 1)] << 16;
        f[1] = from[place(2 * t + 8)] | (u32)from[place(2 * t + 9)] << 16;
    }
    static __device__ __forceinline__ void multiply(float *c, const u32 *a, const u32 *b) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
};

// Operands as tf32: K is 8.
struct OfTf32 {
    static const u32 K = 8;
    static __device__ __forceinline__ u32 rounded(float value) {
        u32 bits;
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
        return bits;
    }
    // Elements t and t + 4 of a row.
    static __device__ __forceinline__ void along(const float *row, u32 t, u32 *f) {
        f[0] = rounded(row[t]);
        f[1] = rounded(row[t + 4]);
    }
    template <class F> static __device__ __forceinline__ void each(u32 t, const F &element, u32 *f) {
        f[0] = rounded(element(t));
        f[1] = rounded(element(t + 4));
    }
    template <class F> static __device__ __forceinline__ void stored(u32 t, const float *from, const F &place, u32 *f) {
        f[0] = rounded(from[place(t)]);
        f[1] = rounded(from[place(t + 4)]);
    }
    static __device__ __forceinline__ void multiply(float *c, const u32 *a, const u32 *b) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
};

// Place of the product of vectors i > j behind vector 0.
__device__ __forceinline__ u32 pair(u32 i, u32 j) { return i * (i - 1) / 2 + j; }

// Vector 0, then the products of all pairs, for each sample. `room` floats of shared memory for each warp.
template <class Of, class Number> __device__ __forceinline__ void products(const Pairs &of, u32 stride, u32 room, Number *out) {
    extern __shared__ float4 shared[];
    u32 lane = threadIdx.x & (WARP - 1), warp = threadIdx.x / WARP, warps = blockDim.x / WARP, g = lane / 4, t = lane % 4;
    float *rooms = (float *)shared + (u64)warp * 2 * room;
    u64 step = (u64)gridDim.x * warps, sample = (u64)blockIdx.x * warps + warp;
    u32 tiles = (of.count + 7) / 8, width = of.dim + of.count * (of.count - 1) / 2;
    // Where the products of this thread go, two to a word; those of no pair behind the row.
    u32 places[6][2];
#pragma unroll
    for (u32 tile = 0; tile < 6; tile++) {
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            u32 row = (tile < 2 ? 0 : 16) + g + 8 * half, column = (tile < 2 ? tile : tile - 2) * 8 + 2 * t, nowhere = of.out_stride + 8;
            u32 first = row < of.count && column < row ? of.dim + pair(row, column) : nowhere;
            u32 second = row < of.count && column + 1 < row ? of.dim + pair(row, column + 1) : nowhere;
            places[tile][half] = first | second << 16;
        }
    }
    u32 row_of_tile[4];
#pragma unroll
    for (u32 j = 0; j < 4; j++) row_of_tile[j] = (8 * j + g < of.count ? 8 * j + g : 0) * stride;
    Bags bags(of, lane);
    bags.load_bounds(of, sample, 0);
    bags.load_id(of, 0);
    bags.load_bounds(of, sample + step, 1);
    if (sample < of.rows) fetch(of, sample, bags.bag(of, sample, lane, 0), rooms, stride);
    end_copies();
    bags.load_id(of, 1);
    bags.load_bounds(of, sample + 2 * step, 0);
    // The vectors of the next sample are on their way while those of this one are multiplied. Bounds of the next sample are number 1,
    // of the one behind it number 0, and so on in turns.
    for (u32 turn = 0; sample < of.rows; sample += step, turn ^= 1) {
        float *v = rooms + turn * room;
        Number *staged = (Number *)v;
        if (sample + step < of.rows) {
            Bag next = turn ? bags.bag(of, sample + step, lane, 0) : bags.bag(of, sample + step, lane, 1);
            fetch(of, sample + step, next, rooms + (turn ^ 1) * room, stride);
        }
        end_copies();
        if (turn) {
            bags.load_id(of, 1);
            bags.load_bounds(of, sample + 3 * step, 0);
        } else {
            bags.load_id(of, 0);
            bags.load_bounds(of, sample + 3 * step, 1);
        }
        wait_for_all_but_last();
        __syncwarp();
        widen_first(of, v);
        float c[6][4] = {};
        for (u32 k = 0; k < of.dim; k += Of::K) {
            u32 f[4][2], a[4], b[4];
#pragma unroll
            for (u32 j = 0; j < 4; j++)
                if (j < tiles) Of::along(v + row_of_tile[j] + k, t, f[j]);
                else f[j][0] = f[j][1] = 0;
            a[0] = f[0][0], a[1] = f[1][0], a[2] = f[0][1], a[3] = f[1][1];
            b[0] = f[2][0], b[1] = f[3][0], b[2] = f[2][1], b[3] = f[3][1];
            Of::multiply(c[0], a, f[0]);
            Of::multiply(c[1], a, f[1]);
            if (tiles > 2) {
#pragma unroll
                for (u32 j = 0; j < 4; j++) Of::multiply(c[2 + j], b, f[j]);
            }
        }
        // Vector 0 lies where it is staged, as floats or in half of their place: all is read before anything is written.
        float first[8];
        u32 each = (of.dim + WARP - 1) / WARP;
#pragma unroll
        for (u32 i = 0; i < 8; i++) first[i] = i < each && lane + WARP * i < of.dim ? v[lane + WARP * i] : 0.0f;
        __syncwarp();
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            if (i < each && lane + WARP * i < of.dim) put(staged + lane + WARP * i, first[i]);
#pragma unroll
        for (u32 tile = 0; tile < 6; tile++) {
#pragma unroll
            for (u32 half = 0; half < 2; half++) {
                put(staged + (places[tile][half] & 0xffff), c[tile][2 * half]);
                put(staged + (places[tile][half] >> 16), c[tile][2 * half + 1]);
            }
        }
        for (u32 i = width + lane; i < of.out_stride; i += WARP) put(staged + i, 0.0f);
        __syncwarp();
        Number *to = out + sample * of.out_stride;
        const u32 N = 16 / sizeof(Number);
        if (of.out_stride % N == 0) {
            for (u32 i = lane; i < of.out_stride / N; i += WARP) ((uint4 *)to)[i] = ((const uint4 *)staged)[i];
        } else {
            for (u32 i = lane; i < width; i += WARP) to[i] = staged[i];
        }
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(256, 1) pair_products_bf16(const Pairs of, u32 stride, u32 room, u16 *out) {
    products<OfBf16>(of, stride, room, out);
}
extern "C" __global__ void __launch_bounds__(256, 1) pair_products_bf16_to_f32(const Pairs of, u32 stride, u32 room, float *out) {
    products<OfBf16>(of, stride, room, out);
}
extern "C" __global__ void __launch_bounds__(256, 1) pair_products_tf32(const Pairs of, u32 stride, u32 room, float *out) {
    products<OfTf32>(of, stride, room, out);
}

// Where gradients go. As `PairGradients` of `cuda/pairs.rs`.
struct PairGradients {
    const void *dout;     // gradient of the products, stored as they are
    void *dfirst;         // gradient of vector 0
    u32 dfirst_stride;
    u32 dfirst_bf16;      // whether it is stored as bf16
    float *dvectors;      // gradients of vectors: of all, vector 0 included, where there are no tables; else of those with a row that
                          // other samples have too, one vector after another without vector 0
};

// Place of a zero behind the gradients of products.
__device__ __forceinline__ u32 zero_place(const Pairs &of) { return (of.dim + of.count * (of.count - 1) / 2 + 7) / 8 * 8; }

// Gradients of all vectors of a sample, in place of the vectors. Weights of rows that are updated in place are updated by the rule at
// once, where `direct` says so.
template <class Of, class Number> __device__ __forceinline__ void gradients_of_pairs(
    const Pairs &of, const Rule &rule, float *v, u32 stride, const Number *dout, u32 direct) {
    u32 lane = threadIdx.x & (WARP - 1), g = lane / 4, t = lane % 4, tiles = of.count > 16 ? 2 : 1;
    const u32 STEPS = VECTORS / Of::K;
    // Neither clipped nor scaled nor decayed: the shortest rule.
    bool plain = !rule.changes && rule.decay == 0.0f;
    u32 a[2][STEPS][4], zero = zero_place(of);
#pragma unroll
    for (u32 m = 0; m < 2; m++) {
#pragma unroll
        for (u32 k = 0; k < STEPS; k++) {
#pragma unroll
            for (u32 half = 0; half < 2; half++) {
                u32 i = m * 16 + half * 8 + g, f[2], of_row = of.dim + i * (i - 1) / 2;
                auto place = [&](u32 c) {
                    u32 j = k * Of::K + c, at = j < i ? of_row + j : of.dim + j * (j - 1) / 2 + i;
                    return i != j && max(i, j) < of.count ? at : zero;
                };
                Of::stored(t, dout, place, f);
                a[m][k][half] = f[0];
                a[m][k][2 + half] = f[1];
            }
        }
    }
    for (u32 n = 0; n < of.dim; n += 16) {
        float c[2][2][4] = {};
#pragma unroll
        for (u32 k = 0; k < STEPS; k++) {
            if (k * Of::K >= of.count) break;
#pragma unroll
            for (u32 j = 0; j < 2; j++) {
                u32 f[2];
                auto element = [&](u32 r) {
                    u32 row = k * Of::K + r;
                    return v[(row < of.count ? row : 0) * stride + n + j * 8 + g];
                };
                Of::each(t, element, f);
                Of::multiply(c[0][j], a[0][k], f);
                if (tiles > 1) Of::multiply(c[1][j], a[1][k], f);
            }
        }
        __syncwarp();
#pragma unroll
        for (u32 m = 0; m < 2; m++) {
#pragma unroll
            for (u32 half = 0; half < 2; half++) {
                u32 i = m * 16 + half * 8 + g;
                bool in_place = direct >> i & 1;
                if (i >= of.count) continue;
#pragma unroll
                for (u32 j = 0; j < 2; j++) {
                    u32 e = n + j * 8 + 2 * t;
                    float2 d = make_float2(c[m][j][2 * half], c[m][j][2 * half + 1]), none = make_float2(0.0f, 0.0f);
                    float2 *to = (float2 *)(v + i * stride + e);
                    if (i == 0) {
                        d.x += float_of(dout[e]);
                        d.y += float_of(dout[e + 1]);
                    }
                    if (in_place) {
                        float2 w = *to;
                        if (plain) {
                            d = make_float2(rule_sgd(rule, w.x, d.x), rule_sgd(rule, w.y, d.y));
                        } else {
                            d.x = rule_element(rule, w.x, d.x, none.x, none.y);
                            d.y = rule_element(rule, w.y, d.y, none.x, none.y);
                        }
                    }
                    *to = d;
                }
            }
        }
    }
    __syncwarp();
}

// Updates the rows of a sample's bags that no other value has, given the gradients of the sample's vectors; vectors with other rows are
// written out. All threads of the warp call this.
__device__ __forceinline__ void update_sample(
    const Pairs &of, const PairGradients &to, const Rule &rule, const Bag &bag, u64 sample, const float *v, u32 stride) {
    u32 lane = threadIdx.x & (WARP - 1), lanes = of.lanes, at_once = WARP / lanes, within = lane & (lanes - 1);
    for (u32 base = 1; base < of.count; base += at_once) {
        u32 vector = base + lane / lanes, from = min(vector, of.count - 1) - 1;
        u32 start = __shfl_sync(FULL, bag.start, from), length = __shfl_sync(FULL, bag.length, from);
        const float *alone = (const float *)__shfl_sync(FULL, (u64)bag.row, from);
        bool once = __shfl_sync(FULL, (u32)bag.once, from);
        if (vector >= of.count) continue;
        TableCall table = of.tables[from];
        table.lanes = lanes;
        bool shared_row = false;
        const float *d = v + vector * stride;
        if (alone) {
            // A bag of one id without weight: all about it is known.
            if (once) update_row(rule, table, (u64)(alone - table.weights) / of.dim, within, [&](u32 e, u32) { return *(const float4 *)(d + e); });
            (shared_row = !once), (length = 0);
        }
        for (u32 j = 0; j < length; j++) {
            u32 id = of.values[start + j];
            if (id >= table.rows) continue;
            if (!of.once[start + j]) {
                shared_row = true;
                continue;
            }
            float scale = of.weights ? of.weights[start + j] : 1.0f;
            if (table.mean) scale = __fdiv_rn(scale, (float)length);
            update_row(rule, table, id, within, [&](u32 e, u32) { return add_scaled4(zero4(), scale, *(const float4 *)(d + e)); });
        }
        if (!shared_row) continue;
        float *out = to.dvectors + (sample * (of.count - 1) + vector - 1) * of.dim;
        for (u32 e = within * 4; e < of.dim; e += lanes * 4) *(float4 *)(out + e) = *(const float4 *)(d + e);
    }
}

// Gradients of `products`: of vector 0, and of the other vectors, whose rows are updated by the rule if they come from tables.
template <class Of, class Number, bool SGD> __device__ __forceinline__ void gradients(
    const Pairs &of, const PairGradients &to, const Rule &rule, u32 stride, u32 room) {
    extern __shared__ float4 shared[];
    u32 lane = threadIdx.x & (WARP - 1), warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    float *rooms = (float *)shared + (u64)warp * 2 * room;
    u64 step = (u64)gridDim.x * warps, sample = (u64)blockIdx.x * warps + warp;
    u32 width = of.dim + of.count * (of.count - 1) / 2;
    Rule sgd = rule;
    sgd.kind = RULE_SGD;
    if (lane < 2) put((Number *)(rooms + lane * room + of.count * stride) + zero_place(of), 0.0f);
    // Vectors and the gradients of their products.
    auto fetch_all = [&](u64 of_sample, const Bag &bag, float *v) {
        fetch(of, of_sample, bag, v, stride);
        Number *dout = (Number *)(v + of.count * stride);
        const Number *from = (const Number *)to.dout + of_sample * of.out_stride;
        const u32 N = 16 / sizeof(Number);
        if (of.out_stride % N == 0) {
            for (u32 i = lane; i < of.out_stride / N; i += WARP) copy_async((float *)((uint4 *)dout + i), (const float *)((const uint4 *)from + i));
        } else {
            // Floats alone are stored in rows of any width.
            for (u32 i = lane; i < width; i += WARP) copy_async_one((float *)dout + i, (const float *)from + i);
        }
    };
    Bags bags(of, lane);
    bags.load_bounds(of, sample, 0);
    bags.load_id(of, 0);
    bags.load_bounds(of, sample + step, 1);
    Bag bag = bags.bag(of, sample, lane, 0), next = bag;
    if (sample < of.rows) fetch_all(sample, bag, rooms);
    end_copies();
    bags.load_id(of, 1);
    bags.load_bounds(of, sample + 2 * step, 0);
    for (u32 turn = 0; sample < of.rows; sample += step, turn ^= 1) {
        float *v = rooms + turn * room;
        Number *dout = (Number *)(v + of.count * stride);
        if (sample + step < of.rows) {
            next = turn ? bags.bag(of, sample + step, lane, 0) : bags.bag(of, sample + step, lane, 1);
            fetch_all(sample + step, next, rooms + (turn ^ 1) * room);
            if (!SGD) bags.fetch_state(next);
        }
        end_copies();
        if (turn) {
            bags.load_id(of, 1);
            bags.load_bounds(of, sample + 3 * step, 0);
        } else {
            bags.load_id(of, 0);
            bags.load_bounds(of, sample + 3 * step, 1);
        }
        // Rows that are updated where they lie in shared memory, and written back: each the whole vector, of SGD.
        u32 direct = SGD && of.tables ? __ballot_sync(FULL, bag.row && bag.once) << 1 : 0;
        bool simple = !of.tables || (SGD && __all_sync(FULL, bag.row || lane + 1 >= of.count));
        wait_for_all_but_last();
        __syncwarp();
        widen_first(of, v);
        gradients_of_pairs<Of>(of, sgd, v, stride, dout, simple ? direct : 0);
        if (simple && of.dim == 4 * WARP) {
            const float *from = v + stride + lane * 4;
            float *apart = of.tables ? to.dvectors + (sample * (of.count - 1)) * of.dim : to.dvectors + (sample * of.count + 1) * of.dim;
#pragma unroll 4
            for (u32 vector = 1; vector < of.count; vector++, from += stride, apart += of.dim) {
                float *row = (float *)__shfl_sync(FULL, (u64)bag.row, vector - 1);
                float *out = of.tables && (direct >> vector & 1) ? row : apart;
                *(float4 *)(out + lane * 4) = *(const float4 *)from;
            }
        } else if (simple) {
            u32 lanes = of.lanes, at_once = WARP / lanes, within = lane & (lanes - 1);
            for (u32 base = 1; base < of.count; base += at_once) {
                u32 vector = base + lane / lanes, source = min(vector, of.count - 1) - 1;
                float *row = (float *)__shfl_sync(FULL, (u64)bag.row, source);
                if (vector >= of.count) continue;
                float *out = row;
                if (!of.tables) out = to.dvectors + (sample * of.count + vector) * of.dim;
                else if (!(direct >> vector & 1)) out = to.dvectors + (sample * (of.count - 1) + vector - 1) * of.dim;
                for (u32 e = within * 4; e < of.dim; e += lanes * 4) *(float4 *)(out + e) = *(const float4 *)(v + vector * stride + e);
            }
        } else {
            update_sample(of, to, SGD ? sgd : rule, bag, sample, v, stride);
        }
        for (u32 e = lane; e < of.dim; e += WARP) {
            if (to.dfirst_bf16) ((u16 *)to.dfirst)[sample * to.dfirst_stride + e] = bf16_of(v[e]);
            else ((float *)to.dfirst)[sample * to.dfirst_stride + e] = v[e];
        }
        bag = next;
        __syncwarp();
    }
}

#define PAIR_GRADIENTS(NAME, OF, NUMBER, SGD)                                                                                 \
    extern "C" __global__ void __launch_bounds__(256, 1)                                                                      \
        NAME(const Pairs of, const PairGradients to, const Rule rule, u32 stride, u32 room) {                                 \
        gradients<OF, NUMBER, SGD>(of, to, rule, stride, room);                                                               \
    }

PAIR_GRADIENTS(pair_gradients_bf16_sgd, OfBf16, u16, true)
PAIR_GRADIENTS(pair_gradients_bf16, OfBf16, u16, false)
PAIR_GRADIENTS(pair_gradients_tf32_sgd, OfTf32, float, true)
PAIR_GRADIENTS(pair_gradients_tf32, OfTf32, float, false)
