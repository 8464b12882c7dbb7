/*
 * A sampler for each algorithm and length, or samples of a synthetic task, whose seeds depend on
 * the step and their place in it alone. Samples are converted to tokens at once; those that do not
 * fit the context are skipped, and the next ones of their samplers are used.
 */
#include "lm/data.h"

#include "base/grow.h"
#include "base/random.h"
#include "base/signals.h"

#include <stdlib.h>
#include <string.h>

enum { LEFT_OUT_MAX = 1000 }; /* in a row */

struct lm_source {
    lm_training training;
    size_t context, lengths;
    uint64_t step;
    task_sample drawn;        /* of a synthetic task */
    clrs_sampler *samplers[]; /* [tasks][lengths], NULL until needed */
};

lm_source *lm_source_create(const lm_training *training, size_t context, lab_error *error) {
    size_t lengths = training->length_max - training->length_min + 1;
    lm_source *source =
        calloc(1, sizeof *source + training->task_count * lengths * sizeof(clrs_sampler *));
    if (!source) {
        lab_fail_memory(error);
        return NULL;
    }
    source->training = *training;
    source->context = context;
    source->lengths = lengths;
    return source;
}

void lm_source_destroy(lm_source *source) {
    for (size_t i = 0; source && i < source->training.task_count * source->lengths; i++)
        clrs_sampler_destroy(source->samplers[i]);
    if (source)
        task_sample_free(&source->drawn);
    free(source);
}

void lm_sequences_free(lm_sequences *sequences) {
    free(sequences->tokens);
    free(sequences->list);
    *sequences = (lm_sequences){.count = 0};
}

static bool fail_sampler(clrs_status status, const char *name, lab_error *error) {
    if (status == CLRS_ERROR_MEMORY)
        return lab_fail_memory(error);
    return lab_fail(error, LAB_INPUT, "%s: %s", name, clrs_status_text(status));
}

static clrs_sampler *open_sampler(lm_source *source, uint32_t task, uint32_t length,
                                  lab_error *error) {
    const lm_training *training = &source->training;
    const clrs_algorithm *algorithm = training->tasks[task].algorithm;
    clrs_sampler **place =
        &source->samplers[task * source->lengths + (length - training->length_min)];
    if (!*place) {
        int64_t shortest = algorithm->shortest;
        clrs_request request = clrs_request_default(
            algorithm->name, (int64_t)length > shortest ? (int64_t)length : shortest);
        request.hints = training->tasks[task].hints;
        request.seed =
            0x80000000u | (uint32_t)lab_seed_for(training->seed, algorithm->name, length);
        clrs_status status = clrs_sampler_create(&request, place);
        if (status != CLRS_OK)
            fail_sampler(status, algorithm->name, error);
    }
    return *place;
}

typedef struct choice {
    uint32_t task, length;
} choice;

static choice choose(const lm_training *training, lab_random *random, uint32_t longest) {
    uint32_t tasks = training->synthetic ? 1 : (uint32_t)training->task_count;
    uint32_t task = lab_random_below(random, tasks);
    return (choice){task, training->length_min +
                              lab_random_below(random, longest - training->length_min + 1)};
}

/* Room for a sequence of `count` tokens, which has its marks already; NULL when memory runs out. */
static lm_token *append(lm_sequences *sequences, size_t question, size_t count, uint32_t task) {
    void *grown = lab_grow(sequences->tokens, sizeof *sequences->tokens,
                           sequences->token_count + count, &sequences->token_capacity);
    if (!grown)
        return NULL;
    sequences->tokens = grown;
    grown = lab_grow(sequences->list, sizeof *sequences->list, sequences->count + 1,
                     &sequences->capacity);
    if (!grown)
        return NULL;
    sequences->list = grown;
    lm_token *tokens = sequences->tokens + sequences->token_count;
    tokens[0] = LM_TOKEN_BEGIN;
    tokens[count - 1] = LM_TOKEN_END;
    sequences->list[sequences->count++] = (lm_sequence){.offset = sequences->token_count,
                                                        .count = (uint32_t)count,
                                                        .answer = (uint32_t)(1 + question),
                                                        .task = task};
    sequences->token_count += count;
    return tokens;
}

bool lm_sequences_add_text(lm_sequences *sequences, const clrs_sample *sample, uint32_t task) {
    size_t question = sample->question_length;
    lm_token *tokens = append(sequences, question, question + sample->answer_length + 2, task);
    if (!tokens)
        return false;
    lm_tokens_of_text(sample->question, question, tokens + 1);
    lm_tokens_of_text(sample->answer, sample->answer_length, tokens + 1 + question);
    return true;
}

