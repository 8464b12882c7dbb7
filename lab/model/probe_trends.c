/*
 * The interpretation of a probe: which heads disperse as the input grows, which
 * stay sharp, and which are always diffuse; and everything as JSON and CSV.
 *
 * A head counts as sharp if its entropy is at most half of that of uniform
 * attention, and as dispersing if it is sharp on the shortest input and its
 * entropy grows at least half as fast as ln n.
 */
#include "model/probe.h"

#include "base/csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double half = 0.5;

static const char *const kind_names[HEAD_KINDS] = {"disperses", "stays sharp", "sharpens",
                                                   "diffuse"};

const char *head_kind_name(head_kind kind) { return kind_names[kind]; }

/* The slope of the entropy against ln n, by least squares; a single length has none. */
static double slope_of(const probe_result *r, size_t policy, size_t layer, size_t head) {
    double n = (double)r->sizes, x = 0, y = 0, xx = 0, xy = 0;
    for (size_t s = 0; s < r->sizes; s++) {
        double length = probe_ceiling(r, s);
        double entropy = probe_mean(r, policy, s, layer, head, PROBE_ENTROPY);
        x += length;
        y += entropy;
        xx += length * length;
        xy += length * entropy;
    }
    double variance = n * xx - x * x; /* times n squared */
    return variance > 1e-9 ? (n * xy - x * y) / variance : (double)NAN;
}

static head_kind kind_of(const head_trend *trend) {
    if (trend->short_share > half)
        return trend->long_share > half ? HEAD_DIFFUSE : HEAD_SHARPENS;
    return trend->slope >= half || trend->long_share > half ? HEAD_DISPERSES : HEAD_STAYS_SHARP;
}

/* With a single token a head has no choice: its attention is uniform. */
static double share_of(double entropy, double ceiling) {
    return ceiling > 0 ? entropy / ceiling : 1;
}

static head_trend trend_of(const probe_result *r, size_t policy, size_t layer, size_t head) {
    size_t last = r->sizes - 1;
    head_trend trend = {.layer = layer, .head = head};
    trend.short_entropy = probe_mean(r, policy, 0, layer, head, PROBE_ENTROPY);
    trend.long_entropy = probe_mean(r, policy, last, layer, head, PROBE_ENTROPY);
    trend.short_share = share_of(trend.short_entropy, probe_ceiling(r, 0));
    trend.long_share = share_of(trend.long_entropy, probe_ceiling(r, last));
    trend.slope = slope_of(r, policy, layer, head);
    trend.kind = kind_of(&trend);
    return trend;
}

/* The sorting key within a kind, descending. */
static double rank_of(const head_trend *trend) {
    switch (trend->kind) {
    case HEAD_DISPERSES:
        return trend->long_entropy - trend->short_entropy;
    case HEAD_STAYS_SHARP:
        return -trend->long_entropy;
    case HEAD_SHARPENS:
        return trend->short_share - trend->long_share;
    default:
        return trend->short_share;
    }
}

static int compare_trends(const void *a, const void *b) {
    const head_trend *left = a, *right = b;
    if (left->kind != right->kind)
        return (int)left->kind - (int)right->kind;
    double difference = rank_of(right) - rank_of(left);
    return (difference > 0) - (difference < 0);
}

size_t probe_plainest(const probe_request *request) {
    for (size_t p = 0; p < request->policy_count; p++)
        if (strcmp(request->policies[p], "softmax") == 0)
            return p;
    return 0;
}

head_trend *probe_trends(const probe_result *result, size_t policy, size_t *count) {
    head_trend *trends = calloc(result->layers * result->heads + 1, sizeof *trends);
    *count = 0;
    for (size_t layer = 0; trends && layer < result->layers; layer++)
        for (size_t head = 0; head < result->heads; head++) {
            head_trend trend = trend_of(result, policy, layer, head);
            if (isfinite(trend.short_entropy) && isfinite(trend.long_entropy))
                trends[(*count)++] = trend;
        }
    if (trends)
        qsort(trends, *count, sizeof *trends, compare_trends);
    return trends;
}

/* ---- JSON and CSV ---- */

static json_t *head_json(const probe_result *r, size_t policy, size_t layer, size_t head) {
    json_t *json = json_pack("{s:i, s:i}", "layer", (int)layer, "head", (int)head);
    for (int m = 0; m < PROBE_MEASURES; m++) {
        json_t *by_size = json_array();
        for (size_t s = 0; s < r->sizes; s++)
            json_array_append_new(
                by_size, lab_json_number(probe_mean(r, policy, s, layer, head, (probe_measure)m)));
        json_object_set_new(json, probe_measure_names[m], by_size);
    }
    head_trend trend = trend_of(r, policy, layer, head);
    json_object_set_new(json, "kind", json_string(head_kind_name(trend.kind)));
    json_object_set_new(json, "slope", lab_json_number(trend.slope));
    return json;
}

