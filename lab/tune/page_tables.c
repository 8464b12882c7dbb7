/* Tables of the page: arms with their changes against softmax, repetitions in small print. */
#include "report/html.h"
#include "tune/arms.h"
#include "tune/page.h"

#include <math.h>
#include <string.h>

enum { REPETITIONS_MAX = TUNE_SEEDS_MAX };

static void write_signed(FILE *file, double value, int decimals) {
    fprintf(file, "%s%.*f", value < 0 ? "−" : "+", decimals, fabs(value));
}

/* "[−1.40, −1.00]", where there is one. */
static void write_interval(FILE *file, lab_interval change, double factor, int decimals,
                           const char *before, const char *after) {
    if (!isfinite(change.low) || !isfinite(change.high))
        return;
    fprintf(file, "%s[", before);
    write_signed(file, factor * change.low, decimals);
    fputs(", ", file);
    write_signed(file, factor * change.high, decimals);
    fprintf(file, "]%s", after);
}

static void write_value(FILE *file, lab_interval change, bool is_share, const char *before,
                        const char *after) {
    double factor = is_share ? 100 : 1;
    int decimals = is_share ? 2 : 3;
    if (!isfinite(change.mean)) {
        fputs("–", file);
        return;
    }
    write_signed(file, factor * change.mean, decimals);
    fputs(is_share ? " %" : "", file);
    write_interval(file, change, factor, decimals, before, after);
}

void tune_page_change(FILE *file, lab_interval change, bool is_share) {
    write_value(file, change, is_share, " ", "");
}

/* Green or red where the interval is on one side; `better` is the sign of a gain. */
static void write_change_cell(FILE *file, lab_interval change, bool is_share, int better) {
    if (change.mean == 0 && change.low == 0 && change.high == 0) { /* softmax itself, or as good */
        fputs("<td>0</td>", file);
        return;
    }
    bool is_gain = better * change.low > 0 && better * change.high > 0;
    bool is_loss = better * change.low < 0 && better * change.high < 0;
    fprintf(file, "<td%s>", is_gain ? " class=\"yes\"" : is_loss ? " class=\"no\"" : "");
    write_value(file, change, is_share, "<small class=\"interval\">", "</small>");
    fputs("</td>", file);
}

static void write_number(FILE *file, double value) {
    if (isfinite(value))
        fprintf(file, value < 1e5 ? "%.3f" : "%.3g", value);
    else
        fputs("–", file);
}

/* The values of repetitions, if there are several. */
static void write_small(FILE *file, const double *values, size_t count) {
    for (size_t i = 0; count > 1 && i < count; i++) {
        fputs(i ? " · " : "<small>", file);
        write_number(file, values[i]);
    }
    fputs(count > 1 ? "</small>" : "", file);
}

static void write_arm(FILE *file, const tune_result *r, const char *name) {
    size_t repetitions = tune_repetitions(r, name);
    fprintf(file, "<tr%s><th scope=\"row\">",
            strcmp(name, "chosen") == 0 ? " class=\"chosen\"" : "");
    html_text(file, name);
    if (repetitions > 1)
        fprintf(file, "<small>mean of %zu</small>", repetitions);
    fputs("</th>", file);
}

/* ---- perplexity ---- */

/* exp of the mean loss of one row, over a domain or all of them. */
static double perplexity_of(const tune_result *r, const tune_row *row, size_t domain,
                            tune_part part) {
    double sum = 0;
    size_t count = 0;
    for (size_t d = 0; d < r->check.count; d++)
        for (size_t i = 0; (domain == SIZE_MAX || domain == d) && i < r->check_counts[d]; i++) {
            sum += row->check[d].loss[part][i];
            count++;
        }
    return exp(sum / (double)count);
}

static void write_repetitions(FILE *file, const tune_result *r, const char *name, size_t domain,
                              tune_part part) {
    double values[REPETITIONS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < r->row_count && count < REPETITIONS_MAX; i++)
        if (strcmp(r->rows[i].name, name) == 0)
            values[count++] = perplexity_of(r, &r->rows[i], domain, part);
    write_small(file, values, count);
}

