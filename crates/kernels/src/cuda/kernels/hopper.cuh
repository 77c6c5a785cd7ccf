// What Hopper's tensor cores and copy engine need, as inline PTX: barriers in shared memory, bulk copies of tiles by a tensor map (TMA),
// and products of a warpgroup (wgmma). For sm_90a alone.

// A tensor map, as the driver's cuTensorMapEncodeTiled writes it; a parameter that is __grid_constant__.
struct alignas(64) TensorMap {
    u64 words[16];
};

__device__ __forceinline__ u32 shared_address(const void *at) { return (u32)__cvta_generic_to_shared(at); }

// Barriers in shared memory. A phase ends when all arrivals and all bytes that were announced are there; waiting for parity p returns
// once the phase of that parity is over, so that parity 1 passes at a barrier that was just made.
__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes barriers that were initialised visible to the cluster and to the copy engine; before the threads synchronise.
__device__ __forceinline__ void barrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at the barrier that block `rank` of the cluster has at the same place.
__device__ __forceinline__ void barrier_arrive_at(u32 barrier, u32 rank) {
    asm volatile("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

__device__ __forceinline__ void barrier_arrive_and_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ bool barrier_is_over(u32 barrier, u32 parity) {
    u32 over;
    asm volatile("{\n.reg .pred over;\nmbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, over;\n}"
                 : "=r"(over)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return over;
}

// Polls of a barrier after which the kernel fails: a wait without an end would hold the card for ever. It fails by a store that the
// card refuses, since a trap would make the compiler take the branches of all warpgroups for one, with registers for the smallest.
#define MOST_POLLS (1u << 25)

__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
    for (u32 polls = 0; !barrier_is_over(barrier, parity); polls++)
        if (polls == MOST_POLLS) asm volatile("st.global.u32 [%0], %1;" ::"l"(0ull), "r"(barrier) : "memory");
}

// Places of a ring of `COUNT` stages, each with the parity of its turn.
template <u32 COUNT>
struct Place {
    u32 stage = 0, parity = 0;

    __device__ __forceinline__ void advance() {
        if (++stage == COUNT) stage = 0, parity ^= 1;
    }
};

__device__ __forceinline__ u32 rank_in_cluster() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// All threads of all blocks of the cluster meet.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// `threads` threads meet at barrier `id` of the block, which is not 0.
__device__ __forceinline__ void group_sync(u32 id, u32 threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Counts the thread among those that meet, and goes on.
__device__ __forceinline__ void group_arrive(u32 id, u32 threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

template <int COUNT>
__device__ __forceinline__ void more_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT>
__device__ __forceinline__ void fewer_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

__device__ __forceinline__ void prefetch_map(const TensorMap &map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Copies the box of a matrix at a column and a row to shared memory; its bytes are counted at the barrier. What lies outside the
// matrix is 0.
__device__ __forceinline__ void load_box(const TensorMap &map, u32 to, u32 barrier, u32 column, u32 row) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(column), "r"(row)
                 : "memory");
}

// As load_box, to the same place in every block of the cluster whose bit is set in `blocks`, each counted at the barrier there.
__device__ __forceinline__ void load_box_for(const TensorMap &map, u32 to, u32 barrier, u32 column, u32 row, u16 blocks) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(column), "r"(row), "h"(blocks)
                 : "memory");
}

// Copies a box from shared memory to a matrix; what lies outside the matrix is dropped. Threads that wrote the box called
// writes_for_copies() before they met.
__device__ __forceinline__ void store_box(const TensorMap &map, u32 from, u32 column, u32 row) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map), "r"(from),
                 "r"(column), "r"(row)
                 : "memory");
}

__device__ __forceinline__ void stores_end() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until the stores of this thread have read shared memory.
__device__ __forceinline__ void stores_have_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

__device__ __forceinline__ void writes_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ u32 load_shared(u32 at) {
    u32 value;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(at));
    return value;
}

__device__ __forceinline__ void store_shared(u32 at, u32 value) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(value) : "memory");
}

// Sixteen bytes of shared memory, at an address that is a multiple of sixteen.
struct Words {
    u32 at[4];
};

__device__ __forceinline__ Words load_shared_words(u32 at) {
    Words words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.at[0]), "=r"(words.at[1]), "=r"(words.at[2]), "=r"(words.at[3])
                 : "r"(at));
    return words;
}

__device__ __forceinline__ void store_shared_words(u32 at, u32 first, u32 second, u32 third, u32 fourth) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(first), "r"(second), "r"(third), "r"(fourth) : "memory");
}

__device__ __forceinline__ void load_shared_pair(u32 at, u32 &first, u32 &second) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(first), "=r"(second) : "r"(at));
}

// Two floats, at a multiple of eight bytes.
__device__ __forceinline__ void store_shared_pair(u32 at, float first, float second) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(first), "f"(second) : "memory");
}

// Four squares of 8 x 8 bf16, of which thread t names row t%8 of square t/8, which is 16 bytes: words[i] are columns 2*(t%4) and the next
// of row t/4 of square i, as products have them. All threads of a warp.
__device__ __forceinline__ void load_squares(u32 (&words)[16], u32 first, u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[first]), "=r"(words[first + 1]), "=r"(words[first + 2]), "=r"(words[first + 3])
                 : "r"(at)
                 : "memory");
}

