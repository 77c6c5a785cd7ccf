// Updates of tables of other number formats than f32: the kernels of update.cu, whose other kernels read no weights.

#define UPDATES(FORMAT, F)                                                                                                    \
    UPDATE_SHORT(update_short_sgd_##FORMAT, RULE_SGD, F, 6)                                                                   \
    UPDATE_SHORT(update_short_adagrad_##FORMAT, RULE_ADAGRAD, F, 6)                                                           \
    UPDATE_SHORT(update_short_row_wise_##FORMAT, RULE_ROW_WISE_ADAGRAD, F, 5)                                                 \
    UPDATE_SHORT(update_short_adam_##FORMAT, RULE_ADAM, F, 6)                                                                 \
    UPDATE_SHORT(update_short_lamb_##FORMAT, RULE_LAMB, F, 6)                                                                 \
    UPDATE_LONG(update_long_runs_##FORMAT, F)

UPDATES(f16, RowF16)
UPDATES(bf16, RowBf16)
UPDATES(int8, RowInt8)
