/* What the statements of `whet theory` share. */
#ifndef WHET_CLI_THEORY_H
#define WHET_CLI_THEORY_H

#include "retrieval.h"
#include "number_table.h"

typedef struct theory_run {
    double spread, temperature, mass, gain;
    uint64_t layers, layer_heads, seed;
    const char *heads_path; /* of the trained head; NULL: one is trained when first needed */
    laboratory lab;         /* for the trained head */
    bool has_head;
    json_t *results; /* an object; each statement sets a member of its name */
} theory_run;

/* Prints a table, and keeps it with `more` (a new reference to an object, or NULL) under the
 * statement's name. Returns an exit status. */
int tell_numbers(theory_run *run, const char *statement, const number_table *of, json_t *more);

/* The statements on a trained head; each returns an exit status. */
int show_lemma(theory_run *run);
int show_spread(theory_run *run);
int show_trained_precision(theory_run *run);

#endif
