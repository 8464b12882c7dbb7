/*
 * The search for each set's best beta goes over a grid, then over a finer one
 * around the best: all betas of a grid are rows of one matrix product. Curves
 * are fitted in Bernstein's basis on [0, entropy_max], where polynomials up to
 * degree 8 are well conditioned and a curve that never falls has coefficients
 * that never fall: least squares with non-negative increments.
 */
#include "retrieval/fit.h"

#include "base/progress.h"
#include "base/signals.h"
#include "retrieval/chunked.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { GRID = 32, TERMS = WHET_POLY_DEGREE_MAX + 1, SWEEPS = 20000 };

static const double tolerance = 1e-3;

typedef struct fit_run {
    const nn_engine *engine;
    const retrieval_fit_request *request;
    retrieval_fit *fit;
    pthread_mutex_t lock;
    lab_progress progress;
    uint64_t done;
    lab_error *error;
} fit_run;

/* Cross-entropies at GRID betas, evenly spaced in their logarithm from low to high. False after a
 * signal. */
static bool try_grid(retrieval_chunked *chunked, const retrieval_set *set, size_t classes,
                     double low, double high, double *betas, double *losses, float *logits) {
    float *weights = retrieval_chunked_weights(chunked), losses_as_float[GRID];
    uint16_t labels[GRID];
    for (size_t i = 0; i < GRID && !lab_interrupted(); i++) {
        betas[i] = low * pow(high / low, (double)i / (GRID - 1));
        whet_policy policy = whet_policy_fixed(betas[i]);
        whet_rows row = {.size = sizeof row,
                         .rows = 1,
                         .n = set->n,
                         .in = set->logits,
                         .out = weights + i * set->n};
        whet_softmax(&row, &policy, NULL);
        labels[i] = set->label;
    }
    if (!lab_interrupted())
        retrieval_chunked_answer(chunked, GRID, logits);
    if (lab_interrupted())
        return false;
    nn_cross_entropy(logits, labels, GRID, classes, 1, losses_as_float, NULL);
    for (size_t i = 0; i < GRID; i++)
        losses[i] = losses_as_float[i];
    return true;
}

/* The smallest beta of a grid that is as good as its best. */
static size_t smallest_good(const double *losses) {
    double best = losses[0];
    for (size_t i = 1; i < GRID; i++)
        best = fmin(best, losses[i]);
    size_t i = 0;
    while (losses[i] > best + tolerance)
        i++;
    return i;
}

static void find_beta(retrieval_chunked *chunked, const retrieval_set *set, size_t classes,
                      double cap, float *logits, retrieval_fit_point *point) {
    double betas[GRID], losses[GRID];
    if (!try_grid(chunked, set, classes, 1 / cap, cap, betas, losses, logits))
        return;
    size_t good = smallest_good(losses);
    point->is_used = good > 0;
    double low = betas[good > 0 ? good - 1 : 0], high = betas[good];
    if (good > 0) {
        if (!try_grid(chunked, set, classes, low, high, betas, losses, logits))
            return;
        good = smallest_good(losses);
    }
    point->beta = betas[good];
    whet_stats stats;
    whet_rows row = {
        .size = sizeof row, .rows = 1, .n = set->n, .in = set->logits, .stats = &stats};
    whet_entropy(&row, NULL, NULL);
    point->entropy = stats.entropy;
    point->n = set->n;
}

static bool fit_one(fit_run *run, size_t head, size_t size, lab_error *error) {
    const retrieval_fit_request *request = run->request;
    retrieval_model model = retrieval_head_model(&request->heads->list[head], run->engine);
    size_t classes = model.layout.classes;
    retrieval_chunked *chunked =
        retrieval_chunked_create(&model, NULL, request->sizes[size], GRID, error);
    float *logits = malloc(GRID * classes * sizeof *logits);
    bool is_good = chunked && logits;
    retrieval_fit_point *points =
        run->fit->points + (head * request->size_count + size) * request->sets;
    for (size_t s = 0; is_good && s < request->sets && !lab_interrupted(); s++) {
        retrieval_set set;
        retrieval_chunked_open(chunked, request->seed, request->sizes[size], s, &set);
        find_beta(chunked, &set, classes, request->cap, logits, &points[s]);
    }
    free(logits);
    retrieval_chunked_destroy(chunked);
    return is_good || lab_fail_memory(error);
}

static void fit_task(void *argument, size_t task, size_t worker) {
    (void)worker;
    fit_run *run = argument;
    size_t sizes = run->request->size_count, size = sizes - 1 - task % sizes;
    lab_error error = {.kind = LAB_NO_ERROR};
    bool is_done = lab_interrupted() || fit_one(run, task / sizes, size, &error);
    pthread_mutex_lock(&run->lock);
    if (!is_done)
        lab_fail(run->error, error.kind, "%s", error.text);
    run->done += run->request->sizes[size];
    lab_progress_show(&run->progress, run->done, "sets of %zu items", run->request->sizes[size]);
    pthread_mutex_unlock(&run->lock);
}

