/*
 * whet.h - softmax and attention that stay sharp as their input grows.
 *
 * INTRODUCTION
 *
 * Softmax disperses: for bounded logits, each of n coefficients falls to zero like
 * 1/n as n grows. A sharpening policy looks at a row of logits e, computes an inverse
 * temperature beta from it, and normalises beta * e instead of e:
 *
 *     logits e -> statistics (n, max, Z, S, entropy) -> beta -> softmax(beta e)
 *
 * The statistics take one pass over the row. With m = max e,
 * Z = sum exp(e - m) and S = sum (e - m) exp(e - m), the entropy is
 * H = log Z - S / Z. The triples (m, Z, S) of two pieces of a row merge into that
 * of the whole row, so sharpening works in attention that streams over its keys.
 *
 * The policy "adaptive" is from "Softmax is not enough (for sharp size
 * generalisation)" (ICML 2025), called the paper below. The shortest useful call:
 *
 *     #include <whet.h>
 *     float row[4] = {1, 2, 3, 4};
 *     whet_rows rows = {.size = sizeof rows, .rows = 1, .n = 4, .in = row, .out = row};
 *     whet_policy policy = whet_policy_adaptive();
 *     whet_softmax(&rows, &policy, NULL);
 *
 * This header is meant to be read from top to bottom:
 *
 *     1. conventions     status codes, error messages, element types
 *     2. rows            statistics, whet_softmax, whet_entropy
 *     3. policies        ready-made, by name, or your own; whet_softmax_backward
 *     4. attention       whet_attention_forward and whet_attention_backward
 *     5. advanced        plans and tasks, executors, the thread pool, instruction sets
 *
 * The library prints nothing, never ends the program, and keeps no global state
 * except the instruction set, which it chooses once, and one error message per
 * thread. Any number of threads may call it at once, as long as no call writes
 * memory that another reads or writes. Entropies are in nats.
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
 * ------------------------------------------------------------------------
 *
 * The main functions take a description: a struct that begins with `size` and
 * names the inputs, the outputs and the options. Zero-initialise it, set `size` to
 * the size of the struct, and set what you need; zero means the default for
 * everything else. `size` lets other versions of the library refuse a struct whose
 * layout they do not know. Members called `reserved` must stay zero.
 */

#define WHET_VERSION_MAJOR 0
#define WHET_VERSION_MINOR 3
#define WHET_VERSION_PATCH 0

/* Returns the version of the library that the program runs with, such as "0.3.0". */
WHET_API const char *whet_version(void);

/*
 * The result of a call. WHET_NOT_FINITE is not an error: at least one row was not
 * finite, which means that it or its sink held NaN or +inf (-inf only masks), or that
 * a beta given for it was NaN. The result of such a row is NaN, and all other rows are
 * correct. The comments of the backward functions say which gradients become NaN,
 * and which leave the row out. With WHET_ERROR_ARGUMENT or any higher value, the
 * call was refused and wrote no results.
 */
typedef enum whet_status {
    WHET_OK = 0,
    WHET_NOT_FINITE = 1,
    WHET_ERROR_ARGUMENT = 2,    /* a null pointer, or a size, type or flag out of range */
    WHET_ERROR_OVERFLOW = 3,    /* sizes or strides that exceed the address range */
    WHET_ERROR_OVERLAP = 4,     /* an output overlaps an input or another output */
    WHET_ERROR_POLICY = 5,      /* an unknown policy, or a parameter out of range */
    WHET_ERROR_UNSUPPORTED = 6, /* meaningful, but not implemented or not available here */
    WHET_ERROR_MEMORY = 7       /* out of memory, or a thread could not be started */
} whet_status;

/* Returns one line that describes a status. Never NULL, not even for unknown values. */
WHET_API const char *whet_status_text(whet_status status);

/*
 * Returns one sentence about the last call that was refused on this thread. It
 * names the argument, or the member of the description, that was wrong:
 *
 *     k.stride[1] is 0 with 2 key heads
 *     policies[3]: entmax needs 1 < a <= 2, not 0.5
 *
 * Every function that refuses a call sets it; a call that succeeds, or returns
 * WHET_NOT_FINITE, leaves it alone. So look at it only after a refusal. It is
 * never NULL; before the first refusal it is "". Each thread has its own. The text
 * stays valid until the next refusal on the same thread, or until the thread
 * ends; it is cut to 511 bytes. The wording may change between versions.
 */
WHET_API const char *whet_last_error(void);

/*
 * Element types. Arithmetic is in f32 or wider for all of them; f16 and bf16
 * outputs are the f32 result rounded to nearest even.
 *
 * The types listed after bf16 are for the keys and values of attention only:
 * WHET_CUSTOM is a format of your own (whet_tensor), and the others are the quantised
 * types of llama.cpp's caches. In these, a block of 32 elements shares a scale d and,
 * in some types, a minimum m, both f16. The comments give the layout of a block and
 * the value of an element. Nibbles are half bytes: the low nibbles of a block's
 * last 16 bytes belong to elements 0 to 15, the high ones to elements 16 to 31.
 * In q5_0 and q5_1, the four bytes, read as a little-endian 32-bit integer, hold
 * the top bit of element i in bit i; "five" is the 5-bit integer made of this bit
 * and, below it, the nibble.
 */
