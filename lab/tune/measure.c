/* Reducing losses, keeping them, and comparing them. */
#include "tune/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool create(size_t count, tune_measure *m) {
    *m = (tune_measure){.count = count};
    bool good = true;
    for (size_t part = 0; part < TUNE_PARTS; part++)
        good = (m->loss[part] = calloc(count + 1, sizeof(double))) != NULL && good;
    m->right = calloc(count + 1, sizeof(double));
    m->exact = calloc(count + 1, sizeof(double));
    return good && m->right && m->exact;
}

void tune_measure_free(tune_measure *m) {
    for (size_t part = 0; part < TUNE_PARTS; part++)
        free(m->loss[part]);
    free(m->right);
    free(m->exact);
    *m = (tune_measure){.count = 0};
}

/* ---- reducing ---- */

static double ratio(double sum, size_t count) { return count > 0 ? sum / (double)count : NAN; }

static void reduce_sequence(const tune_sequence *sequence, const float *loss,
                            const unsigned char *right, double n0, tune_measure *m, size_t index) {
    double sums[TUNE_PARTS] = {0};
    size_t counts[TUNE_PARTS] = {0}, hits = 0;
    for (size_t i = sequence->from; i < sequence->length; i++) {
        /* Token i is predicted by a query that sees i keys. */
        tune_part part = (double)i > n0 ? TUNE_BEYOND : TUNE_WITHIN;
        double value = (double)loss[i - sequence->from];
        sums[part] += value;
        sums[TUNE_ALL] += value;
        counts[part]++;
        counts[TUNE_ALL]++;
        hits += right[i - sequence->from];
    }
    for (size_t part = 0; part < TUNE_PARTS; part++)
        m->loss[part][index] = ratio(sums[part], counts[part]);
    m->right[index] = ratio((double)hits, counts[TUNE_ALL]);
    m->exact[index] = hits == counts[TUNE_ALL];
}

static void reduce_positions(const tune_sequence *sequences, size_t count, const float *loss,
                             tune_measure *m) {
    double sums[TUNE_BINS] = {0};
    size_t counts[TUNE_BINS] = {0}, longest = 1;
    for (size_t i = 0; i < count; i++)
        longest = sequences[i].length > longest ? sequences[i].length : longest;
    for (size_t i = 0; i < count; i++)
        for (size_t at = sequences[i].from; at < sequences[i].length; at++) {
            size_t bin = at * TUNE_BINS / longest;
            sums[bin] += (double)*loss++;
            counts[bin]++;
        }
    for (size_t bin = 0; bin < TUNE_BINS; bin++)
        m->bins[bin] = ratio(sums[bin], counts[bin]);
}

static void reduce(const tune_sequence *sequences, size_t count, const tune_losses *losses,
                   double n0, tune_measure *m) {
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        reduce_sequence(&sequences[i], losses->loss + at, losses->right + at, n0, m, i);
        at += sequences[i].length - sequences[i].from;
    }
    reduce_positions(sequences, count, losses->loss, m);
}

/* ---- the ledger ---- */

static const char *const part_names[TUNE_PARTS] = {"within", "beyond", "all"};

static json_t *to_json(const tune_measure *m) {
    unsigned mark = lab_json_mark();
    json_t *json = json_object();
    for (size_t part = 0; part < TUNE_PARTS; part++)
        json_object_set_new(json, part_names[part], lab_json_numbers(m->loss[part], m->count));
    json_object_set_new(json, "right", lab_json_numbers(m->right, m->count));
    json_object_set_new(json, "exact", lab_json_numbers(m->exact, m->count));
    json_object_set_new(json, "bins", lab_json_numbers(m->bins, TUNE_BINS));
    return lab_json_whole(json, mark);
}

static bool take_numbers(const json_t *json, const char *key, double *values, size_t count) {
    const json_t *list = json_object_get(json, key);
    if (json_array_size(list) != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, i);
        if (!json_is_number(value) && !json_is_null(value))
            return false;
        values[i] = json_is_null(value) ? NAN : json_number_value(value);
    }
    return true;
}

static bool from_json(const json_t *json, tune_measure *m) {
    bool good = true;
    for (size_t part = 0; part < TUNE_PARTS; part++)
        good = good && take_numbers(json, part_names[part], m->loss[part], m->count);
    return good && take_numbers(json, "right", m->right, m->count) &&
           take_numbers(json, "exact", m->exact, m->count) &&
           take_numbers(json, "bins", m->bins, TUNE_BINS);
}

static bool measure(const tune_judge *judge, const tune_arm *arm, const tune_sequence *sequences,
                    size_t count, tune_heard heard, void *listener, tune_measure *m,
                    lab_error *error) {
    size_t judged = tune_judged_count(sequences, count);
    tune_losses losses = {.loss = malloc((judged + 1) * sizeof(float)),
                          .right = malloc(judged + 1)};
    bool good = (losses.loss && losses.right) || lab_fail_memory(error);
    good =
        good && judge->run(judge->context, arm, sequences, count, &losses, heard, listener, error);
    if (good)
        reduce(sequences, count, &losses, arm->setting->n0, m);
    free(losses.loss);
    free(losses.right);
    return good;
}

bool tune_measure_run(const tune_judge *judge, const tune_arm *arm, const tune_sequence *sequences,
                      size_t count, const char *key, tune_ledger *ledger, tune_heard heard,
                      void *listener, tune_measure *m, lab_error *error) {
    if (!create(count, m))
        return lab_fail_memory(error);
    const json_t *known = tune_ledger_get(ledger, key);
    if (known)
        return from_json(known, m) ||
               lab_fail(error, LAB_INPUT, "%s: damaged; remove it", ledger->path);
    return measure(judge, arm, sequences, count, heard, listener, m, error) &&
           tune_ledger_put(ledger, key, to_json(m), error);
}

/* ---- comparing ---- */

static double mean_of(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

double tune_perplexity(const tune_measure *m, tune_part part) {
    return exp(mean_of(m->loss[part], m->count));
}

lab_interval tune_difference(const double *arm, const double *base, size_t count) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = arm[i] - base[i];
        sum += difference;
        squares += difference * difference;
    }
    return lab_mean_interval_of_sums(sum, squares, count);
}

lab_interval tune_change(const tune_measure *arm, const tune_measure *base, tune_part part) {
    lab_interval change = tune_difference(arm->loss[part], base->loss[part], arm->count);
    return (lab_interval){expm1(change.mean), expm1(change.low), expm1(change.high), change.error};
}
