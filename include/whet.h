/*
 * whet.h - softmax and attention that stay sharp as their input grows.
 *
 * INTRODUCTION
 *
 * Softmax spreads thin: whatever the logits, each of n coefficients goes to
 * 1/n as n grows. A sharpening policy looks at one row of logits e, works out
 * an inverse temperature beta, and normalises beta * e instead:
 *
 *     logits e -> statistics (n, max, Z, S, entropy) -> beta -> softmax(beta e)
 *
 * The statistics need one pass over the row. With m = max e,
 * Z = sum exp(e - m) and S = sum (e - m) exp(e - m), the entropy is
 * H = log Z - S / Z, and the (m, Z, S) of two pieces merge into those of the
 * whole: that is what makes sharpening fit attention that streams over keys.
 *
 * The shortest useful program:
 *
 *     #include <whet.h>
 *     float row[4] = {1, 2, 3, 4};
 *     whet_rows rows = {.size = sizeof rows, .rows = 1, .n = 4, .in = row, .out = row};
 *     whet_policy policy = whet_policy_adaptive();
 *     whet_softmax(&rows, &policy, NULL);
 *
 * The header is a lesson; read it from top to bottom:
 *
 *     1. conventions     status, numbers, element types
 *     2. rows            statistics, whet_softmax, whet_entropy
 *     3. policies        by function, by name, of your own; whet_softmax_backward
 *     4. attention       whet_attention_forward in one call, and the way back
 *     5. advanced        plans and tasks, executors, the pool, instruction sets
 *
 * The library keeps no state (but for the instruction set, chosen once), prints
 * nothing and never ends the program. Every function may be called from any
 * number of threads at once, as long as they do not write to the same memory.
 */
#ifndef WHET_H
#define WHET_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#if defined(WHET_BUILD) && defined(__GNUC__)
#define WHET_API __attribute__((visibility("default")))
#else
#define WHET_API
#endif

/* ------------------------------------------------------------------------
 * 1. CONVENTIONS
 * ------------------------------------------------------------------------ */

#define WHET_VERSION_MAJOR 0
#define WHET_VERSION_MINOR 3
#define WHET_VERSION_PATCH 0

/* The version of the library that was linked, "0.3.0". */
WHET_API const char *whet_version(void);

/*
 * What a call came to. WHET_OK is zero. WHET_NOT_FINITE is a remark rather
 * than a failure: some row held NaN or +inf and came out as NaN, all others
 * are right. Everything from WHET_ERROR_ARGUMENT on means that the call
 * refused to work and wrote nothing to its outputs; WHET_ERROR_MEMORY alone
 * may follow an otherwise sound request.
 */
typedef enum whet_status {
    WHET_OK = 0,
    WHET_NOT_FINITE = 1,
    WHET_ERROR_ARGUMENT = 2,    /* a null pointer, a size, type or flag out of range */
    WHET_ERROR_OVERFLOW = 3,    /* sizes or strides whose product leaves the address range */
    WHET_ERROR_OVERLAP = 4,     /* input and output overlap without being the same place */
    WHET_ERROR_POLICY = 5,      /* a policy name or parameter that does not make sense */
    WHET_ERROR_UNSUPPORTED = 6, /* sound, but not offered here */
    WHET_ERROR_MEMORY = 7       /* memory or threads could not be had */
} whet_status;

/* One line in plain English for a status; never NULL, also for unknown values. */
WHET_API const char *whet_status_text(whet_status status);

/*
 * Element types. Arithmetic is in f32 or wider whatever the type; f16 and bf16
 * outputs are the f32 result rounded to nearest even. The last three are for the
 * keys and values of attention alone, see whet_tensor: blocks of 32 elements that
 * share a scale, and WHET_CUSTOM, a format of the caller's.
 */
typedef enum whet_type {
    WHET_F32 = 0,
    WHET_F16 = 1,
    WHET_BF16 = 2,
    WHET_Q8_0 = 3, /* 34 bytes a block: an f16 scale, 32 signed bytes; scale * byte */
    WHET_Q4_0 = 4, /* 18 bytes: an f16 scale, 16 bytes whose lower halves are elements 0 to 15,
                      whose upper halves 16 to 31; scale * (half - 8) */
    WHET_CUSTOM = 255
} whet_type;

/* A type's name, "f16" or "q8_0", and back: NULL, or WHET_ERROR_ARGUMENT, for what is not one.
 * WHET_CUSTOM is "custom". */
WHET_API const char *whet_type_name(whet_type type);
WHET_API whet_status whet_type_parse(const char *name, whet_type *type);

/* Bytes of a contiguous row of n elements, n a multiple of 32 where the type has blocks; 0 for
 * WHET_CUSTOM and for what is not a type. */
WHET_API size_t whet_type_row_bytes(whet_type type, size_t n);

/* ------------------------------------------------------------------------
 * 2. ROWS
 * ------------------------------------------------------------------------ */

