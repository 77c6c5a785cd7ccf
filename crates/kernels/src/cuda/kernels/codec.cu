// Rows of floats as bytes, and ordered sums of such rows: bit for bit what reference::codec gives.
//
// Four values in a row are a quad: in every codec it takes whole bytes of its own. A group of threads (1 to 32 lanes of a warp,
// or a whole block) encodes or decodes a part of a row, a quad each in turn. Rows of codecs with a header are one part.
// Arithmetic that decides bits is by intrinsics, which the compiler neither contracts nor reorders.

enum Codec { F32, F16, BF16, E4M3, E5M2, U8, U4, U2 };

template <Codec C> struct Format {
    static constexpr bool float8 = C == E4M3 || C == E5M2, unsigned_ = C >= U8, header = C >= E4M3;
    static constexpr int bits = C == F32 ? 32 : C <= BF16 ? 16 : C == U4 ? 4 : C == U2 ? 2 : 8;
    static constexpr int header_bytes = unsigned_ ? 8 : float8 ? 4 : 0;
    static constexpr int quad_bytes = bits / 2;
    // 8-bit floats: bits of the mantissa, exponent that stands for 1, code of the largest finite value, and that value.
    static constexpr int mantissa = C == E4M3 ? 3 : 2, bias = C == E4M3 ? 7 : 15, most = C == E4M3 ? 0x7e : 0x7b;
    static constexpr float max = C == E4M3 ? 448.0f : 57344.0f;
    // Unsigned integers: the largest code.
    static constexpr float levels = (float)((1 << (bits < 32 ? bits : 8)) - 1);
};

// Random numbers of stochastic rounding.
struct Dice {
    u32 low, high;
    bool nearest;
    // Number of the value at an offset, in 24 bits: spec::random::word.
    __device__ u32 die(u32 offset) const {
        u32 x = low + offset * 0x9e3779b9u;
        x = (x ^ x >> 16) * 0x7feb352du ^ high;
        x = (x ^ x >> 15) * 0x846ca68bu;
        return (x ^ x >> 16) >> 8;
    }
};

// What a header says, and what follows from it for encoding.
struct Header {
    float scale, low, inverse, quarter;
};

__device__ __forceinline__ bool is_finite(float x) { return (__float_as_uint(x) & 0x7fffffffu) < 0x7f800000u; }

// Header of a row of finite values from `low` to `high`, or up to `high` in absolute value.
template <Codec C> __device__ __forceinline__ Header header_of(float low, float high) {
    const float smallest = __uint_as_float(7u << 23);
    Header h = {0.0f, 0.0f, 0.0f, 0.0f};
    if constexpr (Format<C>::float8) {
        if (high != 0.0f) {
            float scale = __fdiv_rn(high, Format<C>::max);
            h.scale = scale < smallest ? smallest : scale;
            h.inverse = __fdiv_rn(1.0f, h.scale);
        }
    } else {
        h.low = __fadd_rn(low, 0.0f);
        h.quarter = __fmul_rn(h.low, 0.25f);
        if (high != h.low) {
            float range = __fsub_rn(__fmul_rn(high, 0.5f), __fmul_rn(h.low, 0.5f));
            float scale = __fdiv_rn(range, Format<C>::levels * 0.5f);
            scale = scale < smallest ? smallest : scale;
            // The largest code must not be decoded to an infinity: 1 - 2^-22, from half of the largest float on.
            h.scale = high >= __uint_as_float(0x7effffffu) ? __fmul_rn(scale, __uint_as_float(0x3f7ffffcu)) : scale;
            h.inverse = __fdiv_rn(4.0f, h.scale);
        }
    }
    return h;
}

__device__ __forceinline__ u32 f16_nearest(float x) {
    u32 bits = __float_as_uint(x);
    // A NaN keeps what fits of it.
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16 & 0x8000u) | 0x7e00u | (bits >> 13 & 0x3ffu);
    u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

__device__ __forceinline__ float f16_decoded(u32 code) {
    if ((code & 0x7fffu) > 0x7c00u) return __uint_as_float((code & 0x8000u) << 16 | 0x7fc00000u | (code & 0x3ffu) << 13);
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((u16)code));
    return x;
}

