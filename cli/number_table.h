/* Numbers under headings that are printed as a table and kept as JSON from one description. */
#ifndef WHET_CLI_NUMBER_TABLE_H
#define WHET_CLI_NUMBER_TABLE_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

typedef enum number_look {
    LOOK_SIZE,       /* 131,072; a power of ten where that is too long */
    LOOK_FIXED,      /* digits after the point */
    LOOK_SIGNIFICANT /* significant digits */
} number_look;

typedef struct number_column {
    const char *title; /* in the table */
    const char *key;   /* in JSON */
    number_look look;
    int digits;
} number_column;

/* values: [rows][columns]. */
typedef struct number_table {
    const number_column *columns;
    size_t column_count;
    const double *values;
    size_t rows;
} number_table;

/* Prints the table; an exit status. */
int print_number_table(const number_table *of);

/* An array with an object a row, a new reference. */
json_t *number_table_json(const number_table *of);

enum { NUMBER_TEXT_SIZE = 48 };
const char *number_text(double value, number_look look, int digits, char text[NUMBER_TEXT_SIZE]);

#endif
