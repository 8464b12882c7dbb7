/*
 * Results for printing: sections (one table each) of cases (one shape each) of
 * entries (one contender each). An entry has its time, its rate in the
 * section's unit, and ratios to others, one figure for each of the section's
 * columns, perhaps with a bar that it should reach.
 */
#ifndef WHET_BENCH_REPORT_H
#define WHET_BENCH_REPORT_H

#include "measure.h"

#include <stdbool.h>

enum { COLUMNS_MAX = 3, ENTRIES_MAX = 12, FACTS_MAX = 10, SECTIONS_MAX = 16 };

typedef enum report_unit {
    UNIT_NS_PER_VALUE, /* work in values */
    UNIT_GFLOPS,       /* work in FLOPs */
    UNIT_GBS,          /* work in bytes */
    UNIT_STEPS,        /* work in training steps */
    UNIT_TOKENS        /* work in tokens */
} report_unit;

typedef enum report_comparison {
    COMPARE_TIMES,  /* our time / theirs */
    COMPARE_SHARE,  /* our rate / theirs, shown in per cent */
    COMPARE_SPEEDUP /* the same, shown as it is */
} report_comparison;

typedef struct report_column {
    const char *title; /* "times copy"; NULL for no column */
    report_comparison comparison;
} report_column;

typedef enum report_bar { BAR_NONE, BAR_AT_MOST, BAR_AT_LEAST } report_bar;

/* One figure of an entry; absent where best is 0. */
typedef struct report_figure {
    double best;
    double median;
    double low, high; /* of the median, with 95 %; 0 and infinity where there are too few rounds */
    report_bar bar;
    double bar_value;
} report_figure;

typedef struct report_entry {
    char name[32];
    const char *variant; /* or NULL */
    size_t rounds;
    double work;
    double seconds_best, seconds_median;
    double rate_best, rate_median;
    report_figure figures[COLUMNS_MAX];
} report_entry;

/* A number printed beside the table, such as the mean beta. */
typedef struct report_fact {
    const char *name; /* words with spaces: "mean beta" */
    double value;
} report_fact;

/* The share of the time for which the process had a processor. */
#define FACT_PRESENCE "percent on cpu"

/* Below this, in per cent, other programs disturbed a case too much to judge its bars. */
enum { PRESENCE_NEEDED = 90 };

typedef struct report_case {
    char label[40];
    report_entry entries[ENTRIES_MAX];
    size_t entry_count;
    report_fact facts[FACTS_MAX];
    size_t fact_count;
} report_case;

typedef struct report_section {
    const char *name; /* "rows" */
    char title[96];
    report_unit unit;
    report_column columns[COLUMNS_MAX];
    report_case *cases;
    size_t case_count;
} report_section;

typedef struct report {
    char cpu[96];
    char blas[128]; /* description of sgemm, or why there is none; empty if not needed */
    bool quick;
    size_t threads; /* compared with one */
    report_section sections[SECTIONS_MAX];
    size_t section_count;
    char error[160]; /* why the run stopped, or empty */
    bool is_silent;  /* another process prints it */
} report;

/* Appends a section; its name and the titles of its columns must live as long as the report. */
report_section *bench_report_add_section(report *to, const char *name, report_unit unit,
                                         const report_column *columns);

/* Appends a copy of a case; false (and an error in the report) when memory runs out. */
bool bench_report_add_case(report *to, report_section *section, const report_case *added);

/* What an entry is compared with: names of series, one for each column, NULL for none. */
typedef struct report_against {
    const char *names[COLUMNS_MAX];
} report_against;

/* Appends an entry for the series of a name, compared with others that were measured with it. NULL
 * if there is no such series; missing others are left out. */
report_entry *bench_report_add_entry(const report_section *section, report_case *to,
                                     const measurement *from, const char *name,
                                     report_against against);

/* Does nothing if there is no entry (NULL). */
void bench_report_set_bar(report_entry *entry, size_t column, report_bar bar, double value);

void bench_report_add_fact(report_case *to, const char *name, double value);

/* Whether a figure's best reaches its bar; true if it has none. */
bool bench_report_meets(const report_figure *figure);

/* The share of the time, in per cent, for which a case had the processors that its threads need;
 * NULL where unknown, as beside torch. */
const report_fact *bench_report_presence(const report_case *of);

/* Whether other programs used the processor for too much of a case's time. */
bool bench_report_disturbed(const report_case *of);

/* Records why the run cannot continue and returns false. */
bool bench_report_fail(report *to, const char *what, const char *why);

void bench_report_free(report *to);

#endif