__device__ __forceinline__ u32 f16_random(float x, u32 die) {
    u16 towards_zero;
    asm("cvt.rz.f16.f32 %0, %1;" : "=h"(towards_zero) : "f"(fabsf(x)));
    u32 below = towards_zero, exponent = below >> 10;
    // The distance to the next value is 2^(exponent - 25); infinity stands where the next value would be.
    float rest = __fsub_rn(fabsf(x), f16_decoded(below));
    float chance = __fmul_rn(rest, __uint_as_float((127 + 49 - (exponent > 1 ? exponent : 1)) << 23));
    return (__float_as_uint(x) >> 16 & 0x8000u) | (below + ((float)die < chance));
}

__device__ __forceinline__ u32 bf16_encoded(float x, const Dice &dice, u32 offset) {
    u32 bits = __float_as_uint(x), below = bits >> 16, rest = bits & 0xffffu;
    if ((bits & 0x7fffffffu) > 0x7f800000u) return below | 0x40u;
    bool up = dice.nearest ? rest > 0x8000u || (rest == 0x8000u && (below & 1)) : dice.die(offset) < rest << 8;
    return below + up;
}

// Code of a value of a row.
template <Codec C> __device__ __forceinline__ u32 encoded(float x, const Header &h, const Dice &dice, u32 offset) {
    typedef Format<C> F;
    if constexpr (C == F32) return __float_as_uint(x);
    if constexpr (C == F16) return dice.nearest || !is_finite(x) ? f16_nearest(x) : f16_random(x, dice.die(offset));
    if constexpr (C == BF16) return bf16_encoded(x, dice, offset);
    if constexpr (F::float8) {
        float scaled = __fmul_rn(x, h.inverse), size = fabsf(scaled);
        u32 sign = __float_as_uint(scaled) >> 24 & 0x80u, bits = __float_as_uint(size), below, rest;
        if (bits >> 23 > 127 - F::bias) {
            below = (bits >> (23 - F::mantissa)) - ((127 - F::bias) << F::mantissa);
            rest = (bits & ((1u << (23 - F::mantissa)) - 1)) << (1 + F::mantissa);
            if (below >= F::most) return sign | F::most;
        } else {
            // Below the normal numbers, in units of the smallest.
            float place = __fmul_rn(size, (float)(1 << (F::bias - 1 + F::mantissa)));
            below = (u32)place;
            float fraction = __fsub_rn(place, (float)below);
            bool up = dice.nearest ? fraction > 0.5f || (fraction == 0.5f && (below & 1))
                                   : (float)dice.die(offset) < __fmul_rn(fraction, 16777216.0f);
            return sign | (below + up);
        }
        bool up = dice.nearest ? rest > 0x800000u || (rest == 0x800000u && (below & 1)) : dice.die(offset) < rest;
        return sign | (below + up);
    }
    if constexpr (F::unsigned_) {
        float place = fminf(__fmul_rn(__fsub_rn(__fmul_rn(x, 0.25f), h.quarter), h.inverse), F::levels);
        if (dice.nearest) return (u32)rintf(place);
        float below = floorf(place);
        return (u32)below + ((float)dice.die(offset) < __fmul_rn(__fsub_rn(place, below), 16777216.0f));
    }
}

// Value of a code of a row.
template <Codec C> __device__ __forceinline__ float decoded(u32 code, const Header &h) {
    typedef Format<C> F;
    if constexpr (C == F32) return __uint_as_float(code);
    if constexpr (C == F16) return f16_decoded(code);
    if constexpr (C == BF16) return __uint_as_float(((code & 0x7fffu) > 0x7f80u ? code | 0x40u : code) << 16);
    if constexpr (F::float8) {
        u32 size = code & 0x7fu, sign = (code & 0x80u) << 24;
        // Exponents are moved by a product, which makes normal numbers of subnormal ones.
        float x = __fmul_rn(__uint_as_float(size << (23 - F::mantissa)), __uint_as_float((254 - F::bias) << 23));
        if (size > F::most) x = __uint_as_float(C == E5M2 && (size & 3) == 0 ? 0x7f800000u : 0x7fc00000u);
        return __fmul_rn(h.scale, __uint_as_float(__float_as_uint(x) | sign));
    }
    if constexpr (F::unsigned_) return __fmaf_rn(h.scale, (float)code, h.low);
}

