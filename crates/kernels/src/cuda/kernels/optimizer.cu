// Updates of dense weights. kernels.rs puts rules.cuh before this file.

// One update of all weights by a rule that looks at each weight alone. `first` and `second` are the parts of the state, as far as
// the rule keeps any; clipping and scaling change gradients in place.
template <int KEPT>
__device__ __forceinline__ void update_each(const Rule &rule, u64 len, float *weights, float *gradient, float *first, float *second) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    auto one = [&](float &w, float &g, float &a, float &b) {
        w = rule_element(rule, w, g, a, b);
        g = rule_gradient(rule, g);
    };
    u64 fours = (((u64)weights | (u64)gradient | (KEPT > 0 ? (u64)first : 0) | (KEPT > 1 ? (u64)second : 0)) & 15) == 0 ? len / 4 : 0;
    for (u64 i = thread; i < fours; i += threads) {
        float4 w = ((float4 *)weights)[i], g = ((float4 *)gradient)[i], a = make_float4(0, 0, 0, 0), b = a;
        if (KEPT > 0) a = ((float4 *)first)[i];
        if (KEPT > 1) b = ((float4 *)second)[i];
        one(w.x, g.x, a.x, b.x);
        one(w.y, g.y, a.y, b.y);
        one(w.z, g.z, a.z, b.z);
        one(w.w, g.w, a.w, b.w);
        ((float4 *)weights)[i] = w;
        if (rule.changes) ((float4 *)gradient)[i] = g;
        if (KEPT > 0) ((float4 *)first)[i] = a;
        if (KEPT > 1) ((float4 *)second)[i] = b;
    }
    for (u64 i = 4 * fours + thread; i < len; i += threads) {
        float w = weights[i], g = gradient[i], a = KEPT > 0 ? first[i] : 0.0f, b = KEPT > 1 ? second[i] : 0.0f;
        one(w, g, a, b);
        weights[i] = w;
        if (rule.changes) gradient[i] = g;
        if (KEPT > 0) first[i] = a;
        if (KEPT > 1) second[i] = b;
    }
}

extern "C" __global__ void update_dense(Rule rule, u64 len, float *weights, float *gradient, float *state) {
    if (rule.kind == RULE_SGD) update_each<0>(rule, len, weights, gradient, 0, 0);
    else if (rule.kind == RULE_ADAGRAD) update_each<1>(rule, len, weights, gradient, state, 0);
    else update_each<2>(rule, len, weights, gradient, state, state + len);
}

// What comes before every rule, as a pass of its own.
extern "C" __global__ void before_the_rule(Rule rule, u64 len, float *weights, float *gradient) {
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x, threads = (u64)gridDim.x * blockDim.x;
    for (u64 i = thread; i < len; i += threads) {
        if (rule.changes) gradient[i] = rule_gradient(rule, gradient[i]);
        if (rule.decay != 0.0f) weights[i] = rule_decayed(rule, weights[i]);
    }
}

// A tensor of LAMB: its elements, and the number of chunks of all tensors before it.
struct Tensor {
    u64 begin, end, before;
};

// Elements of a chunk, which a block of 256 has.
#define CHUNK 4096

// The elements that a chunk has, and its tensor.
__device__ __forceinline__ unsigned chunk_of(const Tensor *tensors, unsigned count, u64 &begin, u64 &end) {
    unsigned low = 0, high = count;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (tensors[middle].before <= blockIdx.x) low = middle;
        else high = middle;
    }
    begin = tensors[low].begin + (blockIdx.x - tensors[low].before) * CHUNK;
    end = begin + CHUNK < tensors[low].end ? begin + CHUNK : tensors[low].end;
    return low;
}

// Sum over the threads of a block of 256, in a fixed order; thread 0 has the sum.
__device__ __forceinline__ double sum_of_block(double value) {
    __shared__ double sums[8];
    for (int distance = 16; distance; distance /= 2) value += __shfl_down_sync(0xffffffff, value, distance);
    __syncthreads();
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 1; i < 8; i++) value += sums[i];
    return value;
}

// LAMB, first pass: moments, and the squares of weights and direction by chunk, at norms[2·chunk].
extern "C" __global__ void lamb_moments(Rule rule, const Tensor *tensors, unsigned count, u64 len, const float *weights,
                                        const float *gradient, float *state, double *norms) {
    u64 begin, end;
    chunk_of(tensors, count, begin, end);
    double of_weights = 0.0, of_direction = 0.0;
    for (u64 i = begin + threadIdx.x; i < end; i += 256) {
        float w = weights[i], m = state[i], v = state[len + i];
        rule_moments(rule, gradient[i], m, v);
        state[i] = m;
        state[len + i] = v;
        double direction = rule_lamb_direction(rule, w, m, v);
        of_weights += (double)w * w;
        of_direction += direction * direction;
    }
    of_weights = sum_of_block(of_weights);
    of_direction = sum_of_block(of_direction);
    if (threadIdx.x == 0) {
        norms[2 * blockIdx.x] = of_weights;
        norms[2 * blockIdx.x + 1] = of_direction;
    }
}

// LAMB, second pass: the rate of each tensor. A block of 256 for each.
extern "C" __global__ void lamb_rates(Rule rule, const Tensor *tensors, u64 chunks, unsigned count, const double *norms, float *rates) {
    u64 begin = tensors[blockIdx.x].before, end = blockIdx.x + 1 < count ? tensors[blockIdx.x + 1].before : chunks;
    double of_weights = 0.0, of_direction = 0.0;
    for (u64 c = begin + threadIdx.x; c < end; c += 256) {
        of_weights += norms[2 * c];
        of_direction += norms[2 * c + 1];
    }
    of_weights = sum_of_block(of_weights);
    of_direction = sum_of_block(of_direction);
    if (threadIdx.x == 0) rates[blockIdx.x] = rule_lamb_rate(rule, of_weights, of_direction);
}

// LAMB, third pass: weights.
extern "C" __global__ void lamb_weights(Rule rule, const Tensor *tensors, unsigned count, u64 len, float *weights, const float *state,
                                        const float *rates) {
    u64 begin, end;
    float rate = rates[chunk_of(tensors, count, begin, end)];
    for (u64 i = begin + threadIdx.x; i < end; i += 256) {
        float w = weights[i];
        weights[i] = rule_step(w, rate, rule_lamb_direction(rule, w, state[i], state[len + i]));
    }
}
