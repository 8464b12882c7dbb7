/*
 * Samples of CLRS-Text. The input chooses the algorithm, length, seed, decimals,
 * hints, ties and a few indices, possibly ones that make no sense. What is taken
 * must give texts of the right shape, the same ones when the sampler is begun
 * again or taken up in the middle; an answer must score as itself, and any bytes
 * may be scored as a prediction of it.
 */
#include "clrs/clrs.h"
#include "clrs/score.h"
#include "input.h"

enum { LENGTH_LIMIT = 34, SAMPLES = 2 };

typedef struct texts {
    char *question[SAMPLES], *answer[SAMPLES];
    int count;
} texts;

static clrs_request choose_request(fuzz_input *input) {
    clrs_request request = {.algorithm = clrs_algorithm_at(fuzz_below(input, 30))->name};
    request.length = (int64_t)fuzz_below(input, LENGTH_LIMIT);
    request.seed = fuzz_bytes(input, 4);
    request.decimals = (int64_t)fuzz_below(input, 20);
    request.hints = fuzz_flag(input);
    request.ties = fuzz_flag(input) ? CLRS_TIES_SIMD : CLRS_TIES_SCALAR;
    if (fuzz_rarely(input, 16)) {
        request.length = (int64_t)fuzz_bytes(input, 8) | INT64_MIN;
    } else if (fuzz_rarely(input, 16)) {
        request.decimals = (int64_t)fuzz_hostile_size(input);
    } else if (fuzz_rarely(input, 16)) {
        request.seed = fuzz_hostile_size(input);
    }
    return request;
}

static bool ends_with(const char *text, size_t length, const char *end) {
    size_t end_length = strlen(end);
    return length >= end_length && memcmp(text + length - end_length, end, end_length) == 0;
}

static void check_shape(const clrs_sample *sample, const clrs_request *request, uint64_t index) {
    const char *name = request->algorithm;
    FUZZ_CHECK(strlen(sample->question) == sample->question_length);
    FUZZ_CHECK(strlen(sample->answer) == sample->answer_length);
    FUZZ_CHECK(strncmp(sample->question, name, strlen(name)) == 0);
    FUZZ_CHECK(ends_with(sample->question, sample->question_length, ":\n"));
    FUZZ_CHECK(ends_with(sample->answer, sample->answer_length, "\n\n"));
    FUZZ_CHECK(sample->index == index && sample->length == request->length);
    bool is_traced = request->hints && strcmp(name, "segments_intersect") != 0;
    FUZZ_CHECK(is_traced == (strstr(sample->answer, " | ") != NULL));
}

static void score(const clrs_sample *sample, fuzz_input *input) {
    clrs_span answer = {sample->answer, sample->answer_length};
    clrs_score own = clrs_score_answer(sample->algorithm, answer, answer);
    FUZZ_CHECK(own.exact && own.final && own.steps == own.steps_right);
    clrs_span bytes = {(const char *)input->at, input->left};
    clrs_score other = clrs_score_answer(sample->algorithm, bytes, answer);
    FUZZ_CHECK(other.steps == own.steps && other.steps_right <= other.steps);
    FUZZ_CHECK(!other.exact || other.final);
    clrs_score_answer(sample->algorithm, answer, bytes);
}

/* The first samples, as many as there are. */
static void make_samples(const clrs_request *request, fuzz_input *input, texts *made) {
    clrs_sampler *sampler;
    clrs_status status = clrs_sampler_create(request, &sampler);
    FUZZ_CHECK(status == CLRS_OK || status == CLRS_ERROR_MEMORY);
    for (made->count = 0; status == CLRS_OK && made->count < SAMPLES; made->count++) {
        clrs_sample sample;
        status = clrs_sampler_next(sampler, &sample);
        if (status != CLRS_OK) {
            FUZZ_CHECK(status == CLRS_ERROR_HULL || status == CLRS_ERROR_ENDLESS);
            break;
        }
        check_shape(&sample, request, (uint64_t)made->count);
        score(&sample, input);
        made->question[made->count] = fuzz_copy(sample.question, sample.question_length + 1);
        made->answer[made->count] = fuzz_copy(sample.answer, sample.answer_length + 1);
    }
    clrs_sampler_destroy(sampler);
}

/* Any of them again, from a sampler that goes to and fro. */
static void make_again(const clrs_request *request, const texts *made, fuzz_input *input) {
    clrs_sampler *sampler;
    if (made->count == 0 || clrs_sampler_create(request, &sampler) != CLRS_OK) {
        return;
    }
    for (int i = 0; i < SAMPLES; i++) {
        unsigned index = fuzz_below(input, (unsigned)made->count);
        clrs_sample sample;
        FUZZ_CHECK(clrs_sampler_seek(sampler, index) == CLRS_OK);
        FUZZ_CHECK(clrs_sampler_next(sampler, &sample) == CLRS_OK);
        FUZZ_CHECK(strcmp(sample.question, made->question[index]) == 0);
        FUZZ_CHECK(strcmp(sample.answer, made->answer[index]) == 0);
    }
    clrs_sampler_destroy(sampler);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input input = {data, size};
    clrs_request request = choose_request(&input);
    char message[CLRS_MESSAGE_SIZE] = "";
    if (clrs_request_check(&request, message) != CLRS_OK) {
        clrs_sampler *sampler;
        FUZZ_CHECK(message[0] != '\0');
        FUZZ_CHECK(clrs_sampler_create(&request, &sampler) != CLRS_OK && !sampler);
        return 0;
    }
    texts made;
    make_samples(&request, &input, &made);
    make_again(&request, &made, &input);
    for (int i = 0; i < made.count; i++) {
        free(made.question[i]);
        free(made.answer[i]);
    }
    return 0;
}