/*
 * What is known of one row. The first block comes from the logits alone and
 * merges piece by piece; the second is what a policy made of it.
 *
 * A row in which everything is masked (or n = 0) has n = 0, max and logsumexp
 * -inf, z = s = entropy = 0, beta 1, max_prob 0 and the flag WHET_ROW_EMPTY; with
 * a sink, max, z, s, logsumexp and max_prob are those of the sink alone.
 */
typedef struct whet_stats {
    uint64_t n;       /* entries that are not masked (not -inf); sinks are not counted */
    double max;       /* m: the largest logit, the sink's included */
    double z;         /* Z: sum of exp(e - m) */
    double s;         /* S: sum of (e - m) exp(e - m), never positive */
    double logsumexp; /* m + log Z */
    double entropy;   /* H = log Z - S / Z of softmax(e), in nats */
    double min;       /* the smallest logit that is not masked; inf where all are */
    uint64_t argmax;  /* index of the first entry that is the largest; UINT64_MAX for none */
    int64_t position; /* of the row's query, as the call's description gives it */

    double beta;          /* the inverse temperature */
    double entropy_after; /* of the result, in nats; NaN for maps that need not sum to one */
    double max_prob;      /* the largest coefficient, the sink's included */
    double sink_share;    /* the first entry's coefficient: what a first token that is used as a
                             sink takes (not the share of a `sink` of the call's) */
    uint32_t flags;       /* WHET_ROW_... */
    uint32_t reserved;
} whet_stats;

enum {
    WHET_ROW_EMPTY = 1u,      /* nothing unmasked: the result is all zeros */
    WHET_ROW_NOT_FINITE = 2u, /* NaN or +inf in the row: the result is NaN */
    WHET_ROW_CAPPED = 4u      /* target: no beta up to the cap reaches the entropy */
};

/* The empty piece: n = 0, m = -inf. Where merging starts. */
WHET_API whet_stats whet_stats_empty(void);

/*
 * Merges two pieces of one row into the statistics of both together. Only the
 * first block of fields is read; beta and what follows are set to what plain
 * softmax would make of the whole, since a policy's beta is known only once the
 * whole is: see whet_policy_beta. argmax is that of the piece with the larger
 * maximum (a's in a tie) as it stands there: count indices from the start of the
 * whole row, and merge a sink last. position is a's unless a is empty. sink_share,
 * which takes the first logit, becomes NaN. The flag NOT_FINITE is kept. The result may be the same
 * object as a or b.
 */
WHET_API void whet_stats_merge(const whet_stats *a, const whet_stats *b, whet_stats *result);

/*
 * A set of rows: `rows` rows of n contiguous values each, a row every
 * `stride` elements. Zero-initialise it and set what you need:
 *
 * size         sizeof(whet_rows): a library of another version, whose struct
 *              differs, refuses the call instead of misreading it
 * in, out      may be the same address with the same type and stride (in
 *              place); any other overlap of the ranges they span is refused, and so is an address
 *              that is not a multiple of the element's size
 * in_stride    elements from a row to the next; 0 means n
 * mask         optional, added to the logits before anything else; f32 or f16;
 *              mask_stride 0 means one mask row for all rows
 * stats        optional, one for each row, stats_stride bytes apart (0 means
 *              sizeof(whet_stats))
 * sink         optional: one more logit of a row, which takes part in entropy
 *              and normalisation but has no place in the result and is not
 *              counted; sink_stride floats from a row's to the next, 0 means one
 *              for all rows. To maps it is what section 4 says of sinks
 * beta         optional, one for each row: the inverse temperature, in place of
 *              a policy's (which must then have none: softmax or a map alone).
 *              Below 0 it counts as 0, beyond 1e30 as that; NaN makes the row
 *              not finite
 * position     of the first row's query, for policies that ask for it; the next
 *              row's is position_stride further on
 *
 * Only -inf is masked: such an entry gets exactly zero. rows = 0 and n = 0 are
 * fine and do nothing.
 */
typedef struct whet_rows {
    size_t size;
    size_t rows;
    size_t n;
    const void *in;
    ptrdiff_t in_stride;
    void *out;
    ptrdiff_t out_stride;
    const void *mask;
    ptrdiff_t mask_stride;
    whet_stats *stats;
    size_t stats_stride;
    whet_type in_type;
    whet_type out_type;
    whet_type mask_type;
    uint32_t reserved;
    const float *sink;
    size_t sink_stride;
    const float *beta;
    int64_t position;
    int64_t position_stride;
} whet_rows;

typedef struct whet_policy whet_policy;

/*
 * Normalises each row under a policy (NULL: plain softmax). Returns
 * WHET_NOT_FINITE when a row held NaN or +inf, with the first such row in
 * *first_bad_row (which may be NULL, and is otherwise left alone).
 *
 * Accuracy, for n up to 1,048,576 and logits up to 1e4 in size: entropy within
 * 2e-6 * max(1, H), beta within 1e-5 (for target: as far as that entropy fixes
 * it), probabilities within 4e-6 relative or 1e-9 absolute of exact arithmetic at
 * the beta reported. Takes up to 96 KiB of stack and allocates nothing.
 */