static double choose(unsigned n, unsigned k) {
    double result = 1;
    for (unsigned i = 0; i < k; i++)
        result = result * (n - i) / (i + 1);
    return result;
}

/* Bernstein's polynomials at x in 0 ... 1; or, where `steps`, their sums from each term on, of
 * which the first is 1 and the others never fall. */
static void basis_at(double x, unsigned degree, bool steps, double *basis) {
    for (unsigned j = 0; j <= degree; j++)
        basis[j] = choose(degree, j) * pow(x, j) * pow(1 - x, degree - j);
    for (unsigned j = degree; steps && j-- > 0;)
        basis[j] += basis[j + 1];
}

/* Least squares from the normal equations with all but the first coordinate at or above zero, one
 * coordinate at a time: small and convex, so it converges. */
static void solve_bounded(double (*matrix)[TERMS], const double *right, unsigned degree,
                          double *solution) {
    memset(solution, 0, TERMS * sizeof *solution);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double moved = 0;
        for (unsigned j = 0; j <= degree; j++) {
            double rest = right[j];
            for (unsigned k = 0; k <= degree; k++)
                rest -= matrix[j][k] * solution[k];
            double next = solution[j] + (matrix[j][j] > 0 ? rest / matrix[j][j] : 0);
            if (j > 0)
                next = fmax(next, 0);
            moved = fmax(moved, fabs(next - solution[j]));
            solution[j] = next;
        }
        if (moved < 1e-13)
            break;
    }
}

/* Without bounds: Gaussian elimination with pivoting. */
static void solve_exactly(double (*matrix)[TERMS], const double *right, unsigned degree,
                          double *solution) {
    double a[TERMS][TERMS + 1];
    unsigned size = degree + 1;
    for (unsigned i = 0; i < size; i++) {
        memcpy(a[i], matrix[i], size * sizeof(double));
        a[i][size] = right[i];
    }
    for (unsigned column = 0; column < size; column++) {
        unsigned pivot = column;
        for (unsigned i = column + 1; i < size; i++)
            if (fabs(a[i][column]) > fabs(a[pivot][column]))
                pivot = i;
        for (unsigned k = 0; k <= size; k++) {
            double spare = a[column][k];
            a[column][k] = a[pivot][k];
            a[pivot][k] = spare;
        }
        for (unsigned i = 0; i < size; i++) {
            double factor =
                i == column || a[column][column] == 0 ? 0 : a[i][column] / a[column][column];
            for (unsigned k = column; k <= size; k++)
                a[i][k] -= factor * a[column][k];
        }
    }
    for (unsigned i = 0; i < size; i++)
        solution[i] = a[i][i] != 0 ? a[i][size] / a[i][i] : 0;
}

/* From Bernstein coefficients over [0, end] to powers of H, the highest first. */
static void to_powers(const double *bernstein, unsigned degree, double end, double *powers) {
    memset(powers, 0, TERMS * sizeof *powers);
    for (unsigned j = 0; j <= degree; j++)
        for (unsigned k = j; k <= degree; k++) {
            double sign = (k - j) % 2 ? -1 : 1;
            powers[degree - k] +=
                bernstein[j] * choose(degree, j) * choose(degree - j, k - j) * sign / pow(end, k);
        }
}

static void fit_curve(const retrieval_fit *fit, unsigned degree, bool steps,
                      retrieval_curve *curve) {
    double matrix[TERMS][TERMS] = {{0}}, right[TERMS] = {0}, solution[TERMS], powers[TERMS];
    for (size_t i = 0; i < fit->count; i++) {
        double basis[TERMS];
        if (!fit->points[i].is_used)
            continue;
        basis_at(fit->points[i].entropy / fit->entropy_max, degree, steps, basis);
        for (unsigned j = 0; j <= degree; j++) {
            right[j] += basis[j] * fit->points[i].beta;
            for (unsigned k = 0; k <= degree; k++)
                matrix[j][k] += basis[j] * basis[k];
        }
    }
    if (steps)
        solve_bounded(matrix, right, degree, solution);
    else
        solve_exactly(matrix, right, degree, solution);
    for (unsigned j = 1; steps && j <= degree; j++)
        solution[j] += solution[j - 1];
    to_powers(solution, degree, fit->entropy_max, powers);
    curve->policy = whet_policy_poly(powers, degree, -INFINITY, 1, fit->entropy_max);
    whet_policy_name(&curve->policy, curve->name, sizeof curve->name);
    double squares = 0;
    for (size_t i = 0; i < fit->count; i++) {
        if (!fit->points[i].is_used)
            continue;
        double value = 0;
        for (unsigned k = 0; k <= degree; k++)
            value = value * fit->points[i].entropy + powers[k];
        squares += (value - fit->points[i].beta) * (value - fit->points[i].beta);
    }
    curve->error = sqrt(squares / (double)fit->used);
}