void tune_page_arms(FILE *file, const tune_result *r, size_t domain) {
    static const tune_part divided[] = {TUNE_BEYOND, TUNE_WITHIN}, whole[] = {TUNE_ALL};
    const char *names[TUNE_ARMS_MAX];
    bool is_divided = r->part == TUNE_BEYOND;
    const tune_part *parts = is_divided ? divided : whole;
    size_t count = tune_arms(r, names), part_count = is_divided ? 2 : 1;
    html_table_begin(file);
    fputs("<thead><tr><th>arm</th>", file);
    if (is_divided)
        fprintf(file,
                "<th>beyond %.0f</th><th>against softmax</th><th>up to %.0f</th>"
                "<th>against softmax</th>",
                r->n0, r->n0);
    else
        fputs("<th>perplexity</th><th>against softmax</th>", file);
    fputs("</tr></thead>\n<tbody>\n", file);
    for (size_t i = 0; i < count; i++) {
        write_arm(file, r, names[i]);
        for (size_t k = 0; k < part_count; k++) {
            fputs("<td>", file);
            write_number(file, tune_row_perplexity(r, names[i], domain, parts[k]));
            write_repetitions(file, r, names[i], domain, parts[k]);
            fputs("</td>", file);
            write_change_cell(file, tune_change_between(r, names[i], "softmax", domain, parts[k]),
                              true, -1);
        }
        fputs("</tr>\n", file);
    }
    fputs("</tbody>\n", file);
    html_table_end(file);
}

/* ---- the task ---- */

static void write_task_repetitions(FILE *file, const tune_result *r, const char *name,
                                   double *(*quantity)(const tune_measure *)) {
    double values[REPETITIONS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < r->row_count && count < REPETITIONS_MAX; i++)
        if (strcmp(r->rows[i].name, name) == 0) {
            values[count] = 0;
            for (size_t j = 0; j < r->task_count; j++)
                values[count] += quantity(&r->rows[i].task)[j] / (double)r->task_count;
            count++;
        }
    write_small(file, values, count);
}

void tune_page_task(FILE *file, const tune_result *r) {
    double *(*const quantities[])(const tune_measure *) = {tune_exact, tune_right,
                                                           tune_answer_loss};
    static const int better[] = {1, 1, -1};
    const char *names[TUNE_ARMS_MAX];
    size_t count = tune_arms(r, names);
    html_table_begin(file);
    fputs("<thead><tr><th>arm</th><th>exact answers</th><th>change</th>"
          "<th>right tokens</th><th>change</th><th>loss a token</th>"
          "<th>change</th></tr></thead>\n<tbody>\n",
          file);
    for (size_t i = 0; i < count; i++) {
        write_arm(file, r, names[i]);
        for (size_t k = 0; k < sizeof quantities / sizeof *quantities; k++) {
            fputs("<td>", file);
            write_number(file, tune_task_mean(r, names[i], quantities[k]));
            write_task_repetitions(file, r, names[i], quantities[k]);
            fputs("</td>", file);
            write_change_cell(file, tune_task_change(r, names[i], "softmax", quantities[k]), false,
                              better[k]);
        }
        fputs("</tr>\n", file);
    }
    fputs("</tbody>\n", file);
    html_table_end(file);
}

/* ---- candidates ---- */

void tune_page_candidates(FILE *file, const tune_page *p) {
    const tune_result *r = p->result;
    bool has_task = p->request->task != NULL;
    html_table_begin(file);
    fprintf(file,
            "<thead><tr><th>numbers by</th><th>seed</th><th>step</th><th>share</th><th>%s</th>"
            "<th>worst domain</th><th>mean of domains</th></tr></thead>\n<tbody>\n",
            has_task ? "answers' loss" : "perplexity");
    for (size_t i = 0; i < r->candidate_count; i++) {
        const tune_candidate *c = &r->candidates[i];
        lab_interval gain = c->gain;
        if (!has_task)
            gain = (lab_interval){expm1(gain.mean), expm1(gain.low), expm1(gain.high), 0};
        fprintf(file, "<tr%s><th scope=\"row\">%s</th><td>%zu</td><td>%zu</td><td>%g</td>",
                tune_is_chosen(r, c) ? " class=\"chosen\"" : "", tune_by_names[c->by], c->seed,
                c->step, c->share);
        write_change_cell(file, gain, !has_task, -1);
        fprintf(file, "<td%s>", c->worst > p->request->limit ? " class=\"no\"" : "");
        tune_page_change(file, (lab_interval){c->worst, NAN, NAN, 0}, true);
        fputs("</td><td>", file);
        tune_page_change(file, (lab_interval){c->cost, NAN, NAN, 0}, true);
        fputs("</td></tr>\n", file);
    }
    fputs("</tbody>\n", file);
    html_table_end(file);
}