WHET_API whet_status whet_softmax(const whet_rows *rows, const whet_policy *policy,
                                  size_t *first_bad_row);

/* The same statistics, without the probabilities: `out` is ignored, `stats` is needed. */
WHET_API whet_status whet_entropy(const whet_rows *rows, const whet_policy *policy,
                                  size_t *first_bad_row);

/* ------------------------------------------------------------------------
 * 3. POLICIES
 * ------------------------------------------------------------------------
 *
 * A policy is a plain struct: copy it, store it, compare two by their names.
 * Most choose a beta from a row's statistics ("temperatures"); the rest are
 * other maps from logits to coefficients.
 *
 *   name                beta or map
 *   softmax             1
 *   fixed:B             B, that is temperature 1/B; B > 0
 *   adaptive            the paper's rule: max(1, poly(H)) for H > 0.5, else 1
 *   adaptive:hold       the same, but beyond the peak at H = 4.412 beta stays 2.421
 *   poly:c4/c3/...      a polynomial in H, highest power first, degree up to 8
 *     [:threshold=T]      1 where H <= T             (default: none)
 *     [:floor=F]          never below F              (default 1)
 *     [:hold=H1]          beta(H) = beta(H1) for H > H1
 *   exp:h0              max(1, exp(H - h0))
 *   target:H[:cap=C]    the beta in [1, C] at which the entropy is H (default cap 256)
 *   ssmax:s[:b[:g]]     s (ln n)^g + b; b 0, g 1 by default, g >= 0
 *   length:n0           max(1, ln n / ln n0), n0 > 1
 *   linear:n0           max(1, n / n0)
 *   hinge:a:h:n0        exp(a + h max(0, ln(n / n0))), n0 > 0
 *   llama4[:s[:n0[:offset]]]
 *                       1 + s ln(1 + floor((position + offset) / n0)), position that of
 *                       the query; s 0.1, n0 8192, offset 1 (Llama 4; 0 for Ministral
 *                       and Mistral Large); positions below -offset count as that
 *   topk:k              softmax over the entries not below the k-th largest
 *   hardmax             everything on the largest, ties share
 *   sparsemax           alpha-entmax with alpha = 2
 *   entmax15            with alpha = 1.5
 *   entmax:a            with 1 < a <= 2
 *   softmax1            exp(e) / (1 + sum exp(e))
 *   sigmoid[:b]         1 / (1 + exp(b - e)), b = ln n by default
 *   stick-breaking      sigma(e_i) * product over later j of (1 - sigma(e_j))
 *   softpick            max(exp(e) - 1, 0) / sum |exp(e) - 1|
 *
 * Every temperature takes :strength=s, beta -> 1 + s (beta - 1).
 *
 * A policy is a temperature and a map. A temperature alone means softmax, a map
 * alone beta = 1, and TEMPERATURE+MAP is both: the map of beta * e. "adaptive+softmax1",
 * "ssmax:0.3:0.5+entmax15" and "length:2048+topk:64" are policies. H is always
 * the entropy of softmax(e), whichever map follows: with the sink, and without
 * the zero of softmax1. A beta of 0 counts as next to nothing (1e-30): maps still
 * see the order of logits. target takes maps that sum to one alone; its H is the
 * entropy of softmax(beta e).
 */
typedef enum whet_policy_kind {
    WHET_POLICY_SOFTMAX = 0, /* the temperature beta = 1, and the map softmax */
    /* temperatures */
    WHET_POLICY_FIXED = 1,
    WHET_POLICY_POLY = 2, /* adaptive is one of these */
    WHET_POLICY_EXP = 3,
    WHET_POLICY_TARGET = 4,
    WHET_POLICY_SSMAX = 5,
    WHET_POLICY_LENGTH = 6,
    WHET_POLICY_LINEAR = 7,
    WHET_POLICY_CUSTOM = 8,
    WHET_POLICY_LLAMA4 = 9,
    WHET_POLICY_HINGE = 10,
    /* maps */
    WHET_POLICY_TOPK = 64,
    WHET_POLICY_HARDMAX = 65,
    WHET_POLICY_ENTMAX = 66, /* sparsemax and entmax15 are two of these */
    WHET_POLICY_SOFTMAX1 = 67,
    WHET_POLICY_SIGMOID = 68,
    WHET_POLICY_STICK_BREAKING = 69,
    WHET_POLICY_SOFTPICK = 70
} whet_policy_kind;

/*
 * A beta of your own: given a row's statistics returns beta, and in
 * *dbeta_dentropy the derivative with respect to the entropy (preset to 0).
 * Must be pure: it is called from several threads and perhaps more than once.
 */
typedef double (*whet_beta_function)(const whet_stats *stats, double *dbeta_dentropy,
                                     void *context);