bool retrieval_fit_curves(retrieval_fit *fit, unsigned degree, lab_error *error) {
    fit->used = 0;
    fit->entropy_max = 0;
    for (size_t i = 0; i < fit->count; i++)
        if (fit->points[i].is_used) {
            fit->used++;
            fit->entropy_max = fmax(fit->entropy_max, fit->points[i].entropy);
        }
    if (fit->used <= degree || !(fit->entropy_max > 0))
        return lab_fail(error, LAB_INPUT, "%zu points are too few for --degree %u", fit->used,
                        degree);
    fit_curve(fit, degree, false, &fit->least);
    fit_curve(fit, degree, true, &fit->monotone);
    return true;
}

static bool check_request(const retrieval_fit_request *request, lab_error *error) {
    if (request->degree < 1 || request->degree > WHET_POLY_DEGREE_MAX)
        return lab_fail(error, LAB_INPUT, "--degree: %u is out of range (1 to %d)", request->degree,
                        WHET_POLY_DEGREE_MAX);
    if (!(request->cap > 1 && request->cap <= 1e6))
        return lab_fail(error, LAB_INPUT, "--cap: %g is out of range (above 1, up to 1,000,000)",
                        request->cap);
    for (size_t i = 0; i < request->size_count; i++)
        if (request->sizes[i] < 1 || request->sizes[i] > 1048576)
            return lab_fail(error, LAB_INPUT, "--sizes: %zu is out of range (1 to 1,048,576)",
                            request->sizes[i]);
    return true;
}

static bool find_points(fit_run *run, lab_error *error) {
    const retrieval_fit_request *request = run->request;
    size_t tasks = request->heads->count * request->size_count;
    uint64_t total = 0;
    for (size_t i = 0; i < request->size_count; i++)
        total += request->heads->count * request->sizes[i];
    run->progress = lab_progress_begin("fitting", 0, total, request->quiet);
    if (request->executor)
        request->executor->parallel_for(request->executor->context, tasks, fit_task, run);
    else
        for (size_t task = 0; task < tasks; task++)
            fit_task(run, task, 0);
    lab_progress_end(&run->progress);
    if (lab_interrupted())
        return lab_fail(error, LAB_STOPPED, "stopped while fitting");
    return error->kind == LAB_NO_ERROR && retrieval_fit_curves(run->fit, request->degree, error);
}

bool retrieval_fit_make(const nn_engine *engine, const retrieval_fit_request *request,
                        retrieval_fit *fit, lab_error *error) {
    *fit = (retrieval_fit){.count = 0};
    if (!check_request(request, error))
        return false;
    fit->count = request->heads->count * request->size_count * request->sets;
    fit->points = calloc(fit->count + 1, sizeof *fit->points);
    if (!fit->points)
        return lab_fail_memory(error);
    fit_run run = {.engine = engine,
                   .request = request,
                   .fit = fit,
                   .lock = PTHREAD_MUTEX_INITIALIZER,
                   .error = error};
    bool is_good = find_points(&run, error);
    pthread_mutex_destroy(&run.lock);
    if (!is_good)
        retrieval_fit_free(fit);
    return is_good;
}

void retrieval_fit_free(retrieval_fit *fit) {
    free(fit->points);
    *fit = (retrieval_fit){.count = 0};
}

static json_t *curve_json(const retrieval_curve *curve) {
    return json_pack("{s:s, s:o}", "policy", curve->name, "rms_error",
                     lab_json_number(curve->error));
}

json_t *retrieval_fit_json(const retrieval_fit *fit) {
    unsigned mark = lab_json_mark();
    json_t *points = json_array();
    for (size_t i = 0; i < fit->count; i++)
        json_array_append_new(points,
                              json_pack("{s:I, s:f, s:f, s:b}", "n", (json_int_t)fit->points[i].n,
                                        "entropy", fit->points[i].entropy, "beta",
                                        fit->points[i].beta, "used", (int)fit->points[i].is_used));
    json_t *all = json_pack("{s:f, s:I, s:o, s:o, s:o}", "entropy_max", fit->entropy_max, "used",
                            (json_int_t)fit->used, "least_squares", curve_json(&fit->least),
                            "monotone", curve_json(&fit->monotone), "points", points);
    return lab_json_whole(all, mark);
}
