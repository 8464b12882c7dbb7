/*
 * Four sequences of 4,096 in one cache, as servers keep them: a token of each decoded together, and
 * a prompt of one of them, against the same with caches of their own. Keys and values are f16 and
 * interleaved by heads, as in llama.cpp, 8 query heads on 2 key heads, one thread; which positions
 * belong to which sequence is in the mask alone.
 */
#include "sequences.h"

#include "inputs.h"
#include "job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    SEQUENCES = 4,
    LENGTH = 4096,
    KEYS = SEQUENCES * LENGTH,
    HEADS = 8,
    KV_HEADS = 2,
    DIM = 128,
    PROMPT = 512,
    F16_HIDDEN = 0xfc00
};

/* Seconds that a case would declare in a quick run, which leaves them out. */
#define SECONDS 1

static const report_column columns[COLUMNS_MAX] = {{"times own caches", COMPARE_TIMES}};

/* How positions are shared out. */
typedef enum sharing { CONSECUTIVE, INTERLEAVED, SCATTERED, SHARINGS } sharing;
static const char *const sharing_names[] = {"consecutive", "interleaved", "scattered"};

typedef struct sequences_inputs {
    float *q, *out;
    uint16_t *k, *v, *own_mask;
    uint16_t *mask[SHARINGS];
} sequences_inputs;

/* The sequence of a position; scattered ones belong to each sequence in runs of one to eight. */
static void share_out(sharing how, uint8_t *of) {
    size_t left[SEQUENCES] = {LENGTH, LENGTH, LENGTH, LENGTH};
    uint32_t state = 1;
    for (size_t j = 0; j < KEYS;) {
        if (how != SCATTERED) {
            of[j] = (uint8_t)(how == CONSECUTIVE ? j / LENGTH : j % SEQUENCES);
            j++;
            continue;
        }
        state = state * 1664525u + 1013904223u;
        size_t sequence = state >> 30, run = (state >> 20 & 7) + 1;
        for (; run > 0 && left[sequence] > 0; run--, left[sequence]--)
            of[j++] = (uint8_t)sequence;
    }
}

/* Queries of one token of each sequence, or the last PROMPT tokens of sequence 1. */
static void fill_mask(uint16_t *mask, const uint8_t *of, size_t keys, bool is_prompt) {
    size_t queries = is_prompt ? PROMPT : SEQUENCES;
    for (size_t i = 0; i < queries; i++)
        for (size_t j = 0, seen = 0; j < keys; j++) {
            bool own = of ? of[j] == (is_prompt ? 1 : i) : true;
            seen += own;
            bool is_later = is_prompt && seen > LENGTH - PROMPT + i + 1;
            mask[i * keys + j] = own && !is_later ? 0 : F16_HIDDEN;
        }
}

static void close_inputs(sequences_inputs *in) {
    bench_inputs_release(in->q);
    bench_inputs_release(in->out);
    bench_inputs_release(in->k);
    bench_inputs_release(in->v);
    bench_inputs_release(in->own_mask);
    for (size_t i = 0; i < SHARINGS; i++)
        bench_inputs_release(in->mask[i]);
}

static bool open_inputs(sequences_inputs *in, bool is_prompt) {
    static uint8_t of[KEYS];
    size_t queries = is_prompt ? PROMPT : SEQUENCES, values = (size_t)KEYS * KV_HEADS * DIM;
    size_t floats = HEADS * queries * DIM;
    *in = (sequences_inputs){.q = bench_inputs_allocate(floats * sizeof(float)),
                             .out = bench_inputs_allocate(floats * sizeof(float)),
                             .k = bench_inputs_allocate(values * 2),
                             .v = bench_inputs_allocate(values * 2),
                             .own_mask = bench_inputs_allocate(queries * LENGTH * 2)};
    bool done = in->q && in->out && in->k && in->v && in->own_mask;
    for (size_t i = 0; i < SHARINGS; i++) {
        in->mask[i] = bench_inputs_allocate(queries * KEYS * 2);
        done = done && in->mask[i];
        share_out((sharing)i, of);
        if (done)
            fill_mask(in->mask[i], of, KEYS, is_prompt);
    }
    if (!done) {
        close_inputs(in);
        return false;
    }
    bench_inputs_fill_queries(in->q, HEADS * queries, DIM, 1);
    bench_inputs_fill_f16(in->k, values, 1, 2);
    bench_inputs_fill_f16(in->v, values, 1, 3);
    fill_mask(in->own_mask, NULL, LENGTH, is_prompt);
    return true;
}

/* Attention of `queries` queries from query `first` of `all` on over `keys` keys from `start` on.
 */
