// Sums of the gradients of a row, and the update of a row. Put before the sources of a module by kernels.rs, behind rules.cuh
// and formats.cuh.

// Values of a row that are summed one after another. The sums of more values are added up tile by tile, counted from the row's
// first value, so that a row's sum depends on the list of its values alone.
#define TILE 64

// Where gradients of samples are, for keys of sorted ids. As the arguments of kernels.
struct Gradients {
    const u32 *sample_of;  // sample of each value
    u64 value_count;
    const u32 *lengths;    // length of each bag
    u64 samples;           // samples of the index
    const float *weights;  // weight of each value, or null
    const float *dout;     // a row of `width` floats for each sample
    u64 dout_rows;
    u64 width;
    u64 *faults;
};

// Where the gradient of a value is, and its factor.
struct Value {
    u32 sample; // NO_ROW for none
    float scale;
};

// Sample and factor of a value; one that has no gradient is reported where `report`.
__device__ __forceinline__ Value value_of(const Gradients &of, const TableCall &table, u32 value, bool report) {
    u32 sample = value < of.value_count ? of.sample_of[value] : NO_ROW;
    if (sample >= of.samples || sample >= of.dout_rows) {
        if (report) fault_key(of.faults, table.table, value, sample, of.value_count, of.samples);
        return {NO_ROW, 0.0f};
    }
    float scale = of.weights ? of.weights[value] : 1.0f;
    if (table.mean) scale = __fdiv_rn(scale, (float)of.lengths[(u64)table.table * of.samples + sample]);
    return {sample, scale};
}

// Sum of `scale * dout[sample]` over `count` keys in their order, of the floats from `e` on; AHEAD values are on their way together.
template <u32 AHEAD> __device__ __forceinline__ float4 sum_keys(
    const Gradients &of, const TableCall &table, const u64 *keys, u32 count, u32 e, u32 n) {
    bool whole = table.dim % 4 == 0 && (of.width | table.column) % 4 == 0;
    const u32 *lengths = of.lengths + (u64)table.table * of.samples;
    float4 sum = zero4();
    for (u32 j = 0; j < count; j += AHEAD) {
        u32 value[AHEAD], sample[AHEAD];
        float scale[AHEAD];
        float4 g[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) value[k] = j + k < count ? (u32)keys[j + k] : NO_ROW;
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) {
            sample[k] = value[k] < of.value_count ? of.sample_of[value[k]] : NO_ROW;
            if (j + k < count && (sample[k] >= of.samples || sample[k] >= of.dout_rows)) {
                if (e == 0) fault_key(of.faults, table.table, value[k], sample[k], of.value_count, of.samples);
                sample[k] = NO_ROW;
            }
        }
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) {
            g[k] = zero4();
            scale[k] = 0.0f;
            if (sample[k] == NO_ROW) continue;
            g[k] = load4(of.dout + (u64)sample[k] * of.width + table.column + e, n, whole);
            scale[k] = of.weights ? of.weights[value[k]] : 1.0f;
            if (table.mean) scale[k] = __fdiv_rn(scale[k], (float)lengths[sample[k]]);
        }
#pragma unroll
        for (u32 k = 0; k < AHEAD; k++) {
            if (sample[k] != NO_ROW) sum = add_scaled4(sum, scale[k], g[k]);
        }
    }
    return sum;
}

// Keys of the row of key 0, of which there are at most `most`; more than none.
__device__ __forceinline__ u32 run_length(const u64 *keys, u32 most) {
    u32 row = row_of(keys[0]), same = 0, other = most;
    if (most > 1 && row_of(keys[1]) != row) return 1;
    while (other - same > 1) {
        u32 middle = same + (other - same) / 2;
        if (row_of(keys[middle]) == row) same = middle;
        else other = middle;
    }
    return other;
}

// What the rule sees of a gradient.
__device__ __forceinline__ float4 rule_gradient4(const Rule &rule, float4 g) {
    return make_float4(rule_gradient(rule, g.x), rule_gradient(rule, g.y), rule_gradient(rule, g.z), rule_gradient(rule, g.w));
}

// Sum of the squares of four gradients. Which products are fused with sums is said here, so that all kernels have the same bits.
__device__ __forceinline__ float squares4(float4 g) {
    return __fadd_rn(__fmaf_rn(g.x, g.x, __fmul_rn(g.y, g.y)), __fmaf_rn(g.z, g.z, __fmul_rn(g.w, g.w)));
}

// Four weights of a row under row-wise Adagrad.
__device__ __forceinline__ float4 row_wise_step4(const Rule &rule, float4 w, float rate, float4 g) {
    return make_float4(
        rule_step(rule_decayed(rule, w.x), rate, g.x), rule_step(rule_decayed(rule, w.y), rate, g.y),
        rule_step(rule_decayed(rule, w.z), rate, g.z), rule_step(rule_decayed(rule, w.w), rate, g.w));
}

