/* Shares of positions, and what plans have in common: see plan.h. */
#include "plan.h"
#include "attention/check.h"
#include <stdlib.h>
#include <string.h>

whet_status whet_mpi_share_of(size_t n, whet_mpi_layout layout, int rank, int ranks,
                              whet_mpi_share *share) {
    if (!share)
        return whet_mpi_refuse(WHET_ERROR_ARGUMENT, "share is NULL");
    if (layout != WHET_MPI_BLOCK && layout != WHET_MPI_ZIGZAG)
        return whet_mpi_refuse(WHET_ERROR_ARGUMENT, "layout is %d, which does not exist",
                               (int)layout);
    if (ranks < 1 || rank < 0 || rank >= ranks)
        return whet_mpi_refuse(WHET_ERROR_ARGUMENT, "rank is %d of %d", rank, ranks);
    piece_map map = whet_mpi_pieces(n);
    bool is_zigzag = layout == WHET_MPI_ZIGZAG;
    size_t parts = (size_t)ranks * (is_zigzag ? 2 : 1);
    size_t part[2] = {(size_t)rank, parts - 1 - (size_t)rank};
    *share = (whet_mpi_share){0};
    for (int i = 0; i < (is_zigzag ? 2 : 1); i++) {
        span own = whet_mpi_positions_of(&map, whet_mpi_pieces_of(&map, part[i], parts));
        share->start[i] = own.begin;
        share->count[i] = span_size(own);
        share->positions += span_size(own);
    }
    return WHET_OK;
}

static bool is_running(void) {
    int started = 0, ended = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    return started && !ended;
}

static whet_status check_comm(MPI_Comm comm) {
    if (!is_running())
        return whet_mpi_refuse(WHET_ERROR_ARGUMENT, "MPI is not initialised");
    if (comm == MPI_COMM_NULL)
        return whet_mpi_refuse(WHET_ERROR_ARGUMENT, "comm is MPI_COMM_NULL");
    return WHET_OK;
}

whet_status whet_mpi_local_size(MPI_Comm comm, size_t n, whet_mpi_layout layout,
                                whet_mpi_share *share) {
    whet_status status = check_comm(comm);
    if (status != WHET_OK)
        return status;
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    return whet_mpi_share_of(n, layout, rank, size, share);
}

whet_status whet_mpi_begin_plan(MPI_Comm comm, const void *description, size_t bytes,
                                whet_mpi_plan **plan) {
    if (plan)
        *plan = NULL;
    whet_status status = check_comm(comm);
    if (status != WHET_OK)
        return status;
    communicator c;
    whet_mpi_open(comm, &c);
    whet_mpi_plan *begun = NULL;
    if (!plan)
        status = whet_mpi_refuse(WHET_ERROR_ARGUMENT, "plan is NULL");
    else if (!description)
        status = whet_mpi_refuse(WHET_ERROR_ARGUMENT, "the description is NULL");
    else if (!(begun = calloc(1, bytes)))
        status = whet_mpi_refuse(WHET_ERROR_MEMORY, "out of memory");
    status = whet_mpi_agree(&c, status);
    if (status != WHET_OK) {
        whet_mpi_close(&c);
        free(begun);
        return status;
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): all ranks agree on an error of one */
    begun->c = c;
    *plan = begun;
    return WHET_OK;
}

whet_status whet_mpi_end_plan(whet_mpi_plan **plan, whet_status status) {
    if (status != WHET_OK) {
        whet_mpi_destroy(*plan);
        *plan = NULL;
    } else {
        (*plan)->c.counts = (whet_mpi_counts){0};
    }
    return status;
}

void whet_mpi_destroy(whet_mpi_plan *plan) {
    if (!plan)
        return;
    if (plan->free_parts)
        plan->free_parts(plan);
    whet_mpi_close(&plan->c);
    free(plan);
}

whet_status whet_mpi_execute(whet_mpi_plan *plan, uint64_t *first_bad_row) {
    if (!plan)
        return whet_mpi_refuse(WHET_ERROR_ARGUMENT, "plan is NULL");
    return plan->execute(plan, first_bad_row);
}