#define WHET_POLY_DEGREE_MAX 8

/*
 * Fields are public to be looked at; make policies with the functions below,
 * which set everything and check nothing: numbers that make no sense are found
 * by whet_policy_check, and by every call that takes the policy. An all-zero
 * struct is not a policy (strength 0).
 */
struct whet_policy {
    uint32_t temperature; /* whet_policy_kind, below 64 */
    uint32_t map;         /* whet_policy_kind: 0 for softmax, or from 64 on */
    uint32_t degree;      /* poly: highest power */
    uint32_t reserved;
    double strength; /* 1: all of the temperature's effect */
    /* the temperature's parameters. poly: coefficients from the highest power down;
     * others in the order of the name (fixed B; exp h0; target H, cap; ssmax s, b, g;
     * length n0; linear n0; hinge a, h, n0; llama4 s, n0, offset) */
    double value[WHET_POLY_DEGREE_MAX + 1];
    double threshold; /* poly: -inf for none */
    double floor;     /* poly: -inf for none */
    double hold;      /* poly: +inf for none */
    /* the map's parameters: topk k; entmax a; sigmoid b or NaN for ln n */
    double map_value[2];
    whet_beta_function function;
    void *context;
    unsigned char reserved_bytes[16];
};

WHET_API whet_policy whet_policy_softmax(void);
WHET_API whet_policy whet_policy_fixed(double beta);
WHET_API whet_policy whet_policy_adaptive(void);
WHET_API whet_policy whet_policy_adaptive_hold(void);
/* coefficients[0] belongs to the highest power, H^degree. Limits: threshold
 * -INFINITY, floor -INFINITY and hold INFINITY mean none. */
WHET_API whet_policy whet_policy_poly(const double *coefficients, unsigned degree, double threshold,
                                      double floor, double hold);
WHET_API whet_policy whet_policy_exp(double h0);
WHET_API whet_policy whet_policy_target(double entropy, double cap);
WHET_API whet_policy whet_policy_ssmax(double s, double b); /* g = 1 */
WHET_API whet_policy whet_policy_ssmax_power(double s, double b, double g);
WHET_API whet_policy whet_policy_length(double n0);
WHET_API whet_policy whet_policy_linear(double n0);
WHET_API whet_policy whet_policy_hinge(double a, double h, double n0);
WHET_API whet_policy whet_policy_llama4(double s, double n0, double offset);
WHET_API whet_policy whet_policy_topk(uint64_t k);
WHET_API whet_policy whet_policy_hardmax(void);
WHET_API whet_policy whet_policy_sparsemax(void);
WHET_API whet_policy whet_policy_entmax15(void);
WHET_API whet_policy whet_policy_entmax(double alpha);
WHET_API whet_policy whet_policy_softmax1(void);
WHET_API whet_policy whet_policy_sigmoid(double b); /* NAN: b = ln n */
WHET_API whet_policy whet_policy_stick_breaking(void);
WHET_API whet_policy whet_policy_softpick(void);
WHET_API whet_policy whet_policy_custom(whet_beta_function function, void *context);

/* The temperature of one policy with the map of another: TEMPERATURE+MAP. What
 * either has besides is dropped; whet_policy_check refuses pairs without a meaning. */
WHET_API whet_policy whet_policy_compose(whet_policy temperature, whet_policy map);

/* The same policy with beta -> 1 + strength (beta - 1). */
WHET_API whet_policy whet_policy_with_strength(whet_policy policy, double strength);

/*
 * By name, as in the table. On failure returns WHET_ERROR_POLICY, leaves
 * *policy alone, and says why in message (up to message_size bytes, always
 * ended; NULL and 0 if not wanted).
 */
WHET_API whet_status whet_policy_parse(const char *name, whet_policy *policy, char *message,
                                       size_t message_size);

/*
 * Writes the name of a policy, such that parsing it gives the same policy
 * back, and returns its length (like snprintf: what does not fit is cut).
 * A custom policy is called "custom", which does not parse.
 */
WHET_API size_t whet_policy_name(const whet_policy *policy, char *name, size_t name_size);

/* Checks every number of a policy; WHET_OK or WHET_ERROR_POLICY, with a reason as in parse. */
WHET_API whet_status whet_policy_check(const whet_policy *policy, char *message,
                                       size_t message_size);

/* 1 if the policy's map is softmax, 0 for the other maps. */
WHET_API int whet_policy_is_temperature(const whet_policy *policy);

/*
 * beta for a row with these statistics, never below 0 (uniform) or above 1e30.
 * For target, which needs the logits themselves and not only their statistics,
 * the result is NaN.
 */
WHET_API double whet_policy_beta(const whet_policy *policy, const whet_stats *stats);

/*
 * How a result changes with the numbers of its policy, since those may be
 * learnt: the derivative with respect to each number of whet_policy, in the
 * same places (value, strength, hold, map_value). What a result does not depend on is 0:
 * unused places, a polynomial's numbers where threshold or floor decides, all
 * numbers where beta is kept within bounds. threshold, floor and the k of topk
 * have no derivative. target: H where it is reached, cap where that holds; at
 * strength 0 its strength has none.
 */
