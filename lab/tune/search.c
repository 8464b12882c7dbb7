/* The two stages of a search; see search.h. Losses are found by search_losses.c. */
#include "tune/search_parts.h"

#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_OF_ALL = 3, ROUNDS_MAX = 64, SEQUENCES_MIN = 4 };

/* One-sided p of "worse" at which a proposal is dropped. */
static const double hopeless = 0.1;

/* How much narrower the range of a number for all heads is from the second round on. */
static const double narrower = 0.25;

tune_search_options tune_search_defaults(void) {
    return (tune_search_options){.bound = 0.7,
                                 .precision = 0.005,
                                 .has_hinge = true,
                                 .has_layers = true,
                                 .step = 0.1,
                                 .least_step = 0.025,
                                 .alpha = 0.05,
                                 .batch = 8,
                                 .seed = 1};
}

/* ---- points ---- */

/* To the multiples that keys of the state can tell apart. */
static double rounded(double x) {
    double whole = round(x * 1e4);
    return whole == 0 ? 0 : whole / 1e4; /* no negative zero */
}

static bool make_point(const search *s, search_point *point) {
    *point = (search_point){.a = calloc(s->setting->layers, sizeof *point->a)};
    return point->a || lab_fail_memory(s->error);
}

static void copy_point(const search *s, const search_point *from, search_point *to) {
    memcpy(to->a, from->a, s->setting->layers * sizeof *to->a);
    to->h = from->h;
}

typedef struct range {
    double low, high;
} range;

/* Where ln beta = a + h ln(n / n0) stays within the bound for all n up to the longest sequence. */
static range range_of_a(const search *s, double h) {
    double bound = s->options->bound, beyond = h * s->stretch;
    return (range){fmax(-bound, -bound - beyond), fmin(bound, bound - beyond)};
}

static range range_of_h(const search *s, double a) {
    double bound = s->options->bound;
    return (range){fmax(-1, (-bound - a) / s->stretch), fmin(1, (bound - a) / s->stretch)};
}

/* ---- comparisons ---- */

/* Paired differences of losses, over the sequences that both know; returns their number. */
static size_t find_differences(const search *s, const search_record *from,
                               const search_record *to) {
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++) {
        double difference = to->losses[i] - from->losses[i];
        if (!isnan(difference))
            s->differences[count++] = difference;
    }
    return count;
}

/* Paired differences over the first n sequences in the search's order, as an interval. */
static lab_interval compare(const search *s, const search_record *from, const search_record *to,
                            size_t n) {
    for (size_t i = 0; i < n; i++)
        s->differences[i] = to->losses[s->order[i]] - from->losses[s->order[i]];
    return lab_mean_interval(s->differences, n);
}

/* ---- one number for all heads ---- */

/* The number along which a section goes. */
typedef enum coordinate { ALONG_A, ALONG_H } coordinate;

static void set_number(const search *s, search_point *point, coordinate along, double x) {
    if (along == ALONG_H)
        point->h = x;
    for (size_t i = 0; along == ALONG_A && i < s->setting->layers; i++)
        point->a[i] = x;
}

static search_status mean_at(search *s, search_point *point, coordinate along, double x,
                             double *mean) {
    const search_record *record;
    set_number(s, point, along, x);
    search_status status = search_losses(s, point, s->count, &record);
    double sum = 0;
    for (size_t i = 0; status == SEARCH_GOOD && i < s->count; i++)
        sum += record->losses[s->order[i]];
    *mean = sum / (double)s->count;
    return status;
}

/* A number and the mean loss there. */
typedef struct sample {
    double x, mean;
} sample;

/* Three of them in order, of which the middle one is the best so far. At an end of the range, two
 * may be the same. */
typedef struct bracket {
    sample low, middle, high;
} bracket;

static search_status take_sample(search *s, search_point *point, coordinate along, double x,
                                 sample *taken) {
    taken->x = x;
    return mean_at(s, point, along, x, &taken->mean);
}

/* Steps from the middle away from `behind`, ever farther, until the loss rises or the range ends.
 */