// Rewrites a row of number format F. `changed(e, n, keep)` gives up to four new weights, and stores what the rule keeps of them where
// `keep`: once for each weight, at its last call. All threads of the group call this.
template <class F, class C>
__device__ __forceinline__ void rewrite(const Rule &rule, const TableCall &table, u64 row, u32 lane, const C &changed) {
    const u32 lanes = table.lanes, dim = table.dim;
    const bool whole = dim % 4 == 0;
    F to(table, row, rule.step);
    if constexpr (F::RANGED) {
        // All weights are known before the first is stored. Those that a thread cannot keep are computed again.
        bool once = dim <= lanes * 4;
        float4 x = zero4();
        for (u32 e = lane * 4; e < dim; e += lanes * 4) {
            u32 n = min(4u, dim - e);
            x = changed(e, n, once);
            to.cover(x, n);
        }
        to.agree(lanes);
        for (u32 e = lane * 4; e < dim; e += lanes * 4) {
            u32 n = min(4u, dim - e);
            if (!once) x = changed(e, n, true);
            to.store(e, x, n, whole);
        }
        to.finish(lane, lanes);
    } else {
        for (u32 e = lane * 4; e < dim; e += lanes * 4) {
            u32 n = min(4u, dim - e);
            to.store(e, changed(e, n, true), n, whole);
        }
    }
}

// Row-wise Adagrad.
template <class F, class G>
__device__ __forceinline__ void update_row_wise(const Rule &rule, const TableCall &table, u64 row, u32 lane, const G &gradient) {
    u32 lanes = table.lanes, dim = table.dim;
    float *state = table.state + row * table.each;
    float squares = 0.0f;
    float4 g = zero4();
    for (u32 e = lane * 4; e < dim; e += lanes * 4) {
        // Floats behind the row are zeros, and zeros they stay.
        g = rule_gradient4(rule, gradient(e, min(4u, dim - e)));
        squares = __fadd_rn(squares, squares4(g));
    }
    squares = group_sum(squares, lanes);
    float h = 0.0f;
    if (lane == 0) {
        h = rule_row_wise_state(state[0], squares, dim);
        state[0] = h;
    }
    h = __shfl_sync(group_mask(lanes), h, 0, lanes);
    float rate = rule_row_wise_rate(rule, h);
    bool whole = dim % 4 == 0, once = dim <= lanes * 4;
    rewrite<F>(rule, table, row, lane, [&](u32 e, u32 n, bool) {
        if (!once) g = rule_gradient4(rule, gradient(e, n));
        return row_wise_step4(rule, F::load(F::of(table, row), table.dim, e, n, whole), rate, g);
    });
}

// LAMB, a row being a tensor of its own.
template <class F, class G>
__device__ __forceinline__ void update_lamb(const Rule &rule, const TableCall &table, u64 row, u32 lane, const G &gradient) {
    u32 lanes = table.lanes, dim = table.dim;
    bool whole = dim % 4 == 0;
    double weights = 0.0, directions = 0.0;
    float *first = table.state + row * table.each, *second = first + dim;
    for (u32 e = lane * 4; e < dim; e += lanes * 4) {
        u32 n = min(4u, dim - e);
        float4 four = rule_gradient4(rule, gradient(e, n)), w = F::load(F::of(table, row), table.dim, e, n, whole);
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
            if (k >= n) break;
            float m = first[e + k], v = second[e + k], x = rule_decayed(rule, get4(w, k));
            rule_moments(rule, get4(four, k), m, v);
            first[e + k] = m;
            second[e + k] = v;
            double direction = rule_lamb_direction(rule, x, m, v);
            weights += (double)x * x;
            directions += direction * direction;
        }
    }
    float rate = rule_lamb_rate(rule, group_sum(weights, lanes), group_sum(directions, lanes));
    rewrite<F>(rule, table, row, lane, [&](u32 e, u32 n, bool) {
        float4 w = F::load(F::of(table, row), table.dim, e, n, whole);
        auto stepped = [&](u32 k, float x) {
            if (k >= n) return 0.0f;
            x = rule_decayed(rule, x);
            return rule_step(x, rate, rule_lamb_direction(rule, x, first[e + k], second[e + k]));
        };
        return make_float4(stepped(0, w.x), stepped(1, w.y), stepped(2, w.z), stepped(3, w.w));
    });
}

// One update of a row of number format F by the rule. `gradient(e, n)` gives up to four floats of the sum of its gradients, zeros behind
// `n`; it may be called several times. All threads of the group call this.
template <class F = RowF32, class G>
__device__ __forceinline__ void update_row(const Rule &rule, const TableCall &table, u64 row, u32 lane, const G &gradient) {
    if (rule.kind == RULE_ROW_WISE_ADAGRAD) return update_row_wise<F>(rule, table, row, lane, gradient);
    if (rule.kind == RULE_LAMB) return update_lamb<F>(rule, table, row, lane, gradient);
    float *state = table.state + row * table.each;
    bool whole = table.dim % 4 == 0;
    rewrite<F>(rule, table, row, lane, [&](u32 e, u32 n, bool keep) {
        float4 x = F::load(F::of(table, row), table.dim, e, n, whole), m = zero4(), v = zero4();
        if (rule.kind != RULE_SGD) m = load4(state + e, n, whole);
        if (rule.kind == RULE_ADAM) v = load4(state + table.dim + e, n, whole);
        float4 g = gradient(e, n);
        x.x = rule_element(rule, x.x, g.x, m.x, v.x);
        x.y = rule_element(rule, x.y, g.y, m.y, v.y);
        x.z = rule_element(rule, x.z, g.z, m.z, v.z);
        x.w = rule_element(rule, x.w, g.w, m.w, v.w);
        if (keep && rule.kind != RULE_SGD) store4(state + e, m, n, whole);
        if (keep && rule.kind == RULE_ADAM) store4(state + table.dim + e, v, n, whole);
        return x;
    });
}
