/*
 * An executor for simulated ranks. Without `is_sampled` it runs every task. With it, it stands for
 * a node of so many cores: tasks run in rounds, one for each core; of a kind of task the first few,
 * on whichever ranks, are run and timed, and all others take their median time without
 * being run. Results are then meaningless, but what is sent does not depend on them. SMPI's own
 * loops, SMPI_SAMPLE_GLOBAL, do the same with a mean, but each is an event of the simulation: with
 * a million blocks of prefill these would take longer than everything else.
 */
#ifndef WHET_SIMULATION_SAMPLING_H
#define WHET_SIMULATION_SAMPLING_H

#include "whet.h"
#include <stdbool.h>

typedef struct sampling {
    size_t cores;
    bool is_sampled, is_prefill;
    const char *kind; /* of work, or NULL */
    size_t call;      /* parallel_for calls of that kind so far */
    double seconds;   /* of all tasks */
    double owed;      /* of these, what the simulated clock has not seen yet */
} sampling;

whet_executor sampling_executor(sampling *s);

/* Before each execution of a plan. */
void sampling_restart(sampling *s);

/* What each message of a reduction takes besides: see report.py. */
void sampling_set_swap(double seconds);

/* Lets the simulated clock see all of it. */
void sampling_pay(sampling *s);

/* Memory that ranks share where tasks are sampled; freed by free(). */
void *sampling_allocate(size_t bytes);
void sampling_share_memory(bool is_shared);

#endif
