/*
 * Several threads against one: the same work run by the calling thread and by
 * the suite's pool, and a limit of the machine likewise, which shows how much
 * there is to gain at all.
 */
#ifndef WHET_BENCH_SPEEDUP_H
#define WHET_BENCH_SPEEDUP_H

#include "suite.h"

/* A limit in parts for the pool: `arguments` are those of the parts, argument_size bytes apart. */
typedef struct parallel_work {
    const whet_executor *executor;
    size_t parts;
    void (*run)(void *argument);
    unsigned char *arguments;
    size_t argument_size;
} parallel_work;

/* For contenders: runs all parts on the pool. The argument is a parallel_work. */
void bench_parallel_run(void *argument);

/* A section for several threads, or NULL if only one is wanted. */
report_section *bench_speedup_section(suite *with, const char *name, report_unit unit);

/* Contenders for the limit on one thread and on the pool: `one` and `many` differ in name; the
 * `count` of each are variants. */
typedef struct speedup_limit {
    const contender *one;
    const contender *many;
    size_t count;
} speedup_limit;

/* The name on the pool of what is called `name` on one thread: "plain, 2 threads". */
void bench_speedup_name(const suite *with, const char *name, char *result, size_t size);

/* Measures attention, plain and adaptive, and a limit, and adds the case. */
bool bench_speedup_case(suite *with, report_section *section, const char *label,
                        const whet_attention *attention, double work, speedup_limit limit);

#endif
