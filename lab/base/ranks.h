/*
 * Processes that work on one thing together, such as a training run under mpirun. All of them run
 * the same program with the same options; what one has computed it shares with the others. The
 * laboratory knows no MPI: a module has it, which is loaded on demand (see ranks_open.c), so that
 * the program starts where there is none. NULL, in place of ranks, is a process alone.
 */
#ifndef WHET_LAB_RANKS_H
#define WHET_LAB_RANKS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef struct lab_ranks lab_ranks;
struct lab_ranks {
    int rank, size;
    /* Rank r has bytes [ends[r - 1], ends[r]) of data, rank 0 those before ends[0]; afterwards all
     * ranks have all of them. If another rank has died, the process ends. */
    void (*share)(const lab_ranks *ranks, void *data, const size_t *ends);
    /* After the last call of share, by all ranks. */
    void (*close)(const lab_ranks *ranks);
    const struct lab_ranks_decode *decode; /* see ranks_decode.h */
};

/* The name by which a module is asked to start: sets everything, or returns false. */
#define LAB_RANKS_START "whet_ranks_start"
typedef bool (*lab_ranks_start)(lab_ranks *ranks);

/* Which MPI has started this process, by its launcher's variables: "openmpi", "mpich" or NULL. */
const char *lab_ranks_launcher(void);

/* Loads the module of an MPI: "openmpi", "mpich", or NULL for that of the launcher. With neither,
 * or with "none", ranks->size is 0. False if there is no module for it, or it fails to start. */
bool lab_ranks_open(const char *mpi, lab_ranks *ranks, lab_error *error);

/* Ends it; a process that has failed alone does not wait for the others: the launcher ends them. */
void lab_ranks_close(const lab_ranks *ranks, bool is_good);

static inline bool lab_is_first(const lab_ranks *ranks) { return !ranks || ranks->rank == 0; }

/* The first of `count` things that rank r has; those up to the first of rank r + 1 are its own. */
static inline size_t lab_rank_first(const lab_ranks *ranks, size_t count, int rank) {
    return ranks ? count * (size_t)rank / (size_t)ranks->size : rank == 0 ? 0 : count;
}

/* Shares `count` things of `bytes` each, dealt like that. */
void lab_ranks_share(const lab_ranks *ranks, void *data, size_t count, size_t bytes);

/* Gives all ranks what one has, or the first. */
void lab_ranks_give(const lab_ranks *ranks, int owner, void *data, size_t bytes);
void lab_ranks_broadcast(const lab_ranks *ranks, void *data, size_t bytes);

/* Whether it is true of any rank. */
bool lab_ranks_any(const lab_ranks *ranks, bool is_true);

typedef struct json_t json_t;

/* Whether all ranks have been successful. If not, each has an error: its own or that of the first
 * that failed. */
bool lab_ranks_agree(const lab_ranks *ranks, bool is_good, lab_error *error);

/* Gives all ranks a copy of the first one's value, or NULL; the others have NULL at first. False
 * and an error, on all, where memory runs out. */
bool lab_ranks_give_json(const lab_ranks *ranks, json_t **json, lab_error *error);

/* Refuses options that are not everywhere those of the first rank. They are stolen. */
bool lab_ranks_same_options(const lab_ranks *ranks, json_t *options, lab_error *error);

#endif
