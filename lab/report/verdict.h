/*
 * Which of the paper's figures and tables were reproduced, by which measure, and
 * which were not: computed from the results, and free to say no.
 */
#ifndef WHET_LAB_REPORT_VERDICT_H
#define WHET_LAB_REPORT_VERDICT_H

#include "report/experiment.h"
#include "report/figures.h"

#include <stdio.h>

typedef enum verdict_state {
    VERDICT_YES,
    VERDICT_PARTLY,
    VERDICT_NO,
    VERDICT_NOT_MADE, /* this run has not what it takes */
    VERDICT_STATES
} verdict_state;

typedef struct verdict {
    const char *subject; /* "Table 1" */
    const char *part;    /* the part of the report that shows it, or NULL */
    const char *claim;   /* what the paper says */
    const char *measure; /* what counts as reproduced */
    verdict_state state;
    char found[192]; /* what was found, as a sentence without its full stop */
} verdict;

enum { VERDICTS = 10 };

/* All of them, in the paper's order. Results that are not there are not made. */
void verdicts_of(const experiment *experiment, verdict list[VERDICTS]);

/* One by one, from data of the kind that the report keeps; NULL: not made. */
verdict verdict_table1(const json_t *table);
verdict verdict_gain(const json_t *table);
verdict verdict_figure1(const figure_dispersion_data *data);
verdict verdict_figure2(const json_t *panels);
verdict verdict_figure4(double largest_difference);
verdict verdict_figure5(const double *surfaces);
verdict verdict_figure6(const json_t *fit);
verdict verdict_figure7(const json_t *plain, const json_t *sharp);
verdict verdict_figures89(const json_t *clrs);

/* "Reproduced: Table 1, Figures 1 and 2. Not reproduced: Figure 6." */
void verdict_summary(FILE *file, const verdict list[VERDICTS]);

/* For the page: a table. For terminals: the summary and a line each. */
void verdict_html(FILE *file, const verdict list[VERDICTS]);
void verdict_print(FILE *file, const verdict list[VERDICTS]);

#endif
