/*
 * The inner loops, one table of them for each instruction set. Everything here
 * works on contiguous f32 (or converts to and from it) and is written once;
 * kernels.c is compiled for each instruction set of sets.def, and dispatch.c
 * chooses a table at run time.
 *
 * Exponentials are taken as 2^(exp2_scale (x - max)) with exp2_scale = beta log2 e rounded to
 * f32, so that no product with beta is rounded before the difference is taken.
 * An entry of -inf gives exactly zero; NaN anywhere gives NaN sums.
 */
#ifndef WHET_KERNELS_H
#define WHET_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sums over a row at some beta, with d = x - max: of exp, d exp and d d exp. */
typedef struct row_sums {
    double z, s, q;
} row_sums;

/*
 * One step of the pipeline for many rows: exponentials of a few rows and, in the same
 * loop, work for the rows before and after them. A loop of exponentials leaves the memory
 * idle; meanwhile, finding the next rows' maxima fetches those rows, and the last rows'
 * results are written.
 */
#define PASS_ROWS 16 /* at most, and a multiple of every WIDTH */
typedef struct row_pass {
    size_t row_count, n;
    const float *x;
    ptrdiff_t stride;      /* from row to row of x and next, in floats */
    float *y;              /* where the exponentials times unit go; NULL: only sums, s among them */
    const float *next;     /* rows whose maxima to find, or NULL */
    size_t next_row_count; /* may be fewer */
    int nearest; /* where `last` is written past the caches, they are fetched for the nearest cache
                    alone */
    const float *last; /* exponentials to multiply by factor and write to out, or NULL; may be y */
    size_t y_stride;   /* of y and last */
    float *out;
    ptrdiff_t out_stride;
    int nontemporal; /* out is too large to stay in the caches; its rows are whole lines */
    int whole;       /* x are whole rows, y is not x: if one entry has all the weight, unit must be
                        exactly 1, so that its probability is 1 */
    _Alignas(64) float max[PASS_ROWS];
    float exp2_scale[PASS_ROWS];
    float factor[PASS_ROWS];
    /* results */
    float z[PASS_ROWS], s[PASS_ROWS];
    float unit[PASS_ROWS];  /* near 1: what the largest exponential came out as, divided out of the
                               sums */
    float total[PASS_ROWS]; /* z times unit: the sum of what is in y */
    float next_max[PASS_ROWS];
} row_pass;

/* The largest `lanes`, `strip` and `outer_columns` of any table; rows padded to ROW_PAD suit every
 * width. */
#define LANES_MAX 48
#define STRIP_MAX 8
#define OUTER_COLUMNS_MAX 32
#define ROW_PAD 16
#define KERNEL_PART 64 /* entries of a row that get a sum or a maximum of their own */

/* Bytes of a cache line: what is fetched at once. */
#define LINE_BYTES 64

/*
 * Keys or values of some key heads, in place: `count` rows per head, `stride` bytes
 * apart, of `depth` elements of any type except WHET_CUSTOM (`type` as whet_type). The
 * same row of the next head is head_stride bytes on; a short distance, since the bytes
 * between are fetched too.
 */
typedef struct kv_rows {
    const void *first;
    int type;
    ptrdiff_t stride, head_stride;
    size_t heads, count, depth;
    ptrdiff_t ahead; /* rows that cache_scores fetches ahead; 0: as suits rows of heads */
    size_t group;    /* keys of a cursor that are added to values' sums at a time, which decides on
                        their order; 0: what is fastest. No more than 16 */
    bool scales_vectors; /* of quantised keys: their vectors are scaled, never sums over a block */
    /* Of values: bit j % 64 of live[h * live_words + j / 64] is whether key j has a weight other
     * than zero in any row of head h. NULL: not known. */
    const uint64_t *live;
    size_t live_words;
} kv_rows;

/*
 * Inputs and results of the map kernels for each lane of a panel. A map computes the
 * lanes that are `chosen` for its kernel; entries of other lanes are ignored.
 */
