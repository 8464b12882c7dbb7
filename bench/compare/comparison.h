/* What a comparison of two builds found, and how it is shown. */
#ifndef WHET_BENCH_COMPARE_COMPARISON_H
#define WHET_BENCH_COMPARE_COMPARISON_H

#include "paired.h"

#include <stdbool.h>
#include <stddef.h>

enum { COMPARED_MAX = 512, COMPARED_NAME = 160 };

typedef struct compared_case {
    char name[COMPARED_NAME];        /* "rows n=4096 adaptive" */
    size_t place;                    /* in the table */
    double old_seconds, new_seconds; /* a run, in the median */
    paired_ratio ratio;              /* new / old */
} compared_case;

/* Names of cases that only one of the builds has. */
typedef struct lone_cases {
    char names[COMPARED_MAX][COMPARED_NAME];
    size_t count;
} lone_cases;

typedef struct comparison {
    const char *old_path, *new_path;
    const char *old_library, *new_library; /* "0.3.0 (avx2)" */
    double bar;
    compared_case cases[COMPARED_MAX];
    size_t count;
    lone_cases only_old, only_new;
} comparison;

void comparison_add(comparison *to, const compared_case *added);
void comparison_add_lone(lone_cases *to, const char *name);

/* Sorts the cases by their places. */
void comparison_sort(comparison *sorted);

/* Whether a whole interval lies above the bar, and how many do. */
bool comparison_is_above(const comparison *in, const compared_case *one);
size_t comparison_above(const comparison *in);

/* The table on standard output, ended by the line that counts the cases above the bar. */
void comparison_print(const comparison *shown);

/* Replaces a file ('-' is standard output); false after a message on standard error. */
bool comparison_write_json(const comparison *written, const char *path);

#endif