typedef struct whet_policy_gradient {
    double value[WHET_POLY_DEGREE_MAX + 1];
    double strength;
    double hold;
    double map_value[2];
    double reserved[3];
} whet_policy_gradient;

/*
 * The way back through whet_softmax, for training: from the gradient of a loss
 * with respect to the result, that with respect to the logits, through beta as
 * well (nothing is held constant: entropy, polynomial and all). Where a
 * threshold, a floor or a cap decides, beta does not move. `topk` is
 * differentiated among the entries it kept, `hardmax` has gradient zero; masked
 * entries have gradient zero, and what arrives at them is not looked at.
 *
 * in, mask     the logits as whet_softmax saw them
 * grad_out     with respect to the result, [rows][n]; may be NULL where a
 *              gradient of a statistic is given
 * grad_in      where the gradient with respect to the logits goes; may be the
 *              same place as grad_out (same type and stride) or as in, and
 *              overlap neither otherwise
 * policy_grad  optional: set to the sum over all rows of the gradient with
 *              respect to the policy's parameters; overlaps none of the others
 * sink, beta,  as whet_softmax saw them
 * position
 * grad_sink    optional: set to the gradient with respect to each sink that was
 *              given, the sum over all rows that are finite if there is one
 * grad_beta    optional: set to the gradient with respect to each row's beta,
 *              whether it was given or chosen by the policy; 0 for one that was
 *              given and is out of bounds
 * grad_logsumexp, grad_entropy, grad_entropy_after
 *              optional, one for each row: gradients of the loss with respect
 *              to these statistics of the row, which add to that of the result.
 *              grad_entropy_after is for maps that sum to one alone
 *              (WHET_ERROR_UNSUPPORTED for the others)
 * Strides as in whet_rows. A row is not finite if its logits, or what arrives
 * at its unmasked entries, hold NaN or an infinity that is no mask (or numbers
 * beyond 1e34, whose sums leave the range of a float): it gets NaN, the call
 * WHET_NOT_FINITE, and policy_grad leaves it out.
 *
 * A gradient is the sum of what a logit does itself and what it does through
 * beta; the result is within 5e-6 of the largest of these in its row, for target
 * as far as its entropy fixes beta. Takes up to 144 KiB of stack and allocates
 * nothing.
 */
typedef struct whet_rows_backward {
    size_t size; /* sizeof(whet_rows_backward) */
    size_t rows;
    size_t n;
    const void *in;
    ptrdiff_t in_stride;
    const void *mask;
    ptrdiff_t mask_stride;
    const void *grad_out;
    ptrdiff_t grad_out_stride;
    void *grad_in;
    ptrdiff_t grad_in_stride;
    whet_policy_gradient *policy_grad;
    whet_type in_type;
    whet_type mask_type;
    whet_type grad_out_type;
    whet_type grad_in_type;
    uint32_t reserved[2];
    const float *sink;
    size_t sink_stride;
    float *grad_sink;
    const float *beta;
    float *grad_beta;
    int64_t position;
    int64_t position_stride;
    const float *grad_logsumexp;
    const float *grad_entropy;
    const float *grad_entropy_after;
} whet_rows_backward;

WHET_API whet_status whet_softmax_backward(const whet_rows_backward *rows,
                                           const whet_policy *policy, size_t *first_bad_row);

/* The table above for programs: entry i, or NULL past the end. */
typedef struct whet_policy_info {
    const char *syntax;  /* "target:H[:cap=C]" */
    const char *summary; /* one line */
    const char *example; /* a name that parses */
    int is_temperature;  /* 0: a map */
} whet_policy_info;
WHET_API const whet_policy_info *whet_policy_table(size_t i);

/*
 * A policy's parameters, the temperature's first: what each is called and where
 * it lies in whet_policy and whet_policy_gradient. Returns how many there are,
 * and describes those that there is space for.
 */
typedef struct whet_parameter {
    const char *name;       /* "H", "cap"; the coefficients of poly are "c4" ... "c0" */
    size_t offset;          /* of the double in whet_policy */
    size_t gradient_offset; /* of its derivative in whet_policy_gradient; SIZE_MAX if it has none */
    unsigned entropy_power; /* it multiplies H to this power (poly); 0 for all others */
    int is_learnable;       /* meant to be trained: whet lm train --learn-policy does */
} whet_parameter;
WHET_API size_t whet_policy_parameters(const whet_policy *policy, whet_parameter *parameters,
                                       size_t capacity);

