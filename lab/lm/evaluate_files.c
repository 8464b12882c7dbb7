/* Evaluations as JSON and CSV; see evaluate.h. */
#include "lm/evaluate.h"

#include "base/csv.h"
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>

bool lm_model_knows_length(const lm_model *model, uint64_t length) {
    const json_t *lengths =
        json_object_get(json_object_get(model->description, "training"), "lengths");
    json_int_t shortest = json_integer_value(json_array_get(lengths, 0));
    json_int_t longest = json_integer_value(json_array_get(lengths, 1));
    return json_array_size(lengths) == 2 && length >= (uint64_t)shortest &&
           length <= (uint64_t)longest;
}

static double ratio(double sum, double count) { return count > 0 ? sum / count : (double)NAN; }

static json_t *share_json(uint64_t hits, uint64_t samples) {
    lab_interval share = lab_share_interval(hits, samples);
    if (samples == 0)
        share = (lab_interval){(double)NAN, (double)NAN, (double)NAN, (double)NAN};
    return json_pack("{s:o, s:o, s:o}", "mean", lab_json_number(share.mean), "low",
                     lab_json_number(share.low), "high", lab_json_number(share.high));
}

/* [layer][head] */
static json_t *entropies_json(const lm_config *c, const lm_entropy *entropies, bool after) {
    json_t *layers = json_array();
    for (size_t layer = 0; layer < c->layers; layer++) {
        json_t *heads = json_array();
        for (size_t head = 0; head < c->heads; head++) {
            const lm_entropy *e = &entropies[layer * c->heads + head];
            json_array_append_new(
                heads, lab_json_number(ratio(after ? e->after : e->before, (double)e->rows)));
        }
        json_array_append_new(layers, heads);
    }
    return layers;
}

static json_t *cell_json(const lm_evaluation *of, size_t task, size_t length, size_t policy) {
    const lm_eval_request *r = of->request;
    const lm_eval_cell *cell = lm_eval_cell_at(of, task, length, policy);
    const clrs_score_sum *sum = &cell->sum;
    double samples = (double)r->samples;
    return json_pack("{s:s, s:b, s:I, s:b, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                     "algorithm", r->tasks[task].algorithm->name, "hints",
                     (int)r->tasks[task].hints, "length", (json_int_t)r->lengths[length], "inside",
                     (int)lm_model_knows_length(r->model, r->lengths[length]), "policy",
                     r->policies[policy].name, "samples", (json_int_t)sum->samples, "exact",
                     share_json(sum->exact, sum->samples), "final",
                     share_json(sum->final, sum->samples), "steps",
                     lab_json_number(ratio(sum->steps_share, (double)sum->traced)),
                     "question_tokens", lab_json_number((double)cell->question_tokens / samples),
                     "answer_tokens", lab_json_number((double)cell->answer_tokens / samples),
                     "entropy", entropies_json(&r->model->config, cell->entropies, false),
                     "entropy_after", entropies_json(&r->model->config, cell->entropies, true));
}

json_t *lm_evaluation_json(const lm_evaluation *of) {
    const lm_eval_request *r = of->request;
    json_t *rows = json_array();
    bool good = rows != NULL;
    for (size_t t = 0; good && t < r->task_count; t++)
        for (size_t l = 0; good && l < r->length_count; l++)
            for (size_t p = 0; good && p < r->policy_count; p++)
                good = json_array_append_new(rows, cell_json(of, t, l, p)) == 0;
    json_t *json = json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:O*, s:o}", "shape", lm_config_to_json(&r->model->config),
        "parameters", (json_int_t)r->model->layout.count, "step", (json_int_t)r->model->step,
        "samples", (json_int_t)r->samples, "seed", (json_int_t)r->seed, "training",
        json_object_get(r->model->description, "training"), "rows", rows);
    if (good)
        return json;
    json_decref(json);
    return NULL;
}

/* ---- CSV ---- */

static void csv_share(lab_csv *csv, uint64_t hits, uint64_t samples) {
    lab_interval share = lab_share_interval(hits, samples);
    lab_csv_number(csv, samples ? share.mean : (double)NAN);
    lab_csv_number(csv, samples ? share.low : (double)NAN);
    lab_csv_number(csv, samples ? share.high : (double)NAN);
}