static search_status walk(search *s, search_point *point, coordinate along, range within,
                          double step, sample behind, sample *middle, bracket *found) {
    const double growth = 1.618;
    sample next = *middle;
    search_status status = SEARCH_GOOD;
    while (status == SEARCH_GOOD) {
        double x = rounded(fmin(within.high, fmax(within.low, middle->x + step)));
        next = *middle;
        if (x == middle->x) /* at the end */
            break;
        status = take_sample(s, point, along, x, &next);
        if (status != SEARCH_GOOD || next.mean >= middle->mean)
            break;
        behind = *middle;
        *middle = next;
        step *= growth;
    }
    *found = step > 0 ? (bracket){behind, *middle, next} : (bracket){next, *middle, behind};
    return status;
}

/* The lowest point of the parabola through a bracket; that of its middle where there is none. */
static double vertex(const bracket *b) {
    double left = b->middle.x - b->low.x, right = b->high.x - b->middle.x;
    double fall = b->low.mean - b->middle.mean, rise = b->high.mean - b->middle.mean;
    double curve = fall * right + rise * left;
    if (!(left > 0 && right > 0 && curve > 0))
        return b->middle.x;
    return b->middle.x + 0.5 * (fall * right * right - rise * left * left) / curve;
}

static void narrow_bracket(bracket *b, sample tried) {
    bool is_above = tried.x > b->middle.x, is_better = tried.mean < b->middle.mean;
    if (is_better) {
        *(is_above ? &b->low : &b->high) = b->middle;
        b->middle = tried;
    } else {
        *(is_above ? &b->high : &b->low) = tried;
    }
}

/* The next number to try: where a parabola is lowest, or, as that converges from one side only, a
 * golden section of the larger part. The middle itself where nothing is left to try. */
static double next_number(const bracket *b, bool by_parabola, double precision) {
    const double golden = 0.382;
    double left = b->middle.x - b->low.x, right = b->high.x - b->middle.x;
    double x = vertex(b);
    if (left == 0 || right == 0) /* at an end of the range: does the loss fall up to there? */
        x = b->middle.x + (left == 0 ? 2 : -2) * precision;
    else if (by_parabola && fabs(x - b->middle.x) <= precision)
        return b->middle.x;
    else if (!by_parabola)
        x = left > right ? b->middle.x - golden * left : b->middle.x + golden * right;
    x = rounded(x);
    return x > b->low.x && x < b->high.x ? x : b->middle.x;
}

/* Beginning at `from`, whose losses are known: *best is the best number that was tried. */
static search_status section(search *s, search_point *point, coordinate along, range within,
                             double from, double *best) {
    enum { TRIES = 40 };
    double step = (within.high - within.low) / 10, precision = s->options->precision;
    bracket b;
    sample middle, next;
    *best = from;
    search_status status = take_sample(s, point, along, from, &middle);
    if (status == SEARCH_GOOD) {
        double x = rounded(from + step <= within.high ? from + step : from - step);
        step = x - from;
        status = take_sample(s, point, along, x, &next);
    }
    if (status != SEARCH_GOOD)
        return status;
    if (next.mean < middle.mean) {
        sample start = middle;
        middle = next;
        status = walk(s, point, along, within, 1.618 * step, start, &middle, &b);
    } else {
        status = walk(s, point, along, within, -step, next, &middle, &b);
    }
    *best = middle.x;
    for (size_t i = 0; status == SEARCH_GOOD && i < TRIES; i++) {
        bool is_at_end = b.low.x == b.middle.x || b.middle.x == b.high.x;
        double x = next_number(&b, i % 3 != 2, precision);
        if (x == b.middle.x || b.high.x - b.low.x <= precision)
            break;
        status = take_sample(s, point, along, x, &next);
        if (status != SEARCH_GOOD || (is_at_end && next.mean >= b.middle.mean))
            break;
        narrow_bracket(&b, next);
        *best = b.middle.x;
    }
    return status;
}

static range narrow(range whole, double middle, double share) {
    double half = share * (whole.high - whole.low) / 2;
    return (range){fmax(whole.low, middle - half), fmin(whole.high, middle + half)};
}