/* ------------------------------------------------------------------------
 * 4. ATTENTION
 * ------------------------------------------------------------------------
 *
 * For each batch b, query head h and query i, with the keys and values of key
 * head h / (heads / kv_heads):
 *
 *     e_j = softcap(scale q_i . k_j) - slope_h |i + offset - j| + bias_hj + mask_ij
 *     out_i = sum_j softmax(beta_i e)_j v_j
 *
 * and with any other map of the table in the place of softmax(beta e); every head
 * may have a policy of its own. n in sigmoid's ln n is the number of keys that
 * limits, mask and bias leave.
 *
 * A sink is one more logit for its head, without a value: it takes part in
 * the entropy and in the normalisation, and is multiplied by beta like the
 * rest, but not counted in n (with a sink, a row's maximum and largest
 * probability may be the sink's). To topk, hardmax, entmax, softmax1 and softpick it is
 * one more entry, whose share is lost. To sigmoid it is nothing. It stands before the
 * first key: stick-breaking reaches it last, and it takes of what no key took, so
 * that it changes nothing there either. Keys and values that are masked contribute
 * nothing, so that unused cache slots may hold anything, NaN included.
 *
 * Memory is linear in the number of keys, results are the same bit for bit
 * whatever the number of threads. Outputs are within 2e-6 of exact arithmetic
 * relative to the largest value, for logits and beta of usual size: the logits
 * themselves are rounded to f32, which beta then multiplies. (For sigmoid, times
 * what its coefficients sum to, where that is more than one. topk and hardmax choose
 * among logits so rounded.) Sums of values are taken before they are divided: n
 * times the largest value must fit a float.
 */

/*
 * How a tensor lies in memory: strides in bytes for [batch][head][position]
 * [element]. All strides zero means contiguous in this order. Address and
 * strides must be multiples of the element's size.
 *
 * A row of WHET_Q8_0 or WHET_Q4_0 is whole blocks without a gap: head_dim (of k)
 * or value_dim (of v) must be a multiple of 32, anything else is
 * WHET_ERROR_ARGUMENT. The strides count bytes from row to row and need be even,
 * as must the address; the element stride is not used. A scale may be any f16: one
 * that is not finite makes the block's elements so, which matters only to rows that
 * see the key. Nothing is lost in conversion, every element is exact in f32.
 *
 * For WHET_CUSTOM, to_f32 turns one position's row of `n` elements, starting at `row`, into
 * floats (the element stride is not used and all other strides must be given).
 */
typedef void (*whet_to_f32)(const void *row, float *result, size_t n, void *context);

typedef struct whet_tensor {
    const void *data;
    ptrdiff_t stride[4];
    whet_to_f32 to_f32;
    void *context;
    whet_type type;
    uint32_t reserved;
} whet_tensor;

typedef struct whet_tensor_out {
    void *data;
    ptrdiff_t stride[4];
    whet_type type; /* f32, f16 or bf16 */
    uint32_t reserved;
} whet_tensor_out;

/*
 * Additive mask, f32 or f16, strides in bytes for [batch][head][query][key].
 * Here a zero stride repeats the mask along that axis, except for keys, where
 * it means contiguous.
 */
typedef struct whet_mask {
    const void *data;
    ptrdiff_t stride[4];
    whet_type type;
    uint32_t reserved;
} whet_mask;

/*
 * One number for each (batch, head, key) that is added to the logits, beside the
 * mask: a bias of keys, or the decay of a forgetting gate. Strides in bytes for
 * [batch][head][key]; zero repeats the bias along that axis, except for keys, where
 * it means contiguous. -inf masks the key.
 */
typedef struct whet_key_bias {
    const float *data; /* NULL: none */
    ptrdiff_t stride[3];
} whet_key_bias;

/* Where its gradient goes; a zero stride sums over that axis. */
typedef struct whet_key_bias_out {
    float *data;
    ptrdiff_t stride[3];
} whet_key_bias_out;

/* Query i sees keys j <= i + offset. When decoding, offset is keys - queries; one query that sees
 * the whole cache needs neither. */
enum { WHET_CAUSAL = 1u };

/*
 * What to compute. Zero-initialise it, set size, the shape, q, k, v and out;
 * zero means the default for everything else.
 */