bool lm_sequences_add(lm_sequences *sequences, const task_sample *sample) {
    lm_token *tokens = append(sequences, sample->question, sample->count + 2, 0);
    if (tokens)
        memcpy(tokens + 1, sample->tokens, sample->count * sizeof *tokens);
    return tokens != NULL;
}

/* END is predicted and never read: a sequence may be as long as the context and one more. */
static size_t tokens_read(const clrs_sample *sample) {
    return sample->question_length + sample->answer_length + 1;
}

/* The next sample that fits the context; *left_out counts those that do not. */
static bool draw_fitting(lm_source *source, choice chosen, clrs_sample *sample, uint64_t *left_out,
                         lab_error *error) {
    clrs_sampler *sampler = open_sampler(source, chosen.task, chosen.length, error);
    if (!sampler)
        return false;
    for (int tries = 0; tries < LEFT_OUT_MAX; tries++) {
        clrs_status status = clrs_sampler_next(sampler, sample);
        if (status != CLRS_OK)
            return fail_sampler(status, source->training.tasks[chosen.task].algorithm->name, error);
        if (tokens_read(sample) <= source->context)
            return true;
        ++*left_out;
    }
    return lab_fail(error, LAB_INPUT,
                    "%s of length %u takes about %zu tokens and does not fit --context %zu",
                    sample->algorithm->name, chosen.length, tokens_read(sample), source->context);
}

static bool draw_one(lm_source *source, choice chosen, lm_sequences *sequences, lab_error *error) {
    clrs_sample sample = {0};
    return draw_fitting(source, chosen, &sample, &sequences->left_out, error) &&
           (lm_sequences_add_text(sequences, &sample, chosen.task) || lab_fail_memory(error));
}

/* Sample `index` of a synthetic task's stream. */
static bool draw_synthetic(lm_source *source, uint32_t size, uint64_t index, lab_error *error) {
    const lm_training *training = &source->training;
    if (!task_draw(training->synthetic, size, task_seed(training->seed, TASK_TRAIN, index),
                   &source->drawn))
        return lab_fail_memory(error);
    return source->drawn.count + 1 <= source->context ||
           lab_fail(error, LAB_INPUT,
                    "%s of size %u takes %zu tokens and does not fit --context %zu",
                    training->synthetic->name, size, source->drawn.count + 1, source->context);
}

bool lm_source_draw(lm_source *source, lm_sequences *sequences, lab_error *error) {
    const lm_training *training = &source->training;
    lab_random random = lab_random_start(lab_seed_for(training->seed, "step", source->step));
    uint32_t longest = lm_longest_at(training, source->step);
    sequences->count = sequences->token_count = 0;
    size_t count = (size_t)training->batch * training->accumulate;
    for (size_t i = 0; i < count; i++) {
        choice chosen = choose(training, &random, longest);
        bool is_drawn =
            training->synthetic
                ? draw_synthetic(source, chosen.length, source->step * count + i, error) &&
                      (lm_sequences_add(sequences, &source->drawn) || lab_fail_memory(error))
                : draw_one(source, chosen, sequences, error);
        if (!is_drawn)
            return false;
    }
    source->step++;
    return true;
}

bool lm_source_skip_to(lm_source *source, uint64_t step, lm_sequences *sequences,
                       lab_error *error) {
    while (source->step < step) {
        if (lab_interrupted())
            return lab_fail(error, LAB_STOPPED, "stopped while resuming");
        if (!lm_source_draw(source, sequences, error))
            return false;
    }
    return true;
}

bool lm_training_longest(const lm_training *training, size_t context, size_t *tokens,
                         lab_error *error) {
    lm_source *source = lm_source_create(training, context, error);
    size_t longest = 1;
    bool is_good = source != NULL;
    if (is_good && training->synthetic) {
        is_good = draw_synthetic(source, training->length_max, 0, error);
        longest = source->drawn.count + 1;
    }
    for (uint32_t task = 0; is_good && task < training->task_count; task++) {
        clrs_sample sample = {0};
        uint64_t left_out = 0;
        is_good =
            draw_fitting(source, (choice){task, training->length_max}, &sample, &left_out, error);
        size_t count = left_out > 0 ? context : tokens_read(&sample);
        longest = count > longest ? count : longest;
    }
    *tokens = longest;
    lm_source_destroy(source);
    return is_good;
}
