/* What a run found, summed up and as JSON. */
#include "tune/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void tune_result_free(tune_result *result) {
    for (size_t i = 0; i < result->row_count; i++) {
        for (size_t j = 0; result->rows[i].check && j < result->check.count; j++)
            tune_measure_free(&result->rows[i].check[j]);
        free(result->rows[i].check);
        tune_measure_free(&result->rows[i].task);
    }
    for (size_t i = 0; i < result->candidate_count; i++)
        tune_setting_free(&result->candidates[i].setting);
    free(result->candidates);
    free(result->rows);
    free(result->validation_counts);
    free(result->check_counts);
    tune_setting_free(&result->setting);
    tune_texts_free(&result->text);
    tune_texts_free(&result->validate);
    tune_texts_free(&result->check);
}

const tune_row *tune_find(const tune_result *result, const char *name) {
    for (size_t i = 0; i < result->row_count; i++)
        if (strcmp(result->rows[i].name, name) == 0)
            return &result->rows[i];
    return NULL;
}

bool tune_is_chosen(const tune_result *r, const tune_candidate *c) {
    return r->is_chosen && c->by == r->by && c->seed == r->seed && c->step == r->step &&
           c->share == r->share;
}

/* ---- over seeds ---- */

/* The loss of a sequence under an arm, the mean over the arm's seeds. */
static double loss_at(const tune_result *r, const char *name, size_t domain, tune_part part,
                      size_t sequence) {
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < r->row_count; i++)
        if (strcmp(r->rows[i].name, name) == 0) {
            sum += r->rows[i].check[domain].loss[part][sequence];
            count++;
        }
    return sum / (double)count;
}

/* Adds up the differences between two arms on one domain. */
static void add_changes(const tune_result *r, const char *name, const char *base, size_t domain,
                        tune_part part, double sums[3]) {
    for (size_t i = 0; i < r->check_counts[domain]; i++) {
        double change = loss_at(r, name, domain, part, i) - loss_at(r, base, domain, part, i);
        sums[0] += change;
        sums[1] += change * change;
        sums[2] += 1;
    }
}

static lab_interval as_change(const double sums[3]) {
    lab_interval change = lab_mean_interval_of_sums(sums[0], sums[1], (uint64_t)sums[2]);
    return (lab_interval){expm1(change.mean), expm1(change.low), expm1(change.high), change.error};
}

lab_interval tune_change_between(const tune_result *result, const char *name, const char *base,
                                 size_t domain, tune_part part) {
    double sums[3] = {0};
    for (size_t i = 0; i < result->check.count; i++)
        if (domain == SIZE_MAX || domain == i)
            add_changes(result, name, base, i, part, sums);
    return as_change(sums);
}

lab_interval tune_total_change(const tune_result *result, const char *name, tune_part part) {
    return tune_change_between(result, name, "softmax", SIZE_MAX, part);
}

double tune_row_perplexity(const tune_result *result, const char *name, size_t domain,
                           tune_part part) {
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < result->check.count; i++)
        for (size_t j = 0; (domain == SIZE_MAX || domain == i) && j < result->check_counts[i];
             j++) {
            sum += loss_at(result, name, i, part, j);
            count++;
        }
    return exp(sum / (double)count);
}

lab_interval tune_task_change(const tune_result *result, const char *name, const char *base,
                              double *(*quantity)(const tune_measure *)) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < result->task_count; i++) {
        double mean[2] = {0}, count[2] = {0};
        const char *names[2] = {name, base};
        for (size_t k = 0; k < 2; k++)
            for (size_t row = 0; row < result->row_count; row++)
                if (strcmp(result->rows[row].name, names[k]) == 0) {
                    mean[k] += quantity(&result->rows[row].task)[i];
                    count[k]++;
                }
        double change = mean[0] / count[0] - mean[1] / count[1];
        sum += change;
        squares += change * change;
    }
    return lab_mean_interval_of_sums(sum, squares, result->task_count);
}

/* ---- JSON ---- */

static json_t *interval_json(lab_interval interval) {
    return json_pack("{s:o, s:o, s:o}", "change", lab_json_number(interval.mean), "low",
                     lab_json_number(interval.low), "high", lab_json_number(interval.high));
}

static const char *const part_names[TUNE_PARTS] = {"within", "beyond", "all"};

/* One row on one domain, against softmax. */
static json_t *domain_json(const tune_result *r, const tune_row *row, size_t domain) {
    const tune_row *base = tune_find(r, "softmax");
    json_t *json = json_pack("{s:o}", "domain", lab_json_text(r->check.domains[domain].name));
    for (tune_part part = 0; part < TUNE_PARTS; part++) {
        if (isnan(row->check[domain].loss[part][0]))
            continue;
        json_t *own = interval_json(tune_change(&row->check[domain], &base->check[domain], part));
        json_object_set_new(own, "perplexity",
                            lab_json_number(tune_perplexity(&row->check[domain], part)));
        json_object_set_new(json, part_names[part], own);
    }
    json_object_set_new(json, "by_position", lab_json_numbers(row->check[domain].bins, TUNE_BINS));
    return json;
}

