// Rows of tables in each number format, with the bits of `half_float.rs` and `int8_row.rs`. Put before the sources of a module by
// kernels.rs, behind tables.cuh.
//
// A format is a type. `of` finds a row, and `load` reads up to four of its weights as floats, zeros behind `n`; `whole` where there are
// four and rows have a multiple of four weights. A value of the type is one row that is being rewritten, by a group of threads that all
// do the same: they `cover` all new weights, `agree`, `store` all of them, and `finish`. Where a format is not RANGED, a weight is stored
// by itself, and all but `store` does nothing.

// Random word of a column: spec::random::word.
__device__ __forceinline__ u32 random_word(u64 row, u32 column) {
    u32 x = (u32)row + column * 0x9e3779b9u;
    x = ((x ^ x >> 16) * 0x7feb352du) ^ (u32)(row >> 32);
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

// How the weights of a row are rounded in a step: `RowStore::rounding`.
struct Rounding {
    bool random; // whether at random; otherwise to nearest
    u32 column;  // first column of the row in the whole table
    u64 bits;    // random bits of the row

    __device__ __forceinline__ Rounding(const TableCall &table, u64 row, u64 step)
        : random(table.random), column(table.first_column), bits(0) {
        if (!random) return;
        if (table.names) row = table.names[row];
        bits = mix(table.key + ((step << 32) + table.first_row + row) * 0x9e3779b97f4a7c15ull);
    }

    __device__ __forceinline__ u32 word(u32 e) const { return random_word(bits, column + e); }
};

// Four floats, one by one.
__device__ __forceinline__ float get4(float4 v, u32 k) { return k == 0 ? v.x : k == 1 ? v.y : k == 2 ? v.z : v.w; }

// Rows of floats.
struct RowF32 {
    static constexpr bool RANGED = false;
    typedef float Number;
    float *at;

    static __device__ __forceinline__ float *of(const TableCall &table, u64 row) { return table.weights + row * table.dim; }

    static __device__ __forceinline__ float4 load(const float *row, u32, u32 e, u32 n, bool whole) { return load4(row + e, n, whole); }

    __device__ __forceinline__ RowF32(const TableCall &table, u64 row, u64) : at(of(table, row)) {}
    __device__ __forceinline__ void cover(float4, u32) {}
    __device__ __forceinline__ void agree(u32) {}
    __device__ __forceinline__ void store(u32 e, float4 v, u32 n, bool whole) const { store4(at + e, v, n, whole); }
    __device__ __forceinline__ void finish(u32, u32) const {}
};

#define INFINITE_BITS 0x7f800000u

// IEEE's binary16. Numbers beyond the largest become that one.
struct F16 {
    // 2⁻¹⁴, the smallest normal number, as a float.
    static constexpr u32 SMALLEST_NORMAL = 113u << 23;

    static __device__ __forceinline__ float decode(u16 bits) {
        float x;
        asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
        return x;
    }

    static __device__ __forceinline__ u32 kept(u32 size, u32 rounded) {
        // Numbers that no f16 comes near may have wrapped around.
        u32 finite = size >= 0x47800000u ? 0x7bffu : min(rounded, 0x7bffu);
        return size > INFINITE_BITS ? 0x7e00u : finite;
    }

    // Nearest, ties to even.
    static __device__ __forceinline__ u32 nearest(u32 size) {
        u32 normal = (size - (112u << 23) + (0xfffu + (size >> 13 & 1))) >> 13;
        // Added to ½, whose last bit is worth 2⁻²⁴ as that of a small f16 is, a number is rounded by the addition.
        u32 small = __float_as_uint(__fadd_rn(__uint_as_float(size), 0.5f)) - __float_as_uint(0.5f);
        return kept(size, size < SMALLEST_NORMAL ? small : normal);
    }

    // One of the two numbers around it, the upper one with the probability of its nearness.
    static __device__ __forceinline__ u32 at_random(u32 size, u32 random) {
        u32 normal = (size - (112u << 23) + (random >> 19)) >> 13;
        // In steps of 2⁻²⁴, the last bit of a small f16.
        float steps = __fmul_rn(__uint_as_float(min(size, SMALLEST_NORMAL)), 16777216.0f), below = floorf(steps);
        bool up = __fsub_rn(steps, below) >= __fsub_rn(1.0f, __fmul_rn((float)(random >> 8), 1.0f / 16777216.0f));
        return kept(size, size < SMALLEST_NORMAL ? (u32)below + up : normal);
    }
};

// The upper half of a float. Numbers beyond the largest become that one.
struct Bf16 {
    static __device__ __forceinline__ float decode(u16 bits) { return __uint_as_float((u32)bits << 16); }

    static __device__ __forceinline__ u32 kept(u32 size, u32 rounded) {
        return size > INFINITE_BITS ? 0x7fc0u : min(rounded, 0x7f7fu);
    }

    // Nearest, ties to even.
    static __device__ __forceinline__ u32 nearest(u32 size) { return kept(size, (size + 0x7fffu + (size >> 16 & 1)) >> 16); }

    // One of the two numbers around it, the upper one with the probability of its nearness.
    static __device__ __forceinline__ u32 at_random(u32 size, u32 random) { return kept(size, (size + (random >> 16)) >> 16); }
};

// Rows of numbers of 16 bits.
template <class Half> struct RowOfHalves {
    static constexpr bool RANGED = false;
    typedef u16 Number;
    u16 *at;
    Rounding rounding;

    static __device__ __forceinline__ u16 *of(const TableCall &table, u64 row) { return (u16 *)table.weights + row * table.dim; }

    static __device__ __forceinline__ float4 load(const u16 *row, u32, u32 e, u32 n, bool whole) {
        const u16 *from = row + e;
        if (whole) {
            uint2 four = *(const uint2 *)from;
            return make_float4(
                Half::decode((u16)four.x), Half::decode((u16)(four.x >> 16)), Half::decode((u16)four.y), Half::decode((u16)(four.y >> 16)));
        }
        float4 v = make_float4(Half::decode(from[0]), 0.0f, 0.0f, 0.0f);
        if (n > 1) v.y = Half::decode(from[1]);
        if (n > 2) v.z = Half::decode(from[2]);
        if (n > 3) v.w = Half::decode(from[3]);
        return v;
    }

    __device__ __forceinline__ RowOfHalves(const TableCall &table, u64 row, u64 step)
        : at(of(table, row)), rounding(table, row, step) {}

    __device__ __forceinline__ u32 encode(float x, u32 e) const {
        u32 size = __float_as_uint(x) & 0x7fffffffu, sign = __float_as_uint(x) >> 16 & 0x8000u;
        return sign | (rounding.random ? Half::at_random(size, rounding.word(e)) : Half::nearest(size));
    }

    __device__ __forceinline__ void cover(float4, u32) {}
    __device__ __forceinline__ void agree(u32) {}

    __device__ __forceinline__ void store(u32 e, float4 v, u32 n, bool whole) const {
        if (whole) {
            *(uint2 *)(at + e) =
                make_uint2(encode(v.x, e) | encode(v.y, e + 1) << 16, encode(v.z, e + 2) | encode(v.w, e + 3) << 16);
            return;
        }
        for (u32 k = 0; k < n; k++) at[e + k] = (u16)encode(get4(v, k), e + k);
    }

    __device__ __forceinline__ void finish(u32, u32) const {}
};

typedef RowOfHalves<F16> RowF16;
typedef RowOfHalves<Bf16> RowBf16;

// Rows of codes of 8 bits, then their scale, then their minimum, both floats: weights are `minimum + scale * code`. Scale and minimum
// follow from the smallest and the largest weight whenever a row is written. A row with a weight that is not finite, or of a range that
// is not, becomes NaN as a whole.
struct RowInt8 {
    static constexpr bool RANGED = true;
    typedef u8 Number;
    u8 *at;
    u32 dim;
    Rounding rounding;
    float least, most;
    bool finite;
    float scale, minimum, steps;

    // A float at an address of any alignment; `whole` where it is aligned.
    static __device__ __forceinline__ float read_float(const u8 *from, bool whole) {
        if (whole) return *(const float *)from;
        return __uint_as_float((u32)from[0] | (u32)from[1] << 8 | (u32)from[2] << 16 | (u32)from[3] << 24);
    }

    static __device__ __forceinline__ void write_float(u8 *to, float value) {
        u32 bits = __float_as_uint(value);
        for (u32 k = 0; k < 4; k++) to[k] = (u8)(bits >> 8 * k);
    }

    static __device__ __forceinline__ u8 *of(const TableCall &table, u64 row) { return (u8 *)table.weights + row * (table.dim + 8); }

    static __device__ __forceinline__ float4 load(const u8 *row, u32 dim, u32 e, u32 n, bool whole) {
        float scale = read_float(row + dim, whole), minimum = read_float(row + dim + 4, whole);
        u32 codes = 0;
        if (whole) codes = *(const u32 *)(row + e);
        else for (u32 k = 0; k < n; k++) codes |= (u32)row[e + k] << 8 * k;
        auto weight = [&](u32 k) {
            return k < n ? __fadd_rn(minimum, __fmul_rn(scale, (float)(codes >> 8 * k & 255))) : 0.0f;
        };
        return make_float4(weight(0), weight(1), weight(2), weight(3));
    }

    __device__ __forceinline__ RowInt8(const TableCall &table, u64 row, u64 step)
        : at(of(table, row)), dim(table.dim), rounding(table, row, step),
          least(__uint_as_float(INFINITE_BITS)), most(-__uint_as_float(INFINITE_BITS)), finite(true), scale(0.0f), minimum(0.0f),
          steps(0.0f) {}

    __device__ __forceinline__ void cover(float4 v, u32 n) {
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
            if (k >= n) break;
            float x = get4(v, k);
            least = x < least ? x : least;
            most = x > most ? x : most;
            finite = finite && (__float_as_uint(x) & 0x7fffffffu) < INFINITE_BITS;
        }
    }

    __device__ __forceinline__ void agree(u32 lanes) {
        u32 mask = group_mask(lanes);
        for (u32 apart = lanes / 2; apart > 0; apart /= 2) {
            least = fminf(least, __shfl_xor_sync(mask, least, apart));
            most = fmaxf(most, __shfl_xor_sync(mask, most, apart));
        }
        finite = __all_sync(mask, finite);
        scale = __fdiv_rn(__fsub_rn(most, least), 255.0f);
        if (!finite || __float_as_uint(scale) >= INFINITE_BITS) {
            scale = 0.0f;
            minimum = __uint_as_float(0x7fc00000u);
        } else {
            // Weights that differ by less than a normal float are one weight; there is one zero.
            scale = __float_as_uint(scale) < 0x00800000u ? 0.0f : scale;
            minimum = __fadd_rn(least, 0.0f);
        }
        steps = scale > 0.0f ? __frcp_rn(scale) : 0.0f;
    }

    __device__ __forceinline__ u32 encode(float x, u32 e) const {
        float at = __fmul_rn(__fsub_rn(x, minimum), steps);
        // Of [0, 1), with 24 bits; otherwise the nearest whole number, ties to even.
        if (rounding.random) at = __fadd_rn(at, __fmul_rn((float)(rounding.word(e) >> 8), 1.0f / 16777216.0f));
        else at = rintf(at);
        // In this order NaN becomes 0.
        at = at > 0.0f ? at : 0.0f;
        return (u32)(at < 255.0f ? at : 255.0f);
    }

    __device__ __forceinline__ void store(u32 e, float4 v, u32 n, bool whole) const {
        if (whole) {
            *(u32 *)(at + e) = encode(v.x, e) | encode(v.y, e + 1) << 8 | encode(v.z, e + 2) << 16 | encode(v.w, e + 3) << 24;
            return;
        }
        for (u32 k = 0; k < n; k++) at[e + k] = (u8)encode(get4(v, k), e + k);
    }

    __device__ __forceinline__ void finish(u32 lane, u32 lanes) const {
        // All threads of the group have read the scale and the minimum that were there.
        __syncwarp(group_mask(lanes));
        if (lane > 0) return;
        if (dim % 4 == 0) {
            (*(float *)(at + dim) = scale), (*(float *)(at + dim + 4) = minimum);
            return;
        }
        write_float(at + dim, scale);
        write_float(at + dim + 4, minimum);
    }
};