static whet_attention describe(const sequences_inputs *in, size_t all, size_t first, size_t queries,
                               size_t start, size_t keys) {
    const ptrdiff_t row = DIM * 2, position = KV_HEADS * row, query = DIM * sizeof(float);
    const ptrdiff_t head = (ptrdiff_t)all * query;
    whet_attention a = {
        .size = sizeof a,
        .heads = HEADS,
        .kv_heads = KV_HEADS,
        .queries = queries,
        .keys = keys,
        .head_dim = DIM,
        .q = {.data = in->q + first * DIM, .stride = {0, head, query, 0}},
        .k = {.data = in->k + start * KV_HEADS * DIM,
              .stride = {0, row, position, 0},
              .type = WHET_F16},
        .v = {.data = in->v + start * KV_HEADS * DIM,
              .stride = {0, row, position, 0},
              .type = WHET_F16},
        .out = {.data = in->out + first * DIM, .stride = {0, head, query, 0}},
        .scale = (float)(bench_inputs_deviation(LENGTH) / sqrt((double)DIM)),
    };
    return a;
}

static void use_mask(whet_attention *a, const uint16_t *mask) {
    a->mask = (whet_mask){.data = mask, .type = WHET_F16};
    a->mask.stride[2] = (ptrdiff_t)(a->keys * 2);
}

/* The same work in caches of their own, one after the other. */
typedef struct own_caches {
    job jobs[SEQUENCES];
    size_t count;
} own_caches;

static void run_own(void *argument) {
    own_caches *own = argument;
    for (size_t i = 0; i < own->count; i++)
        bench_job_run(&own->jobs[i]);
}

static whet_status open_own(own_caches *own, const sequences_inputs *in, bool is_prompt) {
    whet_status status = WHET_OK;
    size_t count = is_prompt ? 1 : SEQUENCES;
    for (own->count = 0; status == WHET_OK && own->count < count; own->count += status == WHET_OK) {
        size_t i = own->count;
        whet_attention a = is_prompt ? describe(in, PROMPT, 0, PROMPT, LENGTH, LENGTH)
                                     : describe(in, SEQUENCES, i, 1, i * LENGTH, LENGTH);
        if (is_prompt)
            use_mask(&a, in->own_mask);
        status = bench_job_open(&own->jobs[i], &a, NULL);
    }
    return status;
}

static whet_status measure(suite *with, report_case *to, const sequences_inputs *in,
                           bool is_prompt) {
    own_caches own;
    job shared[SHARINGS];
    contender list[1 + SHARINGS];
    size_t opened = 0, queries = is_prompt ? PROMPT : SEQUENCES;
    double pairs = (double)PROMPT * (LENGTH - PROMPT) + 0.5 * PROMPT * (PROMPT + 1);
    double work = is_prompt ? 4.0 * DIM * HEADS * pairs : 4.0 * DIM * KV_HEADS * KEYS;
    whet_status status = open_own(&own, in, is_prompt);
    for (; status == WHET_OK && opened < SHARINGS; opened += status == WHET_OK) {
        whet_attention a = describe(in, queries, 0, queries, 0, KEYS);
        use_mask(&a, in->mask[opened]);
        status = bench_job_open(&shared[opened], &a, NULL);
    }
    list[0] = (contender){
        .name = "own caches", .run = run_own, .argument = &own, .work = work, .is_library = true};
    for (size_t i = 0; i < opened; i++)
        list[1 + i] = bench_job_contender(sharing_names[i], &shared[i], work);
    if (status == WHET_OK)
        bench_measure_case(with, list, 1 + SHARINGS, NULL, to->label);
    for (size_t i = 0; i < opened; i++) {
        status = status == WHET_OK ? shared[i].status : status;
        bench_job_close(&shared[i]);
    }
    for (size_t i = 0; i < own.count; i++)
        bench_job_close(&own.jobs[i]);
    return status;
}

bool bench_sequences(suite *with, bool is_prompt) {
    const char *name = is_prompt ? "prefill sequences" : "decode sequences";
    report_section *section =
        bench_report_add_section(with->report, name, is_prompt ? UNIT_GFLOPS : UNIT_GBS, columns);
    snprintf(section->title, sizeof section->title,
             "%s: f16, d=%d, %d query heads on %d key heads, one thread", name, DIM, HEADS,
             KV_HEADS);
    report_case result = {.entry_count = 0};
    snprintf(result.label, sizeof result.label, "%d of %d", SEQUENCES, LENGTH);
    sequences_inputs in;
    if (!bench_begin_case(with, name, result.label, SECONDS))
        return true;
    if (!open_inputs(&in, is_prompt))
        return bench_report_fail(with->report, name, "out of memory");
    whet_status status = measure(with, &result, &in, is_prompt);
    close_inputs(&in);
    if (status != WHET_OK)
        return bench_report_fail(with->report, name, whet_status_text(status));
    bench_report_add_entry(section, &result, &with->measured, "own caches",
                           (report_against){{NULL}});
    for (size_t i = 0; i < SHARINGS; i++) {
        report_entry *entry = bench_report_add_entry(
            section, &result, &with->measured, sharing_names[i], (report_against){{"own caches"}});
        if (i != SCATTERED)
            bench_report_set_bar(entry, 0, BAR_AT_MOST, is_prompt ? 1.2 : 1.3);
    }
    bench_add_presence(&result, &with->measured);
    return bench_report_add_case(with->report, section, &result);
}
