/* What test programs of libwhet_mpi share: see launched.h. */
#include "mpi/launched.h"

#include "support/check.h"
#include "support/sanitizers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if WITH_ADDRESS_SANITIZER
/* Open MPI and MPICH leave memory behind when they end, some of it from modules that they have
 * unloaded by then: they stay loaded, so that what they leave has a name, and is not reported. */
int dlclose(void *handle);
int dlclose(void *handle) {
    (void)handle;
    return 0;
}

/* NOLINTNEXTLINE(bugprone-reserved-identifier): the name that LeakSanitizer looks for */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libmpi\nleak:libmpich\nleak:libopen-pal\nleak:libopen-rte\nleak:libpmix\n"
           "leak:mca_\nleak:libhwloc\nleak:libevent\nleak:libfabric\nleak:libucp\nleak:libucs\n"
           "leak:libuct\nleak:libucm\nleak:libucc\nleak:libpsm\nleak:libnl\nleak:vasprintf\n";
}
#endif

static int rank, ranks;
static whet_mpi_counts counts;

int launched_rank(void) { return rank; }
int launched_ranks(void) { return ranks; }
whet_mpi_counts launched_counts(void) { return counts; }

static void finalize(void) { MPI_Finalize(); }

/* A rank whose test has ended early leaves the others waiting: all end after a while. */
__attribute__((constructor)) static void start(void) {
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *log = getenv("WHET_MPI_LOG");
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", log ? log : "/dev/null", rank);
    if (rank > 0 && !freopen(log ? path : "/dev/null", "w", stdout))
        exit(EXIT_FAILURE);
    alarm(240);
    atexit(finalize);
}

static void fill_strides(whet_tensor *t, size_t heads, size_t positions, size_t dim) {
    if (t->stride[0] || t->stride[1] || t->stride[2] || t->stride[3])
        return;
    t->stride[2] = (ptrdiff_t)whet_type_row_bytes(t->type, dim);
    t->stride[1] = (ptrdiff_t)positions * t->stride[2];
    t->stride[0] = (ptrdiff_t)heads * t->stride[1];
}

static const void *moved(const void *data, ptrdiff_t stride, size_t count) {
    return data ? (const char *)data + stride * (ptrdiff_t)count : NULL;
}

whet_attention launched_part(const whet_attention *whole, size_t start_at, size_t count) {
    whet_attention a = *whole;
    size_t kv_heads = a.kv_heads ? a.kv_heads : a.heads;
    fill_strides(&a.k, kv_heads, a.keys, a.head_dim);
    fill_strides(&a.v, kv_heads, a.keys, a.value_dim ? a.value_dim : a.head_dim);
    ptrdiff_t mask_step = a.mask.stride[3] ? a.mask.stride[3] : a.mask.type == WHET_F16 ? 2 : 4;
    ptrdiff_t bias_step = a.bias.stride[2] ? a.bias.stride[2] : (ptrdiff_t)sizeof(float);
    a.k.data = count ? moved(a.k.data, a.k.stride[2], start_at) : NULL;
    a.v.data = count ? moved(a.v.data, a.v.stride[2], start_at) : NULL;
    a.mask.data = count ? moved(a.mask.data, mask_step, start_at) : NULL;
    a.bias.data = count ? moved(a.bias.data, bias_step, start_at) : NULL;
    return a;
}

whet_status launched_forward(MPI_Comm comm, const whet_attention *whole,
                             const whet_executor *executor, uint64_t *first_bad_row) {
    whet_mpi_share share;
    whet_mpi_plan *plan;
    whet_status status = whet_mpi_local_size(comm, whole->keys, WHET_MPI_BLOCK, &share);
    if (status != WHET_OK)
        return status;
    whet_attention part = launched_part(whole, share.start[0], share.count[0]);
    status = whet_mpi_decode_plan(comm, &part, executor, &plan);
    CHECK_MSG(status == WHET_OK, "%s", whet_mpi_last_error());
    if (status != WHET_OK)
        return status;
    status = whet_mpi_execute(plan, first_bad_row);
    counts = whet_mpi_counts_of(plan);
    whet_mpi_destroy(plan);
    return status;
}

