/* Samples on standard output: as lines of JSON, or as plain text. */
#ifndef WHET_CLI_CLRS_RECORD_H
#define WHET_CLI_CLRS_RECORD_H

#include "options.h"

#include "clrs/clrs.h"

#include <stdio.h>

typedef struct clrs_record_form {
    bool as_text; /* the question and the answer, and nothing else */
    int64_t decimals;
    clrs_ties ties;
    const uint64_t *position; /* in a mixed stream, or NULL */
} clrs_record_form;

/* --format jsonl or text. */
option_spec clrs_format_option(const char **format);

void clrs_print_record(FILE *file, const clrs_sample *sample, const clrs_record_form *form);

#endif
