/*
 * Temperatures of a model's heads. Head h of layer l attends with
 *
 *     beta(n) = exp(a + h max(0, ln(n / n0)))
 *
 * over n keys: the policy hinge:a:h:n0, with n0 the context that the model was trained on. The
 * numbers may be one pair for all heads, one for each layer, or one for each head; here every head
 * has its own pair, and shared ones are equal.
 */
#ifndef WHET_LAB_TUNE_SETTING_H
#define WHET_LAB_TUNE_SETTING_H

#include "base/json.h"
#include "whet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tune_setting {
    size_t layers, heads;
    double n0;
    double *a, *h; /* [layers][heads] */
} tune_setting;

/* beta = 1 everywhere. False when memory runs out; free it whatever this returns. */
bool tune_setting_create(size_t layers, size_t heads, double n0, tune_setting *setting);
void tune_setting_free(tune_setting *setting); /* a zeroed one is fine */

/* Copies numbers between settings of the same size. */
void tune_setting_copy(const tune_setting *from, tune_setting *to);

/* The same pair in every head; or in those that are tuned ([layers][heads], NULL: all), and beta =
 * 1 in the others. */
void tune_setting_fill(tune_setting *setting, double a, double h);
void tune_setting_fill_tuned(tune_setting *setting, const unsigned char *is_tuned, double a,
                             double h);

/* Whether beta is 1 everywhere. */
bool tune_setting_is_neutral(const tune_setting *setting);

/* A checksum of all numbers, the same for the same setting. */
uint64_t tune_setting_sum(const tune_setting *setting);

/* The policy of a head. */
whet_policy tune_setting_policy(const tune_setting *setting, size_t layer, size_t head);

/* Deals the pairs of heads that are tuned ([layers][heads], NULL: all) to one another at random,
 * over all layers; or, by layers, those of whole layers with a tuned head. */
void tune_setting_permute(tune_setting *setting, const unsigned char *is_tuned, bool by_layer,
                          uint64_t seed);

/*
 * A WHET_CONFIG for the plug-in: one rule for every group of heads with the same policy, none where
 * beta is 1. `about`, whose reference is taken, may be NULL. A new reference; NULL when memory runs
 * out.
 */
json_t *tune_setting_config(const tune_setting *setting, json_t *about);

#endif
