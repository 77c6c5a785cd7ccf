// What all kernels share. No include files: they may be absent where kernels are compiled.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define WARP 32
#define FULL 0xffffffffu

// Words of the fault record, by what went wrong; all ones where nothing did (see cuda/fault.rs).
#define FAULT_ID 0
#define FAULT_NOT_FINITE 1
#define FAULT_VALUES 2

// An id that is not below the number of rows of its table. The smallest table, then the smallest id is kept.
__device__ __forceinline__ void fault_id(u64 *faults, u32 table, u32 id) {
    atomicMin(faults + FAULT_ID, (u64)table << 32 | id);
}

// A value that is not finite: the smallest offset is kept. Kinds: 0 NaN, 1 inf, 2 -inf.
__device__ __forceinline__ void fault_not_finite(u64 *faults, u64 at, float value) {
    u64 kind = value != value ? 0 : value > 0.0f ? 1 : 2;
    atomicMin(faults + FAULT_NOT_FINITE, at << 2 | kind);
}

// Bags that end behind the values: the farthest end is kept.
__device__ __forceinline__ void fault_values(u64 *faults, u64 end) {
    atomicMin(faults + FAULT_VALUES, ~0ull - 1 - end);
}

// Random numbers by counter: spec::random.
__device__ __forceinline__ u64 mix(u64 x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}