/* [layer][head] of shares of copied tokens. */
static json_t *retrieval_json(const probe_result *r, size_t policy) {
    json_t *scores = json_array();
    for (size_t layer = 0; layer < r->layers; layer++) {
        json_t *row = json_array();
        for (size_t head = 0; head < r->heads; head++)
            json_array_append_new(row, lab_json_number(probe_retrieval(r, policy, layer, head)));
        json_array_append_new(scores, row);
    }
    return json_pack("{s:I, s:I, s:o}", "tokens", (json_int_t)r->needle_tokens, "copied",
                     (json_int_t)r->needle_copied[policy], "scores", scores);
}

static json_t *policy_json(const probe_request *request, const probe_result *r, size_t policy) {
    json_t *heads = json_array(), *scores = json_array();
    for (size_t layer = 0; layer < r->layers; layer++)
        for (size_t head = 0; head < r->heads; head++)
            if (!isnan(probe_mean(r, policy, 0, layer, head, PROBE_ENTROPY)))
                json_array_append_new(heads, head_json(r, policy, layer, head));
    for (size_t s = 0; s < r->sizes; s++)
        json_array_append_new(scores, json_pack("{s:I, s:I}", "right",
                                                (json_int_t)r->score[policy][s].right, "asked",
                                                (json_int_t)r->score[policy][s].asked));
    json_t *all =
        json_pack("{s:s, s:o, s:o, s:o}", "policy", request->policies[policy], "perplexity",
                  lab_json_number(r->perplexity[policy]), "answers", scores, "heads", heads);
    if (r->retrieval)
        json_object_set_new(all, "retrieval", retrieval_json(r, policy));
    return all;
}

/* JSON readers limit integers: a seed beyond signed 64 bits is written as a string. */
static json_t *seed_json(uint64_t seed) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    return seed <= INT64_MAX ? json_integer((json_int_t)seed) : json_string(text);
}

json_t *probe_json(const probe_request *request, const probe_result *result) {
    unsigned mark = lab_json_mark();
    json_t *sizes = json_array(), *policies = json_array();
    for (size_t s = 0; s < result->sizes; s++)
        json_array_append_new(sizes, json_integer((json_int_t)result->size[s]));
    for (size_t p = 0; p < result->policies; p++)
        json_array_append_new(policies, policy_json(request, result, p));
    json_t *all =
        json_pack("{s:o, s:s, s:s, s:o, s:I, s:I, s:o, s:o, s:I, s:o}", "model",
                  lab_json_text(request->model.path), "llama_cpp", result->version, "of",
                  request->text ? "text" : "numbers", "seed", seed_json(request->seed), "sequences",
                  (json_int_t)result->sequences, "layers", (json_int_t)result->layers, "sizes",
                  sizes, "tokens", lab_json_numbers(result->tokens, result->sizes), "judged_tokens",
                  (json_int_t)result->judged_tokens, "policies", policies);
    return lab_json_whole(all, mark);
}

static void csv_head(lab_csv *csv, const probe_table *table, size_t policy, size_t size,
                     size_t layer, size_t head) {
    const probe_result *r = table->result;
    if (isnan(probe_mean(r, policy, size, layer, head, PROBE_ENTROPY)))
        return;
    lab_csv_text(csv, table->request->policies[policy]);
    lab_csv_number(csv, (double)r->size[size]);
    lab_csv_number(csv, r->tokens[size]);
    lab_csv_number(csv, (double)layer);
    lab_csv_number(csv, (double)head);
    for (int m = 0; m < PROBE_MEASURES; m++)
        lab_csv_number(csv, probe_mean(r, policy, size, layer, head, (probe_measure)m));
    lab_csv_end_line(csv);
}

void probe_csv(FILE *file, const void *context) {
    const probe_table *table = context;
    const probe_result *r = table->result;
    lab_csv csv = {.file = file};
    static const char *const first[] = {"policy", "size", "tokens", "layer", "head"};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        lab_csv_text(&csv, first[i]);
    for (int m = 0; m < PROBE_MEASURES; m++)
        lab_csv_text(&csv, probe_measure_names[m]);
    lab_csv_end_line(&csv);
    for (size_t p = 0; p < r->policies; p++)
        for (size_t s = 0; s < r->sizes; s++)
            for (size_t layer = 0; layer < r->layers; layer++)
                for (size_t head = 0; head < r->heads; head++)
                    csv_head(&csv, table, p, s, layer, head);
}
