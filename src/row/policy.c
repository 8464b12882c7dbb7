/*
 * Policies as values: the functions that make them, the check of every number
 * in them, and beta from a row's statistics. What a policy is called is in
 * policy_name.c; `target` is solved in target.c; the maps that are not a
 * temperature are in map.c.
 */
#include "row/policy.h"
#include "row/row.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* The paper's polynomial, from the highest power down. */
static const double adaptive_coefficients[] = {-0.037, 0.481, -2.3, 4.917, -1.791};
#define ADAPTIVE_DEGREE 4
#define ADAPTIVE_THRESHOLD 0.5
#define ADAPTIVE_FLOOR 1.0

/*
 * Where that polynomial peaks: the root of -0.148 H^3 + 1.443 H^2 - 4.6 H +
 * 4.917 near 4.412, rounded to double. beta is 2.42138770663... there.
 */
#define ADAPTIVE_PEAK 4.412401865965671

static whet_policy policy_of(whet_policy_kind kind) {
    whet_policy policy = {.kind = (uint32_t)kind, .strength = 1};
    policy.threshold = -INFINITY;
    policy.floor = -INFINITY;
    policy.hold = INFINITY;
    return policy;
}

static whet_policy policy_with(whet_policy_kind kind, double first, double second) {
    whet_policy policy = policy_of(kind);
    policy.value[0] = first;
    policy.value[1] = second;
    return policy;
}

whet_policy whet_policy_softmax(void) { return policy_of(WHET_POLICY_SOFTMAX); }

whet_policy whet_policy_fixed(double beta) { return policy_with(WHET_POLICY_FIXED, beta, 0); }

whet_policy whet_policy_adaptive(void) {
    return whet_policy_poly(adaptive_coefficients, ADAPTIVE_DEGREE, ADAPTIVE_THRESHOLD,
                            ADAPTIVE_FLOOR, INFINITY);
}

whet_policy whet_policy_adaptive_hold(void) {
    return whet_policy_poly(adaptive_coefficients, ADAPTIVE_DEGREE, ADAPTIVE_THRESHOLD,
                            ADAPTIVE_FLOOR, ADAPTIVE_PEAK);
}

/* A degree too high and missing coefficients are kept as such, for the check to refuse. */
whet_policy whet_policy_poly(const double *coefficients, unsigned degree, double threshold,
                             double floor, double hold) {
    whet_policy policy = policy_of(WHET_POLICY_POLY);
    policy.degree = degree;
    policy.threshold = threshold;
    policy.floor = floor;
    policy.hold = hold;
    bool is_readable = coefficients && degree <= WHET_POLY_DEGREE_MAX;
    for (unsigned i = 0; i <= degree && i <= WHET_POLY_DEGREE_MAX; i++) {
        policy.value[i] = is_readable ? coefficients[i] : NAN;
    }
    return policy;
}

whet_policy whet_policy_exp(double h0) { return policy_with(WHET_POLICY_EXP, h0, 0); }

whet_policy whet_policy_target(double entropy, double cap) {
    return policy_with(WHET_POLICY_TARGET, entropy, cap);
}

whet_policy whet_policy_ssmax(double s, double b) { return policy_with(WHET_POLICY_SSMAX, s, b); }

whet_policy whet_policy_length(double n0) { return policy_with(WHET_POLICY_LENGTH, n0, 0); }

whet_policy whet_policy_linear(double n0) { return policy_with(WHET_POLICY_LINEAR, n0, 0); }

whet_policy whet_policy_topk(uint64_t k) { return policy_with(WHET_POLICY_TOPK, (double)k, 0); }

whet_policy whet_policy_hardmax(void) { return policy_of(WHET_POLICY_HARDMAX); }

whet_policy whet_policy_sparsemax(void) { return whet_policy_entmax(2); }

whet_policy whet_policy_entmax15(void) { return whet_policy_entmax(1.5); }

whet_policy whet_policy_entmax(double alpha) { return policy_with(WHET_POLICY_ENTMAX, alpha, 0); }

whet_policy whet_policy_softmax1(void) { return policy_of(WHET_POLICY_SOFTMAX1); }

whet_policy whet_policy_sigmoid(double b) { return policy_with(WHET_POLICY_SIGMOID, b, 0); }

whet_policy whet_policy_stick_breaking(void) { return policy_of(WHET_POLICY_STICK_BREAKING); }

whet_policy whet_policy_custom(whet_beta_function function, void *context) {
    whet_policy policy = policy_of(WHET_POLICY_CUSTOM);
    policy.function = function;
    policy.context = context;
    return policy;
}

whet_policy whet_policy_with_strength(whet_policy policy, double strength) {
    policy.strength = strength;
    return policy;
}

