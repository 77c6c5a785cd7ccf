// Update rules, one weight at a time, with the bits of `reference/optimizer.rs`: every operation is rounded by itself, so that no
// compiler may fuse a product with a sum. `Rule` is `cuda/rule.rs`'s, by value: what is the same for all weights of a step.
//
// Put before the sources of a module by kernels.rs, behind common.cuh.

enum { RULE_SGD = 0, RULE_ADAGRAD = 1, RULE_ROW_WISE_ADAGRAD = 2, RULE_ADAM = 3, RULE_LAMB = 4 };

struct Rule {
    unsigned kind;    // one of RULE_…
    unsigned changes; // whether gradients are clipped or scaled before the rule
    float limit;      // largest magnitude of a gradient; infinite for none
    float scale;      // factor of a gradient, behind the limit
    float decay;      // share of a weight that decays before the rule; 0 for none
    float rate;       // learning rate
    float eps;        // added to roots
    float beta1;      // decay of the first moment
    float rest1;      // 1 - beta1
    float beta2;      // decay of the second moment
    float rest2;      // 1 - beta2
    float own;        // Adam: rate * weight decay of the rule; LAMB: weight decay of the rule
    float factor;     // factor of the first moment
    float root;       // divisor of the second moment's root; 1 in rows of tables under Adam
    u64 step;         // number of the step, where rows are rounded at random by it; 0 elsewhere
};

// Gradient as the rule sees it: clipped (a NaN stays one), then scaled.
__device__ __forceinline__ float rule_gradient(const Rule &rule, float g) {
    if (!rule.changes) return g;
    g = g > rule.limit ? rule.limit : g < -rule.limit ? -rule.limit : g;
    return __fmul_rn(g, rule.scale);
}

// Weight before the rule: decayed.
__device__ __forceinline__ float rule_decayed(const Rule &rule, float w) {
    return rule.decay == 0.0f ? w : __fsub_rn(w, __fmul_rn(rule.decay, w));
}

// w - by * direction.
__device__ __forceinline__ float rule_step(float w, float by, float direction) {
    return __fsub_rn(w, __fmul_rn(by, direction));
}

__device__ __forceinline__ float rule_sgd(const Rule &rule, float w, float g) {
    return rule_step(w, rule.rate, g);
}

__device__ __forceinline__ float rule_adagrad(const Rule &rule, float w, float g, float &h) {
    h = __fadd_rn(h, __fmul_rn(g, g));
    float divisor = __fadd_rn(__fsqrt_rn(h), rule.eps);
    return __fsub_rn(w, __fdiv_rn(__fmul_rn(rule.rate, g), divisor));
}

// Row-wise Adagrad: the row's new state, given the sum of the squares of its `dim` gradients.
__device__ __forceinline__ float rule_row_wise_state(float h, float squares, unsigned dim) {
    return __fadd_rn(h, __fdiv_rn(squares, (float)dim));
}

// Row-wise Adagrad: the rate of the whole row, given its new state. Then `rule_step(w, rate, g)`.
__device__ __forceinline__ float rule_row_wise_rate(const Rule &rule, float h) {
    return __fdiv_rn(rule.rate, __fadd_rn(__fsqrt_rn(h), rule.eps));
}

__device__ __forceinline__ void rule_moments(const Rule &rule, float g, float &m, float &v) {
    m = __fadd_rn(__fmul_rn(rule.beta1, m), __fmul_rn(rule.rest1, g));
    v = __fadd_rn(__fmul_rn(rule.beta2, v), __fmul_rn(__fmul_rn(rule.rest2, g), g));
}

// factor * m / (sqrt(v) / root + eps).
__device__ __forceinline__ float rule_quotient(const Rule &rule, float m, float v) {
    float divisor = __fadd_rn(__fdiv_rn(__fsqrt_rn(v), rule.root), rule.eps);
    return __fdiv_rn(__fmul_rn(rule.factor, m), divisor);
}

__device__ __forceinline__ float rule_adam(const Rule &rule, float w, float g, float &m, float &v) {
    rule_moments(rule, g, m, v);
    w = __fsub_rn(w, __fmul_rn(rule.own, w));
    return __fsub_rn(w, rule_quotient(rule, m, v));
}

// Direction of LAMB, given moments that are updated. Then `rule_step(w, rule_lamb_rate(…), direction)`.
__device__ __forceinline__ float rule_lamb_direction(const Rule &rule, float w, float m, float v) {
    return __fadd_rn(rule_quotient(rule, m, v), __fmul_rn(rule.own, w));
}

// Rate of LAMB for a tensor or row, given the sums of the squares of its (decayed) weights and of its direction.
__device__ __forceinline__ float rule_lamb_rate(const Rule &rule, double weights, double direction) {
    double w = __dsqrt_rn(weights), u = __dsqrt_rn(direction);
    return (float)__dmul_rn((double)rule.rate, w > 0.0 && u > 0.0 ? __ddiv_rn(w, u) : 1.0);
}

// One weight by a rule that looks at each weight alone (not row-wise Adagrad, not LAMB), with all that comes before the rule.
// `first` and `second` are what the rule keeps of the weight, as far as it keeps any.
__device__ __forceinline__ float rule_element(const Rule &rule, float w, float g, float &first, float &second) {
    g = rule_gradient(rule, g);
    w = rule_decayed(rule, w);
    if (rule.kind == RULE_SGD) return rule_sgd(rule, w, g);
    if (rule.kind == RULE_ADAGRAD) return rule_adagrad(rule, w, g, first);
    return rule_adam(rule, w, g, first, second);
}