typedef enum whet_type {
    WHET_F32 = 0,
    WHET_F16 = 1,
    WHET_BF16 = 2,
    WHET_Q8_0 = 3,   /* 34 bytes per block: d, 32 signed bytes; value: d * byte */
    WHET_Q4_0 = 4,   /* 18 bytes: d, 16 bytes; value: d * (nibble - 8) */
    WHET_Q4_1 = 5,   /* 20 bytes: d, m, 16 bytes; value: d * nibble + m */
    WHET_Q5_0 = 6,   /* 22 bytes: d, 4 bytes, 16 bytes; value: d * (five - 16) */
    WHET_Q5_1 = 7,   /* 24 bytes: d, m, 4 bytes, 16 bytes; value: d * five + m */
    WHET_IQ4_NL = 8, /* 18 bytes: d, 16 bytes; value: d * c[nibble], where c is -127, -104, -83,
                        -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 */
    WHET_CUSTOM = 255
} whet_type;

/* Returns a type's name ("f32", "q8_0", "custom"), or NULL if there is no such type. */
WHET_API const char *whet_type_name(whet_type type);
/* Sets *type to the type of that name. WHET_ERROR_ARGUMENT if there is none. */
WHET_API whet_status whet_type_parse(const char *name, whet_type *type);

/* Returns the size in bytes of a contiguous row of n elements. Returns 0 for WHET_CUSTOM, for an
 * unknown type, for n that is not a multiple of a quantised type's block, and on overflow. */
WHET_API size_t whet_type_row_bytes(whet_type type, size_t n);

/* ------------------------------------------------------------------------
 * 2. ROWS
 * ------------------------------------------------------------------------
 *
 * Terms. A masked entry has the logit -inf. A sink is an additional logit that takes
 * part of the weight but has no entry in the result (whet_rows). A map turns logits
 * into coefficients, as softmax does (section 3); coefficient, probability and weight
 * mean the same number.
 */

/*
 * Statistics of one row. The fields above the blank line do not depend on the
 * policy, and whet_stats_merge combines those of two pieces of a row. The fields
 * below it are those of the result under the policy.
 *
 * If every entry is masked, or n is 0, the flag WHET_ROW_EMPTY is set; n, z, s,
 * entropy, entropy_after, max_prob and sink_share are 0, max and logsumexp are -inf,
 * min is +inf, argmax is UINT64_MAX, and beta is 1. With a sink the flag is set, too,
 * but max, z, s, logsumexp and max_prob are those of the sink alone.
 */
typedef struct whet_stats {
    uint64_t n;       /* number of entries that are not masked (not -inf), without the sink */
    double max;       /* m: the largest logit, including the sink */
    double z;         /* Z: sum of exp(e - m) */
    double s;         /* S: sum of (e - m) exp(e - m), never positive */
    double logsumexp; /* m + log Z */
    double entropy;   /* H = log Z - S / Z, the entropy of softmax(e) in nats */
    double min;       /* the smallest logit that is not masked; +inf if all are */
    uint64_t argmax;  /* index of the first largest entry, without the sink; UINT64_MAX if none */
    int64_t position; /* the row's token position, as given in the description */

    double beta;          /* inverse temperature */
    double entropy_after; /* entropy of the result in nats; NaN for maps that need not sum to 1 */
    double max_prob;      /* largest coefficient, including the sink's */
    double sink_share;    /* coefficient of entry 0, where trained models often put attention that
                             they have no use for; not related to the additional logit `sink` */
    uint32_t flags;       /* WHET_ROW_... */
    uint32_t reserved;
    double skipped_weight; /* attention with skip (section 4): sum of the coefficients whose values
                              were left out */
    double skipped_share;  /* attention with skip: how many values were left out, as a share of
                              the keys that causality and window allow */
} whet_stats;

enum {
    WHET_ROW_EMPTY = 1u,      /* everything is masked: the result is all zeros */
    WHET_ROW_NOT_FINITE = 2u, /* NaN or +inf in the row: the result is NaN */
    WHET_ROW_CAPPED = 4u      /* policy target: beta reached its cap, and the entropy is still above
                                 the target */
};

/* Returns the statistics of an empty row: merging them with others changes no sum. */
WHET_API whet_stats whet_stats_empty(void);

/*
 * Merges the statistics of two pieces of a row, a before b, into those of the
 * whole. Reads `flags` and the fields above the blank line, and sets the fields
 * below it to the values of plain softmax, except sink_share, which becomes NaN. A
 * policy's beta depends on the whole row, so call whet_policy_beta after merging all
 * pieces.
 *
 * argmax is copied from the piece with the larger maximum (from a if equal), so
 * first add to each piece's argmax the index at which the piece starts. To include a
 * sink, merge it last, as the statistics of a row with n = 0 and a sink; it does not
 * change argmax. position is a's unless a is empty. If a piece is not finite, neither
 * is the result. result may be a or b. A NULL piece counts as empty; with a NULL
 * result nothing happens.
 */
WHET_API void whet_stats_merge(const whet_stats *a, const whet_stats *b, whet_stats *result);