whet_status whet_policy_refuse(char *message, size_t message_size, const char *format, ...) {
    if (message && message_size > 0) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(message, message_size, format, arguments);
        va_end(arguments);
    }
    return WHET_ERROR_POLICY;
}

/* The first rule that a policy breaks, and the number that breaks it. */
typedef struct violation {
    const char *rule; /* NULL: none */
    double number;
} violation;

static violation expect(bool holds, const char *rule, double number) {
    return (violation){holds ? NULL : rule, number};
}

static violation check_poly(const whet_policy *policy) {
    if (policy->degree > WHET_POLY_DEGREE_MAX) {
        return expect(false, "poly needs a degree of at most 8", policy->degree);
    }
    for (unsigned i = 0; i <= policy->degree; i++) {
        if (!isfinite(policy->value[i])) {
            return expect(false, "poly needs finite coefficients", policy->value[i]);
        }
    }
    if (!(policy->threshold < INFINITY)) {
        return expect(false, "poly needs a threshold below inf", policy->threshold);
    }
    if (!(policy->floor < INFINITY)) {
        return expect(false, "poly needs a floor below inf", policy->floor);
    }
    return expect(policy->hold > -INFINITY, "poly needs a hold above -inf", policy->hold);
}

static violation check_target(double entropy, double cap) {
    if (!(entropy > 0 && entropy < INFINITY)) {
        return expect(false, "target needs an entropy H > 0", entropy);
    }
    return expect(cap >= 1 && cap < INFINITY, "target needs a finite cap >= 1", cap);
}

static violation check_ssmax(double s, double b) {
    if (!isfinite(s)) {
        return expect(false, "ssmax needs a finite s", s);
    }
    return expect(isfinite(b), "ssmax needs a finite b", b);
}

static violation check_numbers(const whet_policy *policy) {
    double first = policy->value[0];
    switch (policy->kind) {
    case WHET_POLICY_FIXED:
        return expect(first > 0 && first < INFINITY, "fixed needs a finite B > 0", first);
    case WHET_POLICY_POLY:
        return check_poly(policy);
    case WHET_POLICY_EXP:
        return expect(isfinite(first), "exp needs a finite h0", first);
    case WHET_POLICY_TARGET:
        return check_target(first, policy->value[1]);
    case WHET_POLICY_SSMAX:
        return check_ssmax(first, policy->value[1]);
    case WHET_POLICY_LENGTH:
        return expect(first > 1 && first < INFINITY, "length needs a finite n0 > 1", first);
    case WHET_POLICY_LINEAR:
        return expect(first > 0 && first < INFINITY, "linear needs a finite n0 > 0", first);
    case WHET_POLICY_TOPK:
        return expect(first >= 1 && first < INFINITY && floor(first) == first,
                      "topk needs a whole k >= 1", first);
    case WHET_POLICY_ENTMAX:
        return expect(first > 1 && first <= 2, "entmax needs 1 < a <= 2", first);
    case WHET_POLICY_SIGMOID:
        return expect(!isinf(first), "sigmoid needs a finite b", first);
    default:
        return expect(true, NULL, 0);
    }
}

static violation check_strength(const whet_policy *policy) {
    double strength = policy->strength;
    if (!whet_policy_is_temperature(policy)) {
        return expect(strength == 1, "strength is for temperatures, elsewhere it must be 1",
                      strength);
    }
    return expect(strength >= 0 && strength < INFINITY, "strength must be finite and >= 0",
                  strength);
}

static bool is_known_kind(uint32_t kind) {
    return kind <= WHET_POLICY_CUSTOM ||
           (kind >= WHET_POLICY_TOPK && kind <= WHET_POLICY_STICK_BREAKING);
}

static bool reserved_is_zero(const whet_policy *policy) {
    unsigned char any = 0;
    for (size_t i = 0; i < sizeof policy->reserved; i++) {
        any |= policy->reserved[i];
    }
    return any == 0;
}

/* Only poly has limits; elsewhere they are none, which an all-zero struct does not say. */
static bool limits_are_in_place(const whet_policy *policy) {
    return policy->kind == WHET_POLICY_POLY ||
           (policy->threshold == -INFINITY && policy->floor == -INFINITY &&
            policy->hold == INFINITY);
}

