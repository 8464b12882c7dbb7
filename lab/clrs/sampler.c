/*
 * Samplers: check a request, allocate memory, and for each sample draw, solve
 * and write. All working memory is one block whose size is in the table of
 * algorithms.
 */
#include "clrs/clrs.h"
#include "clrs/run.h"
#include "clrs/trace.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16, POINTS_MIN = 8 };

struct clrs_sampler {
    clrs_run run;
    uint32_t seed;
    uint64_t index;
};

clrs_request clrs_request_default(const char *algorithm, int64_t length) {
    return (clrs_request){
        .algorithm = algorithm, .length = length, .decimals = CLRS_DECIMALS_DEFAULT};
}

const char *clrs_status_text(clrs_status status) {
    switch (status) {
    case CLRS_OK:
        return "success";
    case CLRS_ERROR_ALGORITHM:
        return "unknown algorithm";
    case CLRS_ERROR_LENGTH:
        return "length out of range";
    case CLRS_ERROR_SEED:
        return "seed out of range";
    case CLRS_ERROR_DECIMALS:
        return "decimals out of range";
    case CLRS_ERROR_INDEX:
        return "index out of range: samples are numbered from 0 to 4294967295";
    case CLRS_ERROR_HULL:
        return "a thousand consecutive sets of points had three on a line: too many points for "
               "this few "
               "decimals";
    case CLRS_ERROR_ENDLESS:
        return "the reference's graham_scan does not terminate on this sample: truncated "
               "again, three of its points are on a line";
    case CLRS_ERROR_MEMORY:
        return "out of memory";
    }
    return "unknown status";
}

clrs_status clrs_request_check(const clrs_request *request, char *message) {
    char unused[CLRS_MESSAGE_SIZE];
    char *to = message ? message : unused;
    const clrs_algorithm *algorithm =
        request->algorithm ? clrs_algorithm_find(request->algorithm) : NULL;
    if (!algorithm) {
        snprintf(to, CLRS_MESSAGE_SIZE, "unknown algorithm '%.100s'",
                 request->algorithm ? request->algorithm : "");
        return CLRS_ERROR_ALGORITHM;
    }
    if (request->length < algorithm->shortest || request->length > CLRS_LENGTH_MAX) {
        snprintf(to, CLRS_MESSAGE_SIZE, "%s takes lengths from %d to %d, not %lld", algorithm->name,
                 algorithm->shortest, CLRS_LENGTH_MAX, (long long)request->length);
        return CLRS_ERROR_LENGTH;
    }
    if (request->hints && request->length > CLRS_TRACE_LENGTH_MAX) {
        snprintf(to, CLRS_MESSAGE_SIZE, "lengths with hints go up to %d, not %lld",
                 CLRS_TRACE_LENGTH_MAX, (long long)request->length);
        return CLRS_ERROR_LENGTH;
    }
    if (request->seed > UINT32_MAX) {
        snprintf(to, CLRS_MESSAGE_SIZE, "seeds are from 0 to %llu, not %llu",
                 (unsigned long long)UINT32_MAX, (unsigned long long)request->seed);
        return CLRS_ERROR_SEED;
    }
    if (request->decimals < 0 || request->decimals > CLRS_DECIMALS_MAX) {
        snprintf(to, CLRS_MESSAGE_SIZE, "decimals are from 0 to %d, not %lld", CLRS_DECIMALS_MAX,
                 (long long)request->decimals);
        return CLRS_ERROR_DECIMALS;
    }
    return CLRS_OK;
}

/* ---- Working memory ------------------------------------------------------- */

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* Lengths are at most 2^24, so that no size overflows: 12 squares of 2^50 bytes at most. */
static bool allocate_memory(clrs_run *run) {
    const clrs_entry *entry = run->entry;
    size_t entries = (size_t)run->n + 1;
    run->vector_bytes = aligned((entries < POINTS_MIN ? POINTS_MIN : entries) * sizeof(double));
    run->square_bytes = aligned(entries * entries * sizeof(int));
    run->memory_size =
        (size_t)entry->vectors * run->vector_bytes + (size_t)entry->squares * run->square_bytes;
    run->memory = malloc(run->memory_size);
    return run->memory != NULL;
}

static void *take(clrs_run *run, size_t bytes) {
    void *taken = run->memory + run->memory_used;
    run->memory_used += bytes;
    assert(run->memory_used <= run->memory_size);
    return taken;
}

void *clrs_vectors(clrs_run *run, int count) {
    return take(run, (size_t)count * run->vector_bytes);
}

void *clrs_squares(clrs_run *run, int count) {
    return take(run, (size_t)count * run->square_bytes);
}

int *clrs_identity(clrs_run *run) {
    int *vector = clrs_vector(run);
    for (int i = 0; i < run->n; i++)
        vector[i] = i;
    return vector;
}

int *clrs_zeros(clrs_run *run) {
    int *vector = clrs_vector(run);
    memset(vector, 0, (size_t)run->n * sizeof *vector);
    return vector;
}

/* ---- Samples -------------------------------------------------------------- */

/* Keys are printed once, for the question and for every step of the trace. */
static void append_keys(clrs_run *run) {
    /* A printed key takes as much memory as four doubles. */
    run->key_texts = clrs_vectors(run, CLRS_FLOAT_SIZE / (int)sizeof(double));
    run->key_lengths = clrs_vector(run);
    clrs_text *text = &run->question;
    for (int i = 0; i < run->n; i++) {
        char *key = run->key_texts + (size_t)i * CLRS_FLOAT_SIZE;
        size_t length = clrs_float_print(&run->floats, run->first[i], key);
        run->key_lengths[i] = (int)length;
        clrs_text_append(text, i == 0 ? "[" : " ");
        clrs_text_append_bytes(text, key, length);
    }
    clrs_text_append(text, "]");
}

