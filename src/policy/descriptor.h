/*
 * What a policy is made of. A policy is a temperature and a map, and each of the
 * two is one descriptor: its text, its parameters with their limits, what it
 * needs to know of a row, and its functions. Everything else (rows, attention,
 * the plug-in, the laboratory, the program) asks the descriptor; no other file
 * looks at a policy's kind.
 *
 * The descriptors are in one file for each family; registry.c lists them.
 */
#ifndef WHET_POLICY_DESCRIPTOR_H
#define WHET_POLICY_DESCRIPTOR_H

#include "policy/map.h"
#include "whet.h"
#include <math.h>
#include <stdbool.h>

/* ---- parameters ---- */

enum {
    PARAMETER_LOW_OPEN = 1u,  /* the lower limit itself is not allowed, */
    PARAMETER_HIGH_OPEN = 2u, /* or the upper one */
    PARAMETER_WHOLE = 4u,     /* whole numbers only */
    PARAMETER_NAN = 8u,       /* NaN stands for a default that depends on the row */
    PARAMETER_OPTION = 16u,   /* written ":name=number" */
    PARAMETER_OPTIONAL = 32u, /* may be omitted at the end of a name */
    PARAMETER_LIST = 64u,     /* "c4/c3/...": degree + 1 numbers */
    PARAMETER_LEARNABLE = 128u
};
#define PARAMETER_OPEN (PARAMETER_LOW_OPEN | PARAMETER_HIGH_OPEN)
#define NO_GRADIENT SIZE_MAX

typedef struct policy_parameter {
    const char *name;
    const char *rule; /* what to say where the limits are broken: "exp needs a finite h0" */
    size_t offset;    /* of the double in whet_policy */
    size_t gradient;  /* of its derivative in whet_policy_gradient, or NO_GRADIENT */
    double low, high;
    unsigned flags;
} policy_parameter;

#define POLICY_PARAMETERS_MAX 4

/* ---- temperatures ---- */

/* What a temperature needs to know about a row to give beta. */
enum {
    NEEDS_COUNT = 1u,    /* of entries that are not masked */
    NEEDS_POSITION = 2u, /* of the query */
    NEEDS_SUMS = 4u,     /* Z and S, that is the entropy */
    NEEDS_SEARCH = 8u,   /* and passes over the logits, driven by its solver */
    NEEDS_STATS = 16u    /* all of whet_stats (for functions of the caller's) */
};

/* Several rows at once: an array for each thing that the temperature needs. */
typedef struct beta_batch {
    size_t count;
    const double *entropy;
    const uint64_t *n;
    const int64_t *position;
    const whet_stats *stats;
} beta_batch;

/*
 * The search for a beta, as a state machine that is driven by the code that holds the
 * logits, for one row or for many at once:
 *
 *     temperature->solver->start(&solver, policy, stats);
 *     while (!solver.done)
 *         temperature->solver->step(&solver, z, s, q);   // the sums below at solver.beta
 *
 * with d = e - max over unmasked entries (the sink included): z = sum exp(beta d), s =
 * sum d exp(beta d), q = sum d d exp(beta d). Afterwards solver.beta is the answer before
 * strength, and solver.flags has WHET_ROW_CAPPED if it is the cap because there is no
 * solution below.
 */
typedef struct beta_solver {
    double goal; /* the target entropy */
    double cap;
    double low, high; /* bracket: entropy at low is above the goal, at high below */
    double beta;      /* where to evaluate next; in the end the answer */
    double start;     /* where Newton begins, once the cap has shown that there is a solution */
    unsigned steps;
    uint32_t flags;
    int done;
} beta_solver;

typedef struct beta_solver_steps {
    void (*start)(beta_solver *solver, const whet_policy *policy, const whet_stats *stats);
    void (*step)(beta_solver *solver, double z, double s, double q);
} beta_solver_steps;

typedef struct temperature_descriptor {
    uint32_t kind;
    unsigned needs;
    const policy_parameter *parameters;
    size_t parameter_count;

    /* beta of each row of a batch, before strength and bounds. NULL where it is searched for. */
    void (*betas)(const whet_policy *policy, const beta_batch *batch, double *beta);

    /*
     * How beta (before strength) moves: adds its derivative by each parameter to *parameters and
     * returns `factor` in d beta / d e_j = -factor w_j (e_j - mean_w). Temperatures that look at
     * the entropy have w = softmax(e), and factor is d beta / d entropy; a searched one has
     * w = softmax(beta e) and gets the variance of e under it. NULL: beta moves with nothing.
     */
    double (*derivative)(const whet_policy *policy, const whet_stats *stats, double beta,
                         double variance, whet_policy_gradient *parameters);

    const beta_solver_steps *solver; /* with NEEDS_SEARCH */
} temperature_descriptor;

