/* Arms summed up over their repetitions; see arms.h. */
#include "tune/arms.h"

#include <math.h>
#include <string.h>

size_t tune_arms(const tune_result *r, const char *names[TUNE_ARMS_MAX]) {
    size_t count = 0;
    for (size_t i = 0; i < r->row_count && count < TUNE_ARMS_MAX; i++)
        if (tune_find(r, r->rows[i].name) == &r->rows[i])
            names[count++] = r->rows[i].name;
    return count;
}

size_t tune_repetitions(const tune_result *r, const char *name) {
    size_t count = 0;
    for (size_t i = 0; i < r->row_count; i++)
        count += strcmp(r->rows[i].name, name) == 0;
    return count;
}

void tune_arm_bins(const tune_result *r, const char *name, size_t domain, double bins[TUNE_BINS]) {
    double weight = 0;
    memset(bins, 0, TUNE_BINS * sizeof *bins);
    for (size_t i = 0; i < r->row_count; i++)
        for (size_t d = 0; strcmp(r->rows[i].name, name) == 0 && d < r->check.count; d++) {
            if (domain != SIZE_MAX && domain != d)
                continue;
            double own = (double)r->check_counts[d];
            weight += own;
            for (size_t bin = 0; bin < TUNE_BINS; bin++)
                bins[bin] += own * r->rows[i].check[d].bins[bin];
        }
    for (size_t bin = 0; bin < TUNE_BINS; bin++)
        bins[bin] /= weight;
}

double *tune_exact(const tune_measure *m) { return m->exact; }
double *tune_right(const tune_measure *m) { return m->right; }
double *tune_answer_loss(const tune_measure *m) { return m->loss[TUNE_ALL]; }

double tune_task_mean(const tune_result *r, const char *name,
                      double *(*quantity)(const tune_measure *)) {
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < r->row_count; i++)
        for (size_t j = 0; strcmp(r->rows[i].name, name) == 0 && j < r->task_count; j++, count++)
            sum += quantity(&r->rows[i].task)[j];
    return sum / (double)count;
}

lab_interval tune_chosen_against(const tune_result *r, const char *name) {
    return r->task_count > 0 ? tune_task_change(r, "chosen", name, tune_answer_loss)
                             : tune_change_between(r, "chosen", name, SIZE_MAX, r->part);
}

const char *tune_better_control(const tune_result *r) {
    static const char *const names[] = {"one number at equal cost", "one number"};
    for (size_t i = 0; r->is_confirmed && i < sizeof names / sizeof *names; i++)
        if (tune_find(r, names[i]) && tune_chosen_against(r, names[i]).low > 0)
            return names[i];
    return NULL;
}

static bool is_window(const char *name) { return strncmp(name, "window", 6) == 0; }

bool tune_arm_is_other(const char *name) {
    return strchr(name, ':') || is_window(name) || strcmp(name, "as trained") == 0;
}

const char *tune_better_arm(const tune_result *r) {
    const char *found = r->is_confirmed ? "chosen" : "softmax", *best = found;
    const char *names[TUNE_ARMS_MAX];
    size_t count = r->part == TUNE_BEYOND ? tune_arms(r, names) : 0;
    for (size_t i = 0; i < count; i++)
        if ((strchr(names[i], ':') || is_window(names[i])) &&
            tune_change_between(r, names[i], best, SIZE_MAX, TUNE_BEYOND).high < 0)
            best = names[i];
    return best == found ? NULL : best;
}
