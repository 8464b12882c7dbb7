/* What all plans of libwhet-mpi begin with, and the parts that decode and prefill share. */
#ifndef WHET_MPI_PLAN_H
#define WHET_MPI_PLAN_H

#include "agreement.h"
#include "communicator.h"
#include "tree.h"

struct whet_mpi_plan {
    whet_status (*execute)(whet_mpi_plan *plan, uint64_t *first_bad_row);
    void (*free_parts)(whet_mpi_plan *plan);
    whet_status (*set_offset)(whet_mpi_plan *plan, int64_t offset);
    communicator c;
    whet_executor executor;
};

/* Begins a plan of a kind whose struct has `bytes` bytes and begins with whet_mpi_plan: all zeros
 * but for its communicator. Refused by all ranks if one of them passes NULL or has no memory;
 * *plan is then NULL. Collective. */
whet_status whet_mpi_begin_plan(MPI_Comm comm, const void *description, size_t bytes,
                                whet_mpi_plan **plan);

/* Ends the planning with a status that has been agreed on: frees the plan unless it is WHET_OK.
 * Collective. */
whet_status whet_mpi_end_plan(whet_mpi_plan **plan, whet_status status);

/* Fills in an executor of one thread for NULL; refuses one that cannot work. */
whet_status whet_mpi_take_executor(const whet_executor *given, whet_executor *result);

/* Checks everything but tensors, and fills in defaults. */
whet_status whet_mpi_check_description(whet_attention *a);

/* Compares a description, whose defaults are filled in, with those of the other ranks.
 * Collective. */
whet_status whet_mpi_agree_on_attention(communicator *c, const char *kind, const whet_attention *a);

#endif