typedef struct map_lanes {
    float beta[LANES_MAX];                    /* of gates and softpick: e = beta times the logit */
    float bias[LANES_MAX], factor[LANES_MAX]; /* sigmoid: x = e - bias, e^x times factor; softpick:
                                                 the shift, and exp of minus the shift */
    float left[LANES_MAX], owed[LANES_MAX]; /* stick-breaking: the rest of the stick is left - owed,
                                               the rounding error of left */
    float max[LANES_MAX];                   /* entmax: y = scale (e - max) - threshold */
    float scale[LANES_MAX], threshold[LANES_MAX];
    float square[LANES_MAX];                    /* 1: p = y y (a = 1.5); 0: p = y (a = 2) */
    float power[LANES_MAX], log_top[LANES_MAX]; /* other a: ln p = log_top + power ln(1 + scale
                                                   (e - max)) */
    float lowest[LANES_MAX]; /* topk, hardmax: what is below counts for nothing */
    /* results; largest is raised, the others are set */
    float z[LANES_MAX];
    float largest[LANES_MAX];
} map_lanes;

/* Maps whose gradients have the form own g - shared D (map_terms in policy/map.h). */
typedef enum gradient_form {
    GRADIENT_SIGMOID,
    GRADIENT_SOFTPICK, /* times the sum of |r|: see softpick.c */
    GRADIENT_ENTMAX,
    GRADIENT_POWER
} gradient_form;

/* Sums over the entries of each lane: of the coefficients (for softpick: of |r|), and of terms,
 * also times g, the gradient of the coefficient less the lane's base. */
typedef struct map_gradient_sums {
    float norm[LANES_MAX], mean[LANES_MAX], mean_g[LANES_MAX];
    float parameter[LANES_MAX], parameter_g[LANES_MAX]; /* if wanted */
} map_gradient_sums;

/* What coefficients are multiplied with, and the gradient u of beta times a logit, slope = 1:
 * slope (own (g - base - mean) + (own - shared) full_mean). */
typedef struct map_backward {
    float base[LANES_MAX], mean[LANES_MAX], full_mean[LANES_MAX];
    float unit[LANES_MAX], slope[LANES_MAX];
    /* set: sums of slope u, and of slope u times the distance of the logit to the maximum */
    float sum[LANES_MAX], sum_d[LANES_MAX];
} map_backward;

/* Sums over the entries of each lane above a threshold, y > 0: see map_lanes. */
typedef struct map_support {
    float count[LANES_MAX];
    float sum[LANES_MAX];     /* of y; for other a: of p */
    float squares[LANES_MAX]; /* of y y; for other a: of p / (1 + scale (e - max)) */
    float lowest[LANES_MAX];  /* the smallest y, inf for none */
} map_support;

/* The entries of each lane relative to a pivot. */
typedef struct map_order {
    float count[LANES_MAX]; /* how many are not below it */
    float least[LANES_MAX]; /* the smallest of those, inf for none */
    float below[LANES_MAX]; /* the largest of the others, -inf for none */
} map_order;

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

/*
 * The gradient of a logit from its weight p = factor exp2(exp2_scale d) and the weight's
 * gradient g, lane by lane, with d = e - max:
 *
 *     beta p (g - base - mean) - through_beta exp2(exp2_scale0 d) (d - mean0)
 *
 * The second term is the gradient through beta; it is zero unless `moves`.
 */
typedef struct panel_backward {
    float max[LANES_MAX], exp2_scale[LANES_MAX], factor[LANES_MAX], beta[LANES_MAX];
    float base[LANES_MAX], mean[LANES_MAX];
    float exp2_scale0[LANES_MAX], through_beta[LANES_MAX], mean0[LANES_MAX];
    int moves;
} panel_backward;

/* The smallest and the largest entry of each lane that is not masked, and the first place of the
 * latter; inf, -inf and any place for none. NaN in a lane makes its `most` NaN. */
typedef struct panel_extremes {
    float least[LANES_MAX], most[LANES_MAX], place[LANES_MAX];
} panel_extremes;