/*
 * A set of rows: `rows` rows of n contiguous values each. A stride counts elements
 * from the start of one row to the start of the next; stats_stride counts bytes.
 *
 * size         sizeof(whet_rows)
 * in, out      logits and result. They may be the same array (same address, type and
 *              stride); any other overlap is refused. Addresses must be multiples of
 *              the element size. A stride of 0 means n
 * mask         optional: added to the logits before anything else; f32 or f16.
 *              mask_stride 0 means one mask row for all rows. -inf masks an entry: its
 *              coefficient is exactly zero. A logit of -inf has the same effect
 * stats        optional: one for each row, stats_stride bytes apart (0 means
 *              sizeof(whet_stats))
 * sink         optional: an additional logit. It takes part in the entropy and in
 *              the normalisation, but is not counted in n and has no entry in the
 *              result. The sinks of successive rows are sink_stride floats apart; 0
 *              means one sink for all rows. Section 4 says what sinks mean to each map
 * beta         optional: one inverse temperature for each row, instead of the
 *              policy's. The policy must then have no temperature of its own: softmax,
 *              or a map by itself such as sparsemax (section 3). Values are clamped to
 *              0 ... 1e30; NaN makes a row not finite
 * position     token position of the first row, for policies that use positions
 *              (llama4 and custom ones, section 3) and for the statistics; it grows by
 *              position_stride from row to row
 *
 * rows = 0 and n = 0 are allowed. With n = 0, in and out may be NULL, and every
 * row is treated like one in which everything is masked.
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
 * Normalises each row under a policy; NULL means plain softmax. Returns
 * WHET_NOT_FINITE if a row held NaN or +inf, and stores the index of the first
 * such row in *first_bad_row, which is left alone if there is none. first_bad_row
 * may be NULL.
 *
 * Numerical errors, for n up to 1,048,576 and logits up to 1e4 in magnitude, are at most
 *     entropy         2e-6 * max(1, H)
 *     beta            1e-5 * max(1, beta); for target, which solves for beta, plus the
 *                     change of beta that an entropy error of the size above causes
 *     probabilities   4e-6 relative or 1e-9 absolute, whichever is larger, compared
 *                     with exact arithmetic that uses the reported beta
 * Uses up to 96 KiB of stack and allocates nothing.
 */
WHET_API whet_status whet_softmax(const whet_rows *rows, const whet_policy *policy,
                                  size_t *first_bad_row);

/* Computes the same statistics without the probabilities. `stats` is required, `out` is ignored. */
WHET_API whet_status whet_entropy(const whet_rows *rows, const whet_policy *policy,
                                  size_t *first_bad_row);

/* ------------------------------------------------------------------------
 * 3. POLICIES
 * ------------------------------------------------------------------------
 *
 * A policy has two parts: a temperature, which is a rule that computes the inverse
 * temperature beta from a row's statistics, and a map, which turns beta * e into
 * coefficients. It is a plain struct: copy it, store it. To compare two policies,
 * compare their names (whet_policy_name); names cannot tell custom policies apart.
 *
 * In the table, H and n are `entropy` and `n` of the row's whet_stats, so n counts
 * unmasked entries without the sink, and e is the row of logits; in the formulas of
 * maps, e stands for the scaled logits beta * e.
 *
 *   name                beta, or the coefficients of a map
 *   softmax             beta = 1
 *   fixed:B             B for every row, B > 0: a temperature of 1/B
 *   adaptive            the paper's rule: max(1, P(H)) for H > 0.5, else 1, with the
 *                       paper's polynomial P of degree 4
 *   adaptive:hold       the same, but beyond the peak at H = 4.412 beta stays 2.421
 *   poly:c4/c3/...      a polynomial in H, highest power first, degree up to 8
 *     [:threshold=T]      1 where H <= T             (default: none)
 *     [:floor=F]          never below F              (default 1)
 *     [:hold=H1]          beta(H) = beta(H1) for H > H1
 *   exp:h0              max(1, exp(H - h0))
 *   target:H[:cap=C]    the beta in [1, C] at which the entropy of softmax(beta e) is
 *                       H, here a number of nats that you give (C = 256 by default);
 *                       1 if the entropy at beta = 1 is already below H, C if the
 *                       entropy at beta = C is still above H
 *   ssmax:s[:b[:g]]     s (ln n)^g + b; b = 0, g = 1 by default, g >= 0
 *   length:n0           max(1, ln n / ln n0), n0 > 1
 *   linear:n0           max(1, n / n0), n0 > 0
 *   hinge:a:h:n0        exp(a + h max(0, ln(n / n0))), n0 > 0
 *   llama4[:s[:n0[:offset]]]
 *                       1 + s ln(1 + floor((position + offset) / n0)), with the query's
 *                       position; s = 0.1, n0 = 8192, offset = 1 by default, as in
 *                       Llama 4; Ministral and Mistral Large use offset = 0.
 *                       Positions below -offset count as -offset
 *   topk:k              softmax over the entries not below the k-th largest
 *   hardmax             all weight on the largest entry; ties share it
 *   sparsemax           alpha-entmax with alpha = 2
 *   entmax15            alpha-entmax with alpha = 1.5
 *   entmax:a            alpha-entmax with alpha = a, 1 < a <= 2
 *   softmax1            exp(e) / (1 + sum exp(e))
 *   sigmoid[:b]         1 / (1 + exp(b - e)), b = ln n by default
 *   stick-breaking      sigma(e_i) * product over j > i of (1 - sigma(e_j)), with
 *                       sigma(x) = 1 / (1 + exp(-x))
 *   softpick            max(exp(e) - 1, 0) / sum |exp(e) - 1|
 *
 * Every temperature takes :strength=s, s >= 0, which replaces beta by 1 + s (beta - 1).
 *
 * The names from softmax to llama4 are temperatures; used alone, they go with the
 * map softmax. The names from topk on are maps; used alone, they go with beta = 1.
 * TEMPERATURE+MAP combines the two: "adaptive+softmax1",
 * "ssmax:0.3:0.5+entmax15", "length:2048+topk:64".
 *
 * The results of softmax, topk, hardmax and entmax sum to 1 (counting the share of
 * a sink); those of softmax1, sigmoid, stick-breaking and softpick need not.
 *
 * H is the entropy of softmax(e), whichever map follows; it includes the sink but
 * not the additional zero logit of softmax1. target combines only with maps that
 * sum to 1. A beta of 0, computed or given, is applied as 1e-30, so that maps still
 * see the order of the logits.
 */
