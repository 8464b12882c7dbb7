/* `whet theory lemma`, `spread` and the second half of `precision`: the statements on a trained
 * head, which is loaded or, where none is named, trained on the spot. */
#include "theory.h"

#include "messages.h"
#include "preferences.h"
#include "text.h"

#include "retrieval/evaluate.h"
#include "retrieval/train.h"
#include "theory/trained.h"

#include <math.h>

enum { STEPS = 2000, SETS = 64, SIZES_MAX = 32 };

static bool train_head(theory_run *run) {
    static const uint64_t seed = 1;
    retrieval_run training = {.config = retrieval_config_default(),
                              .seeds = &seed,
                              .seed_count = 1,
                              .quiet = preferred.quiet,
                              .title = "training a head",
                              .executor = &run->lab.executor};
    training.config.steps = STEPS;
    tell("(Without --from, a max-retrieval head is trained for this: %d steps on sets of %u to %u "
         "items.)",
         STEPS, (unsigned)training.config.size_min, (unsigned)training.config.size_max);
    fflush(stdout);
    return retrieval_train(&run->lab.engine, &training, &run->lab.heads, &run->lab.error);
}

/* The head that all statements look at; NULL after a message. */
static const retrieval_head *need_head(theory_run *run, int *status) {
    if (!run->has_head) {
        bool is_good = open_laboratory(&run->lab, 0, run->heads_path) &&
                       (run->lab.heads.count > 0 || train_head(run));
        if (!is_good) {
            *status = report_lab_error(&run->lab.error);
            return NULL;
        }
        run->has_head = true;
    }
    return &run->lab.heads.list[0];
}

static trained_probe *need_probe(theory_run *run, size_t n, int *status) {
    const retrieval_head *head = need_head(run, status);
    trained_probe *probe =
        head ? trained_probe_create(&run->lab.engine, head, n, &run->lab.error) : NULL;
    if (head && !probe)
        *status = report_lab_error(&run->lab.error);
    return probe;
}

static json_t *head_json(const theory_run *run) {
    const retrieval_head *head = &run->lab.heads.list[0];
    return json_pack("{s:o, s:I, s:i}", "head", retrieval_config_to_json(&head->config, head->seed),
                     "trained_steps", (json_int_t)head->step, "sets", SETS);
}

/* ---- Lemma 2.1 ---- */

int show_lemma(theory_run *run) {
    enum { COLUMNS = 8, LARGEST = 16384 };
    static const number_column columns[COLUMNS] = {
        {"n", "n", LOOK_SIZE, 0},
        {"spread", "spread", LOOK_FIXED, 2},
        {"exp(-spread)/n", "low_bound", LOOK_SIGNIFICANT, 3},
        {"smallest", "smallest", LOOK_SIGNIFICANT, 3},
        {"largest", "largest", LOOK_SIGNIFICANT, 3},
        {"exp(spread)/n", "high_bound", LOOK_SIGNIFICANT, 3},
        {"smallest/bound", "low_slack", LOOK_SIGNIFICANT, 3},
        {"bound/largest", "high_slack", LOOK_SIGNIFICANT, 3}};
    int status = STATUS_OK;
    trained_probe *probe = need_probe(run, LARGEST, &status);
    if (!probe)
        return status;
    size_t sizes[SIZES_MAX], count = retrieval_sizes(16, LARGEST, sizes);
    double values[SIZES_MAX * COLUMNS], widest = 0, tightest = (double)INFINITY;
    trained_coefficients at = {.spread = 0};
    for (size_t i = 0; i < count; i++) {
        at = trained_coefficients_of(probe, sizes[i], SETS, run->seed);
        const double row[COLUMNS] = {(double)sizes[i], at.spread,    at.bounds.low,
                                     at.smallest,      at.largest,   at.bounds.high,
                                     at.low_slack,     at.high_slack};
        for (size_t c = 0; c < COLUMNS; c++)
            values[i * COLUMNS + c] = row[c];
        widest = fmax(widest, at.spread);
        tightest = fmin(tightest, fmin(at.low_slack, at.high_slack));
    }
    trained_probe_destroy(probe);
    tell("Lemma 2.1: logits that lie within a spread of each other give every one of n items a "
         "coefficient between exp(-spread)/n and exp(spread)/n. A trained head on %d sets of each "
         "size: the largest spread, the smallest and largest coefficient, and how far, as a "
         "factor, a set's coefficients were from its own bounds at the nearest:",
         SETS);
    status = tell_numbers(
        run, "lemma",
        &(number_table){
            .columns = columns, .column_count = COLUMNS, .values = values, .rows = count},
        head_json(run));
    char text[NUMBER_TEXT_SIZE], size[NUMBER_SIZE];
    tell("No set had logits further apart than %.2f, so this head can put half of its weight on "
         "one item among at most %s items. The bounds were missed by a factor of %.3g at the "
         "nearest: they are met where all items but one share one logit. Here the others crowd up "
         "to the largest, and it is left with %.3g among %s items.",
         widest, number_text(theory_reach(widest, 1, 0.5), LOOK_SIZE, 0, text), tightest,
         at.largest, grouped(LARGEST, size));
    return status;
}

