/* Commands that several processes run together: see ranks.h. */
#include "ranks.h"

#include "commands.h"
#include "lab_options.h"

#include "base/signals.h"

#include <string.h>

static const char *const names[] = {"openmpi", "mpich", "none", NULL};

option_spec mpi_option(const char **mpi) {
    return (option_spec){"mpi",
                         OPTION_CHOICE,
                         mpi,
                         "NAME",
                         "MPI to run under: {} (default: that of the launcher, if any)",
                         .values = VALUE_WORD,
                         .words = names};
}

bool join_ranks(const char *mpi, lab_ranks *ranks, const lab_ranks **joined, bool *quiet,
                lab_error *error) {
    *joined = NULL;
    if (!lab_ranks_open(mpi, ranks, error))
        return false;
    if (ranks->size > 0)
        *joined = ranks;
    *quiet = *quiet || !lab_is_first(*joined);
    return true;
}

/* The others have got it with the number of that rank. */
int report_rank_error(const lab_ranks *ranks, const lab_error *error) {
    bool is_told = strstr(error->text, " (rank ") || error->kind == LAB_STOPPED;
    if (!ranks || !is_told || (lab_is_first(ranks) && error->kind == LAB_STOPPED))
        return report_lab_error(error);
    return lab_error_status(error);
}

int report_rank_failure(const lab_ranks *ranks, const lab_error *error) {
    if (!ranks || (lab_interrupted() && lab_is_first(ranks)))
        return report_failure(error);
    return report_rank_error(ranks, error);
}

void close_ranks(const lab_ranks *ranks, int status) {
    lab_ranks_close(ranks,
                    status == STATUS_OK || status == STATUS_STOPPED || status == STATUS_NOTHING);
}