__device__ __forceinline__ bool aligned(const void *p, int bytes) { return ((u64)p & (bytes - 1)) == 0; }

__device__ __forceinline__ u32 load_word(const u8 *p) {
    if (aligned(p, 4)) return *(const u32 *)p;
    return p[0] | p[1] << 8 | p[2] << 16 | (u32)p[3] << 24;
}

__device__ __forceinline__ void store_word(u8 *p, u32 word) {
    if (aligned(p, 4)) { *(u32 *)p = word; return; }
    for (int i = 0; i < 4; i++) p[i] = word >> 8 * i;
}

// `n` values, up to four, of a quad.
__device__ __forceinline__ void load_floats(const float *p, u32 n, float (&x)[4]) {
    if (n == 4 && aligned(p, 16)) {
        float4 all = *(const float4 *)p;
        x[0] = all.x, x[1] = all.y, x[2] = all.z, x[3] = all.w;
    } else {
        for (int i = 0; i < 4; i++) x[i] = i < n ? p[i] : 0.0f;
    }
}

__device__ __forceinline__ void store_floats(float *p, u32 n, const float (&x)[4]) {
    if (n == 4 && aligned(p, 16)) *(float4 *)p = make_float4(x[0], x[1], x[2], x[3]);
    else for (int i = 0; i < 4; i++) if (i < n) p[i] = x[i];
}

// Codes of `n` values of a quad, as bytes.
template <Codec C> __device__ __forceinline__ void store_codes(u8 *p, u32 n, const u32 (&code)[4]) {
    constexpr int bits = Format<C>::bits, bytes = Format<C>::quad_bytes;
    bool whole = n == 4 && aligned(p, bytes);
    if constexpr (bits == 32) {
        if (whole) *(uint4 *)p = make_uint4(code[0], code[1], code[2], code[3]);
        else for (int i = 0; i < 4; i++) if (i < n) store_word(p + 4 * i, code[i]);
    } else if constexpr (bits == 16) {
        if (whole) *(uint2 *)p = make_uint2(code[0] | code[1] << 16, code[2] | code[3] << 16);
        else for (int i = 0; i < 4; i++) if (i < n) p[2 * i] = code[i], p[2 * i + 1] = code[i] >> 8;
    } else {
        u32 word = 0;
        for (int i = 0; i < 4; i++) if (i < n) word |= code[i] << bits * i;
        if (whole && bytes == 4) *(u32 *)p = word;
        else if (whole && bytes == 2) *(u16 *)p = word;
        else for (int i = 0; i < bytes; i++) if (8 * i < n * bits) p[i] = word >> 8 * i;
    }
}

template <Codec C> __device__ __forceinline__ void load_codes(const u8 *p, u32 n, u32 (&code)[4]) {
    constexpr int bits = Format<C>::bits, bytes = Format<C>::quad_bytes;
    bool whole = n == 4 && aligned(p, bytes);
    if constexpr (bits == 32) {
        if (whole) {
            uint4 all = *(const uint4 *)p;
            code[0] = all.x, code[1] = all.y, code[2] = all.z, code[3] = all.w;
        } else for (int i = 0; i < 4; i++) code[i] = i < n ? load_word(p + 4 * i) : 0;
    } else if constexpr (bits == 16) {
        if (whole) {
            uint2 all = *(const uint2 *)p;
            code[0] = all.x & 0xffff, code[1] = all.x >> 16, code[2] = all.y & 0xffff, code[3] = all.y >> 16;
        } else for (int i = 0; i < 4; i++) code[i] = i < n ? p[2 * i] | p[2 * i + 1] << 8 : 0;
    } else {
        u32 word = 0;
        if (whole && bytes == 4) word = *(const u32 *)p;
        else if (whole && bytes == 2) word = *(const u16 *)p;
        else for (int i = 0; i < bytes; i++) if (8 * i < n * bits) word |= (u32)p[i] << 8 * i;
        for (int i = 0; i < 4; i++) code[i] = word >> bits * i & ((1u << bits) - 1);
    }
}