/* Looks for a better number along one coordinate, and takes it if it is significantly better. */
static search_status improve(search *s, coordinate along, double share, search_point *present,
                             bool *has_changed) {
    const search_record *from, *to;
    search_point trial = {.a = NULL};
    double here = along == ALONG_A ? present->a[0] : present->h, best = here;
    range whole = along == ALONG_A ? range_of_a(s, present->h) : range_of_h(s, present->a[0]);
    *has_changed = false;
    s->news.stage = along == ALONG_A ? "a" : "h";
    search_status status = search_losses(s, present, s->count, &from);
    if (status != SEARCH_GOOD)
        return status;
    if (!make_point(s, &trial))
        return SEARCH_FAILED;
    copy_point(s, present, &trial);
    status = section(s, &trial, along, share < 1 ? narrow(whole, here, share) : whole, here, &best);
    set_number(s, &trial, along, best);
    /* Its losses are known, unless the budget ran out before there were any. */
    if (status != SEARCH_FAILED && search_losses(s, &trial, s->count, &to) == SEARCH_GOOD &&
        compare(s, from, to, s->count).high < 0) {
        copy_point(s, &trial, present);
        *has_changed = true;
    }
    free(trial.a);
    return status;
}

static search_status tune_all(search *s, search_point *present) {
    bool has_hinge = s->options->has_hinge && s->stretch > 0;
    search_status status = SEARCH_GOOD;
    for (int round = 0; status == SEARCH_GOOD && round < ROUNDS_OF_ALL; round++) {
        bool a_changed = false, h_changed = false;
        double share = round == 0 ? 1 : narrower;
        status = improve(s, ALONG_A, share, present, &a_changed);
        if (status == SEARCH_GOOD && has_hinge)
            status = improve(s, ALONG_H, share, present, &h_changed);
        s->news.a = present->a[0];
        s->news.h = present->h;
        if (!has_hinge || (!a_changed && !h_changed))
            break;
    }
    return status;
}

/* ---- one number for each layer ---- */

/* The sequential test of search.h at a level. */
static search_status test(search *s, const search_point *present, const search_point *proposal,
                          double level, bool *is_better) {
    size_t before = 0;
    double all = (double)s->count * (double)s->count;
    *is_better = false;
    while (before < s->count) {
        const search_record *from, *to;
        size_t n = s->count - before < s->options->batch ? s->count : before + s->options->batch;
        search_status status = search_losses(s, present, n, &from);
        if (status == SEARCH_GOOD)
            status = search_losses(s, proposal, n, &to);
        if (status != SEARCH_GOOD)
            return status;
        if (n < SEQUENCES_MIN && n < s->count) {
            before = n;
            continue;
        }
        lab_interval d = compare(s, from, to, n);
        double t = d.error > 0 ? d.mean / d.error : d.mean == 0 ? 0 : copysign(INFINITY, d.mean);
        double share = ((double)n * (double)n - (double)before * (double)before) / all;
        if (n < 2 || lab_student_tail(t, n - 1) < hopeless)
            return SEARCH_GOOD;
        *is_better = lab_student_tail(-t, n - 1) < level * share;
        if (*is_better)
            return SEARCH_GOOD;
        before = n;
    }
    return SEARCH_GOOD;
}

/* The layers of a model as a search sees them. */
typedef struct layer_search {
    search_point *present, *proposal;
    size_t *layers;  /* in the order of the round */
    int *directions; /* [layers]: that of the last step, or 0 */
    double step, level;
} layer_search;

/* Proposes a step of one layer in one direction. */
static search_status propose(search *s, layer_search *l, size_t layer, int direction,
                             bool *is_better) {
    range allowed = range_of_a(s, l->present->h);
    double a = fmin(allowed.high, fmax(allowed.low, l->present->a[layer] + direction * l->step));
    *is_better = false;
    copy_point(s, l->present, l->proposal);
    l->proposal->a[layer] = rounded(a);
    /* Next to the bound, too little is left of a step. */
    if (fabs(l->proposal->a[layer] - l->present->a[layer]) < s->options->least_step / 2)
        return SEARCH_GOOD;
    s->news.proposals++;
    search_status status = test(s, l->present, l->proposal, l->level, is_better);
    if (*is_better) {
        copy_point(s, l->proposal, l->present);
        l->directions[layer] = direction;
        s->news.accepted++;
    }
    return status;
}

