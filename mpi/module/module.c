/*
 * The module by which the program whet takes part in an MPI job (lab/base/ranks.h). It is loaded
 * at run time, one for each MPI.
 */
#include "module.h"

#include <stdlib.h>

static communicator all;

const communicator *whet_module_communicator(void) { return &all; }

static void share(const lab_ranks *ranks, void *data, const size_t *ends) {
    size_t begin = 0;
    for (int r = 0; r < ranks->size; begin = ends[r++])
        for (size_t at = begin; at < ends[r]; at += MESSAGE_MAX) {
            size_t part = ends[r] - at < MESSAGE_MAX ? ends[r] - at : MESSAGE_MAX;
            MPI_Bcast((char *)data + at, (int)part, MPI_BYTE, r, all.comm);
        }
}

static void close_ranks(const lab_ranks *ranks) {
    (void)ranks;
    whet_mpi_close(&all);
    MPI_Finalize();
}

bool whet_ranks_start(lab_ranks *ranks);

__attribute__((visibility("default"))) bool whet_ranks_start(lab_ranks *ranks) {
    int provided;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
        provided < MPI_THREAD_FUNNELED)
        return false;
    whet_mpi_open(MPI_COMM_WORLD, &all);
    *ranks = (lab_ranks){.rank = all.rank,
                         .size = all.size,
                         .share = share,
                         .close = close_ranks,
                         .decode = &whet_module_decode};
    return true;
}