// Rows, repeated, and how groups of threads share them.
struct Work {
    const u64 *rows;    // start in the floats, start in the bytes, width of each; null: one row at 0
    u64 width;          // width of the one row
    u32 count;          // number of rows
    u32 parts, part;    // parts of a row, and values of a part: a multiple of four where there are several
    u32 group;          // threads of a group: 1 to 32, or those of a block
    u64 units;          // parts of all rows and repetitions
    u64 floats, bytes;  // distance between repetitions
};

// A part of a row: where it begins in the floats and in the bytes, and its number of values. In a codec with a header a part
// is a row, and its bytes begin with the header.
struct Part {
    u64 at, byte;
    u32 len;
};

template <Codec C> __device__ __forceinline__ Part part_of(const Work &work, u64 unit) {
    if (unit >= work.units) return {0, 0, 0};
    u64 k;
    u32 r, part = 0;
    if (work.units <= 0xffffffffull) {
        u32 rest = unit;
        if (work.parts > 1) part = rest % work.parts, rest /= work.parts;
        k = rest / work.count, r = rest % work.count;
    } else {
        part = unit % work.parts, unit /= work.parts;
        k = unit / work.count, r = unit % work.count;
    }
    u64 at = k * work.floats, byte = k * work.bytes, width = work.width, first = (u64)part * work.part;
    if (work.rows) at += work.rows[3 * r], byte += work.rows[3 * r + 1], width = work.rows[3 * r + 2];
    u32 len = first < width ? min((u64)work.part, width - first) : 0;
    return {at + first, byte + first / 4 * Format<C>::quad_bytes, len};
}

// Smallest and largest of a group; every thread gets both. `bad`, too: whether any thread of the group says so.
__device__ __forceinline__ void of_group(u32 group, float &low, float &high, bool &bad) {
    for (u32 o = min(group, WARP) / 2; o; o /= 2) {
        low = fminf(low, __shfl_xor_sync(FULL, low, o));
        high = fmaxf(high, __shfl_xor_sync(FULL, high, o));
        bad |= __shfl_xor_sync(FULL, (int)bad, o) != 0;
    }
    if (group <= WARP) return;
    __shared__ float lows[WARP], highs[WARP];
    __shared__ int bads[WARP];
    u32 warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    __syncthreads();
    if (threadIdx.x % WARP == 0) lows[warp] = low, highs[warp] = high, bads[warp] = bad;
    __syncthreads();
    for (u32 w = 0; w < warps; w++) low = fminf(low, lows[w]), high = fmaxf(high, highs[w]), bad |= bads[w] != 0;
}

// The four values of a quad, with their errors.
__device__ __forceinline__ void load_values(const float *from, const float *error, u32 n, float (&x)[4]) {
    load_floats(from, n, x);
    if (!error) return;
    float e[4];
    load_floats(error, n, e);
    for (int i = 0; i < 4; i++) x[i] = __fadd_rn(x[i], e[i]);
}

