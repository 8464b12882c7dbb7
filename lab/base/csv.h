/* Comma-separated values (RFC 4180), written field by field. */
#ifndef WHET_LAB_CSV_H
#define WHET_LAB_CSV_H

#include <stdbool.h>
#include <stdio.h>

typedef struct lab_csv {
    FILE *file;
    bool is_inside; /* a line has been started */
} lab_csv;

/* Texts are quoted where necessary; numbers have enough digits to read back the same double, and
 * are empty where they are not finite. */
void lab_csv_text(lab_csv *csv, const char *text);
void lab_csv_number(lab_csv *csv, double value);
void lab_csv_end_line(lab_csv *csv);

#endif
