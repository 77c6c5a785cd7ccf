// Pairwise dot products of the vectors of a sample on tensor cores, and their gradients. Vectors are rows of tables, pooled by bag and
// never written out, or lie in a buffer; vector 0 comes from the network. A sample belongs to a warp, or to two that share it, its vectors
// to a part of shared memory. At most 32 vectors, of a multiple of 16 floats.
//
// With g = lane / 4 and t = lane % 4, thread `lane` has of a tile of 8 rows and K columns the elements of row g that an operand of
// `mma` wants from it. Two tiles one above the other make the left operand, and one tile the right one: products of vectors with each
// other need every element once.
//
// Gradients of vectors are the product of the vectors, as columns, and of the symmetric matrix of the gradients of products. Thread `lane`
// has four neighbouring floats of each of eight vectors, those of four rows of the left operand: their gradients come out of `mma` in the
// same thread, which updates them and writes them to where they go.

#define VECTORS 32

// Vectors of which a thread has floats in the gradients.
#define OWN 8

// Operands as bf16: K is 16.
struct OfBf16 {
    static const u32 K = 16;
    // Elements 2t, 2t + 1, 2t + 8 and 2t + 9 of a row, the first of which is `at`: float 2t.
    static __device__ __forceinline__ u32 start(u32 t) { return 2 * t; }
    static __device__ __forceinline__ void along(u32 at, u32 *f) {
        float2 low = load_shared2(at), high = load_shared2(at + 32);
        f[0] = bf16_pair(low.x, low.y);
        f[1] = bf16_pair(high.x, high.y);
    }
    // Which vector of a tile of 8 column n of the right operand is. Columns 2t and 2t + 1 of the product are the thread's, and must be
    // vectors that it has as elements of the left operand.
    static __device__ __forceinline__ u32 vector(u32 n) { return n; }
    // The column that a vector of a tile is.
    static __device__ __forceinline__ u32 column(u32 vector) { return vector; }
    // Elements of the right operand that are stored in an array, two places in a word.
    static const u32 PLACES = 2;
    template <class F> static __device__ __forceinline__ void places(u32 t, const F &place, u32 *p) {
        p[0] = place(2 * t) | place(2 * t + 1) << 16;
        p[1] = place(2 * t + 8) | place(2 * t + 9) << 16;
    }
    static __device__ __forceinline__ void stored(const u16 *from, const u32 *p, u32 *f) {
        f[0] = from[p[0] & 0xffff] | (u32)from[p[0] >> 16] << 16;
        f[1] = from[p[1] & 0xffff] | (u32)from[p[1] >> 16] << 16;
    }
    // The left operand of step k: rows g and g + 8 are floats `low` and `low` + 1 of the thread's.
    static __device__ __forceinline__ void left(const float (*w)[4], u32 k, u32 low, u32 *f) {
        const float(*v)[4] = w + 4 * k;
        f[0] = bf16_pair(v[0][low], v[1][low]);
        f[1] = bf16_pair(v[0][low + 1], v[1][low + 1]);
        f[2] = bf16_pair(v[2][low], v[3][low]);
        f[3] = bf16_pair(v[2][low + 1], v[3][low + 1]);
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
    static __device__ __forceinline__ u32 start(u32 t) { return t; }
    static __device__ __forceinline__ void along(u32 at, u32 *f) {
        f[0] = rounded(load_shared(at));
        f[1] = rounded(load_shared(at + 16));
    }
    static __device__ __forceinline__ u32 vector(u32 n) { return n / 2 + n % 2 * 4; }
    static __device__ __forceinline__ u32 column(u32 vector) { return vector % 4 * 2 + vector / 4; }
    static const u32 PLACES = 1;
    template <class F> static __device__ __forceinline__ void places(u32 t, const F &place, u32 *p) {
        p[0] = place(t) | place(t + 4) << 16;
    }
    static __device__ __forceinline__ void stored(const float *from, const u32 *p, u32 *f) {
        f[0] = rounded(from[p[0] & 0xffff]);
        f[1] = rounded(from[p[0] >> 16]);
    }
    static __device__ __forceinline__ void left(const float (*w)[4], u32 k, u32 low, u32 *f) {
        const float(*v)[4] = w + 2 * k;
        f[0] = rounded(v[0][low]);
        f[1] = rounded(v[0][low + 1]);
        f[2] = rounded(v[1][low]);
        f[3] = rounded(v[1][low + 1]);
    }
    static __device__ __forceinline__ void multiply(float *c, const u32 *a, const u32 *b) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
};

// Place of the product of vectors i > j behind vector 0.
__device__ __forceinline__ u32 pair(u32 i, u32 j) { return i * (i - 1) / 2 + j; }

// Vector 0, then the products of all pairs, for each sample. Of the `share` floats of shared memory that a warp has, `room` are for the
// vectors of a sample, as many for those of the next one, and in the rest a row of products is put together.
template <class Of, class Number> __device__ __forceinline__ void products(const Pairs &of, u32 stride, u32 room, u32 share, Number *out) {
    extern __shared__ float4 shared[];
    u32 lane = threadIdx.x & (WARP - 1), warp = threadIdx.x / WARP, warps = blockDim.x / WARP, g = lane / 4, t = lane % 4;
    float *rooms = (float *)shared + warp * share;
    Number *staged = (Number *)(rooms + 2 * room);
    u64 step = (u64)gridDim.x * warps, sample = (u64)blockIdx.x * warps + warp;
    u32 width = of.dim + of.count * (of.count - 1) / 2;
    // Where the products of this thread go; those of no pair behind the row, to a place of the thread's own.
    u32 places[6][4];
#pragma unroll
    for (u32 tile = 0; tile < 6; tile++) {
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            u32 row = (tile < 2 ? 0 : 16) + g + i / 2 * 8, column = (tile < 2 ? tile : tile - 2) * 8 + 2 * t + i % 2;
            u32 place = row < of.count && column < row ? of.dim + pair(row, column) : of.out_stride + 8 + lane;
            places[tile][i] = address_of(staged + place);
        }
    }
    // Rows of operands that are no vector are copies of vector 0, and their products go nowhere.
    u32 row_of_tile[4];
#pragma unroll
    for (u32 j = 0; j < 4; j++) row_of_tile[j] = 4 * ((8 * j + g < of.count ? 8 * j + g : 0) * stride + Of::start(t));
    for (u32 i = width + lane; i < of.out_stride; i += WARP) put(staged + i, 0.0f);
    Bags bags(of, lane);
    bags.load_bounds(of, sample, 0);
    bags.load_id(of, 0);
    bags.load_bounds(of, sample + step, 1);
    if (sample < of.rows) fetch<1>(of, sample, bags.bag(of, sample, lane, 0), rooms, stride, 0);
    end_copies();
    bags.load_id(of, 1);
    bags.load_bounds(of, sample + 2 * step, 0);
    // The vectors of the next sample are on their way while those of this one are multiplied. Bounds of the next sample are number 1,
    // of the one behind it number 0, and so on in turns.
    for (u32 turn = 0; sample < of.rows; sample += step, turn ^= 1) {
        float *v = rooms + turn * room;
        if (sample + step < of.rows) {
            Bag next = turn ? bags.bag(of, sample + step, lane, 0) : bags.bag(of, sample + step, lane, 1);
            fetch<1>(of, sample + step, next, rooms + (turn ^ 1) * room, stride, 0);
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
        u32 at = address_of(v);
#pragma unroll 4
        for (u32 k = 0; k < of.dim; k += Of::K, at += 4 * Of::K) {
            u32 f[4][2];
#pragma unroll
            for (u32 j = 0; j < 4; j++) Of::along(at + row_of_tile[j], f[j]);
            u32 high[4] = {f[0][0], f[1][0], f[0][1], f[1][1]}, low[4] = {f[2][0], f[3][0], f[2][1], f[3][1]};
            Of::multiply(c[0], high, f[0]);
            Of::multiply(c[1], high, f[1]);
            if (of.count > 16) {
#pragma unroll
                for (u32 j = 0; j < 4; j++) Of::multiply(c[2 + j], low, f[j]);
            }
        }
#pragma unroll 1
        for (u32 e = lane * 4; e < of.dim; e += WARP * 4) put4(staged + e, *(const float4 *)(v + e));
#pragma unroll
        for (u32 tile = 0; tile < 6; tile++) {
#pragma unroll
            for (u32 i = 0; i < 4; i++) store_shared(places[tile][i], stored_as((const Number *)0, c[tile][i]));
        }
        __syncwarp();
        Number *to = out + sample * of.out_stride;
        const u32 N = 16 / sizeof(Number);
        if (of.out_stride % N == 0) {
#pragma unroll 1
            for (u32 i = lane; i < of.out_stride / N; i += WARP) ((uint4 *)to)[i] = ((const uint4 *)staged)[i];
        } else {
            for (u32 i = lane; i < width; i += WARP) to[i] = staged[i];
        }
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(256, 1) pair_products_bf16(const Pairs of, u32 stride, u32 room, u32 share, u16 *out) {
    products<OfBf16>(of, stride, room, share, out);
}
extern "C" __global__ void __launch_bounds__(256, 1) pair_products_bf16_to_f32(const Pairs of, u32 stride, u32 room, u32 share, float *out) {
    products<OfBf16>(of, stride, room, share, out);
}
extern "C" __global__ void __launch_bounds__(256, 1) pair_products_tf32(const Pairs of, u32 stride, u32 room, u32 share, float *out) {
    products<OfTf32>(of, stride, room, share, out);
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

// Four floats of the gradient of vector 0, from `e` on.
template <class Number>
__device__ __forceinline__ void write_first(const PairGradients &to, u64 sample, u32 e, const float *d, const Number *dout) {
    float4 x = make_float4(
        d[0] + float_of(dout[e]), d[1] + float_of(dout[e + 1]), d[2] + float_of(dout[e + 2]), d[3] + float_of(dout[e + 3]));
    u64 at = sample * to.dfirst_stride + e;
    if (to.dfirst_bf16) put4((u16 *)to.dfirst + at, x);
    else put4((float *)to.dfirst + at, x);
}

__device__ __forceinline__ void store_global4(float *to, float4 x) {
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w) : "memory");
}

// What a thread has of the gradients of a sample, of PARTS warps that share it.
template <class Of, u32 PARTS> struct Share {
    static const u32 STEPS = VECTORS / Of::K;
    u32 g, t;
    u32 row[OWN];                        // where the thread's vectors begin among all, in bytes
    u32 right[STEPS][4][2];              // the right operand: the matrix of the gradients of products

    // Number of the thread's vector `own`.
    __device__ __forceinline__ u32 vector(u32 own) const { return own / 2 * 8 + Of::vector(2 * t + own % 2); }

    // The thread that has vector `vector` as number lane / 4 of its own.
    static __device__ __forceinline__ u32 thread_of(u32 vector) {
        u32 column = Of::column(vector % 8);
        return (vector / 8 * 2 + column % 2) * 4 + column / 2;
    }

    __device__ __forceinline__ Share(const Pairs &of, u32 stride, u32 lane) : g(lane / 4), t(lane % 4) {
#pragma unroll
        for (u32 own = 0; own < OWN; own++) row[own] = (vector(own) < of.count ? vector(own) : 0) * stride * 4;
    }

    // Where elements of the right operand lie among the gradients of products: a list in shared memory that all warps of the block use,
    // a word of each thread after another.
    __device__ __forceinline__ void list_places(const Pairs &of, u32 *list) const {
        u32 zero = zero_place(of);
#pragma unroll
        for (u32 k = 0; k < STEPS; k++) {
#pragma unroll
            for (u32 tile = 0; tile < 4; tile++) {
                u32 i = tile * 8 + Of::vector(g), places[Of::PLACES];
                auto place_of = [&](u32 c) {
                    u32 j = k * Of::K + c;
                    return i != j && max(i, j) < of.count ? of.dim + pair(max(i, j), min(i, j)) : zero;
                };
                Of::places(t, place_of, places);
#pragma unroll
                for (u32 p = 0; p < Of::PLACES; p++) list[((k * 4 + tile) * Of::PLACES + p) * WARP + 4 * g + t] = places[p];
            }
        }
    }

    template <class Number> __device__ __forceinline__ void load_right(const Number *dout, const u32 *list) {
#pragma unroll
        for (u32 k = 0; k < STEPS; k++) {
#pragma unroll
            for (u32 tile = 0; tile < 4; tile++) {
                u32 places[Of::PLACES];
#pragma unroll
                for (u32 p = 0; p < Of::PLACES; p++) places[p] = list[((k * 4 + tile) * Of::PLACES + p) * WARP + 4 * g + t];
                Of::stored(dout, places, right[k][tile]);
            }
        }
    }

    // The thread's floats of its vectors, from float `e` on, and the gradients of these; of other floats if `e` is behind the vectors.
    __device__ __forceinline__ void gradients(const Pairs &of, const float *v, u32 e, float (*w)[4], float (*d)[4]) const {
        u32 at = address_of(v) + 4 * min(e, of.dim - 4);
#pragma unroll
        for (u32 own = 0; own < OWN; own++) {
            float4 x = load_shared4(at + row[own]);
            (w[own][0] = x.x), (w[own][1] = x.y), (w[own][2] = x.z), (w[own][3] = x.w);
        }
        float c[2][4][4] = {};
#pragma unroll
        for (u32 k = 0; k < STEPS; k++) {
            if (k > 0 && k * Of::K >= of.count) break;
#pragma unroll
            for (u32 half = 0; half < 2; half++) {
                u32 a[4];
                Of::left(w, k, 2 * half, a);
#pragma unroll
                for (u32 tile = 0; tile < 4; tile++) Of::multiply(c[half][tile], a, right[k][tile]);
            }
        }
#pragma unroll
        for (u32 own = 0; own < OWN; own++) {
#pragma unroll
            for (u32 f = 0; f < 4; f++) d[own][f] = c[f / 2][own / 2][f % 2 * 2 + own % 2];
        }
    }

    // Adds the squares of the gradients of the thread's vectors, as the rule sees them, of floats 32 * first + 4g to + 3, and of those
    // behind every 64 floats from there on, to sums that are 0. In the order of `squares`.
    template <bool PLAIN>
    __device__ __forceinline__ void add_squares(const Pairs &of, const Rule &rule, const float *v, u32 first, float *sum) const {
#pragma unroll 1
        for (u32 chunk = first; chunk < 4; chunk += 2) {
            float more[OWN] = {}, w[OWN][4], d[OWN][4];
#pragma unroll 1
            for (u32 e = chunk * WARP + 4 * g; e - 4 * g < of.dim; e += 4 * WARP) {
                gradients(of, v, e, w, d);
#pragma unroll
                for (u32 own = 0; own < OWN; own++) {
                    float4 four = make_float4(d[own][0], d[own][1], d[own][2], d[own][3]);
                    float squares = squares4(PLAIN ? four : rule_gradient4(rule, four));
                    more[own] = __fadd_rn(more[own], e < of.dim ? squares : 0.0f);
                }
            }
            // Sums of squares are not negative: adding 0 leaves them as they are.
#pragma unroll
            for (u32 own = 0; own < OWN; own++) sum[own] = __fadd_rn(sum[own], more[own]);
        }
    }

    // Sum of the squares of the gradients of one of the thread's vectors, number g. Added up in the order of `update_row`, where thread l
    // of a row has the floats from 4l on, every 4 * 32 floats, and threads whose numbers differ in bit 4, then 3, and so on are added: the
    // floats of 8 such threads are at hand at a time, so that bits 4 and 3 say when, and the others where. Of two warps each has the threads
    // of one value of bit 3, and `between` has room for the sums of both.
    template <bool PLAIN>
    __device__ __forceinline__ float squares(const Pairs &of, const Rule &rule, const float *v, u32 part, u32 barrier, float *between) const {
        float sum[OWN] = {}, others[OWN] = {};
        add_squares<PLAIN>(of, rule, v, part, sum);
        if (PARTS == 1) {
            add_squares<PLAIN>(of, rule, v, 1, others);
        } else {
            float4 *mine = (float4 *)between + part * 2 * WARP + 4 * g + t, *other = (float4 *)between + (part ^ 1) * 2 * WARP + 4 * g + t;
            mine[0] = make_float4(sum[0], sum[1], sum[2], sum[3]);
            mine[WARP] = make_float4(sum[4], sum[5], sum[6], sum[7]);
            meet<PARTS>(barrier);
            float4 low = other[0], high = other[WARP];
            (others[0] = low.x), (others[1] = low.y), (others[2] = low.z), (others[3] = low.w);
            (others[4] = high.x), (others[5] = high.y), (others[6] = high.z), (others[7] = high.w);
        }
#pragma unroll
        for (u32 own = 0; own < OWN; own++) sum[own] = __fadd_rn(sum[own], others[own]);
        // Threads whose numbers differ in a bit share the vectors at hand: each goes on with half of them.
#pragma unroll
        for (u32 many = OWN / 2; many > 0; many /= 2) {
            bool upper = g & many;
#pragma unroll
            for (u32 i = 0; i < many; i++) {
                float from = __shfl_xor_sync(FULL, upper ? sum[i] : sum[many + i], 4 * many);
                sum[i] = __fadd_rn(upper ? sum[many + i] : sum[i], from);
            }
        }
        return sum[0];
    }

    // Writes the gradients of a sample to where they go, or the updated rows. Thread v - 1 says this of vector v: where to (null for
    // nowhere), whether a row is updated there, and by which rate.
    template <bool PLAIN, class Number> __device__ __forceinline__ void write(
        const Pairs &of, const PairGradients &to, const Rule &rule, u64 sample, const float *v, const Number *dout, u32 part, float *out,
        bool in_place, float rate) const {
        float w[OWN][4], d[OWN][4], *outs[OWN], rates[OWN];
        bool updated[OWN];
        u32 all_in_place = __ballot_sync(FULL, in_place);
#pragma unroll
        for (u32 own = 0; own < OWN; own++) {
            u32 from = (vector(own) - 1) % WARP;
            outs[own] = (float *)__shfl_sync(FULL, (u64)out, from);
            rates[own] = __shfl_sync(FULL, rate, from);
            updated[own] = all_in_place >> from & 1;
        }
#pragma unroll 1
        for (u32 e = part * WARP + 4 * g; e - 4 * g < of.dim; e += PARTS * WARP) {
            gradients(of, v, e, w, d);
            if (e >= of.dim) continue;
            if (t == 0) write_first(to, sample, e, d[0], dout);
#pragma unroll
            for (u32 own = 0; own < OWN; own++) {
                float x[4];
#pragma unroll
                for (u32 f = 0; f < 4; f++) {
                    // Without a branch: most rows are updated, and the threads of a warp have others.
                    if (PLAIN) x[f] = rule_step(w[own][f], rates[own], d[own][f]);
                    else x[f] = rule_step(rule_decayed(rule, w[own][f]), rates[own], rule_gradient(rule, d[own][f]));
                    x[f] = updated[own] ? x[f] : d[own][f];
                }
                if (outs[own]) store_global4(outs[own] + e, make_float4(x[0], x[1], x[2], x[3]));
            }
        }
    }
};

// Updates the rows of a sample's bags that no other value has, given the gradients of the sample's vectors; vectors with other rows are
// written out. All threads of the warps that share the sample call this, and each warp, number `part`, has some of the vectors.
template <u32 PARTS> __device__ __forceinline__ void update_sample(
    const Pairs &of, const PairGradients &to, const Rule &rule, const Bag &bag, u64 sample, const float *v, u32 stride, u32 part) {
    u32 lane = threadIdx.x & (WARP - 1), lanes = of.lanes, at_once = WARP / lanes, within = lane & (lanes - 1);
    for (u32 base = 1 + part * at_once; base < of.count; base += PARTS * at_once) {
        u32 vector = base + lane / lanes, from = min(vector, of.count - 1) - 1;
        u32 start = __shfl_sync(FULL, bag.start, from), length = __shfl_sync(FULL, bag.length, from);
        bool alone = __shfl_sync(FULL, bag.row != 0, from);
        bool once = __shfl_sync(FULL, (u32)bag.once, from);
        u32 alone_id = __shfl_sync(FULL, bag.id, from);
        if (vector >= of.count) continue;
        TableCall table = of.tables[from];
        table.lanes = lanes;
        bool shared_row = false;
        const float *d = v + vector * stride;
        if (alone) {
            // A bag of one id without weight: all about it is known.
            if (once) update_row(rule, table, alone_id, within, [&](u32 e, u32) { return *(const float4 *)(d + e); });
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
// PARTS warps share a sample. Of the `share` floats of shared memory that they have, `room` are for a sample, as many for the next one, and
// the rest is for sums. Behind the shares of all lies the list of places.
template <class Of, class Number, u32 KIND, u32 PARTS> __device__ __forceinline__ void gradients(
    const Pairs &of, const PairGradients &to, const Rule &rule, u32 stride, u32 room, u32 share_floats) {
    extern __shared__ float4 shared[];
    u32 lane = threadIdx.x & (WARP - 1), group = threadIdx.x / (PARTS * WARP), groups = blockDim.x / (PARTS * WARP);
    u32 part = threadIdx.x / WARP % PARTS, barrier = 1 + group;
    float *rooms = (float *)shared + group * share_floats, *between = rooms + 2 * room;
    u32 *places = (u32 *)((float *)shared + groups * share_floats);
    u64 step = (u64)gridDim.x * groups, sample = (u64)blockIdx.x * groups + group;
    u32 width = of.dim + of.count * (of.count - 1) / 2;
    // Gradients of products lie behind the vectors.
    u32 behind = of.count * stride;
    if (lane < 2) put((Number *)(rooms + lane * room + behind) + zero_place(of), 0.0f);
    // Rules that are applied to gradients as they come out of `mma`. Neither clipped nor scaled nor decayed is the shortest.
    const bool row_wise = KIND == RULE_ROW_WISE_ADAGRAD, at_once = KIND == RULE_SGD || row_wise;
    bool plain = !rule.changes && rule.decay == 0.0f;
    Rule of_row = rule;
    if (at_once) of_row.kind = KIND;
    Share<Of, PARTS> share(of, stride, lane);
    if (threadIdx.x < WARP) share.list_places(of, places);
    __syncthreads();
    auto fetch_all = [&](u64 of_sample, const Bag &bag, float *v) {
        fetch<PARTS>(of, of_sample, bag, v, stride, part);
        if (part + 1 < PARTS) return;
        u32 dout = address_of(v + behind);
        const Number *from = (const Number *)to.dout + of_sample * of.out_stride;
        if (sizeof(Number) == 2 || of.out_stride % 4 == 0) {
            fetch_bytes(dout, from, of.out_stride * (u32)sizeof(Number));
        } else {
            // Floats alone are stored in rows of any width.
            for (u32 i = lane; i < width; i += WARP) copy_async_one(dout + 4 * i, from + i);
        }
    };
    // What the rule keeps of a row that is updated at once.
    Bags bags(of, lane);
    auto state_of = [&](const Bag &bag) { return bags.state + (u64)bag.id * bags.each; };
    bags.load_bounds(of, sample, 0);
    bags.load_id(of, 0);
    bags.load_bounds(of, sample + step, 1);
    Bag bag = bags.bag(of, sample, lane, 0), next = bag;
    float state = 0.0f, next_state = 0.0f;
    if (sample < of.rows) fetch_all(sample, bag, rooms);
    if (row_wise && bag.row && bag.once) state = *state_of(bag);
    end_copies();
    bags.load_id(of, 1);
    bags.load_bounds(of, sample + 2 * step, 0);
    for (u32 turn = 0; sample < of.rows; sample += step, turn ^= 1) {
        float *v = rooms + turn * room;
        const Number *dout = (const Number *)(v + behind);
        if (sample + step < of.rows) {
            next = turn ? bags.bag(of, sample + step, lane, 0) : bags.bag(of, sample + step, lane, 1);
            fetch_all(sample + step, next, rooms + (turn ^ 1) * room);
            if (row_wise && next.row && next.once) next_state = *state_of(next);
            if (!at_once) bags.fetch_state(next);
        }
        end_copies();
        if (turn) {
            bags.load_id(of, 1);
            bags.load_bounds(of, sample + 3 * step, 0);
        } else {
            bags.load_id(of, 0);
            bags.load_bounds(of, sample + 3 * step, 1);
        }
        // Whether all vectors are rows, each written once: updated where it has no other sample, else its gradient. The latter goes to
        // where vectors lie in shared memory if some vector is a sum, or the rule needs more than a row and a rate.
        bool simple = !of.tables || (at_once && __all_sync(FULL, bag.row || lane + 1 >= of.count));
        bool in_place = of.tables && bag.row && bag.once;
        wait_for_all_but_last();
        __syncwarp();
        if (part == 0) widen_first(of, v);
        meet<PARTS>(barrier);
        share.load_right(dout, places);
        if (simple) {
            float *out = 0, rate = rule.rate;
            if (in_place) out = (float *)bag.row;
            else if (bag.row && of.tables) out = to.dvectors + (sample * (of.count - 1) + lane) * of.dim;
            else if (bag.row) out = to.dvectors + (sample * of.count + lane + 1) * of.dim;
            if (row_wise) {
                float squares = plain ? share.template squares<true>(of, rule, v, part, barrier, between)
                                      : share.template squares<false>(of, rule, v, part, barrier, between);
                squares = __shfl_sync(FULL, squares, share.thread_of((lane + 1) % VECTORS));
                state = rule_row_wise_state(state, squares, of.dim);
                rate = rule_row_wise_rate(rule, state);
                if (in_place && part == 0) *state_of(bag) = state;
            }
            if (plain) share.template write<true>(of, to, rule, sample, v, dout, part, out, in_place, rate);
            else share.template write<false>(of, to, rule, sample, v, dout, part, out, in_place, rate);
        } else {
            float w[OWN][4], d[OWN][4];
#pragma unroll 1
            for (u32 e = part * WARP + 4 * share.g; e - 4 * share.g < of.dim; e += PARTS * WARP) {
                share.gradients(of, v, e, w, d);
                if (e >= of.dim) continue;
                if (share.t == 0) write_first(to, sample, e, d[0], dout);
#pragma unroll
                for (u32 own = 0; own < OWN; own++)
                    if (share.vector(own) > 0 && share.vector(own) < of.count)
                        put4(v + share.row[own] / 4 + e, make_float4(d[own][0], d[own][1], d[own][2], d[own][3]));
            }
            meet<PARTS>(barrier);
            update_sample<PARTS>(of, to, of_row, bag, sample, v, stride, part);
        }
        (bag = next), (state = next_state);
        meet<PARTS>(barrier);
    }
}

// A kernel for each kind of rule that is applied at once, which needs fewer registers than one for all, and one for the others. As bf16,
// two warps share a sample, so that there are enough warps to keep a multiprocessor busy while shared memory has room for few samples;
// the operands of tf32 take too many registers for that.
#define PAIR_GRADIENTS(NAME, OF, NUMBER, KIND, PARTS, THREADS)                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS, 1)                                                                  \
        NAME(const Pairs of, const PairGradients to, const Rule rule, u32 stride, u32 room, u32 share) {                      \
        gradients<OF, NUMBER, KIND, PARTS>(of, to, rule, stride, room, share);                                                \
    }

#define ANY_RULE 0xff

PAIR_GRADIENTS(pair_gradients_bf16_sgd, OfBf16, u16, RULE_SGD, 2, 384)
PAIR_GRADIENTS(pair_gradients_bf16_row_wise, OfBf16, u16, RULE_ROW_WISE_ADAGRAD, 2, 384)
PAIR_GRADIENTS(pair_gradients_bf16, OfBf16, u16, ANY_RULE, 2, 384)
PAIR_GRADIENTS(pair_gradients_tf32_sgd, OfTf32, float, RULE_SGD, 1, 256)
PAIR_GRADIENTS(pair_gradients_tf32_row_wise, OfTf32, float, RULE_ROW_WISE_ADAGRAD, 1, 256)
PAIR_GRADIENTS(pair_gradients_tf32, OfTf32, float, ANY_RULE, 1, 256)