typedef enum whet_policy_kind {
    WHET_POLICY_SOFTMAX = 0, /* the temperature beta = 1, and the map softmax */
    /* temperatures */
    WHET_POLICY_FIXED = 1,
    WHET_POLICY_POLY = 2, /* includes adaptive */
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
    WHET_POLICY_ENTMAX = 66, /* includes sparsemax and entmax15 */
    WHET_POLICY_SOFTMAX1 = 67,
    WHET_POLICY_SIGMOID = 68,
    WHET_POLICY_STICK_BREAKING = 69,
    WHET_POLICY_SOFTPICK = 70
} whet_policy_kind;

/*
 * A temperature of your own. Returns beta for a row with these statistics, and
 * stores the derivative of beta with respect to the entropy in *dbeta_dentropy,
 * which is 0 on entry. It must be a pure function: it is called from several
 * threads, and may be called more than once for a row.
 */
typedef double (*whet_beta_function)(const whet_stats *stats, double *dbeta_dentropy,
                                     void *context);

#define WHET_POLY_DEGREE_MAX 8

/*
 * Read the fields if you like, but create policies with the functions below, which
 * set every field. The constructors check nothing: parameters out of range are
 * refused by whet_policy_check and by every call that takes the policy. A
 * zero-initialised policy is not valid.
 */
struct whet_policy {
    uint32_t temperature; /* whet_policy_kind, below 64 */
    uint32_t map;         /* whet_policy_kind: 0 for softmax, or from 64 on */
    uint32_t degree;      /* poly: highest power */
    uint32_t reserved;
    double strength; /* 1: the temperature's full effect */
    /* parameters of the temperature. poly: coefficients from the highest power down;
     * others in the order of the name (fixed B; exp h0; target H, cap; ssmax s, b, g;
     * length n0; linear n0; hinge a, h, n0; llama4 s, n0, offset) */
    double value[WHET_POLY_DEGREE_MAX + 1];
    double threshold; /* poly: -inf for none */
    double floor;     /* poly: -inf for none */
    double hold;      /* poly: +inf for none */
    /* parameters of the map: topk k; entmax a; sigmoid b, or NaN for ln n */
    double map_value[2];
    whet_beta_function function;
    void *context;
    unsigned char reserved_bytes[16];
};

WHET_API whet_policy whet_policy_softmax(void);
WHET_API whet_policy whet_policy_fixed(double beta);
WHET_API whet_policy whet_policy_adaptive(void);
WHET_API whet_policy whet_policy_adaptive_hold(void);
/* coefficients[0] belongs to the highest power, H^degree. threshold -INFINITY, floor -INFINITY
 * and hold INFINITY mean none. */
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

/* Combines the temperature of one policy with the map of another: TEMPERATURE+MAP. */
WHET_API whet_policy whet_policy_compose(whet_policy temperature, whet_policy map);

/* Returns the same policy with beta replaced by 1 + strength (beta - 1). */
WHET_API whet_policy whet_policy_with_strength(whet_policy policy, double strength);

/*
 * Reads a policy's name, as in the table. If the name is not valid, returns
 * WHET_ERROR_POLICY, leaves *policy alone, and writes the reason to message: up to
 * message_size bytes, always terminated. message may be NULL.
 */
WHET_API whet_status whet_policy_parse(const char *name, whet_policy *policy, char *message,
                                       size_t message_size);

/*
 * Writes a policy's name, from which whet_policy_parse makes the same policy, and
 * returns its length. As with snprintf, a name that does not fit is cut, and the
 * length is that of the whole name. A custom policy is called "custom", which
 * cannot be parsed. NULL is softmax.
 */
WHET_API size_t whet_policy_name(const whet_policy *policy, char *name, size_t name_size);

/* Checks a policy's parameters. Returns WHET_OK, or WHET_ERROR_POLICY with the reason in message,
 * as whet_policy_parse does. */
WHET_API whet_status whet_policy_check(const whet_policy *policy, char *message,
                                       size_t message_size);

/* Returns 1 if the policy is a temperature only, that is, if its map is softmax (or policy is
 * NULL). Returns 0 if it has another map, by itself or combined with a temperature. */
WHET_API int whet_policy_is_temperature(const whet_policy *policy);

/*
 * Returns beta for a row with these statistics, between 0 (uniform) and 1e30; 1 if
 * policy is NULL. Returns NaN for statistics of a row that is not finite, for
 * NULL statistics, for an invalid policy, and for target, which needs the logits
 * themselves.
 */
WHET_API double whet_policy_beta(const whet_policy *policy, const whet_stats *stats);

/*
 * Gradients with respect to the parameters of a policy, so that they can be
 * trained. Each derivative has the name that its parameter has in whet_policy.
 * Parameters without influence get 0: unused fields, a polynomial's coefficients
 * where the threshold or the floor determines beta, all parameters where beta is
 * clamped. threshold, floor and the k of topk have no derivative. For target, the
 * derivative with respect to H is nonzero only in rows that reach that entropy, and
 * the one with respect to cap only in rows that reach the cap. target with strength 0
 * does not search for beta, so its derivative with respect to strength is 0 as well.
 */
