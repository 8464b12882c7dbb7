/*
 * Stick-breaking: from the last entry to the first, each takes the share sigma(e) of the
 * rest of a stick of length one.
 *
 * Backward, Q_i is what the positions before i would get of a stick of length one, Q_(i +
 * 1) = (1 - sigma_i) Q_i + sigma_i g_i; a logit then gets p_i (1 - sigma_i) (g_i - Q_i).
 * Q runs from the first position on, what is left of the stick from the last one: Q is
 * noted at regular intervals on the way up and computed again from there on the way down.
 */
#include "policy/registry.h"

#include <string.h>

whet_policy whet_policy_stick_breaking(void) {
    return whet_policy_of(WHET_POLICY_SOFTMAX, WHET_POLICY_STICK_BREAKING);
}

/* sigma(e) and 1 - sigma(e), neither of them by a subtraction. */
typedef struct stick_parts {
    double taken, left;
} stick_parts;

static stick_parts parts_at(double logit) {
    double small = exp(-fabs(logit)); /* sigma(-|e|) = small sigma(|e|) */
    double large_part = 1 / (1 + small);
    double small_part = small * large_part;
    return logit > 0 ? (stick_parts){large_part, small_part}
                     : (stick_parts){small_part, large_part};
}

/* What is left may become too small for a double, and is rightly zero from then on. */
static double break_stick(const float *logits, size_t count, double beta, double left,
                          float *results, double *largest) {
    for (size_t i = count; i-- > 0;) {
        stick_parts parts = parts_at(beta * (double)logits[i]);
        double part = left * parts.taken;
        left *= parts.left;
        *largest = part > *largest ? part : *largest;
        results[i] = (float)part;
    }
    return left;
}

static void forward(const map_row *row, map_result *result) {
    _Alignas(64) float buffer[ROW_BLOCK];
    float results[ROW_BLOCK];
    double left = result->rest;
    for (size_t end = row->row->n; end > 0;) {
        size_t count = end < ROW_BLOCK ? end : ROW_BLOCK;
        end -= count;
        const float *logits = whet_row_load(row->row, end, count, buffer);
        left = break_stick(logits, count, row->beta, left, results, &result->largest);
        if (end == 0)
            result->first = (double)results[0];
        if (row->row->out)
            whet_row_store(row->row, end, count, results);
    }
    result->rest = left;
}

/* ---- gradient ---- */

/* Positions in a block, so that Q of each fits the stack; and how many blocks have theirs noted. */
#define STICK_BLOCK (ROW_BLOCK / 2)
#define STICK_NOTES 512

typedef struct stick {
    const row_view *row, *grad;
    const map_gradient *want;
    double beta;
    double beta_grad;
    size_t span;                /* blocks from one note to the next */
    double notes[STICK_NOTES];  /* Q at the beginning of a span */
    double before[STICK_BLOCK]; /* Q at each position of a block */
    float logits[STICK_BLOCK], gradient[STICK_BLOCK];
} stick;

static size_t stick_count(const stick *s, size_t block) {
    size_t left = s->row->n - block * STICK_BLOCK;
    return left < STICK_BLOCK ? left : STICK_BLOCK;
}

/* What arrives at a block: nothing, where only statistics have gradients. */
static const float *arriving_at(stick *s, size_t start, size_t count) {
    if (s->grad)
        return whet_row_load(s->grad, start, count, s->gradient);
    memset(s->gradient, 0, count * sizeof s->gradient[0]);
    return s->gradient;
}

static double arrives(const stick *s, float g) { return (double)g + s->want->common; }

/* Q after a block, from Q before it; and Q before each of its positions. */
static double climb(stick *s, size_t block, double q) {
    size_t start = block * STICK_BLOCK, count = stick_count(s, block);
    const float *x = whet_row_load(s->row, start, count, s->logits);
    const float *g = arriving_at(s, start, count);
    for (size_t i = 0; i < count; i++) {
        s->before[i] = q;
        if (x[i] != -INFINITY) {
            stick_parts parts = parts_at(s->beta * (double)x[i]);
            q = parts.left * q + parts.taken * arrives(s, g[i]);
        }
    }
    return q;
}

