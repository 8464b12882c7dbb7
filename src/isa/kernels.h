/*
 * The inner loops, one table of them for each instruction set. Everything here
 * works on contiguous f32 (or converts to and from it) and is written once, in
 * template.inc; kernels_*.c compile it for an instruction set and dispatch.c
 * chooses a table at run time.
 *
 * Exponentials are taken as 2^(c (x - max)) with c = beta log2 e rounded to
 * f32, so that no product with beta is rounded before the difference is taken.
 * An entry of -inf gives exactly zero; NaN anywhere gives NaN sums.
 */
#ifndef WHET_KERNELS_H
#define WHET_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Sums over a row at some beta, with d = x - max: of exp, d exp and d d exp. */
typedef struct row_sums {
    double z, s, q;
} row_sums;

/*
 * One step of the pipeline that takes many rows: exponentials of one row, and
 * in the same loop what the rows before and after it need. A loop of
 * exponentials leaves the memory idle; looking for the next row's maximum
 * fetches that row, and the last row's results go out meanwhile.
 */
typedef struct row_step {
    const float *x;
    size_t n;
    float max, c;
    float *y;          /* where the exponentials go; NULL: only sums, s among them */
    const float *next; /* n floats whose maximum to find, or NULL */
    const float *last; /* n exponentials to multiply by factor and write to out, or NULL */
    float factor;
    float *out;
    int stream; /* out is too large to be found in the caches again */
    /* results */
    row_sums sums;
    float next_max;
} row_step;

/*
 * The gradient of one row, from its exponentials p at beta and w at another one
 * (NULL if beta does not move):
 *
 *     y = p_scale p (g - g_base - g_mean) + w_scale w (x - max - d_mean)
 *
 * and zero where x is masked. y may be any of the inputs.
 */
typedef struct row_gradient {
    const float *x, *g, *p, *w;
    size_t n;
    float max, p_scale, g_base, g_mean, w_scale, d_mean;
    float *y;
} row_gradient;

typedef struct kernels {
    const char *name;

    /* One row. */
    float (*max)(const float *x, size_t n);    /* -inf for n = 0; NaN entries are passed over */
    size_t (*count)(const float *x, size_t n); /* entries other than -inf */
    int (*finite)(const float *x, size_t n);   /* nothing infinite or NaN */
    size_t (*find)(const float *x, size_t n, float value); /* the first that equals it, or n */
    /* Adds z and s (not q) over the row. */
    void (*sums)(const float *x, size_t n, float max, float c, row_sums *sums);
    /* Adds z, s and q over the row. */
    void (*moments)(const float *x, size_t n, float max, float c, row_sums *sums);
    /* y = exp; returns z. y may be x. */
    double (*exp_store)(const float *x, size_t n, float max, float c, float *y);
    /* y = factor x. y may be x. */
    void (*scale)(const float *x, size_t n, float factor, float *y);
    /* y = exp; adds z and s over the row to `plain`, and the same sums with each exponential times
     * g - g_base to `weighted`. y is neither x nor g. */
    void (*gradient_sums)(const float *x, const float *g, size_t n, float max, float c,
                          float g_base, float *y, row_sums *plain, row_sums *weighted);
    void (*gradient_store)(const row_gradient *gradient);
    /* One step of the row pipeline. */
    void (*step)(row_step *step);
    /* Makes what steps wrote past the caches visible to other threads. */
    void (*stream_end)(void);
    /* x = cap tanh(x / cap), in place. */
    void (*softcap)(float *x, size_t n, float cap);

    /* Conversions, n elements; results rounded to nearest even. */
    void (*f16_to_f32)(const uint16_t *x, float *y, size_t n);
    void (*bf16_to_f32)(const uint16_t *x, float *y, size_t n);
    void (*f32_to_f16)(const float *x, uint16_t *y, size_t n);
    void (*f32_to_bf16)(const float *x, uint16_t *y, size_t n);

    /*
     * Many queries: panels of `lanes` query rows, the lane last everywhere. A
     * tile is [keys][lanes]; max, c, z ... are [lanes]. Keys come in groups of
     * `group`, interleaved [depth][group]; values as [value_dim / group][keys][group].
     */
    size_t lanes, group;
    /* tile[j][lane] = key j . query lane, for `groups` groups of keys. */
    void (*scores)(const float *keys, size_t groups, const float *queries, size_t depth,
                   float *tile);
    /* out[column][lane] = out * rescale[lane] + sum over keys of value * weight, for `groups`
     * groups of columns that lie group_stride floats apart. */
    void (*accumulate)(const float *values, size_t groups, size_t group_stride,
                       const float *weights, size_t keys, const float *rescale, float *out);
    /* result[k][i] = rows[i][k] for i below `group`. */
    void (*interleave)(const float *const *rows, size_t depth, float *result);
    /* Copies `groups` groups of a row to places `stride` floats apart. */
    void (*scatter)(const float *row, size_t groups, float *result, size_t stride);
    /* max = the larger of itself and the tile's. NaN is passed over. */
    void (*panel_max)(const float *tile, size_t keys, float *max);
    /* count = entries other than -inf. */
    void (*panel_count)(const float *tile, size_t keys, float *count);
    /* tile = exp, z = their sums. */
    void (*panel_weights)(float *tile, size_t keys, const float *max, const float *c, float *z);
    /* and s = sum of d exp. */
    void (*panel_weights_sums)(float *tile, size_t keys, const float *max, const float *c, float *z,
                               float *s);
    /* the sums alone, the tile as it was; and with q = sum of d d exp. */
    void (*panel_sums)(const float *tile, size_t keys, const float *max, const float *c, float *z,
                       float *s);
    void (*panel_moments)(const float *tile, size_t keys, const float *max, const float *c,
                          float *z, float *s, float *q);
    /* Masks keys outside low <= j < high, counted from the tile's first. */
    void (*panel_limit)(float *tile, size_t keys, const float *low, const float *high);
    /* Subtracts slope |position - j|. */
    void (*panel_alibi)(float *tile, size_t keys, const float *slope, const float *position);

    /*
     * Few queries, long caches. Rows of keys and values are read where they lie, `stride` bytes
     * apart, as f32, f16 or bf16 (`type` as whet_type). Queries and out are [rows][row_stride]
     * floats, a row padded with zeros to whole vectors (ROW_PAD floats).
     */
    /* logits[r][j] = query r . key j */
    void (*stream_scores)(const float *queries, size_t rows, size_t row_stride, const void *keys,
                          int type, ptrdiff_t stride, size_t count, size_t depth, float *logits,
                          size_t logits_stride);
    /* out[r] += sum over j of weights[r][j] * value j, for `count` keys in a row (spread 0), or
     * for `count` keys of each of stream_keys streams that lie `spread` keys apart */
    size_t stream_keys;
    void (*stream_values)(const float *weights, size_t weights_stride, size_t rows,
                          const void *values, int type, ptrdiff_t stride, size_t count,
                          size_t spread, size_t depth, float *out, size_t row_stride);
} kernels;

/* The largest `lanes` and `group` of any table; rows padded to ROW_PAD suit every width. */
#define LANES_MAX 48
#define GROUP_MAX 8
#define ROW_PAD 16

extern const kernels whet_kernels_scalar, whet_kernels_avx2, whet_kernels_avx512, whet_kernels_neon;

/* The table for this process; see whet_isa. */
const kernels *whet_kernels_get(void);

/* The table of a named instruction set, or NULL where it was not built or this processor has it
 * not. For tests and benchmarks. */
const kernels *whet_kernels_named(const char *name);

#endif