/* ---- maps: from beta * e to coefficients ---- */

enum {
    MAP_SUMS_TO_ONE = 1u,    /* so that its result has an entropy */
    MAP_TAKES_SINK = 2u,     /* a sink is one more entry; elsewhere it changes nothing */
    MAP_SEARCHES = 4u,       /* looks at all logits before the first coefficient is known */
    MAP_IS_ORDERED = 8u,     /* the order of entries matters: from the last to the first */
    MAP_ZERO_LOGIT = 16u,    /* one more logit of zero, in the result but not in H */
    MAP_BY_VISIBLE = 32u,    /* a parameter's default is ln n with n the keys left by the mask */
    MAP_EXPONENTIAL = 64u,   /* coefficients are exp(beta e) / sum, perhaps of a part of the row */
    MAP_IS_SOFTMAX = 256u,   /* softmax itself, which has fast forms in rows and attention */
    MAP_MEAN_OVER_SUM = 128u /* D in map_terms is divided by the sum of its weights */
};

/* How prefill makes weights of a panel of rows: an index of a kernel, or by the row form. */
typedef enum panel_form {
    PANEL_BY_ROW,      /* extracts each row, runs the row form and puts it back: the default */
    PANEL_EXP,         /* exponentials of all entries, */
    PANEL_EXP_KTH,     /* of those not below the k-th largest (the map's first parameter), */
    PANEL_EXP_LARGEST, /* of the largest */
    PANEL_SIGMOID,
    PANEL_STICK,
    PANEL_SOFTPICK,
    PANEL_ENTMAX, /* a threshold, then a polynomial: a = 2 and 1.5 */
    PANEL_POWER,  /* a threshold, then logarithm and exponential: other a */
    PANEL_FORMS
} panel_form;

typedef struct map_descriptor {
    uint32_t kind;
    unsigned traits;
    const policy_parameter *parameters;
    size_t parameter_count;

    /* The row form: passes over the row find a few numbers, after which every coefficient follows
     * from its own logit. See map_search; sum and step are NULL where start finds everything. */
    void (*start)(const map_row *row, map_search *search);
    void (*sum)(const map_row *row, const map_search *search, map_sums *sums);
    void (*step)(const map_row *row, map_search *search, const map_sums *sums);
    /* Settles what is quicker to find in a whole row, before the first sums; NULL: nothing. */
    void (*settle)(const map_row *row, map_search *search);
    map_function coefficient;
    map_terms (*terms)(double logit, double p, const map_solution *solution);
    double (*entropy)(const map_solution *solution); /* where it is known; NULL: it is summed */

    /* The row form of ordered maps, in place of the above. */
    void (*forward)(const map_row *row, map_result *result);
    bool (*backward)(const map_row *row, const map_gradient *gradient);

    /* NULL: PANEL_BY_ROW. */
    panel_form (*panel)(const whet_policy *policy);
} map_descriptor;

/* ---- names ---- */

/* A name in the table of policies. An alias is one setting of its descriptor's parameters. */
typedef struct policy_entry {
    const char *name;
    const temperature_descriptor *temperature; /* one of the two, the other NULL */
    const map_descriptor *map;
    whet_policy (*preset)(void); /* with every parameter at its default */
    bool is_alias;
    whet_policy_info info;
} policy_entry;

/* A policy of these kinds with nothing set: no parameters, strength 1, no limits. */
static inline whet_policy whet_policy_of(uint32_t temperature, uint32_t map) {
    whet_policy policy = {.temperature = temperature, .map = map, .strength = 1};
    policy.threshold = -INFINITY;
    policy.floor = -INFINITY;
    policy.hold = INFINITY;
    return policy;
}

#define POLICY_VALUE(i) (offsetof(whet_policy, value) + (i) * sizeof(double))
#define POLICY_MAP_VALUE(i) (offsetof(whet_policy, map_value) + (i) * sizeof(double))
#define GRADIENT_VALUE(i) (offsetof(whet_policy_gradient, value) + (i) * sizeof(double))
#define GRADIENT_MAP_VALUE(i) (offsetof(whet_policy_gradient, map_value) + (i) * sizeof(double))
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