// `from` begins at the first row, whose offset in all floats is `offset`; `to` and `error`, if there is one, begin there too.
template <Codec C>
__device__ __forceinline__ void encode(const Work &work, const float *from, u64 offset, u8 *to, float *error, Dice dice, u64 *faults) {
    typedef Format<C> F;
    u32 groups = blockDim.x / work.group, lane = threadIdx.x % work.group;
    for (u64 unit = (u64)blockIdx.x * groups; unit < work.units; unit += (u64)gridDim.x * groups) {
        Part part = part_of<C>(work, unit + threadIdx.x / work.group);
        const float *values = from + part.at;
        float *errors = error ? error + part.at : nullptr;
        u8 *row = to + part.byte;
        Header h = {0.0f, 0.0f, 0.0f, 0.0f};
        float x[4];
        if constexpr (F::header) {
            float low = __uint_as_float(0x7f800000u), high = F::float8 ? 0.0f : -low;
            bool bad = false;
            for (u32 i = 4 * lane; i < part.len; i += 4 * work.group) {
                u32 n = min(part.len - i, 4u);
                load_values(values + i, errors ? errors + i : nullptr, n, x);
                for (int j = 0; j < 4; j++) {
                    if (j >= n) continue;
                    if (!is_finite(x[j])) fault_not_finite(faults, offset + part.at + i + j, x[j]), bad = true;
                    low = fminf(low, x[j]), high = fmaxf(high, F::float8 ? fabsf(x[j]) : x[j]);
                }
            }
            of_group(work.group, low, high, bad);
            if (bad) part.len = 0;
            h = header_of<C>(low, high);
            if (lane == 0 && part.len > 0) {
                store_word(row, __float_as_uint(h.scale));
                if (F::unsigned_) store_word(row + 4, __float_as_uint(h.low));
            }
        }
        for (u32 i = 4 * lane; i < part.len; i += 4 * work.group) {
            u32 n = min(part.len - i, 4u), code[4];
            load_values(values + i, errors ? errors + i : nullptr, n, x);
            u32 number = (u32)offset + (u32)part.at + i;
            for (int j = 0; j < 4; j++) code[j] = encoded<C>(x[j], h, dice, number + j);
            store_codes<C>(row + F::header_bytes + i / 4 * F::quad_bytes, n, code);
            if (errors) {
                for (int j = 0; j < 4; j++) x[j] = __fsub_rn(x[j], decoded<C>(code[j], h));
                store_floats(errors + i, n, x);
            }
        }
    }
}

// `from` begins at the first row of the first block, `to` at the first row.
template <Codec C>
__device__ __forceinline__ void decode(const Work &work, const u8 *from, u64 blocks, u64 block_bytes, float *to, bool add) {
    typedef Format<C> F;
    u32 groups = blockDim.x / work.group, lane = threadIdx.x % work.group;
    for (u64 unit = (u64)blockIdx.x * groups; unit < work.units; unit += (u64)gridDim.x * groups) {
        Part part = part_of<C>(work, unit + threadIdx.x / work.group);
        float *values = to + part.at;
        for (u32 i = 4 * lane; i < part.len; i += 4 * work.group) {
            u32 n = min(part.len - i, 4u), code[4];
            float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            if (add) load_floats(values + i, n, sum);
            const u8 *row = from + part.byte;
            for (u64 block = 0; block < blocks; block++, row += block_bytes) {
                Header h = {0.0f, 0.0f, 0.0f, 0.0f};
                if (F::header) h.scale = __uint_as_float(load_word(row));
                if (F::unsigned_) h.low = __uint_as_float(load_word(row + 4));
                load_codes<C>(row + F::header_bytes + i / 4 * F::quad_bytes, n, code);
                for (int j = 0; j < 4; j++) {
                    float x = decoded<C>(code[j], h);
                    sum[j] = block == 0 && !add ? x : __fadd_rn(sum[j], x);
                }
            }
            store_floats(values + i, n, sum);
        }
    }
}

#define CODEC(C, name)                                                                                                         \
    extern "C" __global__ void __launch_bounds__(256)                                                                          \
    encode_##name(const u64 *rows, u64 width, u32 count, u32 parts, u32 part, u32 group, u64 units, u64 floats, u64 bytes,      \
                  const float *from, u64 offset, u8 *to, float *error, u32 low, u32 high, u32 nearest, u64 *faults) {           \
        encode<C>({rows, width, count, parts, part, group, units, floats, bytes}, from, offset, to, error,                      \
                  {low, high, nearest != 0}, faults);                                                                           \
    }                                                                                                                          \
    extern "C" __global__ void __launch_bounds__(256)                                                                          \
    decode_##name(const u64 *rows, u64 width, u32 count, u32 parts, u32 part, u32 group, u64 units, u64 floats, u64 bytes,      \
                  const u8 *from, u64 blocks, u64 block_bytes, float *to, u32 add) {                                            \
        decode<C>({rows, width, count, parts, part, group, units, floats, bytes}, from, blocks, block_bytes, to, add != 0);     \
    }

CODEC(F32, f32)
CODEC(F16, f16)
CODEC(BF16, bf16)
CODEC(E4M3, e4m3)
CODEC(E5M2, e5m2)
CODEC(U8, u8)
CODEC(U4, u4)
CODEC(U2, u2)