/* One entry: stores its gradient, or adds to that of beta. */
static double descend_one(stick *s, size_t at, float logit, double u, double p) {
    if (!s->want->stores) {
        s->beta_grad += u * (double)logit;
        return 0;
    }
    if (s->want->weights)
        s->want->weights[at] = (float)p; /* only blocks before this one are loaded again */
    double own = s->beta * u;
    return s->want->movement->is_zero ? own
                                      : own + row_movement_at(s->want->movement, (double)logit);
}

/* The gradient of a block, from its end to its beginning. */
static double descend(stick *s, size_t block, double left) {
    size_t start = block * STICK_BLOCK, count = stick_count(s, block);
    const float *x = whet_row_load(s->row, start, count, s->logits);
    const float *g = arriving_at(s, start, count);
    for (size_t i = count; i-- > 0;) {
        float result = 0;
        if (x[i] != -INFINITY) {
            stick_parts parts = parts_at(s->beta * (double)x[i]);
            double p = left * parts.taken;
            double u = p * parts.left * (arrives(s, g[i]) - s->before[i]);
            result = (float)descend_one(s, start + i, x[i], u, p);
            left *= parts.left;
        } else if (s->want->stores && s->want->weights) {
            s->want->weights[start + i] = 0;
        }
        s->gradient[i] = result; /* g[i], if it is there, is not needed any more */
    }
    if (s->want->stores)
        whet_row_store(s->row, start, count, s->gradient);
    return left;
}

/* Whether all that arrives unmasked is finite: later positions may forget what came before. */
static bool arrives_finite(stick *s, size_t blocks) {
    double sum = 0;
    for (size_t b = 0; b < blocks; b++) {
        size_t start = b * STICK_BLOCK, count = stick_count(s, b);
        const float *x = whet_row_load(s->row, start, count, s->logits);
        const float *g = arriving_at(s, start, count);
        for (size_t i = 0; i < count; i++)
            sum += x[i] == -INFINITY ? 0 : 0 * (double)g[i];
    }
    return !isnan(sum);
}

static bool backward(const map_row *row, const map_gradient *gradient) {
    stick s = {.row = row->row, .grad = gradient->grad, .want = gradient, .beta = row->beta};
    size_t n = row->row->n;
    size_t blocks = n / STICK_BLOCK + (n % STICK_BLOCK != 0);
    if (!gradient->stores) {
        bool finite = arrives_finite(&s, blocks);
        if (!finite || !(gradient->beta_grad || gradient->passed))
            return finite;
    }
    s.span = blocks / STICK_NOTES + 1;
    double q = gradient->ends.before;
    for (size_t b = 0; b < blocks; b++) {
        if (b % s.span == 0)
            s.notes[b / s.span] = q;
        q = climb(&s, b, q);
    }
    double left = gradient->ends.rest, last = q;
    for (size_t b = blocks; b-- > 0;) {
        q = s.notes[b / s.span];
        for (size_t before = b - b % s.span; before <= b; before++)
            q = climb(&s, before, q);
        left = descend(&s, b, left);
    }
    if (!gradient->stores && gradient->beta_grad)
        *gradient->beta_grad = s.beta_grad;
    if (!gradient->stores && gradient->passed)
        *gradient->passed = (ordered_ends){last, left};
    return true;
}

static panel_form stick_panel(const whet_policy *policy) {
    (void)policy;
    return PANEL_STICK;
}

const map_descriptor whet_map_stick_breaking = {.kind = WHET_POLICY_STICK_BREAKING,
                                                .traits = MAP_IS_ORDERED,
                                                .forward = forward,
                                                .backward = backward,
                                                .panel = stick_panel};

const policy_entry whet_entry_stick_breaking = {
    .name = "stick-breaking",
    .map = &whet_map_stick_breaking,
    .preset = whet_policy_stick_breaking,
    .info = {"stick-breaking", "sigma(e_i) times 1 - sigma(e_j) of every later j", "stick-breaking",
             0}};
