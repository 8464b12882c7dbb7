/* How the report of `whet bench` is shown: as tables for people, as JSON for programs. */
#ifndef WHET_CLI_BENCH_H
#define WHET_CLI_BENCH_H

#include "report.h"

#include <stdio.h>

/* Tables no wider than 80 columns. */
void print_bench_tables(FILE *file, const report *shown);

/* One JSON object with every figure. The second argument is a report. */
void print_bench_json(FILE *file, const void *context);

/* `whet bench clrs`; argv[0] is "clrs". */
int command_bench_clrs(int argc, char **argv);

#endif
