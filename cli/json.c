/*
 * JSON output. The format knows neither NaN nor infinities, which become null;
 * other numbers get the fewest of 15, 16 or 17 digits that read back the same.
 */
#include "json.h"

#include <math.h>
#include <stdlib.h>

void json_number(FILE *file, double value) {
    if (!isfinite(value)) {
        fputs("null", file);
        return;
    }
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) /* exactly: that is the point */
            break;
    }
    fputs(text, file);
}

void json_text(FILE *file, const char *text) {
    fputc('"', file);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}
