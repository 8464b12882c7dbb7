/*
 * Times one attention operation in llama.cpp, without and with the plug-in, in one process:
 *
 *     bench_ggml [--json FILE] [SECONDS [PART]]
 *
 * SECONDS limits the time for each line (default 1); PART selects lines whose name contains it.
 * Only a PART with `cache` in it, such as `cache` or `cache q8_0`, has lines for every type of
 * cache. --json also writes the results to FILE.
 *
 * The operation has 8 query heads on 2 key heads, keys and values in f16 or in the type that the
 * line names, and no mask. The three variants run in turn, so that noise affects all of them alike,
 * and the best time of each is reported. Errors are relative L2 errors against the same operation
 * computed in double. The policy is chosen by layer: softmax in layer 0, adaptive in layer 1.
 */
#include <ggml-backend.h>
#include <ggml.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STOCK, SOFTMAX, ADAPTIVE, WAYS };
enum { HEADS = 8, KV_HEADS = 2, DIM_MAX = 1024 };

typedef struct shape {
    int queries, head_dim, keys;
    enum ggml_type cache; /* the type of keys and values */
} shape;

static ggml_backend_t stock, ours;
static ggml_backend_reg_t cpu;
static FILE *json; /* or NULL */
static size_t lines;

static _Noreturn void fail(const char *what) {
    fprintf(stderr, "bench_ggml: %s\n", what);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- backends ---- */

static ggml_backend_t make_backend(void) {
    ggml_backend_t backend = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    if (!backend)
        fail("llama.cpp has no CPU backend");
    return backend;
}

static void choose_policies(void) {
    static const char rules[] = "{\"rules\": [{\"layers\": \"1\", \"policy\": \"adaptive\"}]}";
    char path[] = "/tmp/bench_ggml.XXXXXX";
    int file = mkstemp(path);
    if (file < 0 || write(file, rules, sizeof rules - 1) != (ssize_t)sizeof rules - 1)
        fail("/tmp: cannot write");
    close(file);
    setenv("WHET_CONFIG", path, 1);
    unsetenv("WHET_POLICY");
    if (!ggml_backend_load(WHET_PLUGIN))
        fail(WHET_PLUGIN ": cannot load");
    unlink(path);
}

static void quiet(enum ggml_log_level level, const char *text, void *user) {
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static void start(void) {
    ggml_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(WHET_LLAMA_LIB);
    stock = make_backend();
    choose_policies();
    ours = make_backend();
    cpu = ggml_backend_dev_backend_reg(ggml_backend_get_device(stock));
}

/* A function of the CPU backend's own library. */
static void find(const char *name, void *pointer) {
    void *function = ggml_backend_reg_get_proc_address(cpu, name);
    if (!function)
        fail("llama.cpp's CPU backend lacks a function");
    memcpy(pointer, &function, sizeof function);
}

static void use_threads(struct ggml_threadpool *pool, int threads) {
    void (*set_threads)(ggml_backend_t, int);
    void (*set_pool)(ggml_backend_t, struct ggml_threadpool *);
    find("ggml_backend_set_n_threads", &set_threads);
    find("ggml_backend_cpu_set_threadpool", &set_pool);
    ggml_backend_t backends[] = {stock, ours};
    for (int i = 0; i < 2; i++) {
        set_threads(backends[i], threads);
        set_pool(backends[i], pool);
    }
}

/* Creates threads that live while a line is measured and spin between operations, as in llama-cli
 * and llama-bench. Without them the host would create new threads for every graph. */
static struct ggml_threadpool *make_threads(int threads) {
    struct ggml_threadpool *(*make)(struct ggml_threadpool_params *);
    find("ggml_threadpool_new", &make);
    struct ggml_threadpool_params params = ggml_threadpool_params_default(threads);
    struct ggml_threadpool *pool = make(&params);
    if (!pool)
        fail("cannot create threads");
    use_threads(pool, threads);
    /* cppcheck-suppress returnDanglingLifetime; the host copies the parameters */
    return pool;
}

/* Detaches the backends first: a backend that is given other threads stops those it had. */
static void end_threads(struct ggml_threadpool *pool) {
    void (*end)(struct ggml_threadpool *);
    find("ggml_threadpool_free", &end);
    use_threads(NULL, 1);
    end(pool);
}

/* ---- operations ---- */

typedef struct problem {
    shape shape;
    struct ggml_context *context;
    struct ggml_tensor *q, *k[2], *v, *node[2];
    struct ggml_cgraph *graph[2]; /* by layer */
} problem;

static float random_normal(void) {
    static uint64_t state = 1;
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(state >> 33) * 0x1p-31 - 0.5;
    }
    return (float)(sum * 1.7320508);
}

static void fill(struct ggml_tensor *tensor) {
    int64_t rows = ggml_nrows(tensor), dim = tensor->ne[0];
    float row[DIM_MAX];
    for (int64_t r = 0; r < rows; r++) {
        char *stored = (char *)tensor->data + (size_t)r * tensor->nb[1];
        for (int64_t c = 0; c < dim; c++)
            row[c] = random_normal();
        ggml_quantize_chunk(tensor->type, row, stored, 0, 1, dim, NULL);
    }
}

static struct ggml_tensor *make_cache(problem *p) {
    struct ggml_tensor *cache =
        ggml_new_tensor_3d(p->context, p->shape.cache, p->shape.head_dim, KV_HEADS, p->shape.keys);
    fill(cache);
    return cache;
}

static problem make_problem(shape s) {
    size_t cache = ggml_row_size(s.cache, s.head_dim) * KV_HEADS * (size_t)s.keys;
    size_t rows = (size_t)s.head_dim * HEADS * (size_t)s.queries * 4;
    struct ggml_init_params params = {.mem_size = 3 * cache + 4 * rows + ((size_t)16 << 20)};
    problem p = {.shape = s, .context = ggml_init(params)};
    if (!p.context)
        fail("out of memory");
    p.q = ggml_new_tensor_3d(p.context, GGML_TYPE_F32, s.head_dim, HEADS, s.queries);
    fill(p.q);
    p.k[0] = make_cache(&p);
    p.v = make_cache(&p);
    ggml_set_name(p.k[0], "cache_k_l0");
    /* The same memory, named as the cache of layer 1. */
    ggml_set_no_alloc(p.context, true);
    p.k[1] = ggml_dup_tensor(p.context, p.k[0]);
    p.k[1]->data = p.k[0]->data;
    ggml_set_no_alloc(p.context, false);
    ggml_set_name(p.k[1], "cache_k_l1");
    for (int layer = 0; layer < 2; layer++) {
        p.node[layer] = ggml_flash_attn_ext(p.context, ggml_permute(p.context, p.q, 0, 2, 1, 3),
                                            ggml_permute(p.context, p.k[layer], 0, 2, 1, 3),
                                            ggml_permute(p.context, p.v, 0, 2, 1, 3), NULL,
                                            1 / sqrtf((float)s.head_dim), 0, 0);
        p.graph[layer] = ggml_new_graph_custom(p.context, 64, false);
        ggml_build_forward_expand(p.graph[layer], p.node[layer]);
    }
    return p;
}

static double time_of(problem *p, int way) {
    double before = now();
    if (ggml_backend_graph_compute(way == STOCK ? stock : ours, p->graph[way == ADAPTIVE]) !=
        GGML_STATUS_SUCCESS)
        fail("llama.cpp failed to compute the operation");
    return now() - before;
}

/* ---- errors, of the first query only: computing all of them would take too long ---- */

/* The row of a key head at a position, as numbers. */
static void cache_row(const struct ggml_tensor *cache, int kv_head, int position, float *row) {
    const char *stored = (const char *)cache->data + (size_t)kv_head * cache->nb[1] +
                         (size_t)position * cache->nb[2];
    if (cache->type == GGML_TYPE_F32)
        memcpy(row, stored, (size_t)cache->ne[0] * sizeof *row);
    else
        ggml_get_type_traits(cache->type)->to_float(stored, row, cache->ne[0]);
}

static void exact_row(const problem *p, int head, int query, double *out) {
    int dim = p->shape.head_dim, kv_head = head / (HEADS / KV_HEADS);
    float row[DIM_MAX];
    const float *q = (const float *)p->q->data + (query * HEADS + head) * dim;
    double *e = calloc((size_t)p->shape.keys, sizeof *e), max = -INFINITY, sum = 0;
    if (!e)
        fail("out of memory");
    for (int j = 0; j < p->shape.keys; j++) {
        cache_row(p->k[0], kv_head, j, row);
        for (int c = 0; c < dim; c++)
            e[j] += (double)q[c] * (double)row[c];
        e[j] /= sqrt(dim);
        max = fmax(max, e[j]);
    }
    memset(out, 0, (size_t)dim * sizeof *out);
    for (int j = 0; j < p->shape.keys; j++) {
        cache_row(p->v, kv_head, j, row);
        double weight = exp(e[j] - max);
        sum += weight;
        for (int c = 0; c < dim; c++)
            out[c] += weight * (double)row[c];
    }
    for (int c = 0; c < dim; c++)
        out[c] /= sum;
    free(e);
}

static double error_of(problem *p, int way) {
    double difference = 0, size = 0, exact[DIM_MAX];
    time_of(p, way);
    for (int head = 0; head < HEADS; head++) {
        const float *row = (const float *)p->node[0]->data + head * p->shape.head_dim;
        exact_row(p, head, 0, exact);
        for (int c = 0; c < p->shape.head_dim; c++) {
            difference += ((double)row[c] - exact[c]) * ((double)row[c] - exact[c]);
            size += exact[c] * exact[c];
        }
    }
    return sqrt(difference / size);
}

/* ---- results ---- */

static void print_result(const char *name, const double *best, const double *errors) {
    printf("%-64s %9.3f %9.3f %9.3f %6.2f %9.2f   %.1e %.1e\n", name, 1e3 * best[STOCK],
           1e3 * best[SOFTMAX], 1e3 * best[ADAPTIVE], best[STOCK] / best[SOFTMAX],
           best[ADAPTIVE] / best[SOFTMAX], errors[STOCK], errors[SOFTMAX]);
    fflush(stdout);
}

static void write_result(shape s, int threads, const double *best, const double *errors) {
    static const char *separator = "[";
    fprintf(json,
            "%s\n {\"queries\": %d, \"head_dim\": %d, \"keys\": %d, \"cache\": \"%s\", "
            "\"threads\": %d, \"llama\": %.6g, \"softmax\": %.6g, \"adaptive\": %.6g, "
            "\"llama_error\": %.2g, \"whet_error\": %.2g}",
            separator, s.queries, s.head_dim, s.keys, ggml_type_name(s.cache), threads, best[STOCK],
            best[SOFTMAX], best[ADAPTIVE], errors[STOCK], errors[SOFTMAX]);
    separator = ",";
}

static void finish_json(void) {
    if (json && (fputs("\n]\n", json) == EOF || fclose(json) != 0))
        fail("--json: cannot write the file");
}

/* `kind` precedes the type of the cache in the line's name. */
static void measure(shape s, int threads, double budget, const char *kind, const char *part) {
    char name[80];
    snprintf(name, sizeof name, "%d queries, head size %d, %d keys, %d threads%s%s", s.queries,
             s.head_dim, s.keys, threads, kind, *kind ? ggml_type_name(s.cache) : "");
    if (part && !strstr(name, part))
        return;
    lines++;
    problem p = make_problem(s);
    double best[WAYS] = {HUGE_VAL, HUGE_VAL, HUGE_VAL}, end = now() + budget;
    struct ggml_threadpool *pool = make_threads(threads);
    int rounds = 0;
    do {
        for (int way = 0; way < WAYS; way++)
            best[way] = fmin(best[way], time_of(&p, way));
        rounds++;
    } while (now() < end || rounds < 3);
    const double errors[] = {[STOCK] = error_of(&p, STOCK), [SOFTMAX] = error_of(&p, SOFTMAX)};
    print_result(name, best, errors);
    if (json)
        write_result(s, threads, best, errors);
    end_threads(pool);
    ggml_free(p.context);
}

/* One query over caches of every type that llama.cpp offers. */
static void measure_caches(double budget, const char *part) {
    static const enum ggml_type types[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16,
                                           GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1,
                                           GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL};
    static const int keys[] = {4096, 32768, 131072};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (size_t j = 0; j < sizeof keys / sizeof *keys; j++)
            measure((shape){1, 128, keys[j], types[i]}, 1, budget, ", cache ", part);
}

int main(int argc, char **argv) {
    static const shape shapes[] = {
        {1, 64, 4096, GGML_TYPE_F16},    {1, 128, 4096, GGML_TYPE_F16},
        {1, 128, 32768, GGML_TYPE_F16},  {1, 256, 32768, GGML_TYPE_F16},
        {512, 64, 4096, GGML_TYPE_F16},  {512, 128, 512, GGML_TYPE_F16},
        {512, 128, 4096, GGML_TYPE_F16}, {512, 256, 4096, GGML_TYPE_F16}};
    if (argc > 2 && strcmp(argv[1], "--json") == 0) {
        json = fopen(argv[2], "w");
        if (!json)
            fail("--json: cannot create the file");
        argv += 2;
        argc -= 2;
    }
    double budget = argc > 1 ? strtod(argv[1], NULL) : 1;
    start();
    printf("%-64s %9s %9s %9s %6s %9s   %s\n", "milliseconds, best", "llama.cpp", "softmax",
           "adaptive", "faster", "adaptive", "errors: llama.cpp, whet");
    const char *part = argc > 2 ? argv[2] : NULL;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int threads = 1; threads <= 2; threads++)
            measure(shapes[i], threads, budget, "", part);
    if (part && strstr(part, "cache"))
        measure_caches(budget, part);
    if (lines == 0)
        fail("PART selects no line");
    finish_json();
    return 0;
}