whet_status whet_policy_check(const whet_policy *policy, char *message, size_t message_size) {
    if (!policy) {
        return whet_policy_refuse(message, message_size, "no policy was given");
    }
    if (!is_known_kind(policy->kind)) {
        return whet_policy_refuse(message, message_size, "%lu is not a kind of policy",
                                  (unsigned long)policy->kind);
    }
    if (!reserved_is_zero(policy) || !limits_are_in_place(policy)) {
        return whet_policy_refuse(
            message, message_size,
            "fields are set that this policy does not have: policies are made by "
            "the functions for it");
    }
    if (policy->kind == WHET_POLICY_CUSTOM && !policy->function) {
        return whet_policy_refuse(message, message_size, "a custom policy needs a function");
    }
    violation found = check_numbers(policy);
    if (!found.rule) {
        found = check_strength(policy);
    }
    if (found.rule) {
        char number[POLICY_NUMBER_SIZE];
        whet_policy_number_print(found.number, number);
        return whet_policy_refuse(message, message_size, "%s, not %s", found.rule, number);
    }
    if (message && message_size > 0) {
        message[0] = '\0';
    }
    return WHET_OK;
}

int whet_policy_is_temperature(const whet_policy *policy) {
    return !policy || policy->kind < WHET_POLICY_TOPK;
}

/* For several entropies at once, coefficient by coefficient, so that none waits for itself. */
static void poly_betas(const whet_policy *policy, const double *entropy, size_t count,
                       double *beta) {
    for (size_t i = 0; i < count; i++) {
        beta[i] = 0;
    }
    for (unsigned k = 0; k <= policy->degree && k <= WHET_POLY_DEGREE_MAX; k++) {
        for (size_t i = 0; i < count; i++) {
            double h = entropy[i] < policy->hold ? entropy[i] : policy->hold;
            beta[i] = beta[i] * h + policy->value[k];
        }
    }
    for (size_t i = 0; i < count; i++) {
        bool is_left = entropy[i] <= policy->threshold || policy->hold <= policy->threshold;
        double floored = beta[i] > policy->floor ? beta[i] : policy->floor;
        beta[i] = is_left ? 1 : floored;
    }
}

static double poly_beta(const whet_policy *policy, double entropy) {
    double beta;
    poly_betas(policy, &entropy, 1, &beta);
    return beta;
}

static double exp_beta(double h0, double entropy) { return fmax(1, exp(entropy - h0)); }

double whet_policy_full_beta(const whet_policy *policy, const whet_stats *stats,
                             double *dbeta_dentropy) {
    double first = policy->value[0];
    *dbeta_dentropy = 0;
    switch (policy->kind) {
    case WHET_POLICY_SOFTMAX:
        return 1;
    case WHET_POLICY_FIXED:
        return first;
    case WHET_POLICY_POLY:
        return poly_beta(policy, stats->entropy);
    case WHET_POLICY_EXP:
        return exp_beta(first, stats->entropy);
    case WHET_POLICY_SSMAX:
        return stats->n ? first * log((double)stats->n) + policy->value[1] : 1;
    case WHET_POLICY_LENGTH:
        return fmax(1, log((double)stats->n) / log(first));
    case WHET_POLICY_LINEAR:
        return fmax(1, (double)stats->n / first);
    case WHET_POLICY_CUSTOM:
        return policy->function(stats, dbeta_dentropy, policy->context);
    default:
        return NAN;
    }
}

double whet_policy_beta(const whet_policy *policy, const whet_stats *stats) {
    if (!policy) {
        return 1;
    }
    if (policy->kind == WHET_POLICY_TARGET || (stats->flags & WHET_ROW_NOT_FINITE)) {
        return NAN;
    }
    double dbeta_dentropy;
    return whet_policy_weaken(policy, whet_policy_full_beta(policy, stats, &dbeta_dentropy));
}

/* Between 0, where all entries are alike, and POLICY_BETA_MAX; NaN stays NaN. */
static double bound_beta(double beta) {
    if (beta > POLICY_BETA_MAX) {
        return POLICY_BETA_MAX;
    }
    return beta < 0 ? 0 : beta;
}

/* Strength 1 gives the very same beta, which 1 + (beta - 1) does not. */
double whet_policy_weaken(const whet_policy *policy, double beta) {
    if (policy->strength == 1) {
        return bound_beta(beta);
    }
    double limited = beta > POLICY_BETA_MAX    ? POLICY_BETA_MAX
                     : beta < -POLICY_BETA_MAX ? -POLICY_BETA_MAX /* -inf times 0 is NaN */
                                               : beta;
    return bound_beta(1 + policy->strength * (limited - 1));
}

bool whet_policy_betas(const whet_policy *policy, const double *entropy, size_t count,
                       double *beta) {
    if (policy->kind != WHET_POLICY_POLY && policy->kind != WHET_POLICY_EXP) {
        return false;
    }
    if (policy->kind == WHET_POLICY_POLY) {
        poly_betas(policy, entropy, count, beta);
    }
    for (size_t i = 0; i < count; i++) {
        double full =
            policy->kind == WHET_POLICY_POLY ? beta[i] : exp_beta(policy->value[0], entropy[i]);
        beta[i] = whet_policy_weaken(policy, full);
    }
    return true;
}