static whet_status forward_on_all(const whet_attention *whole, const whet_executor *executor,
                                  uint64_t *first_bad_row) {
    return launched_forward(MPI_COMM_WORLD, whole, executor, first_bad_row);
}

/* ---- comparisons ---- */

/* Everything that attention writes. */
typedef struct results {
    size_t rows, bytes;
    float *out, *max_logits;
    whet_stats *stats;
    whet_status status;
    uint64_t first_bad_row;
} results;

static results run(MPI_Comm comm, const example *e, const whet_executor *executor) {
    whet_attention a = e->attention;
    results r = {.rows = e->q.extent[0] * e->q.extent[1] * e->q.extent[2],
                 .first_bad_row = UINT64_MAX};
    r.bytes = r.rows * e->v.extent[3] * sizeof(float);
    r.out = malloc(r.bytes + 1);
    r.stats = malloc((r.rows + 1) * sizeof *r.stats);
    r.max_logits = malloc(a.heads * sizeof(float));
    REQUIRE(r.out && r.stats && r.max_logits);
    a.out = (whet_tensor_out){.data = r.out};
    a.stats = r.stats;
    a.max_logits = r.max_logits;
    r.status = launched_forward(comm, &a, executor, &r.first_bad_row);
    return r;
}

static void free_results(results *r) {
    free(r->out);
    free(r->stats);
    free(r->max_logits);
}

static whet_executor two_threads(void) {
    static whet_pool *pool;
    if (!pool)
        REQUIRE(whet_pool_create(2, &pool) == WHET_OK);
    return whet_pool_executor(pool);
}

void launched_check(example *e, const char *what) {
    if (ranks == 1) {
        example_forward = forward_on_all;
        example_check(e, what);
    }
    static unsigned seen;
    if (ranks > 4 && seen++ % 4 != 0)
        return;
    whet_executor two = two_threads();
    results all = run(MPI_COMM_WORLD, e, NULL);
    results one = run(MPI_COMM_SELF, e, &two);
    CHECK_MSG(all.status == one.status && all.first_bad_row == one.first_bad_row,
              "%s: another status", what);
    CHECK_MSG(same_bytes(all.out, one.out, all.bytes), "%s: other outputs", what);
    CHECK_MSG(same_bytes(all.stats, one.stats, all.rows * sizeof *all.stats),
              "%s: other statistics", what);
    CHECK_MSG(same_bytes(all.max_logits, one.max_logits, e->attention.heads * sizeof(float)),
              "%s: other largest logits", what);
    free_results(&all);
    free_results(&one);
}

example launched_odd(size_t index, odd_use use) {
    /* no kink where the number of keys is whole, so that they have gradients */
    static const char *const names[][4] = {
        {"target:1", "topk:3", "length:12.5+topk:4", "adaptive+stick-breaking"},
        {"adaptive", "softmax1", "softmax", "ssmax:0.4:0.3"},
    };
    static const size_t sizes[] = {1, 5, 65, 193};
    enum { HEADS = 12 };
    const char *all[HEADS];
    size_t keys = sizes[index / 2 % 4], queries = use == ODD_DECODE ? 2 : keys;
    bool is_local = index % 4 > 1;
    example_shape shape = {.queries = queries, .keys = keys, .head_dim = 33, .seed = index};
    shape.heads = HEADS;
    shape.kv_heads = 4;
    shape.value_dim = 7;
    example e = example_new(shape);
    example_make_exact(&e);
    e.attention.flags = is_local ? WHET_CAUSAL : 0;
    e.attention.window = is_local ? 5 : 0;
    e.attention.offset = (int64_t)keys - (int64_t)queries;
    float *mask = example_mask(&e, MASK_QUERIES, WHET_F32, 0);
    for (size_t i = 0; i < queries * keys; i++)
        mask[i] = i / keys % 3 == 1 ? -INFINITY : mask[i];
    for (size_t i = 0; i < HEADS; i++)
        all[i] = names[index % 2][i % 4];
    example_policies(&e, all, HEADS);
    return e;
}
