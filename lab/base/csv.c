/* Comma-separated values. */
#include "base/csv.h"

#include <math.h>
#include <string.h>

static void begin_field(lab_csv *csv) {
    if (csv->is_inside)
        fputc(',', csv->file);
    csv->is_inside = true;
}

void lab_csv_text(lab_csv *csv, const char *text) {
    begin_field(csv);
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, csv->file);
        return;
    }
    fputc('"', csv->file);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', csv->file);
        fputc(*text, csv->file);
    }
    fputc('"', csv->file);
}

void lab_csv_number(lab_csv *csv, double value) {
    begin_field(csv);
    if (isfinite(value))
        fprintf(csv->file, "%.17g", value);
}

void lab_csv_end_line(lab_csv *csv) {
    fputc('\n', csv->file);
    csv->is_inside = false;
}