typedef struct whet_policy_gradient {
    double value[WHET_POLY_DEGREE_MAX + 1];
    double strength;
    double hold;
    double map_value[2];
    double reserved[3];
} whet_policy_gradient;

/*
 * Description of the backward pass of whet_softmax. Strides are as in whet_rows.
 *
 * size         sizeof(whet_rows_backward)
 * in, mask, sink, beta, position
 *              as in the forward pass. `in` must hold the original logits: keep a
 *              copy if the forward pass runs in place
 * grad_out     gradient of the loss with respect to the result, [rows][n]; may be
 *              NULL if the gradient of a statistic is given
 * grad_in      required output: gradient with respect to the logits. It may be the same
 *              array as `grad_out` or `in` (same address, type and stride), and
 *              must not overlap them otherwise
 * policy_grad  optional output: gradient with respect to the policy's parameters,
 *              summed over all rows
 * grad_sink    optional output: gradient with respect to each sink; with one sink
 *              for all rows, the sum over all finite rows
 * grad_beta    optional output: gradient with respect to each row's beta, whether
 *              given or computed; 0 if a given beta is out of range
 * grad_logsumexp, grad_entropy, grad_entropy_after
 *              optional: gradients of the loss with respect to these statistics,
 *              one for each row. What they contribute is added to every gradient
 *              that is asked for. grad_entropy_after requires a map that sums to 1
 *              (WHET_ERROR_UNSUPPORTED for the others)
 */