typedef struct whet_attention {
    size_t size;      /* sizeof(whet_attention) */
    size_t batch;     /* 0 means 1 */
    size_t heads;     /* query heads */
    size_t kv_heads;  /* key heads; heads must be a multiple; 0 means heads */
    size_t queries;   /* positions in q and out */
    size_t keys;      /* positions in k and v */
    size_t head_dim;  /* of q and k, 1 to 576 */
    size_t value_dim; /* of v and out, 1 to 576; 0 means head_dim */
    whet_tensor q;    /* f32, f16 or bf16 */
    whet_tensor k;    /* any type */
    whet_tensor v;    /* any type, its own choice */
    whet_tensor_out out;
    float scale;    /* 0 means 1 / sqrt(head_dim) */
    float softcap;  /* c tanh(x / c); 0 means none */
    uint32_t flags; /* WHET_CAUSAL */
    uint32_t reserved;
    int64_t offset; /* position of query 0 among the keys; when decoding, keys - queries */
    size_t window;  /* query i sees keys with |i + offset - j| < window; 0 means all */
    whet_mask mask;
    const float *alibi_slopes;   /* one for each query head, or NULL */
    const float *sinks;          /* one logit for each query head, or NULL */
    const whet_policy *policies; /* NULL means softmax */
    size_t policy_count;         /* 0 or 1: one for all heads; otherwise one for each query head */
    whet_stats *stats;           /* [batch][head][query], or NULL */
    size_t stats_stride;         /* in bytes from one to the next; 0 means sizeof(whet_stats) */
    whet_key_bias bias;
    const int64_t *positions; /* [batch][query]: positions of the queries' tokens, for policies that
                                 ask for them and for statistics; NULL means query + offset. Limits
                                 and ALiBi always go by offset */
    const float *betas; /* [batch][head][query], in place of the policies' own, which must be 1
                           (softmax or a map alone); or NULL */
    float *max_logits;  /* [head], or NULL: set to the largest e_j of all rows of the head, before
                           beta and without sinks (for QK-clip); -inf where every key is masked, NaN
                           where a key that is not masked has the logit NaN */
} whet_attention;

typedef struct whet_executor whet_executor;

/*
 * Computes attention in one call. executor NULL runs on the calling thread;
 * for several threads:
 *
 *     whet_pool *pool;
 *     whet_pool_create(0, &pool);
 *     whet_executor executor = whet_pool_executor(pool);
 *     whet_attention_forward(&attention, &executor, NULL);
 *
 * Allocates what it needs once and frees it; whet_attention_execute below does
 * without. With the status WHET_NOT_FINITE, *first_bad_row, if given, is the
 * index into [batch][head][query] of the first row with NaN or +inf among its
 * logits, whose output is NaN; otherwise it is left alone.
 */
WHET_API whet_status whet_attention_forward(const whet_attention *attention,
                                            const whet_executor *executor, uint64_t *first_bad_row);

/*
 * The way back. `attention` describes the forward pass, with the statistics it
 * left (needed: max, Z, beta and the rest are taken from there, only logits and
 * weights are computed again; rows of maps, and all rows where gradients of
 * statistics arrive, are computed again as a whole); its `out` is not looked at
 * and may be empty. The gradients of q, k and v go where data is not NULL, those of parameters,
 * which are sums over all rows of a head or policy, where there is a pointer (with sinks or slopes
 * that were not given it is WHET_ERROR_ARGUMENT). All are overwritten, none added to; none may
 * overlap an input or another. Every policy is led back through, a temperature's entropy and all,
 * as in whet_softmax_backward; what hardmax's values get is not zero, and a sink gets zero where it
 * changes nothing (sigmoid, stick-breaking). WHET_ERROR_UNSUPPORTED: gradients k.data, v.data of
 * quantised and custom k and v, whose other gradients are to be had. Memory grows with queries plus
 * keys. Rows without unmasked keys contribute nothing but the gradient of their logsumexp to their
 * sink. Gradients are within 1e-5 of exact arithmetic relative to the terms each is summed from,
 * for logits and beta of usual size: also those of rows so sharp that they are next to nothing, and
 * where values have much in common. They are the same bit for bit whatever the number of threads.
 * (Those of topk, and of entmax with a > 1.5, jump or are steep where an entry
 * enters or leaves, which logits rounded to f32 decide.)
 */
typedef struct whet_gradients {
    size_t size; /* sizeof(whet_gradients) */
    whet_attention attention;
    whet_tensor out; /* of the loss with respect to the output; f32, f16 or bf16 */
    whet_tensor_out q;
    whet_tensor_out k;
    whet_tensor_out v;
    whet_policy_gradient *policies; /* one for each policy given, at least one */
    float *sinks;                   /* one for each query head */
    float *alibi_slopes;            /* one for each query head */
    whet_key_bias_out bias;
    float *betas; /* [batch][head][query]: with respect to each row's beta, given or chosen */
    /* Gradients of the loss with respect to statistics, [batch][head][query] each, or NULL; they
     * add to that of the output, whose data may be NULL where one of these is given.
     * entropy_after is for maps that sum to one alone (WHET_ERROR_UNSUPPORTED for the others). */
    const float *logsumexp;
    const float *entropy;
    const float *entropy_after;
} whet_gradients;

/* In one call, like whet_attention_forward. A row that is not finite (among its logits, the values
 * it sees or the gradients of its output and statistics) is named in *first_bad_row: its own
 * gradient, that of its beta and those of the keys, values and biases it sees are NaN; it is left
 * out of the parameters' gradients. */
WHET_API whet_status whet_attention_backward(const whet_gradients *gradients,
                                             const whet_executor *executor,
                                             uint64_t *first_bad_row);

