/* Maps that are not a temperature, each by its definition. */
#include "reference/parts.h"

static int compare_larger_first(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x < y) - (x > y);
}

static double kth_largest(const double *logits, size_t n, double k) {
    double *sorted = reference_allocate(n, sizeof *sorted);
    memcpy(sorted, logits, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_larger_first);
    double result = sorted[k < (double)n ? (size_t)k - 1 : n - 1];
    free(sorted);
    return result;
}

static void map_topk(const double *logits, size_t n, double k, double *p) {
    double lowest = kth_largest(logits, n, k);
    double max = reference_largest(logits, n, -(double)INFINITY);
    double z = 0;
    for (size_t i = 0; i < n; i++) {
        p[i] = logits[i] >= lowest ? reference_weight(logits[i], max, 1) : 0;
        z += p[i];
    }
    for (size_t i = 0; i < n; i++) {
        p[i] /= z;
    }
}

static void map_hardmax(const double *logits, size_t n, double *p) {
    double max = reference_largest(logits, n, -(double)INFINITY);
    double ties = 0;
    for (size_t i = 0; i < n; i++) {
        ties += logits[i] == max;
    }
    for (size_t i = 0; i < n; i++) {
        p[i] = logits[i] == max ? 1 / ties : 0;
    }
}

void reference_entmax(const double *logits, size_t n, double a, double *p) {
    double max = reference_largest(logits, n, -(double)INFINITY);
    double low = -1;
    double high = 0;
    for (int step = 0; step < 100; step++) {
        double tau = low + (high - low) / 2;
        if (step > 0 && (tau == low || tau == high)) {
            break; /* p is what it was at one of the two */
        }
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            double y = (a - 1) * (logits[i] - max) - tau;
            p[i] = y > 0 ? pow(y, 1 / (a - 1)) : 0;
            sum += p[i];
        }
        if (sum > 1) {
            low = tau;
        } else {
            high = tau;
        }
    }
}

static void map_softmax1(const double *logits, size_t n, double *p) {
    double max = reference_largest(logits, n, 0);
    double z = exp(-max);
    for (size_t i = 0; i < n; i++) {
        z += reference_weight(logits[i], max, 1);
    }
    for (size_t i = 0; i < n; i++) {
        p[i] = reference_weight(logits[i], max, 1) / z;
    }
}

static void map_sigmoid(const double *logits, size_t n, double b, double *p) {
    for (size_t i = 0; i < n; i++) {
        p[i] = sigma(logits[i] - b);
    }
}

static void map_softpick(const double *logits, size_t n, double *p) {
    double shift = fmax(0, reference_largest(logits, n, -(double)INFINITY));
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double r =
            logits[i] < 1 ? expm1(logits[i]) * exp(-shift) : exp(logits[i] - shift) - exp(-shift);
        sum += logits[i] == -(double)INFINITY ? 0 : fabs(r);
        p[i] = fmax(0, r);
    }
    for (size_t i = 0; i < n; i++) {
        p[i] = sum > 0 ? p[i] / sum : 0;
    }
}

static void map_stick_breaking(const double *logits, size_t n, double *p) {
    double left = 1;
    for (size_t i = n; i-- > 0;) {
        p[i] = sigma(logits[i]) * left;
        left *= sigma(-logits[i]);
    }
}

void reference_map(const whet_policy *policy, const double *logits, size_t n, uint64_t unmasked,
                   double *p) {
    double first = policy->map_value[0];
    switch (policy->map) {
    case WHET_POLICY_TOPK:
        map_topk(logits, n, first, p);
        break;
    case WHET_POLICY_HARDMAX:
        map_hardmax(logits, n, p);
        break;
    case WHET_POLICY_ENTMAX:
        reference_entmax(logits, n, first, p);
        break;
    case WHET_POLICY_SOFTMAX1:
        map_softmax1(logits, n, p);
        break;
    case WHET_POLICY_SIGMOID:
        map_sigmoid(logits, n, isnan(first) ? log((double)unmasked) : first, p);
        break;
    case WHET_POLICY_STICK_BREAKING:
        map_stick_breaking(logits, n, p);
        break;
    case WHET_POLICY_SOFTPICK:
        map_softpick(logits, n, p);
        break;
    default:
        fprintf(stderr, "the reference does not know policy %lu\n", (unsigned long)policy->map);
        abort();
    }
}

bool reference_sums_to_one(const whet_policy *policy) {
    return policy->map == WHET_POLICY_SOFTMAX || policy->map == WHET_POLICY_TOPK ||
           policy->map == WHET_POLICY_HARDMAX || policy->map == WHET_POLICY_ENTMAX;
}

bool reference_takes_sink(const whet_policy *policy) {
    return reference_sums_to_one(policy) || policy->map == WHET_POLICY_SOFTMAX1 ||
           policy->map == WHET_POLICY_SOFTPICK;
}