__device__ __forceinline__ void store_squares(const u32 (&words)[16], u32 first, u32 at) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(words[first]),
                 "r"(words[first + 1]), "r"(words[first + 2]), "r"(words[first + 3])
                 : "memory");
}

// Two floats as bf16, rounded to nearest even; the first is in the low half.
__device__ __forceinline__ u32 pack_bf16(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// Ones in each half of the word where a bf16 is above 0 or not a number, as ReLU lets gradients through.
__device__ __forceinline__ u32 above_zero(u32 pair) {
    u32 mask;
    asm("set.gtu.u32.bf16x2 %0, %1, %2;" : "=r"(mask) : "r"(pair), "r"(0));
    return mask;
}

// Operand of a product in shared memory, in rows of 128 bytes with the 128-byte swizzle, 1024-byte aligned: eight rows to the next in
// `stride` bytes. Where rows run across the summed dimension, 64 columns to the next in `leading` bytes; else `leading` means nothing.
__device__ __forceinline__ u64 operand(u32 at, u32 leading, u32 stride) {
    return (u64)((at & 0x3ffff) >> 4) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | 1ull << 62;
}

// Registers of products are ready for the tensor cores.
__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void products_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `LEFT` groups of products are under way.
template <int LEFT>
__device__ __forceinline__ void products_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// What follows reads registers of products that have ended; the compiler is not told by the wait.
template <u32 COUNT>
__device__ __forceinline__ void products_are_done(float (&d)[COUNT]) {
#pragma unroll
    for (u32 i = 0; i < COUNT; i++) asm volatile("" : "+f"(d[i])::"memory");
}

#define HOPPER_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define HOPPER_16(i) HOPPER_4(i), HOPPER_4(i + 4), HOPPER_4(i + 8), HOPPER_4(i + 12)
#define HOPPER_64(i) HOPPER_16(i), HOPPER_16(i + 16), HOPPER_16(i + 32), HOPPER_16(i + 48)

// A warpgroup's product of 64 x 16 (rows along the sum) and 16 x COLUMNS (rows across it, or ALONG it) bf16 into f32: d = a*b, plus d
// where `add`. Thread t holds d[4j + 2h + e]: row 16*(t/32) + 8*h + t%32/4, column 8*j + 2*(t%4) + e.
template <u32 COLUMNS, bool ALONG = false>
struct Warpgroup;

template <bool ALONG>
struct Warpgroup<256, ALONG> {
    __device__ static __forceinline__ void multiply(float (&d)[128], u64 a, u64 b, u32 add) {
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 " %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 " %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                 " %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
                 "%128, %129, add, 1, 1, 0, %131;\n}"
                 : HOPPER_64(0), HOPPER_64(64)
                 : "l"(a), "l"(b), "r"(add), "n"(ALONG ? 0 : 1));
    }
};

template <bool ALONG>
struct Warpgroup<192, ALONG> {
    __device__ static __forceinline__ void multiply(float (&d)[96], u64 a, u64 b, u32 add) {
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %98, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 " %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
                 "%96, %97, add, 1, 1, 0, %99;\n}"
                 : HOPPER_64(0), HOPPER_16(64), HOPPER_16(80)
                 : "l"(a), "l"(b), "r"(add), "n"(ALONG ? 0 : 1));
    }
};

template <bool ALONG>
struct Warpgroup<128, ALONG> {
    __device__ static __forceinline__ void multiply(float (&d)[64], u64 a, u64 b, u32 add) {
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, add, 1, 1, 0, %67;\n}"
                 : HOPPER_64(0)
                 : "l"(a), "l"(b), "r"(add), "n"(ALONG ? 0 : 1));
    }
};

// A warpgroup's product of 64 x 8 and 8 x 128 tf32 into f32: d = a*b, plus d where `add`. Both run along the sum. Of a, thread t holds
// row 16*(t/32) + 8*(i%2) + t%32/4, term 4*(i/2) + t%4 as a[i], which stay as they are until the product has ended; of d as above.
__device__ __forceinline__ void multiply_tf32(float (&d)[64], const u32 (&a)[4], u64 b, u32 add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %69, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "{%64, %65, %66, %67}, %68, add, 1, 1;\n}"
                 : HOPPER_64(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}

// As Warpgroup, of tf32: a product of 64 x 8 and 8 x COLUMNS, both in shared memory in rows along the sum.
template <u32 COLUMNS>
struct WarpgroupTf32;

template <>
struct WarpgroupTf32<256> {
    __device__ static __forceinline__ void multiply(float (&d)[128], u64 a, u64 b, u32 add) {
        asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %130, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 "
                     "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                     " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                     " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                     " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                     " %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                     " %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                     " %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
                     " %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
                     "%128, %129, add, 1, 1;\n}"
                     : HOPPER_64(0), HOPPER_64(64)
                     : "l"(a), "l"(b), "r"(add));
    }
};
