/*
 * A run of `whet tune`: temperatures of a trained model's heads are learned on calibration texts,
 * chosen on validation texts, and judged, beside controls, on check texts.
 *
 * The choice. Candidates are the numbers at several steps of training, for every seed, for one
 * number and for the wanted sharing. Of those that make no validation domain worse than `limit`
 * allows, the one with the lowest loss on the validation texts is chosen if its gain over softmax
 * is certain (a paired 95 % interval over sequences below 0) and at least TUNE_LEAST_GAIN, and beta
 * = 1 otherwise. Candidates beyond the limit are also tried with half and a quarter of their
 * numbers. The check texts decide nothing but whether the gain is confirmed; if it is not, the
 * result is beta = 1.
 *
 * With llama.cpp instead of lab/lm there are no gradients: candidates are what a search by forward
 * passes finds (search.h), for all heads and for each layer. With `has_gradients` the search finds
 * one number for all heads only; lab/lm learns the others, and llama.cpp judges all of them.
 *
 * Sequences that are learned from may be shorter than those that decide: a gradient costs several
 * forward passes, and what scaled positions want shows in short sequences, too. Unless they are
 * longer than the trained context, h stays 0.
 */
#ifndef WHET_LAB_TUNE_TUNE_H
#define WHET_LAB_TUNE_TUNE_H

#include "llama/index_set.h"
#include "base/ranks.h"
#include "lm/open.h"
#include "tune/calibrate.h"
#include "tune/measure.h"
#include "tune/texts.h"

/* A tenth of a per cent of perplexity, or a thousandth of a nat in a task's answers. */
#define TUNE_LEAST_GAIN 0.001

enum { TUNE_SEEDS_MAX = 16, TUNE_PERMUTATIONS = 5, TUNE_FIRST_TOKENS = 4, TUNE_NAME_SIZE = 64 };

/* Paths of an option. */
typedef struct tune_paths {
    const char *const *items;
    size_t count;
} tune_paths;

typedef struct tune_request {
    const char *model;
    tune_paths text, validate, check;
    const char *rope;     /* or NULL */
    const char *task;     /* or NULL */
    const char *prefix;   /* text before every sequence, or NULL */
    size_t context;       /* 0: as long as the model, its RoPE scaled, was made for, at most 4096 */
    size_t learn_context; /* tokens of the sequences that are learned from; 0: `context` */
    double limit;         /* a share: 0.005 */
    tune_by by;
    index_set tuned_layers, tuned_heads; /* without a range: all of them */
    size_t steps, batch, seeds;
    size_t looks;            /* steps of training whose numbers may be chosen */
    size_t count;            /* calibration sequences at most */
    size_t validation_count; /* of each domain */
    size_t check_count;
    double rate, bound;
    size_t task_length; /* tokens of a task's sequences */
    double text_weight; /* of texts beside a task, see tune_calibration */
    uint64_t seed;
    const char *state_path; /* or NULL */
    /* Asked before a run that will take about so many seconds; false: it does not start, and
     * tune_run returns false without an error. NULL: nobody is asked. */
    bool (*confirm)(void *context, double seconds);
    void *confirm_context;
    bool quiet;
    const lab_ranks *ranks; /* that run it together, or NULL; the first has state_path's file */
    /* The model is run by lab/lm, with gradients ... */
    const nn_engine *engine;
    const whet_executor *executor;
    /* ... or by llama.cpp, by forward passes alone. */
    bool is_forward;
    bool has_gradients; /* with is_forward: layers and heads are learned by lab/lm nevertheless */
    const char *library, *plugin; /* NULL: searched for, see tune_llama_options */
    uint32_t threads;
    size_t passes; /* forward passes of a search, at most */
} tune_request;

/* An arm on the check texts. */
typedef struct tune_row {
    char name[TUNE_NAME_SIZE];
    size_t seed;         /* from 1; 0: the arm has none */
    double beta;         /* of a control with one number; 0: another arm */
    tune_measure *check; /* [check domains] */
    tune_measure task;   /* where there is a task */
} tune_row;

/* Numbers that may be chosen, with what they do on the validation texts. */
typedef struct tune_candidate {
    tune_setting setting;
    tune_by by;
    size_t seed, step;
    double share;      /* of the learned numbers: 1, 1/2 or 1/4 */
    lab_interval gain; /* of the loss that is to fall: below 0 is good */
    double worst;      /* the largest change of perplexity in any validation domain */
    double cost;       /* the mean change of perplexity over domains and parts */
} tune_candidate;

typedef struct tune_result {
    tune_texts text, validate, check;
    size_t layers, heads, context, learn_context;
    double n0; /* tokens that the model was trained on */
    char hash[LAB_SHA256_SIZE];
    tune_part part; /* which tokens the gain is about */
    tune_row *rows;
    size_t row_count;
    tune_candidate *candidates;
    size_t candidate_count;
    tune_setting setting; /* the chosen one */
    tune_by by;           /* of the chosen one */
    size_t seed, step;
    double share;           /* of the learned numbers */
    lab_interval validated; /* the chosen one's gain on the validation texts */
    bool is_chosen;         /* validation chose something else than beta = 1 */
    bool is_confirmed;      /* and the check texts agree */
    bool is_resumed;
    size_t calibration_count, *validation_counts, *check_counts, task_count;
    size_t task_skipped; /* examples of a file that are longer than the context */
    size_t bytes;        /* of memory, for weights and activations */
} tune_result;

/* False and an error; LAB_STOPPED after a signal, where the same request continues. Free the result
 * whatever this returns. The file at state_path stays, also after success: remove it once the
 * result is kept. */
bool tune_run(const tune_request *request, tune_result *result, lab_error *error);
void tune_result_free(tune_result *result); /* a zeroed one is fine */

/* The first row of a name, or NULL. */
const tune_row *tune_find(const tune_result *result, const char *name);

/* Whether a candidate is the chosen one. */
bool tune_is_chosen(const tune_result *result, const tune_candidate *candidate);

/* The change of an arm against softmax over all check domains that users gave. Arms with several
 * seeds: of the mean over them. */
lab_interval tune_total_change(const tune_result *result, const char *name, tune_part part);

/* The same against any arm, on one domain or (SIZE_MAX) all of them; and an arm's perplexity. */
lab_interval tune_change_between(const tune_result *result, const char *name, const char *base,
                                 size_t domain, tune_part part);
double tune_row_perplexity(const tune_result *result, const char *name, size_t domain,
                           tune_part part);

/* How a quantity of the task differs between two arms, with its interval over examples. */
lab_interval tune_task_change(const tune_result *result, const char *name, const char *base,
                              double *(*quantity)(const tune_measure *));

/* Everything that was measured, for files and reports; a new reference. */
json_t *tune_result_json(const tune_request *request, const tune_result *result);

#endif