static double mean_of(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

static json_t *task_json(const tune_result *r, const tune_row *row) {
    const tune_row *base = tune_find(r, "softmax");
    const tune_measure *own = &row->task, *other = &base->task;
    size_t count = own->count;
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o}", "exact", lab_json_number(mean_of(own->exact, count)),
        "exact_gain", interval_json(tune_difference(own->exact, other->exact, count)), "tokens",
        lab_json_number(mean_of(own->right, count)), "tokens_gain",
        interval_json(tune_difference(own->right, other->right, count)), "loss",
        lab_json_number(mean_of(own->loss[TUNE_ALL], count)), "loss_gain",
        interval_json(tune_difference(own->loss[TUNE_ALL], other->loss[TUNE_ALL], count)));
}

static json_t *row_json(const tune_result *r, const tune_row *row) {
    json_t *domains = json_array();
    for (size_t i = 0; i < r->check.count; i++)
        json_array_append_new(domains, domain_json(r, row, i));
    json_t *json = json_pack("{s:s, s:o}", "name", row->name, "check", domains);
    if (row->seed)
        json_object_set_new(json, "seed", json_integer((json_int_t)row->seed));
    if (row->beta > 0)
        json_object_set_new(json, "beta", lab_json_number(row->beta));
    if (row->task.count)
        json_object_set_new(json, "task", task_json(r, row));
    return json;
}

/* Ranges as [first, last], or null for all layers or heads. */
static json_t *places_json(const index_set *set) {
    json_t *list = set->count ? json_array() : json_null();
    for (size_t i = 0; i < set->count; i++)
        json_array_append_new(list, json_pack("[I, I]", (json_int_t)set->ranges[i].first,
                                              (json_int_t)set->ranges[i].last));
    return list;
}

static json_t *options_json(const tune_request *q, const tune_result *r) {
    json_t *json = json_pack("{s:o, s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I}",
                             "rope", q->rope ? json_string(q->rope) : json_null(), "prefix",
                             q->prefix ? lab_json_text(q->prefix) : json_null(), "task",
                             q->task ? lab_json_text(q->task) : json_null(), "by",
                             tune_by_names[q->by], "context", (json_int_t)r->context, "steps",
                             (json_int_t)q->steps, "batch", (json_int_t)q->batch, "seeds",
                             (json_int_t)q->seeds, "rate", q->rate, "bound", q->bound, "limit",
                             q->limit, "text_weight", q->text_weight, "seed", (json_int_t)q->seed);
    const struct {
        const char *name;
        size_t value;
    } counts[] = {{"count", q->count},
                  {"validation_count", q->validation_count},
                  {"check_count", q->check_count},
                  {"task_length", q->task_length},
                  {"passes", q->passes},
                  {"looks", q->looks},
                  {"learn_context", r->learn_context}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        json_object_set_new(json, counts[i].name, json_integer((json_int_t)counts[i].value));
    json_object_set_new(json, "forward", json_boolean(q->is_forward));
    json_object_set_new(json, "gradients", json_boolean(q->has_gradients || !q->is_forward));
    json_object_set_new(json, "layers", places_json(&q->tuned_layers));
    json_object_set_new(json, "heads", places_json(&q->tuned_heads));
    return json;
}

/* What the validation texts chose, whether or not the check texts confirmed it. */
static json_t *chosen_json(const tune_result *r) {
    if (!r->is_chosen)
        return json_null();
    const tune_candidate *chosen = NULL;
    for (size_t i = 0; i < r->candidate_count && !chosen; i++)
        chosen = tune_is_chosen(r, &r->candidates[i]) ? &r->candidates[i] : NULL;
    const tune_setting *setting = chosen ? &chosen->setting : &r->setting;
    size_t heads = r->layers * r->heads;
    return json_pack("{s:s, s:I, s:I, s:f, s:o, s:b, s:o, s:o}", "by", tune_by_names[r->by], "seed",
                     (json_int_t)r->seed, "step", (json_int_t)r->step, "share", r->share,
                     "validated", interval_json(r->validated), "confirmed", r->is_confirmed, "a",
                     lab_json_numbers(setting->a, heads), "h", lab_json_numbers(setting->h, heads));
}

json_t *tune_result_json(const tune_request *request, const tune_result *result) {
    unsigned mark = lab_json_mark();
    json_t *rows = json_array();
    for (size_t i = 0; i < result->row_count; i++)
        json_array_append_new(rows, row_json(result, &result->rows[i]));
    json_t *model = json_pack("{s:o, s:s, s:I, s:I, s:f}", "path", lab_json_text(request->model),
                              "sha256", result->hash, "layers", (json_int_t)result->layers, "heads",
                              (json_int_t)result->heads, "trained_context", result->n0);
    json_t *json = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "whet", whet_version(), "model", model,
        "options", options_json(request, result), "text", tune_texts_json(&result->text),
        "validate", tune_texts_json(&result->validate), "check", tune_texts_json(&result->check),
        "chosen", chosen_json(result), "arms", rows);
    if (request->task)
        json_object_set_new(json, "task_skipped", json_integer((json_int_t)result->task_skipped));
    return lab_json_whole(json, mark);
}