static void shuffle(size_t *items, size_t count, uint64_t seed) {
    lab_random random = lab_random_start(seed);
    for (size_t i = 0; i < count; i++)
        items[i] = i;
    for (size_t i = count; i > 1; i--) {
        size_t j = lab_random_below(&random, (uint32_t)i), kept = items[j];
        items[j] = items[i - 1];
        items[i - 1] = kept;
    }
}

/* All layers once, each first in the direction of its last step. */
static search_status run_round(search *s, layer_search *l, bool *has_changed) {
    uint64_t seed = s->options->seed;
    search_status status = SEARCH_GOOD;
    lab_random random = lab_random_start(lab_seed_for(seed, "tune directions", s->news.round));
    *has_changed = false;
    shuffle(l->layers, s->setting->layers, lab_seed_for(seed, "tune layers", s->news.round));
    for (size_t i = 0; status == SEARCH_GOOD && i < s->setting->layers; i++) {
        size_t layer = l->layers[i];
        int drawn = lab_random_below(&random, 2) ? 1 : -1;
        if (!search_tunes_layer(s, layer))
            continue;
        int first = l->directions[layer] ? l->directions[layer] : drawn;
        bool is_better;
        s->news.layer = layer;
        status = propose(s, l, layer, first, &is_better);
        if (status == SEARCH_GOOD && !is_better)
            status = propose(s, l, layer, -first, &is_better);
        *has_changed = *has_changed || is_better;
    }
    s->news.round++;
    return status;
}

/* Step sizes that a search goes through where nothing is accepted. */
static size_t count_steps(const tune_search_options *o) {
    size_t count = 0;
    double step = o->step;
    while (step >= o->least_step) {
        step /= 2;
        count++;
    }
    return count;
}

static size_t count_layers(const search *s) {
    size_t count = 0;
    for (size_t layer = 0; layer < s->setting->layers; layer++)
        count += search_tunes_layer(s, layer);
    return count;
}

static search_status run_rounds(search *s, layer_search *l) {
    const tune_search_options *o = s->options;
    double tests = 2 * (double)count_layers(s) * (double)count_steps(o);
    search_status status = SEARCH_GOOD;
    bool has_changed;
    l->level = o->alpha / tests;
    l->step = o->step;
    while (status == SEARCH_GOOD && l->step >= o->least_step && s->news.round < ROUNDS_MAX) {
        status = run_round(s, l, &has_changed);
        if (!has_changed)
            l->step /= 2;
    }
    return status;
}

static search_status tune_layers(search *s, search_point *present) {
    search_point proposal = {.a = NULL};
    layer_search l = {.present = present,
                      .proposal = &proposal,
                      .layers = calloc(s->setting->layers, sizeof *l.layers),
                      .directions = calloc(s->setting->layers, sizeof *l.directions)};
    search_status status = SEARCH_FAILED;
    s->news.stage = "layers";
    if (!l.layers || !l.directions)
        lab_fail_memory(s->error);
    else if (make_point(s, &proposal))
        status = run_rounds(s, &l);
    free(proposal.a);
    free(l.layers);
    free(l.directions);
    return status;
}

/* ---- the whole ---- */

static bool are_in_range(const tune_search_options *o) {
    return o->bound > 0 && o->bound <= 4 && o->precision >= 0.001 && o->precision < o->bound &&
           o->least_step >= 0.001 && o->step >= o->least_step && o->step <= o->bound &&
           o->alpha > 0 && o->alpha < 1 && o->batch >= 1;
}

