/*
 * The parts of the report: one table that ties a name to its picture, the words
 * beside it and the function that draws it. `whet figure`, `whet reproduce` and
 * the page all go through it.
 */
#ifndef WHET_LAB_REPORT_PARTS_H
#define WHET_LAB_REPORT_PARTS_H

#include "report/experiment.h"

#include <stdio.h>

typedef struct report_table {
    const json_t *(*make)(experiment *experiment, lab_error *error);
    const json_t *(*kept)(const experiment *experiment); /* NULL until it is made or recalled */
    bool (*print)(FILE *file, const json_t *result);     /* false when memory runs out */
    void (*html)(FILE *file, const json_t *result);
} report_table;

typedef struct report_part {
    const char *name;  /* "figure2", "accuracy" */
    const char *title; /* a heading */
    const char *text;  /* two sentences, HTML; for figures also what the picture shows */
    /* Draws it to a .svg or .png; NULL for tables. */
    bool (*draw)(experiment *experiment, const char *path, lab_error *error);
    const report_table *table;                             /* NULL for figures */
    void (*csv)(FILE *file, const experiment *experiment); /* its numbers */
    unsigned needs;                                        /* the jobs whose results it shows */
    bool is_extra;     /* made at full scale, or when it is named */
    bool is_live;      /* shows a head being trained: not where all heads are trained anyway */
    const char *group; /* a part with which it is made, or NULL */
} report_part;

/* Part i in the order of the report, or NULL past the end. */
const report_part *report_part_at(size_t i);

/* By name; a bare number stands for a figure of the paper. NULL if there is none. */
const report_part *report_part_named(const char *name);

/* For figures of the paper that other commands make: which one, or NULL. */
const char *report_elsewhere(const char *name);

#endif
