/*
 * What the heads of a language model do as its input grows: the model is run by
 * llama.cpp with the plug-in that records the attention of every head, once for
 * each policy, in a process of its own, so that if it crashes there is a
 * message and nothing else is lost.
 */
#ifndef WHET_LAB_MODEL_PROBE_H
#define WHET_LAB_MODEL_PROBE_H

#include "base/json.h"
#include "model/prompts.h"

#include <stdio.h>

/* What a model's file contains; 0 where it does not say. */
typedef struct probe_model {
    const char *path;
    uint32_t layers;
    uint32_t heads;   /* query heads of a layer; if layers differ, only a run shows it */
    uint32_t context; /* tokens it was trained for */
} probe_model;

typedef struct probe_request {
    probe_model model;
    const char *library; /* NULL: searched for */
    const char *plugin;  /* likewise */
    const char *const *policies;
    size_t policy_count;
    const char *layers, *heads; /* where policies apply, as the plug-in has it; NULL: everywhere */
    const uint64_t *sizes;
    size_t size_count;
    bool may_shrink; /* sizes that do not fit into the context are left out, and the first that is
                        longer than the text becomes the whole of it */
    size_t sequences;
    number_format format;
    uint64_t seed;
    const char *text; /* the user's own, instead of numbers; sizes are numbers of its tokens */
    bool has_needles; /* hidden in the text: scores of heads that retrieve them */
    size_t keys;      /* largest weights to record of each head that policies act on; 0: none */
    bool has_gaps;    /* record how many logits are close to the largest */
    bool is_chat;     /* within the model's chat template */
    uint64_t answer_tokens;
    uint64_t context;   /* context size in tokens; 0: as the model was trained */
    uint64_t every;     /* record every n-th position; 0: about 32 of each 512 */
    const char *judged; /* a text whose perplexity is measured; NULL: none */
    uint64_t judged_tokens_max;
    uint32_t threads;
    bool quiet;
} probe_request;

/* A haystack for probes without a text of their own: whet.h. */
extern const char *const probe_built_in_text;

/* Measures of a head on one prompt. */
typedef enum probe_measure {
    PROBE_ENTROPY,       /* of the last position, before the policy, nats */
    PROBE_ENTROPY_AFTER, /* after it */
    PROBE_BETA,
    PROBE_LARGEST_WEIGHT,
    PROBE_SPREAD,             /* largest logit minus smallest */
    PROBE_MEAN_ENTROPY,       /* over the positions recorded */
    PROBE_MEAN_ENTROPY_AFTER, /* likewise */
    PROBE_WIDEST_SPREAD,      /* likewise, the largest */
    PROBE_SINK_SHARE,         /* weight of the first token at the last position */
    PROBE_MEASURES
} probe_measure;

extern const char *const probe_measure_names[PROBE_MEASURES];

/* A large weight of a last position: the token that it lies on. Weight 0: there is none. */
typedef struct probe_key {
    uint32_t position;
    float weight;
} probe_key;

enum {
    PROBE_STRETCHES = 16, /* of the longest input, for curves by position */
    PROBE_DELTAS = 5,     /* distances from the largest logit at which logits are counted */
    PROBE_GAP_VALUES = PROBE_DELTAS + 41 /* and ln sums at a series of betas, see probe_gaps.c */
};

/* What is shown by position. */
typedef enum probe_along {
    PROBE_ALONG_ENTROPY,
    PROBE_ALONG_ENTROPY_AFTER,
    PROBE_ALONG_LARGEST_WEIGHT,
    PROBE_ALONGS
} probe_along;

/* Shares of right answers. */
typedef struct probe_score {
    uint64_t right, asked;
} probe_score;

typedef struct probe_result {
    char version[64]; /* of llama.cpp */
    char library[512];
    size_t policies, sizes, sequences;
    uint64_t size[64];    /* elements of the sequence, or tokens of the text */
    bool has_whole_text;  /* the last of them is all of it */
    double tokens[64];    /* of the prompt, mean over its sequences */
    size_t layers, heads; /* heads: of a layer, at most */
    float *values;        /* [policy][size][sequence][layer][head][measure]; NaN: no such head */
    probe_score score[16][64]; /* [policy][size] */
    double perplexity[16];     /* NaN: not measured */
    uint64_t judged_tokens;
    /* With needles: scores [policy][layer][head], and how many tokens of answers there were, and
     * were copied. */
    float *retrieval;
    size_t needle_tokens, needle_copied[16];
    float *along; /* means over stretches of the longest input, [policy][layer][head][stretch]
                     [probe_along]; NaN: none recorded there */
    /* Of the first sequence: [policy][size][layer][head][key_count], and the text of every token,
     * [size][token]. */
    probe_key *keys;
    size_t key_count;
    json_t *pieces;
    float *gaps; /* [size][sequence][layer][head][PROBE_GAP_VALUES], of the plainest policy */
} probe_result;