whet_status whet_mpi_set_offset(whet_mpi_plan *plan, int64_t offset) {
    if (!plan)
        return whet_mpi_refuse(WHET_ERROR_ARGUMENT, "plan is NULL");
    if (!plan->set_offset)
        return whet_mpi_refuse(WHET_ERROR_UNSUPPORTED, "only decode plans have an offset to set");
    return plan->set_offset(plan, offset);
}

whet_mpi_counts whet_mpi_counts_of(const whet_mpi_plan *plan) {
    return plan ? plan->c.counts : (whet_mpi_counts){0};
}

static void run_serially(void *context, size_t tasks, whet_task_function function, void *argument) {
    (void)context;
    for (size_t task = 0; task < tasks; task++)
        function(argument, task, 0);
}

whet_status whet_mpi_take_executor(const whet_executor *given, whet_executor *result) {
    *result = given ? *given : (whet_executor){1, run_serially, NULL};
    if (!result->parallel_for)
        return whet_mpi_refuse(WHET_ERROR_ARGUMENT, "executor.parallel_for is NULL");
    if (result->workers == 0)
        return whet_mpi_refuse(WHET_ERROR_ARGUMENT, "executor.workers is 0");
    return WHET_OK;
}

whet_status whet_mpi_check_description(whet_attention *a) {
    if (a->size != sizeof *a)
        return whet_mpi_refuse(WHET_ERROR_ARGUMENT,
                               "size is %zu, but sizeof(whet_attention) is %zu", a->size,
                               sizeof *a);
    whet_status status = whet_fill_description(a, "");
    if (status != WHET_OK)
        return whet_mpi_pass_on(status);
    if (a->skip > 0)
        return whet_mpi_refuse(WHET_ERROR_UNSUPPORTED,
                               "skip is %g: no values are left out of a context that is spread "
                               "over ranks; set it to 0",
                               (double)a->skip);
    return WHET_OK;
}

/* ---- the same description everywhere ---- */

static uint64_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint64_t hash_floats(const float *x, size_t count) {
    return x ? whet_mpi_hash(x, count * sizeof *x, 1) : 0;
}

/* Without the addresses of a custom policy, which may differ. */
static uint64_t hash_policies(const whet_attention *a) {
    uint64_t hash = 0;
    for (size_t i = 0; i < a->policy_count; i++) {
        whet_policy policy = a->policies[i];
        policy.function = NULL;
        policy.context = NULL;
        hash = whet_mpi_hash(&policy, sizeof policy, hash);
    }
    return hash;
}

whet_status whet_mpi_agree_on_attention(communicator *c, const char *kind,
                                        const whet_attention *a) {
    const shared_number numbers[] = {
        {"the kind of plan", whet_mpi_hash(kind, strlen(kind), 0), 1},
        {"batch", a->batch, 0},
        {"heads", a->heads, 0},
        {"kv_heads", a->kv_heads, 0},
        {"queries", a->queries, 0},
        {"keys", a->keys, 0},
        {"head_dim", a->head_dim, 0},
        {"value_dim", a->value_dim, 0},
        {"scale", bits_of(a->scale), 1},
        {"softcap", bits_of(a->softcap), 1},
        {"flags", a->flags, 0},
        {"offset", (uint64_t)a->offset, 1},
        {"window", a->window, 0},
        {"policy_count", a->policy_count, 0},
        {"policies", hash_policies(a), 1},
        {"k.type", a->k.type, 0},
        {"v.type", a->v.type, 0},
        {"the presence of betas", a->betas != NULL, 0},
        {"the presence of positions", a->positions != NULL, 0},
        {"the presence of stats", a->stats != NULL, 0},
        {"the presence of max_logits", a->max_logits != NULL, 0},
        {"alibi_slopes", hash_floats(a->alibi_slopes, a->heads), 1},
        {"sinks", hash_floats(a->sinks, a->heads), 1},
    };
    return whet_mpi_agree_on(c, numbers, sizeof numbers / sizeof numbers[0]);
}
