/*
 * Every choice of a max-retrieval run: the task, the model and its training.
 * The defaults are the reading of the paper that comes closest to its table.
 */
#ifndef WHET_LAB_RETRIEVAL_CONFIG_H
#define WHET_LAB_RETRIEVAL_CONFIG_H

#include "base/json.h"
#include "whet.h"

#include <stddef.h>
#include <stdint.h>

enum {
    RETRIEVAL_DEPTH_MAX = 8,
    RETRIEVAL_WIDTH_MAX = 1024,
    RETRIEVAL_CLASSES_MAX = 1000,
    RETRIEVAL_SIZE_MAX = 1024, /* to train on */
    RETRIEVAL_BATCH_MAX = 4096,
    RETRIEVAL_POLICY_SIZE = 256
};

typedef enum retrieval_l2 {
    RETRIEVAL_L2_DECOUPLED, /* w -= rate lambda w */
    RETRIEVAL_L2_LOSS,      /* loss + lambda sum w^2 */
    RETRIEVAL_L2_LOSS_HALF, /* loss + lambda / 2 sum w^2 */
    RETRIEVAL_L2_NONE
} retrieval_l2;

typedef enum retrieval_precision {
    RETRIEVAL_F32,
    RETRIEVAL_BF16,         /* priority and query are rounded to bfloat16 */
    RETRIEVAL_BF16_PRODUCTS /* priority, and the operands of all matrix products: see model.h */
} retrieval_precision;
enum { RETRIEVAL_PRECISIONS = 3 };

typedef struct retrieval_config {
    uint32_t depth;   /* hidden layers of each MLP; 1 */
    uint32_t width;   /* 128 */
    uint32_t classes; /* 10 */
    bool key_sees_class;
    bool learn_scale;  /* a factor on all logits */
    double scale;      /* its value, or initial value; 1 */
    uint32_t size_min; /* of sets trained on, 5 ... 16 */
    uint32_t size_max;
    uint32_t batch;  /* sets a step; 128 */
    uint64_t steps;  /* 100,000 */
    double rate;     /* 1e-3 */
    double rate_end; /* the rate falls to this along a half cosine; equal to rate: constant */
    retrieval_l2 l2;
    double lambda;                      /* 1e-3 */
    retrieval_precision precision;      /* bf16-products */
    char policy[RETRIEVAL_POLICY_SIZE]; /* in training; softmax */
    double nearest; /* below 1: priorities of a set are 1 - s u, s log-uniform from this to 1 */
    double leak;    /* weight of a penalty on logits that depend on the class; 0 */
} retrieval_config;

retrieval_config retrieval_config_default(void);

/* Whether it is valid; the error names the option. */
bool retrieval_config_check(const retrieval_config *config, lab_error *error);

/* Everything as one JSON object, with the seed: the description in a checkpoint. */
json_t *retrieval_config_to_json(const retrieval_config *config, uint64_t seed);

/* The inverse. False and an error (naming `path`) if it describes another model or is invalid. */
bool retrieval_config_from_json(json_t *json, const char *path, retrieval_config *config,
                                uint64_t *seed, lab_error *error);

/* The names, in the order of the values and ended by NULL; and values by name. */
extern const char *const retrieval_l2_names[], *const retrieval_precision_names[];
const char *retrieval_precision_name(retrieval_precision precision);
bool retrieval_l2_parse(const char *name, retrieval_l2 *l2);
bool retrieval_precision_parse(const char *name, retrieval_precision *precision);

/* Number of learned parameters. */
size_t retrieval_parameters(const retrieval_config *config);

#endif
