/*
 * Decode and prefill by libwhet_mpi under SimGrid's SMPI, which runs all ranks in one process and
 * computes how long their messages take:
 *
 *     smpirun -platform P.xml -hostfile P.txt -np 16 simulate decode adaptive 1048576 [CORES [E R]]
 *
 * With CORES, a rank is a node of so many cores, tasks are sampled (sampling.h) and keys, values
 * and buffers of all ranks share their memory. Prints one line of JSON with the simulated time.
 * Computation that is not a task takes E seconds for an execution and R for each message of a
 * reduction; without E and R, what SMPI measures.
 * Without CORES everything is computed, and the line has a digest of the results, which are also
 * compared with those of one process without MPI.
 */
#include "sampling.h"
#include "whet_mpi.h"
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 128, REPETITIONS = 3, SHARED_BYTES = 1 << 26 };

typedef struct simulation {
    const char *what, *policy;
    size_t positions, cores; /* of all ranks; of a node */
    size_t heads, kv_heads;
    bool is_prefill;
    int rank, ranks;
    whet_mpi_layout layout;
    whet_mpi_share share;
    whet_attention attention;
    uint16_t *k, *v, *shared;
    float *q, *out;
    whet_policy chosen;
    sampling work;
    double execution_seconds;
} simulation;

static void end_badly(const char *why) {
    fprintf(stderr, "simulate: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

/* ---- inputs ---- */

/* Noise in [-1, 1) that depends on its place alone. */
static float noise(uint64_t tensor, uint64_t head, uint64_t position, uint64_t i) {
    uint64_t x = (((tensor << 8 ^ head) << 32 ^ position) << 8 ^ i) * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 29)) * UINT64_C(0xBF58476D1CE4E5B9);
    return (float)((x ^ (x >> 32)) & 0xFFFFFF) / 8388608.0f - 1.0f;
}

/* f16 of a number in [-1, 1): 1.5 + x / 2 has its fraction in the leading bits. */
static uint16_t half(float x) {
    uint32_t bits, sign = x < 0 ? 0x8000 : 0;
    x = fabsf(x);
    if (x < 6.2e-5f)
        return (uint16_t)sign;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(sign | (((bits >> 23) - 112) << 10) | ((bits >> 13) & 0x3FF));
}

static size_t position_of(const whet_mpi_share *share, size_t i) {
    return i < share->count[0] ? share->start[0] + i : share->start[1] + i - share->count[0];
}

static void fill_keys(uint16_t *to, uint64_t tensor, size_t heads, const whet_mpi_share *share) {
    for (size_t h = 0; h < heads; h++)
        for (size_t p = 0; p < share->positions; p++)
            for (size_t i = 0; i < DIM; i++)
                *to++ = half(noise(tensor, h, position_of(share, p), i));
}

static void fill_queries(float *to, size_t heads, const whet_mpi_share *share) {
    for (size_t h = 0; h < heads; h++)
        for (size_t p = 0; p < share->positions; p++)
            for (size_t i = 0; i < DIM; i++)
                *to++ = noise(0, h, position_of(share, p), i);
}

static void *allocate(size_t count, size_t each) {
    void *memory = sampling_allocate((count * each / WHET_ALIGNMENT + 1) * WHET_ALIGNMENT);
    if (!memory)
        end_badly("out of memory");
    return memory;
}

/* All ranks read the memory of rank 0, whose address they can use, being in one process; each
 * begins somewhere else, so that what one has read does not wait in a cache for the next. Shared
 * memory is one block, mapped again and again, so filling that fills everything. */
