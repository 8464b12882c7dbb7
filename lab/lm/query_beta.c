/* Betas of queries and their derivatives, head by head. */
#include "lm/query_beta.h"

#include <math.h>

#define POWER_RANGE 2.0

/* beta - 1 = strength length^power */
typedef struct terms {
    double strength, power, length;
    double strength_slope, power_slope; /* by b and g */
} terms;

static double softplus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

static terms terms_of(const lm_query_betas *of, size_t token, size_t head) {
    size_t heads = of->config->heads;
    double b = of->raw[token * 2 * heads + head], g = of->raw[(token * 2 + 1) * heads + head];
    double curve = tanh(g);
    return (terms){.strength = softplus(b),
                   .power = POWER_RANGE * curve,
                   .length = log((double)(of->first + token % of->length + 2)),
                   .strength_slope = 1 / (1 + exp(-b)),
                   .power_slope = POWER_RANGE * (1 - curve * curve)};
}

static bool is_scaled(const lm_query_betas *of, size_t head) {
    return of->config->positions != LM_MIX || lm_alibi_slope(of->config, head) == 0;
}

/* Where the beta of a token's query is. */
static size_t place_of(const lm_query_betas *of, size_t token, size_t head) {
    return (token / of->length * of->config->heads + head) * of->length + token % of->length;
}

void lm_query_betas_forward(const lm_query_betas *of, float *betas) {
    for (size_t token = 0; token < of->rows * of->length; token++)
        for (size_t head = 0; head < of->config->heads; head++) {
            terms t = terms_of(of, token, head);
            double beta = is_scaled(of, head) ? 1 + t.strength * pow(t.length, t.power) : 1;
            betas[place_of(of, token, head)] = (float)beta;
        }
}

void lm_query_betas_backward(const lm_query_betas *of, const float *grad_betas, float *grad_raw) {
    size_t heads = of->config->heads;
    for (size_t token = 0; token < of->rows * of->length; token++)
        for (size_t head = 0; head < heads; head++) {
            terms t = terms_of(of, token, head);
            double grad = is_scaled(of, head) ? (double)grad_betas[place_of(of, token, head)] : 0;
            double scale = grad * pow(t.length, t.power);
            grad_raw[token * 2 * heads + head] = (float)(scale * t.strength_slope);
            grad_raw[(token * 2 + 1) * heads + head] =
                (float)(scale * t.strength * log(t.length) * t.power_slope);
        }
}