/* ------------------------------------------------------------------------
 * 5. ADVANCED
 * ------------------------------------------------------------------------
 *
 * Plans. Attention is a number of phases; each consists of tasks that do not
 * depend on each other and may run in any order, on any thread, one after the
 * other or all at once. Between two phases lies a barrier. The division into
 * tasks depends on the shape only, never on the number of threads.
 *
 *     whet_plan plan = {.size = sizeof plan};
 *     whet_attention_plan(&attention, &plan);
 *     plan.workspace = ...plan.workspace_bytes, aligned to WHET_ALIGNMENT...
 *     for (phase = 0; phase < plan.phases; phase++)
 *         for (task = 0; task < plan.tasks[phase]; task++)   // in parallel
 *             whet_attention_run_task(&plan, phase, task, scratch, NULL);
 *
 * where scratch is plan.scratch_bytes for each task that is under way at the
 * same time, aligned likewise; its contents need not survive a task.
 */
#define WHET_ALIGNMENT 64
#define WHET_PHASES_MAX 16

typedef struct whet_plan {
    size_t size; /* sizeof(whet_plan), set by the caller before planning */
    unsigned phases;
    size_t tasks[WHET_PHASES_MAX];
    size_t scratch_bytes;   /* for each task under way */
    size_t workspace_bytes; /* shared by all tasks; may be 0 */
    void *workspace;        /* set by the caller before the first task */
    /* The library's own from here on. The plan holds a copy of the description;
     * what that points to must outlive the plan. */
    union {
        whet_attention attention;
        whet_gradients gradients;
        unsigned char reserved[1536]; /* lets descriptions grow while the size of plans stays */
    } description;
    uint64_t internal[32];
} whet_plan;

/*
 * Checks the description and divides the work. Cheap enough to be done for every
 * token of a growing cache: no allocation, no pass over data. With up to 32
 * query rows to a key head (decoding), memory needs only grow with the number of
 * keys, so that memory for the cache's capacity serves all shorter lengths.
 *
 * A plan whose size is not this library's is WHET_ERROR_ARGUMENT, here and in every
 * function that takes one. The plan is written only if the result is WHET_OK.
 */
WHET_API whet_status whet_attention_plan(const whet_attention *attention, whet_plan *plan);

/* The same for the way back; the plan is run by the same functions. With nothing asked for it has
 * no phases. */
WHET_API whet_status whet_attention_backward_plan(const whet_gradients *gradients, whet_plan *plan);

/*
 * Does one task. Pure and reentrant: reads the plan and the inputs, writes its
 * own part of outputs, workspace and scratch. Returns WHET_NOT_FINITE if a row
 * that it finished was not finite, and that row in *first_bad_row (may be
 * NULL); WHET_ERROR_ARGUMENT for a task that does not exist.
 */
WHET_API whet_status whet_attention_run_task(const whet_plan *plan, unsigned phase, size_t task,
                                             void *scratch, uint64_t *first_bad_row);

/*
 * Executors. How work reaches threads: parallel_for calls
 * function(argument, task, worker) once for each task in 0 ... tasks - 1, with
 * worker below `workers` and never the same for two calls that are under way
 * at once, and returns when all are done. tasks is never 0; a single worker may
 * simply loop. Wrap your own thread pool this way.
 */
typedef void (*whet_task_function)(void *argument, size_t task, size_t worker);

struct whet_executor {
    size_t workers;
    void (*parallel_for)(void *context, size_t tasks, whet_task_function function, void *argument);
    void *context;
};

/* Bytes that whet_attention_execute needs for a plan and an executor (NULL: one worker);
 * SIZE_MAX if that is more than there can be, or the plan has another size. */
WHET_API size_t whet_attention_memory(const whet_plan *plan, const whet_executor *executor);

/* Runs a whole plan in memory of the caller's (aligned to WHET_ALIGNMENT): no allocation at all.
 * Leaves plan->workspace alone. */
WHET_API whet_status whet_attention_execute(const whet_plan *plan, const whet_executor *executor,
                                            void *memory, uint64_t *first_bad_row);

/*
 * A small pool of threads, for those who have none. threads counts the calling
 * thread, which takes part; 0 means one for each processor this process may
 * use. One parallel_for at a time is run by all threads; a second one that
 * comes in meanwhile, from another thread or from inside a task, runs on its
 * caller alone. After fork() the child may go on using its copy (threads are
 * started anew) and should destroy it.
 */
typedef struct whet_pool whet_pool;
WHET_API whet_status whet_pool_create(size_t threads, whet_pool **pool);
WHET_API void whet_pool_destroy(whet_pool *pool); /* NULL is fine */
WHET_API size_t whet_pool_threads(const whet_pool *pool);
/* Good as long as the pool is. */
WHET_API whet_executor whet_pool_executor(whet_pool *pool);

/*
 * The name of the instruction set in use, such as "avx2" or "scalar". Chosen once, at
 * first use: the best this processor has, or the one named by the environment
 * variable WHET_ISA if the processor has it (otherwise WHET_ISA is ignored).
 */
WHET_API const char *whet_isa(void);

#if defined(__cplusplus)
}
#endif

#endif