static void share_inputs(simulation *s, size_t elements, size_t rows) {
    size_t block = SHARED_BYTES / sizeof *s->k, most;
    MPI_Allreduce(&elements, &most, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    if (s->rank == 0) {
        s->shared = allocate(most + block, sizeof *s->k);
        for (size_t i = 0; i < block; i++)
            s->shared[i] = half(noise(1, 0, i / DIM, i % DIM));
    }
    MPI_Bcast(&s->shared, sizeof s->shared, MPI_BYTE, 0, MPI_COMM_WORLD);
    s->k = s->shared + (size_t)s->rank * 2 * elements / DIM * DIM % block;
    s->v = s->shared + ((size_t)s->rank * 2 + 1) * elements / DIM * DIM % block;
    s->q = calloc(rows, sizeof *s->q);
    s->out = malloc(rows * sizeof *s->out);
    if (!s->q || !s->out)
        end_badly("out of memory");
    if (!s->is_prefill)
        for (size_t i = 0; i < rows; i++)
            s->q[i] = noise(0, 0, 0, i);
}

static void make_inputs(simulation *s, const whet_mpi_share *keys, const whet_mpi_share *queries) {
    size_t elements = keys->positions * s->kv_heads * DIM;
    size_t rows = queries->positions * s->heads * DIM;
    if (s->cores > 0) {
        share_inputs(s, elements, rows);
        return;
    }
    s->k = allocate(elements, sizeof *s->k);
    s->v = allocate(elements, sizeof *s->v);
    s->q = allocate(rows, sizeof *s->q);
    s->out = allocate(rows, sizeof *s->out);
    fill_keys(s->k, 1, s->kv_heads, keys);
    fill_keys(s->v, 2, s->kv_heads, keys);
    fill_queries(s->q, s->heads, queries);
}

static whet_attention describe(simulation *s) {
    return (whet_attention){.size = sizeof(whet_attention),
                            .heads = s->heads,
                            .kv_heads = s->kv_heads,
                            .queries = s->is_prefill ? s->positions : 1,
                            .keys = s->positions,
                            .head_dim = DIM,
                            .q = {.data = s->q},
                            .k = {.data = s->k, .type = WHET_F16},
                            .v = {.data = s->v, .type = WHET_F16},
                            .out = {.data = s->out},
                            .flags = WHET_CAUSAL,
                            .offset = s->is_prefill ? 0 : (int64_t)s->positions - 1,
                            .policies = &s->chosen};
}

/* ---- everything computed ---- */

/* Of rows of the output, in any order. */
static uint64_t digest(const simulation *s, const float *out, const whet_mpi_share *queries) {
    uint64_t sum = 0;
    for (size_t h = 0; h < s->heads; h++)
        for (size_t p = 0; p < queries->positions; p++) {
            uint64_t hash = h << 40 ^ position_of(queries, p);
            for (size_t i = 0; i < DIM; i++) {
                uint32_t bits;
                memcpy(&bits, &out[(h * queries->positions + p) * DIM + i], sizeof bits);
                hash = (hash ^ bits) * UINT64_C(1099511628211);
            }
            sum += hash ^ (hash >> 31);
        }
    return sum;
}

/* The largest difference from what libwhet alone computes over the whole context, of the output's
 * largest magnitude. */
static double difference(simulation *s, const whet_mpi_share *queries) {
    simulation whole = *s;
    whet_mpi_share all = {.positions = s->positions, .count = {s->positions, 0}};
    whet_mpi_share one = {.positions = 1, .count = {1, 0}};
    size_t n = s->is_prefill ? s->positions : 1;
    double worst = 0, largest = 0;
    make_inputs(&whole, &all, s->is_prefill ? &all : &one);
    whet_attention a = describe(&whole);
    if (whet_attention_forward(&a, NULL, NULL) != WHET_OK)
        end_badly(whet_last_error());
    for (size_t h = 0; h < s->heads; h++)
        for (size_t p = 0; p < queries->positions; p++)
            for (size_t i = 0; i < DIM; i++) {
                float mine = s->out[(h * queries->positions + p) * DIM + i];
                float its = whole.out[(h * n + position_of(queries, p)) * DIM + i];
                worst = fmax(worst, fabs((double)mine - (double)its));
                largest = fmax(largest, fabs((double)its));
            }
    free(whole.k);
    free(whole.v);
    free(whole.q);
    free(whole.out);
    return worst / largest;
}

/* ---- a run ---- */

typedef struct outcome {
    double seconds, task_seconds; /* of the slowest rank */
    whet_mpi_counts counts;       /* of one execution, on the rank that sends most */
} outcome;

/* Reads more than a cache holds. */
static void forget(const simulation *s) {
    volatile uint16_t *element = s->shared;
    for (size_t i = 0; s->rank == 0 && i < SHARED_BYTES / sizeof *s->shared; i += 32)
        (void)element[i];
}

/* The best of some: what is not a task is timed wherever it runs. Prefill is nearly all tasks. */
static outcome execute(simulation *s, whet_mpi_plan *plan) {
    outcome best = {.seconds = INFINITY};
    for (int i = 0; i < (s->cores && !s->is_prefill ? REPETITIONS : 1); i++) {
        whet_mpi_counts before = whet_mpi_counts_of(plan);
        sampling_restart(&s->work);
        if (s->cores)
            forget(s);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime(), mine[2], slowest[2];
        s->work.owed = s->execution_seconds;
        whet_mpi_execute(plan, NULL);
        sampling_pay(&s->work);
        mine[0] = MPI_Wtime() - start;
        mine[1] = s->work.seconds;
        MPI_Allreduce(mine, slowest, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        whet_mpi_counts after = whet_mpi_counts_of(plan);
        if (slowest[0] >= best.seconds)
            continue;
        best = (outcome){.seconds = slowest[0],
                         .task_seconds = slowest[1],
                         .counts = {.rounds = after.rounds - before.rounds,
                                    .messages = after.messages - before.messages,
                                    .bytes = after.bytes - before.bytes}};
    }
    uint64_t sent[3] = {best.counts.rounds, best.counts.messages, best.counts.bytes}, most[3];
    MPI_Allreduce(sent, most, 3, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    best.counts = (whet_mpi_counts){.rounds = most[0], .messages = most[1], .bytes = most[2]};
    return best;
}

static void print(const simulation *s, const outcome *o, uint64_t sum, double off) {
    if (s->rank > 0)
        return;
    printf("{\"what\": \"%s\", \"policy\": \"%s\", \"ranks\": %d, \"positions\": %zu", s->what,
           s->policy, s->ranks, s->positions);
    if (s->cores)
        printf(", \"seconds\": %.9g, \"task_seconds\": %.9g", o->seconds, o->task_seconds);
    else
        printf(", \"digest\": \"%016" PRIx64 "\", \"difference\": %.3g", sum, off);
    printf(", \"rounds\": %" PRIu64 ", \"messages\": %" PRIu64 ", \"bytes\": %" PRIu64 "}\n",
           o->counts.rounds, o->counts.messages, o->counts.bytes);
}

static void simulate(simulation *s) {
    whet_mpi_plan *plan;
    whet_mpi_share one = {.positions = 1, .count = {1, 0}};
    whet_mpi_local_size(MPI_COMM_WORLD, s->positions, s->layout, &s->share);
    const whet_mpi_share *queries = s->is_prefill ? &s->share : &one;
    sampling_share_memory(s->cores > 0);
    make_inputs(s, &s->share, queries);
    s->work = (sampling){
        .cores = s->cores ? s->cores : 1, .is_sampled = s->cores > 0, .is_prefill = s->is_prefill};
    whet_executor executor = sampling_executor(&s->work);
    whet_attention a = describe(s);
    whet_status status =
        s->is_prefill ? whet_mpi_prefill_plan(MPI_COMM_WORLD, &a, s->layout, &executor, &plan)
                      : whet_mpi_decode_plan(MPI_COMM_WORLD, &a, &executor, &plan);
    if (status != WHET_OK)
        end_badly(whet_mpi_last_error());
    outcome o = execute(s, plan);
    uint64_t sum = 0, all = 0;
    double off = 0, worst = 0;
    if (s->cores == 0) {
        sum = s->is_prefill || s->rank == 0 ? digest(s, s->out, queries) : 0;
        off = difference(s, queries);
        MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(&off, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    print(s, &o, all, worst);
    whet_mpi_destroy(plan);
}

int main(int argc, char **argv) {
    simulation s = {.what = ""};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &s.ranks);
    if (argc < 4 || (strcmp(argv[1], "decode") != 0 && strcmp(argv[1], "prefill") != 0) ||
        whet_policy_parse(argv[2], &s.chosen, NULL, 0) != WHET_OK)
        end_badly("usage: simulate decode|prefill POLICY POSITIONS [CORES [E R]]");
    s.what = argv[1];
    s.policy = argv[2];
    s.positions = (size_t)strtoull(argv[3], NULL, 10);
    s.cores = argc > 4 ? (size_t)strtoull(argv[4], NULL, 10) : 0;
    s.execution_seconds = argc > 5 ? strtod(argv[5], NULL) : 0;
    sampling_set_swap(argc > 6 ? strtod(argv[6], NULL) : 0);
    s.is_prefill = strcmp(s.what, "prefill") == 0;
    s.layout = s.is_prefill ? WHET_MPI_ZIGZAG : WHET_MPI_BLOCK;
    s.heads = s.is_prefill ? 8 : 32;
    s.kv_heads = s.heads / 4;
    simulate(&s);
    MPI_Finalize();
    return EXIT_SUCCESS;
}
