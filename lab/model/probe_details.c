/*
 * What a probe keeps of rows beside the measures of last positions: the largest weights and the
 * gaps of last rows, where the plug-in recorded them, and means by position on the longest input.
 */
#include "model/probe_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct stretch_sums {
    double sums[PROBE_ALONGS];
    size_t count;
} stretch_sums;

static size_t head_count(const probe_result *r) { return r->layers * r->heads; }

static bool is_plainest(const probe *p) { return p->policy == probe_plainest(p->request); }

/* Floats that are all NaN; true if they are there already. */
static bool make_unknown(float **values, size_t count) {
    if (*values)
        return true;
    *values = malloc((count + 1) * sizeof **values);
    for (size_t i = 0; *values && i < count; i++)
        (*values)[i] = NAN;
    return *values;
}

bool probe_details_begin(probe *p) {
    probe_result *r = p->result;
    const probe_request *q = p->request;
    size_t heads = head_count(r);
    free(p->stretches);
    p->stretches = calloc(heads * PROBE_STRETCHES + 1, sizeof *p->stretches);
    bool is_made = p->stretches &&
                   make_unknown(&r->along, r->policies * heads * PROBE_STRETCHES * PROBE_ALONGS) &&
                   (!q->has_gaps ||
                    make_unknown(&r->gaps, r->sizes * r->sequences * heads * PROBE_GAP_VALUES));
    r->key_count = q->keys;
    if (q->keys && !r->keys)
        r->keys = calloc(r->policies * r->sizes * heads * q->keys + 1, sizeof *r->keys);
    return (is_made && (r->keys || !q->keys)) || lab_fail_memory(p->error);
}

/* ---- by position ---- */

static size_t stretch_of(double position, double tokens) {
    double share = tokens > 1 ? log(position + 1) / log(tokens) : 0;
    size_t stretch = (size_t)(fmax(share, 0) * PROBE_STRETCHES);
    return stretch < PROBE_STRETCHES ? stretch : PROBE_STRETCHES - 1;
}

static void add_to_stretch(probe *p, const record_row *row) {
    const probe_result *r = p->result;
    size_t head = (size_t)row->layer * r->heads + (size_t)row->head;
    size_t at = stretch_of((double)row->position, r->tokens[r->sizes - 1]);
    stretch_sums *s = &p->stretches[head * PROBE_STRETCHES + at];
    s->sums[PROBE_ALONG_ENTROPY] += row->entropy;
    s->sums[PROBE_ALONG_ENTROPY_AFTER] += row->entropy_after;
    s->sums[PROBE_ALONG_LARGEST_WEIGHT] += row->max_prob;
    s->count++;
}

void probe_details_end(probe *p) {
    const probe_result *r = p->result;
    size_t stretches = head_count(r) * PROBE_STRETCHES;
    float *means = r->along + p->policy * stretches * PROBE_ALONGS;
    for (size_t i = 0; i < stretches; i++)
        for (size_t what = 0; what < PROBE_ALONGS && p->stretches[i].count > 0; what++)
            means[i * PROBE_ALONGS + what] =
                (float)(p->stretches[i].sums[what] / (double)p->stretches[i].count);
}

double probe_stretch(const probe_result *r, size_t stretch) {
    return pow(r->tokens[r->sizes - 1], (double)stretch / PROBE_STRETCHES) - 1;
}

double probe_along_mean(const probe_result *r, size_t policy, size_t layer, size_t head,
                        size_t stretch, probe_along what) {
    size_t at = ((policy * r->layers + layer) * r->heads + head) * PROBE_STRETCHES + stretch;
    return r->along ? (double)r->along[at * PROBE_ALONGS + what] : (double)NAN;
}

/* ---- last rows ---- */

static probe_key *keys_at(const probe_result *r, size_t policy, size_t size, size_t layer,
                          size_t head) {
    return r->keys +
           (((policy * r->sizes + size) * r->layers + layer) * r->heads + head) * r->key_count;
}

static void keep_keys(probe *p, size_t size, const record_row *row, const record_detail *detail) {
    const probe_result *r = p->result;
    probe_key *keys = keys_at(r, p->policy, size, (size_t)row->layer, (size_t)row->head);
    for (size_t i = 0; i < detail->key_count && i < r->key_count; i++)
        keys[i] = (probe_key){(uint32_t)detail->keys[i].index, (float)detail->keys[i].weight};
}

static void keep_gaps(probe *p, const prompt *asked, const record_row *row,
                      const record_detail *detail) {
    const probe_result *r = p->result;
    size_t place = (asked->size * r->sequences + asked->sequence) * head_count(r);
    place += (size_t)row->layer * r->heads + (size_t)row->head;
    probe_gap_values(&detail->gaps, r->gaps + place * PROBE_GAP_VALUES);
}

void probe_details_add(probe *p, size_t index, const record_row *row, const record_detail *detail) {
    const probe_result *r = p->result;
    const prompt *asked = &p->prompts.items[index];
    const prompt_place *place = &p->places[index];
    if (asked->size >= r->sizes)
        return;
    if (asked->size + 1 == r->sizes)
        add_to_stretch(p, row);
    if (row->evaluation + 1 != place->first + place->count)
        return;
    if (r->keys && asked->sequence == 0 && detail->key_count > 0)
        keep_keys(p, asked->size, row, detail);
    if (r->gaps && is_plainest(p) && detail->gaps.counts[0] > 0)
        keep_gaps(p, asked, row, detail);
}

const probe_key *probe_keys(const probe_result *r, size_t policy, size_t size, size_t layer,
                            size_t head) {
    const probe_key *keys = r->keys ? keys_at(r, policy, size, layer, head) : NULL;
    return keys && keys[0].weight > 0 ? keys : NULL;
}

const char *probe_piece(const probe_result *r, size_t size, size_t position) {
    const char *text = json_string_value(json_array_get(json_array_get(r->pieces, size), position));
    return text ? text : "";
}
