/* The report of `whet tune` for the terminal. */
#include "tune.h"

#include "base/table.h"
#include "tune/arms.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void add_change(lab_table *table, lab_interval change) {
    if (!isfinite(change.mean)) {
        lab_table_add(table, "-");
        return;
    }
    lab_table_add(table, "%+.2f %% [%+.2f, %+.2f]", 100 * change.mean, 100 * change.low,
                  100 * change.high);
}

static void add_name(lab_table *table, const tune_result *r, const char *row) {
    size_t seeds = tune_repetitions(r, row);
    if (seeds > 1)
        lab_table_add(table, "%s, mean of %zu", row, seeds);
    else
        lab_table_add(table, "%s", row);
}

/* ---- perplexity ---- */

static bool print_domain(const tune_result *r, size_t domain) {
    bool is_divided = r->part == TUNE_BEYOND;
    const char *names[TUNE_ARMS_MAX];
    size_t count = tune_arms(r, names);
    lab_table table = lab_table_start(is_divided ? 5 : 3);
    printf("\nPerplexity on the check texts, %s: %zu sequences of %zu tokens\n",
           r->check.domains[domain].name, r->check_counts[domain], r->context);
    lab_table_add(&table, "arm");
    if (is_divided) {
        lab_table_add(&table, "beyond %.0f", r->n0);
        lab_table_add(&table, "against softmax");
        lab_table_add(&table, "up to %.0f", r->n0);
    } else {
        lab_table_add(&table, "all");
    }
    lab_table_add(&table, "against softmax");
    for (size_t i = 0; i < count; i++) {
        const char *row = names[i];
        add_name(&table, r, row);
        tune_part part = is_divided ? TUNE_BEYOND : TUNE_ALL;
        for (size_t column = 0; column < (is_divided ? 2U : 1U); column++, part = TUNE_WITHIN) {
            lab_table_add(&table, "%.3f", tune_row_perplexity(r, row, domain, part));
            add_change(&table, tune_change_between(r, row, "softmax", domain, part));
        }
    }
    return lab_table_finish(&table, stdout);
}

/* ---- the task ---- */

static void add_difference(lab_table *table, lab_interval change) {
    lab_table_add(table, "%+.3f [%+.3f, %+.3f]", change.mean, change.low, change.high);
}

static bool print_task(const tune_request *request, const tune_result *r) {
    static const char *const titles[] = {
        "arm", "exact", "against softmax", "tokens", "against softmax", "loss", "against softmax"};
    double *(*const quantities[])(const tune_measure *) = {tune_exact, tune_right,
                                                           tune_answer_loss};
    const char *names[TUNE_ARMS_MAX];
    size_t count = tune_arms(r, names);
    lab_table table = lab_table_start(7);
    printf("\nTask %s: %zu examples; share of exact answers, share of right tokens, loss a token\n",
           request->task, r->task_count);
    if (r->task_skipped)
        printf("%zu of the file's examples are longer than %zu tokens and were left out.\n",
               r->task_skipped, r->context);
    for (size_t i = 0; i < 7; i++)
        lab_table_add(&table, "%s", titles[i]);
    for (size_t i = 0; i < count; i++) {
        const char *row = names[i];
        add_name(&table, r, row);
        for (size_t k = 0; k < 3; k++) {
            lab_table_add(&table, "%.3f", tune_task_mean(r, row, quantities[k]));
            add_difference(&table, tune_task_change(r, row, "softmax", quantities[k]));
        }
    }
    return lab_table_finish(&table, stdout);
}

/* ---- in words ---- */

static void print_choice(const tune_result *r, const char *out) {
    if (!r->is_chosen) {
        printf("\nNothing found: no parameters gain on the validation texts within the limit. "
               "%s has beta = 1.\n",
               out);
        return;
    }
    static const char *const what[] = {"the same parameters for all heads",
                                       "parameters for each layer", "parameters for each head"};
    printf("\nChosen on the validation texts: %s, seed %zu, step %zu", what[r->by], r->seed,
           r->step);
    if (r->share < 1)
        printf(", %g of what was learned", r->share);
    printf(".\n");
    if (r->is_confirmed)
        printf("The check texts confirm the gain. Use it: WHET_CONFIG=%s\n", out);
    else
        printf("The check texts do not confirm the gain. %s has beta = 1.\n", out);
}

/* What one number does better, where it does. */
static void print_better_control(const tune_result *r) {
    const char *name = tune_better_control(r);
    if (!name)
        return;
    lab_interval change = tune_chosen_against(r, name);
    double scale = r->task_count ? 1 : 100, beta = tune_find(r, name)->beta;
    printf("But %s", name);
    if (beta > 0)
        printf(" (beta %.3f)", beta);
    printf(" is better on the check texts: against it, the chosen parameters have %+.3g%s [%+.3g, "
           "%+.3g] %s.\n",
           scale * change.mean, r->task_count ? "" : " %", scale * change.low, scale * change.high,
           r->task_count ? "loss a token" : "perplexity");
}

/* Whether another scaling of positions is better than what was tuned. */
static void recommend_stretch(const tune_request *request, const tune_result *r) {
    const char *best = tune_better_arm(r);
    if (!best)
        return;
    if (strchr(best, ':'))
        printf("Another scaling of positions is better for this model and these texts: --rope %s\n",
               best);
    else
        printf("A window of %.0f tokens is better than %s for this model and these texts.\n", r->n0,
               request->rope ? request->rope : "all of them");
}

/* A model that is given text in a form that it was not trained on can be tuned, but not used. */
static void question_texts(const tune_request *request, const tune_result *r) {
    const double unlikely = 2000;
    double perplexity = tune_row_perplexity(r, "softmax", SIZE_MAX, TUNE_ALL);
    if (perplexity > unlikely && !request->prefix)
        printf("A perplexity of %.0f is high: chat models need --prefix, see whet tune --help.\n",
               perplexity);
}

bool print_tuned(const tune_request *request, const tune_result *result, const char *out) {
    printf("%s: %zu layers of %zu heads, trained on %.0f tokens; learned on %zu sequences of %zu\n",
           request->model, result->layers, result->heads, result->n0, result->calibration_count,
           result->learn_context);
    bool good = true;
    for (size_t i = 0; good && i < result->check.count; i++)
        good = print_domain(result, i);
    if (good && request->task)
        good = print_task(request, result);
    print_choice(result, out);
    print_better_control(result);
    recommend_stretch(request, result);
    question_texts(request, result);
    return good;
}
