/*
 * Scoring. An answer's trace is cut into values at the commas that are outside
 * of any brackets; a step of some algorithms has two values. References that are
 * not given are made again by samplers that are kept open, a few dozen of them,
 * since predictions mostly come in the order of their samples.
 */
#include "clrs/score.h"

#include "base/grow.h"
#include "clrs/run.h"

#include <stdlib.h>
#include <string.h>

enum { SOURCES_MAX = 64 };

/* ---- One answer ----------------------------------------------------------- */

static bool is_white(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static clrs_span strip(clrs_span text) {
    while (text.length > 0 && is_white(text.start[text.length - 1]))
        text.length--;
    while (text.length > 0 && is_white(*text.start)) {
        text.start++;
        text.length--;
    }
    return text;
}

static bool same(clrs_span a, clrs_span b) {
    return a.length == b.length && (a.length == 0 || memcmp(a.start, b.start, a.length) == 0);
}

/* Cuts an answer at its last " | "; without one, all of it is the final part. The bar of an empty
 * trace stands at the very start, where stripping may have taken its first blank. */
static bool cut_final(clrs_span answer, clrs_span *trace, clrs_span *final) {
    *trace = (clrs_span){answer.start, 0};
    *final = answer;
    for (size_t at = answer.length; at-- > 0;) {
        bool is_bar = answer.start[at] == '|' && (at == 0 || answer.start[at - 1] == ' ') &&
                      (at + 1 == answer.length || answer.start[at + 1] == ' ');
        if (!is_bar)
            continue;
        trace->length = at;
        final->start = answer.start + at + 1;
        final->length = answer.length - at - 1;
        *trace = strip(*trace);
        *final = strip(*final);
        return true;
    }
    return false;
}

/* Takes `parts` values off the front of a trace. */
static clrs_span next_step(clrs_span *trace, int parts) {
    size_t at = 0;
    int depth = 0;
    for (; at < trace->length; at++) {
        char c = trace->start[at];
        depth += (c == '[' || c == '(') - (c == ']' || c == ')');
        if (c == ',' && depth <= 0 && --parts == 0)
            break;
    }
    clrs_span step = {trace->start, at};
    size_t used = at < trace->length ? at + 1 : at;
    trace->start += used;
    trace->length -= used;
    return strip(step);
}

/* Values in a step: the names of a pair in parentheses are one. */
static int parts_in_step(const clrs_algorithm *algorithm) {
    const clrs_entry *entry = clrs_entry_find(algorithm->name);
    int parts = 1;
    if (!entry || !entry->trace_names || entry->trace_names[0] == '(')
        return parts;
    for (const char *c = entry->trace_names; *c; c++)
        parts += *c == ',';
    return parts;
}

static void compare_steps(clrs_score *score, clrs_span prediction, clrs_span reference, int parts) {
    bool is_right = true;
    while (reference.length > 0) {
        clrs_span wanted = next_step(&reference, parts);
        is_right = is_right && prediction.length > 0 && same(next_step(&prediction, parts), wanted);
        score->steps++;
        score->steps_right += is_right;
    }
}

clrs_score clrs_score_answer(const clrs_algorithm *algorithm, clrs_span prediction,
                             clrs_span reference) {
    prediction = strip(prediction);
    reference = strip(reference);
    clrs_score score = {.exact = same(prediction, reference)};
    clrs_span prediction_trace, prediction_final, reference_trace, reference_final;
    bool has_bar = cut_final(prediction, &prediction_trace, &prediction_final);
    cut_final(reference, &reference_trace, &reference_final);
    score.final = same(prediction_final, reference_final);
    /* A prediction that never came to its end is all trace. */
    compare_steps(&score, has_bar ? prediction_trace : prediction, reference_trace,
                  parts_in_step(algorithm));
    return score;
}

/* ---- Sums ----------------------------------------------------------------- */

static int compare_places(const clrs_score_sum *sum, const clrs_algorithm *algorithm,
                          int64_t length) {
    int order = strcmp(sum->algorithm->name, algorithm->name);
    return order ? order : (sum->length > length) - (sum->length < length);
}

/* The sum for an algorithm and a length, put into its place if it is new; NULL without memory. */
static clrs_score_sum *find_sum(clrs_scores *scores, const clrs_algorithm *algorithm,
                                int64_t length) {
    size_t low = 0, high = scores->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_places(&scores->sums[middle], algorithm, length);
        if (order == 0)
            return &scores->sums[middle];
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    clrs_score_sum *sums = lab_grow(scores->sums, sizeof *sums, scores->count + 1, &scores->room);
    if (!sums)
        return NULL;
    scores->sums = sums;
    clrs_score_sum *place = &scores->sums[low];
    memmove(place + 1, place, (scores->count - low) * sizeof *place);
    *place = (clrs_score_sum){.algorithm = algorithm, .length = length};
    scores->count++;
    return place;
}

bool clrs_scores_add(clrs_scores *scores, const clrs_algorithm *algorithm, int64_t length,
                     clrs_span prediction, clrs_span reference) {
    clrs_score_sum *sum = find_sum(scores, algorithm, length);
    if (!sum)
        return false;
    clrs_score score = clrs_score_answer(algorithm, prediction, reference);
    sum->samples++;
    sum->exact += score.exact;
    sum->final += score.final;
    if (score.steps > 0) {
        sum->traced++;
        sum->steps_share += (double)score.steps_right / (double)score.steps;
    }
    return true;
}

clrs_score_sum clrs_scores_total(const clrs_scores *scores) {
    clrs_score_sum total = {.algorithm = NULL};
    for (size_t i = 0; i < scores->count; i++) {
        const clrs_score_sum *sum = &scores->sums[i];
        total.samples += sum->samples;
        total.exact += sum->exact;
        total.final += sum->final;
        total.traced += sum->traced;
        total.steps_share += sum->steps_share;
    }
    return total;
}

/* ---- References ----------------------------------------------------------- */

typedef struct clrs_source {
    clrs_request request; /* the name is the table's own */
    clrs_sampler *sampler;
} clrs_source;

static bool same_request(const clrs_request *a, const clrs_request *b) {
    return a->length == b->length && a->seed == b->seed && a->decimals == b->decimals &&
           a->hints == b->hints && a->ties == b->ties && strcmp(a->algorithm, b->algorithm) == 0;
}

/* Moves the source at an index to the front: the one at the end is used least. */
static clrs_source *bring_to_front(clrs_scores *scores, size_t index) {
    clrs_source found = scores->sources[index];
    memmove(scores->sources + 1, scores->sources, index * sizeof found);
    scores->sources[0] = found;
    return scores->sources;
}

static clrs_status open_source(clrs_scores *scores, const clrs_request *request) {
    if (!scores->sources) {
        scores->sources = calloc(SOURCES_MAX, sizeof *scores->sources);
        if (!scores->sources)
            return CLRS_ERROR_MEMORY;
    }
    clrs_sampler *sampler;
    clrs_status status = clrs_sampler_create(request, &sampler);
    if (status != CLRS_OK)
        return status;
    if (scores->source_count == SOURCES_MAX)
        clrs_sampler_destroy(scores->sources[--scores->source_count].sampler);
    clrs_source *added = &scores->sources[scores->source_count++];
    *added = (clrs_source){*request, sampler};
    added->request.algorithm = clrs_algorithm_find(request->algorithm)->name;
    return CLRS_OK;
}

clrs_status clrs_scores_reference(clrs_scores *scores, const clrs_request *request, uint64_t index,
                                  clrs_span *reference) {
    size_t at = 0;
    while (at < scores->source_count && !same_request(&scores->sources[at].request, request))
        at++;
    if (at == scores->source_count) {
        clrs_status status = open_source(scores, request);
        if (status != CLRS_OK)
            return status;
        at = scores->source_count - 1;
    }
    clrs_sampler *sampler = bring_to_front(scores, at)->sampler;
    clrs_sample sample;
    clrs_status status = clrs_sampler_seek(sampler, index);
    if (status == CLRS_OK)
        status = clrs_sampler_next(sampler, &sample);
    if (status == CLRS_OK)
        *reference = (clrs_span){sample.answer, sample.answer_length};
    return status;
}

void clrs_scores_free(clrs_scores *scores) {
    for (size_t i = 0; i < scores->source_count; i++)
        clrs_sampler_destroy(scores->sources[i].sampler);
    free(scores->sources);
    free(scores->sums);
    *scores = (clrs_scores){.count = 0};
}
