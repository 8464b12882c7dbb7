/* `whet tune --html`: what was found, as one page that needs no other file and no script. */
#ifndef WHET_LAB_TUNE_PAGE_H
#define WHET_LAB_TUNE_PAGE_H

#include "tune/tune.h"

/* What the result does not know. */
typedef struct tune_page {
    const tune_request *request;
    const tune_result *result;
    const char *out; /* the file for WHET_CONFIG */
    double seconds;  /* that the run took */
    const char *const *arguments;
    size_t argument_count; /* of the command, from "tune" on */
} tune_page;

/* Replaces a file as a whole; "-" is standard output. */
bool tune_page_write(const char *path, const tune_page *page, lab_error *error);

/* page_text.c: the verdict, in a paragraph or two. */
void tune_page_verdict(FILE *file, const tune_page *page);

/* page_tables.c: arms on a check domain or (SIZE_MAX) all of them, on the task, and candidates. */
void tune_page_arms(FILE *file, const tune_result *result, size_t domain);
void tune_page_task(FILE *file, const tune_result *result);
void tune_page_candidates(FILE *file, const tune_page *page);

/* "−1.20 % [−1.40, −1.00]" of shares, or without the unit and as they are; "–" for none. */
void tune_page_change(FILE *file, lab_interval change, bool is_share);

#endif
