/* Attention over ranks for the program: see lab/base/ranks_decode.h. */
#include "base/ranks_decode.h"
#include "module.h"
#include "whet_mpi.h"

#include <time.h>

enum { TELL_TAG = 1 };

static void local_size(size_t keys, size_t *start, size_t *count) {
    whet_mpi_share share = {0};
    whet_mpi_local_size(MPI_COMM_WORLD, keys, WHET_MPI_BLOCK, &share);
    *start = share.start[0];
    *count = share.count[0];
}

static whet_status plan(const whet_attention *attention, const whet_executor *executor,
                        void **result) {
    whet_mpi_plan *made = NULL;
    whet_status status = whet_mpi_decode_plan(MPI_COMM_WORLD, attention, executor, &made);
    *result = made;
    return status;
}

static whet_status execute(void *running) { return whet_mpi_execute(running, NULL); }

static lab_ranks_counts counts(const void *running) {
    whet_mpi_counts all = whet_mpi_counts_of(running);
    return (lab_ranks_counts){all.reductions, all.messages, all.bytes};
}

static void destroy(void *running) { whet_mpi_destroy(running); }

static void tell(int number) {
    const communicator *c = whet_module_communicator();
    for (int r = 1; r < c->size; r++)
        MPI_Send(&number, 1, MPI_INT, r, TELL_TAG, c->comm);
}

static int wait_for(void) {
    const communicator *c = whet_module_communicator();
    const struct timespec pause = {.tv_nsec = 20000};
    MPI_Status status;
    int number, is_there = 0;
    for (;;) {
        MPI_Iprobe(0, TELL_TAG, c->comm, &is_there, &status);
        if (is_there)
            break;
        nanosleep(&pause, NULL);
    }
    MPI_Recv(&number, 1, MPI_INT, 0, TELL_TAG, c->comm, &status);
    return number;
}

const lab_ranks_decode whet_module_decode = {local_size, plan, execute, counts,
                                             destroy,    tell, wait_for};