static void append_input(clrs_run *run, clrs_input_kind kind) {
    clrs_text *text = &run->question;
    switch (kind) {
    case CLRS_INPUT_NONE:
        break;
    case CLRS_INPUT_FIRST:
        clrs_text_append_floats(text, &run->floats, run->first, run->entries);
        break;
    case CLRS_INPUT_KEYS:
        append_keys(run);
        break;
    case CLRS_INPUT_SECOND:
        clrs_text_append_floats(text, &run->floats, run->second, run->entries);
        break;
    case CLRS_INPUT_NUMBERS:
        clrs_text_append_ints(text, run->numbers, run->entries, run->n);
        break;
    case CLRS_INPUT_MARKS:
        clrs_text_append_ints(text, run->marks, run->entries, 1);
        break;
    case CLRS_INPUT_TARGET:
        clrs_text_append_float(text, &run->floats, run->target);
        break;
    case CLRS_INPUT_SOURCE:
        clrs_text_append_int(text, run->source);
        break;
    case CLRS_INPUT_EDGES:
    case CLRS_INPUT_FLOAT_EDGES:
        clrs_text_append_flag_matrix(text, run->edges, run->n, kind == CLRS_INPUT_FLOAT_EDGES);
        break;
    case CLRS_INPUT_WEIGHTS:
        clrs_text_append_float_matrix(text, &run->floats, run->weights, run->n);
        break;
    }
}

static void append_inputs(clrs_run *run) {
    const clrs_input *inputs = run->entry->inputs;
    clrs_text_append(&run->question, run->entry->public.name);
    clrs_text_append(&run->question, ":\n");
    for (size_t i = 0; i < 2 && inputs[i].kind != CLRS_INPUT_NONE; i++) {
        clrs_text_append(&run->question, i > 0 ? ", " : "");
        clrs_text_append(&run->question, inputs[i].name);
        clrs_text_append(&run->question, ": ");
        append_input(run, inputs[i].kind);
    }
}

static bool draw(clrs_sampler *sampler) {
    sampler->run.memory_used = 0;
    sampler->index++;
    return sampler->run.entry->draw(&sampler->run);
}

/* The question up to its trace, the run, and what follows in both texts. */
static void write_sample(clrs_run *run) {
    const clrs_entry *entry = run->entry;
    run->question.length = 0;
    run->answer.length = 0;
    run->endless = false;
    append_inputs(run);
    clrs_trace_begin(run);
    entry->solve(run);
    clrs_text_append(&run->question, run->hints ? "\ntrace | " : "\n");
    clrs_text_append(&run->question, run->hints ? entry->trace_names : entry->names);
    clrs_text_append(&run->question, ":\n");
    clrs_text_append(&run->answer, "\n\n");
}

clrs_status clrs_sampler_create(const clrs_request *request, clrs_sampler **sampler) {
    *sampler = NULL;
    clrs_status status = clrs_request_check(request, NULL);
    if (status != CLRS_OK)
        return status;
    clrs_sampler *made = calloc(1, sizeof *made);
    if (!made)
        return CLRS_ERROR_MEMORY;
    clrs_run *run = &made->run;
    run->entry = clrs_entry_find(request->algorithm);
    run->n = (int)request->length;
    run->decimals = (int)request->decimals;
    run->floats.decimals = run->decimals;
    run->asked_for_hints = request->hints;
    run->hints = request->hints && run->entry->trace_names;
    run->ties = request->ties;
    made->seed = (uint32_t)request->seed;
    clrs_random_seed(&run->random, made->seed);
    if (!allocate_memory(run)) {
        free(made);
        return CLRS_ERROR_MEMORY;
    }
    *sampler = made;
    return CLRS_OK;
}

void clrs_sampler_destroy(clrs_sampler *sampler) {
    if (!sampler)
        return;
    clrs_text_free(&sampler->run.question);
    clrs_text_free(&sampler->run.answer);
    free(sampler->run.memory);
    free(sampler);
}

clrs_status clrs_sampler_next(clrs_sampler *sampler, clrs_sample *sample) {
    clrs_run *run = &sampler->run;
    if (!draw(sampler))
        return CLRS_ERROR_HULL;
    write_sample(run);
    if (run->endless)
        return CLRS_ERROR_ENDLESS;
    if (!clrs_text_terminate(&run->question) || !clrs_text_terminate(&run->answer))
        return CLRS_ERROR_MEMORY;
    *sample = (clrs_sample){.algorithm = &run->entry->public,
                            .length = run->n,
                            .seed = sampler->seed,
                            .index = sampler->index - 1,
                            .hints = run->asked_for_hints,
                            .question = run->question.data,
                            .question_length = run->question.length,
                            .answer = run->answer.data,
                            .answer_length = run->answer.length};
    return CLRS_OK;
}

clrs_status clrs_sampler_seek(clrs_sampler *sampler, uint64_t index) {
    if (index > CLRS_INDEX_MAX)
        return CLRS_ERROR_INDEX;
    if (index < sampler->index) {
        clrs_random_seed(&sampler->run.random, sampler->seed);
        sampler->index = 0;
    }
    while (sampler->index < index)
        if (!draw(sampler))
            return CLRS_ERROR_HULL;
    return CLRS_OK;
}
