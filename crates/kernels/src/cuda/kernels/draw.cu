// Initial weights of a shard: weight (r, c) of the whole table is number r·dim + c of a sequence, in ±bound.

extern "C" __global__ void draw_weights(
    float *weights, u64 count, u64 key, float bound, u64 dim, u64 first_row, u64 first_column, u64 columns) {
    u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        u64 row = i / columns, column = i - row * columns;
        u64 bits = mix(key + ((first_row + row) * dim + first_column + column) * 0x9e3779b97f4a7c15ull);
        float unit = __fmul_rn((float)(bits >> 40), 1.0f / 16777216.0f);
        weights[i] = __fmul_rn(__fsub_rn(__fmul_rn(unit, 2.0f), 1.0f), bound);
    }
}