enum {
    PROBE_SIZES_MAX = 64,
    PROBE_POLICIES_MAX = 16,
    PROBE_EVERY_MAX = 65535,
    PROBE_JUDGED_MIN = 4,
    PROBE_KEYS_MAX = 64
};

/* Opens and reads the file once, for all that follows. False and an error if it is not a model: our
 * own reader gives better messages than llama.cpp. The path must outlive the result. */
bool probe_read_model(const char *path, probe_model *model, lab_error *error);

bool probe_run(const probe_request *request, probe_result *result, lab_error *error);
void probe_free(probe_result *result);

/* A measure of a head, mean over sequences, or the largest for widest spreads; NaN if there is no
 * such head. */
double probe_mean(const probe_result *result, size_t policy, size_t size, size_t layer, size_t head,
                  probe_measure measure);

/* A head's retrieval score; NaN where no needles were hidden. */
double probe_retrieval(const probe_result *result, size_t policy, size_t layer, size_t head);

/* The largest weights of a head, `key_count` of them, or NULL where none were recorded; and the
 * text of a token, "" where it is not known. */
const probe_key *probe_keys(const probe_result *result, size_t policy, size_t size, size_t layer,
                            size_t head);
const char *probe_piece(const probe_result *result, size_t size, size_t position);

/* Where a stretch of the longest input begins, for stretch 0 to PROBE_STRETCHES: stretches grow
 * geometrically; and a mean over one, NaN without any row. */
double probe_stretch(const probe_result *result, size_t stretch);
double probe_along_mean(const probe_result *result, size_t policy, size_t layer, size_t head,
                        size_t stretch, probe_along what);

/* ---- probe_gaps.c: logits near the largest ---- */

extern const double probe_deltas[PROBE_DELTAS];

/* Logits of the last position within a delta of the largest, mean over sequences; NaN where none
 * were recorded. */
double probe_within(const probe_result *result, size_t size, size_t layer, size_t head,
                    size_t delta);

/*
 * The beta that the length calls for: with it, softmax's largest weight at the last position is
 * what it is on the shortest input with beta 1 (geometric means over sequences). NaN: no beta
 * from 1/16 to 64 does that, or nothing was recorded.
 */
double probe_beta_called_for(const probe_result *result, size_t size, size_t layer, size_t head);

/* How that beta grows: the power of ln n / ln of the shortest n, by least squares of logarithms.
 * NaN with fewer than two sizes. */
double probe_exponent(const probe_result *result, size_t layer, size_t head);

/* The largest possible entropy, of uniform attention: ln of the mean number of tokens. */
double probe_ceiling(const probe_result *result, size_t size);

/* ---- interpretation ---- */

typedef enum head_kind {
    HEAD_DISPERSES, /* sharp on short input, entropy grows like ln n */
    HEAD_STAYS_SHARP,
    HEAD_SHARPENS, /* diffuse on short input, sharp on long */
    HEAD_DIFFUSE,  /* also on short input */
    HEAD_KINDS
} head_kind;

/* "disperses", "stays sharp" ... */
const char *head_kind_name(head_kind kind);

typedef struct head_trend {
    size_t layer, head;
    head_kind kind;
    double short_entropy, long_entropy; /* at the smallest and the largest size */
    double short_share, long_share;     /* of their ceilings */
    double slope;                       /* of the entropy against ln n; 1: full dispersion */
} head_trend;

/* The policy whose run shows heads as the model has them: softmax, or the first if that is not
 * among them (its layers see the results of earlier ones). */
size_t probe_plainest(const probe_request *request);

/*
 * Trends of all heads under a policy, before it acts, ordered within each kind:
 * those that disperse by how much their entropy grew, sharp ones by their
 * entropy on long input, diffuse ones by their share. Returns their number; the
 * caller frees them; NULL when memory runs out.
 */
head_trend *probe_trends(const probe_result *result, size_t policy, size_t *count);

/* ---- JSON and CSV ---- */

json_t *probe_json(const probe_request *request, const probe_result *result);

/* A line a policy, size and head, means over sequences. */
typedef struct probe_table {
    const probe_request *request;
    const probe_result *result;
} probe_table;
void probe_csv(FILE *file, const void *context); /* a probe_table */

#endif
