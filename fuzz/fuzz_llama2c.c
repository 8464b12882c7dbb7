/*
 * Any bytes as a model of llama2.c, as `whet lm import` reads it. A refusal says
 * why; what is taken has a shape that makes sense and every weight of the file.
 */
#define _GNU_SOURCE

#include "file.h"

#include "lm/llama2c.h"

enum { HEADER_SIZE = 7 * 4 };

/* Weights are the file's own, bit for bit, though in another order: what they add up to as whole
 * numbers is the same. The tables of sines behind the last norm are skipped. */
static uint32_t sum_of_words(const void *bytes, size_t words) {
    uint32_t sum = 0;
    for (size_t i = 0; i < words; i++) {
        uint32_t word;
        memcpy(&word, (const char *)bytes + 4 * i, 4);
        sum += word;
    }
    return sum;
}

static void check_model(const lm_model *model, const uint8_t *data, size_t size) {
    const lm_config *c = &model->config;
    lab_error error = {0};
    FUZZ_CHECK(lm_config_check(c, &error));
    size_t table = (size_t)c->context * (c->head_dim / 2) * 2;
    size_t head = c->tied ? 0 : (size_t)c->vocabulary * c->width;
    size_t first = model->layout.count - head; /* weights before the tables */
    FUZZ_CHECK(size == HEADER_SIZE + 4 * (model->layout.count + table));
    uint32_t expected = sum_of_words(data + HEADER_SIZE, first) +
                        sum_of_words(data + HEADER_SIZE + 4 * (first + table), head);
    FUZZ_CHECK(sum_of_words(model->weights, model->layout.count) == expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lab_error error = {0};
    lm_model model;
    if (lm_llama2c_read(fuzz_file(data, size), &model, &error)) {
        FUZZ_CHECK(error.kind == LAB_NO_ERROR);
        check_model(&model, data, size);
        lm_model_free(&model);
    } else {
        FUZZ_CHECK(error.kind == LAB_INPUT);
        fuzz_check_words(error.text);
    }
    return 0;
}
