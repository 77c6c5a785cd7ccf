// Floats as they are, and floats as bf16. Put before the sources of a module by kernels.rs, behind common.cuh.

// A float as bf16, rounded to nearest even; a NaN stays one.
__device__ __forceinline__ u16 bf16_of(float value) {
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// Two floats as bf16 in one word, the first in its lower half.
__device__ __forceinline__ u32 bf16_pair(float first, float second) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}

__device__ __forceinline__ float float_of(float value) { return value; }
__device__ __forceinline__ float float_of(u16 bits) { return __uint_as_float((u32)bits << 16); }

__device__ __forceinline__ void put(float *to, float value) { *to = value; }
__device__ __forceinline__ void put(u16 *to, float value) { *to = bf16_of(value); }

// A float as the bits that are stored.
__device__ __forceinline__ float stored_as(const float *, float value) { return value; }
__device__ __forceinline__ u16 stored_as(const u16 *, float value) { return bf16_of(value); }

// Four floats, aligned to their size.
__device__ __forceinline__ void put4(float *to, float4 v) { *(float4 *)to = v; }
__device__ __forceinline__ void put4(u16 *to, float4 v) { *(uint2 *)to = make_uint2(bf16_pair(v.x, v.y), bf16_pair(v.z, v.w)); }

// A float as it is after it was stored.
__device__ __forceinline__ float rounded_as(const float *, float value) { return value; }
__device__ __forceinline__ float rounded_as(const u16 *, float value) { return float_of(bf16_of(value)); }

// The floats of 16 bytes.
struct Four {
    static const u32 COUNT = 4;
    float of[4];
};
struct Eight {
    static const u32 COUNT = 8;
    float of[8];
};

__device__ __forceinline__ Four load16(const float *from) {
    float4 v = *(const float4 *)from;
    return {v.x, v.y, v.z, v.w};
}
__device__ __forceinline__ Eight load16(const u16 *from) {
    uint4 v = *(const uint4 *)from;
    auto low = [](u32 pair) { return __uint_as_float(pair << 16); };
    auto high = [](u32 pair) { return __uint_as_float(pair & 0xffff0000u); };
    return {low(v.x), high(v.x), low(v.y), high(v.y), low(v.z), high(v.z), low(v.w), high(v.w)};
}
__device__ __forceinline__ void store16(float *to, const Four &v) { *(float4 *)to = make_float4(v.of[0], v.of[1], v.of[2], v.of[3]); }
__device__ __forceinline__ void store16(u16 *to, const Eight &v) {
    *(uint4 *)to = make_uint4(
        bf16_pair(v.of[0], v.of[1]), bf16_pair(v.of[2], v.of[3]), bf16_pair(v.of[4], v.of[5]), bf16_pair(v.of[6], v.of[7]));
}
