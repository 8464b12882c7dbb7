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

static const char *const along_names[PROBE_ALONGS] = {"entropy", "entropy_after", "largest_weight"};

/* Means over stretches of the longest input. */
static json_t *along_json(const probe_result *r, size_t policy, size_t layer, size_t head) {
    json_t *json = json_object();
    for (size_t what = 0; what < PROBE_ALONGS; what++) {
        json_t *means = json_array();
        for (size_t i = 0; i < PROBE_STRETCHES; i++)
            json_array_append_new(means, lab_json_number(probe_along_mean(r, policy, layer, head, i,
                                                                          (probe_along)what)));
        json_object_set_new(json, along_names[what], means);
    }
    return json;
}

/* [size] of the largest weights; sizes without any are empty. */
static json_t *keys_json(const probe_result *r, size_t policy, size_t layer, size_t head) {
    json_t *by_size = json_array();
    for (size_t s = 0; s < r->sizes; s++) {
        const probe_key *keys = probe_keys(r, policy, s, layer, head);
        json_t *list = json_array();
        for (size_t i = 0; keys && i < r->key_count && keys[i].weight > 0; i++)
            json_array_append_new(list, json_pack("{s:I, s:o, s:s}", "position",
                                                  (json_int_t)keys[i].position, "weight",
                                                  lab_json_number((double)keys[i].weight), "token",
                                                  probe_piece(r, s, keys[i].position)));
        json_array_append_new(by_size, list);
    }
    return by_size;
}

static void add_gaps_json(json_t *json, const probe_result *r, size_t layer, size_t head) {
    json_t *within = json_array(), *betas = json_array();
    for (size_t s = 0; s < r->sizes; s++) {
        json_t *counts = json_array();
        for (size_t d = 0; d < PROBE_DELTAS; d++)
            json_array_append_new(counts, lab_json_number(probe_within(r, s, layer, head, d)));
        json_array_append_new(within, counts);
        json_array_append_new(betas, lab_json_number(probe_beta_called_for(r, s, layer, head)));
    }
    json_object_set_new(json, "within", within);
    json_object_set_new(json, "beta_called_for", betas);
    json_object_set_new(json, "exponent", lab_json_number(probe_exponent(r, layer, head)));
}

static json_t *head_json(const probe_result *r, size_t plainest, size_t policy, size_t layer,
                         size_t head) {
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
    json_object_set_new(json, "by_position", along_json(r, policy, layer, head));
    if (r->keys)
        json_object_set_new(json, "largest_keys", keys_json(r, policy, layer, head));
    if (r->gaps && policy == plainest)
        add_gaps_json(json, r, layer, head);
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
                json_array_append_new(heads,
                                      head_json(r, probe_plainest(request), policy, layer, head));
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
    json_t *stretches = json_array();
    for (size_t i = 0; i <= PROBE_STRETCHES; i++)
        json_array_append_new(stretches, lab_json_number(probe_stretch(result, i)));
    json_object_set_new(all, "stretches", stretches);
    if (result->gaps)
        json_object_set_new(all, "deltas", lab_json_numbers(probe_deltas, PROBE_DELTAS));
    return lab_json_whole(all, mark);
}

/* The columns of --gaps and --keys. */
static void csv_details(lab_csv *csv, const probe_table *table, size_t policy, size_t size,
                        size_t layer, size_t head) {
    const probe_result *r = table->result;
    bool has_gaps = policy == probe_plainest(table->request);
    for (size_t d = 0; r->gaps && d < PROBE_DELTAS; d++)
        lab_csv_number(csv, has_gaps ? probe_within(r, size, layer, head, d) : (double)NAN);
    if (r->gaps)
        lab_csv_number(csv, has_gaps ? probe_beta_called_for(r, size, layer, head) : (double)NAN);
    if (!r->keys)
        return;
    char text[PROBE_KEYS_MAX * 40] = "";
    size_t length = 0;
    const probe_key *keys = probe_keys(r, policy, size, layer, head);
    for (size_t i = 0; keys && i < r->key_count && keys[i].weight > 0; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%u:%.6g", i ? " " : "",
                                   keys[i].position, (double)keys[i].weight);
    lab_csv_text(csv, text);
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
    csv_details(csv, table, policy, size, layer, head);
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
    for (size_t d = 0; r->gaps && d < PROBE_DELTAS; d++) {
        char name[32];
        snprintf(name, sizeof name, "within_%g", probe_deltas[d]);
        lab_csv_text(&csv, name);
    }
    if (r->gaps)
        lab_csv_text(&csv, "beta_called_for");
    if (r->keys)
        lab_csv_text(&csv, "largest_keys");
    lab_csv_end_line(&csv);
    for (size_t p = 0; p < r->policies; p++)
        for (size_t s = 0; s < r->sizes; s++)
            for (size_t layer = 0; layer < r->layers; layer++)
                for (size_t head = 0; head < r->heads; head++)
                    csv_head(&csv, table, p, s, layer, head);
}