static bool check_options(const search *s) {
    if (!are_in_range(s->options)) {
        lab_fail(s->error, LAB_INPUT, "options of the search are out of range");
        return false;
    }
    if (count_layers(s) == 0)
        return lab_fail(s->error, LAB_INPUT, "no head is to be tuned");
    if (s->count < SEQUENCES_MIN || s->count > UINT32_MAX) {
        lab_fail(s->error, LAB_INPUT, "a search needs at least %d sequences, not %zu",
                 SEQUENCES_MIN, s->count);
        return false;
    }
    for (size_t i = 0; i < s->count; i++)
        if (s->sequences[i].from < 1 || s->sequences[i].from >= s->sequences[i].length)
            return lab_fail(s->error, LAB_INPUT, "sequence %zu has no tokens to judge", i);
    return true;
}

static void find_stretch(search *s) {
    size_t longest = 0;
    for (size_t i = 0; i < s->count; i++)
        longest = s->sequences[i].length > longest ? s->sequences[i].length : longest;
    s->stretch = fmax(0, log((double)longest / s->setting->n0));
}

static bool make_memory(search *s) {
    size_t batch = s->options->batch < s->count ? s->options->batch : s->count;
    if (batch == 0) /* which check_options has refused */
        return lab_fail(s->error, LAB_INPUT, "no sequences");
    s->order = calloc(s->count, sizeof *s->order);
    s->batch = calloc(batch, sizeof *s->batch);
    s->batch_at = calloc(batch, sizeof *s->batch_at);
    s->differences = calloc(s->count, sizeof *s->differences);
    if (!s->order || !s->batch || !s->batch_at || !s->differences)
        return lab_fail_memory(s->error);
    shuffle(s->order, s->count, lab_seed_for(s->options->seed, "tune sequences", 0));
    return true;
}

static void free_memory(search *s) {
    free(s->order);
    free(s->batch);
    free(s->batch_at);
    free(s->differences);
    search_free_records(s);
}

/* Compares a point with beta = 1 on what is known. */
static bool find_gain(search *s, const search_point *point, lab_interval *gain, size_t *count) {
    const search_record *neutral, *record;
    search_point zero;
    if (!make_point(s, &zero))
        return false;
    bool is_found = search_losses(s, &zero, 0, &neutral) == SEARCH_GOOD &&
                    search_losses(s, point, 0, &record) == SEARCH_GOOD;
    if (is_found) {
        *count = find_differences(s, neutral, record);
        *gain = *count > 0 ? lab_mean_interval(s->differences, *count)
                           : (lab_interval){0, -INFINITY, INFINITY, INFINITY};
    }
    free(zero.a);
    return is_found;
}

static bool run(search *s, search_point *point, tune_search_result *r) {
    search_status status = tune_all(s, point);
    r->a = point->a[0];
    r->h = point->h;
    if (status == SEARCH_FAILED || !find_gain(s, point, &r->gain_of_all, &r->sequences_of_all))
        return false;
    if (status == SEARCH_GOOD && s->options->has_layers)
        status = tune_layers(s, point);
    r->rounds = s->news.round;
    r->proposals = s->news.proposals;
    r->accepted = s->news.accepted;
    r->passes = s->news.passes;
    r->has_run_out = s->has_run_out;
    return status != SEARCH_FAILED && find_gain(s, point, &r->gain, &r->sequences);
}

bool tune_search(const tune_judge *judge, const tune_sequence *sequences, size_t count,
                 const tune_search_options *options, const tune_search_listener *listener,
                 json_t *state, tune_setting *setting, tune_search_result *result,
                 lab_error *error) {
    static const tune_search_listener nobody = {.context = NULL};
    search s = {.judge = judge,
                .sequences = sequences,
                .count = count,
                .options = options,
                .listener = listener ? listener : &nobody,
                .state = state,
                .setting = setting,
                .error = error};
    search_point point = {.a = NULL};
    *result = (tune_search_result){.a = 0};
    tune_setting_fill(setting, 0, 0);
    find_stretch(&s);
    bool is_good = check_options(&s) && make_memory(&s) && search_begin_state(&s) &&
                   make_point(&s, &point) && run(&s, &point, result);
    if (is_good)
        search_set_point(&s, &point);
    else
        tune_setting_fill(setting, 0, 0);
    free(point.a);
    free_memory(&s);
    return is_good;
}