/* ---- Proposition 3.1 ---- */

int show_spread(theory_run *run) {
    enum { COLUMNS = 6, LARGEST = 4096 };
    static const number_column columns[COLUMNS] = {
        {"n", "n", LOOK_SIZE, 0},
        {"|query|", "query_norm", LOOK_FIXED, 3},
        {"max |key input|", "key_norm", LOOK_FIXED, 3},
        {"bound", "bound", LOOK_FIXED, 2},
        {"spread", "spread", LOOK_FIXED, 2},
        {"closest ratio", "tightest_ratio", LOOK_FIXED, 2}};
    int status = STATUS_OK;
    trained_probe *probe = need_probe(run, LARGEST, &status);
    if (!probe)
        return status;
    size_t sizes[SIZES_MAX], count = retrieval_sizes(16, LARGEST, sizes);
    double values[SIZES_MAX * COLUMNS], tightest = (double)INFINITY;
    trained_spread at = {.sigma_q = 0};
    for (size_t i = 0; i < count; i++) {
        at = trained_spread_of(probe, sizes[i], SETS, run->seed);
        const double row[COLUMNS] = {(double)sizes[i], at.query_norm, at.key_norm,
                                     at.bound,         at.spread,     at.tightest};
        for (size_t c = 0; c < COLUMNS; c++)
            values[i * COLUMNS + c] = row[c];
        tightest = fmin(tightest, at.tightest);
    }
    trained_probe_destroy(probe);
    size_t width = run->lab.heads.list[0].config.width;
    tell("Spread (Proposition 3.1): the logits of a query lie no further apart than 2 sigma_q "
         "sigma_k |query| max |key input| / sqrt(%zu). A trained head whose query and key maps "
         "have largest singular values %.3f and %.3f, means over %d sets of each size:",
         width, at.sigma_q, at.sigma_k, SETS);
    json_t *more = head_json(run);
    json_object_set_new(more, "sigma_q", json_real(at.sigma_q));
    json_object_set_new(more, "sigma_k", json_real(at.sigma_k));
    status = tell_numbers(
        run, "spread",
        &(number_table){
            .columns = columns, .column_count = COLUMNS, .values = values, .rows = count},
        more);
    tell("At the nearest the bound was %.2f times the spread. It would be met by two items whose "
         "inputs point in opposite directions along the largest singular vector.",
         tightest);
    return status;
}

/* ---- the corollary ---- */

int show_trained_precision(theory_run *run) {
    enum { COLUMNS = 2 + 2 * PRECISION_FORMATS, LARGEST = 65536 };
    static const number_column columns[COLUMNS] = {
        {"n", "n", LOOK_SIZE, 0},
        {"coefficient", "coefficient", LOOK_SIGNIFICANT, 3},
        {"f32: sets", "f32_sets", LOOK_FIXED, 3},
        {"f16", "f16_sets", LOOK_FIXED, 3},
        {"bf16", "bf16_sets", LOOK_FIXED, 3},
        {"f32: numbers", "f32_numbers", LOOK_FIXED, 3},
        {"f16", "f16_numbers", LOOK_FIXED, 3},
        {"bf16", "bf16_numbers", LOOK_FIXED, 3}};
    int status = STATUS_OK;
    trained_probe *probe = need_probe(run, LARGEST, &status);
    if (!probe)
        return status;
    double values[SIZES_MAX * COLUMNS];
    size_t rows = 0;
    for (size_t n = 16; n <= LARGEST; n *= 4, rows++) {
        trained_precision at = trained_precision_of(probe, n, SETS, run->seed);
        double *row = values + rows * COLUMNS;
        row[0] = (double)n;
        row[1] = at.coefficient;
        for (size_t f = 0; f < PRECISION_FORMATS; f++) {
            row[2 + f] = at.sets[f];
            row[2 + PRECISION_FORMATS + f] = at.elements[f];
        }
    }
    trained_probe_destroy(probe);
    tell("The same of a trained head: the item of highest priority gets another class, and the "
         "head's output of %u numbers is rounded before and after. The share of %d sets in which "
         "any number differs, and of the numbers that do:",
         (unsigned)run->lab.heads.list[0].config.width, SETS);
    return tell_numbers(
        run, "precision_trained",
        &(number_table){
            .columns = columns, .column_count = COLUMNS, .values = values, .rows = rows},
        head_json(run));
}
