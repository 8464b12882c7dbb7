/*
 * Tuning by forward passes alone, for models without gradients: by any judge.
 *
 * First one number for all heads: ln beta = a on all sequences, by steps away from 0 until the loss
 * rises, then by parabolas, with golden sections where these converge slowly; then the hinge h if
 * it is wanted and sequences are longer than n0; then both again in a narrower range until neither
 * changes. A number is taken only if the 95 % interval of the paired differences of losses,
 * over sequences, is below 0.
 *
 * Then one number for each layer, by steps: every round takes the layers in random order and
 * proposes to raise and to lower the layer's a by `step`. A round in which nothing was accepted
 * halves the step, and the search ends when that is less than `least_step`.
 *
 * A proposal must beat the noise. Proposal and present setting are compared on the same sequences,
 * `batch` more at every look, by the t statistic of the differences of their losses. Each look may
 * accept at a level of its own, and the levels add up to the level of the test: the look at n
 * sequences of N, after one at m, has (n^2 - m^2) / N^2 of it, so little is spent while there is
 * little to go by. By the union bound, repeated looks are honest, however the looks depend on each
 * other. A proposal that looks worse (one-sided p < 0.1) is dropped at any look, which can only
 * lower the probability of a false acceptance.
 *
 * The level of one test is alpha / (2 layers step sizes), counting layers that are tuned. Where
 * nothing can be gained, the search makes that many tests and ends, so the probability that it
 * accepts a step is at most alpha. After an acceptance it starts again with as many tests: the
 * expected number of false acceptances is at most alpha (1 + acceptances). The t statistic supposes
 * that means over a batch are about normal.
 *
 * All this is about the sequences that were given. What the search finds is fitted to them; whether
 * it holds for others, only others can show.
 *
 * Heads that are not to be tuned keep beta = 1 throughout, also under the number for all heads, and
 * layers without a tuned head are not proposed.
 *
 * The loss of a sequence is the mean over its judged tokens, and sequences count alike. All numbers
 * are multiples of 0.0001. The same seed, sequences and judge give the same result, bit for bit.
 */
#ifndef WHET_LAB_TUNE_SEARCH_H
#define WHET_LAB_TUNE_SEARCH_H

#include "base/json.h"
#include "base/statistics.h"
#include "tune/judge.h"

typedef struct tune_search_options {
    double bound;            /* of |ln beta| at any length of the sequences (0.7) */
    double precision;        /* of the number for all heads (0.005) */
    bool has_hinge;          /* also look for h (true) */
    bool has_layers;         /* then for one number for each layer (true) */
    double step, least_step; /* of a layer's number (0.1 and 0.025) */
    double alpha;            /* probability of accepting any step where none helps (0.05) */
    size_t batch;            /* sequences between two looks, and in a run of the judge (8) */
    size_t budget;           /* forward passes, one for each sequence and setting; 0: any number */
    uint64_t seed;           /* of the order of sequences and layers */
    const unsigned char *is_tuned; /* [layers][heads], or NULL: all of them */
} tune_search_options;

tune_search_options tune_search_defaults(void);

typedef struct tune_search_news {
    const char *stage;          /* "a", "h" or "layers" */
    size_t passes;              /* forward passes so far, those of an earlier run, too */
    size_t round, layer;        /* of stage "layers" */
    size_t proposals, accepted; /* likewise */
    double a, h;                /* for all heads */
} tune_search_news;

/* Who hears of it; functions may be NULL. */
typedef struct tune_search_listener {
    void *context;
    /* Called with the state after every run of the judge. False and an error end the search. */
    bool (*keep)(void *context, json_t *state, lab_error *error);
    /* Called now and then. False stops the search. */
    bool (*heard)(void *context, const tune_search_news *news);
} tune_search_listener;

typedef struct tune_search_result {
    double a, h;                        /* for all heads, before layers changed */
    size_t rounds, proposals, accepted; /* of layers */
    size_t passes;                      /* forward passes */
    bool has_run_out;                   /* of its budget */
    /* Paired differences of losses from beta = 1, on the sequences given: with the number for all
     * heads, and at the end, over the sequences that both were run on. A mean of 0 where nothing
     * was found. */
    lab_interval gain_of_all, gain;
    size_t sequences_of_all, sequences;
} tune_search_result;

/*
 * Searches, beginning at beta = 1, and fills `setting`, which was created for the model.
 *
 * `state` is an object that holds every loss that was computed; an empty one at first. Handed back
 * after an interruption, nothing is computed again and the result is the same, bit for bit. The
 * options may be others; the sequences, the setting's size and the tuned heads may not. That judge
 * and model are the same is up to the caller.
 *
 * False and an error (LAB_STOPPED after a signal or where `heard` returned false) leave the setting
 * neutral.
 */
bool tune_search(const tune_judge *judge, const tune_sequence *sequences, size_t count,
                 const tune_search_options *options, const tune_search_listener *listener,
                 json_t *state, tune_setting *setting, tune_search_result *result,
                 lab_error *error);

#endif
