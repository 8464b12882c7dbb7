/* Greedy choice, and sampling by cumulative probabilities. */
#include "lm/sample.h"

#include <math.h>

lm_token lm_greedy(const float *logits, size_t count) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return (lm_token)best;
}

lm_token lm_sample(const float *logits, size_t count, double temperature, lab_random *random) {
    lm_token top = lm_greedy(logits, count);
    if (!(temperature > 0))
        return top;
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += exp(((double)logits[i] - (double)logits[top]) / temperature);
    double left = lab_random_double(random) * total;
    for (size_t i = 0; i < count; i++) {
        left -= exp(((double)logits[i] - (double)logits[top]) / temperature);
        if (left < 0)
            return (lm_token)i;
    }
    return top; /* remainder from rounding */
}