/* The key columns of a cell, which lines of both tables begin with. */
static void csv_what(lab_csv *csv, const lm_evaluation *of, size_t task, size_t length,
                     size_t policy) {
    const lm_eval_request *r = of->request;
    lab_csv_text(csv, r->tasks[task].algorithm->name);
    lab_csv_text(csv, r->tasks[task].hints ? "yes" : "no");
    lab_csv_number(csv, (double)r->lengths[length]);
    lab_csv_text(csv, lm_model_knows_length(r->model, r->lengths[length]) ? "yes" : "no");
    lab_csv_text(csv, r->policies[policy].name);
    lab_csv_number(csv, (double)lm_eval_cell_at(of, task, length, policy)->sum.samples);
}

static void csv_cell(lab_csv *csv, const lm_evaluation *of, size_t task, size_t length,
                     size_t policy) {
    const lm_eval_request *r = of->request;
    const lm_eval_cell *cell = lm_eval_cell_at(of, task, length, policy);
    const clrs_score_sum *sum = &cell->sum;
    size_t heads = (size_t)r->model->config.layers * r->model->config.heads;
    double before = 0, after = 0, rows = 0;
    for (size_t h = 0; h < heads; h++) {
        before += cell->entropies[h].before;
        after += cell->entropies[h].after;
        rows += (double)cell->entropies[h].rows;
    }
    csv_what(csv, of, task, length, policy);
    csv_share(csv, sum->exact, sum->samples);
    csv_share(csv, sum->final, sum->samples);
    lab_csv_number(csv, ratio(sum->steps_share, (double)sum->traced));
    lab_csv_number(csv, (double)cell->question_tokens / (double)r->samples);
    lab_csv_number(csv, (double)cell->answer_tokens / (double)r->samples);
    lab_csv_number(csv, ratio(before, rows));
    lab_csv_number(csv, ratio(after, rows));
    lab_csv_end_line(csv);
}

static void csv_heads(lab_csv *csv, const lm_evaluation *of, size_t task, size_t length,
                      size_t policy) {
    const lm_config *c = &of->request->model->config;
    const lm_eval_cell *cell = lm_eval_cell_at(of, task, length, policy);
    for (size_t i = 0; i < (size_t)c->layers * c->heads; i++) {
        const lm_entropy *e = &cell->entropies[i];
        size_t layer = i / c->heads, head = i % c->heads;
        csv_what(csv, of, task, length, policy);
        lab_csv_number(csv, (double)layer);
        lab_csv_number(csv, (double)head);
        lab_csv_number(csv, ratio(e->before, (double)e->rows));
        lab_csv_number(csv, ratio(e->after, (double)e->rows));
        lab_csv_end_line(csv);
    }
}

typedef void (*cell_writer)(lab_csv *csv, const lm_evaluation *of, size_t task, size_t length,
                            size_t policy);

static void write_csv(FILE *file, const lm_evaluation *of, const char *const *titles,
                      cell_writer write) {
    const lm_eval_request *r = of->request;
    lab_csv csv = {.file = file};
    for (; *titles; titles++)
        lab_csv_text(&csv, *titles);
    lab_csv_end_line(&csv);
    for (size_t t = 0; t < r->task_count; t++)
        for (size_t l = 0; l < r->length_count; l++)
            for (size_t p = 0; p < r->policy_count; p++)
                write(&csv, of, t, l, p);
}

void lm_evaluation_csv(FILE *file, const void *evaluation) {
    static const char *const titles[] = {
        "algorithm", "hints",           "length",        "inside",  "policy",        "samples",
        "exact",     "exact_low",       "exact_high",    "final",   "final_low",     "final_high",
        "steps",     "question_tokens", "answer_tokens", "entropy", "entropy_after", NULL};
    write_csv(file, evaluation, titles, csv_cell);
}

void lm_evaluation_heads_csv(FILE *file, const void *evaluation) {
    static const char *const titles[] = {"algorithm", "hints",         "length", "inside",
                                         "policy",    "samples",       "layer",  "head",
                                         "entropy",   "entropy_after", NULL};
    write_csv(file, evaluation, titles, csv_heads);
}
