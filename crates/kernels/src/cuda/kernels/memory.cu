// Bytes set to one value, for memory that a queue needs cleared.

extern "C" __global__ void set_words(u32 *to, u64 words, u32 value) {
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < words) to[i] = value;
}