typedef struct whet_rows_backward {
    size_t size;
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

/*
 * Backpropagates through whet_softmax, including through beta. Where a threshold, a
 * floor, hold or a cap determines beta, the logits get no gradient through beta. A
 * custom policy's beta is differentiated through the entropy only. topk is
 * differentiated among the entries it kept; hardmax has gradient 0. Masked entries
 * get gradient 0, and the gradients that arrive at them are ignored.
 *
 * Here a row is also not finite if the gradients that arrive at its unmasked entries
 * contain NaN or an infinity. Logits or gradients beyond 1e34 in magnitude may have
 * the same effect, because their sums may exceed the range of a float. A row that is
 * not finite gets NaN and is left out of policy_grad; the call returns
 * WHET_NOT_FINITE and sets *first_bad_row as whet_softmax does.
 *
 * A gradient is the sum of a direct term and a term through beta. The error of any
 * gradient is at most 5e-6 times the largest such term in its row; for target it may
 * be larger, because a small error of the entropy can cause a large one of beta.
 * Uses up to 144 KiB of stack and allocates nothing.
 */
WHET_API whet_status whet_softmax_backward(const whet_rows_backward *rows,
                                           const whet_policy *policy, size_t *first_bad_row);

/* An entry of the table of policies above. */
typedef struct whet_policy_info {
    const char *syntax;  /* "target:H[:cap=C]" */
    const char *summary; /* one line */
    const char *example; /* a name that can be parsed */
    int is_temperature;  /* 0: a map */
} whet_policy_info;
/* Returns entry i, or NULL past the end. */
WHET_API const whet_policy_info *whet_policy_table(size_t i);

/* A parameter of a policy: its name, and where it is in whet_policy and whet_policy_gradient. */
typedef struct whet_parameter {
    const char *name;       /* "H", "cap"; the coefficients of poly are "c4" ... "c0" */
    size_t offset;          /* of the double in whet_policy */
    size_t gradient_offset; /* of the derivative in whet_policy_gradient; SIZE_MAX if none */
    unsigned entropy_power; /* the power of H that it multiplies (poly); 0 for all others */
    int is_learnable;       /* trained by whet lm train --learn-policy */
} whet_parameter;
/* Writes up to `capacity` of a policy's parameters, the temperature's first, to the array
 * `parameters`, which may be NULL. Returns how many the policy has; 0 for an invalid policy. */
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
 * softcap, slope (ALiBi), offset, bias and mask are optional members of
 * whet_attention, below. Any other map of the table may take the place of softmax,
 * and every head may have its own policy. In the formulas of section 3, n is the
 * number of visible keys: those that causality, the window, the mask and the bias do
 * not exclude.
 *
 * A sink is an additional logit of a head, without a value. It counts in the entropy
 * and is multiplied by beta, but it is not counted in n. max and max_prob of a row
 * may be those of its sink. For softmax and every other map except sigmoid and
 * stick-breaking, the sink takes a share of the weight, which goes to no value. For
 * sigmoid and stick-breaking, it changes the result only through beta: sigmoid does
 * not normalise, and in stick-breaking the sink comes before the first key and takes
 * only what the keys left over.
 *
 * Masked keys and their values contribute nothing, whatever they hold: unused
 * slots of a cache may contain NaN. Queries are computed in groups: when decoding,
 * all queries of the heads that share a key head; otherwise up to a few dozen
 * queries. Keys that are masked for a whole group, such as keys of other sequences
 * in the same cache, cost next to nothing. A mask with a head stride of 0, the same
 * for all heads, is scanned only once.
 *
 * skip saves time by not reading values that hardly matter. Values are read in blocks
 * of 64, after the weights of all rows of a group are known. Blocks are left out as
 * long as, in each row of the group, the weights left out add up to at most `skip`.
 * The other coefficients are not changed, so an output differs by at most skip times
 * the largest value left out. The statistics report what each row lost
 * (skipped_weight, skipped_share). The values left out have no effect, even if they
 * are NaN. Gradients are those of the outputs computed this way, with the choice of
 * blocks held constant. Values whose coefficients are exactly zero (topk, hardmax,
 * entmax) are left out at skip = 0, too, which does not change the outputs of finite
 * rows.
 *
 * Memory use is linear in the number of keys. Results are the same bit for bit
 * for any number of threads. Compared with exact arithmetic, the error of an output
 * is at most 2e-6 times the largest magnitude in v; for sigmoid, multiply this bound
 * by the sum of the coefficients if that exceeds 1. Very large logits or betas lose
 * accuracy, because logits are rounded to f32 before they are multiplied by beta.
 * topk and hardmax choose among the rounded logits. Weighted values are summed before
 * the sum is divided, so n times the largest value must not overflow a float.
 */

/*
 * A tensor in memory, with strides in bytes for [batch][head][position][element].
 * Address and strides must be multiples of the element size.
 *
 * If all strides are zero, the tensor is contiguous in this order. Otherwise, a
 * stride of zero is treated as follows:
 *     batch      all batches read the same memory
 *     head       refused if there are several heads (to share keys and values
 *                among query heads, use kv_heads)
 *     position   refused if there are several positions
 *     element    elements are contiguous
 * The stride of an axis of length 1 is never used and may be anything.
 *
 * A row of a quantised type is a sequence of whole blocks without gaps:
 * head_dim (for k) or value_dim (for v) must be a multiple of 32. Address and
 * strides must be even; the element stride is ignored. Elements are converted to
 * f32 exactly, except those of types with a minimum m (q4_1, q5_1), which are rounded.
 * A scale or minimum that is not finite affects only the queries that see its position.
 *
 * For WHET_CUSTOM, to_f32 converts one position's row of n elements to floats.
 * The element stride is ignored; the other strides must be given.
 */
typedef void (*whet_to_f32)(const void *row, float *result, size_t n, void *context);

typedef struct whet_tensor {
    const void *data;
    ptrdiff_t stride[4];
    whet_to_f32 to_f32;
    void *context; /* passed to to_f32 */
    whet_type type;
    uint32_t reserved;
} whet_tensor;

/* The same for outputs. Strides that put two elements at the same address are refused
 * (WHET_ERROR_OVERLAP). */
typedef struct whet_tensor_out {
    void *data;
    ptrdiff_t stride[4];
    whet_type type; /* f32, f16 or bf16 */
    uint32_t reserved;
} whet_tensor_out;

/*
 * An additive mask, f32 or f16, with strides in bytes for
 * [batch][head][query][key]. A stride of zero repeats the mask along that axis;
 * for keys, it means contiguous.
 */
typedef struct whet_mask {
    const void *data; /* NULL: none */
    ptrdiff_t stride[4];
    whet_type type;
    uint32_t reserved;
} whet_mask;

/*
 * A bias for each (batch, head, key), added to the logits like the mask: for
 * example the decay of a forget gate. Strides in bytes for
 * [batch][head][key]. A stride of zero repeats the bias along that axis; for keys,
 * it means contiguous. -inf masks the key.
 */
typedef struct whet_key_bias {
    const float *data; /* NULL: none */
    ptrdiff_t stride[3];
} whet_key_bias;

/* The gradient of the bias. A stride of zero sums over batches or heads; for keys, it means
 * contiguous. */
typedef struct whet_key_bias_out {
    float *data;
    ptrdiff_t stride[3];
} whet_key_bias_out;

/* Flag: query i sees keys j <= i + offset only. When decoding, set offset to keys - queries. A
 * single query that sees the whole cache does not need the flag; it needs offset only with a
 * window, ALiBi or a policy that uses positions. */
enum { WHET_CAUSAL = 1u };

/* Flag: a query's output and statistics have the same bits however the work is batched. They do
 * not depend on how many other queries are in the call, on how a prompt is divided into calls, or
 * on what else is in k and v. This holds as long as every key that the query sees keeps its index,
 * all others are masked for it, and the number of heads stays the same. To achieve this, keys are
 * divided at fixed positions, and a call with many queries uses the loops that decode single
 * queries. (With or without the flag, results do not depend on the number of threads.) Outputs are
 * as accurate as without the flag. It cannot be combined with skip (WHET_ERROR_UNSUPPORTED), and
 * does not apply to gradients and max_logits. docs/PERFORMANCE.md says what it costs. */
enum { WHET_INVARIANT = 2u };

/* Description of attention. size, the shape, q, k, v and out are required. */
typedef struct whet_attention {
    size_t size;      /* sizeof(whet_attention) */
    size_t batch;     /* 0 means 1 */
    size_t heads;     /* query heads */
    size_t kv_heads;  /* key heads; must divide heads; 0 means heads */
    size_t queries;   /* positions in q and out */
    size_t keys;      /* positions in k and v */
    size_t head_dim;  /* of q and k, 1 to 576 */
    size_t value_dim; /* of v and out, 1 to 576; 0 means head_dim */
    whet_tensor q;    /* f32, f16 or bf16 */
    whet_tensor k;    /* any type */
    whet_tensor v;    /* any type, not necessarily that of k */
    whet_tensor_out out;
    float scale;    /* 0 means 1 / sqrt(head_dim) */
    float softcap;  /* c: replaces a logit x by c tanh(x / c); 0 means none */
    uint32_t flags; /* WHET_CAUSAL, WHET_INVARIANT */
    float skip;     /* weight of values that each row may leave out, 0 to below 1; 0 means none */
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
    const int64_t *positions; /* [batch][query]: token positions of the queries, for policies that
                                 use them and for statistics; NULL means query + offset. Causality,
                                 window and ALiBi use offset only */
    const float *betas; /* [batch][head][query], or NULL: inverse temperatures, for policies without
                           a temperature of their own */
    float *max_logits;  /* [head], or NULL: output, the largest e_j of the head over all batches and
                           queries, before beta and without sinks; -inf if every key is masked, NaN
                           if an unmasked logit is NaN. For QK-clip, a training method that scales
                           a head's query and key projections down when its logits grow too large */
} whet_attention;

typedef struct whet_executor whet_executor;

/*
 * Computes attention. executor NULL means the calling thread alone; to use several
 * threads:
 *
 *     whet_pool *pool;
 *     whet_pool_create(0, &pool);
 *     whet_executor executor = whet_pool_executor(pool);
 *     whet_attention_forward(&attention, &executor, NULL);
 *
 * Allocates memory once and frees it before it returns; whet_attention_execute
 * below allocates nothing. If a row is not finite (see whet_status), its output is
 * NaN, the call returns WHET_NOT_FINITE, and *first_bad_row is set to the index of the
 * first such row in [batch][head][query]. first_bad_row may be NULL. What is not finite
 * in values shows in the outputs, not in the status.
 */
WHET_API whet_status whet_attention_forward(const whet_attention *attention,
                                            const whet_executor *executor, uint64_t *first_bad_row);

/*
 * Description of the backward pass of attention.
 *
 * `attention` describes the forward pass. attention.stats is required and must hold
 * the statistics that the forward pass wrote; attention.out is ignored and may be
 * zero.
 *
 * A gradient is computed if its pointer is set: q.data, k.data, v.data and bias.data
 * of this struct, policies, sinks, alibi_slopes and betas, each of which may be NULL.
 * The gradients are overwritten, not added to. None may overlap an input or another
 * output. Those of sinks, slopes and parameters of policies are summed over all rows
 * that use them. Asking for gradients of sinks or slopes that were not given returns
 * WHET_ERROR_ARGUMENT; asking for those of quantised or custom k and v returns
 * WHET_ERROR_UNSUPPORTED.
 */
typedef struct whet_gradients {
    size_t size; /* sizeof(whet_gradients) */
    whet_attention attention;
    whet_tensor out; /* gradient of the loss with respect to the output; f32, f16 or bf16 */
    whet_tensor_out q;
    whet_tensor_out k;
    whet_tensor_out v;
    whet_policy_gradient *policies; /* [max(1, policy_count)], or NULL */
    float *sinks;                   /* one for each query head */
    float *alibi_slopes;            /* one for each query head */
    whet_key_bias_out bias;
    float *betas; /* [batch][head][query]: with respect to each row's beta, given or computed */
    /* Gradients of the loss with respect to statistics, [batch][head][query] each, or NULL. What
     * they contribute is added to every gradient that is asked for; out.data may be NULL if one of
     * them is given. entropy_after requires maps that sum to 1 (WHET_ERROR_UNSUPPORTED for the
     * others). */
    const float *logsumexp;
    const float *entropy;
    const float *entropy_after;
} whet_gradients;

/*
 * Computes the gradients of attention; policies are differentiated as in
 * whet_softmax_backward. hardmax passes gradients to the values, not to the logits.
 * sigmoid and stick-breaking pass no gradient to the sink, except through beta. In a
 * row without unmasked keys, only the gradient of logsumexp has an effect: it goes to
 * the sink.
 *
 * Logits are recomputed from q and k, and weights from the logits and the
 * statistics of the forward pass. Where the map is not softmax, or gradients of
 * statistics are given, the statistics are recomputed too, which is slower. Memory
 * grows with queries plus keys.
 *
 * If a row is not finite (in its logits, in the values it sees, or in the
 * gradients that arrive at it), the call returns WHET_NOT_FINITE and sets
 * *first_bad_row as whet_attention_forward does. The gradients of that row's query
 * and beta, and of the keys, values and biases it sees, are NaN; those of policies,
 * sinks and slopes leave the row out.
 *
 * Gradients are within 1e-5 of exact arithmetic, relative to the terms they are
 * summed from, unless logits or betas are very large. This holds even in rows that
 * are nearly one-hot, and for values that share a large common offset. Gradients are
 * the same bit for bit for any number of threads. Where a coefficient becomes zero or
 * stops being zero, the gradients of topk and sparsemax are discontinuous, and those
 * of entmax with 1.5 < a < 2 change steeply; logits rounded to f32 decide where that
 * happens.
 */
WHET_API whet_status whet_attention_backward(const whet_gradients *gradients,
                                             const whet_executor *executor,
                                             uint64_t *first_bad_row);

/* ------------------------------------------------------------------------
 * 5. ADVANCED
 * ------------------------------------------------------------------------
 *
 * Plans. Attention is a sequence of phases. Each phase consists of tasks that are
 * independent of each other: they may run in any order and on any threads. All
 * tasks of a phase must end before the next phase begins. The division into tasks
 * depends on the shape only, never on the number of threads.
 *
 *     whet_plan plan = {.size = sizeof plan};
 *     whet_attention_plan(&attention, &plan);
 *     plan.workspace = ...plan.workspace_bytes, aligned to WHET_ALIGNMENT...
 *     for (phase = 0; phase < plan.phases; phase++)
 *         for (task = 0; task < plan.tasks[phase]; task++)   // in parallel
 *             whet_attention_run_task(&plan, phase, task, scratch, NULL);
 *
 * scratch is plan.scratch_bytes of memory, aligned to WHET_ALIGNMENT. Tasks that run
 * at the same time need scratch memory of their own. Nothing in it needs to be kept
 * from one task to the next.
 */
#define WHET_ALIGNMENT 64
#define WHET_PHASES_MAX 16

typedef struct whet_plan {
    size_t size; /* sizeof(whet_plan), set by the caller before planning */
    unsigned phases;
    size_t tasks[WHET_PHASES_MAX];
    size_t scratch_bytes;   /* for each task that runs at the same time */
    size_t workspace_bytes; /* shared by all tasks; may be 0 */
    void *workspace;        /* set by the caller before the first task */
    /* Private from here on. The plan holds a copy of the description; the memory that the
     * description points to must outlive the plan. */
    union {
        whet_attention attention;
        whet_gradients gradients;
        unsigned char reserved[1536]; /* descriptions may grow, sizeof(whet_plan) may not */
    } description;
    uint64_t internal[32];
} whet_plan;

/*
 * Checks a description and divides the work. This is cheap enough for every token
 * of a growing cache: it allocates nothing and does not touch the tensors. When
 * queries * heads / kv_heads is at most 32, as in decoding, a plan for fewer keys
 * never needs more memory than one for more keys, so memory for the full cache is
 * enough for every token.
 *
 * The plan is written only if the result is WHET_OK. A plan whose `size` is not
 * sizeof(whet_plan) is refused with WHET_ERROR_ARGUMENT, here and in every function
 * that takes one.
 */
WHET_API whet_status whet_attention_plan(const whet_attention *attention, whet_plan *plan);

/* The same for the backward pass. If no gradient is wanted, the plan has no phases. */
WHET_API whet_status whet_attention_backward_plan(const whet_gradients *gradients, whet_plan *plan);

/*
 * Runs one task. It is reentrant: it reads the plan and the inputs, and writes only
 * its scratch and its own part of the outputs and the workspace. Returns
 * WHET_NOT_FINITE if a row that it finished is not finite, and stores the index of
 * the first such row in *first_bad_row (which may be NULL). Returns
 * WHET_ERROR_ARGUMENT if there is no such task.
 */
WHET_API whet_status whet_attention_run_task(const whet_plan *plan, unsigned phase, size_t task,
                                             void *scratch, uint64_t *first_bad_row);

/*
 * Executors connect the library to a thread pool. parallel_for must call
 * function(argument, task, worker) once for each task from 0 to tasks - 1, and
 * return when all calls have returned. worker must be less than `workers`, and
 * different for calls that run at the same time. tasks is never 0. An executor
 * with one worker may simply loop.
 */
typedef void (*whet_task_function)(void *argument, size_t task, size_t worker);

struct whet_executor {
    size_t workers;
    void (*parallel_for)(void *context, size_t tasks, whet_task_function function, void *argument);
    void *context;
};

/* Returns how many bytes whet_attention_execute needs for a plan and an executor (NULL: one
 * worker). Returns SIZE_MAX if the plan is NULL or its `size` is wrong, if there are no workers,
 * and on overflow. */
WHET_API size_t whet_attention_memory(const whet_plan *plan, const whet_executor *executor);

/* Runs a whole plan in the caller's memory: whet_attention_memory bytes, aligned to WHET_ALIGNMENT.
 * Allocates nothing and ignores plan->workspace. */
WHET_API whet_status whet_attention_execute(const whet_plan *plan, const whet_executor *executor,
                                            void *memory, uint64_t *first_bad_row);

/*
 * A thread pool, for programs without one. `threads` includes the calling thread,
 * which takes part; 0 means one for each processor that this process may use. If
 * memory or threads are not available, the result is WHET_ERROR_MEMORY and *pool
 * is NULL.
 *
 * The pool runs one parallel_for at a time. A parallel_for that starts meanwhile,
 * from a second thread or inside a task, runs entirely on the thread that called
 * it. After fork(), the child has its own copy of the pool. The child may use the
 * copy, which then starts new threads, and should destroy it.
 *
 * A NULL pool means the calling thread alone: whet_pool_threads returns 1, and the
 * executor runs tasks one after the other. On platforms without threads, such as
 * WebAssembly, every pool behaves this way.
 */
typedef struct whet_pool whet_pool;
WHET_API whet_status whet_pool_create(size_t threads, whet_pool **pool);
WHET_API void whet_pool_destroy(whet_pool *pool);
WHET_API size_t whet_pool_threads(const whet_pool *pool);
/* The executor is valid as long as the pool is. */
WHET_API whet_executor whet_pool_executor(whet_pool *pool);

/*
 * Returns the name of the instruction set in use, such as "avx2" or "scalar". It
 * is chosen once, at first use: the one named by the environment variable WHET_ISA
 * if this processor has it, otherwise the best that this processor has.
 */
WHET_API const char *whet_isa(void);

/*
 * Checks WHET_ISA. Returns WHET_OK if it is unset or empty, or if it names an
 * instruction set of this processor. Otherwise the library ignores it, and this
 * returns WHET_ERROR_UNSUPPORTED; whet_last_error then lists the supported sets:
 * "unknown WHET_ISA 'mmx'; supported here: avx2, scalar". Programs that let their
 * users set WHET_ISA should call it when they start.
 */
WHET_API whet_status whet_isa_check(void);

#if defined(__cplusplus)
}
#endif

#endif