typedef struct kernels {
    const char *name;

    /* One row. */
    float (*max)(const float *x, size_t n); /* -inf for n = 0; NaN entries are passed over */
    /* That of every KERNEL_PART entries, and of those behind them. */
    void (*max_parts)(const float *x, size_t n, float *maxima);
    size_t (*count)(const float *x, size_t n); /* entries other than -inf */
    int (*has_nan)(const float *x, size_t n);
    int (*finite)(const float *x, size_t n);               /* nothing infinite or NaN */
    size_t (*find)(const float *x, size_t n, float value); /* the first that equals it, or n */
    float (*min)(const float *x, size_t n); /* of entries other than -inf; inf for none */
    /* Adds z and s (not q) over the row. */
    void (*sums)(const float *x, size_t n, float max, float exp2_scale, row_sums *sums);
    /* Adds z, s and q over the row. */
    void (*moments)(const float *x, size_t n, float max, float exp2_scale, row_sums *sums);
    /* y = exp; returns z. y may be x. */
    double (*exp_store)(const float *x, size_t n, float max, float exp2_scale, float *y);
    /* The same with z of every KERNEL_PART entries, and of those behind them, in `sums`. */
    void (*exp_parts)(const float *x, size_t n, float max, float exp2_scale, float *y, float *sums);
    /* y = factor x. y may be x. */
    void (*scale)(const float *x, size_t n, float factor, float *y);
    /* y = exp; adds z and s over the row to `plain`, and the same sums with each exponential times
     * g - g_base to `weighted`. y is neither x nor g. */
    void (*gradient_sums)(const float *x, const float *g, size_t n, float max, float exp2_scale,
                          float g_base, float *y, row_sums *plain, row_sums *weighted);
    void (*gradient_store)(const row_gradient *gradient);
    /* y = y + x. */
    void (*add)(const float *x, size_t n, float *y);
    /* x = x + mask, -inf where the mask is. */
    void (*add_mask)(const float *mask, size_t n, float *x);
    /* Bit j % 64 of marks[j / 64] = whether entry j is not -inf, 0 behind the last. Returns whether
     * all others are 0. */
    int (*mark_f16)(const uint16_t *mask, size_t n, uint64_t *marks);
    /* One pass of the row pipeline. */
    void (*rows_pass)(row_pass *pass);
    /* entropy = ln z - s / z and not below 0, for z > 0; all padded to ROW_PAD. */
    void (*entropies)(const float *z, const float *s, size_t count, double *entropy);
    /* Makes what steps wrote past the caches visible to other threads. */
    void (*nontemporal_end)(void);
    /* x = cap tanh(x / cap), in place. */
    void (*softcap)(float *x, size_t n, float cap);
    /* derivative = 1 - tanh^2 of x / cap, from x as it was before. */
    void (*softcap_derivative)(const float *x, size_t n, float cap, float *derivative);

    /* Conversions, n elements; results rounded to nearest even. */
    void (*f16_to_f32)(const uint16_t *x, float *y, size_t n);
    void (*bf16_to_f32)(const uint16_t *x, float *y, size_t n);
    void (*f32_to_f16)(const float *x, uint16_t *y, size_t n);
    void (*f32_to_bf16)(const float *x, uint16_t *y, size_t n);
    /* What scale computes, rounded. */
    void (*scale_to_f16)(const float *x, size_t n, float factor, uint16_t *y);
    void (*scale_to_bf16)(const float *x, size_t n, float factor, uint16_t *y);
    /* Rows of quantised blocks (see whet_type); n is a multiple of 32. */
    void (*q8_0_to_f32)(const void *x, float *y, size_t n);
    void (*q4_0_to_f32)(const void *x, float *y, size_t n);
    void (*q4_1_to_f32)(const void *x, float *y, size_t n);
    void (*q5_0_to_f32)(const void *x, float *y, size_t n);
    void (*q5_1_to_f32)(const void *x, float *y, size_t n);
    void (*iq4_nl_to_f32)(const void *x, float *y, size_t n);

    /*
     * Many queries: panels of `lanes` query rows, the lane last everywhere. A
     * tile is [keys][lanes]; max, exp2_scale, z ... are [lanes]. Keys come in strips of
     * `strip`, interleaved [depth][strip]; values as [value_dim / strip][keys][strip].
     */
    size_t lanes, strip;
    /* tile[j][lane] = key j . query lane, for `strips` strips of keys. */
    void (*scores)(const float *keys, size_t strips, const float *queries, size_t depth,
                   float *tile);
    /* out[column][lane] = out * rescale[lane] + sum over keys of value * weight, for `strips`
     * strips of columns, strip_stride floats apart. */
    void (*accumulate)(const float *values, size_t strips, size_t strip_stride,
                       const float *weights, size_t keys, const float *rescale, float *out);
    /* total[column][lane] = total * factor[lane] + out, and out = 0. */
    void (*add_to_totals)(float *out, size_t columns, const double *factor, double *total);
    /* result[k][i] = rows[i][k] for i below `strip`. */
    void (*interleave)(const float *const *rows, size_t depth, float *result);
    /* tile[k][lane] = rows[lane][k] for rows of n, and rows[lane][k] = tile[k][lane] factor[lane].
     */
    void (*panel_transpose)(const float *const *rows, size_t n, float *tile);
    void (*panel_transpose_back)(const float *tile, size_t n, const float *factor,
                                 float *const *rows);
    /* Copies `strips` strips of a row to places `stride` floats apart. */
    void (*scatter)(const float *row, size_t strips, float *result, size_t stride);
    /* max = the larger of itself and the tile's. NaN is passed over. */
    void (*panel_max)(const float *tile, size_t keys, float *max);
    /* The same, and grad = the gradient where the first of the larger ones is. */
    void (*panel_peak)(const float *tile, const float *grads, size_t keys, float *max, float *grad);
    /* count = entries other than -inf. */
    void (*panel_count)(const float *tile, size_t keys, float *count);
    void (*panel_extremes)(const float *tile, size_t keys, panel_extremes *found);
    /* tile = exp, z = their sums. */
    void (*panel_weights)(float *tile, size_t keys, const float *max, const float *exp2_scale,
                          float *z);
    /* and s = sum of d exp. */
    void (*panel_weights_sums)(float *tile, size_t keys, const float *max, const float *exp2_scale,
                               float *z, float *s);
    /* The same, bit for bit, for one lane, a row of n floats; d and weights are padded to ROW_PAD.
     */
    void (*panel_lane)(const float *x, size_t n, float max, float exp2_scale, float *d,
                       float *weights, float *z, float *s);
    /* the sums alone, the tile as it was; and with q = sum of d d exp. */
    void (*panel_sums)(const float *tile, size_t keys, const float *max, const float *exp2_scale,
                       float *z, float *s);
    void (*panel_moments)(const float *tile, size_t keys, const float *max, const float *exp2_scale,
                          float *z, float *s, float *q);
    /* Masks keys outside low <= j < high, counted from the tile's first. */
    void (*panel_limit)(float *tile, size_t keys, const float *low, const float *high);
    /* Subtracts slope |position - j|. */
    void (*panel_alibi)(float *tile, size_t keys, const float *slope, const float *position);

    /*
     * The backward pass over panels. grads is laid out like a tile.
     */
    /* sums[j][column] += sum over the lanes of all panels of weights[panel][j][lane] *
     * rows[panel][lane][column], for `strips` strips of outer_keys keys and outer_columns columns;
     * panels of weights are `stride` floats apart. */
    size_t outer_keys, outer_columns;
    void (*outer)(const float *weights, size_t stride, size_t panels, size_t strips,
                  const float *rows, float *sums);
    /* z = sum of exp, s = of d exp, a = of (g - base) exp, b = of (g - base) d exp; where the tile
     * is -inf, g is not looked at. */
    void (*panel_gradient_sums)(const float *tile, const float *grads, size_t keys,
                                const float *max, const float *exp2_scale, const float *base,
                                float *z, float *s, float *a, float *b);
    /* tile = weights, grads = gradients of the logits; both 0 where the tile was -inf. */
    void (*panel_gradients)(float *tile, float *grads, size_t keys,
                            const panel_backward *to_logits);
    /* sums = sum of tile |position - j|. */
    void (*panel_distances)(const float *tile, size_t keys, const float *position, float *sums);
    /* tile *= derivatives; zero stays zero. */
    void (*panel_chain)(float *tile, const float *derivatives, size_t keys);

    /*
     * Maps that are not a temperature: weights from logits for the lanes whose `chosen`
     * is 1, the others are left unchanged in `weights`, which may be the tile itself.
     * Masked entries get exactly 0, NaN gives NaN weights and z.
     */
    void (*map_sigmoid)(const float *tile, size_t keys, const float *chosen, map_lanes *lanes,
                        float *weights);
    /* From the last key to the first. */
    void (*map_stick)(const float *tile, size_t keys, const float *chosen, map_lanes *lanes,
                      float *weights);
    void (*map_entmax)(const float *tile, size_t keys, const float *chosen, map_lanes *lanes,
                       float *weights);
    void (*map_power)(const float *tile, size_t keys, const float *chosen, map_lanes *lanes,
                      float *weights);
    void (*map_softpick)(const float *tile, size_t keys, const float *chosen, map_lanes *lanes,
                         float *weights);
    /* The backward pass of maps. tile = coefficients, grads = gradients of the logits in chosen
     * lanes; both 0 where the tile was -inf. */
    void (*map_gradient_sums)(gradient_form form, const float *tile, const float *grads,
                              size_t keys, const map_lanes *lanes, const float *base,
                              int wants_parameter, map_gradient_sums *sums);
    void (*map_gradients)(gradient_form form, float *tile, float *grads, size_t keys,
                          const float *chosen, const map_lanes *lanes, map_backward *at);
    /* Stick-breaking, from the first key to the last: q is what the keys so far would get of a
     * stick of length one; grads = grads - base - q before each. */
    void (*map_stick_climb)(const float *tile, float *grads, size_t keys, const float *chosen,
                            const map_lanes *lanes, const float *base, float *q);
    /* And from the last to the first: results as above, with left the rest of the stick, and the
     * sums of the gradients times their logits. */
    void (*map_stick_descend)(float *tile, float *grads, size_t keys, const float *chosen,
                              const map_lanes *lanes, float *left, float *sums);
    /* What the search for an entmax threshold, or for the k-th largest, looks at: all lanes. */
    void (*map_entmax_support)(const float *tile, size_t keys, const map_lanes *lanes,
                               map_support *support);
    void (*map_power_support)(const float *tile, size_t keys, const map_lanes *lanes,
                              map_support *support);
    void (*map_order)(const float *tile, size_t keys, const float *pivot, map_order *order);
    /* Masks the entries below lanes->lowest. */
    void (*map_keep)(float *tile, size_t keys, const map_lanes *lanes);
    /* sum = sum of w ln w. */
    void (*map_entropy)(const float *weights, size_t keys, float *sum);

    /*
     * Few queries, long caches. Queries and out are rows of floats, padded with zeros to
     * whole vectors (ROW_PAD floats); rows of any kind are [head][row].
     */
    /* logits[head][r][j] = query r of the head . its key j */
    void (*cache_scores)(const kv_rows *keys, const float *queries, size_t row_count,
                         size_t row_stride, float *logits, size_t logits_stride);
    /* out[head][r] += sum over j of weights[head][r][j] * the head's value j. No more than 64 keys
     * are summed in f32 before they join what is in out, and of 1,024 keys no more than 64 such
     * sums. */
    void (*cache_values)(const kv_rows *values, const float *weights, size_t weights_stride,
                         size_t row_count, float *out, size_t out_stride);
} kernels;

#define WHET_SET(name, target, flags, condition) extern const kernels whet_kernels_##name;
#include "isa/sets.def"

/* The table for this process; see whet_isa. */
const kernels *whet_kernels_get(void);

/* The table of a named instruction set, or NULL if it was not built or this processor lacks it.
 * For tests and benchmarks. */
const kernels *whet_kernels_named(const char *name);

#endif
